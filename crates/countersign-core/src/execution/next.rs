//! `next`: the next step of an execution, live and after a crash, and whether a call may start.

use countersign_sdk::Outcome;

use super::call::PermitState;
use super::{AskedState, Call, Execution, Phase};
use crate::bounds;
use crate::digest::{Binding, Digest, Fingerprint};
use crate::elicitation::{Decider, Decision};
use crate::event::{CallOutcome, EventBody, Failure, Kind, StartedBy};
use crate::ids::{CallNo, ElicitationId};
use crate::time::Timestamp;

/// The next step. The kernel records the event first, then performs the effect.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// Issue the call.
    Issue,
    /// Ask policy and grants about an issued call.
    Judge(CallNo),
    /// Record the start of a call that was approved, or settled as "run it again"; see [`Execution::check_start`].
    Start(CallNo),
    /// Record the failure of a call that does not run, or not again, after its open questions were withdrawn.
    Settle(CallNo, Failure),
    /// Enter the handler: its start is recorded.
    Enter(CallNo),
    /// Record that the handler is entered again, then enter it: it has none in this process, and that leaves no doubt.
    EnterAgain(CallNo),
    /// Record that a call's outcome is unknown, after its open questions were withdrawn.
    FindInDoubt(CallNo, Option<&'static str>),
    /// Let the script run on: its calls need nothing.
    RunScript,
    /// A handler runs; its outcome comes by itself.
    AwaitHandler(CallNo),
    /// It waits for people. It may be parked.
    AwaitPeople,
    /// It waits for a person to settle the call.
    AwaitSettlement(CallNo),
    /// Record the end.
    Finish(CallOutcome),
    /// It has ended.
    Done,
}

/// The conditions of a start: the time, the tool and the policy as they are now.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    /// The moment of the start.
    pub now: Timestamp,
    /// The tool at the call's path.
    pub fingerprint: Fingerprint,
    /// The policy in force.
    pub policy_version: Digest,
}

/// Why an approved call may not start after all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The approval expired before its use.
    #[error("the approval expired at {0} before the call could start; call again to be asked anew")]
    Expired(Timestamp),
    /// The tool changed.
    #[error("the tool changed since it was approved; call again to be asked about what it is now")]
    ToolChanged,
    /// The policy changed.
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

/// The text for the caller of a handler that brought the process down again and again.
const CRASHED_REPEATEDLY: &str = "the process died each time while the tool's handler ran";

impl Execution {
    /// The next step.
    pub fn next(&self) -> Next {
        if self.end.is_some() {
            return Next::Done;
        }
        if let Some(no) = self.in_doubt() {
            return Next::AwaitSettlement(no);
        }
        if let Some(next) = self.next_of_calls().next() {
            return next;
        }
        match (self.facts.kind, self.calls.first()) {
            _ if self.waits_for_people() => Next::AwaitPeople,
            (Kind::Script, _) => Next::RunScript,
            (Kind::Call | Kind::Gate, None) => Next::Issue,
            (Kind::Call | Kind::Gate, Some(Call { phase: Phase::Settled(outcome), .. })) => {
                Next::Finish(outcome.clone())
            }
            (Kind::Call | Kind::Gate, Some(call)) => Next::AwaitHandler(call.no),
        }
    }

    /// The next step of each call, in issue order; none while a call is in doubt.
    pub fn next_of_calls(&self) -> impl Iterator<Item = Next> {
        let halted = self.in_doubt().is_some();
        self.unsettled().filter(move |_| !halted).filter_map(|call| self.next_of(call))
    }

    /// The calls that are to be recorded as in doubt: their handlers are gone, and only a person can settle them.
    pub fn lost_calls(&self) -> impl Iterator<Item = CallNo> {
        self.next_of_calls().filter_map(|next| match next {
            Next::FindInDoubt(no, _) => Some(no),
            _ => None,
        })
    }

    fn next_of(&self, call: &Call) -> Option<Next> {
        match &call.phase {
            Phase::Issued => Some(Next::Judge(call.no)),
            Phase::Cleared { .. } | Phase::Retrying { .. } => Some(Next::Start(call.no)),
            Phase::Refused { elicitation } => Some(Next::Settle(call.no, self.refusal(*elicitation))),
            Phase::Running(run) => match run.permit {
                PermitState::Unspent => Some(Next::Enter(call.no)),
                PermitState::Spent => None,
                PermitState::Lost if call.would_be_in_doubt() => Some(Next::FindInDoubt(call.no, None)),
                PermitState::Lost if self.call_waits(call) => None,
                PermitState::Lost if run.entries < bounds::MAX_ENTRIES => Some(Next::EnterAgain(call.no)),
                PermitState::Lost if call.may_have_acted() => {
                    Some(Next::FindInDoubt(call.no, Some(CRASHED_REPEATEDLY)))
                }
                PermitState::Lost => {
                    let message = format!("The call was given up: {CRASHED_REPEATEDLY}.");
                    Some(Next::Settle(call.no, Failure::new("crashed_repeatedly", message)))
                }
            },
            Phase::Asked { .. } | Phase::InDoubt(_) | Phase::Settled(_) => None,
        }
    }

    /// The event that starts a call or has it entered again, if that is allowed on these terms. Every start passes here: the
    /// first one on an approval, one that a person settled as "run it again", and the entering of a handler that was lost.
    pub fn check_start(&self, no: CallNo, terms: Terms) -> Result<EventBody, Refusal> {
        let call = self.call(no).ok_or(Refusal::NotApproved)?;
        let same_tool = call.fingerprint == terms.fingerprint;
        match &call.phase {
            Phase::Cleared { elicitation } => self.check_approval(call, *elicitation, terms),
            Phase::Running(_) | Phase::Retrying { .. } if !same_tool => Err(Refusal::ToolChanged),
            Phase::Retrying { at, .. } => {
                let until = at.after(bounds::RETRY_VALID_FOR);
                if terms.now >= until {
                    return Err(Refusal::Expired(until));
                }
                Ok(EventBody::CallStarted { call: no, by: StartedBy::Retry })
            }
            Phase::Running(run) if run.permit == PermitState::Lost && !call.would_be_in_doubt() => {
                match self.expired_authority(call, terms.now) {
                    Some(expired_at) => Err(Refusal::Expired(expired_at)),
                    None => Ok(EventBody::CallReentered { call: no }),
                }
            }
            _ => Err(Refusal::NotApproved),
        }
    }

    fn check_approval(
        &self,
        call: &Call,
        elicitation: ElicitationId,
        terms: Terms,
    ) -> Result<EventBody, Refusal> {
        let asked = self.find(elicitation).ok_or(Refusal::NotApproved)?;
        if !matches!(&asked.state, AskedState::Decided(d) if d.outcome == Outcome::Approved) {
            return Err(Refusal::NotApproved);
        }
        if terms.now >= asked.elicitation.expires_at {
            return Err(Refusal::Expired(asked.elicitation.expires_at));
        }
        if self.binding(call, terms.fingerprint, call.asked_under).digest() != asked.elicitation.digest {
            return Err(Refusal::ToolChanged);
        }
        if call.policy_version != terms.policy_version {
            return Err(Refusal::PolicyChanged);
        }
        Ok(EventBody::CallStarted { call: call.no, by: StartedBy::Decision { elicitation } })
    }

    /// The time at which the approval or retry that started a destructive call expired, if it has.
    fn expired_authority(&self, call: &Call, now: Timestamp) -> Option<Timestamp> {
        let run = call.run().filter(|_| call.effects.destructive)?;
        let expires_at = match (&run.by, &run.retried) {
            (StartedBy::Decision { elicitation }, _) => self.find(*elicitation)?.elicitation.expires_at,
            (_, Some((_, at))) => at.after(bounds::RETRY_VALID_FOR),
            _ => return None,
        };
        (now >= expires_at).then_some(expires_at)
    }

    /// The binding of an approval of this call, given the current tool and policy.
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

/// The failure for the caller of a call that was not approved.
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
