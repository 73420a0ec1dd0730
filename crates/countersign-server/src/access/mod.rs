//! Who may do what: asked before any front sees a request.
//!
//! Promises: a request from a foreign host or origin is refused on every route (R15); every route stands in
//! [`table`], and one that does not is refused; an agent's credential is refused on every deciding route (R10); a cookie
//! changes nothing without its CSRF token. What cannot be found out is a no.

mod login;
mod pace;
mod place;
pub(crate) mod table;

use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, Method, header};
use axum::middleware::Next;
use axum::response::Response;
use countersign_kernel::Caller;

pub(crate) use login::{COOKIE, COOKIE_LIFE, Logins};
pub(crate) use pace::Pace;
pub(crate) use place::Places;
pub use table::routes;

use crate::refusal::Refusal;
use crate::shared::Shared;

/// What a cookie's holder sends with every change.
pub(crate) const CSRF_HEADER: &str = "x-csrf-token";

/// The address a request came from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub(crate) std::net::IpAddr);

/// How somebody proved who they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Proof {
    /// `Authorization: Bearer …`.
    Bearer,
    /// The console's cookie.
    Cookie {
        /// What must come with every change.
        csrf: String,
    },
}

/// The one door. Everything that is served stands behind it.
pub(crate) async fn guard(
    State(shared): State<Arc<Shared>>,
    mut request: Request,
    next: Next,
) -> Result<Response, Refusal> {
    shared.places.check(request.headers())?;
    let path = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let Some(path) = path else { return Err(Refusal::not_found("there is nothing at this address")) };
    let Some(allowed) = table::allowed(request.method(), &path) else {
        return Err(Refusal::new(405, "method_not_allowed", "this address does not take this method"));
    };
    if allowed == table::Allowed::Anyone {
        return Ok(next.run(request).await);
    }
    if !is_reading(request.method()) && is_of_a_form(request.headers()) {
        return Err(Refusal::forbidden("not_json", "send `Content-Type: application/json`"));
    }
    let peer = request.extensions().get::<Peer>().copied();
    let (caller, proof) = authenticate(&shared, request.headers(), peer).await?;
    shared.pace.request(&caller)?;
    if !allowed.admits(&caller.principal) {
        return Err(Refusal::forbidden("not_allowed", allowed.refusal()));
    }
    if let Proof::Cookie { csrf } = &proof
        && !is_reading(request.method())
    {
        let sent = request.headers().get(CSRF_HEADER).and_then(|value| value.to_str().ok());
        if sent != Some(csrf.as_str()) {
            let detail = format!("a change that a cookie speaks for needs its {CSRF_HEADER} header");
            return Err(Refusal::forbidden("csrf", detail));
        }
    }
    request.extensions_mut().insert(caller);
    request.extensions_mut().insert(proof);
    Ok(next.run(request).await)
}

fn is_reading(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

/// A page of another origin may send text and forms without asking its browser's leave; JSON it may not.
fn is_of_a_form(headers: &HeaderMap) -> bool {
    let mut kinds = headers.get_all(header::CONTENT_TYPE).iter();
    kinds.any(|kind| !kind.to_str().is_ok_and(is_json))
}

/// Whether a content type is JSON's.
pub(crate) fn is_json(kind: &str) -> bool {
    kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

async fn authenticate(
    shared: &Shared,
    headers: &HeaderMap,
    peer: Option<Peer>,
) -> Result<(Caller, Proof), Refusal> {
    let found = if headers.contains_key(header::AUTHORIZATION) {
        let secret = bearer(headers).ok_or_else(|| unauthenticated("write `Authorization: Bearer TOKEN`"))?;
        shared.gateway.authenticate(secret).await?.map(|caller| (caller, Proof::Bearer))
    } else if let Some(cookie) = login::cookie(headers) {
        shared.logins.holder(&shared.gateway, cookie).await?
    } else {
        return Err(unauthenticated("send a token: `Authorization: Bearer TOKEN`"));
    };
    match found {
        Some(found) => Ok(found),
        None => {
            shared.pace.failure(peer)?;
            Err(unauthenticated("this credential is unknown, expired or revoked"))
        }
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let text = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, secret) = text.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| secret.trim())
}

fn unauthenticated(detail: &str) -> Refusal {
    Refusal::new(401, "unauthenticated", detail)
}
