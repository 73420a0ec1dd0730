//! The inbox: calls in doubt on top, then what waits, oldest first, and beside it the request that is open.
//!
//! A card says enough to choose; it never stands for the request itself. What is decided is what the pane shows, whole.

use axum::http::StatusCode;
use axum::response::Response;
use maud::{Markup, html};
use serde::Deserialize;

use super::api::query;
use super::frame::{Place, Reader, Trouble, html_response};
use super::schemas::Schemas;
use super::text::{person, short, text};
use super::when;
use crate::rest::body::Params;
use crate::wire;

/// How many cards come at once; the script asks for more as they are reached.
const CARDS: &str = "25";
/// How many executions in doubt stand on top; the rest is one click away.
const DOUBTS: &str = "10";
/// The most cards that are asked for by name.
const MOST_NAMED: usize = 50;

/// Which cards.
#[derive(Deserialize)]
pub(super) struct Wanted {
    /// After these.
    cursor: Option<String>,
    /// Or just these, with commas between.
    ids: Option<String>,
}

/// The page.
pub(super) async fn page(reader: Reader) -> Result<Response, Trouble> {
    let list: wire::List<wire::Elicitation> = reader.get(&waiting(None)).await?;
    let schemas = schemas_of(&reader, &list.items).await?;
    let in_doubt: wire::List<wire::ExecutionSummary> = reader
        .get(&query("/api/executions", &[("status", Some("in_doubt")), ("limit", Some(DOUBTS))]))
        .await?;
    let main = html! {
        div.inbox {
            section.waiting aria-labelledby="waiting" {
                div.heading {
                    h1 #waiting { "Pending requests" }
                    div.tools {
                        button.quiet type="button" data-notify aria-pressed="false" { "Notify me" }
                        button.quiet type="button" data-sound aria-pressed="false" { "Sound" }
                        button.quiet type="button" data-show-keys { "Keys " kbd { "?" } }
                    }
                }
                (doubts(&in_doubt))
                (damaged(&list.damaged))
                ol #cards data-next=[list.next_cursor.as_deref()] { (cards_of(&list.items, &schemas)) }
                div #more {}
                (nothing(!list.items.is_empty() || !in_doubt.items.is_empty()))
            }
            section #pane aria-label="Request" { p.faint.hint { "Choose a request to read it." } }
        }
        (keys())
    };
    Ok(reader.page(Place::Inbox, "Inbox", &main))
}

/// More cards, for the script.
pub(super) async fn cards(reader: Reader, Params(wanted): Params<Wanted>) -> Result<Response, Trouble> {
    let list = match &wanted.ids {
        None => reader.get(&waiting(wanted.cursor.as_deref())).await?,
        Some(ids) => {
            let mut items = Vec::new();
            for id in ids.split(',').take(MOST_NAMED) {
                let found: Option<wire::Elicitation> =
                    reader.find(&format!("/api/elicitation/{}", super::api::segment(id))).await?;
                items.extend(found.filter(|found| found.status == "pending"));
            }
            wire::List::whole(items)
        }
    };
    let schemas = schemas_of(&reader, &list.items).await?;
    let page = html! { ol data-next=[list.next_cursor.as_deref()] { (cards_of(&list.items, &schemas)) } };
    Ok(html_response(StatusCode::OK, &page))
}

/// What is there and cannot be shown. It is named, so that nobody takes the rest for all there is.
pub(super) fn damaged(rows: &[wire::Damaged]) -> Markup {
    html! {
        @for row in rows {
            p.warning data-damaged=(row.id) { code { (row.id) } ": " (row.message) }
        }
    }
}

fn waiting(cursor: Option<&str>) -> String {
    query("/api/elicitation", &[("status", Some("pending")), ("limit", Some(CARDS)), ("cursor", cursor)])
}

async fn schemas_of(reader: &Reader, items: &[wire::Elicitation]) -> Result<Schemas, Trouble> {
    Schemas::of(reader, items.iter().map(|item| item.question.tool_path.as_str())).await
}

fn cards_of(items: &[wire::Elicitation], schemas: &Schemas) -> Markup {
    html! { @for item in items { (card(item, schemas)) } }
}

/// What is in doubt, above everything that waits.
fn doubts(list: &wire::List<wire::ExecutionSummary>) -> Markup {
    html! {
        section #doubts.doubt hidden[list.items.is_empty()] aria-labelledby="in-doubt" {
            h2 #in-doubt { "In doubt" }
            p { "These calls were started and their outcome is unknown. Check the outside system, then settle them." }
            ul.plain {
                @for item in &list.items {
                    li { a href={ "/executions/" (item.execution_id) } { @match &item.tool { Some(tool) => (text(tool)), None => "Script" } } " started " (when::age(&item.created_at)) ", requested by " (short(&item.requester)) }
                }
            }
            @if list.next_cursor.is_some() { p { a href="/executions?status=in_doubt" { "All executions in doubt" } } }
        }
    }
}

fn card(item: &wire::Elicitation, schemas: &Schemas) -> Markup {
    let question = &item.question;
    let message = schemas.clean(&question.tool_path, &question.args, &question.message);
    html! {
        li.card data-id=(question.elicitation_id) {
            a href={ "/elicitations/" (question.elicitation_id) } {
                span.tool { (text(&question.tool_path)) }
                span.says { (text(&message)) }
                span.by { (person(item.requester_name.as_deref(), &item.requester)) " · " (short(&item.session_id)) }
                span.times { (when::age(&question.asked_at)) " · expires in " (when::left(&question.expires_at)) }
            }
            p.verdict hidden {}
        }
    }
}

fn nothing(hidden: bool) -> Markup {
    html! {
        div #empty hidden[hidden] {
            h2 { "No pending requests" }
            p { "When a call needs approval, it appears here at once. Keep this page open." }
            p { "To connect an agent: " code { "countersign mcp install claude-code" } ", or try a tool from " a href="/tools" { "the catalog" } "." }
        }
    }
}

fn keys() -> Markup {
    let all = [
        ("j", "next request"),
        ("k", "the one before"),
        ("Enter", "open it"),
        ("a", "approve, as far as the page says"),
        ("o", "approve this call only, where it says more"),
        ("s", "narrow an approval for the session"),
        ("d", "deny, with a reason if you like"),
        ("Esc", "back to the list"),
        ("?", "these keys"),
    ];
    html! {
        dialog #keys aria-labelledby="keys-title" {
            h2 #keys-title { "Keys" }
            dl.keys { @for (key, what) in all { dt { kbd { (key) } } dd { (what) } } }
            form method="dialog" { button { "Close" } }
        }
    }
}
