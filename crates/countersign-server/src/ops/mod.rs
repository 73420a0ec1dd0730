//! What an operator watches: alive, ready, and figures.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use metrics::gauge;

use crate::refusal::Refusal;
use crate::shared::Shared;

/// The routes.
pub(crate) fn routes() -> Router<Arc<Shared>> {
    Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(ready))
        .route("/metrics", get(figures))
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
