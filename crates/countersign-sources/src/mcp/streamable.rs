//! The protocol over streamable HTTP, through the guarded client.
//!
//! rmcp's own transport re-sends requests after it re-made a session, reads bodies without a bound and leaves a request
//! pending when its stream ends. Here a request is sent exactly once, and whatever becomes of its stream, it is answered.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use reqwest::Response;
use rmcp::RoleClient;
use rmcp::model::{
    ClientNotification, ErrorData, GetExtensions, JsonRpcMessage, RequestId, ServerJsonRpcMessage,
};
use rmcp::service::{InboundStreamOrigin, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::HttpRequest;
use crate::http::{Exchange, HttpClient, Intent};
use crate::mcp::config::McpLimits;
use crate::mcp::headers::{Session, request_headers};
use crate::mcp::link::{DeliveryError, Link, Sending, lost};
use crate::mcp::sse::Events;

/// How many messages may wait to be handled before streams are no longer read.
const QUEUE: usize = 64;
/// How much of an error's body is shown.
const MAX_ERROR_CHARS: usize = 4_096;
/// How often a stream that broke before its answer is taken up again where the server offers that.
const MAX_RESUMPTIONS: u32 = 5;
/// How long the end of a session may take.
const DELETE_WITHIN: Duration = Duration::from_secs(2);
/// The longest pause before the stream of unasked messages is opened again.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// A transport over HTTP.
pub(super) struct HttpTransport {
    inner: Arc<Inner>,
    incoming: mpsc::Receiver<RxJsonRpcMessage<RoleClient>>,
}

struct Inner {
    client: HttpClient,
    url: String,
    link: Arc<Link>,
    limits: McpLimits,
    session: Mutex<Session>,
    queue: mpsc::Sender<RxJsonRpcMessage<RoleClient>>,
    /// The requests under way; ending one is how a modern request is cancelled.
    under_way: Mutex<HashMap<RequestId, CancellationToken>>,
}

impl HttpTransport {
    pub(super) fn new(client: HttpClient, url: &str, link: Arc<Link>, limits: &McpLimits) -> Self {
        let (queue, incoming) = mpsc::channel(QUEUE);
        let inner = Inner {
            client,
            url: url.to_owned(),
            link,
            limits: *limits,
            session: Mutex::default(),
            queue,
            under_way: Mutex::default(),
        };
        Self { inner: Arc::new(inner), incoming }
    }
}

impl Transport<RoleClient> for HttpTransport {
    type Error = DeliveryError;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), DeliveryError>> + Send + 'static {
        let inner = Arc::clone(&self.inner);
        async move { inner.send(message).await }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        tokio::select! {
            biased;
            message = self.incoming.recv() => message,
            _ = self.inner.link.closed() => None,
        }
    }

    async fn close(&mut self) -> Result<(), DeliveryError> {
        let was_closed = self.inner.link.is_closed();
        self.inner.link.close("the connection was closed");
        if !was_closed && self.inner.session().id.is_some() {
            let request = self.inner.request("DELETE", None);
            let _ = self.inner.client.open(&request, Intent::Write, DELETE_WITHIN).await;
        }
        Ok(())
    }
}

impl Inner {
    async fn send(self: &Arc<Self>, message: TxJsonRpcMessage<RoleClient>) -> Result<(), DeliveryError> {
        if self.ends_request(&message) {
            return Ok(());
        }
        let id = self.link.note(&message);
        let sending = Sending::of(&message);
        let body =
            serde_json::to_value(&message).map_err(|error| DeliveryError::NotSent(error.to_string()))?;
        let request = self.request("POST", Some(&body));
        let intent = sending.as_ref().map_or(Intent::Write, |sending| sending.intent);
        if let Some(sending) = &sending {
            sending.fate.set_sent();
        }
        let cancelled = self.cancellation(id.as_ref());
        let opened = tokio::select! {
            opened = self.client.open(&request, intent, self.limits.call_total) => opened,
            // Only reads are cancelled.
            () = cancelled.cancelled() => return Err(DeliveryError::Lost("it was cancelled".into())),
        };
        let response = match opened {
            Ok(response) => response,
            Err(exchange) => {
                self.forget(id.as_ref());
                let error = delivery_error(exchange);
                if let (Some(sending), DeliveryError::NotSent(_)) = (&sending, &error) {
                    sending.fate.set_not_sent();
                }
                return Err(error);
            }
        };
        let taken = self.take(id, &body, response, cancelled).await;
        if let (Some(sending), Err(DeliveryError::NotSent(_))) = (&sending, &taken) {
            sending.fate.set_not_sent();
        }
        if taken.is_ok() && is_initialized(&message) {
            self.hear_unasked();
        }
        taken
    }

    /// Handles the answer to a POST.
    async fn take(
        self: &Arc<Self>,
        id: Option<RequestId>,
        body: &Value,
        response: Response,
        cancelled: CancellationToken,
    ) -> Result<(), DeliveryError> {
        let status = response.status().as_u16();
        self.session().learn(response.headers(), body);
        let kind = content_type(&response);
        if kind != "text/event-stream" {
            self.forget(id.as_ref());
        }
        if !response.status().is_success() {
            return self.take_error(id, body, response).await;
        }
        match (id, kind.as_str()) {
            (None, _) => Ok(()),
            (Some(id), "text/event-stream") => {
                let (inner, events) = (Arc::clone(self), Events::new(response, self.limits.message_bytes));
                tokio::spawn(async move {
                    tokio::select! {
                        () = inner.read_answer(&id, events) => {}
                        () = cancelled.cancelled() => {}
                        _ = inner.link.closed() => {}
                    }
                    inner.forget(Some(&id));
                });
                Ok(())
            }
            (Some(id), "application/json") => {
                let text = self.read_text(response, self.limits.message_bytes).await?;
                let value: Value = serde_json::from_str(&text).map_err(|error| {
                    DeliveryError::Lost(format!("the server's answer is no JSON: {error}"))
                })?;
                self.session().learn_answer(&value);
                self.deliver(value, &InboundStreamOrigin::OutboundRequest(id)).await;
                Ok(())
            }
            (Some(_), other) => Err(DeliveryError::Lost(format!(
                "the server answered {status} with {other:?} instead of a message"
            ))),
        }
    }

    /// An HTTP error: a message of the protocol, a session that is no more, or a refusal.
    async fn take_error(
        &self,
        id: Option<RequestId>,
        body: &Value,
        response: Response,
    ) -> Result<(), DeliveryError> {
        let status = response.status().as_u16();
        let had_session = self.session().id.is_some() && body["method"] != "initialize";
        let text = self.read_text(response, self.limits.message_bytes).await.unwrap_or_default();
        let value: Option<Value> = serde_json::from_str(&text).ok();
        let error = value
            .as_ref()
            .and_then(|value| serde_json::from_value::<ErrorData>(value.get("error")?.clone()).ok());
        let names_request =
            value.as_ref().is_some_and(|value| value.get("id").is_some_and(|id| !id.is_null()));
        // The specification says 404; servers also say 400, with an error that names no request.
        if had_session && (status == 404 || (status == 400 && !names_request)) {
            self.link.close("the server no longer knows the session");
            return Err(DeliveryError::NotSent("the server no longer knows the session".into()));
        }
        if matches!(status, 502 | 504) {
            return Err(DeliveryError::Lost(format!("HTTP {status}")));
        }
        let is_probe = body["method"] == "server/discover" && !matches!(status, 401 | 403);
        match (id, error) {
            (Some(id), Some(error)) => {
                self.push(ServerJsonRpcMessage::error(error, Some(id))).await;
                Ok(())
            }
            // A server of the older era: the handshake falls back.
            (Some(id), None) if is_probe && status < 500 => {
                let error = ErrorData::invalid_request(format!("HTTP {status}"), None);
                self.push(ServerJsonRpcMessage::error(error, Some(id))).await;
                Ok(())
            }
            _ => {
                let shown: String = text.chars().take(MAX_ERROR_CHARS).collect();
                let message = self.client.secrets().redact(&format!("HTTP {status}: {shown}"));
                Err(DeliveryError::Refused { status, message })
            }
        }
    }

    /// Reads the stream that answers a request, and takes it up again where the server offers that.
    async fn read_answer(&self, id: &RequestId, mut events: Events) {
        let origin = InboundStreamOrigin::OutboundRequest(id.clone());
        for attempt in 0..=MAX_RESUMPTIONS {
            let reason = loop {
                match events.next().await {
                    Ok(Some(value)) => {
                        self.session().learn_answer(&value);
                        let is_answer = value.get("method").is_none();
                        self.deliver(value, &origin).await;
                        if is_answer {
                            return;
                        }
                    }
                    Ok(None) => break "the stream ended without an answer".to_owned(),
                    Err(reason) => break reason,
                }
            };
            let resumed = match events.last_id.clone() {
                Some(last) if attempt < MAX_RESUMPTIONS => {
                    tokio::time::sleep(events.retry_after).await;
                    self.open_stream(Some(last)).await
                }
                _ => None,
            };
            match resumed {
                Some(stream) => events = stream,
                None => return self.push(lost(id.clone(), reason)).await,
            }
        }
    }

    /// Opens the stream on which a legacy server sends what nobody asked for, and keeps it open.
    fn hear_unasked(self: &Arc<Self>) {
        if self.session().id.is_none() {
            return;
        }
        let inner = Arc::clone(self);
        tokio::spawn(async move {
            tokio::select! {
                () = inner.read_unasked() => {}
                _ = inner.link.closed() => {}
            }
        });
    }

    async fn read_unasked(&self) {
        let mut pause = Duration::from_secs(1);
        let mut last = None;
        while let Some(mut events) = self.open_stream(last.take()).await {
            while let Ok(Some(value)) = events.next().await {
                pause = Duration::from_secs(1);
                self.deliver(value, &InboundStreamOrigin::Unassociated).await;
            }
            last = events.last_id.take();
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn open_stream(&self, last_event: Option<String>) -> Option<Events> {
        let mut request = self.request("GET", None);
        request.headers.extend(last_event.map(|last| ("Last-Event-Id".to_owned(), last)));
        let opened = self.client.open(&request, Intent::Read, self.limits.request).await.ok()?;
        let is_stream = opened.status().is_success() && content_type(&opened) == "text/event-stream";
        is_stream.then(|| Events::new(opened, self.limits.message_bytes))
    }

    async fn deliver(&self, value: Value, origin: &InboundStreamOrigin) {
        let value = with_id(value, origin);
        let Some(mut message) = self.link.read(value) else { return };
        if let JsonRpcMessage::Request(request) = &mut message {
            request.request.extensions_mut().insert(origin.clone());
        }
        self.push(message).await;
    }

    async fn push(&self, message: RxJsonRpcMessage<RoleClient>) {
        // It fails only if the connection is being closed.
        let _ = self.queue.send(message).await;
    }

    /// In the modern era a request is cancelled by closing its stream; the notification is not sent.
    fn ends_request(&self, message: &TxJsonRpcMessage<RoleClient>) -> bool {
        let JsonRpcMessage::Notification(notification) = message else { return false };
        let ClientNotification::CancelledNotification(cancelled) = &notification.notification else {
            return false;
        };
        let request = cancelled.params.request_id.as_ref().and_then(|id| self.under_way().remove(id));
        if let Some(request) = request {
            request.cancel();
        }
        self.session().is_modern()
    }

    fn request(&self, method: &str, body: Option<&Value>) -> HttpRequest {
        HttpRequest {
            method: method.to_owned(),
            url: self.url.clone(),
            headers: request_headers(&self.session(), body),
            body: body.map(|body| body.to_string().into_bytes()),
        }
    }

    async fn read_text(&self, response: Response, limit: usize) -> Result<String, DeliveryError> {
        let mut bytes = Vec::new();
        let mut chunks = response.bytes_stream();
        let idle = self.limits.call_silence;
        loop {
            match tokio::time::timeout(idle, chunks.next()).await {
                Ok(Some(Ok(chunk))) => bytes.extend_from_slice(&chunk),
                Ok(Some(Err(error))) => return Err(DeliveryError::Lost(error.without_url().to_string())),
                Ok(None) => return Ok(String::from_utf8_lossy(&bytes).into_owned()),
                Err(_) => return Err(DeliveryError::Lost("the answer stopped half way".into())),
            }
            if bytes.len() > limit {
                return Err(DeliveryError::Lost(format!("the answer is larger than {limit} bytes")));
            }
        }
    }

    fn session(&self) -> std::sync::MutexGuard<'_, Session> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A token that is cancelled when this request is.
    fn cancellation(&self, id: Option<&RequestId>) -> CancellationToken {
        let token = CancellationToken::new();
        if let Some(id) = id {
            self.under_way().insert(id.clone(), token.clone());
        }
        token
    }

    fn forget(&self, id: Option<&RequestId>) {
        if let Some(id) = id {
            self.under_way().remove(id);
        }
    }

    fn under_way(&self) -> std::sync::MutexGuard<'_, HashMap<RequestId, CancellationToken>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn delivery_error(exchange: Exchange) -> DeliveryError {
    match exchange {
        Exchange::NotSent(reason) => DeliveryError::NotSent(reason.to_string()),
        Exchange::Lost(lost) => DeliveryError::Lost(lost.reason),
        Exchange::Answered(answer) => DeliveryError::Lost(format!("HTTP {}", answer.status)),
    }
}

/// An error that answers a POST without naming it belongs to it all the same.
fn with_id(mut value: Value, origin: &InboundStreamOrigin) -> Value {
    let is_error = value.get("error").is_some() && value.get("id").is_none_or(Value::is_null);
    if let (true, InboundStreamOrigin::OutboundRequest(id)) = (is_error, origin)
        && let Ok(id) = serde_json::to_value(id)
    {
        value["id"] = id;
    }
    value
}

fn is_initialized(message: &TxJsonRpcMessage<RoleClient>) -> bool {
    matches!(message, JsonRpcMessage::Notification(notification)
        if matches!(notification.notification, ClientNotification::InitializedNotification(_)))
}

fn content_type(response: &Response) -> String {
    let text =
        response.headers().get("content-type").and_then(|value| value.to_str().ok()).unwrap_or_default();
    text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}
