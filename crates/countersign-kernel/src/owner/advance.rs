//! Takes the next step of an execution: each step is recorded, then carried out. `gate.rs` starts calls, `handlers.rs` enters their
//! handlers, and `outcomes.rs` records how they end.

use countersign_core::event::{CallOutcome, EventBody};
use countersign_core::execution::Next;
use countersign_core::ids::CallNo;

use super::outcomes::Durability;
use super::{Did, Owner};
use crate::error::GatewayError;
use crate::journal::CommitExtras;

impl Owner {
    /// Takes one step. It takes none while the record is stale: that shows what a failed write would have made of
    /// it, a start among others.
    pub(super) async fn advance(&mut self) -> Result<Did, GatewayError> {
        if self.record.is_stale {
            return Ok(Did::Nothing);
        }
        if self.hear_handlers().await? == Did::Something {
            return Ok(Did::Something);
        }
        if self.execution().end().is_some() {
            // The store refused the record the last time; it is kept, not dropped.
            if !self.record.unwritten.is_empty() {
                self.queue_the_record()?;
            }
            return Ok(Did::Nothing);
        }
        if self.script.is_some() {
            return self.advance_script().await;
        }
        if self.carry_out().await? == Did::Something {
            return Ok(Did::Something);
        }
        if let Next::Finish(outcome) = self.execution().next() {
            self.commit(vec![EventBody::finished(outcome)], CommitExtras::default()).await?;
            return Ok(Did::Something);
        }
        Ok(Did::Nothing)
    }

    /// Takes the first step of a call that can be taken now.
    pub(super) async fn carry_out(&mut self) -> Result<Did, GatewayError> {
        if self.runs_as_many_as_it_may() {
            return Ok(Did::Nothing);
        }
        let Some(next) = self.execution().next_of_calls().find(|next| self.can(next)) else {
            return Ok(Did::Nothing);
        };
        let no = match next {
            Next::Judge(no) => {
                self.judge(no).await?;
                no
            }
            Next::Start(no) | Next::EnterAgain(no) => {
                self.start(no).await?;
                no
            }
            Next::Settle(no, failure) => {
                let durability = if self.script.is_some() { Durability::Later } else { Durability::Now };
                self.settle(no, CallOutcome::Failed(failure), durability).await?;
                no
            }
            Next::FindInDoubt(no, _) => {
                self.find_lost_calls_in_doubt().await?;
                no
            }
            Next::Enter(no) => {
                if self.unconfirmed.contains(&no) {
                    let confirmed = EventBody::CallReentered { call: no };
                    self.commit(vec![confirmed], CommitExtras::default()).await?;
                }
                no
            }
            _ => return Ok(Did::Nothing),
        };
        // The handler is entered at once: after a crash, a start that is recorded and not entered would be in doubt.
        if let Some(permit) = self.record.execution.take_permit(no) {
            self.enter(permit);
        }
        Ok(Did::Something)
    }

    /// Whether as many handlers run as may at once; those that wait for people do not count.
    fn runs_as_many_as_it_may(&self) -> bool {
        let bound = self.kernel.settings.max_calls_at_once;
        let waits = |no: &CallNo| self.execution().waits(*no);
        self.handlers.len() >= bound
            && self.handlers.running().iter().filter(|no| !waits(no)).count() >= bound
    }

    /// Whether something can be done here and now. Of a script that has ended, only calls that may have acted are still
    /// brought to their end. Nothing starts in a process that is going away; the next one takes it up.
    fn can(&self, next: &Next) -> bool {
        let open = !self.kernel.is_closed();
        let has_ended = self.script.as_ref().is_some_and(|script| script.end.is_some());
        let wanted = |no: &CallNo| !has_ended || self.may_have_acted(*no);
        let lacks = |no: &CallNo| self.kernel.lacks_tool(self.execution(), *no);
        match next {
            Next::Judge(no) => open && self.script_is_idle() && !lacks(no),
            Next::Start(no) => open && wanted(no) && !lacks(no) && !self.waits_at_its_gate(*no),
            Next::EnterAgain(no) => open && wanted(no) && !lacks(no),
            Next::Enter(no) => wanted(no),
            Next::FindInDoubt(..) => true,
            Next::Settle(..) => !has_ended,
            _ => false,
        }
    }
}
