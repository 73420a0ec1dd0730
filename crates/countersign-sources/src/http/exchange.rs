//! What became of a request: a value that says whether the upstream can have acted on it.

use crate::http::address::AddressRefused;
use crate::http::credentials::BadCredential;

/// What a request is for. It decides about retries, redirects and doubt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Intent {
    /// It only looks: it may be sent again.
    Read,
    /// It may change something: it is sent at most once.
    Write,
}

/// What became of a request.
#[derive(Debug)]
pub enum Exchange {
    /// Nothing of it reached the upstream.
    NotSent(NotSent),
    /// It may have reached the upstream, and no whole answer came.
    Lost(Lost),
    /// The upstream answered.
    Answered(Answer),
}

/// Why a request was not sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotSent {
    /// The request itself is wrong.
    #[error("the request cannot be sent: {0}")]
    BadRequest(String),
    /// Its credential cannot be sent.
    #[error(transparent)]
    BadCredential(#[from] BadCredential),
    /// The address is one that sources are not reached at.
    #[error("refused: {0}")]
    Address(#[from] AddressRefused),
    /// The source failed too often; it is left alone for a while.
    #[error("the source failed repeatedly and is not called for another {retry_in_ms} ms")]
    CircuitOpen {
        /// How long it is left alone.
        retry_in_ms: u64,
    },
    /// No connection could be made.
    #[error("no connection: {0}")]
    Unreachable(String),
}

/// How an answer was lost.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the request was sent, but no whole answer came: {reason}")]
pub struct Lost {
    /// What happened.
    pub reason: String,
    /// How far it had come.
    pub stage: LostStage,
}

/// How far an exchange had come when its answer was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LostStage {
    /// The connection ended before the answer began.
    Broken,
    /// Time ran out before the answer began.
    Silent,
    /// The answer began with this status and did not end.
    Answering(u16),
    /// It led from one address to the next.
    Redirected,
}

/// A whole answer, or the beginning of one that was too long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// Names in lower case, in the order of the answer; without secrets.
    pub headers: Vec<(String, String)>,
    /// Without secrets.
    pub body: Vec<u8>,
    /// Whether the body is all of it.
    pub extent: Extent,
}

/// How much of a body is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// All of it.
    Whole,
    /// The beginning; the rest was not read.
    Cut {
        /// The most that is read.
        limit_bytes: usize,
    },
}

impl NotSent {
    /// A stable code for errors and logs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::BadRequest(_) => "bad_request",
            Self::BadCredential(_) => "bad_credential",
            Self::Address(_) => "address_refused",
            Self::CircuitOpen { .. } => "circuit_open",
            Self::Unreachable(_) => "unreachable",
        }
    }
}

impl Exchange {
    /// Whether it is unknown if the upstream acted: a write that was sent and whose fate no answer tells. A proxy that
    /// says 502 or 504 gave up waiting for an upstream that may have acted.
    pub fn is_in_doubt(&self, intent: Intent) -> bool {
        match (intent, self) {
            (Intent::Read, _) | (_, Self::NotSent(_)) => false,
            (Intent::Write, Self::Lost(_)) => true,
            (Intent::Write, Self::Answered(answer)) => matches!(answer.status, 502 | 504),
        }
    }
}

impl Answer {
    /// The first header of this name, which is in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_write_that_was_sent_can_be_in_doubt() {
        let answered = |status| {
            Exchange::Answered(Answer { status, headers: vec![], body: vec![], extent: Extent::Whole })
        };
        let lost = || Exchange::Lost(Lost { reason: "closed".into(), stage: LostStage::Broken });
        let not_sent = || Exchange::NotSent(NotSent::Unreachable("refused".into()));
        for (exchange, doubt) in [
            (lost(), true),
            (not_sent(), false),
            (answered(200), false),
            (answered(400), false),
            (answered(500), false),
            (answered(502), true),
            (answered(503), false),
            (answered(504), true),
        ] {
            assert_eq!(exchange.is_in_doubt(Intent::Write), doubt, "{exchange:?}");
            assert!(!exchange.is_in_doubt(Intent::Read), "{exchange:?}");
        }
    }
}
