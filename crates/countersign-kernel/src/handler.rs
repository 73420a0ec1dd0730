//! The one place that starts a handler.
//!
//! What it takes is a [`StartPermit`], which only the core can make, from a recorded start. The handler gets exactly the
//! recorded arguments. Its panic is its failure and nobody else's.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};

use countersign_core::bounds;
use countersign_core::canonical::Verbatim;
use countersign_core::event::{CallOutcome, EventBody, Failure, LogLine};
use countersign_core::execution::{Next, StartPermit};
use countersign_core::ids::CallNo;
use countersign_sdk::{
    AskReply, AskRequest, CallFacts, Ctx, CtxHost, LogLevel, Principal, SecretString, ToolError,
    ToolErrorCode,
};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::Value;

use crate::backoff::Backoff;
use crate::catalog::{CatalogTool, Offered};
use crate::drive::Flow;
use crate::error::GatewayError;
use crate::follow::Told;
use crate::hooks::HookCall;
use crate::journal::Beside;
use crate::kernel::Kernel;
use crate::live::{Guard, Live, Speaker, State};
use crate::redaction::Redaction;

/// The longest log line.
const MAX_LOG_BYTES: usize = 8 * 1024;

impl Kernel {
    /// Steps 7 to 10: enters the handler and records what became of it, unless it is parked or dropped first.
    pub(crate) async fn run(
        self: &Arc<Self>,
        live: &Arc<Live>,
        permit: StartPermit,
    ) -> Result<Flow, GatewayError> {
        let call = permit.call();
        let ended = tokio::select! {
            biased;
            ended = self.enter(live, permit) => ended,
            state = self.until_parked(live) => return Ok(self.stop(live, state)),
            () = self.until_droppable(live) => return self.drop_cancelled(live).await,
        };
        let mut backoff = Backoff::new(self);
        loop {
            let concluded = match self.lock(live).await {
                Ok(mut state) => match ended.outcome_for(&state, call) {
                    Ok(outcome) => self.conclude(live, state, call, outcome).await,
                    Err(reason) => self.find_in_doubt(&mut state, call, Some(reason)).await,
                },
                Err(error) => Err(error),
            };
            match concluded {
                Ok(flow) => return Ok(flow),
                Err(error) => backoff.pause(error).await?,
            }
        }
    }

    /// The only call of a handler in the product.
    pub(crate) async fn enter(self: &Arc<Self>, live: &Arc<Live>, permit: StartPermit) -> Ended {
        let (facts, tool) = match self.call_facts(live, permit.call()).await {
            Ok(found) => found,
            Err(failure) => return Ended::With(CallOutcome::Failed(failure)),
        };
        let host = Arc::new(HandlerHost {
            kernel: Arc::clone(self),
            live: Arc::clone(live),
            call: permit.call(),
            tool: Arc::clone(&tool),
            principal: facts.principal.clone(),
            redaction: Redaction::default(),
            progress: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
        });
        let ctx = Ctx::new(facts, Arc::clone(&host) as Arc<dyn CtxHost>);
        let entered = AssertUnwindSafe(async { permit.enter(tool.tool(), ctx).await });
        match entered.catch_unwind().await {
            Ok(result) => host.ended(result),
            Err(_) => {
                tracing::error!(execution = %live.id, tool = %tool.path(), "a handler panicked");
                let failure = Failure::new("handler_panicked", "The tool's handler crashed.");
                Ended::With(CallOutcome::Failed(failure))
            }
        }
    }

    /// Records that nobody knows what became of a call. Its open questions are withdrawn: nobody waits for the answers.
    pub(crate) async fn find_in_doubt(
        &self,
        state: &mut State,
        call: CallNo,
        reason: Option<String>,
    ) -> Result<Flow, GatewayError> {
        let mut events = self.withdrawn_of(state, call, "the call is in doubt");
        events.push(EventBody::FoundInDoubt { call, reason });
        self.record(state, events, Beside::default()).await?;
        Ok(Flow::Continue)
    }

    /// Locks an execution, waiting for a failing store to come back: what was approved runs once it is.
    async fn lock_patiently(&self, live: &Arc<Live>) -> Result<Guard, GatewayError> {
        let mut backoff = Backoff::new(self);
        loop {
            match self.lock(live).await {
                Ok(state) => return Ok(state),
                Err(error) => backoff.pause(error).await?,
            }
        }
    }

    async fn call_facts(
        &self,
        live: &Arc<Live>,
        no: CallNo,
    ) -> Result<(CallFacts, Arc<CatalogTool>), Failure> {
        let state = self.lock_patiently(live).await.map_err(|e| Failure::new(e.code(), e.to_string()))?;
        let gone =
            || Failure::new("approval_void", "The tool changed before the call could start; call again.");
        let call = state.execution.call(no).ok_or_else(gone)?;
        // The start was recorded a moment ago, and a source may have changed since: what runs is what was asked about (R14).
        let Offered::Same(tool) = self.catalog.offered(call) else { return Err(gone()) };
        let facts = CallFacts {
            path: call.path.clone(),
            execution_id: live.id.to_string(),
            principal: state.execution.requester().clone(),
            session: state.execution.session().clone(),
            idempotency_key: format!("{}.{no}", live.id),
        };
        Ok((facts, tool))
    }

    /// Steps 9 and 10 for a call with an outcome: recorded with the end of its execution, then the post-hooks.
    pub(crate) async fn conclude(
        self: &Arc<Self>,
        live: &Arc<Live>,
        mut state: Guard,
        no: CallNo,
        outcome: CallOutcome,
    ) -> Result<Flow, GatewayError> {
        let already = match state.execution.next() {
            Next::Done => true,
            Next::Finish(_) => {
                self.record(&mut state, vec![EventBody::finished(outcome.clone())], Beside::default())
                    .await?;
                true
            }
            _ => false,
        };
        if already && !state.unflushed.is_empty() {
            // The store refused to take it the last time; it is kept, not dropped.
            self.flush_soon(&mut state)?;
        }
        if !already {
            let mut events = self.withdrawn(&state, "the call ended without waiting for an answer");
            events.push(EventBody::CallSettled { call: no, outcome: outcome.clone() });
            events.push(EventBody::finished(outcome.clone()));
            if state.is_stored() {
                self.record(&mut state, events, Beside::default()).await?;
            } else {
                self.note(&mut state, events)?;
                self.flush_soon(&mut state)?;
            }
        }
        Ok(self.leave(live, state, no, &outcome).await)
    }

    /// Step 10: the driver's work on a call with a recorded outcome is done, and the post-hooks are told.
    pub(crate) async fn leave(
        self: &Arc<Self>,
        live: &Arc<Live>,
        state: Guard,
        no: CallNo,
        outcome: &CallOutcome,
    ) -> Flow {
        let told = self.to_post_hooks(&state, no, outcome.clone());
        let flow = self.stop(live, state);
        told.await;
        flow
    }

    /// Tells the post-hooks of an outcome; nothing is done before it is awaited.
    pub(crate) fn to_post_hooks(
        self: &Arc<Self>,
        state: &State,
        no: CallNo,
        outcome: CallOutcome,
    ) -> impl Future<Output = ()> + Send + use<> {
        let call = state.execution.call(no).filter(|_| !self.hooks.post.is_empty()).cloned();
        let (principal, session) = (state.execution.requester().clone(), state.execution.session().clone());
        let kernel = Arc::clone(self);
        async move {
            let Some(call) = call else { return };
            let args = call.args.to_value();
            let seen = HookCall {
                path: &call.path,
                effects: call.effects,
                args: &args,
                principal: &principal,
                session: &session,
            };
            kernel.hooks.after(seen, &outcome).await;
        }
    }

    /// Completes when everything the handler waits for is a person and that has taken long enough, or the gateway closes.
    /// The execution comes back locked: a decision that arrives now finds it parked, not half parked. It holds no timer before
    /// the first question.
    async fn until_parked(&self, live: &Arc<Live>) -> Guard {
        loop {
            live.asked.notified().await;
            loop {
                let waiting = self.waiters.join(live.id);
                let changed = waiting.changed.notified();
                tokio::pin!(changed);
                changed.as_mut().enable();
                let long_enough = tokio::select! {
                    biased;
                    () = self.closing() => true,
                    () = changed.as_mut() => false,
                    () = tokio::time::sleep(self.settings.park_after) => true,
                };
                if !long_enough {
                    continue;
                }
                if let Ok(state) = self.lock(live).await {
                    if state.execution.next() == Next::AwaitPeople {
                        return state;
                    }
                    if state.execution.open().next().is_none() {
                        break;
                    }
                }
                changed.await;
            }
        }
    }
}

/// How a handler ended.
#[derive(Debug, Clone)]
pub(crate) enum Ended {
    /// With an outcome.
    With(CallOutcome),
    /// It sent a request and got no answer.
    Unknown(Failure),
}

impl Ended {
    /// The outcome of the call; or, where it must not happen twice and nobody knows whether it happened, why not.
    pub(crate) fn outcome_for(&self, state: &State, call: CallNo) -> Result<CallOutcome, String> {
        match self {
            Self::With(outcome) => Ok(outcome.clone()),
            Self::Unknown(failure)
                if state.execution.call(call).is_some_and(|call| call.must_not_be_repeated()) =>
            {
                Err(failure.message.clone())
            }
            Self::Unknown(failure) => Ok(CallOutcome::Failed(failure.clone())),
        }
    }
}

/// What stands behind a handler's `Ctx`.
pub(crate) struct HandlerHost {
    pub(crate) kernel: Arc<Kernel>,
    pub(crate) live: Arc<Live>,
    pub(crate) call: CallNo,
    pub(crate) tool: Arc<CatalogTool>,
    principal: Principal,
    pub(crate) redaction: Redaction,
    progress: Mutex<Progress>,
    /// Whose question is being recorded.
    pub(crate) turn: tokio::sync::Mutex<()>,
}

/// How far this entering of the handler has come, to match it with what an earlier one recorded.
#[derive(Default)]
struct Progress {
    asks: u32,
    steps: HashMap<String, usize>,
}

impl HandlerHost {
    /// The number of the handler's next question.
    pub(crate) fn next_ordinal(&self) -> u32 {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        progress.asks += 1;
        progress.asks - 1
    }

    /// The number that the next question would have.
    pub(crate) fn ordinal(&self) -> u32 {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner).asks
    }

    /// The last question could not be asked.
    pub(crate) fn give_back_ordinal(&self) {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner).asks -= 1;
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
                    tracing::warn!(execution = %self.live.id, tool = %self.tool.path(), cause, "the tool failed");
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
        match Verbatim::of(&value) {
            Ok(value) => Ended::With(CallOutcome::Succeeded(value)),
            Err(e) => failed(e.code(), format!("The tool ran, but {e}.")),
        }
    }

    /// The details of a failure as they are recorded; none where they are beyond their bound.
    fn kept_details(&self, details: &Value) -> Option<Verbatim> {
        let kept = Verbatim::of(&self.redaction.value(details.clone())).ok();
        kept.filter(|kept| kept.as_str().len() <= bounds::MAX_FAILURE_DETAILS_BYTES)
    }

    async fn recorded_step(&self, name: &str) -> Result<Option<Value>, ToolError> {
        let name = self.redaction.text(name.to_owned());
        let nth = {
            let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
            let taken = progress.steps.entry(name.clone()).or_default();
            *taken += 1;
            *taken - 1
        };
        let state = self.lock_patiently().await.map_err(unavailable)?;
        let run = state.execution.call(self.call).and_then(|call| call.run());
        let step = run.and_then(|run| run.steps.iter().filter(|step| step.name == name).nth(nth));
        Ok(step.map(|step| step.value.to_value()))
    }

    async fn write_step(&self, name: &str, value: Value) -> Result<(), ToolError> {
        let name = self.redaction.text(name.to_owned());
        let value = Verbatim::of(&self.redaction.value(value))
            .map_err(|e| ToolError::with_code(e.code(), e.to_string()))?;
        let taken = self
            .progress
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .steps
            .get(&name)
            .copied()
            .unwrap_or(1);
        let mut backoff = Backoff::new(&self.kernel);
        loop {
            let mut state = self.lock_patiently().await.map_err(unavailable)?;
            let run = state.execution.call(self.call).and_then(|call| call.run());
            let recorded = run.map_or(0, |run| run.steps.iter().filter(|step| step.name == name).count());
            if recorded >= taken {
                // An earlier try was written after all, and only its answer was lost.
                return Ok(());
            }
            if run.is_some_and(|run| run.steps.len() >= bounds::MAX_STEPS_PER_CALL) {
                let message = format!("A call records at most {} steps.", bounds::MAX_STEPS_PER_CALL);
                return Err(ToolError::with_code("too_many_steps", message));
            }
            if state.execution.version() + bounds::RESERVED_EVENTS > bounds::MAX_JOURNAL_EVENTS {
                let message = "The execution's journal is full; the step was not recorded.";
                return Err(ToolError::with_code("journal_full", message));
            }
            let step = EventBody::StepRecorded { call: self.call, name: name.clone(), value: value.clone() };
            match self.kernel.record(&mut state, vec![step], Beside::default()).await {
                Ok(()) => return Ok(()),
                Err(error) => {
                    drop(state);
                    backoff.pause(error).await.map_err(unavailable)?;
                }
            }
        }
    }

    /// Locks the execution, waiting for a failing store to come back.
    pub(crate) async fn lock_patiently(&self) -> Result<Guard, GatewayError> {
        self.kernel.lock_patiently(&self.live).await
    }

    async fn find_token(&self, provider: &str) -> Result<SecretString, ToolError> {
        let refuse = |text: String| ToolError::coded(ToolErrorCode::AuthNotAvailable, text);
        let declared = self.tool.providers().iter().find(|p| p.id == provider);
        let declared = declared
            .ok_or_else(|| refuse(format!("The plugin declares no auth provider \"{provider}\".")))?;
        let found = self.kernel.credentials.token(declared, &self.principal).await;
        let found =
            found.map_err(|cause| refuse("Credentials could not be looked up.".into()).caused_by(cause))?;
        let token = found
            .ok_or_else(|| refuse(format!("No credential for \"{provider}\" is set up for this caller.")))?;
        self.redaction.remember(&token);
        Ok(token)
    }
}

impl CtxHost for HandlerHost {
    fn ask(&self, request: AskRequest) -> BoxFuture<'_, Result<AskReply, ToolError>> {
        self.put_question(request).boxed()
    }

    fn token<'a>(&'a self, provider: &'a str) -> BoxFuture<'a, Result<SecretString, ToolError>> {
        self.find_token(provider).boxed()
    }

    fn step_recorded<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<Value>, ToolError>> {
        self.recorded_step(name).boxed()
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
        tracing::debug!(execution = %self.live.id, tool = %self.tool.path(), ?level, message, "tool log");
        let bound = self.kernel.settings.max_log_lines;
        let line = LogLine { level, message };
        self.kernel.followers.tell(self.live.id, &Told::Log(line.clone()));
        self.live.log(Speaker::Handler, line, bound);
    }

    fn progress(&self, mut progress: countersign_sdk::Progress) {
        progress.message = progress.message.map(|message| {
            let mut message = self.redaction.text(message);
            message.truncate(message.floor_char_boundary(MAX_LOG_BYTES));
            message
        });
        self.kernel.followers.tell(self.live.id, &Told::Progress(progress));
    }

    fn cancelled(&self) -> BoxFuture<'_, ()> {
        self.live.cancel_requested().boxed()
    }
}

pub(crate) fn unavailable(error: GatewayError) -> ToolError {
    let message = "The gateway could not record it, so it did not happen.";
    let code = match error.code() {
        "unavailable" => ToolErrorCode::Unavailable,
        code => ToolErrorCode::Other(code.into()),
    };
    ToolError::coded(code, message).caused_by(error)
}
