//! The one place that starts a handler, and the implementation of its `Ctx`.
//!
//! It takes a [`StartPermit`], which only the core can make, from a recorded start. The handler gets exactly the
//! recorded arguments. It is polled by the owner's own task; what it asks and records goes to the owner as messages.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use countersign_core::bounds;
use countersign_core::canonical::Verbatim;
use countersign_core::event::{CallOutcome, Failure, LogLine};
use countersign_core::execution::{Call, StartPermit, Step};
use countersign_core::ids::{CallNo, ExecutionId};
use countersign_sdk::{
    AskReply, AskRequest, CallFacts, ClientRequest, Ctx, CtxHost, LogLevel, Principal, SecretString,
    ToolError, ToolErrorCode,
};
use futures_util::future::{AbortHandle, Abortable, Aborted, BoxFuture};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use serde_json::Value;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::{Notify, oneshot};

use super::questions::{HandlerReply, Question};
use super::{Message, Owner};
use crate::catalog::{CatalogTool, Offered};
use crate::error::GatewayError;
use crate::follow::Told;
use crate::kernel::Kernel;
use crate::redaction::Redaction;

/// The longest log line.
const MAX_LOG_BYTES: usize = 8 * 1024;

/// The state that an execution's owner shares with its handlers.
pub(crate) struct Shared {
    pub(crate) id: ExecutionId,
    logs: Mutex<Vec<(Speaker, LogLine)>>,
    is_cancelled: AtomicBool,
    cancelled: Notify,
}

/// The author of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Speaker {
    /// A tool's handler.
    Handler,
    /// The script; it says the same again when it is replayed.
    Script,
}

/// A handler's message that is to be recorded.
pub(crate) enum FromHandler {
    /// A question to a person.
    Ask(CallNo, Box<Question>, HandlerReply),
    /// A piece of work that must not be repeated.
    Step(CallNo, NewStep, oneshot::Sender<Result<(), ToolError>>),
    /// The handler ended.
    Ended(CallNo, Ended),
}

/// A step that a handler finished.
pub(crate) struct NewStep {
    pub(super) name: String,
    pub(super) value: Verbatim,
    /// How many steps of this name the handler came to, with this one.
    pub(super) nth: usize,
}

/// How a handler ended.
#[derive(Debug, Clone)]
pub(crate) enum Ended {
    /// It has an outcome.
    With(CallOutcome),
    /// It sent a request and got no answer.
    Unknown(Failure),
    /// It panicked.
    Panicked,
}

/// The handlers that run here.
#[derive(Default)]
pub(super) struct Handlers {
    /// None before the first handler is entered: the owner of a new question has none.
    futures: Option<Futures>,
    running: HashMap<CallNo, Running>,
}

type Futures = FuturesUnordered<Abortable<BoxFuture<'static, (CallNo, Ended)>>>;

struct Running {
    abort: AbortHandle,
    /// How many questions this entering of the handler has asked, to match it with what an earlier one asked.
    asks: u32,
}

impl Handlers {
    pub(super) fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.running.len()
    }

    pub(super) fn contains(&self, no: CallNo) -> bool {
        self.running.contains_key(&no)
    }

    pub(super) fn running(&self) -> Vec<CallNo> {
        self.running.keys().copied().collect()
    }

    /// The number of the next question of a call.
    pub(super) fn asks(&self, no: CallNo) -> u32 {
        self.running.get(&no).map_or(0, |running| running.asks)
    }

    /// A question of a call was recorded, or found recorded.
    pub(super) fn count_ask(&mut self, no: CallNo) {
        if let Some(running) = self.running.get_mut(&no) {
            running.asks += 1;
        }
    }

    /// The next handler that ends.
    pub(super) async fn next(&mut self) -> (CallNo, Ended) {
        loop {
            match self.ended().await {
                Some(Ok(ended)) => return ended,
                Some(Err(_aborted)) => {}
                None => std::future::pending().await,
            }
        }
    }

    /// A handler that has ended already, if one has.
    pub(super) fn try_next(&mut self) -> Option<(CallNo, Ended)> {
        self.next().now_or_never()
    }

    async fn ended(&mut self) -> Option<Result<(CallNo, Ended), Aborted>> {
        match &mut self.futures {
            Some(futures) => futures.next().await,
            None => None,
        }
    }

    fn add(&mut self, no: CallNo, handler: impl Future<Output = (CallNo, Ended)> + Send + 'static) {
        let (abort, registration) = AbortHandle::new_pair();
        let futures = self.futures.get_or_insert_with(FuturesUnordered::new);
        futures.push(Abortable::new(handler.boxed(), registration));
        self.running.insert(no, Running { abort, asks: 0 });
    }

    /// The next handler that ends; nothing where none runs.
    pub(super) async fn last_words(&mut self) -> Option<(CallNo, Ended)> {
        loop {
            match self.ended().await? {
                Ok(ended) => return Some(ended),
                Err(_aborted) => {}
            }
        }
    }

    /// The outcome of a handler is recorded.
    pub(super) fn forget(&mut self, no: CallNo) {
        self.running.remove(&no);
    }

    /// Drops a handler whose outcome is no longer needed. Returns other handlers that ended meanwhile.
    pub(super) fn drop_one(&mut self, no: CallNo) -> Vec<(CallNo, Ended)> {
        let Some(running) = self.running.remove(&no) else { return Vec::new() };
        running.abort.abort();
        std::iter::from_fn(|| self.try_next()).filter(|(ended, _)| *ended != no).collect()
    }

    /// Ends all of them.
    pub(super) fn drop_all(&mut self) {
        self.futures = None;
        self.running.clear();
    }
}

impl Owner {
    /// Enters a handler. The only call of a handler in the product is in [`HandlerHost::run`].
    pub(super) fn enter(&mut self, permit: StartPermit) {
        let no = permit.call();
        self.unconfirmed.remove(&no);
        let gone =
            || Failure::new("approval_void", "The tool changed before the call could start; call again.");
        let found = self.execution().call(no).map(|call| (call, self.kernel.catalog.offered(call)));
        // The start was recorded a moment ago, and a source may have changed since: what runs is what was asked about (R14).
        let Some((call, Offered::Same(tool))) = found else {
            let failed = Ended::With(CallOutcome::Failed(gone()));
            return self.said.push_back(FromHandler::Ended(no, failed));
        };
        let host = Arc::new(self.host_for(call, tool));
        self.accepted();
        self.handlers.add(no, async move { (no, host.run(permit).await) });
    }

    fn host_for(&self, call: &Call, tool: Arc<CatalogTool>) -> HandlerHost {
        let execution = self.execution();
        HandlerHost {
            kernel: Arc::clone(&self.kernel),
            shared: Arc::clone(&self.shared),
            owner: self.address.clone(),
            facts: CallFacts {
                path: call.path.clone(),
                execution_id: self.shared.id.to_string(),
                principal: execution.requester().clone(),
                session: execution.session().clone(),
                idempotency_key: format!("{}.{}", self.shared.id, call.no),
            },
            call: call.no,
            tool,
            redaction: Redaction::default(),
            recorded: call.run().map(|run| run.steps.clone()).unwrap_or_default(),
            steps: Mutex::default(),
        }
    }
}

/// The implementation of a handler's `Ctx`.
struct HandlerHost {
    kernel: Arc<Kernel>,
    shared: Arc<Shared>,
    owner: UnboundedSender<Message>,
    facts: CallFacts,
    call: CallNo,
    tool: Arc<CatalogTool>,
    redaction: Redaction,
    /// The steps that earlier enterings recorded.
    recorded: Vec<Step>,
    /// How many steps of each name this entering came to.
    steps: Mutex<HashMap<String, usize>>,
}

impl HandlerHost {
    async fn run(self: Arc<Self>, permit: StartPermit) -> Ended {
        let ctx = Ctx::new(self.facts.clone(), Arc::clone(&self) as Arc<dyn CtxHost>);
        let entered = AssertUnwindSafe(async { permit.enter(self.tool.tool(), ctx).await });
        match entered.catch_unwind().await {
            Ok(result) => self.ended(result),
            Err(_) => {
                tracing::error!(execution = %self.shared.id, tool = %self.tool.path(), "a handler panicked");
                Ended::Panicked
            }
        }
    }

    fn ended(&self, result: Result<Value, ToolError>) -> Ended {
        let failure = |code: &str, message: String| {
            let (code, mut message) = (self.redaction.text(code.to_owned()), self.redaction.text(message));
            message.truncate(message.floor_char_boundary(bounds::MAX_TEXT_BYTES));
            Failure::new(code, message)
        };
        let failed = |code: &str, message: String| Ended::With(CallOutcome::Failed(failure(code, message)));
        let value = match result {
            Ok(value) => self.redaction.value(value),
            Err(error) => {
                if let Some(cause) = error.cause() {
                    let cause = self.redaction.text(cause.to_string());
                    tracing::warn!(execution = %self.shared.id, tool = %self.tool.path(), cause, "the tool failed");
                }
                let mut failure = failure(error.code().as_str(), error.message().to_owned());
                failure.details = error.details().and_then(|details| self.kept_details(details));
                return match error.code() {
                    ToolErrorCode::OutcomeUnknown => Ended::Unknown(failure),
                    _ => Ended::With(CallOutcome::Failed(failure)),
                };
            }
        };
        if let Err(violations) = self.tool.tool().check_output(&value) {
            let text = violations.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
            return failed("invalid_output", format!("The tool's output does not fit its schema: {text}"));
        }
        match Verbatim::carrying(value) {
            Ok(value) => Ended::With(CallOutcome::Succeeded(value)),
            Err(e) => failed(e.code(), format!("The tool ran, but {e}.")),
        }
    }

    /// The details of a failure as they are recorded; none where they are beyond their bound.
    fn kept_details(&self, details: &Value) -> Option<Verbatim> {
        let kept = Verbatim::of(&self.redaction.value(details.clone())).ok();
        kept.filter(|kept| kept.as_str().len() <= bounds::MAX_FAILURE_DETAILS_BYTES)
    }

    /// The recorded value of a step; steps of one name are matched in order.
    fn recorded_step(&self, name: &str) -> Option<Value> {
        let name = self.redaction.text(name.to_owned());
        let mut steps = self.steps();
        let nth = steps.entry(name.clone()).or_default();
        *nth += 1;
        let step = self.recorded.iter().filter(|step| step.name == name).nth(*nth - 1);
        step.map(|step| step.value.to_value())
    }

    async fn write_step(&self, name: &str, value: Value) -> Result<(), ToolError> {
        let name = self.redaction.text(name.to_owned());
        let value = Verbatim::of(&self.redaction.value(value))
            .map_err(|e| ToolError::with_code(e.code(), e.to_string()))?;
        let nth = self.steps().get(&name).copied().unwrap_or(1);
        let step = NewStep { name, value, nth };
        self.tell_owner(|reply| FromHandler::Step(self.call, step, reply)).await
    }

    async fn ask_owner(&self, request: AskRequest) -> Result<AskReply, ToolError> {
        let question = Box::new(Question::checked(request, &self.redaction)?);
        self.tell_owner(|reply| FromHandler::Ask(self.call, question, reply)).await
    }

    /// Sends something to the owner and waits for its answer. The owner outlives its handlers, unless the process ends.
    async fn tell_owner<T>(
        &self,
        said: impl FnOnce(oneshot::Sender<Result<T, ToolError>>) -> FromHandler,
    ) -> Result<T, ToolError> {
        let (reply, answer) = oneshot::channel();
        let stopped = || ToolError::coded(ToolErrorCode::Cancelled, "The execution was stopped.");
        self.owner.send(Message::Handler(said(reply))).map_err(|_| stopped())?;
        answer.await.map_err(|_| stopped())?
    }

    async fn find_token(&self, provider: &str) -> Result<SecretString, ToolError> {
        let refuse = |text: String| ToolError::coded(ToolErrorCode::AuthNotAvailable, text);
        let declared = self.tool.providers().iter().find(|p| p.id == provider);
        let declared = declared
            .ok_or_else(|| refuse(format!("The plugin declares no auth provider \"{provider}\".")))?;
        let principal: &Principal = &self.facts.principal;
        let found = self.kernel.credentials.token(declared, principal).await;
        let found =
            found.map_err(|cause| refuse("Credentials could not be looked up.".into()).caused_by(cause))?;
        let token = found
            .ok_or_else(|| refuse(format!("No credential for \"{provider}\" is set up for this caller.")))?;
        self.redaction.remember(&token);
        Ok(token)
    }

    fn steps(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.steps.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CtxHost for HandlerHost {
    fn ask(&self, request: AskRequest) -> BoxFuture<'_, Result<AskReply, ToolError>> {
        self.ask_owner(request).boxed()
    }

    fn token<'a>(&'a self, provider: &'a str) -> BoxFuture<'a, Result<SecretString, ToolError>> {
        self.find_token(provider).boxed()
    }

    fn step_recorded<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<Value>, ToolError>> {
        std::future::ready(Ok(self.recorded_step(name))).boxed()
    }

    fn record_step<'a>(&'a self, name: &'a str, value: Value) -> BoxFuture<'a, Result<(), ToolError>> {
        self.write_step(name, value).boxed()
    }

    fn log(&self, level: LogLevel, message: &str, fields: Value) {
        let fields = if fields.is_null() { String::new() } else { format!(" {fields}") };
        let mut message = self.redaction.text(format!("{message}{fields}"));
        if message.len() > MAX_LOG_BYTES {
            message.truncate(message.floor_char_boundary(MAX_LOG_BYTES));
        }
        tracing::debug!(execution = %self.shared.id, tool = %self.tool.path(), ?level, message, "tool log");
        let line = LogLine { level, message };
        self.kernel.followers.tell(self.shared.id, &Told::Log(line.clone()));
        self.shared.log(Speaker::Handler, line, self.kernel.settings.max_log_lines);
    }

    fn progress(&self, mut progress: countersign_sdk::Progress) {
        progress.message = progress.message.map(|message| {
            let mut message = self.redaction.text(message);
            message.truncate(message.floor_char_boundary(MAX_LOG_BYTES));
            message
        });
        self.kernel.followers.tell(self.shared.id, &Told::Progress(progress));
    }

    fn ask_client(&self, request: ClientRequest) -> BoxFuture<'_, Result<Value, ToolError>> {
        let request = ClientRequest { params: self.redaction.value(request.params), ..request };
        self.kernel.calling_clients.ask(self.shared.id, request).boxed()
    }

    fn cancelled(&self) -> BoxFuture<'_, ()> {
        self.shared.cancelled().boxed()
    }
}

impl Shared {
    pub(crate) fn new(id: ExecutionId) -> Arc<Self> {
        Arc::new(Self {
            id,
            logs: Mutex::default(),
            is_cancelled: AtomicBool::new(false),
            cancelled: Notify::new(),
        })
    }

    pub(crate) fn log(&self, speaker: Speaker, line: LogLine, bound: usize) {
        let mut logs = self.locked_logs();
        if logs.len() < bound {
            logs.push((speaker, line));
        }
    }

    /// A script that starts over says everything again.
    pub(crate) fn forget_what_the_script_said(&self) {
        self.locked_logs().retain(|(speaker, _)| *speaker != Speaker::Script);
    }

    pub(crate) fn logs(&self) -> Vec<LogLine> {
        self.locked_logs().iter().map(|(_, line)| line.clone()).collect()
    }

    /// Tells the handlers that somebody wants them to stop.
    pub(crate) fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Release);
        self.cancelled.notify_waiters();
    }

    async fn cancelled(&self) {
        let notified = self.cancelled.notified();
        tokio::pin!(notified);
        notified.as_mut().enable();
        if !self.is_cancelled.load(Ordering::Acquire) {
            notified.await;
        }
    }

    fn locked_logs(&self) -> MutexGuard<'_, Vec<(Speaker, LogLine)>> {
        // Each change to it is one call.
        self.logs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The error that a handler gets for an internal failure.
pub(super) fn unavailable(error: GatewayError) -> ToolError {
    let message = "The gateway could not record it, so it did not happen.";
    let code = match error.code() {
        "unavailable" => ToolErrorCode::Unavailable,
        code => ToolErrorCode::Other(code.into()),
    };
    ToolError::coded(code, message).caused_by(error)
}
