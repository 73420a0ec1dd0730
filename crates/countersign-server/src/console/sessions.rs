//! Sessions, and what was approved for good in each: to see and to take back.

use axum::response::Response;
use maud::{Markup, html};
use serde::Deserialize;

use super::api::{query, segment};
use super::frame::{Place, Reader, Trouble};
use super::inbox::damaged;
use super::schemas::Schemas;
use super::text::{Oddities, short, text};
use super::{arguments, executions, when};
use crate::rest::body::{Named, Params};
use crate::wire;

/// How many are listed at once.
const LISTED: &str = "50";

/// Which part.
#[derive(Deserialize)]
pub(super) struct Wanted {
    cursor: Option<String>,
}

/// The list.
pub(super) async fn list(reader: Reader, Params(wanted): Params<Wanted>) -> Result<Response, Trouble> {
    let parameters = [("cursor", wanted.cursor.as_deref()), ("limit", Some(LISTED))];
    let list: wire::List<wire::Session> = reader.get(&query("/api/sessions", &parameters)).await?;
    let main = html! {
        div.heading { h1 { "Sessions" } }
        (damaged(&list.damaged))
        @if list.items.is_empty() { p.faint { "No agent has opened a session yet." } } @else {
            div.scroll tabindex="0" role="region" aria-label="Sessions" { table {
                thead { tr { th scope="col" { "Session" } th scope="col" { "Owner" } th scope="col" { "Opened" } th scope="col" { "Remembered approvals" } } }
                tbody {
                    @for session in &list.items {
                        tr {
                            td { a href={ "/sessions/" (segment(&session.session_id)) } { (text(&session.session_id)) } }
                            td { (short(&session.owner)) }
                            td { (when::moment(&session.opened_at)) }
                            td.number { (session.approvals) }
                        }
                    }
                }
            } }
            (executions::more("/sessions", &[], list.next_cursor.as_deref()))
        }
    };
    Ok(reader.page(Place::Sessions, "Sessions", &main))
}

/// One session's approvals.
pub(super) async fn one(reader: Reader, Named(id): Named<String>) -> Result<Response, Trouble> {
    let at = format!("/api/sessions/{}/approvals", segment(&id));
    let grants: wire::List<wire::Grant> = reader.get(&at).await?;
    let covered = grants.items.iter().flat_map(|grant| grant.tool_paths.iter().map(String::as_str));
    let schemas = Schemas::of(&reader, covered).await?;
    let main = html! {
        a.back href="/sessions" { "← Sessions" }
        div.heading { h1 { "Session " code { (text(&id)) } } }
        section aria-labelledby="remembered" {
            h2 #remembered { "Remembered approvals" }
            @if grants.items.is_empty() { p.faint { "None. Every destructive call of this session asks." } } @else {
                ul.grants { @for grant in &grants.items { (one_grant(&at, grant, &schemas)) } }
                form.actions method="post" data-api={ "DELETE " (at) } data-sure="Forget every approval of this session?" { button { "Forget all" } }
            }
        }
    };
    Ok(reader.page(Place::Sessions, "Session", &main))
}

fn one_grant(at: &str, grant: &wire::Grant, schemas: &Schemas) -> Markup {
    let path = grant.tool_paths.first().map_or("", String::as_str);
    html! {
        li {
            div {
                p { @for path in &grant.tool_paths { code { (text(path)) } " " } @if let Some(pattern) = &grant.pattern { span.faint { "by " (text(pattern)) } } }
                @match &grant.args {
                    None => p { "Covers any arguments." },
                    Some(args) => {
                        p { "Covers these arguments only:" }
                        (arguments::tree(&schemas.shown(path, args), &mut Oddities::default()))
                    }
                }
                p.faint {
                    "given by " (text(&grant.by)) ", " (when::moment(&grant.given_at))
                    @if let Some(until) = &grant.expires_at { "; ends in " (when::left(until)) }
                    @if let Some(uses) = grant.uses_left { "; " (uses) " uses left" }
                }
            }
            form method="post" data-api={ "DELETE " (at) "/" (grant.grant_id) } { button { "Revoke" } }
        }
    }
}
