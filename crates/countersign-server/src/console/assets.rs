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
/// The inbox is the page that people wait for: what only others need is apart.
pub(super) const AUDIT_SCRIPT: &str = "audit.js";
pub(super) const SOURCES_SCRIPT: &str = "sources.js";
pub(super) const SOURCES_STYLE: &str = "sources.css";

/// Every asset: its name, its type, what it is.
const ASSETS: [(&str, &str, &str); 6] = [
    (AUDIT_SCRIPT, "text/javascript; charset=utf-8", include_str!("audit.js")),
    (SOURCES_SCRIPT, "text/javascript; charset=utf-8", include_str!("sources.js")),
    (SOURCES_STYLE, "text/css; charset=utf-8", include_str!("sources.css")),
    (STYLE, "text/css; charset=utf-8", include_str!("console.css")),
    (SCRIPT, "text/javascript; charset=utf-8", include_str!("console.js")),
    (ICON, "image/svg+xml", include_str!("icon.svg")),
];

/// Every asset as it is served. Comments that have lines of their own and indentation are for whoever reads the source.
fn served() -> &'static [String; ASSETS.len()] {
    static SERVED: OnceLock<[String; ASSETS.len()]> = OnceLock::new();
    SERVED.get_or_init(|| ASSETS.map(|(_, _, content)| lean(content)))
}

fn lean(content: &str) -> String {
    let is_comment = |line: &str| {
        line.starts_with("//") || line.starts_with("/*") && line.find("*/") == Some(line.len() - 2)
    };
    let lines = content.lines().map(str::trim).filter(|line| !line.is_empty() && !is_comment(line));
    lines.fold(String::new(), |all, line| all + line + "\n")
}

/// Where an asset is, with what it is by: another version is another address.
pub(super) fn address(name: &str) -> String {
    static VERSION: OnceLock<String> = OnceLock::new();
    let version = VERSION.get_or_init(|| {
        let mut all = Sha256::new();
        for content in served() {
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
    let asset = ASSETS.iter().zip(served()).find(|((known, _, _), _)| *known == name);
    let ((_, kind, _), content) = asset.ok_or_else(|| Refusal::not_found("there is no such asset"))?;
    let mut response = content.as_str().into_response();
    for (name, value) in [
        (header::CONTENT_TYPE, *kind),
        (header::CACHE_CONTROL, "public, max-age=31536000, immutable"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_indentation_stay_at_home_and_code_does_not() {
        let source = "// Why.\nconst a = 1; // here\n\n  /* what */\n  go(\"//x\");\n/* a */ b { }\n";
        assert_eq!(lean(source), "const a = 1; // here\ngo(\"//x\");\n/* a */ b { }\n");
    }

    #[test]
    fn no_text_in_an_asset_goes_over_several_lines_so_that_trimming_changes_none() {
        for (name, _, content) in ASSETS {
            let mut lines = content.lines().filter(|line| !line.trim_start().starts_with("//"));
            assert!(lines.all(|line| line.matches('`').count() % 2 == 0), "{name}");
            let open = content.lines().find(|line| line.matches("/*").count() != line.matches("*/").count());
            assert_eq!(open, None, "{name}");
        }
    }
}
