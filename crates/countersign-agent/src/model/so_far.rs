//! A turn that is being made: collected whole, told piece by piece, and bounded.

use crate::event::AgentEvent;
use crate::message::{OpaqueBlock, ToolCall};
use crate::model::ModelError;
use crate::queue::Events;

/// The most words and arguments of one turn.
pub const MAX_TURN_BYTES: usize = 4 << 20;
/// The most calls of one turn.
pub const MAX_CALLS_PER_TURN: usize = 128;

/// What a model has said of its turn so far.
pub struct TurnSoFar {
    events: Events,
    text: String,
    speaking: bool,
    calls: Vec<Writing>,
    blocks: Vec<OpaqueBlock>,
    bytes: usize,
}

/// A turn that is made.
#[derive(Debug, PartialEq)]
pub(crate) struct WholeTurn {
    pub(crate) text: String,
    pub(crate) calls: Vec<ToolCall>,
    pub(crate) blocks: Vec<OpaqueBlock>,
}

/// A call that is being written.
struct Writing {
    /// The protocol's number for it.
    slot: u64,
    call: ToolCall,
    stopped: bool,
}

impl TurnSoFar {
    pub(crate) fn new(events: Events) -> Self {
        Self { events, text: String::new(), speaking: false, calls: Vec::new(), blocks: Vec::new(), bytes: 0 }
    }

    /// More words.
    pub fn text(&mut self, delta: &str) -> Result<(), ModelError> {
        if delta.is_empty() {
            return Ok(());
        }
        self.grow(delta.len())?;
        if !self.speaking {
            self.speaking = true;
            self.events.tell(AgentEvent::ContentStart);
        }
        self.text.push_str(delta);
        if self.events.are_wanted() {
            self.events.tell(AgentEvent::ContentDelta { text: delta.to_owned() });
        }
        Ok(())
    }

    /// A call begins. `slot` is the protocol's number for it within the turn.
    pub fn call_started(&mut self, slot: u64, id: &str, name: &str) -> Result<(), ModelError> {
        if self.calls.len() >= MAX_CALLS_PER_TURN {
            return Err(ModelError::TooLarge(format!("it makes more than {MAX_CALLS_PER_TURN} calls")));
        }
        if self.calls.iter().any(|writing| writing.slot == slot) {
            return Err(ModelError::Malformed(format!("the call {slot} begins twice")));
        }
        self.grow(id.len() + name.len())?;
        self.stop_speaking();
        let id = self.free_id(id);
        self.events.tell(AgentEvent::ToolUseStart { call_id: id.clone(), name: name.to_owned() });
        let call = ToolCall { id, name: name.to_owned(), input: String::new() };
        self.calls.push(Writing { slot, call, stopped: false });
        Ok(())
    }

    /// More of a call's arguments.
    pub fn call_delta(&mut self, slot: u64, json: &str) -> Result<(), ModelError> {
        self.grow(json.len())?;
        let writing = self.calls.iter_mut().find(|writing| writing.slot == slot && !writing.stopped);
        let Some(writing) = writing else {
            return Err(ModelError::Malformed(format!(
                "arguments for a call {slot} that is not being written"
            )));
        };
        writing.call.input.push_str(json);
        if self.events.are_wanted() && !json.is_empty() {
            let (call_id, json) = (writing.call.id.clone(), json.to_owned());
            self.events.tell(AgentEvent::ToolUseDelta { call_id, json });
        }
        Ok(())
    }

    /// A call is written.
    pub fn call_stopped(&mut self, slot: u64) {
        if let Some(writing) = self.calls.iter_mut().find(|w| w.slot == slot && !w.stopped) {
            writing.stopped = true;
            self.events.tell(AgentEvent::ToolUseStop { call_id: writing.call.id.clone() });
        }
    }

    /// Something of the turn that only its own protocol understands, to be told back to it. Nobody is told of it meanwhile.
    pub fn keep(&mut self, block: OpaqueBlock) -> Result<(), ModelError> {
        self.grow(block.content.to_string().len())?;
        self.blocks.push(block);
        Ok(())
    }

    /// The model met its limit of tokens. Words are as good as they are; the arguments of a call may be cut to something
    /// that can be read and was never meant, so that a turn with calls fails.
    pub fn cut_off(&self) -> Result<(), ModelError> {
        if !self.calls.is_empty() {
            return Err(ModelError::CutOff);
        }
        self.warn("the model's turn was cut off at its limit of tokens");
        Ok(())
    }

    /// Something to know that stops nothing.
    pub fn warn(&self, message: impl Into<String>) {
        self.events.tell(AgentEvent::Warning { message: message.into() });
    }

    /// The whole turn.
    pub(crate) fn finish(mut self) -> WholeTurn {
        self.stop_speaking();
        for slot in self.calls.iter().map(|writing| writing.slot).collect::<Vec<_>>() {
            self.call_stopped(slot);
        }
        let calls = self.calls.into_iter().map(|writing| writing.call).collect();
        WholeTurn { text: self.text, calls, blocks: self.blocks }
    }

    /// Some servers send no id, or the same one twice; calls of one turn must be told apart.
    fn free_id(&self, wanted: &str) -> String {
        let is_free = |id: &str| !id.is_empty() && self.calls.iter().all(|writing| writing.call.id != id);
        let base = if wanted.is_empty() { "call" } else { wanted };
        let numbered = (self.calls.len() + 1..).map(|number| format!("{base}_{number}"));
        let mut candidates = std::iter::once(wanted.to_owned()).chain(numbered);
        candidates.find(|id| is_free(id)).unwrap_or_default()
    }

    fn stop_speaking(&mut self) {
        if std::mem::take(&mut self.speaking) {
            self.events.tell(AgentEvent::ContentStop);
        }
    }

    fn grow(&mut self, by: usize) -> Result<(), ModelError> {
        self.bytes += by;
        if self.bytes > MAX_TURN_BYTES {
            return Err(ModelError::TooLarge(format!("it has more than {MAX_TURN_BYTES} bytes")));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn() -> TurnSoFar {
        TurnSoFar::new(Events::default())
    }

    #[test]
    fn calls_of_one_turn_are_told_apart_whatever_ids_the_model_gives_them() {
        let mut turn = turn();
        for (slot, id) in [(0, "a"), (1, "a_3"), (2, "a"), (3, "")] {
            turn.call_started(slot, id, "t").unwrap();
        }
        let turn = turn.finish();
        let ids: Vec<&str> = turn.calls.iter().map(|call| call.id.as_str()).collect();
        assert_eq!(ids, ["a", "a_3", "a_4", "call_4"]);
    }

    #[test]
    fn a_turn_at_its_bounds_is_taken_and_one_past_them_is_not() {
        let mut text = turn();
        text.text(&"x".repeat(MAX_TURN_BYTES)).unwrap();
        assert!(matches!(text.text("x"), Err(ModelError::TooLarge(_))));
        let mut kept = turn();
        let thought = |bytes: usize| OpaqueBlock::new("test", "x".repeat(bytes).into());
        // Two quotation marks are part of the block.
        kept.keep(thought(MAX_TURN_BYTES - 2)).unwrap();
        assert!(matches!(kept.keep(thought(0)), Err(ModelError::TooLarge(_))));
        let mut calls = turn();
        for slot in 0..MAX_CALLS_PER_TURN as u64 {
            calls.call_started(slot, &slot.to_string(), "t").unwrap();
        }
        assert!(matches!(calls.call_started(999, "x", "t"), Err(ModelError::TooLarge(_))));
    }

    #[test]
    fn arguments_for_a_call_that_nobody_began_are_malformed() {
        assert!(matches!(turn().call_delta(0, "{}"), Err(ModelError::Malformed(_))));
    }
}
