//! HTTP requests as plain data, and why one cannot be made or did not succeed.
//!
//! Mappings make an [`HttpRequest`] from admitted arguments; the guarded client sends it. Nothing here knows a network,
//! a credential or a clock.

use std::fmt;

/// The most bytes of an upstream's error body that are passed on.
pub const MAX_ERROR_BODY_BYTES: usize = 4 * 1024;

/// A request, complete but for credentials and `User-Agent`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpRequest {
    /// `GET`, `POST`, …
    pub method: String,
    /// Absolute; its scheme, host and leading path are the operator's, never an argument's.
    pub url: String,
    /// In the order they are sent. Names are unique and never `Host`, `Content-Length` or hop-by-hop.
    pub headers: Vec<(String, String)>,
    /// What is sent after the headers; `Content-Type` is among those.
    pub body: Option<Vec<u8>>,
}

impl HttpRequest {
    /// The value of a header, by its name in any case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

/// Why arguments cannot become a request. Nothing was sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The arguments are not a JSON object.
    #[error("the arguments are not an object")]
    NotAnObject,
    /// A required argument is missing.
    #[error("argument {argument:?} is missing")]
    Missing {
        /// Its name.
        argument: String,
    },
    /// An argument's value cannot be sent where it belongs.
    #[error("argument {argument:?} {problem}")]
    Unusable {
        /// Its name.
        argument: String,
        /// What is wrong with it.
        problem: String,
    },
}

impl RequestError {
    /// The stable code of this error.
    pub fn code(&self) -> &'static str {
        "invalid_input"
    }

    pub(crate) fn unusable(argument: &str, problem: impl Into<String>) -> Self {
        Self::Unusable { argument: argument.to_owned(), problem: problem.into() }
    }
}

/// The upstream answered, and not with success.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamError {
    /// The HTTP status.
    pub status: u16,
    /// The answer's body as text, at most [`MAX_ERROR_BODY_BYTES`]. It comes from outside: fronts label it.
    pub body: String,
}

impl UpstreamError {
    /// The stable code of this error.
    pub fn code(&self) -> &'static str {
        "upstream_error"
    }
}

impl fmt::Display for UpstreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the upstream answered {}", self.status)?;
        if self.body.is_empty() { Ok(()) } else { write!(f, ": {}", self.body) }
    }
}

impl std::error::Error for UpstreamError {}
