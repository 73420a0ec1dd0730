//! The registry: every source of a gateway, what it offers, and which of its tools are in the catalog.
//!
//! Promises: a tool is in the catalog only while its source offers exactly the definition that was accepted. Sources are
//! read in the background at the start, so that a source that is away keeps nothing from starting. Changes of one source
//! happen one after another; its tools are swapped whole.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use async_trait::async_trait;
use countersign_core::digest::Digest;
use countersign_kernel::ports::{
    Acceptance, SourceConfig, SourceDetail, SourceHealth, SourceKind, SourceOrigin, SourceRow, SourceSummary,
    SourceTool, SourceToolRow, SourceWrite, Sources, SourcesError, ToolStanding, UnmappedOperation,
};
use countersign_kernel::{Caller, Gateway, GatewayError, SourceError};
use countersign_sdk::{Tool, ToolPath};
use tokio::sync::mpsc;

use crate::choice::ToolChoice;
use crate::connect::{Connecting, Connection, SecretReader};
use crate::figures::Figures;
use crate::mcp::{Events, UpstreamEvent};
use crate::offer::{Offer, OfferedTool};
use crate::pin::{Compared, compare};
use crate::tools::Accepted;

/// The most sources of one gateway.
pub const MAX_SOURCES: usize = 200;
/// How often it is looked whether sources were read, at first and at last.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);
/// How many events of upstream servers may wait to be looked at; a refresh that is due anyway loses nothing with them.
const EVENT_BACKLOG: usize = 1_000;

/// Every source of a gateway. A clone is another handle.
#[derive(Clone)]
pub struct SourceRegistry {
    inner: Arc<Inner>,
}

/// When sources are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// In the background, from the start on: for whoever serves their tools.
    FromTheStart,
    /// When somebody looks at one: for a command that manages sources and calls nothing.
    WhenAsked,
}

struct Inner {
    reading: Reading,
    gateway: Gateway,
    secrets: Arc<dyn SecretReader>,
    entries: Mutex<BTreeMap<String, Arc<Entry>>>,
    events: mpsc::Sender<(String, UpstreamEvent)>,
}

struct Entry {
    config: SourceConfig,
    origin: SourceOrigin,
    choice: ToolChoice,
    figures: Arc<Figures>,
    /// Held by whoever changes the source.
    turn: tokio::sync::Mutex<()>,
    state: Mutex<State>,
}

/// What is known of a source at the moment.
struct State {
    health: SourceHealth,
    problem: Option<String>,
    offer: Offer,
    accepted: Vec<OfferedTool>,
    connection: Option<Arc<Connection>>,
}

impl SourceRegistry {
    /// Takes up the configured sources and those that people added, and begins to read them.
    pub async fn start(
        gateway: Gateway,
        configured: Vec<SourceConfig>,
        secrets: Arc<dyn SecretReader>,
        reading: Reading,
    ) -> Result<Self, SourcesError> {
        let (events, heard) = mpsc::channel(EVENT_BACKLOG);
        let registry =
            Self { inner: Arc::new(Inner { reading, gateway, secrets, entries: Mutex::default(), events }) };
        for config in configured {
            registry.add_entry(config, SourceOrigin::File).await?;
        }
        for row in registry.inner.gateway.sources().await? {
            match SourceConfig::read(&row.config) {
                // The operator's file has the last word on a name.
                Ok(config) if !registry.entries().contains_key(&config.name) => {
                    registry.add_entry(config, SourceOrigin::Added).await?;
                }
                Ok(_) => {
                    tracing::warn!(source = row.name, "the configuration file has a source of this name too");
                }
                Err(error) => tracing::error!(source = row.name, %error, "its configuration cannot be read"),
            }
        }
        if reading == Reading::WhenAsked {
            return Ok(registry);
        }
        tokio::spawn(follow(Arc::downgrade(&registry.inner), heard));
        for name in registry.entries().keys().cloned().collect::<Vec<_>>() {
            let registry = registry.clone();
            tokio::spawn(async move {
                // Its health says what went wrong.
                let _ = registry.refresh(&name).await;
            });
        }
        Ok(registry)
    }

    /// Waits until every source was read or could not be read.
    pub async fn read_all(&self) {
        let entries: Vec<Arc<Entry>> = self.entries().values().cloned().collect();
        for entry in entries {
            let mut pause = FIRST_PAUSE;
            while entry.state().health == SourceHealth::Loading {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }

    /// A source that somebody looks at: read first, where nobody did that yet.
    async fn looked_at(&self, name: &str) -> Result<Arc<Entry>, SourcesError> {
        let entry = self.entry(name)?;
        let unread = entry.state().health == SourceHealth::Loading;
        if unread && self.inner.reading == Reading::WhenAsked {
            self.refresh(name).await?;
        }
        Ok(entry)
    }

    fn entries(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Entry>>> {
        self.inner.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn entry(&self, name: &str) -> Result<Arc<Entry>, SourcesError> {
        self.entries().get(name).cloned().ok_or_else(|| SourcesError::NotFound(name.to_owned()))
    }

    async fn add_entry(
        &self,
        config: SourceConfig,
        origin: SourceOrigin,
    ) -> Result<Arc<Entry>, SourcesError> {
        let accepted = self.accepted(&config.name).await?;
        let entry = Arc::new(Entry::new(config, origin, accepted)?);
        self.entries().insert(entry.config.name.clone(), Arc::clone(&entry));
        Ok(entry)
    }

    /// What was accepted of a source. A definition that cannot be read was not accepted.
    async fn accepted(&self, name: &str) -> Result<Vec<OfferedTool>, SourcesError> {
        let rows = self.inner.gateway.source_tools(name).await?;
        Ok(rows.into_iter().filter_map(|row| serde_json::from_value(row.definition).ok()).collect())
    }

    /// Reads what a source offers, without keeping it.
    async fn read(&self, entry: &Entry) -> Result<(Offer, Arc<Connection>), SourcesError> {
        let known = entry.state().connection.clone();
        let connecting = Connecting {
            config: &entry.config,
            given_names: entry.given_names(),
            secrets: &*self.inner.secrets,
            events: self.events_of(&entry.config.name),
        };
        if let Some(connection) = known
            && let Connection::Mcp(upstream) = &*connection
        {
            upstream.revive();
            let offer = upstream.offer().await.map_err(|e| SourcesError::Unreachable(e.to_string()))?;
            return Ok((connecting.named(offer), connection));
        }
        let (offer, connection) = connecting.connect().await?;
        Ok((offer, Arc::new(connection)))
    }

    fn events_of(&self, name: &str) -> Events {
        let (events, name) = (self.inner.events.clone(), name.to_owned());
        Arc::new(move |event| drop(events.try_send((name.clone(), event))))
    }

    /// Keeps what a source offers, accepts it where its changes are trusted, and brings the catalog up to date.
    async fn keep(
        &self,
        entry: &Entry,
        read: Result<(Offer, Arc<Connection>), SourcesError>,
    ) -> Result<SourceDetail, SourcesError> {
        match read {
            Ok((offer, connection)) => {
                let mut state = entry.state();
                (state.offer, state.connection) = (offer, Some(connection));
                (state.health, state.problem) = (SourceHealth::Ready, None);
            }
            Err(error) => {
                let mut state = entry.state();
                (state.health, state.problem) = (SourceHealth::Failing, Some(error.to_string()));
                return Err(error);
            }
        }
        if entry.config.trust_changes {
            let waiting: Vec<Compared> = entry.waiting();
            self.record(entry, None, &waiting).await?;
        }
        self.publish(entry).await?;
        Ok(entry.detail())
    }

    /// Records that definitions were accepted, and that others are gone.
    async fn record(
        &self,
        entry: &Entry,
        by: Option<&Caller>,
        accepted: &[Compared],
    ) -> Result<(), SourcesError> {
        let source = &entry.config.name;
        let now = self.inner.gateway.now();
        let change = |found: &Compared| -> Option<SourceWrite> {
            let origin = found.tool.origin.clone();
            if found.standing == ToolStanding::Missing {
                return Some(SourceWrite::Forget { source: source.clone(), origin });
            }
            Some(SourceWrite::Accept(SourceToolRow {
                source: source.clone(),
                origin,
                definition: serde_json::to_value(&found.tool).ok()?,
                accepted_at: now,
                accepted_by: by.map(|by| by.principal.id.clone()),
            }))
        };
        let changes = accepted.iter().filter_map(change).collect();
        self.inner.gateway.change_sources(by, changes).await?;
        let known = self.accepted(source).await?;
        entry.state().accepted = known;
        Ok(())
    }

    /// Gives the catalog the tools that are accepted as they are offered.
    async fn publish(&self, entry: &Entry) -> Result<(), SourcesError> {
        let tools = entry.tools();
        let name = &entry.config.name;
        match self.inner.gateway.replace_source(name, tools).await {
            Ok(change) => {
                tracing::info!(
                    source = name,
                    added = change.added.len(),
                    changed = change.changed.len(),
                    removed = change.removed.len(),
                    "the catalog has the source's tools"
                );
                Ok(())
            }
            Err(error) => {
                let mut state = entry.state();
                (state.health, state.problem) = (SourceHealth::Failing, Some(error.to_string()));
                Err(refused(error))
            }
        }
    }
}

#[async_trait]
impl Sources for SourceRegistry {
    async fn list(&self) -> Vec<SourceSummary> {
        self.entries().values().map(|entry| entry.summary(&entry.compared())).collect()
    }

    async fn show(&self, name: &str) -> Result<SourceDetail, SourcesError> {
        Ok(self.looked_at(name).await?.detail())
    }

    async fn preview(&self, config: SourceConfig) -> Result<SourceDetail, SourcesError> {
        let accepted = self.accepted(&config.name).await?;
        let entry = Entry::new(config, SourceOrigin::Added, accepted)?;
        let (offer, connection) = self.read(&entry).await?;
        entry.state().offer = offer;
        entry.state().health = SourceHealth::Ready;
        if let Connection::Mcp(upstream) = &*connection {
            upstream.close().await;
        }
        Ok(entry.detail())
    }

    async fn put(&self, by: &Caller, config: SourceConfig) -> Result<SourceDetail, SourcesError> {
        let (registry, by) = (self.clone(), by.clone());
        to_its_end(async move { registry.put_now(&by, config).await }).await
    }

    async fn refresh(&self, name: &str) -> Result<SourceDetail, SourcesError> {
        let entry = self.entry(name)?;
        let _turn = entry.turn.lock().await;
        let read = self.read(&entry).await;
        self.keep(&entry, read).await
    }

    async fn accept(&self, by: &Caller, name: &str, what: Acceptance) -> Result<SourceDetail, SourcesError> {
        let (registry, by, name) = (self.clone(), by.clone(), name.to_owned());
        to_its_end(async move { registry.accept_now(&by, &name, what).await }).await
    }

    async fn remove(&self, by: &Caller, name: &str) -> Result<(), SourcesError> {
        let (registry, by, name) = (self.clone(), by.clone(), name.to_owned());
        to_its_end(async move { registry.remove_now(&by, &name).await }).await
    }
}

/// Does something to its end also where the client that asked for it hangs up: what is recorded must be in the catalog, too.
async fn to_its_end<T: Send + 'static>(
    work: impl Future<Output = Result<T, SourcesError>> + Send + 'static,
) -> Result<T, SourcesError> {
    tokio::spawn(work).await.unwrap_or_else(|_| Err(GatewayError::Closed.into()))
}

impl SourceRegistry {
    async fn put_now(&self, by: &Caller, config: SourceConfig) -> Result<SourceDetail, SourcesError> {
        let before = self.entries().get(&config.name).cloned();
        if before.as_ref().is_some_and(|entry| entry.origin == SourceOrigin::File) {
            return Err(SourcesError::InFile(config.name));
        }
        if before.is_none() && self.entries().len() >= MAX_SOURCES {
            return Err(SourcesError::BadConfig(format!("there can be at most {MAX_SOURCES} sources")));
        }
        let accepted = self.accepted(&config.name).await?;
        let entry = Arc::new(Entry::new(config, SourceOrigin::Added, accepted)?);
        let _turn = entry.turn.lock().await;
        // A source that cannot be read is not added: whoever adds it is there to mend it.
        let read = self.read(&entry).await?;
        let row = SourceRow {
            name: entry.config.name.clone(),
            config: serde_json::to_value(&entry.config)
                .map_err(|error| SourcesError::BadConfig(error.to_string()))?,
            changed_at: self.inner.gateway.now(),
            changed_by: by.principal.id.clone(),
        };
        self.inner.gateway.change_sources(Some(by), vec![SourceWrite::Put(row)]).await?;
        self.entries().insert(entry.config.name.clone(), Arc::clone(&entry));
        if let Some(before) = before {
            before.close().await;
        }
        self.keep(&entry, Ok(read)).await
    }

    async fn accept_now(
        &self,
        by: &Caller,
        name: &str,
        what: Acceptance,
    ) -> Result<SourceDetail, SourcesError> {
        let entry = self.looked_at(name).await?;
        let _turn = entry.turn.lock().await;
        if what.digest.is_some_and(|digest| digest != entry.digest()) {
            return Err(SourcesError::NotWhatWasShown);
        }
        let mut waiting = entry.waiting();
        if !what.paths.is_empty() {
            for path in &what.paths {
                if !waiting.iter().any(|found| entry.is_named(found, path)) {
                    return Err(SourcesError::NothingToAccept(path.clone()));
                }
            }
            waiting.retain(|found| what.paths.iter().any(|path| entry.is_named(found, path)));
        }
        self.record(&entry, Some(by), &waiting).await?;
        self.publish(&entry).await?;
        Ok(entry.detail())
    }

    async fn remove_now(&self, by: &Caller, name: &str) -> Result<(), SourcesError> {
        let entry = self.entry(name)?;
        if entry.origin == SourceOrigin::File {
            return Err(SourcesError::InFile(name.to_owned()));
        }
        let _turn = entry.turn.lock().await;
        self.inner
            .gateway
            .change_sources(Some(by), vec![SourceWrite::Remove { name: name.to_owned() }])
            .await?;
        self.entries().remove(name);
        match self.inner.gateway.remove_source(name).await {
            Ok(_) | Err(SourceError::NotFound(_)) => {}
            Err(error) => return Err(refused(error)),
        }
        entry.close().await;
        Ok(())
    }
}

impl Entry {
    fn new(
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

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn given_names(&self) -> BTreeMap<String, String> {
        self.state().accepted.iter().map(|tool| (tool.origin.clone(), tool.name.clone())).collect()
    }

    fn path(&self, tool: &OfferedTool) -> Option<ToolPath> {
        ToolPath::parse(&format!("{}.{}", self.config.name, tool.name)).ok()
    }

    fn is_named(&self, found: &Compared, path: &str) -> bool {
        found.tool.name == path
            || path.strip_prefix(&self.config.name).and_then(|rest| rest.strip_prefix('.'))
                == Some(&found.tool.name)
    }

    /// Every tool with its standing; what the operator leaves out is excluded, whatever else it is.
    fn compared(&self) -> Vec<Compared> {
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
    fn waiting(&self) -> Vec<Compared> {
        let waits = |found: &Compared| {
            matches!(found.standing, ToolStanding::New | ToolStanding::Changed | ToolStanding::Missing)
        };
        self.compared().into_iter().filter(waits).collect()
    }

    /// The tools that can be called.
    fn tools(&self) -> Vec<Tool> {
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

    fn digest(&self) -> String {
        let offer = serde_json::to_vec(&self.state().offer).unwrap_or_default();
        Digest::of(&offer).to_string()
    }

    fn detail(&self) -> SourceDetail {
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

    fn summary(&self, compared: &[Compared]) -> SourceSummary {
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

    async fn close(&self) {
        let connection = self.state().connection.take();
        if let Some(connection) = connection
            && let Connection::Mcp(upstream) = &*connection
        {
            upstream.close().await;
        }
    }
}

/// Reads a server anew when it says that its tools changed or when it is back; says when it is away.
async fn follow(inner: Weak<Inner>, mut heard: mpsc::Receiver<(String, UpstreamEvent)>) {
    while let Some((name, event)) = heard.recv().await {
        let Some(inner) = inner.upgrade() else { return };
        let registry = SourceRegistry { inner };
        match event {
            UpstreamEvent::Connected | UpstreamEvent::ToolsChanged => {
                tokio::spawn(async move {
                    // Its health says what went wrong.
                    let _ = registry.refresh(&name).await;
                });
            }
            UpstreamEvent::Disconnected { reason } | UpstreamEvent::Off { reason } => {
                if let Ok(entry) = registry.entry(&name) {
                    let mut state = entry.state();
                    (state.health, state.problem) = (SourceHealth::Failing, Some(reason));
                }
            }
            UpstreamEvent::ResourcesChanged | UpstreamEvent::PromptsChanged => {}
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

fn refused(error: SourceError) -> SourcesError {
    match error {
        SourceError::Gateway(error) => error.into(),
        other => SourcesError::Catalog(other.to_string()),
    }
}
