//! The audit: every transition, newest first, with filters, verification of the chain and an export.

use axum::response::Response;
use countersign_core::audit::{AuditEntry, AuditRecord};
use maud::{Markup, html};
use serde::Deserialize;

use super::api::query;
use super::executions::more;
use super::frame::{Place, Reader, Trouble};
use super::text::{short, text};
use super::when;
use crate::rest::body::Params;
use crate::wire;

/// How many are listed at once.
const LISTED: &str = "100";

/// Which records.
#[derive(Deserialize)]
pub(super) struct Wanted {
    execution: Option<String>,
    by: Option<String>,
    what: Option<String>,
    cursor: Option<String>,
}

/// The page.
pub(super) async fn page(reader: Reader, Params(wanted): Params<Wanted>) -> Result<Response, Trouble> {
    let kept = [
        ("execution", wanted.execution.as_deref()),
        ("by", wanted.by.as_deref()),
        ("what", wanted.what.as_deref()),
    ];
    let mut parameters = kept.to_vec();
    parameters.extend([
        ("order", Some("desc")),
        ("limit", Some(LISTED)),
        ("cursor", wanted.cursor.as_deref()),
    ]);
    let list: wire::List<wire::AuditRecord> = reader.get(&query("/api/audit", &parameters)).await?;
    let main = html! {
        div.heading {
            h1 { "Audit" }
            div.tools {
                button type="button" data-verify { "Verify the chain" }
                button type="button" data-export { "Export" }
            }
        }
        p #chain role="status" {}
        form.filters action="/audit" {
            @for (name, label, value) in [("execution", "Execution", &wanted.execution), ("by", "By", &wanted.by), ("what", "What", &wanted.what)] {
                label { (label) input name=(name) value=[value.as_deref()] autocomplete="off"; }
            }
            button { "Filter" }
        }
        @if list.items.is_empty() { p.faint { "No record fits." } } @else {
            div.scroll tabindex="0" role="region" aria-label="Records" { table {
                thead { tr { th scope="col" { "No" } th scope="col" { "When" } th scope="col" { "What" } th scope="col" { "By" } th scope="col" { "Execution" } th scope="col" { "Detail" } } }
                tbody { @for record in &list.items { (rows(record)) } }
            } }
        }
        (more("/audit", &kept, list.next_cursor.as_deref()))
    };
    Ok(reader.page(Place::Audit, "Audit", &main))
}

/// A line for each transition; the record's number stands before the first.
fn rows(record: &wire::AuditRecord) -> Markup {
    let Ok(transitions) = wanted_form(record) else {
        return html! { tr { td.number { (record.seq) } td colspan="5" { (text(&record.entry)) } } };
    };
    html! {
        @for (n, entry) in transitions.iter().enumerate() {
            tr {
                @if n == 0 { td.number rowspan=(transitions.len()) { (record.seq) } }
                td { (when::of(entry.at)) }
                td { (text(&entry.what)) }
                td { @if let Some(by) = &entry.by { (short(by.as_str())) } @else { span.faint { "gateway" } } }
                td { @if let Some(execution) = &entry.execution { a href={ "/executions/" (execution) } { code { (short(&execution.to_string())) } } } }
                td.detail { (text(&entry.detail)) }
            }
        }
    }
}

/// The transitions of a record; an error where it is not of the form that this build writes.
fn wanted_form(record: &wire::AuditRecord) -> Result<Vec<AuditEntry>, ()> {
    let (prev, hash) = (record.prev.parse().map_err(drop)?, record.hash.parse().map_err(drop)?);
    AuditRecord { seq: record.seq, entry: record.entry.clone(), prev, hash }.parse().map_err(drop)
}
