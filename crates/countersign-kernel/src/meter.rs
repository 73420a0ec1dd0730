//! The gateway's metrics. Names are stable: dashboards rely on them.
//!
//! Counting goes through the `metrics` façade: without a recorder in the process it costs next to nothing.

use std::time::Duration;

use countersign_core::event::{CallOutcome, Event, EventBody};
use countersign_core::execution::Execution;
use countersign_sdk::Outcome;
use metrics::{counter, histogram};

/// Calls that have an outcome, by `outcome`.
const CALLS: &str = "countersign_calls_total";
/// Questions that were decided, by `outcome`.
const DECISIONS: &str = "countersign_decisions_total";
/// Questions that were asked.
const ASKED: &str = "countersign_elicitations_total";
/// How long questions waited.
const WAITED: &str = "countersign_waiting_seconds";
/// How long a durable write took.
const COMMIT: &str = "countersign_commit_seconds";

/// Counts what was recorded.
pub(crate) fn recorded(execution: &Execution, events: &[Event]) {
    for event in events {
        match &event.body {
            EventBody::CallSettled { outcome, .. } => {
                counter!(CALLS, "outcome" => call_outcome(outcome)).increment(1);
            }
            EventBody::Asked(_) => counter!(ASKED).increment(1),
            EventBody::Decided { elicitation, decision } => {
                counter!(DECISIONS, "outcome" => outcome(decision.outcome)).increment(1);
                if let Some(asked) = execution.find(*elicitation) {
                    histogram!(WAITED).record(asked.at.until(decision.at));
                }
            }
            _ => {}
        }
    }
}

/// Notes how long a durable write took.
pub(crate) fn committed(took: Duration) {
    histogram!(COMMIT).record(took);
}

fn call_outcome(outcome: &CallOutcome) -> &'static str {
    match outcome {
        CallOutcome::Succeeded(_) => "succeeded",
        CallOutcome::Failed(_) => "failed",
    }
}

fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Approved => "approved",
        Outcome::Denied => "denied",
        Outcome::Cancelled => "cancelled",
        Outcome::Expired => "expired",
    }
}
