//! Which session a request runs in where it names none: the token's own.

use countersign_kernel::{Caller, Gateway, SessionError};
use countersign_sdk::SessionId;

/// How the ids of such sessions begin. Nobody else may choose one.
pub(crate) const OWN_SESSION: &str = "ses_of_";
/// What the session's client is called in the audit.
const CLIENT: &str = "token";

/// The session that belongs to this credential, opened on its first use. What is approved for it counts wherever the
/// token is used without a session of its own.
pub(crate) async fn own_session(gateway: &Gateway, caller: &Caller) -> Result<SessionId, SessionError> {
    gateway.open_session(caller, CLIENT, Some(own_session_id(caller)?)).await
}

/// The id of that session, opened or not.
pub(crate) fn own_session_id(caller: &Caller) -> Result<SessionId, SessionError> {
    let name = caller.token.map_or_else(|| caller.principal.id.to_string(), |token| token.to_string());
    SessionId::parse(&format!("{OWN_SESSION}{name}")).map_err(|_| SessionError::BadClient)
}
