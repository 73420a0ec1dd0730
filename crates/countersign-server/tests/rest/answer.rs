//! What a server answered.

use reqwest::header::HeaderMap;
use serde_json::Value;

/// An answer, read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) async fn of(response: reqwest::Response) -> Self {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Self { status, headers, text: response.text().await.unwrap() }
    }

    /// The body, which must be JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    /// The body of an answer that must have this status.
    #[track_caller]
    pub(crate) fn with(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text);
        self.json()
    }

    /// A refusal with this status and code, in the form that is promised for all of them.
    #[track_caller]
    pub(crate) fn refused(&self, status: u16, code: &str) -> Value {
        assert_eq!(self.status, status, "{}", self.text);
        assert_eq!(self.header("content-type"), "application/problem+json");
        let problem = self.json();
        assert_eq!(problem["code"], code, "{problem}");
        assert_eq!(problem["status"], status, "{problem}");
        assert_eq!(problem["type"], format!("urn:countersign:{code}"));
        assert!(problem["detail"].as_str().is_some_and(|detail| !detail.is_empty()), "{problem}");
        problem
    }

    /// A refusal that a person reads in a browser.
    #[track_caller]
    pub(crate) fn turned_away(&self, status: u16, code: &str) {
        assert_eq!(self.status, status, "{}", self.text);
        assert_eq!(self.header("content-type"), "text/html; charset=utf-8");
        assert!(self.text.contains(&format!("<code>{code}</code>")), "{}", self.text);
    }

    /// A refusal as a route's readers get it.
    #[track_caller]
    pub(crate) fn refused_as(&self, is_page: bool, status: u16, code: &str) {
        match is_page {
            true => self.turned_away(status, code),
            false => drop(self.refused(status, code)),
        }
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

/// A JSON document with what differs from run to run cut out: ids, times, digests, addresses.
pub(crate) fn redacted(value: &Value) -> String {
    serde_json::to_string_pretty(&cut(value)).unwrap()
}

fn cut(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(cut).collect(),
        Value::Object(fields) => fields.iter().map(|(name, value)| (name.clone(), cut(value))).collect(),
        Value::String(text) => Value::String(cut_text(text)),
        other => other.clone(),
    }
}

fn cut_text(text: &str) -> String {
    for kind in ["exec_", "eli_", "tok_", "usr_", "gra_", "ses_of_", "cs_", "http://127.0.0.1:"] {
        if text.starts_with(kind) {
            let rest = text.rfind('/').filter(|_| kind.starts_with("http")).map_or("", |_| "…/…");
            return format!("{kind}{}", if rest.is_empty() { "…" } else { rest });
        }
    }
    let is_time = text.len() > 19 && text.ends_with('Z') && text.as_bytes()[10] == b'T';
    let is_digest = text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit());
    match (is_time, is_digest) {
        (true, _) => "(time)".to_owned(),
        (_, true) => "(digest)".to_owned(),
        _ => text.to_owned(),
    }
}
