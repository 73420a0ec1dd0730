//! Adding a source by form: what it would bring is shown before anything is kept.
//!
//! Promises: the form takes the name of a credential's place and never the secret; a preview keeps nothing; what is added is the
//! configuration that was previewed, and what is accepted is the offer that was shown.

use axum::http::StatusCode;
use axum::response::Response;
use maud::{Markup, html};

use super::super::api::segment;
use super::super::frame::{Place, Reader, Trouble, html_response};
use super::super::text::text;
use super::{
    EFFECTS, all_advice, badge, by_effect, counted, definition, described, kind, left_out, refusal, servers,
    waits,
};
use crate::refusal::Refusal;
use crate::rest::body::Body;
use crate::wire::{self, SourceConfig, SourceDetail, SourceTool, ToolEffect, ToolStanding};

/// How many tools of each effect a preview lists.
const LISTED: usize = 100;

/// What can be added: the form's name for it, the label, what it is.
const KINDS: [(&str, &str, &str); 4] = [
    ("command", "MCP server, started here", "A program that the server starts and speaks MCP with."),
    ("mcp", "MCP server behind a URL", "A server that speaks MCP over streamable HTTP."),
    ("openapi", "OpenAPI", "A REST service with an OpenAPI 3 or Swagger 2 document."),
    ("graphql", "GraphQL", "A GraphQL endpoint."),
];

/// The page with the form.
pub(crate) async fn page(reader: Reader) -> Result<Response, Trouble> {
    let main = html! {
        a.back href="/sources" { "← Sources" }
        h1 { "Add source" }
        form #add-source method="post" data-source="preview" {
            fieldset.kinds {
                legend { "Kind" }
                @for (n, (value, label, meaning)) in KINDS.iter().enumerate() {
                    label.check { input type="radio" name="kind" value=(value) checked[n == 0] required; " " (label) span.hint { (meaning) } }
                }
            }
            (field("Name", "name", "The first part of its tools’ paths: github gives github.issues.create. Lower case letters, digits and _.", &html! {
                input #add-name name="name" data-type="string" required pattern="[a-z][a-z0-9_]*" maxlength="60" autocomplete="off" spellcheck="false" aria-describedby="add-name-hint";
            }))
            (targets())
            (credentials())
            (trust())
            (more())
            p.violation role="alert" {}
            div.actions { button.primary { "Preview" } span.faint { "Reads what the source offers. Nothing is kept." } }
        }
        div #preview aria-live="polite" {}
        (all_advice())
    };
    Ok(reader.page(Place::Sources, "Add source", &main))
}

fn field(label: &str, id: &str, hint: &str, input: &Markup) -> Markup {
    html! { div.field { label for={ "add-" (id) } { (label) } (input) p.hint id={ "add-" (id) "-hint" } { (hint) } } }
}

fn line(name: &str, placeholder: &str) -> Markup {
    html! { input id={ "add-" (name) } name=(name) data-type="string" placeholder=(placeholder) maxlength="2000" autocomplete="off" spellcheck="false" aria-describedby={ "add-" (name) "-hint" }; }
}

/// Where it is, by kind. The script shows those of the chosen kind and leaves the others out.
fn targets() -> Markup {
    html! {
        div data-kinds="command" {
            (field("Command", "command", "The program and its arguments, as in a shell. Quotation marks keep blanks; nothing else is expanded. It runs as the server’s user, without the server’s environment.", &html! {
                input #add-command name="command" data-type="words" required placeholder="npx -y @modelcontextprotocol/server-filesystem /srv/docs" maxlength="4000" autocomplete="off" spellcheck="false" aria-describedby="add-command-hint";
            }))
            (field("Folder (optional)", "folder", "The folder of the server’s machine in which it is started.", &line("folder", "/srv/docs")))
        }
        div data-kinds="mcp graphql" {
            (field("URL", "url", "Where it listens.", &html! {
                input #add-url type="url" name="url" data-type="string" required placeholder="https://mcp.example.com/mcp" maxlength="2000" autocomplete="off" aria-describedby="add-url-hint";
            }))
        }
        div data-kinds="openapi" {
            (field("Document", "document", "The URL of its OpenAPI document, or a file of the server’s machine with its whole path.", &html! {
                input #add-document name="document" data-type="string" required placeholder="https://api.example.com/openapi.json" maxlength="2000" autocomplete="off" spellcheck="false" aria-describedby="add-document-hint";
            }))
            (field("Base URL (optional)", "server", "Where requests go, if it is not the document’s own server.", &line("server", "https://api.example.com")))
        }
        div data-kinds="graphql" {
            (field("Schema file (optional)", "schema", "A file of the server’s machine with its schema, for endpoints that answer no introspection.", &line("schema", "/etc/countersign/shop.graphql")))
        }
    }
}

fn credentials() -> Markup {
    html! {
        fieldset.credentials {
            legend { "Credentials (optional)" }
            p.hint { "Name the place of a secret on the server: a variable of the server’s environment, or a file that only its owner can read. Never write the secret itself here." }
            div #credentials {}
            button type="button" data-add-credential { "Add credential" }
            template #credential {
                div.credential {
                    label { "Sent as" select name="as" {
                        option value="bearer" data-kinds="mcp openapi graphql" { "Bearer token" }
                        option value="header" data-kinds="mcp openapi graphql" { "Header" }
                        option value="query" data-kinds="mcp openapi graphql" { "Query parameter" }
                        option value="basic" data-kinds="mcp openapi graphql" { "Basic login" }
                        option value="variable" data-kinds="command" { "Variable of the program" }
                    } }
                    label data-places="header query variable" { "Its name" input name="name" maxlength="200" autocomplete="off" spellcheck="false" required; }
                    label data-places="basic" { "User" input name="user" maxlength="200" autocomplete="off" required; }
                    label { "Read from" select name="from" { option value="env" { "Environment variable" } option value="file" { "File" } } }
                    label { "Name of the variable, or the file’s path" input name="place" maxlength="1000" autocomplete="off" spellcheck="false" required; }
                    button type="button" data-drop-credential { "Leave out" }
                }
            }
        }
    }
}

fn trust() -> Markup {
    html! {
        fieldset.trust {
            legend { "Trust" }
            label.check data-kinds="mcp openapi graphql" { input type="checkbox" name="allowPrivate" data-type="boolean"; " Allow private addresses" span.hint { "Its address may be the server’s own machine or a private network. Metadata services stay out of reach." } }
            label.check data-kinds="command mcp" { input type="checkbox" name="trustAnnotations" data-type="boolean"; " Trust its annotations" span.hint { "Believe the server where it says that a tool only reads. Otherwise every tool of it counts as destructive." } }
            label.check data-kinds="command mcp" { input type="checkbox" name="clientRoots" data-type="boolean"; " Tell it of the calling client’s roots" span.hint { "In place of folders that you name. An agent’s client then says what a server may touch that goes by its roots." } }
            label.check { input type="checkbox" name="trustChanges" data-type="boolean"; " Accept new and changed tools without review" span.hint { "Nobody reads its definitions before agents do. For sources that you control." } }
        }
    }
}

fn more() -> Markup {
    let patterns = |name: &str, label: &str, hint: &str| {
        field(
            label,
            name,
            hint,
            &html! { input id={ "add-" (name) } name={ "tools." (name) } data-type="words" placeholder="issues.* pulls.**" maxlength="4000" autocomplete="off" spellcheck="false" aria-describedby={ "add-" (name) "-hint" }; },
        )
    };
    html! {
        details.more-settings {
            summary { "More settings" }
            (patterns("include", "Only these tools", "Patterns below the source’s name, with blanks between: * is one part, ** any depth."))
            (patterns("exclude", "Not these tools", "Patterns, as above."))
            (patterns("readOnly", "These only read", "Patterns of tools that change nothing, whatever the source says. Where several patterns cover a tool, the worst counts."))
            (patterns("writes", "These write", "Patterns of tools that change something and destroy nothing."))
            (patterns("destructive", "These destroy", "Patterns of tools that a person decides about before they run."))
            (patterns("idempotent", "These may run twice", "Patterns of tools for which running twice is the same as running once. A call of them whose answer was lost fails; any other that may write is in doubt until a person settles it."))
            (field("Look for changes every", "refresh", "90s, 15m (where this is empty), 24h or never. Changes of sources that tell of them are seen at once.", &line("refresh", "15m")))
            (addresses())
            (mcp_settings())
            div data-kinds="openapi" {
                (field("Variables of its URL", "variables", "name=value, with blanks between.", &html! {
                    input #add-variables name="variables" data-type="pairs" placeholder="region=eu" maxlength="4000" autocomplete="off" spellcheck="false" aria-describedby="add-variables-hint";
                }))
                (field("Further hosts", "hosts", "Hosts beside the base URL’s that some of its operations may go to, with blanks between.", &words_line("hosts", "uploads.example.com")))
            }
        }
    }
}

fn words_line(name: &str, placeholder: &str) -> Markup {
    html! { input id={ "add-" (name) } name=(name) data-type="words" placeholder=(placeholder) maxlength="4000" autocomplete="off" spellcheck="false" aria-describedby={ "add-" (name) "-hint" }; }
}

/// How its address is reached.
fn addresses() -> Markup {
    html! {
        div data-kinds="mcp openapi graphql" {
            (field("Private hosts", "allowHosts", "Host names that may lead to private addresses, with blanks between.", &words_line("allowHosts", "intranet.example")))
            (field("Private networks", "allowNetworks", "Networks that its address may be in, with blanks between.", &words_line("allowNetworks", "10.1.0.0/16")))
            (field("Proxy", "proxy", "The proxy through which it is reached. None is taken from the server’s environment.", &line("proxy", "http://proxy.example:3128")))
        }
    }
}

fn mcp_settings() -> Markup {
    html! {
        div data-kinds="command" {
            (field("Roots", "roots", "Folders of the server’s machine that the program is told of, with blanks between.", &words_line("roots", "/srv/docs")))
        }
        div data-kinds="command mcp" {
            (field("Its questions", "questions", "Whether it may ask people during a call. A program of an older revision takes one call at a time while it may.", &html! {
                select #add-questions name="questions" data-type="string" aria-describedby="add-questions-hint" {
                    option value="" { "It may ask" }
                    option value="refuse" { "It may not ask" }
                }
            }))
            (field("Its use of a model", "sampling", "Whether it may use the model of the MCP client that calls it (sampling). A client without one, a script or a call over REST refuses it.", &html! {
                select #add-sampling name="sampling" data-type="string" aria-describedby="add-sampling-hint" {
                    option value="" { "It may not" }
                    option value="client" { "It may use the calling client’s" }
                }
            }))
            (field("MCP revision", "protocol", "Which revision of MCP is spoken.", &html! {
                select #add-protocol name="protocol" data-type="string" aria-describedby="add-protocol-hint" {
                    option value="" { "Whatever the server speaks" }
                    option value="legacy" { "Up to 2025-11-25" }
                    option value="modern" { "2026-07-28" }
                }
            }))
        }
    }
}

/// What a source would bring, for the script.
pub(crate) async fn preview(reader: Reader, Body(config): Body<SourceConfig>) -> Result<Response, Trouble> {
    let there: Option<SourceDetail> = reader.find(&format!("/api/sources/{}", segment(&config.name))).await?;
    if there.is_some() {
        let detail = format!("There is a source {:?} already.", config.name);
        return Ok(refused(&Refusal::new(409, "source_exists", detail).into()));
    }
    match reader.ask_about::<SourceDetail>("/api/sources?preview=true", &config).await {
        Ok(detail) => Ok(html_response(StatusCode::OK, &shown(&config, &detail))),
        Err(Trouble(problem)) => Ok(refused(&problem)),
    }
}

fn refused(problem: &wire::Problem) -> Response {
    let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    html_response(status, &html! { div #preview aria-live="polite" { (refusal(problem)) } })
}

fn shown(config: &SourceConfig, detail: &SourceDetail) -> Markup {
    let taken = || detail.tools.iter().filter(|tool| tool.standing != ToolStanding::Excluded);
    let excluded = detail.tools.len() - taken().count();
    let waiting = taken().filter(|tool| waits(tool)).count();
    let unlisted: usize =
        EFFECTS.iter().map(|effect| of(detail, *effect).count().saturating_sub(LISTED)).sum();
    html! {
        div #preview aria-live="polite" data-digest=(detail.digest) data-name=(config.name) {
            section.preview aria-labelledby="brings" {
                h2 #brings { "What " code { (text(&config.name)) } " would bring" }
                p { "Nothing is kept yet. " (kind(&detail.source.kind)) ": " (target(config, detail)) }
                @for server in servers(detail) { p { "Calls go to " code { (text(server)) } } }
                p { strong { (counted(taken().count(), "tool")) } ": " (by_effect(&taken())) @if excluded > 0 { ". " (excluded) " more are left out by its settings" } "." }
                @for effect in EFFECTS { (effect_group(detail, effect)) }
                (left_out(detail))
                @if unlisted > 0 { p.faint { (unlisted) " tools are not listed here. “Add, accept later” leads to a page that lists every one." } }
                p.violation role="alert" {}
                div.actions {
                    @if waiting > 0 { button.primary type="button" data-add="accept" { "Add and accept " (counted(waiting, "tool")) } }
                    button type="button" data-add="later" { @if waiting > 0 { "Add, accept later" } @else { "Add" } }
                }
            }
        }
    }
}

/// What is reached. A program's arguments are apart: where one ends and the next begins is what will run.
fn target(config: &SourceConfig, detail: &SourceDetail) -> Markup {
    html! {
        @if config.command.is_empty() { code { (text(&detail.source.target)) } }
        @else { @for word in &config.command { code.word { (text(word)) } " " } }
    }
}

fn of(detail: &SourceDetail, effect: ToolEffect) -> impl Iterator<Item = &SourceTool> {
    detail.tools.iter().filter(move |tool| tool.effect == effect && tool.standing != ToolStanding::Excluded)
}

fn effect_group(detail: &SourceDetail, effect: ToolEffect) -> Markup {
    let count = of(detail, effect).count();
    html! {
        @if count > 0 {
            details.effects open data-effect=(effect.label()) {
                summary { (badge(effect)) (counted(count, "tool")) }
                ul.offers {
                    @for tool in of(detail, effect).take(LISTED) {
                        li data-path=(tool.path) { div.line { code.path { (text(&tool.path)) } span.origin { (text(&tool.origin)) } } (described(&tool.description)) (definition(tool)) }
                    }
                }
                @if count > LISTED { p.faint { "And " (count - LISTED) " more." } }
            }
        }
    }
}
