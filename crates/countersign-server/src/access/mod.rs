//! Who may do what: asked before any front sees a request.
//!
//! Promises: a request from a foreign host or origin is refused on every route (R15); every route stands in
//! [`table`], and one that does not is refused; an agent's credential is refused on every deciding route (R10); a cookie
//! neither reads nor changes anything without the key that its pages have. What cannot be found out is a no.

mod login;
mod pace;
mod place;
mod shares;
pub(crate) mod table;

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::extract::{MatchedPath, Request};
use axum::http::{HeaderMap, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use countersign_core::ids::LoginId;
use countersign_kernel::Caller;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tower::{Layer, Service};

pub(crate) use login::{COOKIE, COOKIE_LIFE, Invited, Logins, Pass};
pub(crate) use pace::Pace;
pub(crate) use place::{Places, is_loopback};
pub(crate) use shares::{Share, Shares};
pub use table::routes;

use crate::console;
use crate::refusal::Refusal;
use crate::shared::Shared;
use crate::trace;
use table::Front;

/// What a page of the console sends with every request, beside its cookie.
pub(crate) const CSRF_HEADER: &str = "x-csrf-token";

/// The address a request came from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub(crate) std::net::IpAddr);

/// How somebody showed who they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Credential {
    /// `Authorization: Bearer …`.
    Bearer,
    /// The console's cookie.
    Cookie(LoginId),
}

/// The check before every route, as a layer. It is a service of its own and not made of axum's functions: those copy and box a
/// route several times for each request.
#[derive(Clone)]
pub(crate) struct Admission(pub(crate) Arc<Shared>);

/// A route behind the check.
#[derive(Clone)]
pub(crate) struct Guarded<S> {
    shared: Arc<Shared>,
    route: S,
}

impl<S> Layer<S> for Admission {
    type Service = Guarded<S>;

    fn layer(&self, route: S) -> Guarded<S> {
        Guarded { shared: Arc::clone(&self.0), route }
    }
}

impl<S> Service<Request> for Guarded<S>
where
    S: Service<Request, Response = Response, Error = Infallible, Future: Send> + Clone + Send + 'static,
{
    type Response = Response;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response, Infallible>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.route.poll_ready(context)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let Self { shared, route } = self.clone();
        async move {
            let (method, uri) = (request.method().clone(), request.uri().clone());
            Ok(trace::request(&method, uri.path(), guard(&shared, request, route)).await)
        }
        .boxed()
    }
}

/// Everything that is served stands behind this. Whoever is turned away from a page reads a page.
async fn guard<S>(shared: &Shared, request: Request, route: S) -> Response
where
    S: Service<Request, Response = Response, Error = Infallible>,
{
    let row = route_of(&request);
    let is_page = row.as_ref().is_ok_and(|row| row.front == Front::Page);
    match pass(shared, row, request, route).await {
        Ok(response) => response,
        Err(refusal) if is_page => console::turned_away(&refusal.into()),
        Err(refusal) => refusal.into_response(),
    }
}

/// Lets a request through to its route where its caller, who is known by now, may use it. The console asks REST by this.
pub(crate) async fn admit(request: Request, next: Next) -> Result<Response, Refusal> {
    let allowed = route_of(&request)?.allowed;
    match request.extensions().get::<Caller>() {
        Some(caller) => allowed.check(&caller.principal)?,
        None => return Err(unauthenticated("nobody asks")),
    }
    Ok(next.run(request).await)
}

/// The row of the table that a request is for.
fn route_of(request: &Request) -> Result<&'static table::Route, Refusal> {
    let Some(path) = request.extensions().get::<MatchedPath>() else {
        return Err(Refusal::not_found("there is nothing at this address"));
    };
    table::route_of(request.method(), path.as_str())
        .ok_or_else(|| Refusal::new(405, "method_not_allowed", "this address does not take this method"))
}

async fn pass<S>(
    shared: &Shared,
    row: Result<&'static table::Route, Refusal>,
    mut request: Request,
    mut route: S,
) -> Result<Response, Refusal>
where
    S: Service<Request, Response = Response, Error = Infallible>,
{
    shared.places.check(request.headers())?;
    let table::Route { allowed, front, .. } = *row?;
    if allowed == table::Allowed::Anyone {
        let Ok(response) = route.call(request).await;
        return Ok(response);
    }
    if !is_reading(request.method()) && is_of_a_form(request.headers()) {
        return Err(Refusal::forbidden("not_json", "send `Content-Type: application/json`"));
    }
    let peer = request.extensions().get::<Peer>().copied();
    let (caller, credential) = authenticate(shared, request.headers(), peer).await?;
    shared.pace.request(&caller)?;
    let _at_once = shared.shares.request(&request, &caller)?;
    allowed.check(&caller.principal)?;
    if let Credential::Cookie(login) = credential {
        let sent = request.headers().get(CSRF_HEADER).and_then(|value| value.to_str().ok());
        match sent {
            Some(key) if shared.logins.is_page_key(login, key) => {}
            // A browser that opens a page sends the cookie alone. The empty page fetches the same address with its key.
            None if front == Front::Page && is_reading(request.method()) => return Ok(console::empty_page()),
            _ => {
                let detail = format!("a request that a cookie speaks for needs its {CSRF_HEADER} header");
                return Err(Refusal::forbidden("csrf", detail));
            }
        }
    }
    request.extensions_mut().insert(caller);
    request.extensions_mut().insert(credential);
    let Ok(response) = route.call(request).await;
    Ok(response)
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

pub(crate) async fn authenticate(
    shared: &Shared,
    headers: &HeaderMap,
    peer: Option<Peer>,
) -> Result<(Caller, Credential), Refusal> {
    let found = if headers.contains_key(header::AUTHORIZATION) {
        let secret = bearer(headers).ok_or_else(|| unauthenticated("write `Authorization: Bearer TOKEN`"))?;
        shared.gateway.authenticate(secret).await?.map(|caller| (caller, Credential::Bearer))
    } else if let Some(cookie) = shared.logins.cookie(headers) {
        let holder = shared.logins.holder(&shared.gateway, cookie).await?;
        holder.map(|(caller, login)| (caller, Credential::Cookie(login)))
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
