//! Anthropic's messages protocol, streamed.

use async_trait::async_trait;
use countersign_sdk::SecretString;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::message::{Message, ToolCall, ToolResult};
use crate::model::http::{Endpoint, KeyHeader, Retry};
use crate::model::sse::{Events, read};
use crate::model::{Model, ModelError, ModelRequest, TurnSoFar};
use crate::tool::AgentTool;

/// The most tokens of one turn, where nothing else is said; the protocol wants a number.
pub const DEFAULT_MAX_TOKENS: u32 = 8_192;
/// Where Anthropic's own service is.
const ANTHROPIC: &str = "https://api.anthropic.com";
/// The revision of the protocol that is spoken.
const REVISION: &str = "2023-06-01";

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
        let url = format!("{}/v1/messages", base.trim_end_matches('/'));
        let header = KeyHeader { name: "x-api-key", prefix: "" };
        let endpoint = Endpoint::new(url, model.into(), key, &header)?
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
        let response = self.endpoint.ask(fields(request)).await?;
        read_turn(Events::of(response), turn).await
    }
}

pub(super) async fn read_turn(mut events: Events, turn: &mut TurnSoFar) -> Result<(), ModelError> {
    let mut finished = false;
    while let Some(data) = events.next().await? {
        match take(read(&data)?, turn)? {
            Flow::GoesOn => {}
            Flow::HasReason => finished = true,
            Flow::Ended => return Ok(()),
        }
    }
    // A reason to stop says that the turn is whole, also where the last event is missing.
    if finished { Ok(()) } else { Err(ModelError::Truncated) }
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
    },
    /// Thinking, and whatever else a block may be.
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

fn take(event: Event, turn: &mut TurnSoFar) -> Result<Flow, ModelError> {
    match event {
        Event::ContentBlockStart { index, content_block } => match content_block {
            Block::Text { text } => turn.text(&text)?,
            Block::ToolUse { id, name } => turn.call_started(index, &id, &name)?,
            Block::Other => {}
        },
        Event::ContentBlockDelta { index, delta } => match delta {
            Delta::Text { text } => turn.text(&text)?,
            Delta::Input { partial_json } => turn.call_delta(index, &partial_json)?,
            Delta::Other => {}
        },
        Event::ContentBlockStop { index } => turn.call_stopped(index),
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
            Message::Assistant { text, calls } => {
                let said = (!text.is_empty()).then(|| json!({ "type": "text", "text": text }));
                let content: Vec<Value> = said.into_iter().chain(calls.iter().map(tool_use)).collect();
                // An assistant's message without anything in it is refused.
                if !content.is_empty() {
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

/// The protocol wants an object; what was none is shown as the text it was.
fn tool_use(call: &ToolCall) -> Value {
    let input = match serde_json::from_str::<Value>(&call.input) {
        Ok(input @ Value::Object(_)) => input,
        _ if call.input.trim().is_empty() => json!({}),
        _ => json!({ "malformed": call.input }),
    };
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
