//! Anthropic's messages protocol, streamed.

use std::collections::BTreeMap;

use async_trait::async_trait;
use countersign_sdk::SecretString;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::message::{Message, OpaqueBlock, ToolCall, ToolResult};
use crate::model::http::{Endpoint, KeyHeader, Retry};
use crate::model::sse::{Events, read};
use crate::model::{Model, ModelError, ModelRequest, TurnSoFar, object, stand_in};
use crate::tool::AgentTool;

/// The most tokens of one turn, where nothing else is said; the protocol wants a number.
pub const DEFAULT_MAX_TOKENS: u32 = 8_192;
/// Where Anthropic's own service is.
const ANTHROPIC: &str = "https://api.anthropic.com";
/// The revision of the protocol that is spoken.
const REVISION: &str = "2023-06-01";
/// The protocol's name, on what only it understands.
const PROTOCOL: &str = "anthropic";

/// A model behind the messages protocol, at Anthropic or anywhere that speaks it.
pub struct AnthropicModel {
    endpoint: Endpoint,
}

impl AnthropicModel {
    /// A model at Anthropic.
    pub fn new(model: impl Into<String>, key: SecretString) -> Result<Self, ModelError> {
        Self::at(ANTHROPIC, model, key)
    }

    /// A model at another base URL.
    pub fn at(base: &str, model: impl Into<String>, key: SecretString) -> Result<Self, ModelError> {
        let header = KeyHeader { name: "x-api-key", prefix: "" };
        let endpoint = Endpoint::new(base, "v1/messages", model.into(), key, &header)?
            .with_header("anthropic-version", REVISION)
            .with_field("max_tokens".to_owned(), json!(DEFAULT_MAX_TOKENS));
        Ok(Self { endpoint })
    }

    /// How often a request is tried.
    #[must_use]
    pub fn retry(self, retry: Retry) -> Self {
        Self { endpoint: self.endpoint.with_retry(retry) }
    }

    /// A further field of the request, such as `max_tokens`.
    #[must_use]
    pub fn option(self, name: impl Into<String>, value: Value) -> Self {
        Self { endpoint: self.endpoint.with_field(name.into(), value) }
    }
}

#[async_trait]
impl Model for AnthropicModel {
    async fn turn(&self, request: ModelRequest<'_>, turn: &mut TurnSoFar) -> Result<(), ModelError> {
        self.endpoint.ask(fields(request), |events| read_turn(events, turn)).await
    }
}

pub(super) async fn read_turn(mut events: Events, turn: &mut TurnSoFar) -> Result<(), ModelError> {
    let (mut blocks, mut finished) = (Blocks::default(), false);
    while let Some(data) = events.next().await? {
        match blocks.take(read(&data)?, turn)? {
            Flow::GoesOn => {}
            Flow::HasReason => finished = true,
            Flow::Ended => return blocks.end(turn),
        }
    }
    // A reason to stop says that the turn is whole, also where the last event is missing.
    if finished { blocks.end(turn) } else { Err(ModelError::Truncated) }
}

/// What an event says about the end of the turn.
enum Flow {
    GoesOn,
    HasReason,
    Ended,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Event {
    ContentBlockStart {
        index: u64,
        content_block: Block,
    },
    ContentBlockDelta {
        index: u64,
        delta: Delta,
    },
    ContentBlockStop {
        index: u64,
    },
    MessageDelta {
        delta: Reason,
    },
    MessageStop,
    Error {
        error: Reported,
    },
    /// Pings, and whatever the protocol learns to say.
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block {
    Text {
        #[serde(default)]
        text: String,
    },
    ToolUse {
        id: String,
        name: String,
        #[serde(default)]
        input: Value,
    },
    Thinking {
        #[serde(default)]
        thinking: String,
        #[serde(default)]
        signature: String,
    },
    RedactedThinking {
        data: String,
    },
    /// The server's own tools, and whatever else a block may be.
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
#[serde(tag = "type")]
enum Delta {
    #[serde(rename = "text_delta")]
    Text { text: String },
    #[serde(rename = "input_json_delta")]
    Input { partial_json: String },
    #[serde(rename = "thinking_delta")]
    Thinking { thinking: String },
    #[serde(rename = "signature_delta")]
    Signature { signature: String },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Reason {
    stop_reason: Option<String>,
}

#[derive(Deserialize)]
struct Reported {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    message: String,
}

/// The blocks that have begun and not ended, by their number.
#[derive(Default)]
struct Blocks(BTreeMap<u64, Open>);

/// A block that is being written.
enum Open {
    /// A call. What its start says of the input counts where nothing follows.
    Call { given: Option<String> },
    /// Must come back with the calls it led to, or the next request is refused.
    Thought { thinking: String, signature: String },
    /// The same, unreadable.
    Redacted { data: String },
    /// Words, which are told as they come, and whatever nobody here reads.
    Other,
}

impl Blocks {
    fn take(&mut self, event: Event, turn: &mut TurnSoFar) -> Result<Flow, ModelError> {
        match event {
            Event::ContentBlockStart { index, content_block } => self.start(index, content_block, turn)?,
            Event::ContentBlockDelta { index, delta } => self.delta(index, delta, turn)?,
            Event::ContentBlockStop { index } => self.stop(index, turn)?,
            Event::MessageDelta { delta: Reason { stop_reason } } => {
                if stop_reason.as_deref() == Some("max_tokens") {
                    turn.cut_off()?;
                }
                return Ok(if stop_reason.is_some() { Flow::HasReason } else { Flow::GoesOn });
            }
            Event::MessageStop => return Ok(Flow::Ended),
            Event::Error { error: Reported { kind, message } } => {
                return Err(ModelError::Reported { kind, message });
            }
            Event::Other => {}
        }
        Ok(Flow::GoesOn)
    }

    fn start(&mut self, index: u64, block: Block, turn: &mut TurnSoFar) -> Result<(), ModelError> {
        let open = match block {
            Block::Text { text } => {
                turn.text(&text)?;
                Open::Other
            }
            Block::ToolUse { id, name, input } => {
                turn.call_started(index, &id, &name)?;
                let says_something = input.as_object().is_some_and(|fields| !fields.is_empty());
                Open::Call { given: says_something.then(|| input.to_string()) }
            }
            Block::Thinking { thinking, signature } => Open::Thought { thinking, signature },
            Block::RedactedThinking { data } => Open::Redacted { data },
            Block::Other => Open::Other,
        };
        self.0.insert(index, open);
        Ok(())
    }

    fn delta(&mut self, index: u64, delta: Delta, turn: &mut TurnSoFar) -> Result<(), ModelError> {
        match (delta, self.0.get_mut(&index)) {
            (Delta::Text { text }, _) => turn.text(&text),
            (Delta::Input { partial_json }, Some(Open::Call { given })) => {
                if !partial_json.is_empty() {
                    *given = None;
                }
                turn.call_delta(index, &partial_json)
            }
            // Arguments of a tool that the server runs itself.
            (Delta::Input { .. }, Some(_)) => Ok(()),
            (Delta::Input { partial_json }, None) => turn.call_delta(index, &partial_json),
            (Delta::Thinking { thinking: more }, Some(Open::Thought { thinking, .. })) => {
                thinking.push_str(&more);
                Ok(())
            }
            (Delta::Signature { signature: more }, Some(Open::Thought { signature, .. })) => {
                signature.push_str(&more);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn stop(&mut self, index: u64, turn: &mut TurnSoFar) -> Result<(), ModelError> {
        match self.0.remove(&index) {
            Some(Open::Call { given }) => {
                if let Some(input) = given {
                    turn.call_delta(index, &input)?;
                }
                turn.call_stopped(index);
            }
            // One that was cut off before its signature would be refused.
            Some(Open::Thought { thinking, signature }) if !signature.is_empty() => {
                turn.keep(own(json!({ "type": "thinking", "thinking": thinking, "signature": signature })))?;
            }
            Some(Open::Redacted { data }) => {
                turn.keep(own(json!({ "type": "redacted_thinking", "data": data })))?;
            }
            Some(Open::Thought { .. } | Open::Other) | None => {}
        }
        Ok(())
    }

    /// Stops what the stream did not, in its order.
    fn end(mut self, turn: &mut TurnSoFar) -> Result<(), ModelError> {
        let open: Vec<u64> = self.0.keys().copied().collect();
        open.into_iter().try_for_each(|index| self.stop(index, turn))
    }
}

fn own(content: Value) -> OpaqueBlock {
    OpaqueBlock::new(PROTOCOL, content)
}

fn fields(request: ModelRequest<'_>) -> Map<String, Value> {
    let mut fields = Map::from_iter([("messages".to_owned(), messages(request.messages))]);
    if !request.instructions.is_empty() {
        fields.insert("system".to_owned(), json!(request.instructions));
    }
    if !request.tools.is_empty() {
        fields.insert("tools".to_owned(), request.tools.iter().map(tool).collect());
    }
    fields
}

/// The protocol wants all results of one turn in one message of the user.
fn messages(messages: &[Message]) -> Value {
    let mut all: Vec<Value> = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        match message {
            Message::User { text } => all.push(json!({ "role": "user", "content": text })),
            Message::Assistant { text, calls, blocks } => {
                let said = (!text.is_empty()).then(|| json!({ "type": "text", "text": text }));
                let said: Vec<Value> = said.into_iter().chain(calls.iter().map(tool_use)).collect();
                // An assistant's message without anything in it is refused, and so is one of thoughts alone.
                if !said.is_empty() {
                    let ours = blocks.iter().filter(|block| block.protocol == PROTOCOL);
                    let content: Vec<Value> = ours.map(|block| block.content.clone()).chain(said).collect();
                    all.push(json!({ "role": "assistant", "content": content }));
                }
            }
            Message::Tool(result) => {
                let follows = at > 0 && matches!(messages[at - 1], Message::Tool(_));
                match all.last_mut().and_then(|last| last["content"].as_array_mut()) {
                    Some(content) if follows => content.push(tool_result(result)),
                    _ => all.push(json!({ "role": "user", "content": [tool_result(result)] })),
                }
            }
        }
    }
    Value::Array(all)
}

fn tool_use(call: &ToolCall) -> Value {
    let input = object(&call.input).unwrap_or_else(|| stand_in(&call.input));
    json!({ "type": "tool_use", "id": call.id, "name": call.name, "input": input })
}

fn tool_result(result: &ToolResult) -> Value {
    json!({
        "type": "tool_result",
        "tool_use_id": result.call_id,
        "content": result.content,
        "is_error": result.is_error,
    })
}

fn tool(tool: &AgentTool) -> Value {
    json!({ "name": tool.name(), "description": tool.description(), "input_schema": tool.schema() })
}
