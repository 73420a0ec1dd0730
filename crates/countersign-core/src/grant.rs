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
pub struct Grant {
    /// Its id.
    pub id: GrantId,
    /// The session it counts in.
    pub session: SessionId,
    /// The tools it covers, each as it was when the grant was given.
    pub tools: Vec<GrantedTool>,
    /// The only arguments it covers; any where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<Canonical>,
    /// The pattern the tools were found by, where one was given; kept for people to read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// Who gave it.
    pub by: PrincipalId,
    /// The token they used; a grant given with a revoked token is dead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<TokenId>,
    /// The elicitation it came from, if it came from one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elicitation: Option<ElicitationId>,
    /// When it was given.
    pub given_at: Timestamp,
    /// From here on it covers nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// How often it may still be used; without bound where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uses_left: Option<u32>,
}

/// A tool as a grant knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantedTool {
    /// The path.
    pub path: ToolPath,
    /// What the tool was.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::Digest;

    fn print(n: u8) -> Fingerprint {
        Fingerprint(Digest::of(&[n]))
    }

    fn grant() -> Grant {
        Grant {
            id: GrantId::from_random([1; 16]),
            session: SessionId::parse("ses_1").unwrap(),
            tools: vec![GrantedTool { path: ToolPath::parse("a.b").unwrap(), fingerprint: print(1) }],
            args: None,
            pattern: None,
            by: PrincipalId::parse("ann").unwrap(),
            token: None,
            elicitation: None,
            given_at: Timestamp::from_millis(0),
            expires_at: Some(Timestamp::from_millis(100)),
            uses_left: Some(2),
        }
    }

    fn args(n: u64) -> Canonical {
        Canonical::of(&serde_json::json!({ "n": n })).unwrap()
    }

    #[test]
    fn it_covers_only_its_session_its_tool_its_fingerprint_its_arguments_and_its_time() {
        let (ses, path, now) =
            (SessionId::parse("ses_1").unwrap(), ToolPath::parse("a.b").unwrap(), Timestamp::from_millis(99));
        let g = grant();
        assert!(g.covers(&ses, &path, print(1), &args(1), now));
        assert!(!g.covers(&SessionId::parse("ses_2").unwrap(), &path, print(1), &args(1), now));
        assert!(!g.covers(&ses, &ToolPath::parse("a.c").unwrap(), print(1), &args(1), now));
        assert!(!g.covers(&ses, &path, print(2), &args(1), now), "a changed tool is another tool (R14)");
        assert!(
            !g.covers(&ses, &path, print(1), &args(1), Timestamp::from_millis(100)),
            "expiry is exclusive"
        );
        let narrow = Grant { args: Some(args(1)), ..g };
        assert!(narrow.covers(&ses, &path, print(1), &args(1), now));
        assert!(
            !narrow.covers(&ses, &path, print(1), &args(2), now),
            "other arguments than those that were approved"
        );
    }

    #[test]
    fn uses_run_out() {
        let once = grant().used().unwrap();
        let twice = once.used().unwrap();
        assert!(!twice.is_live(Timestamp::from_millis(0)));
        assert!(twice.used().is_none());
    }
}
