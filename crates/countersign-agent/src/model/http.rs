//! Asking a model's server: one request, tried again where that can help, within bounds.
//!
//! Only requests that brought no word of an answer are tried again. No redirect is followed: the key goes to the server it was
//! meant for. The key never appears in an error, whoever says it: every error that leaves an [`Endpoint`] goes through
//! [`shown`].

use std::time::Duration;

use countersign_core::time::Timestamp;
use countersign_kernel::ports::{Clock, SystemClock};
use countersign_sdk::{ExposeSecret, SecretString};
use futures_util::StreamExt;
use jiff::fmt::rfc2822::DateTimeParser;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Response, StatusCode, Url};
use serde_json::{Map, Value};

use crate::model::ModelError;
use crate::model::shown::shown;
use crate::model::sse::Events;

/// The most of an error's body that is read, so that one in JSON can be understood; much less of it is kept.
const MAX_ERROR_BODY_BYTES: usize = 64 << 10;
/// How long a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a server may be silent: models think, but not for ever.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(300);

/// How often a request is tried, and how long is waited in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// How often in all.
    pub attempts: u32,
    /// The first wait; each further one is twice as long.
    pub first_wait: Duration,
    /// The longest wait. A server that wants a longer one is believed, and the request fails at once.
    pub longest_wait: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        Self { attempts: 4, first_wait: Duration::from_millis(500), longest_wait: Duration::from_secs(60) }
    }
}

/// A model at a server that is asked, and what every request says.
pub(super) struct Endpoint {
    client: Client,
    url: Url,
    key: SecretString,
    key_header: HeaderName,
    key_prefix: &'static str,
    headers: HeaderMap,
    /// The fields of a request that are always the same.
    fields: Map<String, Value>,
    retry: Retry,
}

/// How a protocol wants its key.
pub(super) struct KeyHeader {
    pub(super) name: &'static str,
    pub(super) prefix: &'static str,
}

/// What one attempt came to.
enum Attempt {
    Answer(Response),
    Again { wait: Option<Duration>, error: ModelError },
    Failed(ModelError),
}

impl Endpoint {
    /// A model at `path` below a base URL. One that can never be reached is refused here, and not when it is asked.
    pub(super) fn new(
        base: &str,
        path: &str,
        model: String,
        key: SecretString,
        header: &KeyHeader,
    ) -> Result<Self, ModelError> {
        let url = address(base, path)?;
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(SILENCE_TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|e| ModelError::Unreachable(e.to_string()))?;
        Ok(Self {
            client,
            url,
            key,
            key_header: HeaderName::from_static(header.name),
            key_prefix: header.prefix,
            headers: HeaderMap::new(),
            fields: Map::from_iter([("model".to_owned(), model.into()), ("stream".to_owned(), true.into())]),
            retry: Retry::default(),
        })
    }

    pub(super) fn with_retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// What the program says beside what the protocol needs. It cannot take the place of the model or the streaming.
    pub(super) fn with_field(mut self, name: String, value: Value) -> Self {
        if !matches!(name.as_str(), "model" | "stream") {
            self.fields.insert(name, value);
        }
        self
    }

    pub(super) fn with_header(mut self, name: &'static str, value: &'static str) -> Self {
        self.headers.insert(name, HeaderValue::from_static(value));
        self
    }

    /// Asks with these fields beside those that are always the same, and has `read` read what is answered.
    pub(super) async fn ask<F>(
        &self,
        turn: Map<String, Value>,
        read: impl FnOnce(Events) -> F,
    ) -> Result<(), ModelError>
    where
        F: Future<Output = Result<(), ModelError>>,
    {
        let response = self.answer(turn).await?;
        read(Events::of(response)).await.map_err(|error| self.fit_to_show(error))
    }

    /// The answer, once it begins.
    async fn answer(&self, turn: Map<String, Value>) -> Result<Response, ModelError> {
        let mut body = self.fields.clone();
        body.extend(turn);
        let body = &Value::Object(body);
        let mut key = HeaderValue::from_str(&format!("{}{}", self.key_prefix, self.key.expose_secret()))
            .map_err(|_| ModelError::Unreachable("the key has characters that no header takes".into()))?;
        key.set_sensitive(true);
        let mut backoff = self.retry.first_wait;
        for attempt in 1.. {
            let (wait, error) = match self.attempt(&key, body, attempt).await {
                Attempt::Answer(response) => return Ok(response),
                Attempt::Failed(error) => return Err(self.fit_to_show(error)),
                Attempt::Again { wait, error } => (wait, self.fit_to_show(error)),
            };
            let wait = wait.unwrap_or(backoff.min(self.retry.longest_wait));
            if attempt >= self.retry.attempts || wait > self.retry.longest_wait {
                return Err(error);
            }
            tracing::debug!(attempt, ?wait, %error, "the model is asked again");
            tokio::time::sleep(wait).await;
            backoff = backoff.saturating_mul(2);
        }
        Err(ModelError::Unreachable("it was never asked".into()))
    }

    async fn attempt(&self, key: &HeaderValue, body: &Value, attempts: u32) -> Attempt {
        let request = self.client.post(self.url.clone()).headers(self.headers.clone());
        let sent = request.header(self.key_header.clone(), key).json(body).send().await;
        let response = match sent {
            Ok(response) => response,
            Err(error) => {
                return Attempt::Again { wait: None, error: ModelError::Unreachable(whole(&error)) };
            }
        };
        let status = response.status();
        if status.is_success() {
            return Attempt::Answer(response);
        }
        let wait = retry_after(response.headers(), SystemClock.now());
        let message = said(response).await;
        let number = status.as_u16();
        match status {
            StatusCode::TOO_MANY_REQUESTS => {
                Attempt::Again { wait, error: ModelError::RateLimited { retry_after: wait, message } }
            }
            StatusCode::REQUEST_TIMEOUT => {
                Attempt::Again { wait, error: ModelError::Failing { status: number, attempts, message } }
            }
            _ if status.is_server_error() => {
                Attempt::Again { wait, error: ModelError::Failing { status: number, attempts, message } }
            }
            _ => Attempt::Failed(ModelError::Refused { status: number, message }),
        }
    }

    fn fit_to_show(&self, error: ModelError) -> ModelError {
        error.map_texts(|text| shown(text, self.key.expose_secret()))
    }
}

/// The address of `path` below a base URL. What is wrong with a base is said without it: it may be a key in the wrong place.
fn address(base: &str, path: &str) -> Result<Url, ModelError> {
    let mut url = Url::parse(base).map_err(|error| ModelError::BadBaseUrl(error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(ModelError::BadBaseUrl("it begins with neither http:// nor https://".into()));
    }
    let below = format!("{}/{path}", url.path().trim_end_matches('/'));
    url.set_path(&below);
    Ok(url)
}

/// How long the server wants one to wait: in milliseconds where it says so, in seconds, or until a date (RFC 9110, 10.2.3).
fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let said = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let number = |name: &str| said(name)?.parse::<f64>().ok();
    let seconds = number("retry-after-ms").map(|millis| millis / 1_000.0).or_else(|| number("retry-after"));
    match seconds {
        Some(seconds) => Duration::try_from_secs_f64(seconds).ok(),
        None => Some(now.until(moment(said("retry-after")?)?)),
    }
}

/// A date as HTTP writes it. A weekday that does not fit is the server's slip and changes nothing.
fn moment(date: &str) -> Option<Timestamp> {
    let parsed = DateTimeParser::new().relaxed_weekday(true).parse_timestamp(date).ok()?;
    // What was before 1970 is over in any case.
    Some(Timestamp::from_millis(u64::try_from(parsed.as_millisecond()).unwrap_or_default()))
}

/// What an error says, as far as it is read.
async fn said(response: Response) -> String {
    let mut kept = Vec::new();
    let mut chunks = response.bytes_stream();
    while let Some(Ok(chunk)) = chunks.next().await {
        let room = MAX_ERROR_BODY_BYTES.saturating_sub(kept.len());
        kept.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if room <= chunk.len() {
            break;
        }
    }
    let text = String::from_utf8_lossy(&kept).into_owned();
    let message = serde_json::from_str::<Value>(&text)
        .ok()
        .and_then(|body| body.pointer("/error/message").and_then(Value::as_str).map(str::to_owned));
    message.unwrap_or(text)
}

/// An error with everything that caused it: reqwest alone says only "error sending request".
fn whole(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(deeper) = cause {
        text.push_str(": ");
        text.push_str(&deeper.to_string());
        cause = deeper.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-16T12:00:00Z.
    const NOON: Timestamp = Timestamp::from_millis(1_794_830_400_000);

    fn wait(headers: &[(&'static str, &'static str)]) -> Option<Duration> {
        let headers = headers
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        retry_after(&headers.collect(), NOON)
    }

    #[test]
    fn a_server_says_how_long_to_wait_in_three_ways() {
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        assert_eq!(wait(&[("retry-after", "7")]), seconds(7));
        assert_eq!(wait(&[("retry-after", "7"), ("retry-after-ms", "2000")]), seconds(2));
        assert_eq!(wait(&[("retry-after", "Mon, 16 Nov 2026 12:00:30 GMT")]), seconds(30));
        assert_eq!(wait(&[("retry-after", "Tue, 16 Nov 2026 12:00:30 GMT")]), seconds(30));
    }

    #[test]
    fn a_moment_that_has_passed_is_no_wait_and_what_cannot_be_read_says_nothing() {
        assert_eq!(wait(&[("retry-after", "Mon, 16 Nov 2026 11:59:59 GMT")]), Some(Duration::ZERO));
        assert_eq!(wait(&[("retry-after", "Wed, 31 Dec 1969 23:59:59 GMT")]), Some(Duration::ZERO));
        for nonsense in ["soon", "-1", "NaN", "", "Mon, 99 Nov 2026 12:00:30 GMT"] {
            assert_eq!(wait(&[("retry-after", nonsense)]), None, "{nonsense:?}");
        }
        assert_eq!(wait(&[]), None);
    }

    #[test]
    fn a_path_is_added_below_the_base_and_keeps_its_query() {
        for (base, whole) in [
            ("http://host/v1", "http://host/v1/chat"),
            ("http://host/v1//", "http://host/v1/chat"),
            ("http://host", "http://host/chat"),
            ("http://host/v1?version=2", "http://host/v1/chat?version=2"),
        ] {
            assert_eq!(address(base, "chat").unwrap().as_str(), whole);
        }
    }
}
