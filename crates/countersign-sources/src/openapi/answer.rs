//! What an upstream's answer is as a tool's result.
//!
//! JSON is a value, text is text, bytes are `{ base64, contentType }`. A GET that declares a list answers
//! `{ items, next? }`, always: a bare list has no place for the next page's address. Everything but 2xx is an error with its
//! status and the beginning of its body.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::media::{self, MediaKind};
use super::operation::Operation;
use crate::bounded::bounded;
use crate::request::{MAX_ERROR_BODY_BYTES, UpstreamError};

/// The member of a result that holds a list.
pub(super) const ITEMS: &str = "items";
/// The member of a result that holds the next page's address.
pub(super) const NEXT: &str = "next";

/// What the result of an operation looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AnswerShape {
    /// A declared list: `{ items, next? }`.
    Items,
    /// What the upstream says.
    Plain,
}

impl Operation {
    /// The result for an answer; header names in any case.
    pub fn result(
        &self,
        status: u16,
        headers: &[(String, String)],
        body: &[u8],
    ) -> Result<Value, UpstreamError> {
        let content_type = header(headers, "content-type").unwrap_or_default();
        if !(200..300).contains(&status) {
            return Err(UpstreamError { status, body: readable(content_type, headers, body) });
        }
        let next = header_values(headers, "link").find_map(next_link);
        let value = value_of(content_type, body);
        Ok(match (self.answer, value, next) {
            (AnswerShape::Items, items @ Value::Array(_), None) => json!({ ITEMS: items }),
            (_, items @ Value::Array(_), Some(next)) => json!({ ITEMS: items, NEXT: next }),
            (_, Value::Object(mut members), Some(next)) => {
                members.entry(NEXT).or_insert(Value::String(next));
                Value::Object(members)
            }
            (_, value, _) => value,
        })
    }
}

fn value_of(content_type: &str, body: &[u8]) -> Value {
    if body.is_empty() {
        return Value::Null;
    }
    let text = std::str::from_utf8(body);
    match (media::kind(content_type), text) {
        // Some upstreams forget to say what they send.
        (MediaKind::Json, _) | (_, Ok(_)) if content_type.is_empty() || media::is_json(content_type) => {
            serde_json::from_slice(body).unwrap_or_else(|_| lossy(body))
        }
        (MediaKind::Text | MediaKind::Form | MediaKind::Multipart, _) => lossy(body),
        _ => json!({ "base64": STANDARD.encode(body), "contentType": content_type }),
    }
}

fn lossy(body: &[u8]) -> Value {
    Value::String(String::from_utf8_lossy(body).into_owned())
}

/// An error's body as text, bounded.
fn readable(content_type: &str, headers: &[(String, String)], body: &[u8]) -> String {
    let location =
        header(headers, "location").map(|to| format!("redirects to {to}; redirects are not followed"));
    let text = match (location, std::str::from_utf8(body)) {
        (Some(location), _) => location,
        (None, _)
            if media::kind(content_type) == MediaKind::Json
                || media::kind(content_type) == MediaKind::Text =>
        {
            String::from_utf8_lossy(body).into_owned()
        }
        (None, Ok(text)) => text.to_owned(),
        (None, Err(_)) => format!("{} bytes of {content_type}", body.len()),
    };
    bounded(text.trim(), MAX_ERROR_BODY_BYTES)
}

fn header<'h>(headers: &'h [(String, String)], name: &'h str) -> Option<&'h str> {
    header_values(headers, name).next()
}

fn header_values<'h>(headers: &'h [(String, String)], name: &'h str) -> impl Iterator<Item = &'h str> {
    headers.iter().filter(move |(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
}

/// The address of `rel="next"` in a `Link` header (RFC 8288).
fn next_link(link: &str) -> Option<String> {
    let mut rest = link;
    while let Some(open) = rest.find('<') {
        let close = open + rest[open..].find('>')?;
        let address = &rest[open + 1..close];
        let after = &rest[close + 1..];
        let end = after.find(",<").or_else(|| after.find(", <")).unwrap_or(after.len());
        let is_next = after[..end].split(';').filter_map(|parameter| parameter.trim().split_once('=')).any(
            |(key, value)| {
                let value = value.trim().trim_matches('"');
                key.trim().eq_ignore_ascii_case("rel")
                    && value.split_ascii_whitespace().any(|rel| rel.eq_ignore_ascii_case("next"))
            },
        );
        if is_next {
            return Some(address.to_owned());
        }
        rest = &after[end..];
    }
    None
}
