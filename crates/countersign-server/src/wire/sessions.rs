//! Sessions, for whoever decides in them.

use countersign_kernel::ports::SessionSummary;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The scope of one conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Session {
    /// Its id.
    pub session_id: String,
    /// Whose it is.
    pub owner: String,
    /// The client program, as it calls itself.
    pub client: String,
    /// When it was opened.
    pub opened_at: String,
    /// How many of its remembered approvals still count.
    pub approvals: u64,
}

impl From<&SessionSummary> for Session {
    fn from(summary: &SessionSummary) -> Self {
        let SessionSummary { row, live_grants } = summary;
        Self {
            session_id: row.id.to_string(),
            owner: row.principal.to_string(),
            client: row.client.clone(),
            opened_at: row.opened_at.to_string(),
            approvals: *live_grants,
        }
    }
}
