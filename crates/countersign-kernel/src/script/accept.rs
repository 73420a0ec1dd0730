//! Accepting a script: its types are stripped and nothing of it has run.

use std::sync::Arc;
use std::time::Duration;

use countersign_core::bounds;
use countersign_core::digest::Digest;
use countersign_core::event::{Event, EventBody, Kind, Script, Started};
use countersign_core::ids::ExecutionId;
use countersign_sdk::{PrincipalId, SessionId};

use super::places::{Claim, PlacedVm, busy, share_of};
use crate::accept::{Accepted, Caller, Patience};
use crate::error::{CallError, GatewayError};
use crate::journal::Beside;
use crate::kernel::Kernel;
use crate::live::{Live, State};
use crate::ports::{ScriptFault, StoreError, Stripped};

/// How long a caller waits for a place to run a script before being told to come back.
const LONGEST_WAIT_FOR_A_VM: Duration = Duration::from_secs(10);

/// A script to run.
#[derive(Debug, Clone)]
pub struct RunRequest {
    /// The body of an async function, in TypeScript or JavaScript.
    pub source: String,
    /// Who runs it.
    pub caller: Caller,
    /// In which session.
    pub session: SessionId,
    /// The caller's own key: the same key again is the same execution.
    pub key: Option<String>,
    /// How long the caller waits for an answer.
    pub patience: Patience,
}

impl Kernel {
    pub(crate) async fn accept_script(self: &Arc<Self>, request: &RunRequest) -> Result<Accepted, CallError> {
        self.check_caller(&request.caller, &request.session, request.key.as_deref()).await?;
        let bytes = request.source.len();
        if bytes > bounds::MAX_SCRIPT_BYTES {
            return Err(CallError::Script(ScriptFault::TooLong { bytes, bound: bounds::MAX_SCRIPT_BYTES }));
        }
        if let Some(key) = &request.key
            && let Some(known) = self.store.by_key(&request.caller.principal.id, key).await?
        {
            return self.same_script(known, &request.source).await;
        }
        let host = self.scripts.as_ref().ok_or(CallError::NoScripts)?;
        let requester = &request.caller.principal.id;
        self.check_room_for(requester)?;
        let placed = async {
            let place = self.places.take(requester, Claim::New).await?;
            Ok(PlacedVm { vm: host.open().await?, place })
        };
        let mut placed = within(LONGEST_WAIT_FOR_A_VM, placed).await.map_err(CallError::Script)?;
        let stripped = placed.vm.strip(&request.source).await.map_err(CallError::Script)?;
        // Others were accepted while this one waited.
        self.check_room_for(requester)?;
        let mut state = self.opened(request, stripped)?;
        if request.key.is_some() {
            // A caller's key must be taken before anything runs under it.
            match self.record(&mut state, Vec::new(), Beside::default()).await {
                Err(GatewayError::Store(StoreError::KeyTaken(known))) => {
                    return self.same_script(known, &request.source).await;
                }
                Err(error) => {
                    self.go_on_if_stored(state);
                    return Err(error.into());
                }
                Ok(()) => {}
            }
        }
        state.driven = true;
        let ours = Arc::new(Live::new(state));
        let live = self.registry.insert(Arc::clone(&ours));
        if !Arc::ptr_eq(&live, &ours) {
            // Somebody found it in the store a moment ago. Whoever drives that one drives it.
            let state = self.lock(&live).await?;
            self.go_on(Arc::clone(&live), state);
            return Ok(Accepted::Known(live.id));
        }
        tokio::spawn(Arc::clone(self).conduct(Arc::clone(&live), Some(placed)));
        Ok(Accepted::New(live))
    }

    /// A sleeping script gives its VM back, but not what it was given: that is in memory. One principal gets its share of it.
    fn check_room_for(&self, requester: &PrincipalId) -> Result<(), CallError> {
        let most = self.settings.max_live_scripts;
        let full = self.registry.scripts() >= most || self.registry.scripts_of(requester) >= share_of(most);
        if full { Err(CallError::Script(busy())) } else { Ok(()) }
    }

    fn opened(&self, request: &RunRequest, stripped: Stripped) -> Result<State, CallError> {
        let seed = [self.random()?, self.random()?].concat();
        let script = Script {
            source: request.source.clone(),
            digest: Digest::of(stripped.code.as_bytes()),
            code: stripped.code,
            mappings: stripped.mappings,
            seed: Digest::of(&seed),
        };
        let started = Started {
            execution: ExecutionId::from_random(self.random()?),
            kind: Kind::Script,
            session: request.session.clone(),
            requester: request.caller.principal.clone(),
            token: request.caller.token,
            idempotency_key: request.key.clone(),
            script: Some(Box::new(script)),
        };
        let first = Event { at: self.now(), body: EventBody::Started(started) };
        Ok(State::fresh(vec![first]).map_err(GatewayError::from)?)
    }

    async fn same_script(&self, known: ExecutionId, source: &str) -> Result<Accepted, CallError> {
        let journal = self.store.journal(known).await?;
        let same = journal.iter().any(|event| match &event.body {
            EventBody::Started(started) => started.script.as_ref().is_some_and(|s| s.source == source),
            _ => false,
        });
        if same { Ok(Accepted::Known(known)) } else { Err(CallError::KeyMismatch(known)) }
    }
}

async fn within<T>(
    limit: Duration,
    opening: impl Future<Output = Result<T, ScriptFault>>,
) -> Result<T, ScriptFault> {
    tokio::time::timeout(limit, opening).await.unwrap_or_else(|_| Err(busy()))
}
