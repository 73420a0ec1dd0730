//! What a conversation is made of: messages, the calls a model makes, and what they came to.
//!
//! These are stored in the journal of a durable conversation, so that fields are added with a default and never renamed.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One message of a conversation, as the model is shown it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Message {
    /// A person said this.
    User {
        /// The words.
        text: String,
    },
    /// The model said this, and wants these calls made.
    Assistant {
        /// The words; empty where there are only calls.
        text: String,
        /// The calls, in the order in which the model made them.
        calls: Vec<ToolCall>,
        /// What else belongs to the turn and only the model's own protocol understands, in the order in which it came.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        blocks: Vec<OpaqueBlock>,
    },
    /// What a call came to.
    Tool(ToolResult),
}

impl Message {
    /// Something a person said.
    pub fn user(text: impl Into<String>) -> Self {
        Self::User { text: text.into() }
    }

    /// Something a model said, without calls.
    pub fn assistant(text: impl Into<String>) -> Self {
        Self::Assistant { text: text.into(), calls: Vec::new(), blocks: Vec::new() }
    }
}

/// A part of a model's turn that is kept as it came and told back to whoever speaks the same protocol, such as a signed
/// thought. Nobody else reads it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OpaqueBlock {
    /// The protocol that understands it.
    pub protocol: String,
    /// What it is, in that protocol's own form.
    pub content: Value,
}

impl OpaqueBlock {
    /// A block of a protocol.
    pub fn new(protocol: impl Into<String>, content: Value) -> Self {
        Self { protocol: protocol.into(), content }
    }
}

/// A call that a model makes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCall {
    /// The model's id for it. Models are not to be trusted to make it unlike every other.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments as the model wrote them: JSON, if all is well.
    pub input: String,
}

/// What a call came to, as the model is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolResult {
    /// The model's id for the call.
    pub call_id: String,
    /// The tool's name.
    pub name: String,
    /// What the model reads.
    pub content: String,
    /// Whether the model should take it for a failure.
    pub is_error: bool,
}

/// Which call of a conversation: unlike the model's id it is never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallKey {
    /// The model's turn, from 1.
    pub turn: u32,
    /// The call within the turn, from 1.
    pub call: u32,
}

impl fmt::Display for CallKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "t{}.c{}", self.turn, self.call)
    }
}

/// What a chat begins with: what was said before, and what is said now.
#[derive(Debug, Clone, PartialEq)]
pub struct Prompt {
    /// What was said before, such as the messages of an earlier [`Reply`].
    pub history: Vec<Message>,
    /// What is said now.
    pub input: String,
}

impl Prompt {
    /// Goes on from an earlier conversation.
    pub fn after(history: Vec<Message>, input: impl Into<String>) -> Self {
        Self { history, input: input.into() }
    }
}

impl From<&str> for Prompt {
    fn from(input: &str) -> Self {
        Self { history: Vec::new(), input: input.to_owned() }
    }
}

impl From<String> for Prompt {
    fn from(input: String) -> Self {
        Self { history: Vec::new(), input }
    }
}

/// What a chat came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// The model's last words.
    pub text: String,
    /// The name of the agent that said them: another than was asked, where it handed off.
    pub agent: String,
    /// The whole conversation, to go on from.
    pub messages: Vec<Message>,
}
