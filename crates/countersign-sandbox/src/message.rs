//! What host and child say to each other. The child's first frame says which version of this it speaks.
//!
//! Promise: no frame is longer than [`frame::MAX_FRAME_BYTES`]: what a script asks for in one turn, and what it is given
//! at once, is cut into as many frames as it takes. Values travel as the text they are.

use countersign_core::canonical::{Canonical, Verbatim};
use countersign_core::event::{CallOutcome, Failure};
use countersign_core::time::Timestamp;
use countersign_kernel::LogLine;
use countersign_kernel::ports::{
    Completion, Program, Request, ScriptEnd, ScriptFault, Stripped, Turn, Wanted,
};
use countersign_sdk::LogLevel;
use serde::{Deserialize, Serialize};

use crate::worker::Isolation;

/// The version of all that stands here.
pub(crate) const PROTOCOL: u32 = 2;

/// Up to here things are put into one frame together; a larger thing gets one of its own.
const TOGETHER_BYTES: usize = 1024 * 1024;

/// What the names and numbers around a thing take in JSON, at most.
const ENVELOPE_BYTES: usize = 160;

/// The child's first frame. Later versions may add to it, so that an older host can still tell that they are newer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Hello {
    /// The version that the child speaks.
    pub(crate) protocol: u32,
    /// What the child achieved.
    pub(crate) isolation: Isolation,
}

/// The part of [`Hello`] that every version has.
#[derive(Debug, Deserialize)]
pub(crate) struct Version {
    /// The version that the child speaks.
    pub(crate) protocol: u32,
}

/// What the host tells the child.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) enum Order {
    /// Strip the types of this source.
    Strip { source: String },
    /// Start this.
    Start {
        #[serde(with = "WireStripped")]
        stripped: Stripped,
        seed: [u8; 32],
        now: Timestamp,
    },
    /// Go on with these.
    Deliver { completions: Vec<WireCompletion> },
}

impl Order {
    /// To start a program.
    pub(crate) fn start(program: Program) -> Self {
        Self::Start { stripped: program.stripped, seed: program.seed, now: program.now }
    }
}

/// What the child answers an order with: one of these, but as many parts of a turn as it takes.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) enum Reply {
    /// The source without its types.
    Stripped(#[serde(with = "WireStripped")] Stripped),
    /// A part of what the script did.
    Part(Part),
    /// The script was ended. The child ends with it.
    Fault(#[serde(with = "WireFault")] ScriptFault),
}

/// A part of what a script did in a turn.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Part {
    pub(crate) requests: Vec<WireRequest>,
    pub(crate) logs: Vec<WireLog>,
    pub(crate) end: Option<WireEnd>,
    pub(crate) then: Then,
}

/// What follows a part.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Then {
    /// Another one.
    More,
    /// The next order.
    #[default]
    Nothing,
}

/// Cuts a turn into parts.
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
            part.logs.push(WireLog(log));
        }
    }
    for request in turn.requests {
        room_for(&mut parts, ENVELOPE_BYTES + wanted_bytes(&request.wanted));
        if let Some(part) = parts.last_mut() {
            part.requests.push(WireRequest(request));
        }
    }
    if let Some(end) = turn.end {
        room_for(&mut parts, ENVELOPE_BYTES + end_bytes(&end));
        if let Some(part) = parts.last_mut() {
            part.end = Some(WireEnd(end));
        }
    }
    parts
}

/// Cuts what a script is given into orders.
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
        batch.push(WireCompletion(completion));
    }
    if !batch.is_empty() || orders.is_empty() {
        orders.push(Order::Deliver { completions: batch });
    }
    orders
}

/// What a turn takes in frames, at most.
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

/// How long a text is as JSON, at most.
fn escaped(text: &str) -> usize {
    let of = |byte: u8| match byte {
        0..=0x1f => 6,
        b'"' | b'\\' => 2,
        _ => 1,
    };
    text.bytes().map(of).sum()
}

/// A [`Completion`], on the wire.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct WireCompletion(#[serde(with = "CompletionFields")] pub(crate) Completion);

/// A [`Request`], on the wire.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct WireRequest(#[serde(with = "RequestFields")] pub(crate) Request);

/// A [`LogLine`], on the wire.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct WireLog(#[serde(with = "LogFields")] pub(crate) LogLine);

/// A [`ScriptEnd`], on the wire.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct WireEnd(#[serde(with = "EndVariants")] pub(crate) ScriptEnd);

// The kernel's types know no wire. These repeat their fields; the compiler sees to it that none is missing.

#[derive(Serialize, Deserialize)]
#[serde(remote = "Stripped", deny_unknown_fields)]
struct WireStripped {
    code: String,
    mappings: String,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Completion", deny_unknown_fields)]
struct CompletionFields {
    request: u32,
    at: Timestamp,
    outcome: CallOutcome,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Request", deny_unknown_fields)]
struct RequestFields {
    no: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
    #[serde(with = "WantedVariants")]
    wanted: Wanted,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Wanted", rename_all = "camelCase", deny_unknown_fields)]
enum WantedVariants {
    Call { path: String, args: Canonical },
    Sleep { ms: u64 },
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "LogLine", deny_unknown_fields)]
struct LogFields {
    level: LogLevel,
    message: String,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "ScriptEnd", rename_all = "camelCase", deny_unknown_fields)]
enum EndVariants {
    Returned(Verbatim),
    Threw(Failure),
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "ScriptFault", rename_all = "camelCase", deny_unknown_fields)]
enum WireFault {
    Invalid { message: String, line: u32, column: u32 },
    TooLong { bytes: usize, bound: usize },
    OutOfMemory { bound_mib: u64 },
    CpuLimit { bound_ms: u64 },
    TooManyCalls { bound: u32 },
    ValueTooLarge { bound: usize },
    NotAsked { request: u32 },
    Crashed { cause: String },
    Unavailable { cause: String },
    Busy { retry_after_s: u64 },
    NotIsolated { missing: String },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{self, MAX_FRAME_BYTES};
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
                told.requests.extend(part.requests.into_iter().map(|wire| wire.0));
                told.logs.extend(part.logs.into_iter().map(|wire| wire.0));
                told.end = part.end.map(|wire| wire.0);
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
                got.extend(completions.into_iter().map(|wire| wire.0));
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
                for WireRequest(request) in part.requests {
                    if let Wanted::Call { args, .. } = request.wanted {
                        prop_assert_eq!(&Canonical::of(&args.to_value()).unwrap(), &args);
                    }
                }
            }
        }
    }
}
