//! How calls end: what their handlers said is recorded, and callers and hooks are told.
//!
//! Promise: what handlers say is recorded in the order in which they say it. A destructive call whose outcome is not known is in
//! doubt, never failed.

use std::sync::Arc;

use countersign_core::event::{CallOutcome, EventBody, Failure};
use countersign_core::execution::{Call, Next, Phase, Run};
use countersign_core::ids::CallNo;

use super::handlers::{Ended, FromHandler};
use super::{Did, Owner};
use crate::backoff::is_passing;
use crate::error::GatewayError;
use crate::hooks::HookCall;
use crate::journal::CommitExtras;

/// The time at which the outcome of a call must be on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Durability {
    /// Before the caller learns of it.
    Now,
    /// With one of the next commits: nothing that it did is lost with it.
    Later,
}

const NOBODY_WAITED: &str = "the call ended without waiting for an answer";

impl Owner {
    /// Records what handlers said, in the order in which they said it.
    pub(super) async fn hear_handlers(&mut self) -> Result<Did, GatewayError> {
        while let Some((no, ended)) = self.handlers.try_next() {
            self.said.push_back(FromHandler::Ended(no, ended));
        }
        if self.answer_handlers().await? == Did::Something {
            return Ok(Did::Something);
        }
        let Some(said) = self.said.pop_front() else { return Ok(Did::Nothing) };
        let heard = match &said {
            FromHandler::Ended(no, ended) => self.record_outcome(*no, ended).await,
            FromHandler::Ask(no, question, reply) if !reply.is_closed() => {
                match self.ask_for_handler(*no, question).await {
                    Ok(asked) => return Ok(self.take_asked(asked, said)),
                    Err(error) => Err(error),
                }
            }
            FromHandler::Step(no, step, reply) if !reply.is_closed() => {
                match self.record_step(*no, step).await {
                    Ok(recorded) => {
                        if let FromHandler::Step(.., reply) = said {
                            // A handler that was dropped wants no answer.
                            let _ = reply.send(recorded);
                        }
                        return Ok(Did::Something);
                    }
                    Err(error) => Err(error),
                }
            }
            FromHandler::Ask(..) | FromHandler::Step(..) => Ok(()),
        };
        match heard {
            Ok(()) => Ok(Did::Something),
            Err(error) if is_passing(&error) || matches!(said, FromHandler::Ended(..)) => {
                self.said.push_front(said);
                Err(error)
            }
            Err(error) => {
                said.refuse(error);
                self.record.is_stale = true;
                Ok(Did::Something)
            }
        }
    }

    /// Records what became of a handler.
    async fn record_outcome(&mut self, no: CallNo, ended: &Ended) -> Result<(), GatewayError> {
        let Some(call) = self.execution().call(no).filter(|call| matches!(call.phase(), Phase::Running(_)))
        else {
            self.handlers.forget(no);
            return Ok(());
        };
        match outcome_of(call, ended) {
            Err(reason) => self.find_in_doubt(no, Some(reason)).await?,
            Ok(outcome) => {
                let lasting =
                    if self.script.is_some() { must_not_be_lost(call) } else { self.record.is_stored() };
                let durability = if lasting { Durability::Now } else { Durability::Later };
                self.settle(no, outcome, durability).await?;
            }
        }
        self.handlers.forget(no);
        Ok(())
    }

    /// Records the outcome of a call, and with it the end of an execution of one call. Its open questions are withdrawn.
    pub(super) async fn settle(
        &mut self,
        no: CallNo,
        outcome: CallOutcome,
        durability: Durability,
    ) -> Result<(), GatewayError> {
        let mut events = self.withdrawals(no, NOBODY_WAITED);
        events.push(EventBody::CallSettled { call: no, outcome: outcome.clone() });
        if self.script.is_none() {
            events.push(EventBody::finished(outcome.clone()));
        }
        match durability {
            Durability::Now => self.commit(events, CommitExtras::default()).await?,
            Durability::Later => {
                self.note(events)?;
                if self.script.is_none() {
                    self.queue_the_record()?;
                }
            }
        }
        self.tell_post_hooks(no, outcome);
        Ok(())
    }

    /// Queues the record of a call that ended, and leaves its result with a caller that did not begin to wait. In that order: where
    /// records are made faster than they can be written, callers wait, and calls do not pile up.
    pub(super) fn queue_the_record(&mut self) -> Result<(), GatewayError> {
        self.kernel.commit_soon(&mut self.record)?;
        if let Some(left) = self.left.take() {
            left.leave_end(self.result());
        }
        Ok(())
    }

    /// Records that a call is in doubt. Its open questions are withdrawn: no handler waits for the answers.
    pub(super) async fn find_in_doubt(
        &mut self,
        no: CallNo,
        reason: Option<String>,
    ) -> Result<(), GatewayError> {
        let mut events = self.withdrawals(no, "the call is in doubt");
        events.push(EventBody::FoundInDoubt { call: no, reason });
        self.commit(events, CommitExtras::default()).await
    }

    /// Records every call in doubt whose handler was lost, in one commit.
    pub(super) async fn find_lost_calls_in_doubt(&mut self) -> Result<(), GatewayError> {
        let lost: Vec<(CallNo, Option<&str>)> = self
            .execution()
            .next_of_calls()
            .filter_map(|next| match next {
                Next::FindInDoubt(no, reason) => Some((no, reason)),
                _ => None,
            })
            .collect();
        let mut events = Vec::new();
        for (no, reason) in lost {
            events.extend(self.withdrawals(no, "the call is in doubt"));
            events.push(EventBody::FoundInDoubt { call: no, reason: reason.map(str::to_owned) });
        }
        if events.is_empty() {
            return Ok(());
        }
        self.commit(events, CommitExtras::default()).await
    }

    /// The decisions that withdraw every open question of a call.
    pub(super) fn withdrawals(&self, no: CallNo, reason: &str) -> Vec<EventBody> {
        let now = self.kernel.now_for(self.execution());
        let open = self.execution().open().filter(|question| question.call == no);
        open.map(|question| crate::decide::withdrawal(question.id, reason, now)).collect()
    }

    /// Tells the post-hooks of an outcome, on a task of their own.
    pub(super) fn tell_post_hooks(&self, no: CallNo, outcome: CallOutcome) {
        if self.kernel.hooks.post.is_empty() {
            return;
        }
        let Some(call) = self.execution().call(no).cloned() else { return };
        let execution = self.execution();
        let (principal, session) = (execution.requester().clone(), execution.session().clone());
        let kernel = Arc::clone(&self.kernel);
        tokio::spawn(async move {
            let args = call.args.value();
            let seen = HookCall {
                path: &call.path,
                effects: call.effects,
                args: &args,
                principal: &principal,
                session: &session,
            };
            kernel.hooks.after(seen, &outcome).await;
        });
    }

    /// Whether a call may have changed something.
    pub(super) fn may_have_acted(&self, no: CallNo) -> bool {
        self.execution().call(no).is_some_and(Call::may_have_acted)
    }
}

/// The outcome of a call; or, where it must not be repeated and may have happened, the reason for the doubt.
fn outcome_of(call: &Call, ended: &Ended) -> Result<CallOutcome, String> {
    match ended {
        Ended::With(outcome) => Ok(outcome.clone()),
        Ended::Unknown(failure) if call.must_not_be_repeated() => Err(failure.message.clone()),
        Ended::Unknown(failure) => Ok(CallOutcome::Failed(failure.clone())),
        Ended::Panicked if call.effects.destructive || call.must_not_be_repeated() => {
            Err("The tool's handler crashed while it ran.".to_owned())
        }
        Ended::Panicked => {
            Ok(CallOutcome::Failed(Failure::new("handler_panicked", "The tool's handler crashed.")))
        }
    }
}

/// Whether a crash must find the outcome recorded: the call may have changed something, or a person was asked.
fn must_not_be_lost(call: &Call) -> bool {
    let asked_or_stepped = |run: &Run| !run.asks.is_empty() || !run.steps.is_empty();
    call.effects.destructive || call.effects.is_at_most_once() || call.run().is_some_and(asked_or_stepped)
}
