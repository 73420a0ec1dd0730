//! What a running tool can do: know which call it is, and ask from inside.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use serde::Serialize;
use serde_json::Value;

use crate::agent::Agent;
use crate::confirm::{
    Answerer, Asking, ConfirmationError, ConfirmationProvider, ConfirmationRejected, ConfirmationRequest,
    Verdict, digest,
};
use crate::durable::ledger::Ledger;
use crate::durable::record::{Asker, Record};
use crate::event::AgentEvent;
use crate::message::{CallKey, ToolCall};
use crate::queue::Events;
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
    pub(crate) agent: Agent,
    pub(crate) call: ToolCall,
    pub(crate) key: CallKey,
    pub(crate) tool: AgentTool,
    pub(crate) input: Value,
    pub(crate) gate: Gate,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) events: Events,
    pub(crate) idempotency_key: Option<String>,
    pub(crate) asked: AtomicU32,
}

/// Asks from inside a tool whether it may go on; returns when it is decided. Propagate the error to halt the tool.
pub async fn request_confirmation(
    ctx: &ToolCtx,
    hint: &str,
    payload: impl Serialize,
) -> Result<(), ConfirmationError> {
    ctx.request_confirmation(hint, payload).await
}

impl ToolCtx {
    pub(crate) fn new(scope: Scope) -> Self {
        Self { scope: Arc::new(scope) }
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
        self.scope.agent.name()
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
        self.scope.events.tell(AgentEvent::ConfirmationRequired(request));
    }
}

impl Scope {
    pub(crate) fn request(&self, hint: Option<String>, payload: Option<Value>) -> ConfirmationRequest {
        ConfirmationRequest {
            tool_call_id: self.call.id.clone(),
            tool_name: self.tool.name().to_owned(),
            input: self.input.clone(),
            hint,
            payload,
            key: self.idempotency_key.clone(),
        }
    }

    async fn ask(&self, hint: &str, payload: Value) -> Result<(), ConfirmationError> {
        if self.gate == Gate::Approved {
            return Ok(());
        }
        let asking = &self.agent.parts().asking;
        let provider = match asking.answerer() {
            Answerer::Provider(provider) => provider,
            Answerer::Waived => return Ok(()),
            Answerer::Missing => return Err(ConfirmationError::Failed(NOBODY.to_owned())),
        };
        let nth = self.asked.fetch_add(1, Ordering::Relaxed);
        if nth >= MAX_ASKS_PER_CALL {
            let message = format!("a call may ask at most {MAX_ASKS_PER_CALL} questions");
            return Err(ConfirmationError::Failed(message));
        }
        let mut request = self.request(Some(hint.to_owned()), Some(payload));
        request.key = request.key.map(|key| format!("{key}.q{}", nth + 1));
        judged(self.verdict(asking, provider, request, nth).await.map_err(ConfirmationError::Failed)?)
    }

    /// What the person says, or said before a restart. In a durable conversation the question is on record before they are
    /// asked, and a yes before it lets anybody past.
    async fn verdict(
        &self,
        asking: &Asking,
        provider: &dyn ConfirmationProvider,
        request: ConfirmationRequest,
        nth: u32,
    ) -> Result<Verdict, String> {
        if !self.ledger.is_durable() {
            self.events.tell(AgentEvent::ConfirmationRequired(request.clone()));
            return asking.ask(provider, request).await;
        }
        let question = digest(&request)?;
        if let Some(verdict) = self.ledger.answer(self.key, nth, &question).await {
            return Ok(verdict);
        }
        let asked = Record::CallAsked { call: self.key, nth, question: question.clone() };
        self.ledger.record(asked).await.map_err(|e| e.to_string())?;
        self.events.tell(AgentEvent::ConfirmationRequired(request.clone()));
        let verdict = asking.ask(provider, request).await?;
        let decided = Record::CallDecided {
            call: self.key,
            by: Asker::Handler { nth },
            question,
            verdict: verdict.clone(),
            repeatable: self.tool.is_repeatable(),
        };
        self.ledger.record(decided).await.map_err(|e| e.to_string())?;
        Ok(verdict)
    }
}

/// What is said where nobody can be asked and the program did not choose that.
pub(crate) const NOBODY: &str = "nobody can be asked: the agent has no confirmation provider; give it one, or build it with .unattended()";

fn judged(verdict: Verdict) -> Result<(), ConfirmationError> {
    match verdict {
        Verdict::Approve => Ok(()),
        Verdict::Reject { reason } => Err(ConfirmationRejected { reason }.into()),
    }
}
