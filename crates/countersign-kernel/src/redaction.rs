//! Secrets kept out of what is recorded and shown (R12).
//!
//! A handler gets tokens and may, by mistake, put one into a result, an error or a question. All of its output
//! passes through here, and every token it was given is cut out.

use std::sync::Mutex;

use countersign_sdk::{ExposeSecret, SecretString};
use serde_json::Value;

const MASK: &str = "[redacted]";
/// A shorter secret is no secret, and masking it would garble ordinary text.
const SHORTEST_SECRET: usize = 6;

/// The secrets one handler was given.
#[derive(Default)]
pub(crate) struct Redaction {
    given: Mutex<Vec<SecretString>>,
}

impl Redaction {
    pub(crate) fn remember(&self, secret: &SecretString) {
        if secret.expose_secret().len() >= SHORTEST_SECRET {
            self.given.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(secret.clone());
        }
    }

    pub(crate) fn text(&self, text: String) -> String {
        let given = self.given.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        given.iter().fold(text, |text, secret| {
            if text.contains(secret.expose_secret()) {
                text.replace(secret.expose_secret(), MASK)
            } else {
                text
            }
        })
    }

    pub(crate) fn value(&self, value: Value) -> Value {
        if self.given.lock().unwrap_or_else(std::sync::PoisonError::into_inner).is_empty() {
            return value;
        }
        match value {
            Value::String(text) => Value::String(self.text(text)),
            Value::Array(items) => items.into_iter().map(|item| self.value(item)).collect(),
            Value::Object(map) => map.into_iter().map(|(k, v)| (self.text(k), self.value(v))).collect(),
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_given_secret_is_cut_out_wherever_it_stands() {
        let redaction = Redaction::default();
        redaction.remember(&SecretString::from("canary-token"));
        let value = json!({ "a": ["x canary-token y"], "canary-token": 1 });
        assert_eq!(redaction.value(value), json!({ "a": ["x [redacted] y"], "[redacted]": 1 }));
        assert_eq!(redaction.text("Bearer canary-token".into()), "Bearer [redacted]");
    }
}
