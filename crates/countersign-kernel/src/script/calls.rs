//! What is done about a script's calls: judged, started, run and settled, each on its own.
//!
//! Promise: a call is judged only when its script has run as far as it can, so that a question always finds it waiting.
//! Outcomes of calls that changed something are durable before the script learns of them.

use std::sync::Arc;

use countersign_core::event::{CallOutcome, EventBody, Failure};
use countersign_core::execution::{Call, Next, Phase, Run, StartPermit};
use countersign_core::ids::CallNo;

use super::turn::Machine;
use super::{Conductor, Done, Handler, Outcome, is_running};
use crate::drive::lost_authority;
use crate::error::GatewayError;
use crate::journal::Beside;
use crate::live::State;
use crate::ports::StoreError;

impl Conductor {
    /// Does the first thing that is to be done and can be. Of a script that has ended, only calls that may have acted
    /// are still brought to their end.
    pub(super) async fn carry_out(&mut self, state: &mut State) -> Result<Done, GatewayError> {
        let running = self.handlers.keys().filter(|no| !state.execution.waits(**no)).count();
        if running >= self.kernel.settings.max_calls_at_once {
            return Ok(Done::Nothing);
        }
        let next = state.execution.todo().find(|next| self.can(state, next));
        let kernel = Arc::clone(&self.kernel);
        let no = match next {
            None => return Ok(Done::Nothing),
            Some(Next::Judge(no)) => {
                self.judge(state, no).await?;
                no
            }
            Some(Next::RecordStart(no)) => {
                kernel.record_start(state, no).await?;
                no
            }
            Some(Next::Settle(no, failure)) => {
                kernel.settle_now(state, no, CallOutcome::Failed(failure)).await?;
                no
            }
            Some(Next::Run(no)) => no,
            Some(Next::Rerun(no)) => {
                self.enter_again(state, no).await?;
                no
            }
            Some(Next::FindInDoubt(no)) => {
                kernel.find_in_doubt(state, no, None).await?;
                no
            }
            Some(_) => return Ok(Done::Nothing),
        };
        // At once: a start that is recorded and not entered would be a doubt after a crash.
        let permit = state.execution.take_permit(no);
        self.enter(permit);
        self.tell_if_settled(state, no);
        Ok(Done::Something)
    }

    fn can(&self, state: &State, next: &Next) -> bool {
        let wanted = |no: &CallNo| self.end.is_none() || may_have_acted(state, *no);
        let lacks = |no: &CallNo| self.kernel.lacks_tool(state, *no);
        match next {
            Next::Judge(no) => self.is_idle(state) && !lacks(no),
            Next::RecordStart(no) => wanted(no) && !lacks(no),
            Next::Run(no) => wanted(no),
            Next::Rerun(no) => wanted(no) && !self.handlers.contains_key(no) && !lacks(no),
            // A handler of ours that still runs leaves no doubt: it will say itself what became of it.
            Next::FindInDoubt(no) => !self.handlers.contains_key(no),
            Next::Settle(..) => self.end.is_none(),
            _ => false,
        }
    }

    async fn judge(&mut self, state: &mut State, no: CallNo) -> Result<(), GatewayError> {
        match self.kernel.judge(state, no).await {
            Err(GatewayError::Store(refusal)) if may_go_on_after(&refusal) => {
                let journal = self.kernel.store.journal(self.live.id).await?;
                state.reload(&journal)?;
                let failure = match &refusal {
                    StoreError::TooManyPending { .. } => Failure::new(
                        "too_many_pending",
                        "The session has as many open questions as it may; nobody was asked.",
                    ),
                    StoreError::RequesterFull { .. } => {
                        Failure::new("too_many_pending", format!("Nobody was asked: {refusal}."))
                    }
                    lost => lost_authority(lost),
                };
                if state.execution.call(no).is_some_and(|call| *call.phase() == Phase::Issued) {
                    self.kernel.settle_now(state, no, CallOutcome::Failed(failure)).await?;
                }
                Ok(())
            }
            judged => judged.map(|_| ()),
        }
    }

    /// A handler runs on a task of its own, so that none waits for another.
    fn enter(&mut self, permit: Option<StartPermit>) {
        let Some(permit) = permit else { return };
        let (kernel, live, report) = (Arc::clone(&self.kernel), Arc::clone(&self.live), self.report.clone());
        let call = permit.call();
        self.entered += 1;
        let entry = self.entered;
        let task = tokio::spawn(async move {
            let ended = kernel.enter(&live, permit).await;
            // Nobody listens where the script was dropped meanwhile; its journal says what that means.
            let _ = report.send(Outcome { call, entry, ended });
        });
        self.handlers.insert(call, Handler { entry, task });
    }

    async fn enter_again(&mut self, state: &mut State, no: CallNo) -> Result<(), GatewayError> {
        if let Some(failure) = self.kernel.changed_since(state, no) {
            let mut events = self.kernel.withdrawn_of(state, no, "the tool changed");
            events.push(EventBody::CallSettled { call: no, outcome: CallOutcome::Failed(failure) });
            return self.kernel.record(state, events, Beside::default()).await;
        }
        let permit = state.execution.take_permit_again(no);
        self.enter(permit);
        Ok(())
    }

    /// Records what became of a handler.
    pub(super) async fn record_outcome(&mut self, state: &mut State) -> Result<Done, GatewayError> {
        let Some(Outcome { call: no, entry, ended }) = self.outcomes.front() else {
            return Ok(Done::Nothing);
        };
        let (no, ended) = (*no, ended.clone());
        if self.handlers.get(&no).is_none_or(|handler| handler.entry != *entry) {
            // It was dropped meanwhile, and the number may be another call's by now.
            self.outcomes.pop_front();
            return Ok(Done::Something);
        }
        if is_running(state, no) {
            match ended.outcome_for(state, no) {
                Err(reason) => {
                    self.kernel.find_in_doubt(state, no, Some(reason)).await?;
                }
                Ok(outcome) => {
                    let mut events =
                        self.kernel.withdrawn_of(state, no, "the call ended without waiting for an answer");
                    events.push(EventBody::CallSettled { call: no, outcome });
                    if state.execution.call(no).is_some_and(must_not_be_lost) {
                        self.kernel.record(state, events, Beside::default()).await?;
                    } else {
                        self.kernel.note(state, events)?;
                    }
                }
            }
        }
        self.outcomes.pop_front();
        self.handlers.remove(&no);
        self.tell_if_settled(state, no);
        Ok(Done::Something)
    }

    pub(super) fn tell_if_settled(&self, state: &State, no: CallNo) {
        if let Some(Phase::Settled(outcome)) = state.execution.call(no).map(Call::phase) {
            tokio::spawn(self.kernel.to_post_hooks(state, no, outcome.clone()));
        }
    }

    /// Takes in what handlers reported.
    pub(super) fn hear_of_outcomes(&mut self) {
        while let Ok(outcome) = self.finished.try_recv() {
            self.outcomes.push_back(outcome);
        }
    }

    /// The conductor cannot go on. Handlers that may be changing something come to their end, and what they say is
    /// recorded if that can be done at all; if not, they are in doubt on the next start.
    pub(super) async fn retire(&mut self) {
        let kernel = Arc::clone(&self.kernel);
        self.machine = Machine::Over;
        let acting: Vec<CallNo> = match kernel.lock(&self.live).await {
            Ok(state) => self.handlers.keys().copied().filter(|no| may_have_acted(&state, *no)).collect(),
            // What cannot be looked at counts as acting.
            Err(_) => self.handlers.keys().copied().collect(),
        };
        let harmless: Vec<CallNo> = self.handlers.keys().copied().filter(|no| !acting.contains(no)).collect();
        for no in harmless {
            self.drop_handler(no).await;
        }
        while !self.handlers.is_empty() {
            let Some(outcome) = self.finished.recv().await else { return };
            let no = outcome.call;
            self.outcomes.push_back(outcome);
            if let Ok(mut state) = kernel.lock(&self.live).await
                && let Err(error) = self.record_outcome(&mut state).await
            {
                tracing::error!(execution = %self.live.id, call = %no, cause = ?error, "an outcome could not be recorded");
            }
            self.handlers.remove(&no);
        }
    }

    /// Ends a handler whose outcome nobody wants any more, and waits until it is gone.
    pub(super) async fn drop_handler(&mut self, no: CallNo) {
        if let Some(handler) = self.handlers.remove(&no) {
            handler.task.abort();
            // It was aborted, or had ended by itself; either way it is gone now.
            let _ = handler.task.await;
        }
    }

    pub(super) async fn drop_handlers(&mut self) {
        let all: Vec<CallNo> = self.handlers.keys().copied().collect();
        for no in all {
            self.drop_handler(no).await;
        }
    }
}

/// Whether a call may have changed something.
pub(super) fn may_have_acted(state: &State, no: CallNo) -> bool {
    state.execution.call(no).is_some_and(Call::may_have_acted)
}

/// Whether a crash must find the outcome recorded: the call may have changed something, or a person was asked.
fn must_not_be_lost(call: &Call) -> bool {
    let asked_or_stepped = |run: &Run| !run.asks.is_empty() || !run.steps.is_empty();
    call.effects.destructive || call.effects.is_at_most_once() || call.run().is_some_and(asked_or_stepped)
}

/// Whether a script goes on after the store refused to let one of its calls ask or start: that call fails, and it may catch
/// the failure.
fn may_go_on_after(refusal: &StoreError) -> bool {
    refusal.is_lost_authority()
        || matches!(refusal, StoreError::TooManyPending { .. } | StoreError::RequesterFull { .. })
}
