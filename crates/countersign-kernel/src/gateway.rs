//! The façade over catalog, policy, hooks, engine, executions and store.

mod identity;

use std::sync::atomic::Ordering;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use countersign_core::audit::AuditRecord;
use countersign_core::event::{Event, Settlement};
use countersign_core::grant::Grant;
use countersign_core::ids::{CallNo, ElicitationId, ExecutionId, GrantId};
use countersign_core::policy::{Explanation, Policy, Subject};
use countersign_core::time::Timestamp;
use countersign_sdk::{Plugin, PluginError, SessionId, Tool};
use serde_json::Value;
use tokio::sync::{broadcast, watch};

use crate::accept::{CallRequest, Caller, Patience};
use crate::audit::{AuditPage, AuditQuery, ChainReport};
use crate::catalog::{Catalog, CurrentCatalog};
use crate::catalog_change::{SourceChange, SourceError};
use crate::decide::{Decide, Receipt};
use crate::engine::ElicitationEngine;
use crate::error::{CallError, CancelError, DecideError, GatewayError, SettleError};
use crate::events::{GatewayEvent, GatewayEventKind, SourceList};
use crate::expiry;
use crate::grants::NewGrant;
use crate::hooks::{Hooks, PostHook, PreHook};
use crate::in_flight::{Bounds, InFlight};
use crate::kernel::{Admission, Kernel, OnPause};
use crate::owner::{Message, Visibility};
use crate::ports::{
    Clock, Credentials, ElicitationFilter, ElicitationRow, Entropy, EnvCredentials, ExecutionFilter,
    ExecutionRow, JournalPart, Listing, Page, ScriptHost, SessionRow, SessionSummary, Standing, Store,
    SystemClock, SystemEntropy,
};
use crate::registry::{self, Until};
use crate::result::{ExecutionResult, Pending};
use crate::script::{Places, RunRequest, share_of};
use crate::sessions::{SessionError, SessionOwner};
use crate::settings::Settings;
use crate::storage_allowance::StorageAllowance;

/// The gateway. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Gateway {
    kernel: Arc<Kernel>,
}

/// A gateway in the making.
pub struct GatewayBuilder {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    credentials: Arc<dyn Credentials>,
    scripts: Option<Arc<dyn ScriptHost>>,
    policy: Policy,
    settings: Settings,
    hooks: Hooks,
    plugins: Vec<Plugin>,
    sources: Vec<(String, Vec<Tool>)>,
    awaited: Vec<String>,
    on_pause: Vec<OnPause>,
}

/// Why a gateway did not start.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the names say it")]
pub enum BuildError {
    /// Plugins that do not fit; everything that is wrong with them.
    #[error("the plugin \"{plugin}\" cannot be registered:{}", lines(errors))]
    Plugin {
        /// The plugin.
        plugin: String,
        errors: Vec<PluginError>,
    },
    /// A source that does not fit.
    #[error("the source \"{source_name}\" cannot be registered: {error}")]
    Source { source_name: String, error: SourceError },
    /// Recovery failed.
    #[error("{0}")]
    Gateway(#[from] GatewayError),
}

fn lines(errors: &[PluginError]) -> String {
    errors.iter().map(|e| format!("\n  - {e}")).collect()
}

impl GatewayBuilder {
    /// Adds a plugin's tools.
    #[must_use]
    pub fn plugin(mut self, plugin: Plugin) -> Self {
        self.plugins.push(plugin);
        self
    }

    /// Adds a source's tools. [`Gateway::replace_source`] can change them later.
    #[must_use]
    pub fn source(mut self, name: impl Into<String>, tools: Vec<Tool>) -> Self {
        self.sources.push((name.into(), tools));
        self
    }

    /// Names sources that [`Gateway::replace_source`] loads once the gateway runs. Soon after the start a call of one of
    /// their tools waits for them, so that a script that goes on after a restart is not told that there is no such tool.
    #[must_use]
    pub fn awaits(mut self, sources: impl IntoIterator<Item = String>) -> Self {
        self.awaited.extend(sources);
        self
    }

    /// Sets the policy; without one, reading is allowed and destruction asks.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Sets how the gateway behaves.
    #[must_use]
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// Adds a hook before tools; hooks run in this order.
    #[must_use]
    pub fn pre_hook(mut self, hook: impl PreHook) -> Self {
        self.hooks.pre.push(Box::new(hook));
        self
    }

    /// Adds a hook after tools; hooks run in this order.
    #[must_use]
    pub fn post_hook(mut self, hook: impl PostHook) -> Self {
        self.hooks.post.push(Box::new(hook));
        self
    }

    /// Calls back whenever something starts to wait for a person.
    #[must_use]
    pub fn on_pause(mut self, callback: impl Fn(&Pending) + Send + Sync + 'static) -> Self {
        self.on_pause.push(Arc::new(move |_: &SessionId, pending: &Pending| callback(pending)));
        self
    }

    /// Replaces the system's clock.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Replaces the system's entropy.
    #[must_use]
    pub fn entropy(mut self, entropy: impl Entropy) -> Self {
        self.entropy = Arc::new(entropy);
        self
    }

    /// Replaces credentials from the environment.
    #[must_use]
    pub fn credentials(mut self, credentials: impl Credentials) -> Self {
        self.credentials = Arc::new(credentials);
        self
    }

    /// Says where scripts run; without this, calls are taken and scripts are refused.
    #[must_use]
    pub fn scripts(mut self, host: impl ScriptHost) -> Self {
        self.scripts = Some(Arc::new(host));
        self
    }

    /// Builds a gateway that only looks: it takes up nothing, runs nothing, accepts nothing and lets nothing expire. A
    /// program without the tools of an interrupted execution can read of it without ending it.
    pub async fn look(self) -> Result<Gateway, BuildError> {
        let kernel = self.kernel()?;
        kernel.closed.send_replace(Admission::Closed);
        Ok(Gateway { kernel })
    }

    /// Builds the catalog, takes up what an earlier process left behind, and starts the expiry timer. When this
    /// returns, every call that was interrupted is in doubt or goes on.
    pub async fn start(self) -> Result<Gateway, BuildError> {
        let kernel = self.kernel()?;
        kernel.set_alarm().await?;
        let found = kernel.recover().await?;
        if found > 0 {
            tracing::info!(found, "took up executions that were running when the last process ended");
        }
        let withdrawn = kernel.rejudge_open().await?;
        if withdrawn > 0 {
            tracing::info!(withdrawn, "withdrew questions that the rules or tools of now do not ask");
        }
        let missing = kernel.missing_tools.len();
        if missing > 0 {
            tracing::warn!(missing, "executions wait for tools whose sources are not loaded");
        }
        tokio::spawn(expiry::watch(Arc::downgrade(&kernel), Arc::clone(&kernel.alarm)));
        let resting = Arc::clone(&kernel.registry.resting);
        tokio::spawn(registry::park_resting(Arc::downgrade(&kernel), resting));
        Ok(Gateway { kernel })
    }

    fn kernel(self) -> Result<Arc<Kernel>, BuildError> {
        let mut catalog = Catalog::default();
        for plugin in self.plugins {
            let name = plugin.id().to_owned();
            catalog.register(plugin).map_err(|errors| BuildError::Plugin { plugin: name, errors })?;
        }
        for (name, tools) in self.sources {
            catalog = catalog
                .replacing(&name, tools)
                .map_err(|error| BuildError::Source { source_name: name, error })?;
        }
        let policy_version = self.policy.version().digest();
        let Settings { max_calls_in_flight: calls, max_bytes_in_flight: bytes, max_live_scripts, .. } =
            self.settings;
        let bounds = |count, bytes| Bounds { count, bytes };
        let calls_in_flight =
            InFlight::new(bounds(calls, bytes), bounds(calls.div_ceil(4), bytes.div_ceil(4)));
        let scripts_in_memory = InFlight::new(
            bounds(max_live_scripts, usize::MAX),
            bounds(share_of(max_live_scripts), usize::MAX),
        );
        Ok(Arc::new(Kernel {
            store: self.store,
            clock: self.clock,
            entropy: self.entropy,
            credentials: self.credentials,
            places: Places::new(self.scripts.as_ref().map_or(0, |host| host.places())),
            scripts: self.scripts,
            catalog: CurrentCatalog::new(catalog.awaiting(self.awaited)),
            policy: self.policy,
            policy_version,
            hooks: self.hooks,
            events: broadcast::Sender::new(self.settings.event_backlog),
            storage: StorageAllowance::new(self.settings.max_stored_bytes_per_day),
            settings: self.settings,
            on_pause: RwLock::new(self.on_pause),
            registry: Default::default(),
            calls_in_flight,
            scripts_in_memory,
            owners: Default::default(),
            followers: Default::default(),
            calling_clients: Default::default(),
            grants: Default::default(),
            sessions: Default::default(),
            identities: Default::default(),
            missing_tools: Default::default(),
            alarm: Default::default(),
            closed: watch::Sender::new(Admission::Open),
        }))
    }
}

/// Does something to its end also where whoever asked for it hangs up: a front drops the futures of clients that went
/// away, and what is half recorded must be acted on.
pub(crate) async fn run_detached<T, E>(
    work: impl Future<Output = Result<T, E>> + Send + 'static,
) -> Result<T, E>
where
    T: Send + 'static,
    E: From<GatewayError> + Send + 'static,
{
    // It is never aborted, so that the only other end is a panic, or that of the runtime.
    tokio::spawn(work).await.unwrap_or_else(|_| Err(GatewayError::Closed.into()))
}

impl Gateway {
    /// Starts building a gateway on a store.
    pub fn builder(store: impl Store) -> GatewayBuilder {
        Self::on(Arc::new(store))
    }

    /// Starts building a gateway on a store that others hold too.
    pub fn on(store: Arc<dyn Store>) -> GatewayBuilder {
        GatewayBuilder {
            store,
            clock: Arc::new(SystemClock),
            entropy: Arc::new(SystemEntropy),
            credentials: Arc::new(EnvCredentials),
            scripts: None,
            policy: Policy::default(),
            settings: Settings::default(),
            hooks: Hooks::default(),
            plugins: Vec::new(),
            sources: Vec::new(),
            awaited: Vec::new(),
            on_pause: Vec::new(),
        }
    }

    pub(crate) fn kernel(&self) -> &Arc<Kernel> {
        &self.kernel
    }

    /// Calls a tool: the whole way of a call. The answer is final, or says what it waits for. From its acceptance on it goes on
    /// by itself, also where the caller hangs up.
    pub async fn call(&self, request: CallRequest) -> Result<ExecutionResult, CallError> {
        self.kernel.call(request).await
    }

    /// Runs a script: each of its calls goes the whole way of a call. The answer is final, or says what it waits for.
    pub async fn run(&self, request: RunRequest) -> Result<ExecutionResult, CallError> {
        self.kernel.run(request).await
    }

    /// Waits for an execution; nothing where there is none.
    pub async fn wait(
        &self,
        id: ExecutionId,
        patience: Patience,
    ) -> Result<Option<ExecutionResult>, GatewayError> {
        self.kernel.wait_for(id, patience).await
    }

    /// Waits until an execution ends, is in doubt, or asks something it does not ask now, but at most this long; nothing
    /// where there is no such execution.
    pub async fn wait_anew(
        &self,
        id: ExecutionId,
        limit: Duration,
    ) -> Result<Option<ExecutionResult>, GatewayError> {
        self.kernel.wait_until(id, Until::AsksAnew(None), Some(limit)).await
    }

    /// An execution as it stands.
    pub async fn result(&self, id: ExecutionId) -> Result<Option<ExecutionResult>, GatewayError> {
        self.kernel.show(id, None, Visibility::Look).await
    }

    /// Takes a person's decision. Once its execution's owner has it, it is acted on also where the caller hangs up.
    pub async fn decide(&self, request: Decide) -> Result<Receipt, DecideError> {
        self.kernel.decide(request).await
    }

    /// Stops an execution.
    pub async fn cancel(
        &self,
        id: ExecutionId,
        by: &Caller,
        reason: &str,
    ) -> Result<ExecutionResult, CancelError> {
        let (by, reason) = (Box::new(by.clone()), reason.to_owned());
        let cancelled = self.kernel.request(id, |reply| Message::Cancel(by, reason, reply)).await?;
        cancelled.unwrap_or(Err(CancelError::NotFound))
    }

    /// Settles a call that is in doubt.
    pub async fn settle(
        &self,
        id: ExecutionId,
        call: CallNo,
        settlement: Settlement,
        by: &Caller,
    ) -> Result<ExecutionResult, SettleError> {
        if !by.principal.may_decide() {
            return Err(SettleError::NotAllowed);
        }
        let settlement = Box::new((settlement, by.clone()));
        let settled = self.kernel.request(id, |reply| Message::Settle(call, settlement, reply)).await?;
        settled.unwrap_or(Err(SettleError::NotFound))
    }

    /// Opens a session for a client of the caller; one that this client opened before is opened again as it is. A session of
    /// somebody else or of another client is [`SessionError::Taken`].
    pub async fn open_session(
        &self,
        by: &Caller,
        client: &str,
        id: Option<SessionId>,
    ) -> Result<SessionId, SessionError> {
        self.kernel.open_session(by, client, id).await
    }

    /// The gate alone, for a program that runs its tools itself: `decider` is the person it speaks for.
    pub fn engine(&self, session: SessionId, requester: Caller, decider: Caller) -> ElicitationEngine {
        ElicitationEngine::new(Arc::clone(&self.kernel), session, requester, decider)
    }

    /// A snapshot of the tools. Later changes do not affect it.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.kernel.catalog.snapshot()
    }

    /// Gives a source these tools, instead of those it had. Calls whose handlers run keep their tools; what was asked, approved
    /// and remembered about tools that changed or are gone is void, and withdrawn with a reason.
    pub async fn replace_source(&self, source: &str, tools: Vec<Tool>) -> Result<SourceChange, SourceError> {
        let (kernel, source) = (Arc::clone(&self.kernel), source.to_owned());
        run_detached(async move { kernel.replace_source(&source, tools).await }).await
    }

    /// Removes a source with all of its tools. Questions, approvals and grants about them are void.
    pub async fn remove_source(&self, source: &str) -> Result<SourceChange, SourceError> {
        let (kernel, source) = (Arc::clone(&self.kernel), source.to_owned());
        run_detached(async move { kernel.remove_source(&source).await }).await
    }

    /// Tells fronts that a list of a source changed, so that they can tell their clients.
    pub fn tell_list_changed(&self, source: &str, list: SourceList) {
        let kind = GatewayEventKind::SourceListChanged { source: source.to_owned(), list };
        self.kernel.send(GatewayEvent { seq: 0, execution: None, kind });
    }

    /// The policy's verdict on a call, with its reasons; nothing where there is no such tool. Nothing runs.
    pub fn explain(
        &self,
        path: &str,
        args: &Value,
        caller: &Caller,
        session: &SessionId,
    ) -> Option<Explanation> {
        let catalog = self.catalog();
        let tool = catalog.get(path)?;
        Some(self.kernel.policy.explain(&Subject {
            path: tool.path(),
            effects: tool.effects(),
            source: tool.source(),
            args,
            principal: &caller.principal,
            session,
        }))
    }

    /// A stream of what happens from now on.
    pub fn events(&self) -> broadcast::Receiver<GatewayEvent> {
        self.kernel.events.subscribe()
    }

    /// Elicitations, oldest first.
    pub async fn elicitations(
        &self,
        filter: ElicitationFilter,
        page: Page,
    ) -> Result<Listing<ElicitationRow>, GatewayError> {
        Ok(self.kernel.store.elicitations(filter, page).await?)
    }

    /// One elicitation.
    pub async fn elicitation(&self, id: ElicitationId) -> Result<Option<ElicitationRow>, GatewayError> {
        Ok(self.kernel.store.elicitation(id).await?)
    }

    /// Executions, newest first.
    pub async fn executions(
        &self,
        filter: ExecutionFilter,
        page: Page,
    ) -> Result<Listing<ExecutionRow>, GatewayError> {
        Ok(self.kernel.store.executions(filter, page).await?)
    }

    /// One execution's row: whose it is and where it stands.
    pub async fn execution(&self, id: ExecutionId) -> Result<Option<ExecutionRow>, GatewayError> {
        Ok(self.kernel.store.execution(id).await?)
    }

    /// Sessions, newest first, each with how many of its remembered approvals still count.
    pub async fn sessions(&self, page: Page) -> Result<Listing<SessionSummary>, GatewayError> {
        Ok(self.kernel.store.sessions(self.kernel.now(), page).await?)
    }

    /// One session.
    pub async fn session(&self, id: &SessionId) -> Result<Option<SessionRow>, GatewayError> {
        Ok(self.kernel.store.session(id).await?)
    }

    /// The owner of a session.
    pub async fn session_owner(&self, id: &SessionId) -> Result<Option<SessionOwner>, GatewayError> {
        self.kernel.sessions.owner(&*self.kernel.store, id).await
    }

    /// How much is unfinished, and how much was recorded.
    pub async fn standing(&self) -> Result<Standing, GatewayError> {
        Ok(self.kernel.store.standing().await?)
    }

    /// Whether decisions and starts can be stored, as far as is known. It costs nothing to ask.
    pub fn check_writable(&self) -> Result<(), GatewayError> {
        Ok(self.kernel.store.check_writable()?)
    }

    /// One execution's journal; empty where there is none.
    pub async fn journal(&self, id: ExecutionId) -> Result<Vec<Event>, GatewayError> {
        Ok(self.kernel.store.journal(id).await?)
    }

    /// A part of one execution's journal, from the event of this number on; empty where there is none.
    pub async fn journal_part(
        &self,
        id: ExecutionId,
        from: u64,
        limit: usize,
    ) -> Result<JournalPart, GatewayError> {
        Ok(self.kernel.store.journal_part(id, from, limit).await?)
    }

    /// Audit records after a number.
    pub async fn audit(&self, after: u64, limit: usize) -> Result<Vec<AuditRecord>, GatewayError> {
        Ok(self.kernel.store.audit(after, limit).await?)
    }

    /// Audit records that a filter lets through, either way. A page looks at a bounded number of records, so that it may be
    /// short and still not the last.
    pub async fn audit_page(&self, query: &AuditQuery) -> Result<AuditPage, GatewayError> {
        self.kernel.audit_page(query).await
    }

    /// Records in the audit what the program around this gateway did, such as which configuration it loaded.
    pub async fn record_in_audit(&self, what: &'static str, detail: String) -> Result<(), GatewayError> {
        self.kernel.record_in_audit(what, detail).await
    }

    /// Follows the chain of the audit from its first record to the one that is the last now.
    pub async fn verify_audit(&self) -> Result<ChainReport, GatewayError> {
        self.kernel.verify_audit().await
    }

    /// The remembered approvals of a session. Reading them changes nothing (R15): the expiry timer records the ends.
    pub async fn grants(&self, session: &SessionId) -> Result<Vec<Grant>, GatewayError> {
        Ok(self.kernel.store.grants(session).await?)
    }

    /// Remembers an approval for the tools that a pattern finds now; until [`Settings::remember_for`] has passed where nothing
    /// else is said.
    pub async fn give_grant(&self, by: &Caller, new: NewGrant) -> Result<Grant, DecideError> {
        let (kernel, by) = (Arc::clone(&self.kernel), by.clone());
        run_detached(async move { kernel.give_grant(&by, new).await }).await
    }

    /// Forgets one remembered approval.
    pub async fn revoke_grant(&self, by: &Caller, id: GrantId) -> Result<(), DecideError> {
        let (kernel, by) = (Arc::clone(&self.kernel), by.clone());
        run_detached(async move { kernel.revoke_grant(&by, id).await }).await
    }

    /// Forgets all remembered approvals of a session.
    pub async fn clear_grants(&self, by: &Caller, session: &SessionId) -> Result<(), DecideError> {
        let (kernel, by, session) = (Arc::clone(&self.kernel), by.clone(), session.clone());
        run_detached(async move { kernel.clear_grants(&by, &session).await }).await
    }

    /// How the gateway behaves.
    pub fn settings(&self) -> &Settings {
        &self.kernel.settings
    }

    /// The moment, as this gateway's clock tells it.
    pub fn now(&self) -> Timestamp {
        self.kernel.now()
    }

    /// How many executions are in memory; parked ones are not.
    pub fn live(&self) -> usize {
        self.kernel.registry.len()
    }

    /// Accepts nothing more and waits, up to a limit, for running handlers. Executions that wait for people stay in the store.
    pub async fn close(&self, limit: Duration) {
        self.kernel.closed.send_replace(Admission::Closed);
        self.kernel.registry.tell_all(|| Message::Close);
        let quiet = async {
            while self.kernel.owners.load(Ordering::Acquire) > 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        if tokio::time::timeout(limit, quiet).await.is_err() {
            tracing::warn!(
                "handlers were still running when the gateway closed; they may be in doubt on the next start"
            );
        }
    }
}
