//! The JSON that clients see, in the shapes of CONTRACT.md.
//!
//! Every type goes both ways, so that our own command line reads what the server writes. Ids are text here: a client has no
//! use for more. Fields are camelCase; one that does not apply is left out, except where CONTRACT.md shows it as null.

mod audit;
mod catalog;
mod decisions;
mod events;
mod executions;
mod identity;
mod policy;
mod problem;
mod sessions;

pub use audit::{AuditRecord, AuditVerification};
pub use catalog::{ToolDetail, ToolEffects};
pub use decisions::{
    Decision, Elicitation, ElicitationResponse, Grant, GrantRequest, ResolveRequest, ResumeRequest,
};
pub use events::{Happened, HappenedKind};
pub use executions::{
    CallSummary, ExecuteRequest, ExecutionResult, ExecutionSummary, Failure, JournalEvent, LogLine, Pending,
    PendingKind, SettleRequest, Settlement, Status,
};
pub(crate) use identity::role_text;
pub use identity::{
    AddUserRequest, ChangeUserRequest, CreateTokenRequest, CreatedToken, LoginLink, Standing, Token, User,
    Whoami,
};
pub use policy::{ExplainRequest, Explanation, RuleReport};
pub use problem::Problem;
pub use sessions::Session;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A part of a list, and where to go on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct List<T> {
    /// The items.
    pub items: Vec<T>,
    /// What to give as `cursor` for the next part; null at the end.
    pub next_cursor: Option<String>,
}

impl<T> List<T> {
    /// A list that is whole.
    pub fn whole(items: Vec<T>) -> Self {
        Self { items, next_cursor: None }
    }
}
