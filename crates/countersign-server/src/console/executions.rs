//! Executions: the list by where they stand, and one over time, with what a person can still do about it.

use axum::extract::State;
use axum::response::Response;
use countersign_core::event::{Event, EventBody};
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;
use std::sync::Arc;

use super::api::{query, segment};
use super::arguments::{self, Secrets};
use super::form;
use super::frame::{Place, Reader, Trouble};
use super::inbox::damaged;
use super::schemas::Schemas;
use super::text::{Oddities, json, short, text};
use super::{timeline, when};
use crate::rest::body::{Named, Params};
use crate::shared::Shared;
use crate::wire::{self, Status};

/// How many are listed at once.
const LISTED: &str = "50";
/// What can be listed by.
const FILTERS: [(&str, &str); 7] = [
    ("", "All"),
    ("paused", "Waiting"),
    ("running", "Running"),
    ("in_doubt", "In doubt"),
    ("succeeded", "Succeeded"),
    ("failed", "Failed"),
    ("cancelled", "Cancelled"),
];

/// Which executions.
#[derive(Deserialize)]
pub(super) struct Wanted {
    status: Option<String>,
    cursor: Option<String>,
}

/// The list.
pub(super) async fn list(reader: Reader, Params(wanted): Params<Wanted>) -> Result<Response, Trouble> {
    let status = wanted.status.as_deref();
    let parameters = [("status", status), ("cursor", wanted.cursor.as_deref()), ("limit", Some(LISTED))];
    let list: wire::List<wire::ExecutionSummary> = reader.get(&query("/api/executions", &parameters)).await?;
    let main = html! {
        div.heading { h1 { "Executions" } }
        nav.filters aria-label="By status" {
            @for (value, name) in FILTERS {
                a href=(query("/executions", &[("status", Some(value))])) aria-current=[(status.unwrap_or_default() == value).then_some("true")] { (name) }
            }
        }
        (damaged(&list.damaged))
        @if list.items.is_empty() { p.faint { "None here." } } @else {
            div.scroll tabindex="0" role="region" aria-label="Executions" { table data-live {
                thead { tr { th scope="col" { "Status" } th scope="col" { "Tool" } th scope="col" { "Requested by" } th scope="col" { "Session" } th scope="col" { "Started" } th scope="col" { "Execution" } } }
                tbody { @for item in &list.items { (row(item)) } }
            } }
            (more("/executions", &[("status", status)], list.next_cursor.as_deref()))
        }
    };
    Ok(reader.page(Place::Executions, "Executions", &main))
}

fn row(item: &wire::ExecutionSummary) -> Markup {
    html! {
        tr {
            td { (standing(item.status)) }
            td { @match &item.tool { Some(tool) => code { (text(tool)) }, None => span.faint { "script" } } }
            td { (short(&item.requester)) }
            td { a href={ "/sessions/" (segment(&item.session_id)) } { (short(&item.session_id)) } }
            td { (when::moment(&item.created_at)) }
            td { a href={ "/executions/" (item.execution_id) } { code { (short(&item.execution_id)) } } }
        }
    }
}

/// Where an execution stands, as a label.
pub(super) fn standing(status: Status) -> Markup {
    let (class, word) = match status {
        Status::Running => ("running", "running"),
        Status::Paused => ("paused", "waiting"),
        Status::InDoubt => ("in-doubt", "in doubt"),
        Status::Succeeded => ("succeeded", "succeeded"),
        Status::Failed => ("failed", "failed"),
        Status::Cancelled => ("cancelled", "cancelled"),
    };
    html! { span class={ "stands " (class) } { (word) } }
}

/// The way to the next part of a list.
pub(super) fn more(path: &str, kept: &[(&str, Option<&str>)], cursor: Option<&str>) -> Markup {
    let mut parameters = kept.to_vec();
    parameters.push(("cursor", cursor));
    html! { @if cursor.is_some() { p { a.button rel="next" href=(query(path, &parameters)) { "More" } } } }
}

/// How much of a journal the page shows, in parts of 4 MiB: a browser has to lay it out.
const JOURNAL_PARTS: usize = 4;

/// One execution.
pub(super) async fn one(
    State(shared): State<Arc<Shared>>,
    reader: Reader,
    Named(id): Named<String>,
) -> Result<Response, Trouble> {
    let at = format!("/api/executions/{}", segment(&id));
    let result: wire::ExecutionResult = reader.get(&at).await?;
    let journal = reader.journal(&id, JOURNAL_PARTS).await?;
    let called = journal.items.iter().filter_map(|event| match &event.body {
        EventBody::CallIssued(issued) => Some(issued.path.as_str()),
        EventBody::Asked(question) => Some(question.tool.as_str()),
        _ => None,
    });
    let schemas = Schemas::of(&reader, called).await?;
    let secrets = schemas.secrets_of(&journal.items);
    let is_open = matches!(result.status, Status::Running | Status::Paused | Status::InDoubt);
    let main = html! {
        article.execution data-execution=(result.execution_id) data-live {
            div.heading {
                h1 { "Execution " code { (result.execution_id) } }
                (standing(result.status))
            }
            @for pending in &result.pending {
                p.waits { "Waiting for a person: " a href={ "/elicitations/" (pending.elicitation_id) } { (text(&pending.tool_path)) } ", " (when::age(&pending.asked_at)) }
            }
            (doubts(&result, &schemas))
            (came_of(&result, &secrets))
            section aria-labelledby="time" { h2 #time { "Over time" } (timeline::lanes(&journal.items, shared.gateway.now())) div.scroll tabindex="0" role="region" aria-label="Events" { (timeline::events(&journal.items, &secrets)) } @if journal.next_cursor.is_some() { p.faint { "The journal is longer than this page shows. Read the rest with " code { "countersign executions " (result.execution_id) } "." } } }
            (script(&journal.items, &result, &secrets))
            (logs(&result.logs, &secrets))
            @if is_open {
                form.actions method="post" data-api={ "POST " (at) "/cancel" } data-sure="Stop this execution? What has not started will not run." { button { "Cancel execution" } }
            }
        }
    };
    Ok(reader.page(Place::Executions, "Execution", &main))
}

fn came_of(result: &wire::ExecutionResult, secrets: &Secrets) -> Markup {
    let clean = |said: &str| text(&secrets.cut_from(said));
    html! {
        @if let Some(error) = &result.error {
            section aria-labelledby="error" { h2 #error { "Error" } p { code { (error.code) } " " (clean(&error.message)) } }
        }
        @if result.success {
            section aria-labelledby="value" {
                h2 #value { "Value" }
                pre tabindex="0" { (json(&secrets.cut_from_value(result.value.as_ref().unwrap_or(&Value::Null)))) }
            }
        }
    }
}

fn doubts(result: &wire::ExecutionResult, schemas: &Schemas) -> Markup {
    html! {
        @for (n, call) in result.calls.iter().enumerate().filter(|(_, call)| call.status == "in_doubt") {
            section.doubt aria-labelledby={ "doubt-" (n) } {
                h2 id={ "doubt-" (n) } { "Call " (n) " is in doubt" }
                p { code { (text(&call.path)) } " was started, and the gateway stopped before it learned the outcome. It will not be run again unless you say so. Look in the system it acts on, then say what you found." }
                h3 { "Arguments it was started with" }
                (arguments::tree(&schemas.shown(&call.path, &call.args), &mut Oddities::default()))
                div.ways { (settle(&result.execution_id, n, &call.path, schemas.output_fields(&call.path))) }
            }
        }
    }
}

/// The three ways out of a doubt, each with what it means.
fn settle(execution: &str, call: usize, path: &str, output: Option<&Value>) -> Markup {
    let sure =
        format!("Run call {call}, {path}, again? If it took effect the first time, it then happens twice.");
    let ways = [
        ("done", "It happened", "It took effect. The caller goes on with the value you give.", "value"),
        ("failed", "It did not happen", "It took no effect. The caller is told that it failed.", "reason"),
        (
            "retry",
            "Run it again",
            "Runs the call once more. If it did take effect the first time, it then happened twice.",
            "",
        ),
    ];
    html! {
        @for (way, name, means, asks) in ways {
            form.way method="post" data-api={ "POST /api/executions/" (execution) "/settle" } data-sure=[(way == "retry").then_some(&sure)] {
                h3 { (name) }
                p { (means) }
                input type="hidden" name="call" data-type="number" value=(call);
                input type="hidden" name="as" data-type="string" value=(way);
                @match output.filter(|_| asks == "value") {
                    Some(schema) => fieldset.fields { legend { "What it gave" } (form::scoped_fields(schema, "value", &format!("call-{call}"))) },
                    None if asks == "value" => label { "Value, as JSON (optional)" input name="value" data-type="json" autocomplete="off"; },
                    None => {}
                }
                @if asks == "reason" { label { "Reason (optional)" input name="reason" data-type="string" autocomplete="off"; } }
                p.violation role="alert" {}
                button class=[(way == "retry").then_some("destructive")] { (name) }
            }
        }
    }
}

fn script(journal: &[Event], result: &wire::ExecutionResult, secrets: &Secrets) -> Markup {
    let line = result.paused.as_ref().and_then(|paused| paused.line);
    html! {
        @if let Some(source) = timeline::script(journal) {
            section aria-labelledby="script" {
                h2 #script { "The script" @if let Some(line) = line { ", waiting at line " (line) } }
                (timeline::listing(&secrets.cut_from(&source), line, None))
            }
        }
    }
}

fn logs(lines: &[wire::LogLine], secrets: &Secrets) -> Markup {
    html! {
        @if !lines.is_empty() {
            section aria-labelledby="logs" {
                h2 #logs { "Logs" }
                ul.logs { @for line in lines { li class=(line.level) { span.level { (line.level) } " " (text(&secrets.cut_from(&line.message))) } } }
            }
        }
    }
}
