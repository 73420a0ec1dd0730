//! Tokens and logins.

use countersign_kernel::ports::TokenRow;
use countersign_sdk::Role;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A token. Its secret is nowhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Token {
    /// Its id.
    pub token_id: String,
    /// What people call it.
    pub name: String,
    /// `agent`, `approver`, `admin` or `service`.
    pub role: String,
    /// When it was made.
    pub created_at: String,
    /// When it was revoked, if it was.
    pub revoked_at: Option<String>,
}

/// A token to make.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateTokenRequest {
    /// What people call it.
    pub name: String,
    /// `agent`, `approver`, `admin` or `service`.
    pub role: String,
}

/// A new token, with its secret, which is shown once.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CreatedToken {
    /// The token.
    #[serde(flatten)]
    pub token: Token,
    /// What to send as `Authorization: Bearer …`. Nobody can show it again.
    pub secret: String,
}

impl std::fmt::Debug for CreatedToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CreatedToken").field("token", &self.token).finish_non_exhaustive()
    }
}

/// A link that logs a person in to the console, once.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LoginLink {
    /// The link. Opening it shows a button; pressing that logs in.
    pub url: String,
    /// From here on it is good for nothing.
    pub expires_at: String,
}

/// Who a credential belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Whoami {
    /// The immutable id.
    pub principal: String,
    /// `user`, `agent` or `service`.
    pub kind: String,
    /// What it may do.
    pub roles: Vec<String>,
}

/// How everything stands, in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Standing {
    /// How many audit records there are; an event stream that begins `after` this misses nothing.
    pub recorded: u64,
    /// Questions that wait for a person.
    pub pending: u64,
    /// Executions that wait for people.
    pub paused: u64,
    /// Executions that are being worked on.
    pub running: u64,
    /// Executions with a call nobody knows the outcome of.
    pub in_doubt: u64,
}

impl From<&countersign_kernel::ports::Standing> for Standing {
    fn from(standing: &countersign_kernel::ports::Standing) -> Self {
        Self {
            recorded: standing.recorded,
            pending: standing.open,
            paused: standing.waiting,
            running: standing.running,
            in_doubt: standing.in_doubt,
        }
    }
}

impl From<&TokenRow> for Token {
    fn from(row: &TokenRow) -> Self {
        Self {
            token_id: row.id.to_string(),
            name: row.name.clone(),
            role: row.principal.roles.first().copied().map_or("", role_text).to_owned(),
            created_at: row.created_at.to_string(),
            revoked_at: row.revoked_at.map(|at| at.to_string()),
        }
    }
}

/// A role as clients write it.
pub(crate) fn role_text(role: Role) -> &'static str {
    match role {
        Role::Agent => "agent",
        Role::Approver => "approver",
        Role::Admin => "admin",
        Role::Service => "service",
    }
}
