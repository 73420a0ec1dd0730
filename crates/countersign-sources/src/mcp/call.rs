//! One call of an upstream tool: what is asked for, what may happen meanwhile, and what it came to.

use std::sync::Arc;

use async_trait::async_trait;
use countersign_sdk::ClientRequest;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::http::Intent;
use crate::secrets::Secrets;

/// A call to make.
#[derive(Clone)]
pub struct Call {
    /// The server's own name for the tool: [`OfferedTool::origin`](crate::OfferedTool::origin).
    pub tool: String,
    #[expect(missing_docs, reason = "the name says it")]
    pub arguments: Map<String, Value>,
    /// Whether the tool only reads. Reads may be cancelled and sent again; anything else is sent at most once.
    pub intent: Intent,
    /// Who is asked if the server has a question.
    pub asker: Arc<dyn Asker>,
    /// Who is told of progress.
    pub progress: Arc<dyn Fn(ProgressUpdate) + Send + Sync>,
    /// Cancels the call if it is a read. A call that may write goes on.
    pub cancel: CancellationToken,
    /// Questions of an earlier run of this call that were recorded but not answered. The call goes on from there
    /// instead of starting anew. Only a modern server has such.
    pub resume: Option<Round>,
}

impl Call {
    /// A call that nobody watches and whose questions are declined.
    pub fn new(tool: impl Into<String>, arguments: Map<String, Value>, intent: Intent) -> Self {
        Self {
            tool: tool.into(),
            arguments,
            intent,
            asker: Arc::new(NobodyToAsk),
            progress: Arc::new(|_| ()),
            cancel: CancellationToken::new(),
            resume: None,
        }
    }
}

/// Who answers what a server asks during one call.
#[async_trait]
pub trait Asker: Send + Sync {
    /// Asks a person. The text is the server's own and may mislead.
    async fn ask(&self, question: Question) -> Reply;

    /// Sends a request to the client that made the call; the error is for the server.
    async fn ask_client(&self, request: ClientRequest) -> Result<Value, String> {
        Err(request.capability.not_available().message().to_owned())
    }

    /// The session that the call belongs to.
    fn session(&self) -> Option<String> {
        None
    }

    /// Records the questions of one round before they are asked, so that the call can go on from there after a restart.
    async fn record(&self, round: &Round) {
        let _ = round;
    }
}

/// Declines every question.
#[derive(Debug, Clone, Copy, Default)]
pub struct NobodyToAsk;

#[async_trait]
impl Asker for NobodyToAsk {
    async fn ask(&self, _: Question) -> Reply {
        Reply::Declined
    }
}

/// A question of a server to a person.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// The server's words.
    pub message: String,
    /// JSON Schema of the answer: an object with plain properties.
    pub schema: Value,
}

/// What a person answered.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// The answer, which fits the schema.
    Accepted(Value),
    /// The person said no.
    Declined,
    /// The person did not decide.
    Cancelled,
}

/// One round of questions of a modern server, and the state it wants back with the answers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Round {
    /// From 1.
    pub number: u32,
    /// By the server's own keys.
    pub requests: Map<String, Value>,
    /// Opaque, from the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_state: Option<String>,
}

/// How far a call has come, in the server's own units.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct ProgressUpdate {
    pub progress: f64,
    pub total: Option<f64>,
    pub message: Option<String>,
}

/// What a server answered.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CallOutcome {
    /// Text, images, audio, resource links and embedded resources, as the server sent them but without secrets.
    pub content: Vec<Value>,
    /// The result as one object, where the server sends one.
    pub structured: Option<Value>,
    /// The server's `_meta`.
    pub meta: Option<Value>,
    /// Whether the tool says that it failed.
    pub kind: OutcomeKind,
}

/// Whether the tool says that it failed (`isError`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum OutcomeKind {
    #[default]
    Succeeded,
    Failed,
}

/// Why there is no outcome.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CallFailure {
    /// The server cannot have acted on it.
    #[error("the call did not reach the server: {0}")]
    NotSent(String),
    /// The server may have acted on it: a call that may write is in doubt.
    #[error("the call was sent, but no answer came: {0}")]
    Lost(String),
    /// The server answered with an error of the protocol.
    #[error("the server refused the call: {message}")]
    Refused {
        /// JSON-RPC's, or the HTTP status.
        code: i64,
        #[expect(missing_docs, reason = "the name says it")]
        message: String,
        /// What the server said beside the message.
        data: Option<Value>,
    },
    /// A read was cancelled.
    #[error("the call was cancelled")]
    Cancelled,
}

impl CallFailure {
    /// A stable code for errors and logs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotSent(_) => "upstream_not_reached",
            Self::Lost(_) => "upstream_lost",
            Self::Refused { .. } => "upstream_refused",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether it is unknown if the server acted.
    pub fn is_in_doubt(&self, intent: Intent) -> bool {
        intent == Intent::Write && matches!(self, Self::Lost(_))
    }

    pub(super) fn redacted(self, secrets: &Secrets) -> Self {
        match self {
            Self::NotSent(text) => Self::NotSent(secrets.redact(&text)),
            Self::Lost(text) => Self::Lost(secrets.redact(&text)),
            Self::Refused { code, message, data } => {
                let data = data.map(|data| secrets.redact_value(data));
                Self::Refused { code, message: secrets.redact(&message), data }
            }
            Self::Cancelled => Self::Cancelled,
        }
    }
}

/// One answer to `tools/call`.
#[derive(Debug, PartialEq)]
pub(super) enum CallAnswer {
    Done(CallOutcome),
    InputRequired { requests: Map<String, Value>, request_state: Option<String> },
}

impl CallAnswer {
    /// Reads an answer. One that cannot be read leaves it open what the server did.
    pub(super) fn read(result: Value) -> Result<Self, CallFailure> {
        let Value::Object(mut result) = result else { return Err(unreadable("it is no object")) };
        match result.get("resultType").and_then(Value::as_str) {
            Some("input_required") => {
                let requests = match result.remove("inputRequests") {
                    Some(Value::Object(requests)) => requests,
                    _ => Map::new(),
                };
                let request_state = result.get("requestState").and_then(Value::as_str).map(str::to_owned);
                return Ok(Self::InputRequired { requests, request_state });
            }
            Some("task") => return Err(unreadable("it made a task of the call, which was not asked for")),
            _ => {}
        }
        let content = match result.remove("content") {
            Some(Value::Array(blocks)) => blocks,
            None => Vec::new(),
            Some(_) => return Err(unreadable("its content is no list")),
        };
        if !content.iter().all(|block| block.get("type").is_some_and(Value::is_string)) {
            return Err(unreadable("a block of its content has no type"));
        }
        let failed = result.get("isError").and_then(Value::as_bool) == Some(true);
        Ok(Self::Done(CallOutcome {
            content,
            structured: result.remove("structuredContent"),
            meta: result.remove("_meta"),
            kind: if failed { OutcomeKind::Failed } else { OutcomeKind::Succeeded },
        }))
    }
}

fn unreadable(problem: &str) -> CallFailure {
    CallFailure::Lost(format!("the server's answer cannot be read: {problem}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_kind_of_content_passes_through_as_it_is() {
        let content = json!([
            { "type": "text", "text": "\u{1b}[31mred\u{202e}", "annotations": { "priority": 1 } },
            { "type": "image", "data": "aGk=", "mimeType": "image/png" },
            { "type": "resource_link", "uri": "file:///a", "name": "a", "unknown": true },
            { "type": "something_new", "x": 1 },
        ]);
        let answer =
            CallAnswer::read(json!({ "content": content, "structuredContent": { "k": 1 }, "isError": true }))
                .unwrap();
        let CallAnswer::Done(outcome) = answer else { panic!("{answer:?}") };
        assert_eq!(outcome.content, *content.as_array().unwrap());
        assert_eq!((outcome.structured, outcome.kind), (Some(json!({ "k": 1 })), OutcomeKind::Failed));
    }

    #[test]
    fn an_answer_that_cannot_be_read_leaves_a_write_in_doubt() {
        for result in [
            json!(7),
            json!({ "content": 7 }),
            json!({ "content": [7] }),
            json!({ "resultType": "task", "task": {} }),
        ] {
            assert!(CallAnswer::read(result).unwrap_err().is_in_doubt(Intent::Write));
        }
    }
}
