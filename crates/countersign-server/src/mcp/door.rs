//! The door of `/mcp`: what is looked at before rmcp sees a request.
//!
//! Promise: without a caller nothing gets in; a session of somebody else does not exist; a body is whole, and within the
//! server's limits, before rmcp sees any of it; and no credential goes on into rmcp, which keeps a request's head beside
//! everything it handles.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::{AUTHORIZATION, COOKIE};
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use countersign_kernel::Caller;
use http_body_util::{BodyExt as _, Collected, LengthLimitError, Limited};
use rmcp::model::Extensions;
use rmcp::transport::streamable_http_server::StreamableHttpService;

use super::cancelling::{self, NamedCalls};
use super::handler::{Front, Handler};
use super::sessions::{Belonging, Sessions};
use super::stateless::StatelessCall;
use crate::refusal::Refusal;

const SESSION_ID: &str = "mcp-session-id";

/// What stands behind the door.
pub(super) struct Door {
    pub(super) front: Arc<Front>,
    pub(super) rmcp: StreamableHttpService<Handler, Sessions>,
    pub(super) sessions: Arc<Sessions>,
    pub(super) named_calls: Arc<NamedCalls>,
    pub(super) limits: BodyLimits,
}

/// The limits of a request's body.
pub(super) struct BodyLimits {
    pub(super) bytes: usize,
    /// How long it may take to come.
    pub(super) sending: Duration,
}

/// Lets a request in, or says why not.
pub(super) async fn enter(State(door): State<Arc<Door>>, mut request: Request) -> Response {
    let Some(caller) = request.extensions().get::<Caller>().cloned() else {
        return (StatusCode::UNAUTHORIZED, "Unauthorized: this endpoint needs a token").into_response();
    };
    let session = request.headers().get(SESSION_ID).and_then(|id| id.to_str().ok());
    if let Some(session) = session
        && door.sessions.belonging(session, &caller.principal.id) == Belonging::Foreign
    {
        // The same words as for a session that does not exist.
        return (StatusCode::NOT_FOUND, "Not Found: Session not found").into_response();
    }
    for secret in [AUTHORIZATION, COOKIE] {
        request.headers_mut().remove(secret);
    }
    let (head, body) = request.into_parts();
    let body = match whole(body, &door.limits).await {
        Ok(body) => body,
        Err(refused) => return refused.into_response(),
    };
    if let Some(name) = cancelling::name_in(&head.headers)
        && let Some(reason) = cancelling::reason_in(&body)
    {
        return match door.named_calls.cancel(&caller.principal.id, name, &reason) {
            true => StatusCode::ACCEPTED.into_response(),
            false => {
                (StatusCode::NOT_FOUND, "Not Found: no call of this name is being served").into_response()
            }
        };
    }
    if let Some(call) = StatelessCall::read(&head, &body, &door.front) {
        return call.answer(Arc::clone(&door.front), caller).await;
    }
    door.rmcp.handle(Request::from_parts(head, Body::from(body))).await.map(Body::new)
}

/// All of a body, where it is no larger than it may be.
async fn whole(body: Body, limits: &BodyLimits) -> Result<Bytes, Refusal> {
    let read = Limited::new(body, limits.bytes).collect();
    let Ok(read) = tokio::time::timeout(limits.sending, read).await else {
        return Err(Refusal::new(408, "body_too_slow", "the body did not come in time; send it again"));
    };
    read.map(Collected::to_bytes).map_err(|error| match error.is::<LengthLimitError>() {
        true => Refusal::new(413, "body_too_large", "the body is larger than this server takes"),
        false => Refusal::bad_request("bad_body", "the body ended early"),
    })
}

/// Whose request this is, as the server's guard left it there.
pub(super) fn caller(extensions: &Extensions) -> Option<&Caller> {
    extensions.get::<Parts>()?.extensions.get::<Caller>()
}

/// The name that a request gives its call, for cancelling it.
pub(super) fn call_name(extensions: &Extensions) -> Option<&str> {
    cancelling::name_in(&extensions.get::<Parts>()?.headers)
}
