//! The configuration in force, for whoever operates the server.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;

use crate::shared::Shared;
use crate::wire;

/// The configuration that the server runs with
///
/// As it was loaded at the start. A file that changed since then counts from the next start on.
#[utoipa::path(get, operation_id = "getConfiguration", path = "/api/configuration", tag = "identity", responses(
    (status = 200, description = "What is in force, and from which file", body = wire::Configuration),
    (status = 403, description = "Only an admin may do this", body = wire::Problem, content_type = "application/problem+json"),
))]
pub(super) async fn in_force(State(shared): State<Arc<Shared>>) -> Json<wire::Configuration> {
    Json(shared.configuration.clone())
}
