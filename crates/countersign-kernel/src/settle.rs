//! Settling a doubt: only a person can, and what they say is recorded with their name.

use std::sync::Arc;

use countersign_core::bounds::{self, BoundsError};
use countersign_core::event::{CallOutcome, EventBody, Failure, Kind, Settlement};
use countersign_core::execution::Phase;
use countersign_core::ids::{CallNo, ExecutionId};

use crate::accept::Caller;
use crate::catalog::Offered;
use crate::error::SettleError;
use crate::journal::Beside;
use crate::kernel::Kernel;
use crate::live::State;
use crate::ports::UserMay;
use crate::result::ExecutionResult;

impl Kernel {
    pub(crate) async fn settle(
        self: &Arc<Self>,
        id: ExecutionId,
        call: CallNo,
        settlement: Settlement,
        by: &Caller,
    ) -> Result<ExecutionResult, SettleError> {
        if !by.principal.may_decide() {
            return Err(SettleError::NotAllowed);
        }
        let (live, mut state) = self.find(id).await?.ok_or(SettleError::NotFound)?;
        let result = self.settle_locked(&mut state, call, settlement, by).await;
        let result = result.map(|()| self.result_of(&state.execution, live.logs()));
        self.go_on(live, state);
        result
    }

    async fn settle_locked(
        &self,
        state: &mut State,
        no: CallNo,
        settlement: Settlement,
        by: &Caller,
    ) -> Result<(), SettleError> {
        let call = state.execution.call(no).ok_or(SettleError::NotFound)?;
        if !matches!(call.phase(), Phase::InDoubt(_)) {
            return Err(SettleError::NotInDoubt);
        }
        let unchanged = matches!(self.catalog.offered(call), Offered::Same(_));
        let ended = match &settlement {
            Settlement::Done { value } => Some(CallOutcome::Succeeded(value.clone())),
            Settlement::Failed { message } if message.len() > bounds::MAX_TEXT_BYTES => {
                return Err(BoundsError::TooLarge.into());
            }
            Settlement::Failed { message } => {
                Some(CallOutcome::Failed(Failure::new("settled_as_failed", message)))
            }
            Settlement::Retry if unchanged => None,
            Settlement::Retry => return Err(SettleError::ToolChanged),
        };
        // A script goes on from here.
        let ended = ended.filter(|_| state.execution.kind() != Kind::Script);
        let mut events = vec![EventBody::DoubtSettled { call: no, settlement, by: by.principal.id.clone() }];
        events.extend(ended.map(EventBody::finished));
        let require = by.authority(UserMay::Decide, self.now_for(state));
        self.record(state, events, Beside { require, ..Beside::default() }).await?;
        Ok(())
    }
}
