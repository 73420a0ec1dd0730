//! Logging in by a link that is good once or by a token, and out again.
//!
//! Promise: opening a link changes nothing, so that whoever looks at links on the way does not use it up. Its button does. The page
//! that follows hands the script the key that must come with every request; nobody can ask for that again. Logging out ends the
//! login on the server, so that a copy of the cookie is worth nothing.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use countersign_kernel::Caller;
use maud::{Markup, html};
use serde::Deserialize;

use super::frame::{Trouble, alone, document, html_response};
use crate::access::{COOKIE_LIFE, Credential, Invited, Pass, Peer};
use crate::refusal::Refusal;
use crate::rest::body::{Form, Params};
use crate::shared::Shared;

const UNKNOWN: &str = "This token is unknown, expired or revoked. Check that all of it was pasted.";
const NOT_A_PERSONS: &str = "This token is for a program, such as an agent. The console is for people who decide: \
    use a token with the role approver or admin, or a login link.";

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
            p { "This link logs this browser in. It works once." }
            form method="post" action="/login" {
                input type="hidden" name="code" value=(code);
                button.primary autofocus { "Log in" }
            }
        } @else {
            @if !code.is_empty() { p.warning { "This link was used already or has expired." } }
            (ways_in())
        }
    };
    let status = if is_good || code.is_empty() { StatusCode::OK } else { StatusCode::GONE };
    html_response(status, &document("Log in", "login", None, &alone(&inside)))
}

/// How somebody without a link gets in.
pub(super) fn ways_in() -> Markup {
    html! {
        p { "Paste a token with the role approver or admin:" }
        form.token method="post" action="/login" {
            label { "Token" input type="password" name="token" required autocomplete="off" spellcheck="false"; }
            button.primary { "Log in" }
        }
        p { "Or open a login link. On the machine that runs Countersign, this prints one:" }
        pre { "countersign login" }
        p.faint { "An admin can send you one: " code { "countersign user invite NAME" } }
    }
}

/// Uses a link up, or takes a token, and gives the cookie.
pub(super) async fn log_in(
    State(shared): State<Arc<Shared>>,
    peer: Option<Extension<Peer>>,
    Form(form): Form,
) -> Result<Response, Trouble> {
    let peer = peer.map(|Extension(peer)| peer);
    let pass = match field(&form, "token") {
        Some(token) => by_token(&shared, token.trim(), peer).await?,
        None => by_link(&shared, &field(&form, "code").unwrap_or_default()).await?,
    };
    let inside =
        html! { h1 { "Logged in" } p #pass data-csrf=(pass.page_key) { a href="/" { "To the inbox" } } };
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

async fn by_link(shared: &Shared, code: &str) -> Result<Pass, Trouble> {
    let gone =
        || Trouble(Refusal::new(410, "link_used", "This link was used already or has expired.").into());
    let invited = shared.logins.redeem(code, shared.gateway.now()).ok_or_else(gone)?;
    logged_in(shared, invited).await?.ok_or_else(gone)
}

async fn by_token(shared: &Shared, token: &str, peer: Option<Peer>) -> Result<Pass, Trouble> {
    let refused = |detail: &str| Trouble(Refusal::forbidden("token_refused", detail).into());
    let caller =
        shared.gateway.authenticate(token).await.map_err(|error| Trouble(Refusal::from(error).into()))?;
    let user = caller.as_ref().filter(|caller| caller.principal.may_decide());
    let user = user.and_then(|caller| caller.principal.user()?.as_str().parse().ok());
    let why = if caller.is_some() { NOT_A_PERSONS } else { UNKNOWN };
    let (Some(caller), Some(user)) = (caller, user) else {
        shared.pace.failure(peer).map_err(|refusal| Trouble(refusal.into()))?;
        return Err(refused(why));
    };
    logged_in(shared, Invited { user, token: caller.token }).await?.ok_or_else(|| refused(UNKNOWN))
}

async fn logged_in(shared: &Shared, invited: Invited) -> Result<Option<Pass>, Trouble> {
    let pass = shared.logins.log_in(&shared.gateway, invited).await;
    pass.map_err(|error| Trouble(Refusal::from(error).into()))
}

/// A field of a form that was sent.
fn field(form: &str, name: &str) -> Option<String> {
    let mut fields = form_urlencoded::parse(form.as_bytes());
    fields.find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}

/// Ends the login, and forgets the cookie in this browser.
pub(super) async fn log_out(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Extension(credential): Extension<Credential>,
) -> Result<Response, Refusal> {
    if let Credential::Cookie(login) = credential {
        shared.gateway.end_login(login, &caller).await?;
    }
    let mut response = StatusCode::NO_CONTENT.into_response();
    let name = shared.logins.cookie_name();
    if let Ok(value) =
        HeaderValue::from_str(&format!("{name}=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict"))
    {
        response.headers_mut().insert(header::SET_COOKIE, value);
    }
    Ok(response)
}
