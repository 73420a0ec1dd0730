//! How a script ends, and how it is put away while only people can bring it on.
//!
//! Promise: a script's end waits for every handler that may have changed something; what has not started by then never
//! starts, and questions nobody waits for are withdrawn. What is put away is in the store, whole.

use countersign_core::event::{CallOutcome, EventBody, Failure, LogLine};
use countersign_core::execution::Next;
use countersign_core::ids::CallNo;

use super::calls::may_have_acted;
use super::turn::Machine;
use super::{Awaited, Conductor, Done, Outcome, is_running};
use crate::drive::Flow;
use crate::error::GatewayError;
use crate::journal::Beside;
use crate::live::{Guard, State};

/// The most bytes of log lines that are kept with the journal.
const MAX_RECORDED_LOG_BYTES: usize = 256 * 1024;

impl Conductor {
    /// Ends what the script left open, then the execution.
    pub(super) async fn wind_down(&mut self, state: &mut State) -> Result<Done, GatewayError> {
        let left: Vec<CallNo> = state.execution.unsettled().map(|call| call.no).collect();
        // A script that left its journal starts nothing any more, whatever a person said of its calls.
        let (awaited, dropped): (Vec<CallNo>, Vec<CallNo>) = left.into_iter().partition(|no| {
            may_have_acted(state, *no) && (!self.has_diverged() || self.handlers.contains_key(no))
        });
        for no in &dropped {
            self.drop_handler(*no).await;
        }
        let mut events = self.given_up(state, &dropped);
        if awaited.is_empty() {
            events.push(self.last_event());
        }
        if events.is_empty() {
            return Ok(Done::Nothing);
        }
        if state.is_stored() || !awaited.is_empty() {
            self.kernel.record(state, events, Beside::default()).await?;
        } else {
            self.kernel.note(state, events)?;
            self.kernel.flush_soon(state)?;
        }
        dropped.iter().for_each(|no| self.tell_if_settled(state, *no));
        Ok(Done::Something)
    }

    /// Calls that changed nothing and that nobody waits for: their questions are withdrawn, and they never start.
    fn given_up(&self, state: &State, calls: &[CallNo]) -> Vec<EventBody> {
        let why = "the script ended without waiting for the answer";
        let withdrawn = calls.iter().flat_map(|no| self.kernel.withdrawn_of(state, *no, why));
        let settled = calls.iter().map(|no| {
            let failure = if may_have_acted(state, *no) {
                let message =
                    "The script left its journal; whether this call had its effect was not found out.";
                Failure::new("diverged", message)
            } else {
                Failure::new("cancelled", "The script ended without waiting for this call.")
            };
            EventBody::CallSettled { call: *no, outcome: CallOutcome::Failed(failure) }
        });
        withdrawn.chain(settled).collect()
    }

    fn last_event(&self) -> EventBody {
        if let Some((by, reason)) = self.live.wish() {
            return EventBody::Cancelled { by: Some(by), reason };
        }
        let stuck = || CallOutcome::Failed(Failure::new("internal", "The script ended without an outcome."));
        let outcome = self.end.clone().unwrap_or_else(stuck);
        EventBody::Finished { outcome, logs: within_bounds(self.live.logs()) }
    }

    /// Whether the conductor has nothing more to do here.
    pub(super) fn is_to_leave(&mut self, state: &State) -> bool {
        let busy = matches!(self.machine, Machine::Busy(_));
        let rested = self.parking.as_ref().is_some_and(|(_, sleep)| sleep.is_elapsed());
        match state.execution.next() {
            Next::AwaitSettlement(_) => self.handlers.is_empty(),
            // What is harmless or waits for people is taken up by the next process.
            _ if self.kernel.is_closed() => {
                self.handlers.keys().all(|no| !may_have_acted(state, *no) || state.execution.waits(*no))
            }
            Next::AwaitPeople => !busy && rested,
            // Nothing can be done about it in a process that lacks the tool.
            Next::Judge(no) | Next::RecordStart(no) | Next::Rerun(no) => {
                let asleep = state.execution.progress().sleeps().next().is_some();
                let leaves =
                    !busy && !asleep && self.handlers.is_empty() && self.kernel.lacks_tool(state, no);
                if leaves {
                    self.kernel.wait_for_tool(state, no);
                }
                leaves
            }
            _ => {
                if rested && matches!(self.machine, Machine::Idle(_)) {
                    // A place for scripts is worth more than a VM that waits for a slow tool or the end of a sleep.
                    self.machine = Machine::Away;
                }
                false
            }
        }
    }

    /// Puts the script away: everything it noted is written, its VM and its handlers are dropped, its journal remains.
    pub(super) async fn leave(&mut self, mut state: Guard) -> Result<Flow, GatewayError> {
        if !state.unflushed.is_empty() {
            self.kernel.record(&mut state, Vec::new(), Beside::default()).await?;
        }
        self.drop_handlers().await;
        self.hear_of_outcomes();
        let unheard = self.outcomes.iter().any(|outcome| is_running(&state, outcome.call));
        if unheard && state.execution.next() != Next::Done {
            // It ended in the very moment it was to be put away; somebody must hear it out.
            self.settle_last(&mut state).await?;
        }
        self.machine = Machine::Over;
        Ok(self.kernel.stop(&self.live, state))
    }

    /// Records outcomes of handlers that are gone already.
    async fn settle_last(&mut self, state: &mut State) -> Result<(), GatewayError> {
        while let Some(outcome) = self.outcomes.pop_front() {
            let Outcome { call, ended, .. } = outcome;
            if !is_running(state, call) {
                continue;
            }
            match ended.outcome_for(state, call) {
                Err(reason) => {
                    self.kernel.find_in_doubt(state, call, Some(reason)).await?;
                }
                Ok(outcome) => {
                    let why = "the call ended without waiting for an answer";
                    let mut events = self.kernel.withdrawn_of(state, call, why);
                    events.push(EventBody::CallSettled { call, outcome });
                    self.kernel.record(state, events, Beside::default()).await?;
                }
            }
        }
        Ok(())
    }

    /// Starts a timer when the VM has nothing to do, and stops it when it has.
    pub(super) fn watch_the_parking(&mut self, state: &State) {
        let awaited = match state.execution.next() {
            Next::AwaitPeople => Awaited::People,
            _ => Awaited::Work,
        };
        if !self.is_idle(state) && self.end.is_none() {
            self.parking = None;
        } else if self.parking.as_ref().is_none_or(|(before, _)| *before != awaited) {
            let sleep = tokio::time::sleep(self.kernel.settings.park_after);
            self.parking = Some((awaited, Box::pin(sleep)));
        }
    }
}

/// The first lines, as many as a journal should hold.
fn within_bounds(lines: Vec<LogLine>) -> Vec<LogLine> {
    let mut left = MAX_RECORDED_LOG_BYTES;
    let fits = |line: &LogLine| match left.checked_sub(line.message.len()) {
        Some(rest) => {
            left = rest;
            true
        }
        None => false,
    };
    lines.into_iter().take_while(fits).collect()
}
