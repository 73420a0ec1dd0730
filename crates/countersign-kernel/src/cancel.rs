//! Stopping an execution.
//!
//! What waits for a person stops at once. A handler that may already have had an effect is told, and ends with its own
//! outcome: cancelling never hides what happened.

use std::sync::Arc;

use countersign_core::bounds;
use countersign_core::event::{EventBody, Kind};
use countersign_core::execution::Next;
use countersign_core::ids::ExecutionId;

use crate::accept::Caller;
use crate::drive::Flow;
use crate::error::{CancelError, GatewayError};
use crate::journal::Beside;
use crate::kernel::Kernel;
use crate::live::{Live, State};
use crate::result::ExecutionResult;

impl Kernel {
    pub(crate) async fn cancel(
        self: &Arc<Self>,
        id: ExecutionId,
        by: &Caller,
        reason: &str,
    ) -> Result<ExecutionResult, CancelError> {
        let (live, mut state) = self.find(id).await?.ok_or(CancelError::NotFound)?;
        if state.execution.requester().id != by.principal.id && !by.principal.may_decide() {
            self.release(&live, state);
            return Err(CancelError::NotAllowed);
        }
        let result = self.cancel_locked(&live, &mut state, by, reason).await;
        let result = result.map(|()| self.result_of(&state.execution, live.logs()));
        self.go_on(live, state);
        result
    }

    async fn cancel_locked(
        &self,
        live: &Arc<Live>,
        state: &mut State,
        by: &Caller,
        reason: &str,
    ) -> Result<(), CancelError> {
        match state.execution.next() {
            Next::Done => return Err(CancelError::Ended),
            Next::AwaitSettlement(_) => return Err(CancelError::InDoubt),
            _ => {}
        }
        // A handler is told in any case. A script is stopped once none of its calls acts; they are not told to stop.
        if state.execution.kind() != Kind::Script {
            live.request_cancel();
        }
        if state.execution.may_have_acted() {
            if state.execution.kind() != Kind::Script {
                return Err(CancelError::TooLate);
            }
            live.wish_cancelled(by.principal.id.clone(), reason);
            self.waiters.wake(live.id);
            return Err(CancelError::Stopping);
        }
        let by = Some(by.principal.id.clone());
        let reason = &reason[..reason.floor_char_boundary(bounds::MAX_TEXT_BYTES)];
        self.end_cancelled(state, by, reason).await?;
        live.request_cancel();
        Ok(())
    }

    async fn end_cancelled(
        &self,
        state: &mut State,
        by: Option<countersign_sdk::PrincipalId>,
        reason: &str,
    ) -> Result<(), GatewayError> {
        let mut events = self.withdrawn(state, "the execution was cancelled");
        events.push(EventBody::Cancelled { by, reason: reason.to_owned() });
        self.record(state, events, Beside::default()).await
    }

    /// Completes when the execution was cancelled and its handler may be dropped.
    pub(crate) async fn until_droppable(&self, live: &Arc<Live>) {
        loop {
            live.cancel_requested().await;
            let waiting = self.waiters.join(live.id);
            let changed = waiting.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if let Ok(state) = self.lock(live).await
                && state.execution.next() == Next::Done
            {
                return;
            }
            changed.await;
        }
    }

    /// The handler was dropped because its execution is over.
    pub(crate) async fn drop_cancelled(&self, live: &Arc<Live>) -> Result<Flow, GatewayError> {
        let state = self.lock(live).await?;
        Ok(self.stop(live, state))
    }
}
