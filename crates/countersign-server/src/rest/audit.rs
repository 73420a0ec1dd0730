//! The audit: every transition, numbered and chained.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;

use super::body::Params;
use super::pages::Part;
use crate::refusal::Refusal;
use crate::shared::Shared;
use crate::wire;

/// Audit records, in order
///
/// `cursor` is the number of the last record that was read; from the first where nothing is said. At the end `nextCursor` is
/// null; going on from the last record's number finds what came since.
#[utoipa::path(get, operation_id = "listAudit", path = "/api/audit", tag = "audit", params(Part), responses(
    (status = 200, description = "A part of the records", body = wire::List<wire::AuditRecord>),
    (status = 400, description = "The cursor is no number", body = wire::Problem, content_type = "application/problem+json"),
))]
pub(super) async fn list(
    State(shared): State<Arc<Shared>>,
    Params(part): Params<Part>,
) -> Result<Json<wire::List<wire::AuditRecord>>, Refusal> {
    let limit = part.limit()?;
    let bad = |_| Refusal::bad_request("bad_cursor", "the cursor is not from an earlier page");
    let after = part.cursor.as_deref().map_or(Ok(0), str::parse::<u64>).map_err(bad)?;
    let records = shared.gateway.audit(after, limit).await?;
    let next_cursor = (records.len() == limit).then(|| records.last().map(|r| r.seq.to_string())).flatten();
    Ok(Json(wire::List { items: records.iter().map(Into::into).collect(), next_cursor }))
}
