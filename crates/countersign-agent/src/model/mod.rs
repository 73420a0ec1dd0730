//! Models: what speaks in a chat.
//!
//! A [`Model`] takes what was said and the tools, and tells its turn piece by piece. Here are a scripted one for tests
//! ([`ScriptedModel`]) and clients for two wire protocols ([`OpenAiModel`], [`AnthropicModel`]).
//!
//! The clients are thin, over reqwest and sse-stream, which the workspace has anyway. The crate `genai` was looked at: it does
//! show mid-stream errors and `Retry-After`, but it retries nothing and bounds nothing, so that most of this would be here all
//! the same; it brings a second base64 and a handful of new crates; and it switches on `serde_json/preserve_order`
//! for the whole workspace, which would change the stored form of what others canonicalise and golden-test.

mod anthropic;
mod http;
mod openai;
mod scripted;
mod shown;
mod so_far;
#[cfg(test)]
mod splits;
mod sse;

use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};

pub use anthropic::{AnthropicModel, DEFAULT_MAX_TOKENS};
pub use http::Retry;
pub use openai::OpenAiModel;
pub use scripted::{ScriptedModel, ScriptedTurn, Spoken};
pub use shown::MAX_ERROR_BYTES;
pub(crate) use so_far::WholeTurn;
pub use so_far::{MAX_CALLS_PER_TURN, MAX_TURN_BYTES, TurnSoFar};
pub use sse::MAX_STREAM_BYTES;

use crate::message::Message;
use crate::tool::AgentTool;

/// What a model is asked.
#[derive(Debug, Clone, Copy)]
pub struct ModelRequest<'a> {
    /// What it is told before everything else.
    pub instructions: &'a str,
    /// What was said.
    pub messages: &'a [Message],
    /// What it may call.
    pub tools: &'a [AgentTool],
}

/// Something that speaks.
#[async_trait]
pub trait Model: Send + Sync + 'static {
    /// Makes one turn, telling it to `turn` piece by piece. It returns when the turn is whole, and fails where it is not.
    /// Dropping the future cancels the request.
    async fn turn(&self, request: ModelRequest<'_>, turn: &mut TurnSoFar) -> Result<(), ModelError>;
}

/// Why a model made no whole turn.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The base URL is none.
    #[error("the model's base URL cannot be used: {0}; give one such as https://host/v1")]
    BadBaseUrl(String),
    /// No connection, or it broke before an answer began.
    #[error("the model cannot be reached: {0}; check the base URL and the network")]
    Unreachable(String),
    /// The model's server says no.
    #[error("the model's server refused the request with status {status}: {message}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// What it says, cut to a readable length.
        message: String,
    },
    /// Too many requests, for longer than is waited.
    #[error("the model's rate limit is met{}; try again later", after(*retry_after))]
    RateLimited {
        /// How long the server wants one to wait.
        retry_after: Option<Duration>,
        /// What it says, cut to a readable length.
        message: String,
    },
    /// The server failed, also when it was tried again.
    #[error("the model's server failed with status {status}, {attempts} times: {message}")]
    Failing {
        /// The HTTP status.
        status: u16,
        /// How often it was tried.
        attempts: u32,
        /// What it says, cut to a readable length.
        message: String,
    },
    /// The stream broke in the middle.
    #[error("the model's stream broke: {0}")]
    Broken(String),
    /// The model reported an error in the middle of its stream.
    #[error("the model reported {kind}: {message}")]
    Reported {
        /// What kind, cut to a readable length.
        kind: String,
        /// What it says, cut to a readable length.
        message: String,
    },
    /// The stream is not what the protocol says.
    #[error("the model's stream cannot be understood: {0}")]
    Malformed(String),
    /// The stream ended before the turn did.
    #[error("the model's stream ended in the middle of a turn")]
    Truncated,
    /// The model met its limit of tokens while it wrote calls: nobody knows what they would have been.
    #[error(
        "the model met its limit of tokens in the middle of its calls, so that none of them was run; raise its limit (the \
         option max_tokens, or what the service calls it)"
    )]
    CutOff,
    /// The turn is past a bound.
    #[error("the model's turn is too large: {0}")]
    TooLarge(String),
    /// The script of a scripted model has no further turn.
    #[error("the scripted model has no turn left")]
    ScriptEnded,
    /// Another model's own failure.
    #[error("{0}")]
    Other(Box<dyn std::error::Error + Send + Sync>),
}

impl ModelError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::BadBaseUrl(_) => "bad_base_url",
            Self::Unreachable(_) => "model_unreachable",
            Self::Refused { .. } => "model_refused",
            Self::RateLimited { .. } => "rate_limited",
            Self::Failing { .. } => "model_failing",
            Self::Broken(_) => "stream_broken",
            Self::Reported { .. } => "model_error",
            Self::Malformed(_) => "stream_malformed",
            Self::Truncated => "stream_truncated",
            Self::CutOff => "turn_cut_off",
            Self::TooLarge(_) => "turn_too_large",
            Self::ScriptEnded => "script_ended",
            Self::Other(_) => "model_error",
        }
    }

    /// The same error, every text in it as `fit` makes it.
    fn map_texts(self, fit: impl Fn(&str) -> String) -> Self {
        match self {
            Self::BadBaseUrl(text) => Self::BadBaseUrl(fit(&text)),
            Self::Unreachable(text) => Self::Unreachable(fit(&text)),
            Self::Refused { status, message } => Self::Refused { status, message: fit(&message) },
            Self::RateLimited { retry_after, message } => {
                Self::RateLimited { retry_after, message: fit(&message) }
            }
            Self::Failing { status, attempts, message } => {
                Self::Failing { status, attempts, message: fit(&message) }
            }
            Self::Broken(text) => Self::Broken(fit(&text)),
            Self::Reported { kind, message } => Self::Reported { kind: fit(&kind), message: fit(&message) },
            Self::Malformed(text) => Self::Malformed(fit(&text)),
            Self::TooLarge(text) => Self::TooLarge(fit(&text)),
            Self::Other(error) => Self::Other(fit(&error.to_string()).into()),
            plain @ (Self::Truncated | Self::CutOff | Self::ScriptEnded) => plain,
        }
    }
}

/// A call's arguments, where they are what both protocols want told back: an object.
fn object(arguments: &str) -> Option<Value> {
    serde_json::from_str(arguments).ok().filter(Value::is_object)
}

/// What is told back in place of arguments that are no object: one that shows the text it was. Servers refuse anything else,
/// and with it the conversation for ever.
fn stand_in(arguments: &str) -> Value {
    if arguments.trim().is_empty() { json!({}) } else { json!({ "malformed": arguments }) }
}

fn after(wait: Option<Duration>) -> String {
    wait.map(|wait| format!(", for another {wait:?}")).unwrap_or_default()
}
