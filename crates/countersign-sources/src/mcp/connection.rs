//! One live connection to a server: requests with deadlines, and an answer whenever the other end goes away.
//!
//! Promise: every request comes to an end. rmcp alone leaves requests pending for ever when a server dies or answers
//! without an id; here the deadline and the liveness are ours.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::model::{ClientRequest, CustomRequest, ServerResult, SubscriptionFilter};
use rmcp::model::{ProtocolVersion, ServerNotification};
use rmcp::service::{
    ClientLifecycleMode, Peer, PeerRequestOptions, RequestHandle, RoleClient, RunningService, ServiceError,
    Subscription, serve_client_with_lifecycle,
};
use rmcp::transport::Transport;
use serde_json::Value;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_util::sync::CancellationToken;

use crate::http::{HttpClient, Intent};
use crate::mcp::call::CallFailure;
use crate::mcp::calls::{Activity, CallInFlight, Calls};
use crate::mcp::config::{Endpoint, Protocol, UpstreamConfig};
use crate::mcp::events::{Events, UpstreamEvent};
use crate::mcp::given_up::GivenUpCalls;
use crate::mcp::handler::Handler;
use crate::mcp::link::{DeliveryError, Fate, LOST_CODE, Link, Sending};

/// The method of a call.
pub(super) const CALL_METHOD: &str = "tools/call";
/// The pauses between two subscriptions.
const FIRST_LISTEN_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_LISTEN_PAUSE: Duration = Duration::from_secs(60);

/// The era that a connection speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Era {
    /// Up to 2025-11-25.
    Legacy,
    /// From 2026-07-28.
    Modern,
}

/// A connection after its handshake.
pub(super) struct Connection {
    peer: Peer<RoleClient>,
    service: Mutex<Option<RunningService<RoleClient, Handler>>>,
    link: Arc<Link>,
    calls: Arc<Calls>,
    given_up: Arc<GivenUpCalls>,
    pub(super) era: Era,
    /// On stdio a legacy server's question does not say which call it belongs to: one call at a time.
    turn: Option<Semaphore>,
    /// The guarded client that its requests go through, for a server behind a URL.
    http: Option<HttpClient>,
}

/// What one request must observe.
pub(super) struct Exchange<'a> {
    pub(super) method: &'static str,
    pub(super) params: Value,
    pub(super) intent: Intent,
    pub(super) call: Arc<CallInFlight>,
    pub(super) cancel: &'a CancellationToken,
}

impl Connection {
    /// Agrees on the protocol over a transport.
    pub(super) async fn open(
        config: &UpstreamConfig,
        transport: impl Transport<RoleClient, Error = DeliveryError> + 'static,
        link: Arc<Link>,
        events: &Events,
    ) -> Result<Self, String> {
        let calls: Arc<Calls> = Arc::new(tokio::sync::Mutex::new(HashMap::new()));
        let given_up = Arc::new(GivenUpCalls::new(config.limits.call_total));
        let shared = (Arc::clone(&calls), Arc::clone(&given_up));
        let handler = Handler::new(config, shared, Arc::clone(&link), Arc::clone(events));
        let served = serve_client_with_lifecycle(handler, transport, lifecycle(config.protocol));
        let service = tokio::select! {
            served = tokio::time::timeout(config.limits.connect, served) => match served {
                Ok(Ok(service)) => service,
                Ok(Err(error)) => return Err(chain(&error)),
                Err(_) => return Err(format!("no handshake within {} s", config.limits.connect.as_secs())),
            },
            reason = link.closed() => return Err(reason),
        };
        let peer = service.peer().clone();
        let is_legacy = peer.peer_info().is_none_or(|info| info.protocol_version.has_initialize());
        let era = if is_legacy { Era::Legacy } else { Era::Modern };
        let one_stream = matches!(config.endpoint, Endpoint::Command(_));
        let turn = (one_stream && era == Era::Legacy && config.may_ask()).then(|| Semaphore::new(1));
        if era == Era::Modern {
            tokio::spawn(listen(peer.clone(), Arc::clone(&link), Arc::clone(events)));
        }
        let service = Mutex::new(Some(service));
        Ok(Self { peer, service, link, calls, given_up, era, turn, http: None })
    }

    /// The same connection, whose requests go through this client.
    pub(super) fn through(self, http: HttpClient) -> Self {
        Self { http: Some(http), ..self }
    }

    /// For how long calls are refused because the server failed repeatedly.
    pub(super) fn pause(&self) -> Option<Duration> {
        self.http.as_ref()?.pause()
    }

    /// Waits until the connection is of no more use and says why.
    pub(super) async fn closed(&self) -> String {
        self.link.closed().await
    }

    pub(super) fn is_closed(&self) -> bool {
        self.link.is_closed()
    }

    /// Ends the connection in good order, within a bound.
    pub(super) async fn close(&self, within: Duration) {
        let service = self.service.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut service) = service {
            let _ = service.close_with_timeout(within).await;
        }
        self.link.close("the connection was closed");
    }

    pub(super) fn capabilities(&self) -> Value {
        let info = self.peer.peer_info();
        info.and_then(|info| serde_json::to_value(&info.capabilities).ok()).unwrap_or_default()
    }

    /// A request that only reads and that nobody watches.
    pub(super) async fn request(
        &self,
        method: &'static str,
        params: Value,
        within: Duration,
    ) -> Result<Value, CallFailure> {
        let call = Arc::new(CallInFlight {
            asker: Arc::new(crate::mcp::call::NobodyToAsk),
            progress: Arc::new(|_| ()),
            activity: Activity::new(within, within),
        });
        let cancel = CancellationToken::new();
        self.exchange(Exchange { method, params, intent: Intent::Read, call, cancel: &cancel }).await
    }

    /// Waits for this connection's turn, where calls go one by one.
    pub(super) async fn turn(
        &self,
        within: Duration,
        cancel: &CancellationToken,
    ) -> Result<Option<SemaphorePermit<'_>>, CallFailure> {
        let Some(turn) = &self.turn else { return Ok(None) };
        tokio::select! {
            permit = turn.acquire() => Ok(permit.ok()),
            () = cancel.cancelled() => Err(CallFailure::Cancelled),
            reason = self.link.closed() => Err(CallFailure::NotSent(reason)),
            () = tokio::time::sleep(within) => Err(CallFailure::NotSent(
                "this server takes one call at a time, and another one is still waiting for its answer".into(),
            )),
        }
    }

    /// Sends a request and waits for its answer, its deadline, its cancellation or the end of the connection.
    pub(super) async fn exchange(&self, exchange: Exchange<'_>) -> Result<Value, CallFailure> {
        let fate = Arc::new(Fate::default());
        let mut request = CustomRequest::new(exchange.method, Some(exchange.params));
        let call = Arc::downgrade(&exchange.call);
        request.extensions.insert(Sending { intent: exchange.intent, fate: Arc::clone(&fate), call });
        let mut handle = self.send(request, &exchange.call).await?;
        let may_cancel = exchange.intent == Intent::Read;
        let answer = tokio::select! {
            biased;
            answer = &mut handle.rx => match answer {
                Ok(Ok(result)) => raw(result),
                Ok(Err(error)) => Err(failure(error, &fate)),
                Err(_) => Err(gone("the connection was closed".into(), &fate)),
            },
            reason = self.link.closed() => Err(gone(reason, &fate)),
            () = exchange.cancel.cancelled(), if may_cancel => Err(CallFailure::Cancelled),
            reason = exchange.call.activity.exceeded() => Err(gone(reason, &fate)),
        };
        let was_call = self.calls.lock().await.remove(&handle.id).is_some();
        let is_unanswered = !matches!(answer, Ok(_) | Err(CallFailure::Refused { .. }));
        if was_call && is_unanswered {
            self.given_up.note(exchange.call.asker.session());
        }
        if may_cancel && is_unanswered && !self.link.is_closed() {
            // The server may stop working on it. A call that may write is never cancelled.
            let cancelling = handle.cancel(Some("nobody waits for it any more".into()));
            tokio::spawn(async move { drop(cancelling.await) });
        }
        answer
    }

    async fn send(
        &self,
        request: CustomRequest,
        call: &Arc<CallInFlight>,
    ) -> Result<RequestHandle<RoleClient>, CallFailure> {
        let mut calls = self.calls.lock().await;
        // Only a call of a tool can ask, so nothing else makes it unclear whose question it is.
        let may_ask = request.method == CALL_METHOD;
        let request = ClientRequest::CustomRequest(request);
        let sent = self.peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await;
        let handle = sent.map_err(|error| CallFailure::NotSent(error.to_string()))?;
        if may_ask {
            calls.insert(handle.id.clone(), Arc::clone(call));
        }
        Ok(handle)
    }
}

fn lifecycle(protocol: Protocol) -> ClientLifecycleMode {
    let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
    match protocol {
        Protocol::Legacy => ClientLifecycleMode::Initialize,
        Protocol::Modern => ClientLifecycleMode::Discover { preferred_versions },
        Protocol::Auto => ClientLifecycleMode::Auto { preferred_versions, legacy_version: None },
    }
}

/// Hears of changed lists from a modern server, which tells them only to those who listen. A stream that ended is opened
/// again; what changed meanwhile is not known, so everything may have.
async fn listen(peer: Peer<RoleClient>, link: Arc<Link>, events: Events) {
    let mut pause = FIRST_LISTEN_PAUSE;
    let mut is_first = true;
    while !link.is_closed() {
        let subscription = tokio::select! {
            subscription = peer.listen(every_list()) => subscription,
            _ = link.closed() => return,
        };
        match subscription {
            Ok(mut subscription) => {
                if !std::mem::take(&mut is_first) {
                    events(UpstreamEvent::ToolsChanged);
                    events(UpstreamEvent::ResourcesChanged);
                    events(UpstreamEvent::PromptsChanged);
                }
                while let Some(event) = next_event(&mut subscription, &link).await {
                    pause = FIRST_LISTEN_PAUSE;
                    events(event);
                }
            }
            Err(ServiceError::McpError(error)) if error.code.0 != LOST_CODE => {
                return tracing::debug!(%error, "the server tells nobody of changes");
            }
            Err(error) => tracing::debug!(%error, "the server cannot be listened to at present"),
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            _ = link.closed() => return,
        }
        pause = (pause * 2).min(LONGEST_LISTEN_PAUSE);
    }
}

fn every_list() -> SubscriptionFilter {
    SubscriptionFilter::builder().tools_list_changed().resources_list_changed().prompts_list_changed().build()
}

/// The next change that concerns us; nothing at the end of the subscription.
async fn next_event(subscription: &mut Subscription, link: &Link) -> Option<UpstreamEvent> {
    loop {
        let next = tokio::select! {
            next = subscription.next() => next,
            _ = link.closed() => return None,
        };
        match next {
            Ok(Some(ServerNotification::ToolListChangedNotification(_))) => {
                return Some(UpstreamEvent::ToolsChanged);
            }
            Ok(Some(ServerNotification::ResourceListChangedNotification(_))) => {
                return Some(UpstreamEvent::ResourcesChanged);
            }
            Ok(Some(ServerNotification::PromptListChangedNotification(_))) => {
                return Some(UpstreamEvent::PromptsChanged);
            }
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => return None,
        }
    }
}

fn raw(result: ServerResult) -> Result<Value, CallFailure> {
    match result {
        ServerResult::CustomResult(result) => Ok(result.0),
        other => serde_json::to_value(other).map_err(|error| CallFailure::Lost(error.to_string())),
    }
}

fn failure(error: ServiceError, fate: &Fate) -> CallFailure {
    match error {
        ServiceError::McpError(error) if error.code.0 == LOST_CODE => {
            CallFailure::Lost(error.message.into_owned())
        }
        ServiceError::McpError(error) => {
            let (code, message) = (error.code.0.into(), error.message.into_owned());
            CallFailure::Refused { code, message, data: error.data }
        }
        ServiceError::TransportSend(error) => match error.error.downcast_ref::<DeliveryError>() {
            Some(DeliveryError::NotSent(reason)) => CallFailure::NotSent(reason.clone()),
            Some(DeliveryError::Lost(reason)) => CallFailure::Lost(reason.clone()),
            Some(DeliveryError::Refused { status, message }) => {
                CallFailure::Refused { code: (*status).into(), message: message.clone(), data: None }
            }
            None => gone(error.to_string(), fate),
        },
        other => gone(other.to_string(), fate),
    }
}

/// No answer will come. Whether the server can have acted depends on what left.
fn gone(reason: String, fate: &Fate) -> CallFailure {
    if fate.is_sent() { CallFailure::Lost(reason) } else { CallFailure::NotSent(reason) }
}

/// An error with everything that caused it.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(deeper) = cause {
        let deeper_text = deeper.to_string();
        if !text.contains(&deeper_text) {
            text.push_str(": ");
            text.push_str(&deeper_text);
        }
        cause = deeper.source();
    }
    text
}
