//! One call with what it may reach, and what a running tool can do: know which call it is, and ask from inside.
//!
//! Promise: nobody passes a question without a yes to exactly what was shown, now or before a restart, unless the program chose
//! that nobody is asked; in a durable conversation the yes is on record before anybody is let past.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use serde_json::Value;
use tokio::sync::OwnedSemaphorePermit;

use crate::calls::Turn;
use crate::confirm::{
    Answerer, ConfirmationError, ConfirmationRejected, ConfirmationRequest, Verdict, digest,
};
use crate::durable::record::{Asker, Record};
use crate::event::AgentEvent;
use crate::message::{CallKey, ToolCall};
use crate::tool::AgentTool;

/// The most questions one call may ask from inside.
pub const MAX_ASKS_PER_CALL: u32 = 100;

/// The call a handler runs in.
#[derive(Clone)]
pub struct ToolCtx {
    scope: Arc<Scope>,
}

/// Whether the person already said yes to the whole call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gate {
    /// A yes for the call answers what the tool asks from inside, too: nobody is asked twice.
    Approved,
    /// Nobody was asked.
    NotAsked,
}

/// One call, with what it may reach.
pub(crate) struct Scope {
    pub(crate) turn: Arc<Turn>,
    pub(crate) call: ToolCall,
    pub(crate) key: CallKey,
    pub(crate) tool: AgentTool,
    pub(crate) input: Value,
    pub(crate) gate: Gate,
    pub(crate) idempotency_key: Option<String>,
    progress: Progress,
}

/// What changes while a call runs.
#[derive(Default)]
struct Progress {
    asked: AtomicU32,
    ended: AtomicBool,
    /// Its place among the handlers that run at once.
    slot: Mutex<Option<OwnedSemaphorePermit>>,
    /// The last question that did not let it on.
    halted: Mutex<Option<ConfirmationError>>,
}

/// The turn has failed: nobody waits for a person any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TurnFailed;

/// Asks from inside a tool whether it may go on; returns when it is decided. Propagate the error to halt the tool.
///
/// Ask before you change anything: a durable conversation that was stopped at the question enters the tool again, with the
/// same input, and what ran before the question runs a second time.
pub async fn request_confirmation(
    ctx: &ToolCtx,
    hint: &str,
    payload: impl Serialize,
) -> Result<(), ConfirmationError> {
    ctx.request_confirmation(hint, payload).await
}

impl ToolCtx {
    pub(crate) fn new(scope: Arc<Scope>) -> Self {
        Self { scope }
    }

    /// The model's id for the call.
    pub fn call_id(&self) -> &str {
        &self.scope.call.id
    }

    /// The tool's name.
    pub fn tool_name(&self) -> &str {
        self.scope.tool.name()
    }

    /// The agent that calls.
    pub fn agent(&self) -> &str {
        self.scope.turn.agent.name()
    }

    /// In a durable conversation: a key for this call that is the same after every restart, and no other call's.
    pub fn idempotency_key(&self) -> Option<&str> {
        self.scope.idempotency_key.as_deref()
    }

    /// As the free [`request_confirmation`].
    pub async fn request_confirmation(
        &self,
        hint: &str,
        payload: impl Serialize,
    ) -> Result<(), ConfirmationError> {
        let payload = serde_json::to_value(payload)
            .map_err(|e| ConfirmationError::Failed(format!("the payload is no JSON: {e}")))?;
        self.scope.ask(hint, payload).await
    }

    /// Tells whoever reads the stream that a person elsewhere is asked about this call.
    pub(crate) fn announce(&self, hint: String) {
        let mut request = self.scope.request(Some(hint), None);
        request.key = None;
        self.scope.turn.events.tell(AgentEvent::ConfirmationRequired(request));
    }

    /// As [`Scope::patiently`].
    pub(crate) async fn patiently<T>(&self, waiting: impl Future<Output = T>) -> Result<T, TurnFailed> {
        self.scope.patiently(waiting).await
    }
}

impl Scope {
    pub(crate) fn new(
        turn: &Arc<Turn>,
        (key, call): (CallKey, &ToolCall),
        tool: &AgentTool,
        input: &Value,
        idempotency_key: Option<String>,
    ) -> Self {
        Self {
            turn: Arc::clone(turn),
            call: call.clone(),
            key,
            tool: tool.clone(),
            input: input.clone(),
            gate: Gate::NotAsked,
            idempotency_key,
            progress: Progress::default(),
        }
    }

    /// Asks whether the whole call may run, where somebody must be asked.
    pub(crate) async fn confirm(&self) -> Result<Gate, ConfirmationError> {
        if !self.tool.requires_confirmation() {
            return Ok(Gate::NotAsked);
        }
        self.pass(Asker::Agent, self.request(None, None)).await
    }

    /// It runs now, in this place among those that run at once.
    pub(crate) fn takes(&self, slot: OwnedSemaphorePermit) {
        *locked(&self.progress.slot) = Some(slot);
    }

    /// Its handler returned. Whoever kept its context asks nobody any more.
    pub(crate) fn end(&self) {
        self.progress.ended.store(true, Ordering::Release);
        locked(&self.progress.slot).take();
    }

    /// Why the last question from inside did not let it on, where one did not: however the handler wraps that in an error
    /// of its own.
    pub(crate) fn halted(&self) -> Option<ConfirmationError> {
        locked(&self.progress.halted).clone()
    }

    /// Waits for a person: another call has the place among the running ones meanwhile. A turn that has failed is not waited
    /// through.
    async fn patiently<T>(&self, waiting: impl Future<Output = T>) -> Result<T, TurnFailed> {
        let had_slot = locked(&self.progress.slot).take().is_some();
        let waited = tokio::select! {
            biased;
            waited = waiting => waited,
            () = self.turn.failed.cancelled() => return Err(TurnFailed),
        };
        if had_slot && let Ok(slot) = Arc::clone(&self.turn.slots).acquire_owned().await {
            self.takes(slot);
        }
        Ok(waited)
    }

    fn request(&self, hint: Option<String>, payload: Option<Value>) -> ConfirmationRequest {
        let request = ConfirmationRequest::new(&self.call.id, self.tool.name(), self.input.clone());
        ConfirmationRequest { hint, payload, key: self.idempotency_key.clone(), ..request }
    }

    /// What a handler asks. Why it was not let on is kept, for whatever the handler makes of the error.
    async fn ask(&self, hint: &str, payload: Value) -> Result<(), ConfirmationError> {
        let passed = self.pass_from_inside(hint, payload).await;
        *locked(&self.progress.halted) = passed.as_ref().err().cloned();
        passed
    }

    async fn pass_from_inside(&self, hint: &str, payload: Value) -> Result<(), ConfirmationError> {
        if self.progress.ended.load(Ordering::Acquire) {
            return Err(ConfirmationError::Failed("the call has ended; ask while the tool runs".to_owned()));
        }
        if self.gate == Gate::Approved {
            return Ok(());
        }
        let nth = self.progress.asked.fetch_add(1, Ordering::Relaxed);
        if nth >= MAX_ASKS_PER_CALL {
            let message = format!("a call may ask at most {MAX_ASKS_PER_CALL} questions");
            return Err(ConfirmationError::Failed(message));
        }
        let mut request = self.request(Some(hint.to_owned()), Some(payload));
        request.key = request.key.map(|key| format!("{key}.q{}", nth + 1));
        self.pass(Asker::Handler { nth }, request).await.map(drop)
    }

    /// Returns once a person said yes, or had said so before a restart, about this very question; or where the program wants
    /// nobody asked.
    async fn pass(&self, by: Asker, request: ConfirmationRequest) -> Result<Gate, ConfirmationError> {
        let ledger = &self.turn.ledger;
        let asking = &self.turn.agent.parts().asking;
        let provider = match asking.answerer() {
            Answerer::Provider(provider) => provider,
            Answerer::Waived => return self.waived(by).await,
            Answerer::Missing => return Err(ConfirmationError::Failed(NOBODY.to_owned())),
        };
        let question = if ledger.is_durable() { Some(digest(&request, &self.tool)?) } else { None };
        if let Some(question) = &question
            && let Some(said) = ledger.look().await.answer(self.key, by, question)
        {
            return judged(said);
        }
        if let (Some(question), Asker::Handler { nth }) = (&question, by) {
            self.record(Record::CallAsked { call: self.key, nth, question: question.clone() }).await?;
        }
        // Whoever reads the stream hears of the question before the provider blocks on it.
        self.turn.events.tell(AgentEvent::ConfirmationRequired(request.clone()));
        let said = self.patiently(asking.ask(provider, request)).await;
        let verdict = said.map_err(|TurnFailed| {
            ConfirmationError::Unavailable("another call of the turn stopped the chat".to_owned())
        })??;
        if let Some(question) = question {
            let repeatable = self.tool.is_repeatable();
            let decided =
                Record::CallDecided { call: self.key, by, question, verdict: verdict.clone(), repeatable };
            self.record(decided).await?;
        }
        judged(verdict)
    }

    /// Nobody is asked. That a handler was let on is recorded all the same: it must not run twice.
    async fn waived(&self, by: Asker) -> Result<Gate, ConfirmationError> {
        if self.turn.ledger.is_durable() && by != Asker::Agent {
            let repeatable = self.tool.is_repeatable();
            self.record(Record::CallWaived { call: self.key, repeatable }).await?;
        }
        Ok(Gate::NotAsked)
    }

    /// What cannot be kept lets nobody past, and the conversation goes on when its journal is back.
    async fn record(&self, record: Record) -> Result<(), ConfirmationError> {
        let recorded = self.turn.ledger.record(record).await;
        recorded.map_err(|error| ConfirmationError::Unavailable(error.to_string()))
    }
}

/// What is said where nobody can be asked and the program did not choose that.
const NOBODY: &str = "nobody can be asked: the agent has no confirmation provider; give it one, or build it with .unattended()";

fn judged(verdict: Verdict) -> Result<Gate, ConfirmationError> {
    match verdict {
        Verdict::Approve => Ok(Gate::Approved),
        Verdict::Reject { reason } => Err(ConfirmationRejected { reason }.into()),
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
