//! What a transport and the connection above it share: which answers are wanted as they came, and whether the other end
//! is still there.
//!
//! rmcp reads results into its own types. One malformed tool would then spoil a whole list, and fields it does not know
//! would be lost. Our own requests are therefore custom requests, and [`Link::read`] hands their results through as JSON.
//!
//! Promise (R12): whatever comes in loses this source's secrets here, before rmcp logs it or anybody else sees it: results,
//! errors, questions, progress and log messages.
//!
//! Promise: a call is told of its progress in the order in which it came, and before its answer. rmcp hands every notification
//! to a task of its own, so that the last step of a call would be lost to the answer right behind it.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use rmcp::RoleClient;
use rmcp::model::{
    ClientRequest, CustomResult, ErrorData, GetExtensions, GetMeta, JsonRpcMessage,
    ProgressNotificationParam, ProgressToken, RequestId, ServerJsonRpcMessage, ServerResult,
};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::http::Intent;
use crate::mcp::call::ProgressUpdate;
use crate::mcp::calls::CallInFlight;
use crate::secrets::Secrets;

/// The code of errors that we make ourselves where a server left a request without an answer.
pub(super) const LOST_CODE: i32 = -32_099;
/// How many requests a server may leave unanswered before the connection is given up: each holds memory.
pub(super) const MAX_UNANSWERED: usize = 1_000;

/// The state of one connection.
#[derive(Default)]
pub(super) struct Link {
    closed: CancellationToken,
    reason: OnceLock<String>,
    /// Requests whose results are handed through as JSON.
    raw: Mutex<HashSet<RequestId>>,
    /// Calls by the token under which a server tells of their progress.
    progress: Mutex<Vec<(ProgressToken, Weak<CallInFlight>)>>,
    secrets: Secrets,
}

/// What the transport must know about a request, and what it says back. Travels in the request's extensions, never on
/// the wire.
#[derive(Clone)]
pub(super) struct Sending {
    pub(super) intent: Intent,
    pub(super) fate: Arc<Fate>,
    /// The call that it belongs to, which is told of progress.
    pub(super) call: Weak<CallInFlight>,
}

/// Whether a request can have reached the server.
#[derive(Default)]
pub(super) struct Fate {
    sent: AtomicBool,
}

/// Why a transport did not deliver a message.
#[derive(Debug, Clone, thiserror::Error)]
pub(super) enum DeliveryError {
    /// The server cannot have acted on it.
    #[error("{0}")]
    NotSent(String),
    /// It may have acted on it.
    #[error("{0}")]
    Lost(String),
    /// It answered that it does not take it.
    #[error("{message}")]
    Refused { status: u16, message: String },
}

impl Fate {
    pub(super) fn set_sent(&self) {
        self.sent.store(true, Ordering::SeqCst);
    }

    /// The transport learned that nothing had left after all, or that the server refused to take it.
    pub(super) fn set_not_sent(&self) {
        self.sent.store(false, Ordering::SeqCst);
    }

    pub(super) fn is_sent(&self) -> bool {
        self.sent.load(Ordering::SeqCst)
    }
}

impl Sending {
    pub(super) fn of(message: &TxJsonRpcMessage<RoleClient>) -> Option<Self> {
        match message {
            JsonRpcMessage::Request(request) => request.request.extensions().get::<Self>().cloned(),
            _ => None,
        }
    }
}

impl Link {
    pub(super) fn new(secrets: Secrets) -> Self {
        Self { secrets, ..Self::default() }
    }

    /// Notes that the connection is of no more use. The first reason counts.
    pub(super) fn close(&self, reason: impl Into<String>) {
        let _ = self.reason.set(reason.into());
        self.closed.cancel();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.is_cancelled()
    }

    /// Waits until the connection is of no more use and says why.
    pub(super) async fn closed(&self) -> String {
        self.closed.cancelled().await;
        self.reason.get().cloned().unwrap_or_default()
    }

    /// Looks at a message on its way out. Answers its id if it is a request.
    pub(super) fn note(&self, message: &TxJsonRpcMessage<RoleClient>) -> Option<RequestId> {
        let JsonRpcMessage::Request(request) = message else { return None };
        if let (Some(sending), Some(token)) =
            (Sending::of(message), request.request.get_meta().get_progress_token())
        {
            let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
            progress.retain(|(_, call)| call.strong_count() > 0);
            progress.push((token, sending.call));
        }
        if matches!(request.request, ClientRequest::CustomRequest(_)) {
            let mut raw = self.raw();
            raw.insert(request.id.clone());
            if raw.len() > MAX_UNANSWERED {
                self.close(format!("the server left {MAX_UNANSWERED} requests unanswered"));
            }
        }
        Some(request.id.clone())
    }

    /// Reads a message on its way in. One that is no message of the protocol is dropped, unless it answers a request:
    /// then it becomes an error, because nothing else will answer it.
    pub(super) fn read(&self, value: Value) -> Option<RxJsonRpcMessage<RoleClient>> {
        let value = self.secrets.redact_value(value);
        self.tell_progress(&value);
        let answers = value.get("method").is_none().then(|| id_of(&value)).flatten();
        if let Some(id) = &answers
            && let Some(id) = self.take_raw(id)
            && let Some(result) = value.get("result")
        {
            let result = ServerResult::CustomResult(CustomResult::new(result.clone()));
            return Some(ServerJsonRpcMessage::response(result, id));
        }
        match serde_json::from_value(value) {
            Ok(message) => Some(message),
            Err(error) => {
                tracing::debug!(%error, "the server sent something that is no MCP message");
                answers.map(|id| lost(id, format!("the server's answer is no MCP message: {error}")))
            }
        }
    }

    fn tell_progress(&self, message: &Value) {
        if message.get("method").and_then(Value::as_str) != Some("notifications/progress") {
            return;
        }
        let params = message.get("params").cloned().unwrap_or_default();
        let Ok(params) = serde_json::from_value::<ProgressNotificationParam>(params) else { return };
        let is_its = |(token, _): &&(ProgressToken, _)| *token == params.progress_token;
        let call = {
            let progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
            progress.iter().find(is_its).and_then(|(_, call)| call.upgrade())
        };
        if let Some(call) = call {
            call.tell(ProgressUpdate {
                progress: params.progress,
                total: params.total,
                message: params.message,
            });
        }
    }

    fn take_raw(&self, id: &RequestId) -> Option<RequestId> {
        let mut raw = self.raw();
        if let Some(found) = raw.take(id) {
            return Some(found);
        }
        // Some servers answer the request 7 with the id "7".
        let RequestId::String(text) = id else { return None };
        raw.take(&RequestId::Number(text.parse().ok()?))
    }

    fn raw(&self) -> std::sync::MutexGuard<'_, HashSet<RequestId>> {
        self.raw.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An answer of ours to a request that the server will not answer.
pub(super) fn lost(id: RequestId, message: impl Into<String>) -> RxJsonRpcMessage<RoleClient> {
    let error = ErrorData::new(rmcp::model::ErrorCode(LOST_CODE), message.into(), None);
    ServerJsonRpcMessage::error(error, Some(id))
}

fn id_of(value: &Value) -> Option<RequestId> {
    serde_json::from_value(value.get("id")?.clone()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::calls::Activity;
    use rmcp::model::{ClientJsonRpcMessage, CustomRequest};
    use serde_json::json;
    use std::time::Duration;

    fn asked(id: i64) -> Link {
        let link = Link::default();
        let request = ClientRequest::CustomRequest(CustomRequest::new("tools/list", None));
        link.note(&ClientJsonRpcMessage::request(request, RequestId::Number(id)));
        link
    }

    fn result(message: Option<RxJsonRpcMessage<RoleClient>>) -> Value {
        match message {
            Some(JsonRpcMessage::Response(response)) => match response.result {
                ServerResult::CustomResult(result) => result.0,
                other => panic!("read into a type: {other:?}"),
            },
            other => panic!("no response: {other:?}"),
        }
    }

    #[test]
    fn a_call_is_told_of_its_progress_in_order_and_before_anything_behind_it_is_read() {
        let told = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&told);
        let call = Arc::new(CallInFlight {
            asker: Arc::new(crate::mcp::call::NobodyToAsk),
            progress: Arc::new(move |update| heard.lock().unwrap().push(update.progress)),
            activity: Activity::new(Duration::MAX, Duration::MAX),
        });
        let mut request = CustomRequest::new("tools/call", None);
        let sending = Sending { intent: Intent::Read, fate: Arc::default(), call: Arc::downgrade(&call) };
        request.extensions.insert(sending);
        request.get_meta_mut().set_progress_token(ProgressToken(RequestId::Number(7)));
        let link = Link::default();
        let request = ClientRequest::CustomRequest(request);
        link.note(&ClientJsonRpcMessage::request(request, RequestId::Number(3)));
        let step = |token: i64, step: f64| {
            let params = json!({ "progressToken": token, "progress": step });
            link.read(json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params }));
        };
        for (token, done) in [(7, 1.0), (8, 5.0), (7, 2.0)] {
            step(token, done);
        }
        assert_eq!(*told.lock().unwrap(), [1.0, 2.0], "another call's progress is not its own");
        drop(call);
        step(7, 3.0);
        assert_eq!(told.lock().unwrap().len(), 2, "a call that is over hears nothing");
    }

    #[test]
    fn the_result_of_our_own_request_comes_through_as_it_was_whatever_it_looks_like() {
        for answer in
            [json!({ "tools": [{ "name": 7 }], "x": 1 }), json!({}), json!([1]), json!({ "content": [] })]
        {
            let value = json!({ "jsonrpc": "2.0", "id": 3, "result": answer });
            assert_eq!(result(asked(3).read(value)), answer);
        }
        let value = json!({ "jsonrpc": "2.0", "id": "3", "result": { "x": 1 } });
        assert_eq!(result(asked(3).read(value)), json!({ "x": 1 }));
    }

    #[test]
    fn every_message_loses_its_secrets_on_the_way_in() {
        let secret = countersign_sdk::SecretString::from("canary-9");
        let link = Link::new(Secrets::new([&secret]));
        for message in [
            json!({ "jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": { "message": "canary-9?",
                "requestedSchema": { "type": "object", "properties": {} } } }),
            json!({ "jsonrpc": "2.0", "method": "notifications/progress",
                "params": { "progressToken": 1, "progress": 1, "message": "canary-9" } }),
            json!({ "jsonrpc": "2.0", "id": 3, "error": { "code": 1, "message": "canary-9" } }),
        ] {
            let read = format!("{:?}", link.read(message).unwrap());
            assert!(read.contains("[redacted]") && !read.contains("canary"), "{read}");
        }
    }

    #[test]
    fn a_connection_with_too_many_unanswered_requests_is_given_up() {
        let link = Link::default();
        for id in 0..=MAX_UNANSWERED {
            assert!(!link.is_closed(), "{id}");
            let request = ClientRequest::CustomRequest(CustomRequest::new("tools/call", None));
            let id = RequestId::Number(i64::try_from(id).unwrap());
            link.note(&ClientJsonRpcMessage::request(request, id));
        }
        assert!(link.is_closed());
    }

    #[test]
    fn a_second_answer_to_the_same_request_is_not_handed_through() {
        let link = asked(3);
        let value = json!({ "jsonrpc": "2.0", "id": 3, "result": { "x": 1 } });
        assert_eq!(result(link.read(value.clone())), json!({ "x": 1 }));
        assert!(link.raw().is_empty());
        assert!(!matches!(link.read(value), Some(JsonRpcMessage::Error(_))));
    }

    #[test]
    fn an_answer_that_is_no_message_becomes_an_error_and_other_noise_is_dropped() {
        assert!(matches!(
            asked(3).read(json!({ "jsonrpc": "2.0", "id": 3, "error": "not an object" })),
            Some(JsonRpcMessage::Error(_))
        ));
        assert!(asked(3).read(json!("noise")).is_none());
        assert!(asked(3).read(json!({ "hello": 1 })).is_none());
    }
}
