//! One source of the registry: how it is configured, what it offers at the moment, and what was accepted of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use countersign_core::digest::Digest;
use countersign_kernel::ports::{
    EffectSetting, SourceConfig, SourceDetail, SourceHealth, SourceKind, SourceOrigin, SourceSummary,
    SourceTool, SourcesError, ToolSettings, ToolStanding, UnmappedOperation,
};
use countersign_sdk::{EffectClass, Tool, ToolPath};

use crate::choice::ToolChoice;
use crate::connect::Connection;
use crate::figures::Figures;
use crate::http::FAILURES_TO_OPEN;
use crate::offer::{Offer, OfferedTool, Unmapped};
use crate::pin::{Compared, compare, definition, share, standings};
use crate::reach;
use crate::tools::Accepted;

/// A source under one configuration. Another one that only says something else of its tools shares its state and its turn.
pub(crate) struct Entry {
    pub(crate) config: SourceConfig,
    pub(crate) origin: SourceOrigin,
    choice: ToolChoice,
    figures: Arc<Figures>,
    /// Held by whoever changes the source.
    pub(crate) turn: Arc<tokio::sync::Mutex<()>>,
    state: Arc<Mutex<State>>,
}

/// What is known of a source at the moment.
pub(crate) struct State {
    pub(crate) health: SourceHealth,
    pub(crate) problem: Option<String>,
    offered: Vec<Arc<OfferedTool>>,
    unmapped: Vec<Unmapped>,
    warnings: Vec<String>,
    accepted: Vec<Arc<OfferedTool>>,
    pub(crate) connection: Option<Arc<Connection>>,
}

impl State {
    /// Keeps what the source offers now.
    pub(crate) fn offers(&mut self, offer: Offer) {
        self.offered = offer.tools.into_iter().map(Arc::new).collect();
        (self.unmapped, self.warnings) = (offer.unmapped, offer.warnings);
        share(&mut self.accepted, &self.offered);
    }

    /// Whether the source is a large one.
    pub(crate) fn offers_at_least(&self, tools: usize) -> bool {
        self.offered.len() >= tools
    }

    /// Whether this is what the source offered when it was read last.
    pub(crate) fn is_offered(&self, offer: &Offer) -> bool {
        let tools = self.offered.iter().map(Arc::as_ref);
        tools.eq(&offer.tools) && (&self.unmapped, &self.warnings) == (&offer.unmapped, &offer.warnings)
    }

    /// Keeps that definitions were accepted, and that others are gone.
    pub(crate) fn accept(&mut self, accepted: &[Compared]) {
        let origins: BTreeSet<&str> = accepted.iter().map(|found| found.tool.origin.as_str()).collect();
        self.accepted.retain(|tool| !origins.contains(tool.origin.as_str()));
        let kept = accepted.iter().filter(|found| found.standing != ToolStanding::Missing);
        self.accepted.extend(kept.map(|found| Arc::clone(&found.tool)));
    }
}

impl Entry {
    pub(crate) fn new(
        config: SourceConfig,
        origin: SourceOrigin,
        accepted: Vec<OfferedTool>,
    ) -> Result<Self, SourcesError> {
        check_name(&config.name)?;
        reach::check(&config)?;
        let choice = ToolChoice::of(&config.name, &config.tools)?;
        let state = State {
            health: SourceHealth::Loading,
            problem: None,
            offered: Vec::new(),
            unmapped: Vec::new(),
            warnings: Vec::new(),
            accepted: accepted.into_iter().map(Arc::new).collect(),
            connection: None,
        };
        Ok(Self {
            config,
            origin,
            choice,
            figures: Arc::default(),
            turn: Arc::default(),
            state: Arc::new(Mutex::new(state)),
        })
    }

    /// The same source where something else is said of one tool's effect, and how that changes it. It stays connected.
    pub(crate) fn with_effect(&self, what: &EffectSetting) -> Result<(Self, String), SourcesError> {
        let compared = self.compared();
        let found = compared.iter().find(|found| self.is_named(found, &what.path));
        let named = found.and_then(|found| Some((&found.tool, self.path(&found.tool)?)));
        let Some((tool, path)) = named else {
            let reason = format!("{:?} is no tool of {}", what.path, self.config.name);
            return Err(SourcesError::BadConfig(reason));
        };
        let mut config = self.config.clone();
        say_effect(&mut config.tools, &tool.name, what.effect);
        let choice = ToolChoice::of(&config.name, &config.tools)?;
        let counts = choice.effects(&path, tool).class();
        if what.effect.is_some_and(|wanted| wanted != counts) {
            let reason = format!(
                "a pattern in the settings of {} covers {path} and says that it {}; where several settings cover a tool, the \
                 worst counts. Change the pattern",
                config.name,
                counts.as_str()
            );
            return Err(SourcesError::BadConfig(reason));
        }
        let before = self.choice.effects(&path, tool).class();
        let told = format!("effect of {path}: {} before, {} now", before.as_str(), counts.as_str());
        let next = Self {
            config,
            origin: self.origin,
            choice,
            figures: Arc::clone(&self.figures),
            turn: Arc::clone(&self.turn),
            state: Arc::clone(&self.state),
        };
        Ok((next, told))
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
        let mut compared = compare(&state.accepted, &state.offered);
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
                provider: self.config.provider.as_deref(),
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

    /// Stands for what is shown: what is offered, and what the settings make of it. An effect decides what needs approval.
    pub(crate) fn digest(&self) -> String {
        let state = self.state();
        let offered: Vec<&OfferedTool> = state.offered.iter().map(Arc::as_ref).collect();
        let all = (offered, &state.unmapped, &state.warnings, &self.config.tools);
        let shown = serde_json::to_vec(&all).unwrap_or_default();
        Digest::of(&shown).to_string()
    }

    pub(crate) fn detail(&self) -> SourceDetail {
        let summary = self.summary();
        let tools = self.compared().into_iter().filter_map(|found| {
            let path = self.path(&found.tool)?;
            Some(SourceTool {
                effect: self.choice.effects(&path, &found.tool).class(),
                offered_effect: found.tool.effects.class(),
                path: path.to_string(),
                definition: (found.standing == ToolStanding::New).then(|| definition(&found.tool).into()),
                origin: found.tool.origin.clone(),
                server: found.tool.server.clone(),
                description: found.tool.description.clone(),
                standing: found.standing,
                changes: found.changes,
            })
        });
        let tools = tools.collect();
        let digest = self.digest();
        let state = self.state();
        let unmapped = state.unmapped.iter().map(|operation| UnmappedOperation {
            origin: operation.origin.clone(),
            reason: operation.reason.clone(),
        });
        SourceDetail {
            summary,
            digest,
            tools,
            unmapped: unmapped.collect(),
            warnings: state.warnings.clone(),
        }
    }

    pub(crate) fn summary(&self) -> SourceSummary {
        let state = self.state();
        let mut found = standings(&state.accepted, &state.offered);
        found.retain(|found| self.path(found.tool).is_some_and(|path| self.choice.takes(&path)));
        let pause = state.connection.as_ref().and_then(|connection| connection.pause());
        let (health, problem) = match pause {
            Some(pause) if state.health == SourceHealth::Ready => (SourceHealth::Paused, Some(paused(pause))),
            _ => (state.health, state.problem.clone()),
        };
        let count = |standing| found.iter().filter(|found| found.standing == standing).count();
        SourceSummary {
            name: self.config.name.clone(),
            kind: kind(&self.config.kind),
            target: target(&self.config.kind),
            origin: self.origin,
            health,
            problem,
            callable: if state.connection.is_some() { count(ToolStanding::Accepted) } else { 0 },
            new: count(ToolStanding::New),
            changed: count(ToolStanding::Changed),
            missing: count(ToolStanding::Missing),
            unmapped: state.unmapped.len(),
            calls: self.figures.now(),
        }
    }

    /// Starts a server again that was left off because it ended too often.
    pub(crate) fn revive(&self) {
        if let Some(Connection::Mcp(upstream)) = self.state().connection.as_deref() {
            upstream.revive();
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

/// Why calls are refused at present.
fn paused(pause: Duration) -> String {
    let again = match pause.as_millis().div_ceil(1_000) {
        0 => "the next call tries it again".to_owned(),
        seconds => format!("it is tried again in {seconds} s"),
    };
    format!("its calls failed {FAILURES_TO_OPEN} times in a row and are paused; {again}")
}

/// Says what a tool does, by its exact name; what other patterns say of it stays.
fn say_effect(tools: &mut ToolSettings, name: &str, effect: Option<EffectClass>) {
    for (class, patterns) in [
        (EffectClass::Reads, &mut tools.read_only),
        (EffectClass::Writes, &mut tools.writes),
        (EffectClass::Destroys, &mut tools.destructive),
    ] {
        patterns.retain(|pattern| pattern != name);
        if effect == Some(class) {
            patterns.push(name.to_owned());
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
