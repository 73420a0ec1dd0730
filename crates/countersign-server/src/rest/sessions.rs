//! Sessions: the conversations there are, and how much each of them may do without asking.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;

use super::body::Params;
use super::pages::Part;
use crate::refusal::Refusal;
use crate::shared::Shared;
use crate::wire;

/// List sessions, newest first
///
/// Each with how many of its remembered approvals still count.
#[utoipa::path(get, operation_id = "listSessions", path = "/api/sessions", tag = "sessions", params(Part), responses(
    (status = 200, description = "A part of the list", body = wire::List<wire::Session>),
    (status = 403, description = "This credential may not decide", body = wire::Problem, content_type = "application/problem+json"),
))]
pub(super) async fn list(
    State(shared): State<Arc<Shared>>,
    Params(part): Params<Part>,
) -> Result<Json<wire::List<wire::Session>>, Refusal> {
    let part = shared.gateway.sessions(part.page()?).await?;
    let items = part.items.iter().map(Into::into).collect();
    Ok(Json(wire::List { next_cursor: part.next, ..wire::List::whole(items).beside(&part.damaged) }))
}
