//! What happens, as the event stream tells it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::decisions::Elicitation;
use super::executions::Status;

/// One thing that happened. The stream's `event:` says which kind, its `id:` is what to give as `Last-Event-ID`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Happened {
    /// The execution it happened to.
    pub execution_id: String,
    /// When.
    pub at: String,
    /// Where the execution stands by now.
    pub status: Status,
    /// The number of the call, where it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<u32>,
    /// The question, where it is about one, as it stands by now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elicitation: Option<Elicitation>,
    /// The question's id, where it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elicitation_id: Option<String>,
}

/// The tools of a source changed. The stream's `event:` is `catalog.changed`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CatalogChanged {
    /// When.
    pub at: String,
    /// The source, and what was added, changed and removed, in words.
    pub detail: String,
}

/// The kinds of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HappenedKind {
    /// A person is asked.
    ElicitationPending,
    /// A question ended.
    ElicitationDecided,
    /// The execution stands elsewhere.
    ExecutionStatus,
    /// A handler was let run.
    CallStarted,
    /// A call has an outcome.
    CallSettled,
    /// The tools of a source changed.
    CatalogChanged,
}

impl HappenedKind {
    /// The name on the stream.
    pub fn name(self) -> &'static str {
        match self {
            Self::ElicitationPending => "elicitation.pending",
            Self::ElicitationDecided => "elicitation.decided",
            Self::ExecutionStatus => "execution.status",
            Self::CallStarted => "call.started",
            Self::CallSettled => "call.settled",
            Self::CatalogChanged => "catalog.changed",
        }
    }
}
