//! Checks of everything a child sends: the host does not trust it.
//!
//! Promise: a turn that passes is one that a script within its limits could have made: its requests are numbered without a
//! gap, its arguments canonical, its values within bounds. Anything else ends the child. A child that lacks a layer of
//! isolation gets no script unless the operator allows that.

use countersign_core::canonical::Verbatim;
use countersign_kernel::LogLine;
use countersign_kernel::ports::{Request, ScriptEnd, ScriptFault, Turn, Wanted};
use countersign_sdk::MAX_PATH_BYTES;

use crate::frame::MAX_FRAME_BYTES;
use crate::limits::Limits;
use crate::message::{Hello, PROTOCOL, Part, Reply, Then, Version};
use crate::worker::{Isolation, RequiredIsolation};

/// The longest text of a fault or failure; the rest is cut off.
const MAX_TEXT_BYTES: usize = countersign_core::bounds::MAX_TEXT_BYTES;

/// The most lines that one turn may log. The engine's own bound is lower.
const MAX_TURN_LINES: usize = 10_000;

/// Checks the first frame.
pub(crate) fn hello(frame: &[u8]) -> Result<Hello, String> {
    let unreadable = |error: serde_json::Error| format!("its first frame cannot be read: {error}");
    let version: Version = serde_json::from_slice(frame).map_err(unreadable)?;
    if version.protocol != PROTOCOL {
        let theirs = version.protocol;
        return Err(format!("it speaks version {theirs} of the protocol, this gateway {PROTOCOL}"));
    }
    serde_json::from_slice(frame).map_err(unreadable)
}

/// Whether a child that achieved this may be given a script.
pub(crate) fn isolation(achieved: &Isolation, required: RequiredIsolation) -> Result<(), ScriptFault> {
    let missing = achieved.missing();
    if required == RequiredIsolation::AllowWeaker || missing.is_empty() {
        return Ok(());
    }
    let layers: Vec<String> = missing.iter().map(|(name, layer)| format!("{name} {layer}")).collect();
    Err(ScriptFault::NotIsolated { missing: layers.join("; ") })
}

/// Reads a reply; what is in it is checked later.
pub(crate) fn reply(frame: &[u8]) -> Result<Reply, String> {
    serde_json::from_slice(frame).map_err(|error| format!("a frame that no child writes: {error}"))
}

/// Checks a turn part by part, and puts it together.
pub(crate) struct TurnCheck<'a> {
    limits: &'a Limits,
    /// The number that the next request must have.
    next: u32,
    turn: Turn,
    bytes: usize,
}

impl<'a> TurnCheck<'a> {
    /// For the next turn of a script that has made so many requests before.
    pub(crate) fn new(limits: &'a Limits, requests_before: u32) -> Self {
        Self { limits, next: requests_before, turn: Turn::default(), bytes: 0 }
    }

    /// Adds a part that came in so many bytes, and returns what follows it.
    pub(crate) fn add(&mut self, part: Part, bytes: usize) -> Result<Then, String> {
        self.bytes = self.bytes.saturating_add(bytes);
        // The child checks the same without the envelopes, so an honest one stays below this.
        let bound = self.limits.memory_bytes.saturating_add(MAX_FRAME_BYTES);
        if self.bytes > bound {
            return Err(format!("a turn of more than {bound} bytes"));
        }
        if self.turn.end.is_some() {
            return Err("it went on after its end".to_owned());
        }
        let empty = part.requests.is_empty() && part.logs.is_empty() && part.end.is_none();
        if empty && part.then == Then::More {
            return Err("a part with nothing in it".to_owned());
        }
        for request in part.requests {
            self.request(request)?;
        }
        for line in part.logs {
            self.line(line)?;
        }
        self.turn.end = part.end.map(|end| self.end(end)).transpose()?;
        Ok(part.then)
    }

    pub(crate) fn finish(self) -> Turn {
        self.turn
    }

    fn request(&mut self, request: Request) -> Result<(), String> {
        if request.no != self.next {
            return Err(format!("request {} where {} is next", request.no, self.next));
        }
        if self.next >= self.limits.calls {
            return Err(format!("more than {} requests", self.limits.calls));
        }
        // A line has at least the byte that ends it.
        let last_line = self.limits.source_bytes.saturating_add(1);
        if request.line.is_some_and(|line| line == 0 || line as usize > last_line) {
            return Err("a line that no source has".to_owned());
        }
        if let Wanted::Call { path, args } = &request.wanted {
            if path.len() > MAX_PATH_BYTES {
                return Err(format!("a path of more than {MAX_PATH_BYTES} bytes"));
            }
            // Deserialising them has checked that they are canonical.
            if args.as_str().len() > self.limits.value_bytes {
                return Err(format!("arguments of more than {} bytes", self.limits.value_bytes));
            }
        }
        self.next += 1;
        self.turn.requests.push(request);
        Ok(())
    }

    fn line(&mut self, line: LogLine) -> Result<(), String> {
        if self.turn.logs.len() >= MAX_TURN_LINES {
            return Err(format!("more than {MAX_TURN_LINES} lines in a turn"));
        }
        if line.message.len() > MAX_TEXT_BYTES {
            return Err(format!("a line of more than {MAX_TEXT_BYTES} bytes"));
        }
        self.turn.logs.push(line);
        Ok(())
    }

    fn end(&self, end: ScriptEnd) -> Result<ScriptEnd, String> {
        match end {
            ScriptEnd::Returned(value) => self.value(value).map(ScriptEnd::Returned),
            ScriptEnd::Threw(mut failure) => {
                cut(&mut failure.code);
                cut(&mut failure.message);
                Ok(ScriptEnd::Threw(failure))
            }
        }
    }

    fn value(&self, value: Verbatim) -> Result<Verbatim, String> {
        if value.as_str().len() > self.limits.value_bytes {
            return Err(format!("a value of more than {} bytes", self.limits.value_bytes));
        }
        let parsed = serde_json::from_str(value.as_str()).map_err(|error| format!("a value: {error}"))?;
        // The text itself is kept; this only checks that it is within bounds.
        Verbatim::of(&parsed).map(|_| value).map_err(|error| format!("a value: {error}"))
    }
}

/// The fault that a child reports, with the host's own bounds in it.
pub(crate) fn fault(said: ScriptFault, limits: &Limits) -> ScriptFault {
    match said {
        ScriptFault::Invalid { mut message, line, column } => {
            cut(&mut message);
            ScriptFault::Invalid { message, line, column }
        }
        ScriptFault::TooLong { bytes, .. } => ScriptFault::TooLong { bytes, bound: limits.source_bytes },
        ScriptFault::OutOfMemory { .. } => limits.out_of_memory(),
        ScriptFault::CpuLimit { .. } => limits.cpu_exceeded(),
        ScriptFault::TooManyCalls { .. } => ScriptFault::TooManyCalls { bound: limits.calls },
        ScriptFault::ValueTooLarge { .. } => ScriptFault::ValueTooLarge { bound: limits.value_bytes },
        ScriptFault::NotAsked { request } => ScriptFault::NotAsked { request },
        ScriptFault::Busy { .. } => ScriptFault::Crashed { cause: "it said that it is busy".to_owned() },
        // A child cannot know whether another sandbox is available.
        ScriptFault::Crashed { mut cause }
        | ScriptFault::Unavailable { mut cause }
        | ScriptFault::NotIsolated { missing: mut cause } => {
            cut(&mut cause);
            ScriptFault::Crashed { cause }
        }
    }
}

fn cut(text: &mut String) {
    text.truncate(text.floor_char_boundary(MAX_TEXT_BYTES));
}
