//! What a call came to, and the words in which the model is told.
//!
//! The words of refusals are the seed's, with the reason appended; models and programs may rely on how they begin.

use countersign_core::bounds;
use countersign_sdk::{ToolError, ToolErrorCode};
use serde_json::Value;

use crate::confirm::{ConfirmationRejected, after};

/// What a call came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolOutcome {
    /// How it ended.
    pub kind: OutcomeKind,
    /// What the model is told.
    pub content: String,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutcomeKind {
    /// It ran.
    Succeeded,
    /// It ran and failed, or panicked.
    Failed,
    /// There is no such tool, or the arguments do not fit. It did not run.
    Unusable,
    /// A hook denied it. It did not run.
    Denied,
    /// The person said no before it ran.
    Rejected,
    /// The person said no to what it asked from inside, and it halted.
    Halted,
    /// Nobody could be asked. It did not run, or halted.
    ConfirmationFailed,
}

/// A gateway's person said no. It travels as the cause of a tool's error.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct RefusedAtTheGate(pub(crate) String);

/// Why it is not known what became of a call. It travels as the cause of a tool's error, and stops a durable conversation:
/// what is not known must not be recorded as a failure.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unsettled {
    /// The gateway does not know it itself: a person must settle this execution there.
    #[error("{0} is in doubt")]
    InDoubtAtTheGateway(String),
    /// The gateway cannot be asked now. The call is found again by its key.
    #[error("the gateway does not answer: {0}")]
    GatewayAway(String),
    /// Whoever runs the tool elsewhere did not answer, and may have run it.
    #[error("there was no answer")]
    NoAnswer,
}

impl ToolOutcome {
    pub(crate) fn succeeded(content: impl Into<String>) -> Self {
        Self::new(OutcomeKind::Succeeded, content)
    }

    pub(crate) fn failed(message: &str) -> Self {
        Self::new(OutcomeKind::Failed, format!("Tool failed: {message}"))
    }

    pub(crate) fn unusable(content: impl Into<String>) -> Self {
        Self::new(OutcomeKind::Unusable, content)
    }

    pub(crate) fn denied(reason: &str) -> Self {
        Self::new(OutcomeKind::Denied, format!("Tool call denied: {reason}"))
    }

    pub(crate) fn rejected(reason: Option<&str>) -> Self {
        let why = after(": ", reason);
        Self::new(OutcomeKind::Rejected, format!("Tool call requires confirmation — rejected by user{why}"))
    }

    pub(crate) fn confirmation_failed(error: &str) -> Self {
        Self::new(OutcomeKind::ConfirmationFailed, format!("Confirmation error: {error}"))
    }

    pub(crate) fn halted(rejected: &ConfirmationRejected) -> Self {
        let why = after(": ", rejected.reason.as_deref());
        Self::new(OutcomeKind::Halted, format!("Tool execution halted — confirmation rejected by user{why}"))
    }

    /// What a handler returned.
    pub(crate) fn of(returned: Result<Value, ToolError>) -> Self {
        match returned {
            Ok(Value::String(text)) => Self::succeeded(text).within_bounds(),
            Ok(value) => Self::succeeded(value.to_string()).within_bounds(),
            Err(error) => Self::of_error(&error).within_bounds(),
        }
    }

    fn of_error(error: &ToolError) -> Self {
        if let Some(rejected) = error.cause().and_then(|cause| cause.downcast_ref::<ConfirmationRejected>()) {
            return Self::halted(rejected);
        }
        if let Some(refused) = error.cause().and_then(|cause| cause.downcast_ref::<RefusedAtTheGate>()) {
            return Self::rejected(Some(&refused.0));
        }
        if *error.code() == ToolErrorCode::Denied {
            return Self::denied(error.message());
        }
        if let Some(cause) = error.cause() {
            tracing::warn!(%cause, "a tool failed");
        }
        Self::failed(error.message())
    }

    /// A model's window is not the place for a megabyte that nobody asked for.
    fn within_bounds(self) -> Self {
        if self.content.len() <= bounds::MAX_VALUE_BYTES {
            return self;
        }
        let most = bounds::MAX_VALUE_BYTES;
        Self::failed(&format!("the result has {} bytes; the limit is {most}", self.content.len()))
    }

    /// Whether the model should take it for a failure.
    pub fn is_error(&self) -> bool {
        self.kind != OutcomeKind::Succeeded
    }

    /// Whether the tool ran and failed by itself, which is all that an on-error hook may change.
    pub(crate) fn is_the_tools_own_failure(&self) -> bool {
        self.kind == OutcomeKind::Failed
    }

    fn new(kind: OutcomeKind, content: impl Into<String>) -> Self {
        Self { kind, content: content.into() }
    }
}
