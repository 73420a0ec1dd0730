//! What an operator watches: alive, ready, and figures.
//!
//! Promises: asking often costs nothing, because whoever asks within a second shares one answer; not ready means that decisions cannot be
//! made and kept; and the figures are read with a token, or from this machine.

mod fresh;

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Extension, Router};
use countersign_kernel::ports::Standing;
use metrics::gauge;

use crate::access::table::Allowed;
use crate::access::{self, Peer};
use crate::presence;
use crate::refusal::Refusal;
use crate::shared::{Identity, Shared};
use fresh::Fresh;

/// Headers of a proxy that speaks for somebody else.
const FORWARDED: [&str; 4] = ["forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip"];

/// What was answered lately.
#[derive(Default)]
pub(crate) struct Watched {
    standing: Fresh<Result<Standing, Refusal>>,
    figures: Fresh<Result<String, Refusal>>,
}

/// The routes.
pub(crate) fn routes() -> Router<Arc<Shared>> {
    Router::new().route("/healthz", get(alive)).route("/readyz", get(ready)).route("/metrics", get(figures))
}

/// Alive; and, to whoever asks for it, the server of its data folder and no other.
async fn alive(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Response {
    let mut response = "ok\n".into_response();
    let challenge = headers.get(presence::CHALLENGE).and_then(|text| text.to_str().ok());
    let Identity { key, port } = &shared.identity;
    let proof = challenge.and_then(|challenge| presence::proof(key, *port, challenge));
    if let Some(proof) = proof.and_then(|proof| HeaderValue::from_str(&proof).ok()) {
        response.headers_mut().insert(presence::PROOF, proof);
    }
    response
}

/// Ready while it takes calls, its store answers, and decisions can be stored.
async fn ready(State(shared): State<Arc<Shared>>) -> Result<&'static str, Refusal> {
    if shared.stop.is_cancelled() {
        return Err(Refusal::new(503, "stopping", "the server is stopping"));
    }
    standing(&shared).await?;
    shared.gateway.check_writable().map_err(|_| {
        Refusal::new(503, "not_writable", "decisions cannot be stored at the moment; the log says why")
    })?;
    Ok("ready\n")
}

async fn figures(
    State(shared): State<Arc<Shared>>,
    peer: Option<Extension<Peer>>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let peer = peer.map(|Extension(peer)| peer);
    if !is_from_this_machine(&shared, peer, &headers) {
        let (caller, _) = access::authenticate(&shared, &headers, peer).await?;
        Allowed::Known.check(&caller.principal)?;
    }
    let text = shared.watched.figures.get(async || rendered(&shared).await).await?;
    let mut response = text.into_response();
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    Ok(response)
}

/// Whether a request came from this machine and not through a proxy on it: then its address says nothing of who asks.
fn is_from_this_machine(shared: &Shared, peer: Option<Peer>, headers: &HeaderMap) -> bool {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let base = shared.links.base();
    let public = base.split_once("://").map_or(base, |(_, rest)| rest);
    let public = public.split('/').next().unwrap_or(public);
    peer.is_some_and(|Peer(address)| address.is_loopback())
        && host.is_some_and(access::is_loopback)
        && access::is_loopback(public)
        && !FORWARDED.iter().any(|name| headers.contains_key(*name))
}

async fn standing(shared: &Shared) -> Result<Standing, Refusal> {
    shared.watched.standing.get(async || shared.gateway.standing().await.map_err(Refusal::from)).await
}

async fn rendered(shared: &Shared) -> Result<String, Refusal> {
    let Some(prometheus) = &shared.prometheus else {
        return Err(Refusal::new(501, "no_metrics", "this server was started without a recorder of figures"));
    };
    let standing = standing(shared).await?;
    let live = shared.gateway.live() as u64;
    let unfinished = standing.waiting + standing.running + standing.in_doubt;
    for (name, value) in [
        ("countersign_pending", standing.open),
        ("countersign_executions_waiting", standing.waiting),
        ("countersign_executions_running", standing.running),
        ("countersign_executions_in_doubt", standing.in_doubt),
        ("countersign_executions_live", live),
        ("countersign_executions_parked", unfinished.saturating_sub(live)),
    ] {
        #[expect(clippy::cast_precision_loss, reason = "counts far below 2^53")]
        gauge!(name).set(value as f64);
    }
    Ok(prometheus.render())
}
