//! What a chat tells while it goes on.

use std::sync::Arc;

use crate::confirm::ConfirmationRequest;
use crate::error::AgentError;
use crate::message::{Reply, ToolResult};

/// Something that happened in a chat. Deltas may be merged where the reader is slow; everything else arrives as it is.
#[derive(Debug, Clone)]
pub enum AgentEvent {
    /// The model begins to speak.
    ContentStart,
    /// More of what it says.
    ContentDelta {
        /// The words.
        text: String,
    },
    /// It has said all of this turn's words.
    ContentStop,
    /// The model begins to write a call.
    ToolUseStart {
        /// The model's id for the call.
        call_id: String,
        /// The tool.
        name: String,
    },
    /// More of the call's arguments.
    ToolUseDelta {
        /// The model's id for the call.
        call_id: String,
        /// A piece of JSON text.
        json: String,
    },
    /// The call is written; it has not run.
    ToolUseStop {
        /// The model's id for the call.
        call_id: String,
    },
    /// A person is about to be asked. The provider blocks after this, not before.
    ConfirmationRequired(ConfirmationRequest),
    /// A call has its result.
    ToolSettled(ToolResult),
    /// Another agent takes over.
    Handoff {
        /// The agent that handed off.
        from: String,
        /// The agent that goes on.
        to: String,
    },
    /// Something to know that stopped nothing.
    Warning {
        /// What.
        message: String,
    },
    /// The chat failed; nothing follows.
    Error(Arc<AgentError>),
    /// The chat ended; nothing follows.
    Complete(Reply),
}

impl AgentEvent {
    /// Whether nothing follows.
    pub fn is_last(&self) -> bool {
        matches!(self, Self::Error(_) | Self::Complete(_))
    }
}
