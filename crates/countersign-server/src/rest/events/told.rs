//! What one audit record tells, in the text of the stream. It is rendered once for everybody who reads it.

use axum::body::Bytes;
use countersign_core::audit::{AuditEntry, AuditRecord};
use countersign_kernel::GatewayError;
use countersign_sdk::PrincipalId;

use crate::rest::elicitation::named;
use crate::shared::Shared;
use crate::wire::{self, HappenedKind};

/// What a record tells.
pub(super) enum Told {
    /// Nothing that a stream speaks of.
    Nothing,
    /// Something happened to an execution, or to the catalog.
    Happened {
        /// Who asked for the execution: whoever may not decide is told of their own. None where everybody is told.
        requester: Option<PrincipalId>,
        /// Everything that is told.
        whole: Bytes,
        /// Without what questions and decisions say.
        brief: Bytes,
    },
}

/// Renders a record.
pub(super) async fn told(shared: &Shared, record: &AuditRecord) -> Result<Told, GatewayError> {
    let Ok(entry) = record.parse() else {
        tracing::error!(seq = record.seq, "an audit record cannot be read");
        return Ok(Told::Nothing);
    };
    if entry.what == "CatalogChanged" {
        return Ok(catalog_changed(record.seq, &entry));
    }
    let kinds = kinds(&entry);
    if kinds.is_empty() {
        return Ok(Told::Nothing);
    }
    let Some((requester, mut happened)) = happened(shared, &entry).await? else { return Ok(Told::Nothing) };
    let whole = text(kinds, record.seq, &happened);
    let brief = match happened.elicitation.take() {
        None => whole.clone(),
        Some(elicitation) => {
            happened.elicitation = Some(elicitation.in_brief());
            text(kinds, record.seq, &happened)
        }
    };
    Ok(Told::Happened { requester: Some(requester), whole, brief })
}

/// Everybody who may read events may also list tools, so that everybody is told.
fn catalog_changed(seq: u64, entry: &AuditEntry) -> Told {
    let changed = wire::CatalogChanged { at: entry.at.to_string(), detail: entry.detail.clone() };
    let whole = text(&[HappenedKind::CatalogChanged], seq, &changed);
    Told::Happened { requester: None, brief: whole.clone(), whole }
}

/// What an event says, and whose business it is.
async fn happened(
    shared: &Shared,
    entry: &AuditEntry,
) -> Result<Option<(PrincipalId, wire::Happened)>, GatewayError> {
    let Some(execution) = entry.execution else { return Ok(None) };
    let Some(row) = shared.gateway.execution(execution).await? else { return Ok(None) };
    let elicitation = match entry.elicitation {
        Some(id) => shared.gateway.elicitation(id).await?,
        None => None,
    };
    let mut elicitation = elicitation.map(|row| wire::Elicitation::of(&row, &shared.links));
    named(shared, elicitation.as_mut_slice()).await?;
    let happened = wire::Happened {
        execution_id: execution.to_string(),
        at: entry.at.to_string(),
        status: row.status.into(),
        call: entry.call.map(|call| call.0),
        elicitation,
        elicitation_id: entry.elicitation.map(|id| id.to_string()),
    };
    Ok(Some((row.requester, happened)))
}

/// The events that one record makes. Only the last of them carries the id: a client that was cut off in between reads them
/// all again.
fn text(kinds: &[HappenedKind], seq: u64, happened: &impl serde::Serialize) -> Bytes {
    // JSON is one line, and values of ours can always be written.
    let data = serde_json::to_string(happened).unwrap_or_default();
    let mut text = String::with_capacity(kinds.len() * (data.len() + 64));
    for (n, kind) in kinds.iter().enumerate() {
        let id = if n + 1 == kinds.len() { format!("id: {seq}\n") } else { String::new() };
        text.push_str(&format!("event: {}\ndata: {data}\n{id}\n", kind.name()));
    }
    text.into()
}

/// Which events a record makes. Every record of an execution that moves it says where it stands now.
fn kinds(entry: &AuditEntry) -> &'static [HappenedKind] {
    match entry.what.as_str() {
        "Asked" => &[HappenedKind::ElicitationPending, HappenedKind::ExecutionStatus],
        "Decided" => &[HappenedKind::ElicitationDecided, HappenedKind::ExecutionStatus],
        "CallStarted" => &[HappenedKind::CallStarted],
        "CallSettled" => &[HappenedKind::CallSettled],
        "Started" | "Finished" | "Cancelled" | "FoundInDoubt" | "DoubtSettled" | "ScriptWaits" => {
            &[HappenedKind::ExecutionStatus]
        }
        _ => &[],
    }
}
