//! Users, tokens and logins.

use std::time::Duration;

use countersign_kernel::ports::{TokenRow, UserRow};
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
    /// `agent`, `approver`, `admin`, `service` or `worker`.
    pub role: String,
    /// The user whose it is, or for whom its bearer acts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// What people call that user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner_name: Option<String>,
    /// Whether a person declared that the prompts of the client that holds it reach a person.
    #[serde(default)]
    pub attended: bool,
    /// When it was made.
    pub created_at: String,
    /// From here on it is good for nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// When it was last used, to the minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used_at: Option<String>,
    /// When it was revoked, if it was.
    pub revoked_at: Option<String>,
}

/// A person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct User {
    /// The immutable id.
    pub user_id: String,
    /// What people call them.
    pub name: String,
    /// `approver`, `admin`, or none.
    pub roles: Vec<String>,
    /// When they were added.
    pub created_at: String,
    /// Since when they may do nothing, if that is so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled_at: Option<String>,
}

/// A user to add.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AddUserRequest {
    /// What people call them. No two users have the same name.
    pub name: String,
    /// `approver` or `admin`; none for somebody who only has agents.
    #[serde(default)]
    pub roles: Vec<String>,
}

/// What is to change about a user; what is left out stays.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChangeUserRequest {
    /// `approver` or `admin`, or an empty list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub roles: Option<Vec<String>>,
    /// Whether they may do nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled: Option<bool>,
}

/// A token to make.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateTokenRequest {
    /// What people call it.
    pub name: String,
    /// `agent`, `approver`, `admin`, `service` or `worker`.
    pub role: String,
    /// Whose it is, or for whom its bearer acts: an id or a name; the caller where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// For an agent: whether the prompts of its client reach a person, so that a yes there counts as the owner's.
    #[serde(default)]
    pub attended: bool,
    /// For how long it is good; without end where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in_ms: Option<u64>,
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
    /// The user behind it: the principal itself, or its owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// What people call that user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_name: Option<String>,
    /// Whether the prompts of this client reach a person.
    #[serde(default)]
    pub attended: bool,
    /// `user`, `agent`, `service` or `worker`.
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
    /// Tools of sources that wait to be accepted.
    #[serde(default)]
    pub unaccepted_tools: u64,
    /// How long an approval for a session lasts, where nothing else is said.
    #[serde(default)]
    pub remember_for_ms: u64,
}

impl Standing {
    /// The numbers of this moment.
    pub fn of(standing: &countersign_kernel::ports::Standing, remember_for: Duration) -> Self {
        Self {
            unaccepted_tools: 0,
            remember_for_ms: u64::try_from(remember_for.as_millis()).unwrap_or(u64::MAX),
            recorded: standing.recorded,
            pending: standing.open,
            paused: standing.waiting,
            running: standing.running,
            in_doubt: standing.in_doubt,
        }
    }
}

impl From<&UserRow> for User {
    fn from(row: &UserRow) -> Self {
        Self {
            user_id: row.id.to_string(),
            name: row.name.clone(),
            roles: row.roles.iter().map(|role| role_text(*role).to_owned()).collect(),
            created_at: row.created_at.to_string(),
            disabled_at: row.disabled_at.map(|at| at.to_string()),
        }
    }
}

impl Token {
    /// A token, with what people call its owner.
    pub fn of(row: &TokenRow, users: &[UserRow]) -> Self {
        let owner = row.principal.user().map(ToString::to_string);
        let named = users.iter().find(|user| owner.as_deref() == Some(&user.id.to_string()));
        Self {
            owner_name: named.map(|user| user.name.clone()),
            owner,
            attended: row.attended,
            expires_at: row.expires_at.map(|at| at.to_string()),
            last_used_at: row.last_used_at.map(|at| at.to_string()),
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
        Role::Worker => "worker",
    }
}
