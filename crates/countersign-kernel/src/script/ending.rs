//! How a script ends, and how it is put away while only people can bring it on.
//!
//! Promise: a script's end waits for every handler that may have changed something; what has not started by then never
//! starts, and questions nobody waits for are withdrawn. What is put away is in the store, whole.

use countersign_core::event::{CallOutcome, EventBody, Failure, LogLine};
use countersign_core::execution::{Next, Phase};
use countersign_core::ids::CallNo;

use super::turn::Machine;
use super::{Conductor, Done};
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
        let (awaited, dropped): (Vec<CallNo>, Vec<CallNo>) =
            left.into_iter().partition(|no| self.must_be_awaited(state, *no));
        for no in &dropped {
            self.drop_handler(*no).await;
        }
        let why = "the script ended without waiting for the answer";
        let mut events: Vec<EventBody> =
            dropped.iter().flat_map(|no| self.kernel.withdrawn_of(state, *no, why)).collect();
        events.extend(dropped.iter().map(|no| {
            let failure = Failure::new("cancelled", "The script ended without waiting for this call.");
            EventBody::CallSettled { call: *no, outcome: CallOutcome::Failed(failure) }
        }));
        if !awaited.is_empty() {
            if events.is_empty() {
                return Ok(Done::Nothing);
            }
            self.kernel.record(state, events, Beside::default()).await?;
            return Ok(Done::Something);
        }
        let Some(outcome) = self.end.clone() else { return Ok(Done::Nothing) };
        events.push(EventBody::Finished { outcome, logs: within_bounds(self.live.logs()) });
        if state.is_stored() {
            self.kernel.record(state, events, Beside::default()).await?;
        } else {
            self.kernel.note(state, events)?;
            self.kernel.flush_soon(state)?;
        }
        Ok(Done::Something)
    }

    fn must_be_awaited(&self, state: &State, no: CallNo) -> bool {
        let runs_here = self.handlers.contains_key(&no);
        runs_here
            && state.execution.call(no).is_some_and(|call| {
                matches!(call.phase(), Phase::Running(_))
                    && (call.may_have_acted() || call.would_be_in_doubt())
            })
    }

    /// Whether the conductor has nothing more to do here.
    pub(super) fn is_to_leave(&self, state: &State) -> bool {
        let busy = matches!(self.machine, Machine::Busy(_));
        match state.execution.next() {
            Next::AwaitSettlement(_) => self.handlers.is_empty(),
            Next::AwaitPeople if !busy => self.kernel.is_closed() || self.is_time_to_park(state),
            _ if self.kernel.is_closed() => self.handlers.is_empty(),
            // Nothing can be done about it in a process that lacks the tool.
            Next::Judge(no) | Next::RecordStart(no) | Next::Rerun(no) => {
                !busy && self.handlers.is_empty() && self.kernel.lacks_tool(state, no)
            }
            _ => false,
        }
    }

    fn is_time_to_park(&self, state: &State) -> bool {
        state.execution.next() == Next::AwaitPeople
            && self.parking.as_ref().is_some_and(|sleep| sleep.is_elapsed())
    }

    /// Puts the script away: everything it noted is written, its VM and its handlers are dropped, its journal remains.
    pub(super) async fn leave(&mut self, mut state: Guard) -> Result<Flow, GatewayError> {
        if !state.unflushed.is_empty() {
            self.kernel.record(&mut state, Vec::new(), Beside::default()).await?;
        }
        self.machine = Machine::Over;
        self.drop_handlers().await;
        Ok(self.kernel.stop(&self.live, state))
    }

    /// Starts the parking timer when only people can bring the script on, and stops it when something else can.
    pub(super) fn watch_the_parking(&mut self, state: &State) {
        let waits = state.execution.next() == Next::AwaitPeople && !matches!(self.machine, Machine::Busy(_));
        if !waits {
            self.parking = None;
        } else if self.parking.is_none() {
            self.parking = Some(Box::pin(tokio::time::sleep(self.kernel.settings.park_after)));
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
