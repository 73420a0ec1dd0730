//! Small documents for one rule at a time.

use countersign_sources::HttpRequest;
use countersign_sources::openapi::{Document, Mapped, Operation, Options};
use serde_json::{Value, json};

/// A document with these paths and components, at `https://api.example/v1`.
pub(crate) fn document(paths: Value, components: Value) -> Document {
    versioned("3.0.3", paths, components)
}

/// As [`document`], of another version of OpenAPI.
pub(crate) fn versioned(version: &str, paths: Value, components: Value) -> Document {
    let whole = json!({
        "openapi": version,
        "info": { "title": "Small", "version": "1" },
        "servers": [{ "url": "https://api.example/v1" }],
        "paths": paths,
        "components": components,
    });
    Document::parse(whole.to_string().as_bytes()).unwrap()
}

/// A Swagger 2 document with these paths.
pub(crate) fn swagger2(paths: Value) -> Document {
    let whole = json!({
        "swagger": "2.0",
        "info": { "title": "Small", "version": "1" },
        "host": "api.example", "basePath": "/v1", "schemes": ["http", "https"],
        "consumes": ["application/json"],
        "paths": paths,
    });
    Document::parse(whole.to_string().as_bytes()).unwrap()
}

pub(crate) fn map(paths: Value) -> Mapped {
    document(paths, json!({})).map(&Options::default())
}

/// The only operation of a document.
pub(crate) fn only(mapped: &Mapped) -> &Operation {
    assert_eq!(mapped.operations.len(), 1, "{:#?}", mapped.offer);
    mapped.operations.values().next().unwrap()
}

/// The request of an operation `POST /send` with this body, for this argument `body`.
pub(crate) fn send(request_body: Value, body: Value) -> HttpRequest {
    let mapped = map(json!({ "/send": { "post": { "requestBody": request_body } } }));
    only(&mapped).request(&json!({ "body": body })).unwrap()
}

/// What a document offers, as text for a snapshot.
pub(crate) fn shown(mapped: &Mapped) -> String {
    serde_json::to_string_pretty(&mapped.offer).unwrap()
}
