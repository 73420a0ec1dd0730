//! Decisions on their way to the owner of the execution that asks.
//!
//! Promise: an agent's credential is refused whatever it says (R10). The effects of a decision are in `owner/decisions.rs`.

use std::sync::Arc;

use countersign_core::bounds;
use countersign_core::canonical::Canonical;
pub use countersign_core::coverage::{Coverage, CoveredArgs};
use countersign_core::digest::Digest;
use countersign_core::elicitation::{Decider, Decision, Elicitation};
use countersign_core::event::EventBody;
use countersign_core::execution::Call;
use countersign_core::ids::{ElicitationId, ExecutionId};
use countersign_core::time::Timestamp;
use countersign_sdk::{AskKind, Outcome};
use serde_json::Value;

use crate::accept::Caller;
use crate::catalog::Offered;
use crate::error::DecideError;
use crate::kernel::Kernel;
use crate::owner::Message;

/// A decision on its way.
#[derive(Debug, Clone)]
pub struct Decide {
    /// The question.
    pub target: Target,
    /// The decider.
    pub by: Caller,
    /// The channel: `console`, `cli`, `mcp`, …
    pub channel: String,
    /// The answer.
    pub answer: Answer,
    /// The decider's comment.
    pub comment: Option<String>,
}

/// The question that is decided. An approver must have seen it: an elicitation never changes, so its id names what was shown; an
/// execution's id names different questions over time, and approves by itself only where there was never more than one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// The question with this id.
    Elicitation(ElicitationId),
    /// This one, which was shown with this digest.
    Shown(ElicitationId, Digest),
    /// The only one that this execution waits for.
    Execution(ExecutionId),
    /// The one of this execution that was shown with this digest.
    ShownBy(ExecutionId, Digest),
}

/// A person's answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// Approval.
    Approve {
        /// The coverage; the question's default where there is none.
        covers: Option<Coverage>,
        /// The fields of a form.
        data: Option<Value>,
    },
    /// No.
    Deny,
    /// Closed without an answer.
    Cancel,
}

/// The acknowledgement for a decider.
#[derive(Debug, Clone, PartialEq)]
pub struct Receipt {
    /// The execution that waited.
    pub execution: ExecutionId,
    /// The question.
    pub elicitation: ElicitationId,
    /// The decision that counts.
    pub decision: Decision,
}

impl Kernel {
    pub(crate) async fn decide(self: &Arc<Self>, request: Decide) -> Result<Receipt, DecideError> {
        if !request.by.principal.may_decide() {
            return Err(DecideError::NotAllowed);
        }
        if request.comment.as_ref().is_some_and(|c| c.len() > bounds::MAX_TEXT_BYTES) {
            return Err(DecideError::OutOfBounds(format!(
                "a comment has at most {} bytes",
                bounds::MAX_TEXT_BYTES
            )));
        }
        let (execution, target) = self.locate(request.target).await?;
        let decided =
            self.request(execution, |reply| Message::Decide(Box::new(request), target, reply)).await?;
        decided.unwrap_or(Err(DecideError::NotFound))
    }

    async fn locate(&self, target: Target) -> Result<(ExecutionId, Option<ElicitationId>), DecideError> {
        match target {
            Target::Execution(execution) | Target::ShownBy(execution, _) => Ok((execution, None)),
            Target::Elicitation(id) | Target::Shown(id, _) => match self.registry.asker(id) {
                Some(execution) => Ok((execution, Some(id))),
                None => {
                    let row = self.store.elicitation(id).await?.ok_or(DecideError::NotFound)?;
                    Ok((row.execution, Some(id)))
                }
            },
        }
    }

    /// Refuses a question whose record is damaged: nobody can have been shown it, though the journal would still have it.
    pub(crate) async fn check_readable(&self, id: ElicitationId) -> Result<(), DecideError> {
        self.store.elicitation(id).await?.map(drop).ok_or(DecideError::NotFound)
    }

    /// The text that the person reads at the gate; none where the tool fails to produce it.
    pub(crate) fn gate_message(&self, call: &Call) -> Option<String> {
        let Offered::Same(tool) = self.catalog.offered(call) else { return None };
        let input = call.args.value();
        let said = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| tool.tool().message(&input)));
        let message = match said {
            // The name of a foreign tool is its source's word, and a question is ours.
            Ok(None) if tool.tool().is_foreign() => {
                format!("Run {} of the source \"{}\"?", tool.path(), tool.source())
            }
            Ok(None) => format!("Run {}?", tool.tool().definition().name),
            Ok(Some(Ok(message))) => message,
            Ok(Some(Err(_))) | Err(_) => return None,
        };
        (!message.trim().is_empty() && message.len() <= bounds::MAX_TEXT_BYTES).then_some(message)
    }
}

/// The decision that withdraws a question.
pub(crate) fn withdrawal(elicitation: ElicitationId, reason: &str, at: Timestamp) -> EventBody {
    let by = Decider::Gateway { reason: reason.to_owned() };
    let decision = Decision {
        outcome: Outcome::Cancelled,
        by,
        channel: "gateway".into(),
        proof: None,
        at,
        comment: None,
        data: None,
    };
    EventBody::Decided { elicitation, decision }
}

pub(crate) fn expired(elicitation: ElicitationId, at: Timestamp) -> EventBody {
    let decision = Decision {
        outcome: Outcome::Expired,
        by: Decider::Clock,
        channel: "clock".into(),
        proof: None,
        at,
        comment: None,
        data: None,
    };
    EventBody::Decided { elicitation, decision }
}

pub(crate) fn decision(
    elicitation: &Elicitation,
    request: &Decide,
    at: Timestamp,
) -> Result<Decision, DecideError> {
    let (outcome, data) = match &request.answer {
        Answer::Approve { data, .. } => (Outcome::Approved, checked_data(elicitation, data.as_ref())?),
        Answer::Deny => (Outcome::Denied, None),
        Answer::Cancel => (Outcome::Cancelled, None),
    };
    let by = Decider::Person { principal: request.by.principal.id.clone(), token: request.by.token };
    let (channel, comment) = (request.channel.clone(), request.comment.clone());
    Ok(Decision { outcome, by, channel, proof: request.by.proof, at, comment, data })
}

fn checked_data(elicitation: &Elicitation, data: Option<&Value>) -> Result<Option<Canonical>, DecideError> {
    // Before anything walks it: what is nested too deeply would take the stack with it.
    data.map_or(Ok(()), bounds::check).map_err(|e| DecideError::OutOfBounds(e.to_string()))?;
    let data = match (&elicitation.kind, data) {
        (AskKind::Approval, None) => return Ok(None),
        (AskKind::Approval, Some(data)) => data.clone(),
        (AskKind::Form { schema }, data) => {
            let data = data.cloned().unwrap_or_else(|| Value::Object(serde_json::Map::new()));
            schema.check(&data).map_err(DecideError::InvalidData)?;
            data
        }
    };
    Canonical::of(&data).map(Some).map_err(|e| DecideError::OutOfBounds(e.to_string()))
}
