//! The messages between host and child. The child's first frame names the version of the protocol.
//!
//! Promise: no frame is longer than [`frame::MAX_FRAME_BYTES`]: the requests of one turn, and the completions that are
//! delivered together, are split into as many frames as they need. Values are sent as their own JSON text.

use countersign_core::event::{CallOutcome, Failure};
use countersign_kernel::LogLine;
use countersign_kernel::ports::{
    Completion, Program, Request, ScriptEnd, ScriptFault, Stripped, Turn, Wanted,
};
use serde::{Deserialize, Serialize};

use crate::worker::Isolation;

/// The version of this protocol.
pub(crate) const PROTOCOL: u32 = 2;

/// The most bytes of items that share a frame; a larger item gets a frame of its own.
const TOGETHER_BYTES: usize = 1024 * 1024;

/// The most bytes of JSON that the names and numbers around an item need.
const ENVELOPE_BYTES: usize = 160;

/// The child's first frame. Later versions may add to it, so that an older host can still tell that they are newer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Hello {
    pub(crate) protocol: u32,
    pub(crate) isolation: Isolation,
}

/// The part of [`Hello`] that every version has.
#[derive(Debug, Deserialize)]
pub(crate) struct Version {
    pub(crate) protocol: u32,
}

/// A message from the host to the child.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) enum Order {
    Strip { source: String },
    Start(Program),
    Deliver { completions: Vec<Completion> },
}

/// The result of an order, unless its script is ended by force.
#[derive(Debug)]
pub(crate) enum Answer {
    Stripped(Stripped),
    Turn(Turn),
}

/// A message from the child in answer to an order: one of these, or several parts of a turn.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) enum Reply {
    Stripped(Stripped),
    Part(Part),
    /// The script was ended by force. The child ends with it.
    Fault(ScriptFault),
}

/// A part of a turn.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Part {
    pub(crate) requests: Vec<Request>,
    pub(crate) logs: Vec<LogLine>,
    pub(crate) end: Option<ScriptEnd>,
    pub(crate) then: Then,
}

/// The continuation of a turn after a part.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Then {
    /// Another part.
    More,
    /// The next order.
    #[default]
    Nothing,
}

/// Splits a turn into parts.
pub(crate) fn parts(turn: Turn) -> Vec<Part> {
    let mut parts = vec![Part::default()];
    let mut together = 0_usize;
    let mut room_for = |parts: &mut Vec<Part>, bytes: usize| {
        let full = together > 0 && together + bytes > TOGETHER_BYTES;
        together = if full { bytes } else { together + bytes };
        if full {
            if let Some(last) = parts.last_mut() {
                last.then = Then::More;
            }
            parts.push(Part::default());
        }
    };
    for log in turn.logs {
        room_for(&mut parts, ENVELOPE_BYTES + escaped(&log.message));
        if let Some(part) = parts.last_mut() {
            part.logs.push(log);
        }
    }
    for request in turn.requests {
        room_for(&mut parts, ENVELOPE_BYTES + wanted_bytes(&request.wanted));
        if let Some(part) = parts.last_mut() {
            part.requests.push(request);
        }
    }
    if let Some(end) = turn.end {
        room_for(&mut parts, ENVELOPE_BYTES + end_bytes(&end));
        if let Some(part) = parts.last_mut() {
            part.end = Some(end);
        }
    }
    parts
}

/// Splits completions into orders.
pub(crate) fn deliveries(completions: Vec<Completion>) -> Vec<Order> {
    let mut orders = Vec::new();
    let mut batch = Vec::new();
    let mut together = 0_usize;
    for completion in completions {
        let bytes = ENVELOPE_BYTES + outcome_bytes(&completion.outcome);
        if !batch.is_empty() && together + bytes > TOGETHER_BYTES {
            orders.push(Order::Deliver { completions: std::mem::take(&mut batch) });
            together = 0;
        }
        together += bytes;
        batch.push(completion);
    }
    if !batch.is_empty() || orders.is_empty() {
        orders.push(Order::Deliver { completions: batch });
    }
    orders
}

/// The most bytes that a turn needs in frames.
pub(crate) fn turn_bytes(turn: &Turn) -> usize {
    let requests: usize = turn.requests.iter().map(|r| ENVELOPE_BYTES + wanted_bytes(&r.wanted)).sum();
    let logs: usize = turn.logs.iter().map(|log| ENVELOPE_BYTES + escaped(&log.message)).sum();
    requests + logs + turn.end.as_ref().map_or(0, |end| ENVELOPE_BYTES + end_bytes(end))
}

fn wanted_bytes(wanted: &Wanted) -> usize {
    match wanted {
        Wanted::Call { path, args } => escaped(path) + args.as_str().len(),
        Wanted::Sleep { .. } => 0,
    }
}

fn end_bytes(end: &ScriptEnd) -> usize {
    match end {
        ScriptEnd::Returned(value) => value.as_str().len(),
        ScriptEnd::Threw(failure) => failure_bytes(failure),
    }
}

fn outcome_bytes(outcome: &CallOutcome) -> usize {
    match outcome {
        CallOutcome::Succeeded(value) => value.as_str().len(),
        CallOutcome::Failed(failure) => failure_bytes(failure),
    }
}

fn failure_bytes(failure: &Failure) -> usize {
    escaped(&failure.code) + escaped(&failure.message)
}

/// The most bytes that a text needs as JSON.
fn escaped(text: &str) -> usize {
    let of = |byte: u8| match byte {
        0..=0x1f => 6,
        b'"' | b'\\' => 2,
        _ => 1,
    };
    text.bytes().map(of).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{self, MAX_FRAME_BYTES};
    use countersign_core::canonical::{Canonical, Verbatim};
    use countersign_core::time::Timestamp;
    use countersign_sdk::LogLevel;
    use proptest::prelude::*;
    use serde_json::json;

    fn turn(requests: u32, args: &serde_json::Value, line: &str) -> Turn {
        let args = Canonical::of(args).unwrap();
        let request = |no: u32| Request {
            no,
            line: no.is_multiple_of(2).then_some(no + 1),
            wanted: Wanted::Call { path: "a.b".to_owned(), args: args.clone() },
        };
        Turn {
            requests: (0..requests).map(request).collect(),
            logs: vec![LogLine { level: LogLevel::Warn, message: line.to_owned() }; 3],
            end: Some(ScriptEnd::Returned(Verbatim::null())),
        }
    }

    fn framed<T: Serialize>(message: &T) -> Vec<u8> {
        let mut out = Vec::new();
        frame::append(&mut out, message).unwrap();
        out[4..].to_vec()
    }

    #[test]
    fn a_turn_comes_out_of_its_parts_as_it_went_in() {
        for (requests, bytes) in [(0, 0), (1, 1), (5_000, 500), (20, 1_000_000)] {
            let turn = turn(requests, &json!({ "s": "x".repeat(bytes) }), "\u{0}\"\\\u{202e}");
            let mut told = Turn::default();
            let parts = parts(turn.clone());
            let last = parts.len() - 1;
            let mut total = 0;
            for (n, part) in parts.into_iter().enumerate() {
                assert_eq!(part.then, if n == last { Then::Nothing } else { Then::More });
                let frame = framed(&Reply::Part(part));
                total += frame.len();
                let Ok(Reply::Part(part)) = serde_json::from_slice(&frame) else { panic!("part {n}") };
                told.requests.extend(part.requests);
                told.logs.extend(part.logs);
                told.end = part.end;
            }
            assert!(total <= turn_bytes(&turn) + ENVELOPE_BYTES * (last + 1), "{total}");
            assert_eq!(told, turn);
        }
    }

    #[test]
    fn the_largest_value_and_the_worst_text_fit_into_a_frame() {
        let bound = countersign_core::bounds::MAX_VALUE_BYTES;
        let value = json!("x".repeat(bound - 2));
        for part in parts(turn(3, &value, &"\u{1}".repeat(16 * 1024))) {
            assert!(framed(&Reply::Part(part)).len() <= MAX_FRAME_BYTES / 2);
        }
        let source = "\u{1}".repeat(crate::Limits::default().source_bytes);
        assert!(framed(&Order::Strip { source }).len() <= MAX_FRAME_BYTES / 2);
    }

    #[test]
    fn completions_come_out_of_their_orders_in_order() {
        let completion = |request: u32, bytes: usize| Completion {
            request,
            at: Timestamp::from_millis(u64::from(request)),
            outcome: match request % 2 {
                0 => CallOutcome::Succeeded(Verbatim::of(&json!("x".repeat(bytes))).unwrap()),
                _ => CallOutcome::Failed(Failure::new("denied", "\n".repeat(bytes / 6))),
            },
        };
        for (count, bytes, orders) in [(0, 0, 1), (10_000, 10, 2), (7, 600_000, 7)] {
            let given: Vec<Completion> = (0..count).map(|no| completion(no, bytes)).collect();
            let cut = deliveries(given.clone());
            assert_eq!(cut.len(), orders, "{count} of {bytes}");
            let mut got = Vec::new();
            for order in cut {
                let Ok(Order::Deliver { completions }) = serde_json::from_slice(&framed(&order)) else {
                    panic!("no delivery")
                };
                got.extend(completions);
            }
            assert_eq!(got, given);
        }
    }

    #[test]
    fn every_fault_comes_out_as_it_went_in() {
        let cause = || "c".to_owned();
        for fault in [
            ScriptFault::Invalid { message: cause(), line: 1, column: 2 },
            ScriptFault::TooLong { bytes: 2, bound: 1 },
            ScriptFault::OutOfMemory { bound_mib: 64 },
            ScriptFault::CpuLimit { bound_ms: 1 },
            ScriptFault::TooManyCalls { bound: 3 },
            ScriptFault::ValueTooLarge { bound: 4 },
            ScriptFault::Crashed { cause: cause() },
            ScriptFault::Unavailable { cause: cause() },
            ScriptFault::NotIsolated { missing: cause() },
        ] {
            let frame = framed(&Reply::Fault(fault.clone()));
            assert_eq!(serde_json::from_slice::<Reply>(&frame).unwrap(), Reply::Fault(fault));
        }
    }

    proptest! {
        #[test]
        fn a_mutated_frame_is_read_as_something_or_refused_and_never_worse(
            at in any::<prop::sample::Index>(),
            byte in any::<u8>(),
            cut in any::<prop::sample::Index>(),
            doubled in any::<bool>(),
        ) {
            let mut part = parts(turn(3, &json!({ "a": [1, { "b": "x" }] }), "line")).remove(0);
            part.then = Then::Nothing;
            let mut frame = framed(&Reply::Part(part));
            let place = at.index(frame.len());
            frame[place] = byte;
            if doubled {
                frame.extend_from_within(place..);
            } else {
                frame.truncate(cut.index(frame.len()) + 1);
            }
            if let Ok(Reply::Part(part)) = serde_json::from_slice(&frame) {
                for request in part.requests {
                    if let Wanted::Call { args, .. } = request.wanted {
                        prop_assert_eq!(&Canonical::of(&args.to_value()).unwrap(), &args);
                    }
                }
            }
        }
    }
}
