//! The catalog: every tool with its schemas, what policy would say of a call, and a form that calls it through the gate.

use axum::response::Response;
use maud::{Markup, html};
use serde::Deserialize;

use super::api::{query, segment};
use super::form;
use super::frame::{Place, Reader, Trouble};
use super::request::badges;
use super::text::{json, text};
use crate::rest::body::{Named, Params};
use crate::wire;

/// How many are listed at once.
const LISTED: &str = "200";

/// Which tools.
#[derive(Deserialize)]
pub(super) struct Wanted {
    query: Option<String>,
    cursor: Option<String>,
}

/// The list.
pub(super) async fn list(reader: Reader, Params(wanted): Params<Wanted>) -> Result<Response, Trouble> {
    let parameters =
        [("query", wanted.query.as_deref()), ("cursor", wanted.cursor.as_deref()), ("limit", Some(LISTED))];
    let list: wire::List<wire::ToolDetail> = reader.get(&query("/api/tools", &parameters)).await?;
    let main = html! {
        div.heading { h1 { "Tools" } }
        form.search role="search" action="/tools" {
            label.hidden for="query" { "Search the catalog" }
            input #query type="search" name="query" placeholder="Search the catalog" value=[wanted.query.as_deref()];
            button { "Search" }
        }
        @if list.items.is_empty() { p.faint { "No tool fits." } }
        ul.catalog data-catalog {
            @for tool in &list.items {
                li {
                    a href={ "/tools/" (tool.path) } { code { (tool.path) } }
                    span.badges { (badges(tool)) }
                    p { (text(&tool.description)) }
                }
            }
        }
        (super::executions::more("/tools", &[("query", wanted.query.as_deref())], list.next_cursor.as_deref()))
    };
    Ok(reader.page(Place::Tools, "Tools", &main))
}

/// One tool.
pub(super) async fn one(reader: Reader, Named(path): Named<String>) -> Result<Response, Trouble> {
    let tool: wire::ToolDetail = reader.get(&format!("/api/tools/{}", segment(&path))).await?;
    let asked = wire::ExplainRequest { tool: tool.path.clone(), args: None, session_id: None };
    let policy: wire::Explanation = reader.ask_about("/api/policy/explain", &asked).await?;
    let main = html! {
        a.back href="/tools" { "← Tools" }
        article.tool {
            header { h1.path { (tool.path) } p.badges { (badges(&tool)) } p.describes { (text(&tool.description)) } }
            (facts(&tool))
            (outcome(&policy))
            @if reader.is_admin() { (attempt(&tool)) }
            section aria-labelledby="takes" { h2 #takes { "What it takes" } (schema(&tool.input_schema)) }
            section aria-labelledby="gives" { h2 #gives { "What it gives" } (schema(&tool.output_schema)) }
        }
    };
    Ok(reader.page(Place::Tools, &tool.path, &main))
}

fn facts(tool: &wire::ToolDetail) -> Markup {
    html! {
        dl.facts {
            dt { "Name" } dd { (text(&tool.name)) }
            dt { "Source" } dd { (text(&tool.source)) }
            @if let Some(remember) = &tool.remember { dt { "Approval covers" } dd { (covers(remember)) } }
            @if let Some(provider) = &tool.auth_provider { dt { "Needs a token of" } dd { (text(provider)) } }
            dt { "Fingerprint" } dd { code.wrap { (tool.fingerprint) } }
        }
    }
}

/// What policy says of a call without arguments: "this would ask, because rule 3".
fn outcome(policy: &wire::Explanation) -> Markup {
    let would = match policy.effect.as_str() {
        "allow" => "would run at once",
        "ask" => "would need approval",
        _ => "would be refused",
    };
    html! {
        section aria-labelledby="policy" {
            h2 #policy { "What policy says" }
            p { "A call " strong { (would) } ": " (text(&policy.source)) "." @if let Some(reason) = &policy.reason { " “" (text(reason)) "”" } }
            @if !policy.rules.is_empty() {
                details { summary { "Every rule, in order" }
                    ol.plain { @for rule in &policy.rules { li { code { (text(&rule.pattern)) } @if let Some(when) = &rule.when { " when " code { (text(when)) } } ": " (rule.effect) " (" (rule.outcome.replace('_', " ")) ")" } } }
                }
            }
            p.faint { "Rules that check arguments may decide differently for your call." }
        }
    }
}

fn attempt(tool: &wire::ToolDetail) -> Markup {
    html! {
        section aria-labelledby="try" {
            h2 #try { "Try it" }
            p.faint { "Runs under normal policy; may need approval." }
            form.fields method="post" data-api="POST /api/executions" data-then="execution" {
                input type="hidden" name="tool" data-type="string" value=(tool.path);
                (form::fields(&tool.input_schema, "args"))
                p.violation role="alert" {}
                button.primary { "Call " (tool.path) }
            }
        }
    }
}

/// What an approval of this tool can cover.
fn covers(remember: &str) -> &'static str {
    match remember {
        "session" => "one call, or later calls of the session too",
        _ => "this call only",
    }
}

fn schema(schema: &serde_json::Value) -> Markup {
    html! { pre tabindex="0" { (json(schema)) } }
}
