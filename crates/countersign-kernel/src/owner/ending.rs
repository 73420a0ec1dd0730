//! How a script ends, and when its owner leaves it.
//!
//! Promise: a script's end waits for every handler that may have changed something; what has not started by then never
//! starts, and questions that no call waits for are withdrawn. A script that is put away is whole in the store.

use countersign_core::event::{CallOutcome, EventBody, Failure, LogLine};
use countersign_core::execution::Next;
use countersign_core::ids::CallNo;

use super::{Did, Owner};
use crate::error::GatewayError;
use crate::journal::CommitExtras;

/// The most bytes of log lines that are kept with the journal.
const MAX_RECORDED_LOG_BYTES: usize = 256 * 1024;

impl Owner {
    /// Ends what the script left open, then the execution.
    pub(super) async fn wind_down(&mut self) -> Result<Did, GatewayError> {
        let has_diverged = self.script.as_ref().is_some_and(|script| script.has_diverged());
        let left: Vec<CallNo> = self.execution().unsettled().map(|call| call.no).collect();
        // A script that left its journal starts nothing any more, whatever a person said of its calls.
        let (awaited, dropped): (Vec<CallNo>, Vec<CallNo>) = left
            .into_iter()
            .partition(|no| self.may_have_acted(*no) && (!has_diverged || self.handlers.contains(*no)));
        for no in &dropped {
            self.drop_handler(*no);
        }
        if !self.said.is_empty() {
            // Another handler ended in this very moment; it is heard first.
            return Ok(Did::Something);
        }
        let mut events = self.given_up(&dropped);
        if awaited.is_empty() {
            events.push(self.last_event());
        }
        if events.is_empty() {
            return Ok(Did::Nothing);
        }
        let settled: Vec<(CallNo, CallOutcome)> = events.iter().filter_map(settles).collect();
        if self.record.is_stored() || !awaited.is_empty() {
            self.commit(events, CommitExtras::default()).await?;
        } else {
            self.note(events)?;
            self.kernel.commit_soon(&mut self.record)?;
        }
        settled.into_iter().for_each(|(no, outcome)| self.tell_post_hooks(no, outcome));
        Ok(Did::Something)
    }

    /// Calls that changed nothing and that nobody waits for: their questions are withdrawn, and they never start.
    fn given_up(&self, calls: &[CallNo]) -> Vec<EventBody> {
        let why = "the script ended without waiting for the answer";
        let withdrawn = calls.iter().flat_map(|no| self.withdrawals(*no, why));
        let settled = calls.iter().map(|no| {
            let failure = if self.may_have_acted(*no) {
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
        if let Some((by, reason)) = self.execution().cancel_request() {
            return EventBody::Cancelled { by: Some(by.clone()), reason: reason.clone() };
        }
        let stuck = || CallOutcome::Failed(Failure::new("internal", "The script ended without an outcome."));
        let outcome = self.script.as_ref().and_then(|script| script.end.clone()).unwrap_or_else(stuck);
        EventBody::Finished { outcome, logs: within_bounds(self.shared.logs()) }
    }

    /// Whether the owner of a script has nothing more to do here.
    pub(super) fn script_is_to_leave(&mut self) -> bool {
        let busy = self.script.as_ref().is_some_and(|script| script.is_busy());
        let rested = self.has_waited_long();
        match self.execution().next() {
            Next::Done => true,
            Next::AwaitSettlement(_) => self.handlers.is_empty(),
            // Calls that are harmless or wait for people are taken up by the next process.
            _ if self.kernel.is_closed() => {
                let stays = |no: &CallNo| self.may_have_acted(*no) && !self.execution().waits(*no);
                !self.handlers.running().iter().any(stays)
            }
            Next::AwaitPeople => !busy && rested,
            // Nothing can be done about it in a process that lacks the tool.
            Next::Judge(no) | Next::Start(no) | Next::EnterAgain(no) => {
                let asleep = self.execution().progress().sleeps().next().is_some();
                let leaves = !busy
                    && !asleep
                    && self.handlers.is_empty()
                    && self.kernel.lacks_tool(self.execution(), no);
                if leaves {
                    self.kernel.wait_for_tool(self.execution(), no);
                }
                leaves
            }
            _ => {
                if rested {
                    // A place for scripts is worth more than a VM that waits for a slow tool or the end of a sleep.
                    self.put_vm_away();
                }
                false
            }
        }
    }
}

fn settles(body: &EventBody) -> Option<(CallNo, CallOutcome)> {
    match body {
        EventBody::CallSettled { call, outcome } => Some((*call, outcome.clone())),
        _ => None,
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
