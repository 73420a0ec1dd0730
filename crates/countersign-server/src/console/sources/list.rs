//! The list: every source with its health, what waits in it, and how its calls went.

use axum::response::Response;
use maud::{Markup, html};

use super::super::api::segment;
use super::super::frame::{Place, Reader, Trouble};
use super::super::text::text;
use super::{health, kind, waiting};
use crate::wire;

/// The page.
pub(crate) async fn page(reader: Reader) -> Result<Response, Trouble> {
    let list: wire::List<wire::Source> = reader.get("/api/sources").await?;
    let main = html! {
        div.heading {
            h1 { "Sources" }
            @if reader.is_admin() { div.tools { a.button href="/add-source" { "Add source" } } }
        }
        p.faint { "MCP servers, OpenAPI and GraphQL services whose tools agents can call. New and changed tools cannot be called until an admin accepts them." }
        @if list.items.is_empty() {
            div.empty data-catalog {
                h2 { "No sources" }
                @if reader.is_admin() { p { a href="/add-source" { "Add one" } ", or on the command line: " code { "countersign source add --help" } } }
                @else { p { "An admin can add one." } }
            }
        } @else {
            div.scroll tabindex="0" role="region" aria-label="Sources" data-catalog { table.sources {
                thead { tr {
                    th scope="col" { "Name" } th scope="col" { "Status" } th scope="col" { "Waiting" } th.number scope="col" { "Callable" }
                    th.number scope="col" { "Calls" } th.number scope="col" { "Errors" } th.number scope="col" { "Mean" }
                    th.number scope="col" { "Unmapped" } th scope="col" { "Kind" } th scope="col" { "Target" }
                } }
                tbody { @for source in &list.items { (row(source)) } }
            } }
            p.faint.small.legend { "Waiting: tools that are not callable until they are accepted. Unmapped: operations that cannot be tools. Calls, errors and mean time are since the server started." }
        }
    };
    Ok(reader.page(Place::Sources, "Sources", &main))
}

fn row(source: &wire::Source) -> Markup {
    let calls = source.calls;
    html! {
        tr {
            td { a href={ "/sources/" (segment(&source.name)) } { code { (text(&source.name)) } } }
            td { (health(source.health)) }
            td { @match waiting(source) { Some(words) => span.waits-for { (words) }, None => span.faint { "none" } } }
            td.number { (source.callable) }
            td.number { (calls.calls) }
            td.number { (calls.errors) }
            td.number { @if calls.calls == 0 { span.faint { "–" } } @else { (calls.mean_ms) " ms" } }
            td.number { (source.unmapped) }
            td { (kind(&source.kind)) }
            td.detail { (text(&source.target)) @if source.origin == wire::SourceOrigin::File { span.faint { " (in the configuration file)" } } }
        }
        @if let Some(problem) = &source.problem {
            tr.problem { td colspan="10" { strong { "Problem: " } (text(problem)) } }
        }
    }
}
