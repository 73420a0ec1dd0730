//! Grants: remembered approvals.
//!
//! Promise: a grant covers exactly the tools it was given for, as they were then. A tool whose fingerprint changed, or
//! that appeared later, is not covered, also where the grant was given by pattern.

use countersign_sdk::{PrincipalId, SessionId, ToolPath};
use serde::{Deserialize, Serialize};

use crate::canonical::Canonical;
use crate::digest::Fingerprint;
use crate::ids::{ElicitationId, GrantId, TokenId, UserId};
use crate::time::Timestamp;

/// A remembered approval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the names say it")]
pub struct Grant {
    pub id: GrantId,
    /// The session it counts in.
    pub session: SessionId,
    /// The tools it covers, each as it was when the grant was given.
    pub tools: Vec<GrantedTool>,
    /// The only arguments it covers; any arguments if none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<Canonical>,
    /// The pattern the tools were found by, where one was given; kept for people to read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    pub by: PrincipalId,
    /// The token they used; a grant given with a revoked token is dead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<TokenId>,
    /// The elicitation it came from, if it came from one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elicitation: Option<ElicitationId>,
    pub given_at: Timestamp,
    /// From here on it covers nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// How often it may still be used; unbounded if none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uses_left: Option<u32>,
}

/// A tool as a grant knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct GrantedTool {
    pub path: ToolPath,
    pub fingerprint: Fingerprint,
}

impl Grant {
    /// Whether it covers a call of this tool, as it is now, with these arguments, in this session.
    pub fn covers(
        &self,
        session: &SessionId,
        path: &ToolPath,
        fingerprint: Fingerprint,
        args: &Canonical,
        now: Timestamp,
    ) -> bool {
        self.session == *session
            && self.is_live(now)
            && self.args.as_ref().is_none_or(|only| only == args)
            && self.tools.iter().any(|t| t.path == *path && t.fingerprint == fingerprint)
    }

    /// The user who gave it; none in a program that embeds the gateway without users.
    pub fn user(&self) -> Option<UserId> {
        self.by.as_str().parse().ok()
    }

    /// Whether it has uses and time left.
    pub fn is_live(&self, now: Timestamp) -> bool {
        self.uses_left != Some(0) && self.expires_at.is_none_or(|end| now < end)
    }

    /// The grant after one use, or nothing if it was used up.
    #[must_use]
    pub fn used(mut self) -> Option<Self> {
        if let Some(left) = &mut self.uses_left {
            *left = left.checked_sub(1)?;
        }
        Some(self)
    }
}
