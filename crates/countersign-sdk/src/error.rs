//! Errors a tool reports: a message for the caller and, apart from it, a cause for the log.
//!
//! [`ToolError`] does not implement `std::error::Error`, so that `?` in a handler can take any error: the foreign text
//! becomes the internal cause, never the public message, because it may quote secrets.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;

use serde_json::Value;

/// Codes that clients may rely on. A tool may add its own with [`ToolError::with_code`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolErrorCode {
    /// The handler failed.
    HandlerError,
    /// A person, a rule or a hook denied the call.
    Denied,
    /// The arguments of a call from inside a handler do not fit.
    InvalidParams,
    /// No person can be reached to answer a form.
    ElicitationNotAvailable,
    /// An answer does not fit what the handler asked for.
    InvalidAnswer,
    /// A provider that the plugin did not declare, or that has no credentials.
    AuthNotAvailable,
    /// The execution was cancelled while the handler ran.
    Cancelled,
    /// The gateway could not record what the handler asked for.
    Unavailable,
    /// The request was sent and no answer came: it is unknown whether it took effect.
    OutcomeUnknown,
    /// The tool's own code.
    Other(Cow<'static, str>),
}

impl ToolErrorCode {
    /// The stable text of the code.
    pub fn as_str(&self) -> &str {
        match self {
            Self::HandlerError => "handler_error",
            Self::Denied => "denied",
            Self::InvalidParams => "invalid_params",
            Self::ElicitationNotAvailable => "elicitation_not_available",
            Self::InvalidAnswer => "invalid_answer",
            Self::AuthNotAvailable => "auth_not_available",
            Self::Cancelled => "cancelled",
            Self::Unavailable => "unavailable",
            Self::OutcomeUnknown => "outcome_unknown",
            Self::Other(code) => code,
        }
    }

    /// The JSON-RPC number that protocol clients know this failure by.
    pub fn json_rpc(&self) -> i32 {
        match self {
            Self::Cancelled => -32001,
            Self::ElicitationNotAvailable => -32007,
            Self::InvalidParams => -32602,
            _ => -32005,
        }
    }
}

/// A failure of a tool.
pub struct ToolError {
    code: ToolErrorCode,
    message: String,
    details: Option<Value>,
    cause: Option<Box<dyn Error + Send + Sync>>,
}

impl ToolError {
    /// A failure with a message that the caller may read.
    pub fn new(message: impl Into<String>) -> Self {
        Self { code: ToolErrorCode::HandlerError, message: message.into(), details: None, cause: None }
    }

    /// The failure that a handler reports after a person denied its question.
    pub fn denied(message: impl Into<String>) -> Self {
        Self::coded(ToolErrorCode::Denied, message)
    }

    /// The request was sent and no answer came. A destructive call that is not idempotent is then in doubt until a person
    /// settles it; any other fails with this message.
    pub fn outcome_unknown(message: impl Into<String>) -> Self {
        Self::coded(ToolErrorCode::OutcomeUnknown, message)
    }

    pub(crate) fn unapproved() -> Self {
        Self::denied("This tool is destructive and nobody approved the call.")
    }

    /// A failure with a code of the tool's own, in `snake_case`.
    pub fn with_code(code: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self::coded(ToolErrorCode::Other(code.into()), message)
    }

    /// A failure with one of the known codes.
    pub fn coded(code: ToolErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), details: None, cause: None }
    }

    /// Details for the caller beside the message. They are recorded with the failure; more than 64 KiB are left out.
    #[must_use]
    pub fn with_details(mut self, details: Value) -> Self {
        self.details = Some(details);
        self
    }

    /// Keeps the cause for the log.
    #[must_use]
    pub fn caused_by(mut self, cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.cause = Some(cause.into());
        self
    }

    /// The code.
    pub fn code(&self) -> &ToolErrorCode {
        &self.code
    }

    /// The message for the caller.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Details for the caller beside the message.
    pub fn details(&self) -> Option<&Value> {
        self.details.as_ref()
    }

    /// The cause for the log. Never shown to the caller.
    pub fn cause(&self) -> Option<&(dyn Error + Send + Sync + 'static)> {
        self.cause.as_deref()
    }
}

impl<E: Error + Send + Sync + 'static> From<E> for ToolError {
    fn from(cause: E) -> Self {
        Self::new("The tool failed; the operator's log has the cause.").caused_by(cause)
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl fmt::Debug for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolError")
            .field("code", &self.code)
            .field("message", &self.message)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_foreign_error_becomes_the_cause_and_never_the_message() {
        let error: ToolError = std::io::Error::other("token=hunter2").into();
        assert!(!error.to_string().contains("hunter2"));
        assert!(!format!("{error:?}").contains("hunter2"));
        assert!(error.cause().unwrap().to_string().contains("hunter2"));
    }
}
