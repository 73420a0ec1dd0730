//! Everything the gateway's parts share.

use std::sync::{Arc, RwLock};

use countersign_core::digest::Digest;
use countersign_core::event::{CallIssued, Event, EventBody, Started};
use countersign_core::execution::Execution;
use countersign_core::ids::ExecutionId;
use countersign_core::policy::Policy;
use countersign_core::time::Timestamp;
use tokio::sync::{broadcast, watch};

use crate::catalog::CurrentCatalog;
use crate::error::GatewayError;
use crate::events::GatewayEvent;
use crate::expiry::Alarm;
use crate::follow::Followers;
use crate::grants::GrantCache;
use crate::hooks::Hooks;
use crate::identities::IdentityCache;
use crate::live::{Guard, Live, Registry, State, Waiters};
use crate::missing_tools::MissingTools;
use crate::ports::{Clock, Credentials, Entropy, ScriptHost, Store};
use crate::result::Pending;
use crate::script::Places;
use crate::sessions::SessionCache;
use crate::settings::Settings;
use crate::storage_allowance::StorageAllowance;

pub(crate) type OnPause = Arc<dyn Fn(&countersign_sdk::SessionId, &Pending) + Send + Sync>;

/// Whether anything new is let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Doors {
    Open,
    Closed,
}

/// The gateway's parts, shared by its tasks.
pub(crate) struct Kernel {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) credentials: Arc<dyn Credentials>,
    /// Where scripts run; nowhere, in a gateway that takes only calls.
    pub(crate) scripts: Option<Arc<dyn ScriptHost>>,
    /// Whose scripts have its VMs.
    pub(crate) places: Arc<Places>,
    pub(crate) catalog: CurrentCatalog,
    pub(crate) policy: Policy,
    pub(crate) policy_version: Digest,
    pub(crate) hooks: Hooks,
    pub(crate) settings: Settings,
    pub(crate) on_pause: RwLock<Vec<OnPause>>,
    pub(crate) events: broadcast::Sender<GatewayEvent>,
    pub(crate) registry: Registry,
    pub(crate) waiters: Waiters,
    pub(crate) followers: Followers,
    pub(crate) grants: GrantCache,
    pub(crate) sessions: SessionCache,
    pub(crate) identities: IdentityCache,
    pub(crate) storage: StorageAllowance,
    pub(crate) missing_tools: MissingTools,
    pub(crate) alarm: Arc<Alarm>,
    pub(crate) closed: watch::Sender<Doors>,
}

impl Kernel {
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The moment as an execution must see it: never before its last event, whatever the clock says now.
    pub(crate) fn now_for(&self, state: &State) -> Timestamp {
        self.clock.now().max(state.execution.latest())
    }

    pub(crate) fn random(&self) -> Result<[u8; 16], GatewayError> {
        self.entropy.bits().ok_or(GatewayError::NoEntropy)
    }

    /// The first events of an execution.
    pub(crate) fn opening(&self, started: Started, issued: CallIssued) -> Vec<Event> {
        let at = self.now();
        vec![
            Event { at, body: EventBody::Started(started) },
            Event { at, body: EventBody::CallIssued(issued) },
        ]
    }

    pub(crate) fn is_closed(&self) -> bool {
        *self.closed.borrow() == Doors::Closed
    }

    /// Completes when the gateway closes.
    pub(crate) async fn closing(&self) {
        // The sender lives as long as `self`, so waiting can only end with the closing.
        let _ = self.closed.subscribe().wait_for(|doors| *doors == Doors::Closed).await;
    }

    /// The execution, from memory or from its journal, locked. Nothing where there is no such execution.
    pub(crate) async fn find(&self, id: ExecutionId) -> Result<Option<(Arc<Live>, Guard)>, GatewayError> {
        loop {
            let live = match self.registry.get(id) {
                Some(live) => live,
                None => match self.load(id).await? {
                    Some(live) => live,
                    None => return Ok(None),
                },
            };
            let state = self.lock(&live).await?;
            if !state.gone {
                return Ok(Some((live, state)));
            }
        }
    }

    /// Locks a live execution; one whose last write failed is read anew from the store first.
    pub(crate) async fn lock(&self, live: &Arc<Live>) -> Result<Guard, GatewayError> {
        let mut state = live.lock().await;
        if state.doubtful {
            let journal = self.store.journal(live.id).await?;
            state.reload(&journal)?;
        }
        Ok(state)
    }

    /// Ends an execution's time in memory, if nobody drives it.
    pub(crate) fn release(&self, live: &Arc<Live>, mut state: Guard) {
        if !state.driven {
            state.gone = true;
            self.registry.remove(live);
        }
    }

    async fn load(&self, id: ExecutionId) -> Result<Option<Arc<Live>>, GatewayError> {
        let journal = self.store.journal(id).await?;
        if journal.is_empty() {
            return Ok(None);
        }
        let live = Arc::new(Live::new(State::stored(Execution::replay(&journal)?)));
        Ok(Some(self.registry.insert(live)))
    }
}
