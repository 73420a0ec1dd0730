//! What an operator watches: alive, ready, and figures.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use metrics::gauge;

use crate::presence;
use crate::refusal::Refusal;
use crate::shared::{Identity, Shared};

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

/// Ready while it takes calls and its store answers.
async fn ready(State(shared): State<Arc<Shared>>) -> Result<&'static str, Refusal> {
    if shared.stop.is_cancelled() {
        return Err(Refusal::new(503, "stopping", "the server is stopping"));
    }
    shared.gateway.standing().await?;
    Ok("ready\n")
}

async fn figures(State(shared): State<Arc<Shared>>) -> Result<Response, Refusal> {
    let Some(prometheus) = &shared.prometheus else {
        return Err(Refusal::new(501, "no_metrics", "this server was started without a recorder of figures"));
    };
    let standing = shared.gateway.standing().await?;
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
    let mut response = prometheus.render().into_response();
    let text = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, text);
    Ok(response)
}
