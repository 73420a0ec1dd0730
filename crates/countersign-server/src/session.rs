//! Which session a request runs in where it names none: the caller's own, one for each front.
//!
//! A session is the scope of what a person lets a client do again, and of which questions that client may answer. So what an
//! agent calls over REST is not in the session of its MCP client, also where both use the same token.

use countersign_kernel::{Caller, Gateway, SessionError, SessionOwner};
use countersign_sdk::SessionId;

/// How the ids of such sessions begin. Nobody else may choose one.
const OWN_SESSION: &str = "ses_of_";
/// How the client of a session that an MCP client opened is called in the audit. One that says its name has `mcp/name`.
const MCP_CLIENT: &str = "mcp";
/// How the client of a caller's own session over REST is called.
const TOKEN_CLIENT: &str = "token";
/// How the client of a session that a REST request names is called.
const REST_CLIENT: &str = "rest";

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
        Through::Rest => TOKEN_CLIENT,
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

/// A session that a REST request names: the caller's own, or one that was opened over REST. A session of somebody else does
/// not exist, and neither does one of the same token's MCP client.
pub(crate) async fn named_session(
    gateway: &Gateway,
    caller: &Caller,
    id: SessionId,
) -> Result<SessionId, SessionError> {
    if id == own_session_id(caller, Through::Rest)? {
        return own_session(gateway, caller, Through::Rest).await;
    }
    if id.as_str().starts_with(OWN_SESSION) {
        // The session is of another front, or its name imitates one.
        return Err(SessionError::Taken);
    }
    gateway.open_session(caller, REST_CLIENT, Some(id)).await
}

/// Whether a session is the caller's, and was opened over REST.
pub(crate) fn is_own_over_rest(owner: &SessionOwner, caller: &Caller) -> bool {
    owner.principal == caller.principal.id && [TOKEN_CLIENT, REST_CLIENT].contains(&owner.client.as_str())
}

/// How the client of an MCP conversation is called, by the name that it gave.
pub(crate) fn mcp_client(name: &str) -> String {
    format!("{MCP_CLIENT}/{name}")
}

/// Whether a session was opened by an MCP client.
pub(crate) fn is_of_mcp_client(owner: &SessionOwner) -> bool {
    owner.client == MCP_CLIENT || owner.client.starts_with(&mcp_client(""))
}
