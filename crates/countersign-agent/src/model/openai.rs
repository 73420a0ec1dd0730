//! OpenAI-compatible chat completions, streamed.

use async_trait::async_trait;
use countersign_sdk::SecretString;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::message::{Message, ToolCall};
use crate::model::http::{Endpoint, KeyHeader, Retry};
use crate::model::sse::{Events, read};
use crate::model::{Model, ModelError, ModelRequest, TurnSoFar, object, stand_in};
use crate::tool::AgentTool;

/// Where OpenAI's own service is.
const OPENAI: &str = "https://api.openai.com/v1";
/// What ends a stream.
const DONE: &str = "[DONE]";

/// A model behind the chat completions protocol, at OpenAI or anywhere that speaks it.
pub struct OpenAiModel {
    endpoint: Endpoint,
}

impl OpenAiModel {
    /// A model at OpenAI.
    pub fn new(model: impl Into<String>, key: SecretString) -> Result<Self, ModelError> {
        Self::at(OPENAI, model, key)
    }

    /// A model at another base URL, such as `http://127.0.0.1:11434/v1`.
    pub fn at(base: &str, model: impl Into<String>, key: SecretString) -> Result<Self, ModelError> {
        let header = KeyHeader { name: "authorization", prefix: "Bearer " };
        Ok(Self { endpoint: Endpoint::new(base, "chat/completions", model.into(), key, &header)? })
    }

    /// How often a request is tried.
    #[must_use]
    pub fn retry(self, retry: Retry) -> Self {
        Self { endpoint: self.endpoint.with_retry(retry) }
    }

    /// A further field of the request, such as `temperature`.
    #[must_use]
    pub fn option(self, name: impl Into<String>, value: Value) -> Self {
        Self { endpoint: self.endpoint.with_field(name.into(), value) }
    }
}

#[async_trait]
impl Model for OpenAiModel {
    async fn turn(&self, request: ModelRequest<'_>, turn: &mut TurnSoFar) -> Result<(), ModelError> {
        self.endpoint.ask(fields(request), |events| read_turn(events, turn)).await
    }
}

pub(super) async fn read_turn(mut events: Events, turn: &mut TurnSoFar) -> Result<(), ModelError> {
    let (mut calls, mut finished) = (Calls::default(), false);
    while let Some(data) = events.next().await? {
        if data.trim() == DONE {
            finished = true;
            break;
        }
        finished |= take(read(&data)?, &mut calls, turn)?;
    }
    // Some servers leave out the last line; a reason to finish says as much.
    if finished { Ok(()) } else { Err(ModelError::Truncated) }
}

#[derive(Deserialize)]
struct Chunk {
    #[serde(default)]
    choices: Vec<Choice>,
    error: Option<Reported>,
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default)]
    delta: Delta,
    finish_reason: Option<String>,
}

#[derive(Deserialize, Default)]
struct Delta {
    content: Option<String>,
    refusal: Option<String>,
    tool_calls: Option<Vec<CallDelta>>,
}

#[derive(Deserialize)]
struct CallDelta {
    index: Option<u64>,
    id: Option<String>,
    #[serde(default)]
    function: FunctionDelta,
}

#[derive(Deserialize, Default)]
struct FunctionDelta {
    name: Option<String>,
    arguments: Option<String>,
}

#[derive(Deserialize)]
struct Reported {
    #[serde(rename = "type")]
    kind: Option<String>,
    message: Option<String>,
}

/// The calls that have begun, as the server tells them apart; a call's place among them is its slot.
#[derive(Default)]
struct Calls(Vec<(u64, String)>);

impl Calls {
    /// Takes in what stands at this position among the calls of a chunk. The index alone does not tell calls apart: Ollama
    /// gives 0 to every one of them, and older servers give none. Another id is another call.
    fn take(&mut self, position: u64, call: &CallDelta, turn: &mut TurnSoFar) -> Result<(), ModelError> {
        let (index, id) = (call.index.unwrap_or(position), call.id.as_deref().unwrap_or_default());
        let goes_on = |(began, known): &(u64, String)| *began == index && (id.is_empty() || known == id);
        let slot = match self.0.iter().rposition(goes_on) {
            Some(slot) => slot as u64,
            None => {
                let slot = self.0.len() as u64;
                turn.call_started(slot, id, call.function.name.as_deref().unwrap_or_default())?;
                self.0.push((index, id.to_owned()));
                slot
            }
        };
        turn.call_delta(slot, call.function.arguments.as_deref().unwrap_or_default())
    }
}

/// Takes one chunk in; true where it says why the turn is finished.
fn take(chunk: Chunk, calls: &mut Calls, turn: &mut TurnSoFar) -> Result<bool, ModelError> {
    if let Some(Reported { kind, message }) = chunk.error {
        let kind = kind.unwrap_or_else(|| "an error".to_owned());
        return Err(ModelError::Reported { kind, message: message.unwrap_or_default() });
    }
    let Some(choice) = chunk.choices.into_iter().next() else { return Ok(false) };
    for text in [choice.delta.content, choice.delta.refusal].into_iter().flatten() {
        turn.text(&text)?;
    }
    for (position, call) in (0..).zip(choice.delta.tool_calls.into_iter().flatten()) {
        calls.take(position, &call, turn)?;
    }
    if choice.finish_reason.as_deref() == Some("length") {
        turn.cut_off()?;
    }
    Ok(choice.finish_reason.is_some())
}

fn fields(request: ModelRequest<'_>) -> Map<String, Value> {
    let system = (!request.instructions.is_empty())
        .then(|| json!({ "role": "system", "content": request.instructions }));
    let messages = system.into_iter().chain(request.messages.iter().map(message));
    let mut fields = Map::from_iter([("messages".to_owned(), messages.collect())]);
    if !request.tools.is_empty() {
        fields.insert("tools".to_owned(), request.tools.iter().map(tool).collect());
    }
    fields
}

fn message(message: &Message) -> Value {
    match message {
        Message::User { text } => json!({ "role": "user", "content": text }),
        Message::Assistant { text, calls, .. } if calls.is_empty() => {
            json!({ "role": "assistant", "content": text })
        }
        Message::Assistant { text, calls, .. } => {
            let content = if text.is_empty() { Value::Null } else { json!(text) };
            let calls: Vec<Value> = calls.iter().map(tool_call).collect();
            json!({ "role": "assistant", "content": content, "tool_calls": calls })
        }
        Message::Tool(result) => {
            json!({ "role": "tool", "tool_call_id": result.call_id, "content": result.content })
        }
    }
}

/// The arguments are told back to the letter, where they are what servers take.
fn tool_call(call: &ToolCall) -> Value {
    let arguments = match object(&call.input) {
        Some(_) => call.input.clone(),
        None => stand_in(&call.input).to_string(),
    };
    json!({ "id": call.id, "type": "function", "function": { "name": call.name, "arguments": arguments } })
}

fn tool(tool: &AgentTool) -> Value {
    json!({
        "type": "function",
        "function": { "name": tool.name(), "description": tool.description(), "parameters": tool.schema() },
    })
}
