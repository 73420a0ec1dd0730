//! An upstream MCP server that is kept connected.
//!
//! Promises: a server that ended is started again, with growing pauses and within bounds, and its sessions are made anew.
//! Every call comes to an end that says whether the server can have acted. A call that may write is sent at most once and
//! is never cancelled, whoever stops waiting for it. When this value is dropped, the server's processes end.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use countersign_sdk::McpRequest;
use serde_json::{Map, Value, json};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::http::Intent;
use crate::mcp::call::{Call, CallAnswer, CallFailure, CallOutcome, Question, Reply, Round};
use crate::mcp::calls::{Activity, CallInFlight};
use crate::mcp::client_side::ClientSide;
use crate::mcp::config::UpstreamConfig;
use crate::mcp::connection::{CALL_METHOD, Connection, Era, Exchange};
use crate::mcp::dial::{Dialed, dial, secrets};
use crate::mcp::events::{Events, UpstreamEvent};
use crate::mcp::handler::elicit_result;
use crate::mcp::listing::{Listed, list};
use crate::mcp::mapping;
use crate::mcp::requests;
use crate::mcp::supervisor::{Status, supervise};
use crate::offer::{Offer, OfferedTool};
use crate::secrets::Secrets;

/// How often a modern server may ask during one call.
pub const MAX_ROUNDS: u32 = 10;

/// Why a server cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the MCP server {source_name} cannot be reached: {reason}")]
pub struct ConnectError {
    source_name: String,
    reason: String,
}

/// How a tool differs from what was accepted.
#[derive(Debug, Clone, PartialEq)]
pub enum Difference {
    /// It is as it was.
    None,
    /// The server no longer offers it.
    Gone,
    /// The server offers it otherwise.
    Changed(Box<OfferedTool>),
}

/// An upstream MCP server.
pub struct Upstream {
    shared: Arc<Shared>,
    supervisor: Mutex<Option<JoinHandle<()>>>,
    _stop: DropGuard,
}

pub(super) struct Shared {
    pub(super) config: UpstreamConfig,
    pub(super) events: Events,
    pub(super) status: watch::Sender<Status>,
    pub(super) stop: CancellationToken,
    /// Somebody wants a server that was left off to be started again.
    pub(super) revive: Notify,
    pub(super) secrets: Secrets,
}

impl Upstream {
    /// Starts or reaches the server and agrees on the protocol.
    pub async fn connect(config: UpstreamConfig, events: Events) -> Result<Self, ConnectError> {
        let secrets = secrets(&config);
        let dialed = dial(&config, &events).await.map_err(|reason| ConnectError {
            source_name: config.name.clone(),
            reason: secrets.redact(&reason),
        })?;
        Ok(Self::supervised(config, events, Some(dialed)))
    }

    /// Starts or reaches the server in the background, for a source that is configured already: calls wait for it a
    /// while, and [`UpstreamEvent::Connected`] tells when it is there.
    pub fn start(config: UpstreamConfig, events: Events) -> Self {
        Self::supervised(config, events, None)
    }

    fn supervised(config: UpstreamConfig, events: Events, dialed: Option<Dialed>) -> Self {
        let secrets = secrets(&config);
        let first = dialed.as_ref().map(|dialed| Status::Ready(Arc::clone(&dialed.connection)));
        let (status, _) = watch::channel(first.unwrap_or(Status::Down));
        let stop = CancellationToken::new();
        let shared =
            Arc::new(Shared { config, events, status, stop: stop.clone(), revive: Notify::new(), secrets });
        let supervisor = tokio::spawn(supervise(Arc::clone(&shared), dialed));
        Self { shared, supervisor: Mutex::new(Some(supervisor)), _stop: stop.drop_guard() }
    }

    /// Lists the server's tools as an offer.
    pub async fn offer(&self) -> Result<Offer, CallFailure> {
        let listed = self.listed("tools/list", "tools").await;
        let capabilities = self.capabilities().await?;
        let listed = match listed {
            // A server may have resources or prompts and no tools.
            Err(CallFailure::Refused { .. }) if capabilities.get("tools").is_none() => Listed::default(),
            listed => listed?,
        };
        let requests = requests::offered(&capabilities);
        let beside = mapping::Beside { requests, warnings: listed.warnings };
        Ok(mapping::offer(listed.items, self.shared.config.annotations, beside))
    }

    /// Lists anew and compares one tool with what was accepted. To be asked right before a destructive call: a server may
    /// change a definition between listing and call. A difference is told as [`UpstreamEvent::ToolsChanged`], so that the source
    /// is read anew and people are shown it.
    pub async fn difference(&self, accepted: &OfferedTool) -> Result<Difference, CallFailure> {
        let offer = self.offer().await?;
        let now = offer.tools.into_iter().find(|tool| tool.origin == accepted.origin);
        let difference = match now {
            None => Difference::Gone,
            // The name is ours: it may be an override, or have come from a collision that is no more.
            Some(tool) if (OfferedTool { name: accepted.name.clone(), ..tool.clone() }) == *accepted => {
                Difference::None
            }
            Some(tool) => Difference::Changed(Box::new(tool)),
        };
        if difference != Difference::None {
            (self.shared.events)(UpstreamEvent::ToolsChanged);
        }
        Ok(difference)
    }

    /// Calls a tool. Dropping the future cancels a read; a call that may write goes on to its end, unobserved.
    pub async fn call(&self, call: Call) -> Result<CallOutcome, CallFailure> {
        let shared = Arc::clone(&self.shared);
        let cancel = call.cancel.child_token();
        let _cancel_on_drop = (call.intent == Intent::Read).then(|| cancel.clone().drop_guard());
        let task = tokio::spawn(async move { shared.call(call, &cancel).await });
        let outcome = match task.await {
            Ok(outcome) => outcome,
            Err(error) => Err(CallFailure::Lost(error.to_string())),
        };
        outcome.map_err(|failure| failure.redacted(&self.shared.secrets))
    }

    /// For how long calls are refused because the server failed repeatedly; nothing where they are not, and for a program that is
    /// started, which is restarted instead.
    pub fn pause(&self) -> Option<Duration> {
        match &*self.shared.status.borrow() {
            Status::Ready(connection) => connection.pause(),
            Status::Down | Status::Off { .. } => None,
        }
    }

    /// The era of the present connection.
    pub async fn era(&self) -> Result<Era, CallFailure> {
        Ok(self.shared.connection().await?.era)
    }

    /// What the server says that it can do.
    pub async fn capabilities(&self) -> Result<Value, CallFailure> {
        Ok(self.shared.connection().await?.capabilities())
    }

    /// The server's resources.
    pub async fn resources(&self) -> Result<Vec<Value>, CallFailure> {
        Ok(self.listed("resources/list", "resources").await?.items)
    }

    /// The templates of the server's resources.
    pub async fn resource_templates(&self) -> Result<Vec<Value>, CallFailure> {
        Ok(self.listed("resources/templates/list", "resourceTemplates").await?.items)
    }

    /// Reads a resource: the result of `resources/read`.
    pub async fn read_resource(&self, uri: &str) -> Result<Value, CallFailure> {
        self.request("resources/read", json!({ "uri": uri })).await
    }

    /// The server's prompts.
    pub async fn prompts(&self) -> Result<Vec<Value>, CallFailure> {
        Ok(self.listed("prompts/list", "prompts").await?.items)
    }

    /// Gets a prompt: the result of `prompts/get`.
    pub async fn prompt(&self, name: &str, arguments: Map<String, Value>) -> Result<Value, CallFailure> {
        self.request("prompts/get", json!({ "name": name, "arguments": arguments })).await
    }

    /// Sends a request that only reads, with a tool's arguments, and answers its result. A server that asks something before
    /// it answers gets no answer: only calls of its tools can ask.
    pub async fn send(
        &self,
        request: McpRequest,
        arguments: Map<String, Value>,
    ) -> Result<Value, CallFailure> {
        let result = self.request(request.method(), requests::params(request, arguments)).await?;
        if result.get("resultType").and_then(Value::as_str) == Some("input_required") {
            let message = "it asks for input, which only calls of its tools can get".to_owned();
            return Err(CallFailure::Refused { code: 0, message, data: None });
        }
        Ok(requests::value(result))
    }

    /// Starts a server again that was left off because it ended too often.
    pub fn revive(&self) {
        self.shared.revive.notify_one();
    }

    /// Ends the connection and the server in good order.
    pub async fn close(&self) {
        self.shared.stop.cancel();
        let supervisor = self.supervisor.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        if let Some(supervisor) = supervisor {
            let _ = supervisor.await;
        }
    }

    async fn request(&self, method: &'static str, params: Value) -> Result<Value, CallFailure> {
        let within = self.shared.config.limits.request;
        let read = async {
            let connection = self.shared.connection().await?;
            connection.request(method, params.clone(), within).await
        };
        let result = match read.await {
            // Nothing was sent: the session was gone, or the server had just ended.
            Err(CallFailure::NotSent(_)) => {
                self.shared.connection().await?.request(method, params.clone(), within).await
            }
            result => result,
        };
        result.map_err(|failure| failure.redacted(&self.shared.secrets))
    }

    async fn listed(&self, method: &'static str, key: &'static str) -> Result<Listed, CallFailure> {
        let limits = &self.shared.config.limits;
        let first = match self.shared.connection().await {
            Ok(connection) => list(&connection, method, key, limits).await,
            Err(failure) => Err(failure),
        };
        let listed = match first {
            Err(CallFailure::NotSent(_)) => {
                list(&*self.shared.connection().await?, method, key, limits).await
            }
            listed => listed,
        };
        listed.map_err(|failure| failure.redacted(&self.shared.secrets))
    }
}

impl Shared {
    /// The live connection; waits a while for one that is being made.
    pub(super) async fn connection(&self) -> Result<Arc<Connection>, CallFailure> {
        let mut status = self.status.subscribe();
        let ready = async {
            loop {
                let now = status.borrow_and_update().clone();
                match now {
                    Status::Ready(connection) if !connection.is_closed() => return Ok(connection),
                    Status::Off { reason } => return Err(CallFailure::NotSent(reason)),
                    Status::Ready(_) | Status::Down => {}
                }
                if status.changed().await.is_err() {
                    return Err(CallFailure::NotSent("the source was removed".into()));
                }
            }
        };
        tokio::time::timeout(self.config.limits.restart_wait, ready).await.unwrap_or_else(|_| {
            Err(CallFailure::NotSent("the server is not running; it is being restarted".into()))
        })
    }

    async fn call(&self, call: Call, cancel: &CancellationToken) -> Result<CallOutcome, CallFailure> {
        match self.call_once(&call, cancel).await {
            Err(CallFailure::NotSent(reason)) if call.intent == Intent::Read && call.resume.is_none() => {
                tracing::debug!(source = self.config.name, reason, "a read was not sent; trying once more");
                self.call_once(&call, cancel).await
            }
            outcome => outcome,
        }
    }

    async fn call_once(&self, call: &Call, cancel: &CancellationToken) -> Result<CallOutcome, CallFailure> {
        let limits = &self.config.limits;
        let in_flight = Arc::new(CallInFlight {
            asker: Arc::clone(&call.asker),
            progress: Arc::clone(&call.progress),
            activity: Activity::new(limits.call_silence, limits.call_total),
        });
        let mut round = call.resume.clone();
        loop {
            let number = round.as_ref().map_or(0, |round| round.number);
            let answers = match &round {
                Some(round) => Some(self.answer(round, &in_flight).await?),
                None => None,
            };
            let params = call_params(call, round.as_ref(), answers);
            // A modern server keeps nothing between rounds: while people answered it may have been restarted.
            let connection = self.connection().await?;
            if round.is_some() && connection.era == Era::Legacy {
                return Err(CallFailure::NotSent(
                    "the server no longer speaks the era in which it asked".into(),
                ));
            }
            let _turn = connection.turn(limits.turn, cancel).await?;
            in_flight.activity.heard();
            let result = connection
                .exchange(Exchange {
                    method: CALL_METHOD,
                    params,
                    intent: call.intent,
                    call: Arc::clone(&in_flight),
                    cancel,
                })
                .await?;
            match CallAnswer::read(result)? {
                CallAnswer::Done(outcome) => return Ok(outcome),
                CallAnswer::InputRequired { .. } if number >= MAX_ROUNDS => {
                    return Err(CallFailure::Refused {
                        code: 0,
                        message: format!("the server asked more than {MAX_ROUNDS} times"),
                        data: None,
                    });
                }
                CallAnswer::InputRequired { requests, request_state } => {
                    let next = Round { number: number + 1, requests, request_state };
                    call.asker.record(&next).await;
                    round = Some(next);
                }
            }
        }
    }

    /// Answers every request of a round.
    async fn answer(&self, round: &Round, call: &CallInFlight) -> Result<Map<String, Value>, CallFailure> {
        let client = ClientSide::of(&self.config);
        let refused = |message| CallFailure::Refused { code: 0, message, data: None };
        let mut answers = Map::new();
        for (key, request) in &round.requests {
            let answer = match request.get("method").and_then(Value::as_str) {
                Some("elicitation/create") => {
                    let reply = match form_of(request) {
                        Some(question) => call.ask(question).await,
                        None => Reply::Declined,
                    };
                    serde_json::to_value(elicit_result(reply))
                }
                Some("roots/list") => Ok(client.list_roots(Some(call)).await.map_err(refused)?),
                Some("sampling/createMessage") => {
                    let params = request.get("params").cloned().unwrap_or_default();
                    Ok(client.sample(Some(call), params).await.map_err(refused)?)
                }
                method => {
                    let asked = method.unwrap_or("nothing");
                    return Err(refused(format!("it asks for {asked}, which is not served")));
                }
            };
            answers.insert(key.clone(), answer.map_err(|error| CallFailure::NotSent(error.to_string()))?);
        }
        Ok(answers)
    }
}

fn call_params(call: &Call, round: Option<&Round>, answers: Option<Map<String, Value>>) -> Value {
    let mut params = json!({ "name": call.tool, "arguments": call.arguments });
    if let Some(answers) = answers {
        params["inputResponses"] = Value::Object(answers);
    }
    if let Some(state) = round.and_then(|round| round.request_state.as_ref()) {
        params["requestState"] = json!(state);
    }
    params
}

fn form_of(request: &Value) -> Option<Question> {
    let params = request.get("params")?;
    if params.get("mode").and_then(Value::as_str).is_some_and(|mode| mode != "form") {
        return None;
    }
    let message = params.get("message")?.as_str()?.to_owned();
    Some(Question { message, schema: params.get("requestedSchema")?.clone() })
}
