//! `next`: what an execution wants done, and whether it may be.

use countersign_sdk::Outcome;

use super::call::PermitState;
use super::{AskedState, Call, Execution, Phase};
use crate::digest::{Binding, Digest, Fingerprint};
use crate::elicitation::{Decider, Decision};
use crate::event::{CallOutcome, EventBody, Failure, Kind, StartedBy};
use crate::ids::{CallNo, ElicitationId};
use crate::time::Timestamp;

/// What is to be done. The kernel records the event first, then performs the effect.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// Issue the call.
    Issue,
    /// Ask policy and grants about an issued call.
    Judge(CallNo),
    /// Record the start of a call that was approved; see [`Execution::authorise`].
    RecordStart(CallNo),
    /// Record that a call was refused.
    Settle(CallNo, Failure),
    /// Enter the handler.
    Run(CallNo),
    /// Enter the handler of a script's call again: it has none in this process, and that leaves no doubt.
    Rerun(CallNo),
    /// Record that nobody knows what became of a script's call.
    FindInDoubt(CallNo),
    /// Let the script run on: nothing of its calls is to be done.
    RunScript,
    /// A handler runs; its outcome comes by itself.
    AwaitHandler(CallNo),
    /// Only people can bring it on. It may be parked.
    AwaitPeople,
    /// Only a person can settle it.
    AwaitSettlement(CallNo),
    /// Record the end.
    Finish(CallOutcome),
    /// Nothing: it has ended.
    Done,
}

/// What became of a running call when its process died.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recovery {
    /// Record that nobody knows.
    FoundInDoubt(CallNo),
    /// Enter the handler again; its recorded answers and steps are given at once.
    Rerun(CallNo),
}

/// Why an approved call may not start after all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The approval came too late to be used.
    #[error("the approval expired at {0} before the call could start; call again to be asked anew")]
    Expired(Timestamp),
    /// The tool is not what it was.
    #[error("the tool changed since it was approved; call again to be asked about what it is now")]
    ToolChanged,
    /// The policy is not what it was.
    #[error("the policy changed since this was approved; call again to be judged by what it is now")]
    PolicyChanged,
    /// There is no approval to use.
    #[error("there is no unused approval for this call")]
    NotApproved,
}

impl Refusal {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Expired(_) => "expired",
            Self::ToolChanged | Self::PolicyChanged => "approval_void",
            Self::NotApproved => "denied",
        }
    }
}

impl Execution {
    /// What is to be done next.
    pub fn next(&self) -> Next {
        if self.end.is_some() {
            return Next::Done;
        }
        if self.facts.kind == Kind::Script {
            return self.next_of_script();
        }
        let Some(call) = self.calls.first() else { return Next::Issue };
        match &call.phase {
            Phase::Issued => Next::Judge(call.no),
            Phase::Asked { .. } => Next::AwaitPeople,
            Phase::Cleared { .. } | Phase::Retrying(_) => Next::RecordStart(call.no),
            Phase::Refused { elicitation } => Next::Settle(call.no, self.refusal(*elicitation)),
            Phase::Running(_) if self.facts.kind == Kind::Gate => Next::Run(call.no),
            Phase::Running(run) if run.permit == PermitState::Unspent => Next::Run(call.no),
            Phase::Running(_) if self.call_waits(call) => Next::AwaitPeople,
            Phase::Running(_) => Next::AwaitHandler(call.no),
            Phase::InDoubt(_) => Next::AwaitSettlement(call.no),
            Phase::Settled(outcome) => Next::Finish(outcome.clone()),
        }
    }

    fn next_of_script(&self) -> Next {
        if let Some(no) = self.in_doubt() {
            return Next::AwaitSettlement(no);
        }
        match self.todo().next() {
            Some(next) => next,
            None if self.waits_for_people() => Next::AwaitPeople,
            None => Next::RunScript,
        }
    }

    /// What is to be done about a script's calls, in issue order. Nothing is, while one of them is in doubt.
    pub fn todo(&self) -> impl Iterator<Item = Next> {
        let halted = self.in_doubt().is_some();
        self.unsettled().filter(move |_| !halted).filter_map(|call| match &call.phase {
            Phase::Issued => Some(Next::Judge(call.no)),
            Phase::Cleared { .. } | Phase::Retrying(_) => Some(Next::RecordStart(call.no)),
            Phase::Refused { elicitation } => Some(Next::Settle(call.no, self.refusal(*elicitation))),
            Phase::Running(run) => match run.permit {
                PermitState::Unspent => Some(Next::Run(call.no)),
                PermitState::Lost if call.would_be_in_doubt() => Some(Next::FindInDoubt(call.no)),
                PermitState::Lost if !self.call_waits(call) => Some(Next::Rerun(call.no)),
                PermitState::Lost | PermitState::Spent => None,
            },
            Phase::Asked { .. } | Phase::InDoubt(_) | Phase::Settled(_) => None,
        })
    }

    /// What to do with calls that were running when the process died. Open questions of a call in doubt are withdrawn
    /// before the doubt is recorded: nobody can answer them any more.
    pub fn recover(&self) -> Vec<Recovery> {
        let running = self.calls.iter().filter(|c| matches!(c.phase, Phase::Running(_)));
        running
            .map(|c| if c.would_be_in_doubt() { Recovery::FoundInDoubt(c.no) } else { Recovery::Rerun(c.no) })
            .collect()
    }

    /// The start of an approved call, if the approval still fits what would run now: checked against the tool and
    /// policy of this moment, not those of the question.
    pub fn authorise(
        &self,
        no: CallNo,
        now: Timestamp,
        fingerprint: Fingerprint,
        policy_version: Digest,
    ) -> Result<EventBody, Refusal> {
        let call = self.call(no).ok_or(Refusal::NotApproved)?;
        if let Phase::Retrying(_) = call.phase {
            if call.fingerprint != fingerprint {
                return Err(Refusal::ToolChanged);
            }
            return Ok(EventBody::CallStarted { call: no, by: StartedBy::Retry });
        }
        let Phase::Cleared { elicitation } = call.phase else { return Err(Refusal::NotApproved) };
        let asked = self.find(elicitation).ok_or(Refusal::NotApproved)?;
        if !matches!(&asked.state, AskedState::Decided(d) if d.outcome == Outcome::Approved) {
            return Err(Refusal::NotApproved);
        }
        if now >= asked.elicitation.expires_at {
            return Err(Refusal::Expired(asked.elicitation.expires_at));
        }
        if self.binding(call, fingerprint, call.asked_under).digest() != asked.elicitation.digest {
            return Err(Refusal::ToolChanged);
        }
        if call.policy_version != policy_version {
            return Err(Refusal::PolicyChanged);
        }
        Ok(EventBody::CallStarted { call: no, by: StartedBy::Decision { elicitation } })
    }

    /// What an approval of this call would be bound to, given the tool and policy of this moment.
    pub fn binding<'a>(
        &'a self,
        call: &'a Call,
        fingerprint: Fingerprint,
        policy_version: Digest,
    ) -> Binding<'a> {
        Binding {
            tool: &call.path,
            fingerprint,
            args: &call.args,
            requester: &self.facts.requester.id,
            session: &self.facts.session,
            policy_version,
        }
    }

    fn refusal(&self, elicitation: ElicitationId) -> Failure {
        let decision = self.find(elicitation).and_then(|a| a.decision());
        decision.map_or_else(|| Failure::new("denied", "Nobody approved the call."), refused)
    }
}

/// What the caller is told of a decision that was not a yes.
pub fn refused(decision: &Decision) -> Failure {
    let why = decision.comment.as_deref().map(|c| format!(" Reason: {c}")).unwrap_or_default();
    match (decision.outcome, &decision.by) {
        (Outcome::Expired, _) => Failure::new("expired", "Nobody decided in time; the call did not run."),
        (Outcome::Cancelled, Decider::Gateway { reason }) => {
            Failure::new("cancelled", format!("Withdrawn: {reason}. The call did not run."))
        }
        (Outcome::Cancelled, _) => Failure::new(
            "cancelled",
            format!("The question was closed without an answer; the call did not run.{why}"),
        ),
        _ => Failure::new("denied", format!("A person denied the call; it did not run.{why}")),
    }
}
