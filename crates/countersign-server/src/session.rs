//! Which session a request runs in where it names none: the caller's own, one for each front.
//!
//! A session is the scope of what a person lets a client do again, and of which questions that client may answer. So what an
//! agent calls over REST is not in the session of its MCP client, also where both use the same token.

use countersign_kernel::{Caller, Gateway, SessionError};
use countersign_sdk::SessionId;

/// How the ids of such sessions begin. Nobody else may choose one.
pub(crate) const OWN_SESSION: &str = "ses_of_";
/// How the client of a session that an MCP client opened is called in the audit.
pub(crate) const MCP_CLIENT: &str = "mcp";

/// The front that a caller uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Through {
    /// REST.
    Rest,
    /// MCP, in the revision that has no sessions of its own.
    Mcp,
}

/// The session that belongs to this credential, opened on its first use. What is approved for it counts wherever the
/// token is used without a session of its own.
pub(crate) async fn own_session(
    gateway: &Gateway,
    caller: &Caller,
    through: Through,
) -> Result<SessionId, SessionError> {
    let client = match through {
        Through::Rest => "token",
        Through::Mcp => MCP_CLIENT,
    };
    gateway.open_session(caller, client, Some(own_session_id(caller, through)?)).await
}

/// The id of that session, opened or not. A user has one, whichever of their credentials they use.
pub(crate) fn own_session_id(caller: &Caller, through: Through) -> Result<SessionId, SessionError> {
    let suffix = match through {
        Through::Rest => "",
        Through::Mcp => "_mcp",
    };
    let id = format!("{OWN_SESSION}{}{suffix}", caller.principal.id);
    SessionId::parse(&id).map_err(|_| SessionError::BadClient)
}
