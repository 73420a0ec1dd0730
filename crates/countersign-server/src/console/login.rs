//! Logging in by a link that is good once, and out again.
//!
//! Promise: opening a link changes nothing, so that whoever looks at links on the way does not use it up. Its button does. The page
//! that follows hands the script what must come with every change; nobody can ask for that again.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use maud::html;
use serde::Deserialize;

use super::frame::{Trouble, alone, document, html_response};
use crate::access::COOKIE_LIFE;
use crate::refusal::Refusal;
use crate::rest::body::{Form, Params};
use crate::shared::Shared;

/// The code of a link.
#[derive(Deserialize)]
pub(super) struct Code {
    #[serde(default)]
    code: String,
}

/// A button.
pub(super) async fn page(State(shared): State<Arc<Shared>>, Params(Code { code }): Params<Code>) -> Response {
    let is_good = shared.logins.is_good(&code, shared.gateway.now());
    let inside = html! {
        h1 { "Log in" }
        @if is_good {
            p { "This link logs this browser in. It is good once." }
            form method="post" action="/login" {
                input type="hidden" name="code" value=(code);
                button.primary autofocus { "Log in" }
            }
        } @else {
            p { "This link was used or is too old. This prints a new one:" }
            pre { "countersign login" }
        }
    };
    let status = if is_good { StatusCode::OK } else { StatusCode::GONE };
    html_response(status, &document("Log in", "login", None, &alone(&inside)))
}

/// Uses a link up, and gives the cookie.
pub(super) async fn log_in(State(shared): State<Arc<Shared>>, Form(form): Form) -> Result<Response, Trouble> {
    let code = form.split('&').find_map(|pair| pair.strip_prefix("code=")).unwrap_or_default();
    let Some(pass) = shared.logins.redeem(code, shared.gateway.now()) else {
        let gone = Refusal::new(
            410,
            "link_used",
            "this link was used or is too old; `countersign login` makes a new one",
        );
        return Err(Trouble(gone.into()));
    };
    let inside = html! { h1 { "Logged in" } p #pass data-csrf=(pass.csrf) { a href="/" { "To the inbox" } } };
    let mut response =
        html_response(StatusCode::OK, &document("Logged in", "welcome", None, &alone(&inside)));
    // A server behind TLS says so by its public address.
    let secure = if shared.links.base().starts_with("https://") { "; Secure" } else { "" };
    let (name, life) = (shared.logins.cookie_name(), COOKIE_LIFE.as_secs());
    let text = format!("{name}={}; Path=/; Max-Age={life}; HttpOnly; SameSite=Strict{secure}", pass.cookie);
    if let Ok(value) = HeaderValue::from_str(&text) {
        response.headers_mut().insert(header::SET_COOKIE, value);
    }
    Ok(response)
}

/// Forgets the cookie in this browser.
pub(super) async fn log_out(State(shared): State<Arc<Shared>>) -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    let name = shared.logins.cookie_name();
    if let Ok(value) =
        HeaderValue::from_str(&format!("{name}=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict"))
    {
        response.headers_mut().insert(header::SET_COOKIE, value);
    }
    response
}
