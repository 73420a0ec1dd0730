//! Accepting a script: its types are stripped and nothing of it has run.

use std::sync::Arc;
use std::time::Duration;

use countersign_core::bounds;
use countersign_core::digest::Digest;
use countersign_core::event::{Event, EventBody, Kind, Script, Started};
use countersign_core::ids::ExecutionId;
use countersign_sdk::SessionId;

use super::places::{Claim, PlacedVm, busy};
use crate::accept::{Caller, Owned, Patience};
use crate::error::CallError;
use crate::journal::Record;
use crate::kernel::Kernel;
use crate::owner::{Owner, ScriptRun};
use crate::ports::{ScriptFault, Stripped};

/// How long a caller waits for a place to run a script before being told to come back.
const LONGEST_WAIT_FOR_A_VM: Duration = Duration::from_secs(10);

/// A script to run.
#[derive(Debug, Clone)]
pub struct RunRequest {
    /// The body of an async function, in TypeScript or JavaScript.
    pub source: String,
    /// The caller.
    pub caller: Caller,
    /// The session.
    pub session: SessionId,
    /// The caller's own key: the same key again is the same execution.
    pub key: Option<String>,
    /// How long the caller waits for an answer.
    pub patience: Patience,
}

impl Kernel {
    pub(crate) async fn accept_script(self: &Arc<Self>, request: &RunRequest) -> Result<Owned, CallError> {
        self.check_caller(&request.caller, &request.session, request.key.as_deref()).await?;
        let bytes = request.source.len();
        if bytes > bounds::MAX_SCRIPT_BYTES {
            return Err(CallError::Script(ScriptFault::TooLong { bytes, bound: bounds::MAX_SCRIPT_BYTES }));
        }
        if let Some(key) = &request.key
            && let Some(known) = self.store.by_key(&request.caller.principal.id, key).await?
        {
            self.check_same_script(known, &request.source).await?;
            return Ok(Owned::Known(known));
        }
        self.check_storage(&request.caller.principal)?;
        let host = self.scripts.as_ref().ok_or(CallError::NoScripts)?;
        let requester = &request.caller.principal.id;
        // A sleeping script gives its VM back, but not what it was given: that is in memory. One principal gets its share.
        let slot = self.scripts_in_memory.take(requester, bytes).ok_or_else(|| CallError::Script(busy()))?;
        let placed = async {
            let place = self.places.take(requester, Claim::New).await?;
            Ok(PlacedVm { vm: host.open().await?, place })
        };
        let mut placed = within(LONGEST_WAIT_FOR_A_VM, placed).await.map_err(CallError::Script)?;
        let stripped = placed.vm.strip(&request.source).await.map_err(CallError::Script)?;
        let record = self.opened(request, stripped)?;
        let owner = Owner::new(self, record, None).with_script(ScriptRun::new(placed, slot));
        Ok(Owned::New(Box::new(owner)))
    }

    pub(crate) async fn check_same_script(&self, known: ExecutionId, source: &str) -> Result<(), CallError> {
        let journal = self.store.journal(known).await?;
        let same = journal.iter().any(|event| match &event.body {
            EventBody::Started(started) => started.script.as_ref().is_some_and(|s| s.source == source),
            _ => false,
        });
        if same { Ok(()) } else { Err(CallError::KeyMismatch(known)) }
    }

    fn opened(&self, request: &RunRequest, stripped: Stripped) -> Result<Record, CallError> {
        let seed = [self.random()?, self.random()?].concat();
        let script = Script {
            source: request.source.clone(),
            digest: Digest::of(stripped.code.as_bytes()),
            code: stripped.code,
            mappings: stripped.mappings,
            seed: Digest::of(&seed),
        };
        let started = Started {
            execution: ExecutionId::new(self.now(), self.random()?),
            kind: Kind::Script,
            session: request.session.clone(),
            requester: request.caller.principal.clone(),
            token: request.caller.token,
            idempotency_key: request.key.clone(),
            requested: None,
            script: Some(Box::new(script)),
        };
        let first = Event { at: self.now(), body: EventBody::Started(started) };
        Ok(Record::fresh(vec![first])?)
    }
}

async fn within<T>(
    limit: Duration,
    opening: impl Future<Output = Result<T, ScriptFault>>,
) -> Result<T, ScriptFault> {
    tokio::time::timeout(limit, opening).await.unwrap_or_else(|_| Err(busy()))
}
