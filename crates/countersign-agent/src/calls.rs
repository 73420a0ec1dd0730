//! The way of one call: input → pre-hooks → confirmation → run → on-error hooks → result → post-hooks.
//!
//! Promise: what needs confirmation runs only past a yes to exactly the input it runs with; every call ends in a result, a
//! panic too; and post-hooks see every end, with the input that the call ended with. This is the one place that starts a
//! tool's handler.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use countersign_sdk::ToolError;
use futures_util::FutureExt;
use serde_json::Value;
use tokio::sync::Semaphore;

use crate::agent::Agent;
use crate::confirm::{Answerer, ConfirmationProvider, ConfirmationRequest, Verdict, digest};
use crate::durable::conversation::{CallState, result};
use crate::durable::ledger::Ledger;
use crate::durable::record::{Asker, Record};
use crate::error::AgentError;
use crate::event::AgentEvent;
use crate::hooks::ToolUse;
use crate::message::CallKey;
use crate::outcome::{DoubtAtTheGateway, ToolOutcome};
use crate::queue::Events;
use crate::scope::{Gate, NOBODY, Scope, ToolCtx};
use crate::tool::{AgentTool, Handler, Work};

/// What the calls of one turn share.
pub(crate) struct Turn {
    pub(crate) agent: Agent,
    pub(crate) tools: Vec<AgentTool>,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) events: Events,
    /// How many handlers may run at once.
    pub(crate) slots: Semaphore,
    /// The one call that may hand off.
    pub(crate) handoff: Option<CallKey>,
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
        self.turn.ledger.record(settled).await?;
        self.turn.events.tell(AgentEvent::ToolSettled(result));
        hooks.after(&used, &outcome).await;
        Ok(end.handoff.map_or(Settled::Here, Settled::HandedOff))
    }

    async fn run(&self, state: &CallState, used: &mut ToolUse) -> Result<End, AgentError> {
        let turn = &*self.turn;
        let Some(tool) = turn.tools.iter().find(|tool| tool.name() == state.call.name) else {
            return Ok(ToolOutcome::unusable(not_found(&state.call.name, &turn.tools)).into());
        };
        if let Some(input) = &state.started {
            // It was let on before, with this input, by the hooks and the person of that time.
            used.input = input.clone();
            let gate = if tool.requires_confirmation() { Gate::Approved } else { Gate::NotAsked };
            return self.work(tool, state, used, gate).await;
        }
        used.input = match parsed(&state.call.input).and_then(|input| tool.admit(input)) {
            Ok(input) => input,
            Err(outcome) => return Ok(outcome.into()),
        };
        if let Err(outcome) = turn.agent.parts().hooks.before(tool, used).await {
            return Ok(outcome.into());
        }
        let gate = match self.confirmed(tool, state, used).await? {
            Ok(gate) => gate,
            Err(outcome) => return Ok(outcome.into()),
        };
        self.work(tool, state, used, gate).await
    }

    /// Asks, where somebody must be asked: a yes is on record when this returns.
    async fn confirmed(
        &self,
        tool: &AgentTool,
        state: &CallState,
        used: &ToolUse,
    ) -> Result<Result<Gate, ToolOutcome>, AgentError> {
        if !tool.requires_confirmation() {
            return Ok(Ok(Gate::NotAsked));
        }
        let provider = match self.turn.agent.parts().asking.answerer() {
            Answerer::Provider(provider) => provider,
            Answerer::Waived => return Ok(Ok(Gate::NotAsked)),
            Answerer::Missing => return Ok(Err(ToolOutcome::confirmation_failed(NOBODY))),
        };
        let request = self.scope(tool, state, used, Gate::NotAsked).await.request(None, None);
        Ok(match self.verdict(tool, state, provider, request).await? {
            Ok(Verdict::Approve) => Ok(Gate::Approved),
            Ok(Verdict::Reject { reason }) => Err(ToolOutcome::rejected(reason.as_deref())),
            Err(problem) => Err(ToolOutcome::confirmation_failed(&problem)),
        })
    }

    /// What the person says, or said before a restart: about this very input.
    async fn verdict(
        &self,
        tool: &AgentTool,
        state: &CallState,
        provider: &dyn ConfirmationProvider,
        request: ConfirmationRequest,
    ) -> Result<Result<Verdict, String>, AgentError> {
        if !self.turn.ledger.is_durable() {
            return Ok(self.asked(provider, request).await);
        }
        let question = match digest(&request) {
            Ok(question) => question,
            Err(problem) => return Ok(Err(problem)),
        };
        if let Some((_, said)) = state.decision.as_ref().filter(|(asked, _)| *asked == question) {
            return Ok(Ok(said.clone()));
        }
        let said = self.asked(provider, request).await;
        if let Ok(verdict) = &said {
            self.record_decision(tool, question, verdict).await?;
        }
        Ok(said)
    }

    /// Whoever reads the stream hears of the question before the provider blocks on it.
    async fn asked(
        &self,
        provider: &dyn ConfirmationProvider,
        request: ConfirmationRequest,
    ) -> Result<Verdict, String> {
        self.turn.events.tell(AgentEvent::ConfirmationRequired(request.clone()));
        self.turn.agent.parts().asking.ask(provider, request).await
    }

    async fn record_decision(
        &self,
        tool: &AgentTool,
        question: String,
        verdict: &Verdict,
    ) -> Result<(), AgentError> {
        let decided = Record::CallDecided {
            call: self.key,
            by: Asker::Agent,
            question,
            verdict: verdict.clone(),
            repeatable: tool.is_repeatable(),
        };
        Ok(self.turn.ledger.record(decided).await?)
    }

    async fn work(
        &self,
        tool: &AgentTool,
        state: &CallState,
        used: &ToolUse,
        gate: Gate,
    ) -> Result<End, AgentError> {
        match tool.work() {
            Work::Handoff => Ok(self.handoff(&state.call.name)),
            Work::Handler(handler) => {
                let scope = self.scope(tool, state, used, gate).await;
                self.start(tool, &**handler, scope).await
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
    async fn start(&self, tool: &AgentTool, handler: &Handler, scope: Scope) -> Result<End, AgentError> {
        let turn = &*self.turn;
        let _slot = turn.slots.acquire().await.map_err(|_| AgentError::Stopped)?;
        let input = scope.input.clone();
        if turn.ledger.is_durable() && tool.start_is_recorded() {
            let (call, repeatable) = (self.key, tool.is_repeatable());
            turn.ledger.record(Record::CallStarted { call, input: input.clone(), repeatable }).await?;
        }
        // A handler may panic before it returns its future, too.
        let running = AssertUnwindSafe(async { handler(ToolCtx::new(scope), input).await });
        match running.catch_unwind().await {
            Ok(Err(error)) => self.failed(tool, error),
            Ok(returned) => Ok(ToolOutcome::of(returned).into()),
            Err(panic) => Ok(ToolOutcome::failed(&format!("the tool panicked{}", said(&*panic))).into()),
        }
    }

    /// A durable conversation stops where a gateway does not know what became of a call: settled there, it goes on.
    fn failed(&self, tool: &AgentTool, error: ToolError) -> Result<End, AgentError> {
        let doubt = error.cause().and_then(|cause| cause.downcast_ref::<DoubtAtTheGateway>());
        if let Some(DoubtAtTheGateway(execution)) = doubt.filter(|_| self.turn.ledger.is_durable()) {
            let (call, tool, execution) = (self.key, tool.name().to_owned(), Some(execution.clone()));
            return Err(AgentError::InDoubt { call, tool, execution });
        }
        Ok(ToolOutcome::of(Err(error)).into())
    }

    async fn scope(&self, tool: &AgentTool, state: &CallState, used: &ToolUse, gate: Gate) -> Scope {
        let turn = &*self.turn;
        let conversation = turn.ledger.look().await.id.clone();
        Scope {
            agent: turn.agent.clone(),
            call: state.call.clone(),
            key: self.key,
            tool: tool.clone(),
            input: used.input.clone(),
            gate,
            ledger: Arc::clone(&turn.ledger),
            events: turn.events.clone(),
            idempotency_key: conversation.map(|id| format!("{id}:{}", self.key)),
            asked: AtomicU32::new(0),
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
