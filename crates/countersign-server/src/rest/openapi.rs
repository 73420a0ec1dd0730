//! The description of the routes, generated from them. The golden file is `docs/openapi.json`.

use std::sync::OnceLock;

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use utoipa::openapi::security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{Components, Info, OpenApi, SecurityRequirement};

use crate::access::COOKIE;

/// The whole document, as JSON.
pub fn openapi() -> &'static str {
    static DOCUMENT: OnceLock<String> = OnceLock::new();
    DOCUMENT.get_or_init(|| {
        let (_, document) = super::described().split_for_parts();
        // Made of text and numbers of our own: it cannot fail, and a test reads it.
        document.to_pretty_json().unwrap_or_default()
    })
}

/// What stands above the routes.
pub(super) fn head() -> OpenApi {
    let mut info = Info::new("Countersign", env!("CARGO_PKG_VERSION"));
    info.description = Some(
        "The gateway between AI agents and the tools they call. Reading flows through; whatever destroys, sends or \
         overwrites waits until a person countersigns it. Errors are `application/problem+json` with a stable `code`."
            .to_owned(),
    );
    let mut components = Components::new();
    let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
    components.add_security_scheme("token", SecurityScheme::Http(bearer));
    let cookie = ApiKey::Cookie(ApiKeyValue::with_description(
        format!("{COOKIE}-7420"),
        "The console's, named after the port; every change also needs the `X-CSRF-Token` that the login gave.".to_owned(),
    ));
    components.add_security_scheme("console", SecurityScheme::ApiKey(cookie));
    let mut document = OpenApi::new(info, utoipa::openapi::Paths::new());
    document.components = Some(components);
    let none: [&str; 0] = [];
    document.security =
        Some(vec![SecurityRequirement::new("token", none), SecurityRequirement::new("console", none)]);
    document
}

pub(super) async fn document() -> Response {
    let mut response = openapi().into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
