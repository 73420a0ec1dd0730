//! What went wrong, as an answer: `application/problem+json` with our stable code.
//!
//! Promise: what a caller reads comes from the errors' public messages; their causes go to the log.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use countersign_kernel::ports::{ScriptFault, SourcesError, StoreError};
use countersign_kernel::{
    CallError, CancelError, DecideError, GatewayError, RETRY_CALLS_AFTER, SessionError, SettleError,
    TokenError, UserError,
};
use countersign_sdk::Violation;
use serde_json::{Map, Value, json};

use crate::{trace, wire};

/// When to call again a tool whose source is being loaded, in seconds.
const SOURCE_RETRY_AFTER_S: u64 = 5;

/// A request that was not granted.
#[derive(Debug, Clone)]
pub(crate) struct Refusal {
    status: StatusCode,
    code: &'static str,
    detail: String,
    more: Map<String, Value>,
    /// When to try again, in seconds.
    retry_after: Option<u64>,
    connection: Connection,
}

/// What becomes of a connection on which a request was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Connection {
    Stays,
    Closes,
}

/// When to try again what was refused because there was too much of it, in seconds.
const RETRY_AFTER: &str = "1";

impl Refusal {
    pub(crate) fn new(status: u16, code: &'static str, detail: impl Into<String>) -> Self {
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let more = Map::new();
        Self { status, code, detail: detail.into(), more, retry_after: None, connection: Connection::Stays }
    }

    /// Closes the connection as well, so that whoever was refused a place does not keep one.
    #[must_use]
    pub(crate) fn closing(mut self) -> Self {
        self.connection = Connection::Closes;
        self
    }

    pub(crate) fn bad_request(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(400, code, detail)
    }

    pub(crate) fn forbidden(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(403, code, detail)
    }

    pub(crate) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(404, "not_found", detail)
    }

    /// Says when it may be granted, in the body and in the header that clients look at.
    #[must_use]
    pub(crate) fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after = Some(seconds);
        self.with("retryAfterSeconds", json!(seconds))
    }

    /// Says more, under a name of its own.
    #[must_use]
    pub(crate) fn with(mut self, name: &str, value: Value) -> Self {
        self.more.insert(name.to_owned(), value);
        self
    }
}

impl From<Refusal> for wire::Problem {
    fn from(refusal: Refusal) -> Self {
        Self {
            kind: format!("urn:countersign:{}", refusal.code),
            title: refusal.status.canonical_reason().unwrap_or("Error").to_owned(),
            status: refusal.status.as_u16(),
            code: refusal.code.to_owned(),
            detail: refusal.detail,
            more: refusal.more,
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let (status, retry_after, connection) = (self.status, self.retry_after, self.connection);
        let problem = wire::Problem::from(self);
        // Text of our own making and JSON values: this cannot fail, and an empty body would still carry the status.
        let body = serde_json::to_vec(&problem).unwrap_or_default();
        let mut response = (status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER));
        }
        if connection == Connection::Closes {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        if status == StatusCode::UNAUTHORIZED {
            headers
                .insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"countersign\""));
        }
        if let Some(seconds) = retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

impl From<GatewayError> for Refusal {
    fn from(error: GatewayError) -> Self {
        let status = match &error {
            GatewayError::Store(StoreError::BadCursor) => 400,
            GatewayError::Store(store) if store.is_lost_authority() => 403,
            GatewayError::Store(StoreError::TooManyPending { .. } | StoreError::RequesterFull { .. }) => 429,
            GatewayError::Store(StoreError::Corrupt(_)) | GatewayError::Journal(_) => 500,
            GatewayError::Store(_)
            | GatewayError::NoEntropy
            | GatewayError::Sandbox(_)
            | GatewayError::Closed => 503,
        };
        if status >= 500 {
            tracing::error!(request = trace::current(), code = error.code(), cause = ?error, "a request could not be served");
        }
        let detail = match &error {
            GatewayError::Store(
                store @ (StoreError::BadCursor
                | StoreError::TooManyPending { .. }
                | StoreError::RequesterFull { .. }
                | StoreError::Overloaded),
            ) => store.to_string(),
            GatewayError::Store(StoreError::Corrupt(_)) => {
                "a record of this is damaged, so that nothing was done; `countersign doctor` says more"
                    .to_owned()
            }
            other => other.to_string(),
        };
        Self::new(status, error.code(), detail)
    }
}

impl From<CallError> for Refusal {
    fn from(error: CallError) -> Self {
        let (code, detail) = (error.code(), error.to_string());
        match error {
            CallError::Gateway(error) => error.into(),
            CallError::ToolNotFound { near, .. } => Self::new(404, code, detail).with("near", json!(near)),
            CallError::Namespace { inside, .. } => Self::new(404, code, detail).with("inside", json!(inside)),
            CallError::SourceNotLoaded(_) => Self::new(503, code, detail).retry_after(SOURCE_RETRY_AFTER_S),
            CallError::InvalidInput { violations: found } => {
                Self::new(422, code, detail).with("violations", violations(&found))
            }
            CallError::Script(ScriptFault::Invalid { message, line, column }) => {
                let place =
                    Self::new(422, code, detail).with("line", json!(line)).with("column", json!(column));
                place.with("problem", json!(message))
            }
            CallError::Script(ScriptFault::Busy { retry_after_s }) => {
                Self::new(503, code, detail).retry_after(retry_after_s)
            }
            CallError::Script(
                fault @ (ScriptFault::Unavailable { .. } | ScriptFault::NotIsolated { .. }),
            ) => {
                tracing::error!(request = trace::current(), code, cause = ?fault, "a script could not be run");
                Self::new(503, code, detail)
            }
            CallError::OutOfBounds(_) | CallError::Script(_) => Self::new(422, code, detail),
            CallError::NoScripts => Self::new(501, code, detail),
            CallError::NotAllowed(_) => Self::new(403, code, detail),
            CallError::StorageLimit { retry_after } => {
                Self::new(429, code, detail).retry_after(retry_after.as_secs().max(1))
            }
            CallError::TooManyCalls => Self::new(429, code, detail).retry_after(RETRY_CALLS_AFTER.as_secs()),
            CallError::KeyMismatch(id) => Self::new(409, code, detail).with("executionId", json!(id)),
            CallError::SessionNotFound => Self::new(404, code, detail),
        }
    }
}

impl From<DecideError> for Refusal {
    fn from(error: DecideError) -> Self {
        let (code, detail) = (error.code(), error.to_string());
        match error {
            DecideError::Gateway(error) => error.into(),
            DecideError::NotFound | DecideError::ToolMissing(_) => Self::new(404, code, detail),
            DecideError::NotWhatWasShown(open) => Self::new(409, code, detail).with("pending", json!(open)),
            DecideError::Ambiguous(open) => Self::new(409, code, detail).with("pending", json!(open)),
            DecideError::Decided(decision) => {
                Self::new(409, code, detail).with("decision", json!(wire::Decision::from(&*decision)))
            }
            DecideError::Expired => Self::new(410, code, detail),
            DecideError::Void(_) => Self::new(409, code, detail),
            DecideError::NotAllowed => Self::new(403, code, detail),
            DecideError::RememberNotAllowed | DecideError::OutOfBounds(_) => Self::new(422, code, detail),
            DecideError::InvalidData(found) => {
                Self::new(422, code, detail).with("violations", violations(&found))
            }
        }
    }
}

impl From<CancelError> for Refusal {
    fn from(error: CancelError) -> Self {
        let (code, detail) = (error.code(), error.to_string());
        match error {
            CancelError::Gateway(error) => error.into(),
            CancelError::NotFound => Self::new(404, code, detail),
            CancelError::NotAllowed => Self::new(403, code, detail),
            CancelError::Ended | CancelError::TooLate | CancelError::InDoubt => Self::new(409, code, detail),
            CancelError::Stopping => Self::new(202, code, detail),
        }
    }
}

impl From<SettleError> for Refusal {
    fn from(error: SettleError) -> Self {
        let (code, detail) = (error.code(), error.to_string());
        match error {
            SettleError::Gateway(error) => error.into(),
            SettleError::NotFound => Self::new(404, code, detail),
            SettleError::NotAllowed => Self::new(403, code, detail),
            SettleError::NotInDoubt | SettleError::ToolChanged => Self::new(409, code, detail),
            SettleError::OutOfBounds(_) => Self::new(422, code, detail),
        }
    }
}

impl From<SessionError> for Refusal {
    fn from(error: SessionError) -> Self {
        let (code, detail) = (error.code(), error.to_string());
        match error {
            SessionError::Gateway(error) => error.into(),
            SessionError::BadClient => Self::new(422, code, detail),
            SessionError::TooMany { .. } => Self::new(429, code, detail),
            // Whose it is, is nobody else's business.
            SessionError::Taken => Self::new(404, "session_not_found", "there is no such session of yours"),
        }
    }
}

impl From<TokenError> for Refusal {
    fn from(error: TokenError) -> Self {
        let (code, detail) = (error.code(), error.to_string());
        match error {
            TokenError::Gateway(error) => error.into(),
            _ => Self::new(422, code, detail),
        }
    }
}

impl From<UserError> for Refusal {
    fn from(error: UserError) -> Self {
        let (code, detail) = (error.code(), error.to_string());
        match error {
            UserError::Gateway(error) => error.into(),
            UserError::NotFound => Self::new(404, code, detail),
            UserError::NameTaken | UserError::LastAdmin => Self::new(409, code, detail),
            UserError::BadName | UserError::BadRole => Self::new(422, code, detail),
            UserError::TooMany => Self::new(429, code, detail),
            UserError::OperatorDamaged => Self::new(500, code, detail),
        }
    }
}

impl From<SourcesError> for Refusal {
    fn from(error: SourcesError) -> Self {
        let (code, detail) = (error.code(), error.to_string());
        let status = match error {
            SourcesError::Gateway(error) => return error.into(),
            SourcesError::NotFound(_) => 404,
            SourcesError::InFile(_)
            | SourcesError::NotWhatWasShown
            | SourcesError::NothingToAccept(_)
            | SourcesError::Catalog(_) => 409,
            SourcesError::BadConfig(_) => 422,
            SourcesError::Unreachable(_) => 502,
        };
        Self::new(status, code, detail)
    }
}

fn violations(found: &[Violation]) -> Value {
    found.iter().map(|violation| json!(violation.to_string())).collect()
}
