//! Each request has an id: in the answer, in the log's lines about what failed, and at level debug in every line.
//!
//! A span for each request would cost more than reading it, so at other levels there is none; the id is kept beside the request
//! instead.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::http::{HeaderName, HeaderValue};
use axum::response::Response;
use tokio::time::Instant;
use tracing::Instrument as _;
use tracing::field::Empty;

/// Where the answer says which request it answers.
const HEADER: HeaderName = HeaderName::from_static("x-request-id");

static NEXT: AtomicU64 = AtomicU64::new(1);

tokio::task_local! {
    static CURRENT: RequestId;
}

/// The id of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestId(u64);

impl RequestId {
    fn next() -> Self {
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "req_{:x}", self.0)
    }
}

/// Answers a request under an id of its own.
pub(crate) async fn request(
    method: &axum::http::Method,
    path: &str,
    answering: impl Future<Output = Response>,
) -> Response {
    let id = RequestId::next();
    let span = tracing::debug_span!("request", %id, %method, path, execution = Empty);
    let mut response = if span.is_disabled() {
        CURRENT.scope(id, answering).await
    } else {
        let begun = Instant::now();
        let response = CURRENT.scope(id, answering).instrument(span.clone()).await;
        let took_ms = begun.elapsed().as_secs_f64() * 1e3;
        span.in_scope(|| tracing::debug!(status = response.status().as_u16(), took_ms, "answered"));
        response
    };
    if let Ok(value) = HeaderValue::try_from(id.to_string()) {
        response.headers_mut().insert(HEADER, value);
    }
    response
}

/// The id of the request that is being answered, for a line of the log about it.
pub(crate) fn current() -> Option<tracing::field::DisplayValue<RequestId>> {
    CURRENT.try_with(|id| tracing::field::display(*id)).ok()
}

/// Notes in the request's span which execution it is about.
pub(crate) fn execution(id: impl fmt::Display) {
    tracing::Span::current().record("execution", tracing::field::display(id));
}
