//! Requests that only the client of a call can serve: its model, its folders.

use serde_json::Value;

use crate::ToolError;

/// A request to the client that made a call.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientRequest {
    /// The capability that the client must have declared.
    pub capability: ClientCapability,
    /// The request's parameters, as the protocol has them.
    pub params: Value,
}

/// Something that a client can do for the tool that it calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ClientCapability {
    /// Its model answers messages (MCP `sampling/createMessage`).
    Sampling,
    /// It names the folders that it works in (MCP `roots/list`).
    Roots,
}

impl ClientCapability {
    /// Its name in the protocol.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sampling => "sampling",
            Self::Roots => "roots",
        }
    }

    /// The method's name in the protocol.
    pub fn method(self) -> &'static str {
        match self {
            Self::Sampling => "sampling/createMessage",
            Self::Roots => "roots/list",
        }
    }

    /// The stable code of an error that says that no client does it.
    pub fn refusal_code(self) -> &'static str {
        match self {
            Self::Sampling => "sampling_not_available",
            Self::Roots => "roots_not_available",
        }
    }

    /// The error of a call whose client cannot be asked for it.
    pub fn not_available(self) -> ToolError {
        let name = self.as_str();
        let message = format!(
            "{name} is not available for this call. It needs an MCP client of the revision 2025-06-18 or 2025-11-25 that declares \
             {name}, and that still waits for the call it made. Calls over REST, from scripts, over MCP 2026-07-28 and after a \
             restart of the gateway have none."
        );
        ToolError::with_code(self.refusal_code(), message)
    }
}
