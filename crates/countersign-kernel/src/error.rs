//! Errors of the façade: a stable code, a message for the caller, and apart from it a cause for the log.

use std::time::Duration;

use countersign_core::elicitation::Decision;
use countersign_core::execution::ApplyError;
use countersign_core::ids::{ElicitationId, ExecutionId};
use countersign_sdk::{ToolPath, Violation};

use crate::ports::{ScriptFault, StoreError};

/// Something that is nobody's fault outside: the store, the journal, the system.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// The store did not do it. Nothing may be assumed to have happened.
    #[error("the store did not answer; nothing was confirmed, look before you try again")]
    Store(#[from] StoreError),
    /// A journal contradicts itself, or a bound was met.
    #[error("the execution's journal does not allow it")]
    Journal(#[from] ApplyError),
    /// The system has no random bits to give.
    #[error("the system has no entropy for a new id")]
    NoEntropy,
    /// A script's VM could not be had.
    #[error("{0}")]
    Sandbox(ScriptFault),
    /// The gateway is shutting down.
    #[error("the gateway is shutting down")]
    Closed,
}

impl GatewayError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Store(StoreError::Overloaded) => "overloaded",
            Self::Store(StoreError::TooManyPending { .. } | StoreError::RequesterFull { .. }) => {
                "too_many_pending"
            }
            Self::Store(StoreError::BadCursor) => "bad_cursor",
            Self::Store(StoreError::TokenRevoked(_)) => "token_revoked",
            Self::Store(StoreError::UserInactive(_)) => "user_inactive",
            Self::Store(StoreError::LoginEnded(_)) => "login_ended",
            Self::Store(StoreError::Corrupt(_)) => "damaged",
            Self::Sandbox(fault) => fault.code(),
            Self::Store(_) | Self::NoEntropy | Self::Closed => "unavailable",
            Self::Journal(ApplyError::Full) => "journal_full",
            Self::Journal(_) => "internal",
        }
    }
}

/// Why a call was not accepted. Nothing was recorded and nothing ran.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// No such tool.
    #[error("there is no tool \"{path}\"{}", near_text(near))]
    ToolNotFound {
        /// The requested path, cut to a readable length.
        path: String,
        /// The paths that were perhaps meant.
        near: Vec<ToolPath>,
    },
    /// A namespace was called.
    #[error("\"{path}\" is a namespace, not a tool; in it: {}", inside.join(", "))]
    Namespace {
        /// The requested path, cut to a readable length.
        path: String,
        /// Its contents: tools, and namespaces with `.*`.
        inside: Vec<String>,
    },
    /// The tool's source is configured and not loaded yet; its name.
    #[error(
        "the source \"{0}\" is not loaded yet; try again, and see `countersign source show {0}` if it stays so"
    )]
    SourceNotLoaded(String),
    /// The script cannot be run.
    #[error("{0}")]
    Script(ScriptFault),
    /// This gateway runs no scripts.
    #[error("this gateway runs no scripts; start it with a script host")]
    NoScripts,
    /// The arguments do not fit.
    #[error("the arguments do not fit: {}", violations_text(violations))]
    InvalidInput {
        /// Every violation.
        violations: Vec<Violation>,
    },
    /// The arguments are out of bounds.
    #[error("{0}")]
    OutOfBounds(#[from] countersign_core::bounds::BoundsError),
    /// The caller may not call this.
    #[error("{0}")]
    NotAllowed(String),
    /// The key was used for another call.
    #[error("the idempotency key belongs to another call, {0}; use a new key for a new call")]
    KeyMismatch(ExecutionId),
    /// The session is unknown or somebody else's.
    #[error("there is no such session; open one first")]
    SessionNotFound,
    /// The requester has recorded as much as it may in a day.
    #[error(
        "too much was recorded for this caller today; {} s from now there is room again. Large results and scripts cost \
         the most",
        retry_after.as_secs().max(1)
    )]
    StorageLimit {
        /// The time after which there is room again.
        retry_after: Duration,
    },
    /// As many calls are under way as may be, of this caller or of all.
    #[error("too many calls are under way; try again in {} s", RETRY_CALLS_AFTER.as_secs())]
    TooManyCalls,
    /// An internal error.
    #[error("{0}")]
    Gateway(#[from] GatewayError),
}

/// When to try again where too many calls are under way.
pub const RETRY_CALLS_AFTER: Duration = Duration::from_secs(1);

impl CallError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::ToolNotFound { .. } | Self::Namespace { .. } => "tool_not_found",
            Self::SourceNotLoaded(_) => "source_not_loaded",
            Self::Script(fault) => fault.code(),
            Self::NoScripts => "scripts_not_available",
            Self::InvalidInput { .. } => "invalid_input",
            Self::OutOfBounds(e) => e.code(),
            Self::NotAllowed(_) => "not_allowed",
            Self::KeyMismatch(_) => "idempotency_mismatch",
            Self::SessionNotFound => "session_not_found",
            Self::StorageLimit { .. } => "storage_limit",
            Self::TooManyCalls => "too_many_calls",
            Self::Gateway(e) => e.code(),
        }
    }
}

/// Why a decision was not taken.
#[derive(Debug, thiserror::Error)]
pub enum DecideError {
    /// No such elicitation, or execution.
    #[error("there is nothing of this id to decide")]
    NotFound,
    /// The execution has several open elicitations.
    #[error("the execution waits for {} decisions; name one of them", .0.len())]
    Ambiguous(Vec<ElicitationId>),
    /// The pending question is not the one that the decider was shown, or the decider does not say which one that was.
    #[error(
        "this is not the question you were shown; read what is pending and name its elicitationId or digest"
    )]
    NotWhatWasShown(Vec<ElicitationId>),
    /// Another decider was faster.
    #[error("it was decided already: {:?}", .0.outcome)]
    Decided(Box<Decision>),
    /// The question expired.
    #[error("it has expired; the call did not run")]
    Expired,
    /// The subject of the question changed.
    #[error("{0}; the question was withdrawn and nothing ran")]
    Void(String),
    /// The tool is not registered in this process; nothing was changed.
    #[error(
        "the tool {0} is not loaded, so the question still waits; decide again once its source or plugin is loaded"
    )]
    ToolMissing(ToolPath),
    /// This principal may not decide.
    #[error("this credential may not decide; ask a person with the role approver or admin")]
    NotAllowed,
    /// The tool or a rule says that each call is asked about.
    #[error("this approval cannot be remembered; approve the one call")]
    RememberNotAllowed,
    /// The data does not fit the form.
    #[error("the answer does not fit the form: {}", violations_text(.0))]
    InvalidData(Vec<Violation>),
    /// A text or value is out of bounds.
    #[error("{0}")]
    OutOfBounds(String),
    /// Something inside failed; the decision was not taken.
    #[error("{0}")]
    Gateway(#[from] GatewayError),
}

impl DecideError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotFound => "not_found",
            Self::Ambiguous(_) => "several_pending",
            Self::NotWhatWasShown(_) => "not_what_was_shown",
            Self::Decided(_) => "already_decided",
            Self::Expired => "expired",
            Self::Void(_) => "approval_void",
            Self::ToolMissing(_) => "tool_not_found",
            Self::NotAllowed => "not_allowed",
            Self::RememberNotAllowed => "remember_not_allowed",
            Self::InvalidData(_) => "invalid_data",
            Self::OutOfBounds(_) => "value_too_large",
            Self::Gateway(e) => e.code(),
        }
    }
}

/// Why an execution was not cancelled.
#[derive(Debug, thiserror::Error)]
pub enum CancelError {
    /// No such execution.
    #[error("there is no such execution")]
    NotFound,
    /// It belongs to another principal.
    #[error("only its requester or a person who may decide can cancel it")]
    NotAllowed,
    /// It has ended.
    #[error("it has ended already")]
    Ended,
    /// A call may have had its effect; the handler was told, and its own outcome will be recorded.
    #[error("a call is past the point of return; its handler was told, and its own outcome will be recorded")]
    TooLate,
    /// A call of the script may be having its effect; nothing more of it starts, and it is cancelled when that call ended.
    #[error(
        "a call is past the point of return; nothing more starts, and the script is stopped when it has ended"
    )]
    Stopping,
    /// It waits for a person to settle a doubt.
    #[error("a call is in doubt; settle it instead")]
    InDoubt,
    /// An internal error.
    #[error("{0}")]
    Gateway(#[from] GatewayError),
}

impl CancelError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotFound => "not_found",
            Self::NotAllowed => "not_allowed",
            Self::Ended => "already_ended",
            Self::TooLate => "too_late",
            Self::Stopping => "stopping",
            Self::InDoubt => "in_doubt",
            Self::Gateway(e) => e.code(),
        }
    }
}

/// Why a doubt was not settled.
#[derive(Debug, thiserror::Error)]
pub enum SettleError {
    /// No such execution or call.
    #[error("there is no such call")]
    NotFound,
    /// The call is not in doubt.
    #[error("the call is not in doubt")]
    NotInDoubt,
    /// This principal may not settle.
    #[error("this credential may not settle; ask a person with the role approver or admin")]
    NotAllowed,
    /// The tool is gone or changed, so that it cannot be run again.
    #[error("the tool is gone or not what it was; settle the call as done or failed")]
    ToolChanged,
    /// The value is out of bounds.
    #[error("{0}")]
    OutOfBounds(#[from] countersign_core::bounds::BoundsError),
    /// An internal error.
    #[error("{0}")]
    Gateway(#[from] GatewayError),
}

impl SettleError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotFound => "not_found",
            Self::NotInDoubt => "not_in_doubt",
            Self::NotAllowed => "not_allowed",
            Self::ToolChanged => "tool_changed",
            Self::OutOfBounds(e) => e.code(),
            Self::Gateway(e) => e.code(),
        }
    }
}

macro_rules! from_parts {
    ($($error:ident),*) => { $(
        impl From<StoreError> for $error {
            fn from(e: StoreError) -> Self { Self::Gateway(e.into()) }
        }
        impl From<ApplyError> for $error {
            fn from(e: ApplyError) -> Self { Self::Gateway(e.into()) }
        }
    )* };
}
from_parts!(CallError, DecideError, CancelError, SettleError);

fn near_text(near: &[ToolPath]) -> String {
    match near {
        [] => "; search the catalog for what there is".into(),
        _ => {
            let names: Vec<&str> = near.iter().map(ToolPath::as_str).collect();
            format!("; did you mean {}?", names.join(" or "))
        }
    }
}

fn violations_text(violations: &[Violation]) -> String {
    violations.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
