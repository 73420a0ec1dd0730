//! The audit: every transition, in numbered and chained records.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use countersign_core::audit::AuditFilter;
use countersign_core::ids::ExecutionId;
use countersign_kernel::{AuditOrder, AuditQuery};
use countersign_sdk::PrincipalId;
use serde::Deserialize;
use utoipa::IntoParams;

use super::body::Params;
use super::pages::Part;
use crate::refusal::Refusal;
use crate::shared::Shared;
use crate::wire;

/// Which records, and which way.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Wanted {
    /// Only records with a transition of this execution: `exec_…`.
    execution: Option<String>,
    /// Only records with a transition that this principal made.
    by: Option<String>,
    /// Only records with a transition of this name, such as `Decided` or `TokenCreated`. With several filters, one transition fits
    /// all of them.
    what: Option<String>,
    /// `asc`: from the first record on, as where nothing is said. `desc`: from the last one back.
    order: Option<String>,
    /// `nextCursor` of the part before: the number of the record that was looked at last.
    cursor: Option<String>,
    /// How many items at most, 1 to 1,000; 50 where nothing is said.
    limit: Option<usize>,
}

/// Audit records, in order or newest first
///
/// A record lists the transitions that one commit made. `cursor` is the number of the last record that was looked at; the order's own beginning where nothing is said. A part
/// looks at no more than 10,000 records, so that with a filter it may be short, or empty, and still not be the last: the end is
/// where `nextCursor` is null. Going on from the last record's number finds what came since.
#[utoipa::path(get, operation_id = "listAudit", path = "/api/audit", tag = "audit", params(Wanted), responses(
    (status = 200, description = "A part of the records", body = wire::List<wire::AuditRecord>),
    (status = 400, description = "The cursor is no number, or a filter is not of the right form", body = wire::Problem, content_type = "application/problem+json"),
))]
pub(super) async fn list(
    State(shared): State<Arc<Shared>>,
    Params(wanted): Params<Wanted>,
) -> Result<Json<wire::List<wire::AuditRecord>>, Refusal> {
    let page = shared.gateway.audit_page(&wanted.query()?).await?;
    let next_cursor = page.next.map(|seq| seq.to_string());
    let items = page.records.iter().map(Into::into).collect();
    Ok(Json(wire::List { next_cursor, ..wire::List::whole(items) }))
}

/// Whether the chain of the audit holds
///
/// Follows it from the first record to the one that is the last now. It changes nothing, and takes as long as there is to read.
#[utoipa::path(get, operation_id = "verifyAudit", path = "/api/audit/verify", tag = "audit", responses(
    (status = 200, description = "It holds, or `brokenAt` says where it does not", body = wire::AuditVerification),
    (status = 403, description = "This credential may not decide", body = wire::Problem, content_type = "application/problem+json"),
))]
pub(super) async fn verify(
    State(shared): State<Arc<Shared>>,
) -> Result<Json<wire::AuditVerification>, Refusal> {
    let report = shared.gateway.verify_audit().await?;
    if let Some(broken) = &report.broken {
        tracing::error!(seq = broken.seq, problem = broken.problem, "the audit chain is broken");
    }
    Ok(Json((&report).into()))
}

impl Wanted {
    fn query(self) -> Result<AuditQuery, Refusal> {
        let bad =
            |what: &str| Refusal::bad_request("bad_request", format!("`{what}` is not of the right form"));
        let order = match self.order.as_deref() {
            None | Some("asc") => AuditOrder::OldestFirst,
            Some("desc") => AuditOrder::NewestFirst,
            Some(_) => return Err(Refusal::bad_request("bad_request", "`order` is `asc` or `desc`")),
        };
        let filter = AuditFilter {
            execution: self
                .execution
                .map(|id| id.parse::<ExecutionId>())
                .transpose()
                .map_err(|_| bad("execution"))?,
            by: self.by.map(|id| PrincipalId::parse(&id)).transpose().map_err(|_| bad("by"))?,
            what: self.what,
        };
        let part = Part { cursor: self.cursor, limit: self.limit };
        let limit = part.limit()?;
        let bad_cursor = |_| Refusal::bad_request("bad_cursor", "the cursor is not from an earlier page");
        let from = part.cursor.as_deref().map(str::parse::<u64>).transpose().map_err(bad_cursor)?;
        Ok(AuditQuery { filter, order, from, limit })
    }
}
