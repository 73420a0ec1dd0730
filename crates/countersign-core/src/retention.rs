//! How much of an execution is kept.
//!
//! A call that only read, and whose caller has its answer, can be repeated when the value is needed. Its large values
//! are recorded as their size and SHA-256, so that the record still proves what was read, and an agent that reads much does
//! not fill the disk. Everything else is kept whole.

use countersign_sdk::AskKind;
use serde_json::json;

use crate::canonical::{Canonical, Verbatim};
use crate::digest::{Binding, Digest};
use crate::elicitation::{Elicitation, Origin};
use crate::event::{CallOutcome, Event, EventBody};
use crate::execution::Execution;

/// The largest value of a call that only read which is kept whole, in bytes of JSON.
pub const MAX_KEPT_READ_BYTES: usize = 64 * 1024;

/// The name of the one field of a record that replaces a value.
pub const NOT_KEPT: &str = "countersign/notKept";

/// The approximate size of a commit on disk without its events: its row, its audit record and their indexes.
const BYTES_PER_COMMIT: usize = 512;
/// The approximate size of an event on disk without its values.
const BYTES_PER_EVENT: usize = 256;
/// The approximate size of a question on disk without its message, arguments and form.
const BYTES_PER_QUESTION: usize = 512;

/// An event as it is recorded of an execution that only read. The digest of its call is then that of what is recorded.
#[must_use]
pub fn of_a_read(execution: &Execution, event: &Event) -> Event {
    let mut event = event.clone();
    match &mut event.body {
        EventBody::CallIssued(issued) => {
            issued.args = args_of_a_read(&issued.args);
            let binding = Binding {
                tool: &issued.path,
                fingerprint: issued.fingerprint,
                args: &issued.args,
                requester: &execution.requester().id,
                session: execution.session(),
                policy_version: issued.policy_version,
            };
            issued.digest = binding.digest();
        }
        EventBody::CallSettled { outcome, .. } | EventBody::Finished { outcome, .. } => {
            if let CallOutcome::Succeeded(value) = outcome
                && value.as_str().len() > MAX_KEPT_READ_BYTES
                && let Ok(record) = Verbatim::of(&record_of(value.as_str()))
            {
                *value = record;
            }
        }
        _ => {}
    }
    event
}

/// Arguments as they are recorded of a call that only read.
#[must_use]
pub fn args_of_a_read(args: &Canonical) -> Canonical {
    let record =
        (args.as_str().len() > MAX_KEPT_READ_BYTES).then(|| Canonical::of(&record_of(args.as_str())));
    record.and_then(Result::ok).unwrap_or_else(|| args.clone())
}

/// About how many bytes events that are written together take on disk.
#[must_use]
pub fn stored_bytes(events: &[Event]) -> usize {
    let values: usize = events.iter().map(value_bytes).sum();
    let settled_at_the_end = match events {
        // The end of one call refers to the outcome before it.
        [
            ..,
            Event { body: EventBody::CallSettled { outcome, .. }, .. },
            Event { body: EventBody::Finished { outcome: same, .. }, .. },
        ] if outcome == same => outcome.bytes(),
        _ => 0,
    };
    values - settled_at_the_end + BYTES_PER_COMMIT + events.len() * BYTES_PER_EVENT
}

/// The approximate size of a question: the bound on a requester's open questions counts it.
#[must_use]
pub fn question_bytes(asked: &Elicitation) -> usize {
    let form = match &asked.kind {
        AskKind::Approval => 0,
        AskKind::Form { schema } => schema.as_value().to_string().len(),
    };
    asked.args.as_str().len() + asked.message.len() + form + BYTES_PER_QUESTION
}

fn value_bytes(event: &Event) -> usize {
    match &event.body {
        EventBody::Started(started) => started.script.as_ref().map_or(0, |script| script.source.len()),
        EventBody::CallIssued(issued) => issued.args.as_str().len(),
        // The gate's question refers to the arguments of its call.
        EventBody::Asked(asked) if asked.origin == Origin::Gate => asked.message.len(),
        EventBody::Asked(asked) => asked.args.as_str().len() + asked.message.len(),
        EventBody::StepRecorded { value, .. } => value.as_str().len(),
        EventBody::CallSettled { outcome, .. } => outcome.bytes(),
        EventBody::Finished { outcome, logs } => {
            outcome.bytes() + logs.iter().map(|line| line.message.len()).sum::<usize>()
        }
        _ => 0,
    }
}

fn record_of(text: &str) -> serde_json::Value {
    json!({ NOT_KEPT: { "bytes": text.len(), "sha256": Digest::of(text.as_bytes()).to_string() } })
}
