//! What stands around every page: the head, the ways to the other pages, and the headers that keep others out.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{Html, IntoResponse, Response};
use countersign_core::event::Event;
use countersign_kernel::Caller;
use maud::{DOCTYPE, Markup, html};

use super::api::{Api, query, segment};
use super::assets::{self, AUDIT_SCRIPT, ICON, SCRIPT, SOURCES_SCRIPT, SOURCES_STYLE, STYLE};
use super::text::text;
use crate::refusal::Refusal;
use crate::wire;

/// Nothing is loaded from elsewhere, nothing inline runs or styles, nobody frames it, and the script may make markup only by its
/// one named policy.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
    form-action 'self'; frame-ancestors 'none'; base-uri 'none'; \
    require-trusted-types-for 'script'; trusted-types countersign";

/// The pages, as the bar names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Inbox,
    Executions,
    Tools,
    Sources,
    Sessions,
    Audit,
    Tokens,
    Users,
}

const PLACES: [(Place, &str, &str); 8] = [
    (Place::Inbox, "Inbox", "/"),
    (Place::Executions, "Executions", "/executions"),
    (Place::Tools, "Tools", "/tools"),
    (Place::Sources, "Sources", "/sources"),
    (Place::Sessions, "Sessions", "/sessions"),
    (Place::Audit, "Audit", "/audit"),
    (Place::Tokens, "Tokens", "/tokens"),
    (Place::Users, "Users", "/users"),
];

/// Who reads a page, and how to ask for what is on it.
pub(super) struct Reader {
    api: Api,
    caller: Caller,
    who: wire::Whoami,
    pub(super) standing: wire::Standing,
}

impl Reader {
    /// What a GET answers to this reader.
    pub(super) async fn get<T: serde::de::DeserializeOwned>(&self, path: &str) -> Result<T, Trouble> {
        self.api.get(&self.caller, path).await.map_err(Trouble)
    }

    /// The same, where nothing there is an answer too.
    pub(super) async fn find<T: serde::de::DeserializeOwned>(
        &self,
        path: &str,
    ) -> Result<Option<T>, Trouble> {
        match self.api.get(&self.caller, path).await {
            Ok(found) => Ok(Some(found)),
            Err(problem) if problem.status == 404 => Ok(None),
            Err(problem) => Err(Trouble(problem)),
        }
    }

    /// The journal of an execution, up to so many of its parts.
    pub(super) async fn journal(&self, execution: &str, parts: usize) -> Result<wire::List<Event>, Trouble> {
        let path = format!("/api/executions/{}/journal", segment(execution));
        let mut journal: wire::List<Event> = self.get(&path).await?;
        for _ in 1..parts {
            let Some(cursor) = journal.next_cursor.take() else { break };
            let part: wire::List<Event> = self.get(&query(&path, &[("cursor", Some(&cursor))])).await?;
            journal.items.extend(part.items);
            journal.next_cursor = part.next_cursor;
        }
        Ok(journal)
    }

    /// A source with all its tools.
    pub(super) async fn source(&self, name: &str) -> Result<wire::SourceDetail, Trouble> {
        let path = format!("/api/sources/{}", segment(name));
        let mut detail: wire::SourceDetail = self.get(&path).await?;
        while let Some(cursor) = detail.next_cursor.take() {
            let part = self.get(&query(&path, &[("cursor", Some(&cursor))])).await?;
            detail.extend(part).map_err(|changed: wire::ChangedMeanwhile| {
                Trouble(Refusal::new(409, "not_what_was_shown", changed.to_string()).into())
            })?;
        }
        Ok(detail)
    }

    /// What a POST answers that changes nothing.
    pub(super) async fn ask_about<T: serde::de::DeserializeOwned>(
        &self,
        path: &str,
        body: &impl serde::Serialize,
    ) -> Result<T, Trouble> {
        self.api.ask_about(&self.caller, path, body).await.map_err(Trouble)
    }

    /// Whether an admin reads: they may call tools and make tokens.
    pub(super) fn is_admin(&self) -> bool {
        self.who.roles.iter().any(|role| role == "admin")
    }

    /// A whole page.
    pub(super) fn page(&self, place: Place, title: &str, main: &Markup) -> Response {
        let (doubts, unaccepted) = (self.standing.in_doubt, self.standing.unaccepted_tools);
        let waiting = self.standing.pending + doubts;
        let count = if waiting == 0 { String::new() } else { format!("({waiting}) ") };
        let body = html! {
            @if place == Place::Sources { link rel="stylesheet" href=(assets::address(SOURCES_STYLE)); }
            a.skip href="#main" { "Skip to content" }
            header.bar {
                a.brand href="/" { (mark()) "Countersign" }
                nav aria-label="Pages" {
                    @for (one, name, address) in PLACES {
                        @if !matches!(one, Place::Tokens | Place::Users) || self.is_admin() {
                            a href=(address) aria-current=[(one == place).then_some("page")] {
                                (name)
                                @if one == Place::Inbox { " " span.count data-count data-doubts=(doubts) hidden[waiting == 0] { (waiting) } }
                                @if one == Place::Sources && self.is_admin() { " " span.count data-unaccepted title="Tools that wait to be accepted" hidden[unaccepted == 0] { (unaccepted) } }
                            }
                        }
                    }
                }
                div.who {
                    span { (text(self.who.user_name.as_deref().unwrap_or(&self.who.principal))) " (" (self.who.roles.join(", ")) ")" }
                    button.quiet type="button" data-log-out { "Log out" }
                }
            }
            main #main tabindex="-1" { (main) }
            p #said role="status" aria-live="polite" {}
            p #offline role="status" hidden { "Not connected. Trying again; nothing is lost." }
        };
        let name = format!("{place:?}").to_lowercase();
        html_response(
            StatusCode::OK,
            &document(&format!("{count}{title}"), &name, Some(self.standing.recorded), &body),
        )
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Reader {
    type Rejection = Trouble;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Trouble> {
        let (api, caller) =
            (parts.extensions.get::<Api>().cloned(), parts.extensions.get::<Caller>().cloned());
        let (Some(api), Some(caller)) = (api, caller) else {
            return Err(Trouble(Refusal::new(401, "unauthenticated", "log in first").into()));
        };
        let who = api.get(&caller, "/api/whoami").await.map_err(Trouble)?;
        // Before anything is listed: what happens from here on, the event stream tells.
        let standing = api.get(&caller, "/api/standing").await.map_err(Trouble)?;
        Ok(Self { api, caller, who, standing })
    }
}

/// What kept a page from being made; it is a page itself.
#[derive(Debug)]
pub(super) struct Trouble(pub(super) wire::Problem);

impl IntoResponse for Trouble {
    fn into_response(self) -> Response {
        turned_away(&self.0)
    }
}

/// The page for whom a page is refused.
pub(crate) fn turned_away(problem: &wire::Problem) -> Response {
    let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let inside = html! {
        @match status {
            StatusCode::UNAUTHORIZED => {
                h1 { "Log in to decide" }
                (super::login::ways_in())
            }
            // Nobody is logged in yet: what is left is to try another way.
            _ if matches!(problem.code.as_str(), "token_refused" | "link_used") => {
                h1 { "Log in" }
                p.warning role="alert" { (text(&problem.detail)) }
                (super::login::ways_in())
            }
            _ => {
                h1 { (problem.title) }
                p { (text(&problem.detail)) }
                p { a href="/" { "To the inbox" } }
            }
        }
        p.faint data-code=(problem.code) { "Code " code { (problem.code) } }
    };
    let name = if status == StatusCode::UNAUTHORIZED { "turned-away" } else { "trouble" };
    html_response(status, &document(problem.title.as_str(), name, None, &alone(&inside)))
}

/// What a browser gets that opens a page with its cookie alone: nothing but the script, which fetches the page with its key.
pub(crate) fn empty_page() -> Response {
    let inside = html! { p.faint { "Loading…" } };
    html_response(StatusCode::OK, &document("Countersign", "empty", None, &alone(&inside)))
}

/// A page outside the bar.
pub(super) fn alone(inside: &Markup) -> Markup {
    html! { main.alone #main { p.brand { (mark()) "Countersign" } (inside) } p #said role="status" aria-live="polite" {} }
}

pub(super) fn document(title: &str, name: &str, after: Option<u64>, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · Countersign" }
                link rel="icon" href=(assets::address(ICON)) type="image/svg+xml";
                link rel="stylesheet" href=(assets::address(STYLE));
                script type="module" src=(assets::address(SCRIPT)) {}
            }
            body data-page=(name) data-after=[after] data-module=[module(name)] {
                (body)
                noscript { p.warning { "Deciding needs JavaScript in this browser. " code { "countersign inbox --watch" } " does not." } }
            }
        }
    }
}

/// The script that a page has beside the common one.
fn module(name: &str) -> Option<String> {
    match name {
        "audit" => Some(assets::address(AUDIT_SCRIPT)),
        "sources" => Some(assets::address(SOURCES_SCRIPT)),
        _ => None,
    }
}

/// A page's answer, with every header that a page has.
pub(super) fn html_response(status: StatusCode, page: &Markup) -> Response {
    let mut response = (status, Html(page.0.clone())).into_response();
    for (name, value) in [
        ("content-security-policy", POLICY),
        ("x-frame-options", "DENY"),
        // With no referrer at all, a browser would call the origin of this page's own form `null`, and be refused.
        ("referrer-policy", "same-origin"),
        ("x-content-type-options", "nosniff"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
        ("cache-control", "no-store"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

fn mark() -> Markup {
    html! {
        svg.mark viewBox="0 0 16 16" aria-hidden="true" {
            path d="M2 8.5 6 12.5 14 3.5" fill="none" stroke="currentColor" stroke-width="2.5" stroke-linecap="round" stroke-linejoin="round" {}
        }
    }
}
