//! The secrets of one source, and how they are cut out of whatever the source says.
//!
//! Promise: [`Secrets::redact`] leaves no secret in a text: neither as it is, nor as JSON, a URL or base64 would write
//! it. Upstreams echo what they are sent, in error messages above all, and none of that may reach a journal, a log, a
//! prompt or a result (R12).

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use countersign_sdk::{ExposeSecret, SecretString};
use serde_json::Value;

/// What stands in place of a secret.
pub const MASK: &str = "[redacted]";
/// A shorter text is no secret, and masking it would garble ordinary answers.
pub const SHORTEST_SECRET_BYTES: usize = 6;

/// The secrets of one source in every spelling that is looked for. Cheap to clone; `Debug` shows only their number.
#[derive(Clone, Default)]
pub struct Secrets {
    /// The longest first, so that a secret inside another does not leave a remainder.
    spellings: Arc<[SecretString]>,
}

impl Secrets {
    /// Collects the secrets of a source.
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a SecretString>) -> Self {
        let mut spellings: Vec<String> =
            secrets.into_iter().flat_map(|secret| spellings(secret.expose_secret())).collect();
        spellings.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        spellings.dedup();
        Self { spellings: spellings.into_iter().map(SecretString::from).collect() }
    }

    /// The text without any secret.
    pub fn redact(&self, text: &str) -> String {
        self.spellings.iter().fold(text.to_owned(), |text, spelling| {
            let spelling = spelling.expose_secret();
            if text.contains(spelling) { text.replace(spelling, MASK) } else { text }
        })
    }

    /// The bytes without any secret. They need not be text.
    pub fn redact_bytes(&self, mut bytes: Vec<u8>) -> Vec<u8> {
        for spelling in self.spellings.iter() {
            bytes = without(bytes, spelling.expose_secret().as_bytes());
        }
        bytes
    }

    /// The value without any secret, in its keys too.
    pub fn redact_value(&self, value: Value) -> Value {
        if self.spellings.is_empty() {
            return value;
        }
        match value {
            Value::String(text) => Value::String(self.redact(&text)),
            Value::Array(items) => items.into_iter().map(|item| self.redact_value(item)).collect(),
            Value::Object(map) => {
                map.into_iter().map(|(key, value)| (self.redact(&key), self.redact_value(value))).collect()
            }
            other => other,
        }
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secrets({})", self.spellings.len())
    }
}

fn spellings(secret: &str) -> Vec<String> {
    if secret.len() < SHORTEST_SECRET_BYTES {
        return Vec::new();
    }
    let mut all = vec![secret.to_owned()];
    if let Ok(quoted) = serde_json::to_string(secret) {
        all.push(quoted[1..quoted.len() - 1].to_owned());
    }
    all.push(form_urlencoded::byte_serialize(secret.as_bytes()).collect());
    all.push(percent_encoded(secret));
    for engine in [&STANDARD, &STANDARD_NO_PAD, &URL_SAFE, &URL_SAFE_NO_PAD] {
        all.push(engine.encode(secret));
    }
    all
}

/// As in a path, where a space is `%20` and not `+`.
fn percent_encoded(secret: &str) -> String {
    form_urlencoded::byte_serialize(secret.as_bytes()).map(|part| part.replace('+', "%20")).collect()
}

fn without(bytes: Vec<u8>, secret: &[u8]) -> Vec<u8> {
    let mut kept = Vec::new();
    let mut rest = bytes.as_slice();
    while let Some(at) = rest.windows(secret.len()).position(|window| window == secret) {
        kept.extend_from_slice(&rest[..at]);
        kept.extend_from_slice(MASK.as_bytes());
        rest = &rest[at + secret.len()..];
    }
    if kept.is_empty() {
        return bytes;
    }
    kept.extend_from_slice(rest);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn secrets(texts: &[&str]) -> Secrets {
        let texts: Vec<SecretString> = texts.iter().map(|text| SecretString::from(*text)).collect();
        Secrets::new(&texts)
    }

    #[test]
    fn a_secret_is_cut_out_in_every_spelling() {
        let secrets = secrets(&["pa ss\"wörd/1"]);
        for spelling in [
            "pa ss\"wörd/1",
            r#"pa ss\"wörd/1"#,
            "pa+ss%22w%C3%B6rd%2F1",
            "pa%20ss%22w%C3%B6rd%2F1",
            "cGEgc3Mid8O2cmQvMQ==",
        ] {
            let said = format!("before {spelling} after");
            assert_eq!(secrets.redact(&said), "before [redacted] after");
            assert_eq!(secrets.redact_bytes(said.into_bytes()), b"before [redacted] after");
        }
    }

    #[test]
    fn a_secret_within_another_leaves_no_remainder() {
        assert_eq!(secrets(&["secret", "secret-and-more"]).redact("a secret-and-more b"), "a [redacted] b");
    }

    #[test]
    fn keys_and_nested_values_are_cleaned() {
        let value = json!({ "canary-1": [{ "x": "say canary-1" }, 7] });
        assert_eq!(
            secrets(&["canary-1"]).redact_value(value),
            json!({ "[redacted]": [{ "x": "say [redacted]" }, 7] })
        );
    }

    #[test]
    fn text_shorter_than_a_secret_is_left_alone_and_debug_shows_none() {
        let at_bound = "abcdef";
        assert_eq!(at_bound.len(), SHORTEST_SECRET_BYTES);
        assert_eq!(secrets(&[&at_bound[1..]]).redact("abcdef"), "abcdef");
        assert_eq!(secrets(&[at_bound]).redact("abcdef"), MASK);
        assert!(!format!("{:?}", secrets(&[at_bound])).contains("abcdef"));
    }
}
