//! Each request has an id, in the log and in the answer.

use std::sync::atomic::{AtomicU64, Ordering};

use axum::extract::Request;
use axum::http::HeaderValue;
use axum::middleware::Next;
use axum::response::Response;
use tokio::time::Instant;
use tracing::Instrument as _;
use tracing::field::Empty;

/// Where the answer says which request it answers.
const HEADER: &str = "x-request-id";

static NEXT: AtomicU64 = AtomicU64::new(1);

/// Runs a request inside a span of its own.
pub(crate) async fn request(request: Request, next: Next) -> Response {
    let id = format!("req_{:x}", NEXT.fetch_add(1, Ordering::Relaxed));
    let begun = Instant::now();
    let (method, path) = (request.method().clone(), request.uri().path());
    let span = tracing::info_span!("request", id, %method, path, execution = Empty);
    let mut response = next.run(request).instrument(span.clone()).await;
    let took_ms = begun.elapsed().as_secs_f64() * 1e3;
    span.in_scope(|| tracing::debug!(status = response.status().as_u16(), took_ms, "answered"));
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(HEADER, value);
    }
    response
}

/// Notes in the request's span which execution it is about.
pub(crate) fn execution(id: &str) {
    tracing::Span::current().record("execution", id);
}
