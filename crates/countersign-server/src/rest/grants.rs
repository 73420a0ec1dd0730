//! Remembered approvals of a session: list, add, clear, revoke.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, Json};
use countersign_core::canonical::Canonical;
use countersign_core::ids::GrantId;
use countersign_core::policy::PathPattern;
use countersign_kernel::{Caller, NewGrant};
use countersign_sdk::SessionId;

use super::body::{Body, Named};
use crate::refusal::Refusal;
use crate::session::is_own_over_rest;
use crate::shared::Shared;
use crate::wire;

/// List what a session's approvals cover
#[utoipa::path(get, operation_id = "listApprovals", path = "/api/sessions/{id}/approvals", tag = "sessions", params(("id" = String, Path, description = "`ses_…`")), responses(
    (status = 200, description = "The remembered approvals", body = wire::List<wire::Grant>),
    (status = 404, description = "There is no such session of yours", body = wire::Problem, content_type = "application/problem+json"),
))]
pub(super) async fn list(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Named(id): Named<String>,
) -> Result<Json<wire::List<wire::Grant>>, Refusal> {
    let session = session(&shared, &caller, &id).await?;
    let grants = shared.gateway.grants(&session).await?;
    Ok(Json(wire::List::whole(grants.iter().map(Into::into).collect())))
}

/// Remember an approval for tools that are there now
#[utoipa::path(post, operation_id = "giveApproval", path = "/api/sessions/{id}/approvals", tag = "sessions", params(("id" = String, Path, description = "`ses_…`")), request_body = wire::GrantRequest, responses(
    (status = 201, description = "It is remembered", body = wire::Grant),
    (status = 403, description = "This credential may not decide", body = wire::Problem, content_type = "application/problem+json"),
    (status = 404, description = "There is no such session, or no tool that fits", body = wire::Problem, content_type = "application/problem+json"),
))]
pub(super) async fn give(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Named(id): Named<String>,
    Body(request): Body<wire::GrantRequest>,
) -> Result<(StatusCode, Json<wire::Grant>), Refusal> {
    let session = session(&shared, &caller, &id).await?;
    let pattern = PathPattern::parse(&request.tool_path)
        .map_err(|error| Refusal::new(422, "bad_pattern", format!("`toolPath`: {error}")))?;
    if request.uses == Some(0) {
        return Err(Refusal::new(422, "bad_request", "`uses` is at least 1"));
    }
    let expires_at = request.expires_in_ms.map(|ms| shared.gateway.now().after(Duration::from_millis(ms)));
    let args = request.args.as_ref().map(Canonical::of).transpose();
    let args = args.map_err(|error| Refusal::new(422, error.code(), error.to_string()))?;
    let new = NewGrant { session, pattern, args, expires_at, uses: request.uses };
    let grant = shared.gateway.give_grant(&caller, new).await?;
    Ok((StatusCode::CREATED, Json((&grant).into())))
}

/// Forget every approval of a session
#[utoipa::path(delete, operation_id = "clearApprovals", path = "/api/sessions/{id}/approvals", tag = "sessions", params(("id" = String, Path, description = "`ses_…`")), responses(
    (status = 204, description = "They are forgotten"),
    (status = 403, description = "This credential may not decide", body = wire::Problem, content_type = "application/problem+json"),
))]
pub(super) async fn clear(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Named(id): Named<String>,
) -> Result<StatusCode, Refusal> {
    let session = session(&shared, &caller, &id).await?;
    shared.gateway.clear_grants(&caller, &session).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Forget one remembered approval
#[utoipa::path(delete, operation_id = "revokeApproval", path = "/api/sessions/{id}/approvals/{grant}", tag = "sessions", params(
    ("id" = String, Path, description = "`ses_…`"), ("grant" = String, Path, description = "The approval's id"),
), responses(
    (status = 204, description = "It is forgotten"),
    (status = 404, description = "The session has no such approval", body = wire::Problem, content_type = "application/problem+json"),
))]
pub(super) async fn revoke(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Named((id, grant)): Named<(String, String)>,
) -> Result<StatusCode, Refusal> {
    let session = session(&shared, &caller, &id).await?;
    let missing = || Refusal::not_found("the session has no such approval");
    let grant: GrantId = grant.parse().map_err(|_| missing())?;
    if !shared.gateway.grants(&session).await?.iter().any(|given| given.id == grant) {
        return Err(missing());
    }
    shared.gateway.revoke_grant(&caller, grant).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// A session that the caller may see: their own of REST, or any where they may decide.
async fn session(shared: &Shared, caller: &Caller, id: &str) -> Result<SessionId, Refusal> {
    let missing = || Refusal::new(404, "session_not_found", "there is no such session");
    let id = SessionId::parse(id).map_err(|_| missing())?;
    let owner = shared.gateway.session_owner(&id).await?.ok_or_else(missing)?;
    if is_own_over_rest(&owner, caller) || caller.principal.may_decide() { Ok(id) } else { Err(missing()) }
}
