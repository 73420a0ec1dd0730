//! What a browser finds before there is a console: where a person can decide.
//!
//! It tells nothing but what its reader's address says already, so that it needs no login.

use axum::http::HeaderValue;
use axum::response::{Html, IntoResponse as _, Response};
use countersign_core::ids::ElicitationId;

use super::body::Named;

/// The front page.
pub(super) async fn front() -> Response {
    page("<p>The gateway runs. See what waits with <code>countersign inbox --watch</code>.</p>")
}

/// Where a link to a question leads.
pub(super) async fn elicitation(Named(id): Named<String>) -> Response {
    // Only an id is written back, whatever else stands in the address.
    match id.parse::<ElicitationId>() {
        Ok(id) => page(&format!(
            "<p>A question waits here for a person. Read it with <code>countersign inbox</code>, then decide:</p>\
             <pre>countersign approve {id}\ncountersign deny {id}</pre>"
        )),
        Err(_) => {
            page("<p>There is no such question. See what waits with <code>countersign inbox</code>.</p>")
        }
    }
}

fn page(inside: &str) -> Response {
    let page = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>Countersign</title></head><body><main><h1>Countersign</h1>{inside}</main></body></html>"
    );
    let mut response = Html(page).into_response();
    guarded(&mut response);
    response
}

/// No frame around it, nothing loaded, nothing kept, no address handed on to others. (With no referrer at all, a browser would
/// call the origin of this page's own form `null`, and be refused.)
pub(super) fn guarded(response: &mut Response) {
    for (name, value) in [
        (
            "content-security-policy",
            "default-src 'none'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
        ),
        ("referrer-policy", "same-origin"),
        ("x-content-type-options", "nosniff"),
        ("cache-control", "no-store"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
}
