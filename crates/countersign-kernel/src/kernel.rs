//! Everything the gateway's parts share.

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, RwLock};

use countersign_core::digest::Digest;
use countersign_core::event::{CallIssued, Event, EventBody, Started};
use countersign_core::ids::ExecutionId;
use countersign_core::policy::Policy;
use countersign_core::time::Timestamp;
use tokio::sync::{broadcast, oneshot, watch};

use crate::calling_clients::CallingClients;
use crate::catalog::CurrentCatalog;
use crate::error::GatewayError;
use crate::events::GatewayEvent;
use crate::expiry::Alarm;
use crate::follow::Followers;
use crate::grants::GrantCache;
use crate::hooks::Hooks;
use crate::identities::IdentityCache;
use crate::in_flight::InFlight;
use crate::journal::Record;
use crate::missing_tools::MissingTools;
use crate::owner::{Message, Owner};
use crate::ports::{Clock, Credentials, Entropy, ScriptHost, Store};
use crate::registry::{Delivery, Registry};
use crate::result::Pending;
use crate::script::Places;
use crate::sessions::SessionCache;
use crate::settings::Settings;
use crate::storage_allowance::StorageAllowance;

pub(crate) type OnPause = Arc<dyn Fn(&countersign_sdk::SessionId, &Pending) + Send + Sync>;

/// Whether new calls are accepted and handlers are started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
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
    /// The scripts that have its VMs.
    pub(crate) places: Arc<Places>,
    pub(crate) catalog: CurrentCatalog,
    pub(crate) policy: Policy,
    pub(crate) policy_version: Digest,
    pub(crate) hooks: Hooks,
    pub(crate) settings: Settings,
    pub(crate) on_pause: RwLock<Vec<OnPause>>,
    pub(crate) events: broadcast::Sender<GatewayEvent>,
    pub(crate) registry: Registry,
    /// Calls and scripts that a task works on.
    pub(crate) calls_in_flight: Arc<InFlight>,
    /// Scripts in memory: what they were given stays there while they sleep.
    pub(crate) scripts_in_memory: Arc<InFlight>,
    /// How many tasks own an execution.
    pub(crate) owners: Arc<AtomicUsize>,
    pub(crate) followers: Followers,
    pub(crate) calling_clients: CallingClients,
    pub(crate) grants: GrantCache,
    pub(crate) sessions: SessionCache,
    pub(crate) identities: IdentityCache,
    pub(crate) storage: StorageAllowance,
    pub(crate) missing_tools: MissingTools,
    pub(crate) alarm: Arc<Alarm>,
    pub(crate) closed: watch::Sender<Admission>,
}

impl Kernel {
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
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
        *self.closed.borrow() == Admission::Closed
    }

    /// Gives a message to the owner of an execution, which becomes one here where it is not in memory. Nothing happens where
    /// there is no such execution: the message is dropped, and with it the way to answer it.
    pub(crate) async fn deliver(
        self: &Arc<Self>,
        id: ExecutionId,
        mut message: Message,
    ) -> Result<(), GatewayError> {
        loop {
            message = match self.registry.deliver(id, message) {
                Delivery::Sent => return Ok(()),
                Delivery::Rested(record, taken, message) => {
                    Owner::taking_over(self, *record, taken, Some(message)).spawn();
                    return Ok(());
                }
                Delivery::NotHere(message) => message,
            };
            let journal = self.store.journal(id).await?;
            if journal.is_empty() {
                return Ok(());
            }
            let record = Record::stored(&journal)?;
            if let Some(taken) = self.registry.claim(id) {
                Owner::taking_over(self, record, taken, Some(message)).spawn();
                return Ok(());
            }
        }
    }

    /// Asks the owner of an execution something; nothing where there is no such execution.
    pub(crate) async fn request<T>(
        self: &Arc<Self>,
        id: ExecutionId,
        message: impl FnOnce(oneshot::Sender<T>) -> Message,
    ) -> Result<Option<T>, GatewayError> {
        let (reply, answer) = oneshot::channel();
        self.deliver(id, message(reply)).await?;
        Ok(answer.await.ok())
    }
}
