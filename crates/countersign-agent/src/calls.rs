//! The way of one call: input → pre-hooks → confirmation → run → on-error hooks → result → post-hooks.
//!
//! Promise: what needs confirmation runs only past a yes to exactly the input it runs with; every call ends in a result, a
//! panic too; and post-hooks see every end, with the input that the call ended with. This is the one place that starts a
//! tool's handler.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use countersign_sdk::ToolError;
use futures_util::FutureExt;
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::agent::Agent;
use crate::confirm::ConfirmationError;
use crate::durable::conversation::{CallState, result};
use crate::durable::ledger::Ledger;
use crate::durable::record::Record;
use crate::error::AgentError;
use crate::event::AgentEvent;
use crate::hooks::ToolUse;
use crate::message::CallKey;
use crate::outcome::{ToolOutcome, Unsettled};
use crate::queue::Events;
use crate::scope::{Scope, ToolCtx};
use crate::tool::{AgentTool, Handler, Work};

/// What the calls of one turn share.
pub(crate) struct Turn {
    pub(crate) agent: Agent,
    pub(crate) tools: Vec<AgentTool>,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) events: Events,
    /// How many handlers may run at once.
    pub(crate) slots: Arc<Semaphore>,
    /// The one call that may hand off.
    pub(crate) handoff: Option<CallKey>,
    /// Set once a call stopped the chat: what runs comes to its end, and nothing more starts or waits for a person.
    pub(crate) failed: CancellationToken,
}

/// One call on its way.
pub(crate) struct CallRun {
    turn: Arc<Turn>,
    key: CallKey,
}

/// How a call left the conversation.
pub(crate) enum Settled {
    Here,
    HandedOff(String),
}

/// What a call came to, before it is recorded.
struct End {
    outcome: ToolOutcome,
    handoff: Option<String>,
}

impl From<ToolOutcome> for End {
    fn from(outcome: ToolOutcome) -> Self {
        Self { outcome, handoff: None }
    }
}

impl CallRun {
    pub(crate) fn new(turn: Arc<Turn>, key: CallKey) -> Self {
        Self { turn, key }
    }

    pub(crate) async fn settle(self) -> Result<Settled, AgentError> {
        let Some(state) = self.turn.ledger.look().await.call(self.key).cloned() else {
            return Ok(Settled::Here);
        };
        let hooks = &self.turn.agent.parts().hooks;
        let mut used = ToolUse {
            agent: self.turn.agent.name().to_owned(),
            call_id: state.call.id.clone(),
            tool_name: state.call.name.clone(),
            input: Value::String(state.call.input.clone()),
        };
        let end = self.run(&state, &mut used).await?;
        let outcome = hooks.on_error(&used, end.outcome).await;
        let result = result(&state.call, &outcome);
        let settled =
            Record::CallSettled { call: self.key, result: result.clone(), handoff: end.handoff.clone() };
        let recorded = self.turn.ledger.record(settled).await;
        if recorded.is_ok() {
            self.turn.events.tell(AgentEvent::ToolSettled(result));
        }
        // Also where the end could not be recorded: it happened.
        hooks.after(&used, &outcome).await;
        recorded?;
        Ok(end.handoff.map_or(Settled::Here, Settled::HandedOff))
    }

    async fn run(&self, state: &CallState, used: &mut ToolUse) -> Result<End, AgentError> {
        let turn = &*self.turn;
        let tool = turn.tools.iter().find(|tool| tool.name() == state.call.name);
        if let Some(started) = &state.started {
            // It was let on before, with this input, by the hooks of that time.
            used.input = started.input.clone();
            return match tool.filter(|tool| tool.fingerprint() == started.fingerprint) {
                Some(tool) => self.let_on(tool, state, used).await,
                None => Err(self.found_in_doubt(&state.call.name).await?),
            };
        }
        let Some(tool) = tool else {
            return Ok(ToolOutcome::unusable(not_found(&state.call.name, &turn.tools)).into());
        };
        used.input = match parsed(&state.call.input).and_then(|input| tool.admit(input)) {
            Ok(input) => input,
            Err(outcome) => return Ok(outcome.into()),
        };
        if let Err(outcome) = turn.agent.parts().hooks.before(tool, used).await {
            return Ok(outcome.into());
        }
        self.let_on(tool, state, used).await
    }

    /// The tool that it was started with is gone, or is another one by now: only a person can say what became of it.
    async fn found_in_doubt(&self, tool: &str) -> Result<AgentError, AgentError> {
        self.turn.ledger.record(Record::FoundInDoubt { call: self.key }).await?;
        Ok(AgentError::InDoubt { call: self.key, tool: tool.to_owned(), execution: None })
    }

    /// Confirmation, and then the work. A call that an earlier process let on passes by what is on record.
    async fn let_on(&self, tool: &AgentTool, state: &CallState, used: &ToolUse) -> Result<End, AgentError> {
        let key = self.turn.ledger.look().await.call_key(self.key);
        let mut scope = Scope::new(&self.turn, (self.key, &state.call), tool, &used.input, key);
        scope.gate = match scope.confirm().await {
            Ok(gate) => gate,
            Err(refusal) => return self.refused(refusal),
        };
        match tool.work() {
            Work::Handoff => Ok(self.handoff(&state.call.name)),
            Work::Handler(handler) => self.start(&**handler, scope).await,
        }
    }

    fn refused(&self, refusal: ConfirmationError) -> Result<End, AgentError> {
        match refusal {
            ConfirmationError::Rejected(rejected) => {
                Ok(ToolOutcome::rejected(rejected.reason.as_deref()).into())
            }
            ConfirmationError::Unavailable(why) if self.turn.ledger.is_durable() => {
                Err(AgentError::Unavailable(why))
            }
            ConfirmationError::Failed(why) | ConfirmationError::Unavailable(why) => {
                Ok(ToolOutcome::confirmation_failed(&why).into())
            }
        }
    }

    fn handoff(&self, tool_name: &str) -> End {
        if self.turn.handoff != Some(self.key) {
            let message =
                "Only the first transfer of a turn counts; the conversation was not handed on by this one.";
            return ToolOutcome::unusable(message).into();
        }
        let to = tool_name.strip_prefix(crate::agent::HANDOFF_PREFIX).unwrap_or(tool_name).to_owned();
        End { outcome: ToolOutcome::succeeded(format!("Transferred to {to}.")), handoff: Some(to) }
    }

    /// Starts the handler, once its start is on record where that matters.
    async fn start(&self, handler: &Handler, scope: Scope) -> Result<End, AgentError> {
        let turn = &*self.turn;
        let slot = Arc::clone(&turn.slots).acquire_owned().await.map_err(|_| AgentError::Stopped)?;
        if turn.failed.is_cancelled() {
            return Err(AgentError::Stopped);
        }
        let input = scope.input.clone();
        if turn.ledger.is_durable() && scope.tool.start_is_recorded() {
            let (call, repeatable) = (self.key, scope.tool.is_repeatable());
            let fingerprint = scope.tool.fingerprint().to_owned();
            let started = Record::CallStarted { call, input: input.clone(), repeatable, fingerprint };
            turn.ledger.record(started).await?;
        }
        scope.takes(slot);
        let scope = Arc::new(scope);
        let ctx = ToolCtx::new(Arc::clone(&scope));
        // A handler may panic before it returns its future, too.
        let running = AssertUnwindSafe(async { handler(ctx, input).await });
        let returned = running.catch_unwind().await;
        scope.end();
        match returned {
            Ok(Ok(value)) => Ok(ToolOutcome::of(Ok(value)).into()),
            Ok(Err(error)) => self.failed(&scope, error),
            Err(panic) => Ok(ToolOutcome::failed(&format!("the tool panicked{}", said(&*panic))).into()),
        }
    }

    /// A durable conversation stops where nobody knows what became of a call, and goes on once that is known.
    fn failed(&self, scope: &Scope, error: ToolError) -> Result<End, AgentError> {
        match scope.halted() {
            Some(ConfirmationError::Rejected(rejected)) => return Ok(ToolOutcome::halted(&rejected).into()),
            Some(not_asked) => return self.refused(not_asked),
            None => {}
        }
        let unsettled = error.cause().and_then(|cause| cause.downcast_ref::<Unsettled>());
        let in_doubt = |execution: Option<String>| AgentError::InDoubt {
            call: self.key,
            tool: scope.tool.name().to_owned(),
            execution,
        };
        match unsettled.filter(|_| self.turn.ledger.is_durable()) {
            Some(Unsettled::InDoubtAtTheGateway(execution)) => Err(in_doubt(Some(execution.clone()))),
            Some(Unsettled::GatewayAway(why)) => Err(AgentError::Unavailable(why.clone())),
            Some(Unsettled::NoAnswer) if scope.tool.must_not_run_twice() => Err(in_doubt(None)),
            Some(Unsettled::NoAnswer) | None => Ok(ToolOutcome::of(Err(error)).into()),
        }
    }
}

/// The arguments as JSON. Models leave them out where there are none.
fn parsed(input: &str) -> Result<Value, ToolOutcome> {
    if input.trim().is_empty() {
        return Ok(Value::Object(serde_json::Map::new()));
    }
    serde_json::from_str(input)
        .map_err(|e| ToolOutcome::unusable(format!("Invalid tool input: the arguments are not JSON: {e}")))
}

fn not_found(name: &str, tools: &[AgentTool]) -> String {
    /// How alike two names must be for one to be meant by the other.
    const LIKE: f64 = 0.7;
    let near = tools.iter().map(|tool| (strsim::jaro_winkler(name, tool.name()), tool.name()));
    let near = near.filter(|(like, _)| *like >= LIKE).max_by(|a, b| a.0.total_cmp(&b.0));
    let meant = near.map(|(_, name)| format!("; did you mean {name}?")).unwrap_or_default();
    format!("Tool not found: {name}{meant}")
}

/// What a panic said, where it said anything.
fn said(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or(panic.downcast_ref::<String>().map(String::as_str));
    crate::confirm::after(": ", text)
}
