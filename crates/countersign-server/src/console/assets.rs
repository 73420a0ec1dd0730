//! The style sheet, the script and the icon: inside the binary, kept by browsers until they change.

use std::fmt::Write as _;
use std::sync::OnceLock;

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use sha2::{Digest as _, Sha256};

use crate::refusal::Refusal;
use crate::rest::body::Named;

pub(super) const STYLE: &str = "console.css";
pub(super) const SCRIPT: &str = "console.js";
pub(super) const ICON: &str = "icon.svg";

/// Every asset: its name, its type, what it is.
const ASSETS: [(&str, &str, &str); 3] = [
    (STYLE, "text/css; charset=utf-8", include_str!("console.css")),
    (SCRIPT, "text/javascript; charset=utf-8", include_str!("console.js")),
    (ICON, "image/svg+xml", include_str!("icon.svg")),
];

/// Where an asset is, with what it is by: another version is another address.
pub(super) fn address(name: &str) -> String {
    static VERSION: OnceLock<String> = OnceLock::new();
    let version = VERSION.get_or_init(|| {
        let mut all = Sha256::new();
        for (_, _, content) in ASSETS {
            all.update(content);
        }
        all.finalize().iter().take(8).fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
    });
    format!("/assets/{name}?v={version}")
}

/// One asset. It tells nothing of what passes through, so that it needs no login.
pub(super) async fn one(Named(name): Named<String>) -> Result<Response, Refusal> {
    let asset = ASSETS.iter().find(|(known, _, _)| *known == name);
    let (_, kind, content) = asset.ok_or_else(|| Refusal::not_found("there is no such asset"))?;
    let mut response = content.into_response();
    for (name, value) in [
        (header::CONTENT_TYPE, *kind),
        (header::CACHE_CONTROL, "public, max-age=31536000, immutable"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    Ok(response)
}
