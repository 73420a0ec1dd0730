//! One source of the registry: how it is configured, what it offers at the moment, and what was accepted of it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use countersign_core::digest::Digest;
use countersign_kernel::ports::{
    SourceConfig, SourceDetail, SourceHealth, SourceKind, SourceOrigin, SourceSummary, SourceTool,
    SourcesError, ToolStanding, UnmappedOperation,
};
use countersign_sdk::{Tool, ToolPath};

use crate::choice::ToolChoice;
use crate::connect::Connection;
use crate::figures::Figures;
use crate::offer::{Offer, OfferedTool};
use crate::pin::{Compared, compare};
use crate::tools::Accepted;

/// A source.
pub(crate) struct Entry {
    pub(crate) config: SourceConfig,
    pub(crate) origin: SourceOrigin,
    choice: ToolChoice,
    figures: Arc<Figures>,
    /// Held by whoever changes the source.
    pub(crate) turn: tokio::sync::Mutex<()>,
    state: Mutex<State>,
}

/// What is known of a source at the moment.
pub(crate) struct State {
    pub(crate) health: SourceHealth,
    pub(crate) problem: Option<String>,
    pub(crate) offer: Offer,
    pub(crate) accepted: Vec<OfferedTool>,
    pub(crate) connection: Option<Arc<Connection>>,
}

impl Entry {
    pub(crate) fn new(
        config: SourceConfig,
        origin: SourceOrigin,
        accepted: Vec<OfferedTool>,
    ) -> Result<Self, SourcesError> {
        check_name(&config.name)?;
        let choice = ToolChoice::of(&config.name, &config.tools)?;
        let state = State {
            health: SourceHealth::Loading,
            problem: None,
            offer: Offer::default(),
            accepted,
            connection: None,
        };
        Ok(Self {
            config,
            origin,
            choice,
            figures: Arc::default(),
            turn: tokio::sync::Mutex::default(),
            state: Mutex::new(state),
        })
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn given_names(&self) -> BTreeMap<String, String> {
        self.state().accepted.iter().map(|tool| (tool.origin.clone(), tool.name.clone())).collect()
    }

    pub(crate) fn path(&self, tool: &OfferedTool) -> Option<ToolPath> {
        ToolPath::parse(&format!("{}.{}", self.config.name, tool.name)).ok()
    }

    pub(crate) fn is_named(&self, found: &Compared, path: &str) -> bool {
        found.tool.name == path
            || path.strip_prefix(&self.config.name).and_then(|rest| rest.strip_prefix('.'))
                == Some(&found.tool.name)
    }

    /// Every tool with its standing; what the operator leaves out is excluded, whatever else it is.
    pub(crate) fn compared(&self) -> Vec<Compared> {
        let state = self.state();
        let mut compared = compare(&state.accepted, &state.offer);
        drop(state);
        for found in &mut compared {
            if !self.path(&found.tool).is_some_and(|path| self.choice.takes(&path)) {
                found.standing = ToolStanding::Excluded;
            }
        }
        compared
    }

    /// What a person has yet to look at.
    pub(crate) fn waiting(&self) -> Vec<Compared> {
        let waits = |found: &Compared| {
            matches!(found.standing, ToolStanding::New | ToolStanding::Changed | ToolStanding::Missing)
        };
        self.compared().into_iter().filter(waits).collect()
    }

    /// The tools that can be called.
    pub(crate) fn tools(&self) -> Vec<Tool> {
        let Some(connection) = self.state().connection.clone() else { return Vec::new() };
        let mut tools = Vec::new();
        for found in self.compared().iter().filter(|found| found.standing == ToolStanding::Accepted) {
            let Some(path) = self.path(&found.tool) else { continue };
            let accepted = Accepted {
                source: &self.config.name,
                path: &path,
                tool: &found.tool,
                effects: self.choice.effects(&path, &found.tool),
                figures: Arc::clone(&self.figures),
            };
            match accepted.tool(&connection) {
                Some(Ok(tool)) => tools.push(tool),
                // One tool that cannot be used must not spoil the others.
                Some(Err(error)) => tracing::warn!(%path, %error, "the tool cannot be used"),
                None => {}
            }
        }
        tools
    }

    pub(crate) fn digest(&self) -> String {
        let offer = serde_json::to_vec(&self.state().offer).unwrap_or_default();
        Digest::of(&offer).to_string()
    }

    pub(crate) fn detail(&self) -> SourceDetail {
        let compared = self.compared();
        let summary = self.summary(&compared);
        let tools = compared.into_iter().filter_map(|found| {
            let path = self.path(&found.tool)?;
            Some(SourceTool {
                effect: self.choice.effects(&path, &found.tool).class(),
                path: path.to_string(),
                origin: found.tool.origin,
                description: found.tool.description,
                standing: found.standing,
                changes: found.changes,
            })
        });
        let tools = tools.collect();
        let digest = self.digest();
        let state = self.state();
        let unmapped = state.offer.unmapped.iter().map(|operation| UnmappedOperation {
            origin: operation.origin.clone(),
            reason: operation.reason.clone(),
        });
        SourceDetail {
            summary,
            digest,
            tools,
            unmapped: unmapped.collect(),
            warnings: state.offer.warnings.clone(),
        }
    }

    pub(crate) fn summary(&self, compared: &[Compared]) -> SourceSummary {
        let count = |standing| compared.iter().filter(|found| found.standing == standing).count();
        let state = self.state();
        SourceSummary {
            name: self.config.name.clone(),
            kind: kind(&self.config.kind),
            target: target(&self.config.kind),
            origin: self.origin,
            health: state.health,
            problem: state.problem.clone(),
            callable: if state.connection.is_some() { count(ToolStanding::Accepted) } else { 0 },
            new: count(ToolStanding::New),
            changed: count(ToolStanding::Changed),
            missing: count(ToolStanding::Missing),
            unmapped: state.offer.unmapped.len(),
            calls: self.figures.now(),
        }
    }

    pub(crate) async fn close(&self) {
        let connection = self.state().connection.take();
        if let Some(connection) = connection
            && let Connection::Mcp(upstream) = &*connection
        {
            upstream.close().await;
        }
    }
}

fn check_name(name: &str) -> Result<(), SourcesError> {
    match ToolPath::parse(&format!("{name}.x")) {
        Ok(_) if !name.contains('.') => Ok(()),
        Ok(_) => Err(SourcesError::BadConfig(format!("{name:?} is no name for a source: it has a dot"))),
        Err(error) => Err(SourcesError::BadConfig(format!("{name:?} is no name for a source: {error}"))),
    }
}

fn kind(kind: &SourceKind) -> &'static str {
    match kind {
        SourceKind::Mcp { .. } => "mcp",
        SourceKind::OpenApi { .. } => "openapi",
        SourceKind::GraphQl { .. } => "graphql",
    }
}

fn target(kind: &SourceKind) -> String {
    match kind {
        SourceKind::Mcp { url: Some(url), .. } => url.clone(),
        SourceKind::Mcp { command, .. } => command.join(" "),
        SourceKind::OpenApi { document, .. } => document.clone(),
        SourceKind::GraphQl { url, .. } => url.clone(),
    }
}
