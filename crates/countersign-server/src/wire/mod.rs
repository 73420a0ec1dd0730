//! The JSON that clients see, in the shapes of CONTRACT.md.
//!
//! Every type goes both ways, so that our own command line reads what the server writes. Ids are text here: a client has no
//! use for more. Fields are camelCase; one that does not apply is left out, except where CONTRACT.md shows it as null.

mod audit;
mod catalog;
mod configuration;
mod decisions;
mod events;
mod executions;
mod identity;
mod policy;
mod problem;
mod sessions;
mod source_config;
mod sources;

pub use audit::{AuditRecord, AuditTransition, AuditVerification};
pub use catalog::{ToolDetail, ToolEffect, ToolEffects};
pub use configuration::{Configuration, Setting};
pub use decisions::{
    Decision, Elicitation, ElicitationResponse, Grant, GrantRequest, ResolveRequest, ResumeRequest,
};
pub use events::{CatalogChanged, Happened, HappenedKind};
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
pub use source_config::{
    BadSourceConfig, CredentialPlace, McpProtocol, McpQuestions, McpSampling, SourceConfig, SourceCredential,
    SourceKind, ToolSettings,
};
pub use sources::{
    AcceptRequest, CallFigures, ChangedMeanwhile, EffectRequest, FieldChange, Source, SourceDetail,
    SourceHealth, SourceOrigin, SourceTool, ToolStanding, UnmappedOperation,
};

use countersign_kernel::ports::DamagedRow;
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
    /// What should be among the items and cannot be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damaged: Vec<Damaged>,
}

/// A record that is not what was written. It can be neither decided nor run, and lets nobody do anything.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Damaged {
    /// Its id.
    pub id: String,
    /// The execution it belongs to, where it belongs to one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_id: Option<String>,
    /// When it was made.
    pub at: String,
    /// `damaged`.
    pub code: String,
    /// What to do about it.
    pub message: String,
}

impl From<&DamagedRow> for Damaged {
    fn from(row: &DamagedRow) -> Self {
        // What exactly is wrong may quote the record, and is in the log.
        let message = "The record of this is damaged. It cannot be shown, decided or run, and it lets nobody do anything. \
                       Stop the server, copy the data folder, and restore a backup; `countersign doctor` says more."
            .to_owned();
        Self {
            id: row.id.clone(),
            execution_id: row.execution.map(|id| id.to_string()),
            at: row.at.to_string(),
            code: "damaged".to_owned(),
            message,
        }
    }
}

impl<T> List<T> {
    /// A list that is whole.
    pub fn whole(items: Vec<T>) -> Self {
        Self { items, next_cursor: None, damaged: Vec::new() }
    }

    /// The same, beside what cannot be read.
    #[must_use]
    pub fn beside(self, damaged: &[DamagedRow]) -> Self {
        Self { damaged: damaged.iter().map(Into::into).collect(), ..self }
    }
}
