//! The registry: every source of a gateway, what it offers, and which of its tools are in the catalog.
//!
//! Promises: a tool is in the catalog only while its source offers exactly the definition that was accepted. Sources are
//! read in the background at the start, so that a source that is away keeps nothing from starting; it is tried again until
//! it is there. Changes of one source happen one after another; its tools are swapped whole.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use countersign_core::compact::CompactJson;
use countersign_kernel::ports::{
    Acceptance, EffectSetting, SourceConfig, SourceDetail, SourceHealth, SourceOrigin, SourceRow,
    SourceSummary, SourceToolRow, SourceWrite, Sources, SourcesError, ToolStanding,
};
use countersign_kernel::{Caller, Gateway, GatewayError, SourceError, return_freed_memory};
use tokio::sync::{OwnedMutexGuard, mpsc};

use crate::connect::{Connecting, Connection, SecretReader};
use crate::entry::Entry;
use crate::mcp::{Events, UpstreamEvent};
use crate::offer::{Offer, OfferedTool};
use crate::pin::Compared;
use crate::tending::{Next, Tended, follow, tend};

/// The most sources of one gateway.
pub const MAX_SOURCES: usize = 200;
/// How often it is looked whether sources were read, at first and at last.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);
/// Reading so many tools leaves much more freed memory behind than they take.
const MANY_TOOLS: usize = 200;
/// How many events of upstream servers may wait to be looked at; a refresh that is due anyway loses nothing with them.
const EVENT_BACKLOG: usize = 1_000;

/// Every source of a gateway. A clone is another handle.
#[derive(Clone)]
pub struct SourceRegistry {
    pub(crate) inner: Arc<Inner>,
}

/// When sources are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// In the background, from the start on: for whoever serves their tools.
    FromTheStart,
    /// When somebody looks at one: for a command that manages sources and calls nothing.
    WhenAsked,
}

/// What is wanted of a source that is read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    /// All that it offers.
    Anew,
    /// The same, but nothing where it did not change.
    IfChanged,
}

pub(crate) struct Inner {
    reading: Reading,
    pub(crate) gateway: Gateway,
    secrets: Arc<dyn SecretReader>,
    entries: Mutex<BTreeMap<String, Arc<Entry>>>,
    events: mpsc::Sender<(String, UpstreamEvent)>,
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
        for entry in registry.entries().values() {
            registry.tend(entry, Next::Read);
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

    pub(crate) fn entry(&self, name: &str) -> Result<Arc<Entry>, SourcesError> {
        self.entries().get(name).cloned().ok_or_else(|| SourcesError::NotFound(name.to_owned()))
    }

    /// A source, for whoever changes it next.
    async fn in_turn(&self, name: &str) -> Result<(Arc<Entry>, OwnedMutexGuard<()>), SourcesError> {
        loop {
            let entry = self.entry(name)?;
            let turn = Arc::clone(&entry.turn).lock_owned().await;
            // Whoever had the turn before may have put another configuration in its place.
            if Arc::ptr_eq(&entry, &self.entry(name)?) {
                return Ok((entry, turn));
            }
        }
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
        Ok(rows.into_iter().filter_map(|row| serde_json::from_str(row.definition.as_str()).ok()).collect())
    }

    /// Looks after a source from now on, where sources are read by themselves.
    fn tend(&self, entry: &Arc<Entry>, next: Next) {
        if self.inner.reading == Reading::FromTheStart {
            tokio::spawn(tend(Arc::downgrade(&self.inner), Tended::of(entry), next));
        }
    }

    /// Reads a source anew if it offers something else than what was read last.
    pub(crate) async fn refresh_if_changed(&self, name: &str) -> Result<(), SourcesError> {
        let (entry, _turn) = self.in_turn(name).await?;
        let is_well = entry.state().health == SourceHealth::Ready;
        let look = if is_well { Look::IfChanged } else { Look::Anew };
        match self.look(&entry, look).await.transpose() {
            None => Ok(()),
            Some(read) => self.keep(&entry, read).await.map(drop),
        }
    }

    /// Reads what a source offers, without keeping it.
    async fn read(&self, entry: &Entry) -> Result<(Offer, Arc<Connection>), SourcesError> {
        let read = self.look(entry, Look::Anew).await?;
        read.ok_or_else(|| SourcesError::Unreachable("it was not read".to_owned()))
    }

    /// Reads what a source offers; nothing where that is what was read last, if only something else is wanted.
    async fn look(
        &self,
        entry: &Entry,
        look: Look,
    ) -> Result<Option<(Offer, Arc<Connection>)>, SourcesError> {
        let known = entry.state().connection.clone();
        let seen = known.as_ref().and_then(|known| known.seen().cloned());
        let connecting = Connecting {
            config: &entry.config,
            given_names: entry.given_names(),
            secrets: &*self.inner.secrets,
            events: self.events_of(&entry.config.name),
            seen: seen.filter(|_| look == Look::IfChanged),
        };
        if let Some(connection) = known
            && let Connection::Mcp(upstream) = &*connection
        {
            let offer = upstream.offer().await.map_err(|e| SourcesError::Unreachable(e.to_string()))?;
            let offer = connecting.named(offer);
            let is_same = look == Look::IfChanged && entry.state().is_offered(&offer);
            return Ok((!is_same).then_some((offer, connection)));
        }
        let connected = connecting.connect().await?;
        Ok(connected.map(|(offer, connection)| (offer, Arc::new(connection))))
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
                state.offers(offer);
                state.connection = Some(connection);
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
                definition: CompactJson::of(&serde_json::to_value(&*found.tool).ok()?),
                accepted_at: now,
                accepted_by: by.map(|by| by.principal.id.clone()),
            }))
        };
        let changes = accepted.iter().filter_map(change).collect();
        self.inner.gateway.change_sources(by, changes).await?;
        entry.state().accept(accepted);
        Ok(())
    }

    /// Gives the catalog the tools that are accepted as they are offered.
    async fn publish(&self, entry: &Entry) -> Result<(), SourcesError> {
        let tools = entry.tools();
        let name = &entry.config.name;
        let replaced = self.inner.gateway.replace_source(name, tools).await;
        if entry.state().offers_at_least(MANY_TOOLS) {
            // Whether or not it ran to its end, the source is as it is.
            drop(tokio::task::spawn_blocking(return_freed_memory).await);
        }
        match replaced {
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
        self.entries().values().map(|entry| entry.summary()).collect()
    }

    async fn show(&self, name: &str) -> Result<SourceDetail, SourcesError> {
        Ok(self.looked_at(name).await?.detail())
    }

    async fn preview(&self, config: SourceConfig) -> Result<SourceDetail, SourcesError> {
        let accepted = self.accepted(&config.name).await?;
        let entry = Entry::new(config, SourceOrigin::Added, accepted)?;
        let (offer, connection) = self.read(&entry).await?;
        entry.state().offers(offer);
        entry.state().health = SourceHealth::Ready;
        if let Connection::Mcp(upstream) = &*connection {
            upstream.close().await;
        }
        Ok(entry.detail())
    }

    async fn put(&self, by: &Caller, config: SourceConfig) -> Result<SourceDetail, SourcesError> {
        let (registry, by) = (self.clone(), by.clone());
        run_detached(async move { registry.put_now(&by, config).await }).await
    }

    async fn refresh(&self, name: &str) -> Result<SourceDetail, SourcesError> {
        let (entry, _turn) = self.in_turn(name).await?;
        entry.revive();
        let read = self.read(&entry).await;
        self.keep(&entry, read).await
    }

    async fn accept(&self, by: &Caller, name: &str, what: Acceptance) -> Result<SourceDetail, SourcesError> {
        let (registry, by, name) = (self.clone(), by.clone(), name.to_owned());
        run_detached(async move { registry.accept_now(&by, &name, what).await }).await
    }

    async fn set_effect(
        &self,
        by: &Caller,
        name: &str,
        what: EffectSetting,
    ) -> Result<SourceDetail, SourcesError> {
        let (registry, by, name) = (self.clone(), by.clone(), name.to_owned());
        run_detached(async move { registry.set_effect_now(&by, &name, &what).await }).await
    }

    async fn remove(&self, by: &Caller, name: &str) -> Result<(), SourcesError> {
        let (registry, by, name) = (self.clone(), by.clone(), name.to_owned());
        run_detached(async move { registry.remove_now(&by, &name).await }).await
    }
}

/// Does something to its end also where the client that asked for it hangs up: what is recorded must be in the catalog, too.
async fn run_detached<T: Send + 'static>(
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
        let _turn_before = match &before {
            Some(before) => Some(before.turn.lock().await),
            None => None,
        };
        // A source that cannot be read is not added: whoever adds it is there to mend it.
        let read = self.read(&entry).await?;
        self.record_config(by, &entry, None).await?;
        self.entries().insert(entry.config.name.clone(), Arc::clone(&entry));
        if let Some(before) = &before {
            before.close().await;
        }
        self.tend(&entry, Next::Look);
        self.keep(&entry, Ok(read)).await
    }

    /// Records a configuration, and what else the audit should say of it.
    async fn record_config(
        &self,
        by: &Caller,
        entry: &Entry,
        told: Option<String>,
    ) -> Result<(), SourcesError> {
        let row = SourceRow {
            name: entry.config.name.clone(),
            config: serde_json::to_value(&entry.config)
                .map_err(|error| SourcesError::BadConfig(error.to_string()))?,
            changed_at: self.inner.gateway.now(),
            changed_by: by.principal.id.clone(),
        };
        let changes = vec![SourceWrite::Put(row)];
        Ok(self.inner.gateway.change_sources_telling(Some(by), changes, told).await?)
    }

    async fn set_effect_now(
        &self,
        by: &Caller,
        name: &str,
        what: &EffectSetting,
    ) -> Result<SourceDetail, SourcesError> {
        self.looked_at(name).await?;
        let (entry, _turn) = self.in_turn(name).await?;
        if entry.origin == SourceOrigin::File {
            return Err(SourcesError::InFile(name.to_owned()));
        }
        let (next, told) = entry.with_effect(what)?;
        if next.config != entry.config {
            let next = Arc::new(next);
            self.record_config(by, &next, Some(told)).await?;
            self.entries().insert(name.to_owned(), Arc::clone(&next));
            // A source that was not read yet brings its tools when it is.
            if next.state().connection.is_some() {
                self.publish(&next).await?;
            }
        }
        Ok(self.entry(name)?.detail())
    }

    async fn accept_now(
        &self,
        by: &Caller,
        name: &str,
        what: Acceptance,
    ) -> Result<SourceDetail, SourcesError> {
        self.looked_at(name).await?;
        let (entry, _turn) = self.in_turn(name).await?;
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
        let (entry, _turn) = self.in_turn(name).await?;
        if entry.origin == SourceOrigin::File {
            return Err(SourcesError::InFile(name.to_owned()));
        }
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

fn refused(error: SourceError) -> SourcesError {
    match error {
        SourceError::Gateway(error) => error.into(),
        other => SourcesError::Catalog(other.to_string()),
    }
}
