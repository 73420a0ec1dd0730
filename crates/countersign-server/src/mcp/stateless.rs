//! Tool calls of the 2026-07-28 era, answered without a service of rmcp's for each request.
//!
//! That era has no sessions: a call is one request, and everything said about it is in the response. rmcp serves each request
//! as if it were a session of its own, with four tasks and as many channels, which costs more than a call that only reads costs the
//! gateway. So a call that is as it should be is served here, on the connection's task.
//!
//! Promise: what is served here is what rmcp would serve, and it is answered as rmcp would answer. A request that is unusual
//! in any way goes to rmcp, which says what is wrong with it. Work that was begun comes to its end also where the client is gone.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use countersign_kernel::Caller;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, stream};
use rmcp::model::{
    CallToolRequestParams, ClientCapabilities, ErrorCode, ProtocolVersion, RequestId, RequestMetaObject,
    ServerJsonRpcMessage, ServerNotification, ServerResult,
};
use serde::Deserialize;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::cancelling;
use super::handler::{Front, Handler};
use super::requests::{Era, Incoming, RequestScope, ToClient};

const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");
const BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");
const CALL: &str = "tools/call";
const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";
/// The prefix of a name that is encoded in its header because it is not plain text.
const ENCODED: &str = "=?";
/// How many notifications may wait to be sent.
const BACKLOG: usize = 64;
/// How often a client is shown that a stream is alive.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// A call that is served here.
pub(super) struct StatelessCall {
    id: RequestId,
    params: CallToolRequestParams,
    meta: RequestMetaObject,
    capabilities: ClientCapabilities,
    /// The name that the client gives the call, for cancelling it.
    name: Option<String>,
}

/// The message of a call. One with other fields is rmcp's to refuse.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Message<'a> {
    jsonrpc: &'a str,
    id: RequestId,
    method: &'a str,
    params: CallToolRequestParams,
}

/// The answer to a call, and what is said until then.
struct Answering {
    answer: DetachOnDrop<ServerJsonRpcMessage>,
    said: Option<mpsc::Receiver<ServerNotification>>,
}

/// Work that is polled here for as long as somebody waits for it, and goes on as a task of its own when nobody does any more.
struct DetachOnDrop<T: Send + 'static> {
    work: Option<BoxFuture<'static, T>>,
    /// Tells the work that nobody waits.
    gone: CancellationToken,
}

impl StatelessCall {
    /// The call that a request is; none where it is something else, or rmcp has to say what is wrong with it.
    pub(super) fn read(head: &Parts, body: &[u8], front: &Front) -> Option<Self> {
        let headers = &head.headers;
        if head.method != Method::POST
            || only(headers, &VERSION)? != ProtocolVersion::V_2026_07_28.as_str()
            || only(headers, &METHOD)? != CALL
            || !only(headers, &header::CONTENT_TYPE)?.starts_with(JSON)
        {
            return None;
        }
        let accepted = only(headers, &header::ACCEPT)?;
        if !accepted.contains(JSON) || !accepted.contains(EVENTS) {
            return None;
        }
        let Message { jsonrpc, id, method, mut params } = serde_json::from_slice(body).ok()?;
        let named = only(headers, &NAME)?;
        if jsonrpc != "2.0" || method != CALL || named != params.name || named.starts_with(ENCODED) {
            return None;
        }
        let meta = params.meta.take()?;
        if meta.protocol_version()? != ProtocolVersion::V_2026_07_28 || !front.serves_stateless(named) {
            return None;
        }
        let capabilities = meta.client_capabilities()?;
        let name = cancelling::name_in(headers).map(str::to_owned);
        Some(Self { id, params, meta, capabilities, name })
    }

    /// Answers the call.
    pub(super) async fn answer(self, front: Arc<Front>, caller: Caller) -> Response {
        let listens = self.meta.get_progress_token().is_some() || self.meta.log_level().is_some();
        let (client, said) = if listens {
            let (say, said) = mpsc::channel(BACKLOG);
            (ToClient::Response(say), Some(said))
        } else {
            (ToClient::Silent, None)
        };
        let gone = CancellationToken::new();
        let work = self.message(front, caller, client, gone.clone()).boxed();
        let mut answering = Answering { answer: DetachOnDrop { work: Some(work), gone }, said };
        match answering.next().await {
            Next::Answered(said, answer) if said.is_empty() => whole(&answer),
            Next::Answered(mut events, answer) => {
                events.push(answer);
                streamed(stream::once(std::future::ready(Ok(written(&events)))))
            }
            Next::Said(first) => {
                let rest = stream::unfold(Some((vec![first], answering)), go_on);
                streamed(rest)
            }
        }
    }

    /// The message that answers the call.
    async fn message(
        self,
        front: Arc<Front>,
        caller: Caller,
        client: ToClient,
        gone: CancellationToken,
    ) -> ServerJsonRpcMessage {
        let Self { id, params, meta, capabilities, name } = self;
        let handler = Handler::new(front);
        let scope = RequestScope { id: &id, meta: &meta, ct: &gone, client, call_name: name.as_deref() };
        let incoming = Incoming::new(&handler.front, None, caller, scope, Era::July2026, &capabilities);
        let answered = handler.answer_named(&params, &incoming.calling(&params)).await;
        match answered {
            Ok(response) => ServerJsonRpcMessage::response(ServerResult::from(response), id),
            Err(error) => ServerJsonRpcMessage::error(error, Some(id)),
        }
    }
}

/// The next message for a client.
enum Next {
    /// Notifications, while the answer is awaited.
    Said(ServerJsonRpcMessage),
    /// The answer, after the last notifications.
    Answered(Vec<ServerJsonRpcMessage>, ServerJsonRpcMessage),
}

impl Answering {
    async fn next(&mut self) -> Next {
        let Self { answer, said } = self;
        let notified = async {
            match said {
                Some(said) => said.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            Some(notification) = notified => Next::Said(ServerJsonRpcMessage::notification(notification)),
            answer = &mut *answer => Next::Answered(self.left_to_say(), answer),
        }
    }

    fn left_to_say(&mut self) -> Vec<ServerJsonRpcMessage> {
        let left = self.said.iter_mut().flat_map(|said| std::iter::from_fn(|| said.try_recv().ok()));
        left.map(ServerJsonRpcMessage::notification).collect()
    }
}

/// The next piece of a stream: what is to be sent already, or what comes next.
async fn go_on(
    state: Option<(Vec<ServerJsonRpcMessage>, Answering)>,
) -> Option<(Result<Bytes, Infallible>, Option<(Vec<ServerJsonRpcMessage>, Answering)>)> {
    let (first, mut answering) = state?;
    if !first.is_empty() {
        return Some((Ok(written(&first)), Some((Vec::new(), answering))));
    }
    match tokio::time::timeout(KEEP_ALIVE, answering.next()).await {
        // A comment, which clients skip.
        Err(_) => Some((Ok(Bytes::from_static(b":\n\n")), Some((Vec::new(), answering)))),
        Ok(Next::Said(said)) => Some((Ok(written(&[said])), Some((Vec::new(), answering)))),
        Ok(Next::Answered(mut events, answer)) => {
            events.push(answer);
            Some((Ok(written(&events)), None))
        }
    }
}

/// Messages as events of a stream.
fn written(messages: &[ServerJsonRpcMessage]) -> Bytes {
    let mut text = Vec::new();
    for message in messages {
        text.extend_from_slice(b"data: ");
        text.extend_from_slice(&json(message));
        text.extend_from_slice(b"\n\n");
    }
    text.into()
}

fn json(message: &ServerJsonRpcMessage) -> Vec<u8> {
    // Values and strings alone: there is nothing in it that JSON cannot write.
    serde_json::to_vec(message).unwrap_or_default()
}

/// An answer that nothing came before.
fn whole(answer: &ServerJsonRpcMessage) -> Response {
    let mut response = Response::new(Body::from(json(answer)));
    *response.status_mut() = status(answer);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(JSON));
    response
}

fn streamed(events: impl stream::Stream<Item = Result<Bytes, Infallible>> + Send + 'static) -> Response {
    let mut response = Response::new(Body::from_stream(events));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(EVENTS));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(BUFFERING, HeaderValue::from_static("no"));
    response
}

/// The status that rmcp gives such an answer.
fn status(answer: &ServerJsonRpcMessage) -> StatusCode {
    let ServerJsonRpcMessage::Error(error) = answer else { return StatusCode::OK };
    match error.error.code {
        ErrorCode::UNSUPPORTED_PROTOCOL_VERSION
        | ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY
        | ErrorCode::HEADER_MISMATCH => StatusCode::BAD_REQUEST,
        ErrorCode::METHOD_NOT_FOUND => StatusCode::NOT_FOUND,
        _ => StatusCode::OK,
    }
}

/// A header that is there once, as text.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

impl<T: Send + 'static> Future for DetachOnDrop<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let Some(work) = &mut self.work else { return Poll::Pending };
        let polled = work.as_mut().poll(cx);
        if polled.is_ready() {
            self.work = None;
        }
        polled
    }
}

impl<T: Send + 'static> Drop for DetachOnDrop<T> {
    fn drop(&mut self) {
        let Some(work) = self.work.take() else { return };
        self.gone.cancel();
        // Without a runtime the process ends.
        if let Ok(runtime) = Handle::try_current() {
            drop(runtime.spawn(work));
        }
    }
}
