//! Asking a model's server: one request, tried again where that can help, within bounds.
//!
//! Only requests that brought no word of an answer are tried again. No redirect is followed: the key goes to the server it was
//! meant for. The key never appears in an error.

use std::time::Duration;

use countersign_sdk::{ExposeSecret, SecretString};
use futures_util::StreamExt;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Response, StatusCode};
use serde_json::{Map, Value};

use crate::model::ModelError;

/// The most of an error's body that is kept.
pub const MAX_ERROR_BYTES: usize = 2_000;
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
    url: String,
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
    pub(super) fn new(
        url: String,
        model: String,
        key: SecretString,
        header: &KeyHeader,
    ) -> Result<Self, ModelError> {
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

    /// Asks with these fields beside those that are always the same, and returns once the answer begins.
    pub(super) async fn ask(&self, turn: Map<String, Value>) -> Result<Response, ModelError> {
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
                Attempt::Failed(error) => return Err(error),
                Attempt::Again { wait, error } => (wait, error),
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
        let request = self.client.post(&self.url).headers(self.headers.clone());
        let sent = request.header(self.key_header.clone(), key).json(body).send().await;
        let response = match sent {
            Ok(response) => response,
            Err(error) => {
                let error = ModelError::Unreachable(self.without_key(&whole(&error)));
                return Attempt::Again { wait: None, error };
            }
        };
        let status = response.status();
        if status.is_success() {
            return Attempt::Answer(response);
        }
        let wait = retry_after(response.headers());
        let message = self.without_key(&said(response).await);
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

    fn without_key(&self, text: &str) -> String {
        let key = self.key.expose_secret();
        if key.is_empty() { text.to_owned() } else { text.replace(key, "[key]") }
    }
}

/// How long the server wants one to wait; in seconds, or in milliseconds where it says so.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let number = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<f64>().ok();
    let seconds =
        number("retry-after-ms").map(|millis| millis / 1_000.0).or_else(|| number("retry-after"))?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// What an error says, cut to a readable length.
async fn said(response: Response) -> String {
    let mut kept = Vec::new();
    let mut chunks = response.bytes_stream();
    while let Some(Ok(chunk)) = chunks.next().await {
        let room = MAX_ERROR_BYTES.saturating_sub(kept.len());
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
