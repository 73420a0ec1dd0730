//! The door of `/mcp`: what is looked at before rmcp sees a request.
//!
//! Promise: without a caller nothing gets in; a session of somebody else does not exist; and no credential goes on into
//! rmcp, which keeps a request's head beside everything it handles.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::{AUTHORIZATION, COOKIE};
use axum::response::{IntoResponse, Response};
use countersign_kernel::Caller;
use rmcp::model::Extensions;
use rmcp::transport::streamable_http_server::StreamableHttpService;

use super::handler::Handler;
use super::sessions::{Belonging, Sessions};

const SESSION_ID: &str = "mcp-session-id";

/// What stands behind the door.
pub(super) struct Door {
    pub(super) rmcp: StreamableHttpService<Handler, Sessions>,
    pub(super) sessions: Arc<Sessions>,
}

/// Lets a request in, or says why not.
pub(super) async fn enter(State(door): State<Arc<Door>>, mut request: Request) -> Response {
    let Some(caller) = request.extensions().get::<Caller>() else {
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
    door.rmcp.handle(request).await.map(Body::new)
}

/// Whose request this is, as the server's guard left it there.
pub(super) fn caller(extensions: &Extensions) -> Option<&Caller> {
    extensions.get::<axum::http::request::Parts>()?.extensions.get::<Caller>()
}
