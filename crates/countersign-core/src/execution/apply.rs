//! `apply`: the one function that changes an execution.
//!
//! Each event needs a certain phase. An event that does not fit is refused with both names, and the execution is poisoned: a
//! journal that contradicts itself must not run anything.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use countersign_sdk::{AskKind, Outcome, PrincipalId};

use super::call::{LastMark, PermitState, Run, Step};
use super::script::{self, Became, Progress};
use super::{Asked, AskedState, Call, End, Execution, Phase};
use crate::bounds;
use crate::digest::Digest;
use crate::elicitation::{Decider, Decision, Elicitation, Origin};
use crate::event::{
    CallIssued, CallOutcome, Event, EventBody, Failure, Kind, LogLine, Settlement, StartedBy,
};
use crate::ids::{CallNo, ElicitationId};
use crate::time::Timestamp;

/// An event that does not fit the state it met.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the names say it")]
pub enum ApplyError {
    /// A journal without a first event.
    #[error("the journal is empty")]
    Empty,
    #[error("event {event} does not fit: {problem} (execution in state {state})")]
    Illegal {
        /// The state it met.
        state: String,
        event: &'static str,
        problem: &'static str,
    },
    /// An earlier event did not fit, so nothing does any more.
    #[error("the execution is poisoned by an earlier event that did not fit")]
    Poisoned,
    /// The journal is as long as it may get.
    #[error("the journal has reached its bound of {} events", bounds::MAX_JOURNAL_EVENTS)]
    Full,
}

type Fits = Result<(), &'static str>;

impl Execution {
    /// A new execution from its first event.
    pub fn start(first: &Event) -> Result<Self, ApplyError> {
        let EventBody::Started(facts) = &first.body else {
            let (event, problem) = (first.body.name(), "a journal begins with Started");
            return Err(ApplyError::Illegal { state: "nothing".into(), event, problem });
        };
        if facts.script.is_some() != (facts.kind == Kind::Script) {
            let (event, problem) = (first.body.name(), "a script, and nothing else, has a script");
            return Err(ApplyError::Illegal { state: "nothing".into(), event, problem });
        }
        Ok(Self {
            facts: facts.clone(),
            started_at: first.at,
            version: 1,
            latest: first.at,
            calls: Vec::new(),
            unsettled: BTreeSet::new(),
            doubts: BTreeSet::new(),
            asked: Vec::new(),
            progress: Progress::default(),
            cancel_request: None,
            end: None,
            poisoned: false,
        })
    }

    /// Changes the execution by one event, or refuses the event and everything after it.
    pub fn apply(&mut self, event: &Event) -> Result<(), ApplyError> {
        if self.poisoned {
            return Err(ApplyError::Poisoned);
        }
        if self.version >= bounds::MAX_JOURNAL_EVENTS {
            return Err(ApplyError::Full);
        }
        self.fit(event).map_err(|problem| {
            self.poisoned = true;
            let state = self.status().as_str().into();
            ApplyError::Illegal { state, event: event.body.name(), problem }
        })?;
        self.version += 1;
        self.latest = event.at;
        Ok(())
    }

    fn fit(&mut self, event: &Event) -> Fits {
        if self.end.is_some() {
            return Err("the execution has ended");
        }
        // A clock that jumped back must not revive what a journal has already seen expire (R7).
        if event.at < self.latest {
            return Err("time runs backwards");
        }
        match &event.body {
            EventBody::Started(_) => Err("it started already"),
            EventBody::CallIssued(issued) => self.issue(issued),
            EventBody::Asked(elicitation) => self.ask(event.at, elicitation),
            EventBody::Decided { decision, .. } if decision.at != event.at => {
                Err("it was decided at another time")
            }
            EventBody::Decided { elicitation, decision } => self.decide(*elicitation, decision),
            EventBody::Rejudged { call, policy_version } => self.rejudge(*call, *policy_version),
            EventBody::CallStarted { call, by } => self.start_call(event.at, *call, by),
            EventBody::CallReentered { call } => self.enter_again(*call),
            EventBody::StepRecorded { call, name, value } => {
                let run = self.running(*call)?;
                if run.steps.len() >= bounds::MAX_STEPS_PER_CALL {
                    return Err("the call has recorded as many steps as it may");
                }
                run.steps.push(Step { name: name.clone(), value: value.clone() });
                run.entries = 1;
                self.progress.weigh(value.as_str().len());
                Ok(())
            }
            EventBody::CallSettled { call, outcome } => self.settle(event.at, *call, outcome),
            EventBody::CallRefused { path, requested, failure } => {
                self.only_scripts()?;
                let became = Became::Refused { path: path.clone(), failure: failure.clone() };
                let request = self.progress.request(*requested, became)?;
                self.progress.weigh(path.len() + failure.message.len());
                self.progress.complete(request, event.at);
                Ok(())
            }
            EventBody::SleepStarted { ms } => self.sleep(event.at, *ms),
            EventBody::SleepEnded { request } => self.progress.wake(*request, event.at),
            EventBody::ScriptWaits { seen } => {
                self.only_scripts()?;
                self.progress.saw(*seen)
            }
            EventBody::Finished { outcome, logs } => self.finish(event.at, outcome, logs),
            EventBody::CancelRequested { by, reason } => {
                self.only_scripts()?;
                self.cancel_request.get_or_insert((by.clone(), reason.clone()));
                Ok(())
            }
            EventBody::Cancelled { reason, .. } => self.cancel(event.at, reason),
            EventBody::FoundInDoubt { call, .. } => self.doubt(*call),
            EventBody::DoubtSettled { call, settlement, by } => {
                self.settle_doubt(event.at, *call, settlement, by)
            }
        }
    }

    fn issue(&mut self, issued: &CallIssued) -> Fits {
        if issued.call.0 as usize != self.calls.len() {
            return Err("calls are numbered in issue order");
        }
        let call = Call::new(issued);
        if self.binding(&call, call.fingerprint, call.policy_version).digest() != call.digest {
            return Err("its digest is not the digest of what it says");
        }
        match (self.facts.kind, issued.requested) {
            (Kind::Call | Kind::Gate, _) if issued.call.0 > 0 => return Err("it consists of one call"),
            (Kind::Call | Kind::Gate, Some(_)) => return Err("only a script asks for calls"),
            (Kind::Call | Kind::Gate, None) => {}
            (Kind::Script, Some(requested)) => {
                self.progress.request(requested, Became::Call(call.no))?;
                self.progress.weigh(call.args.as_str().len());
            }
            (Kind::Script, None) => return Err("a script's call says what was asked for"),
        }
        self.unsettled.insert(call.no);
        self.calls.push(call);
        Ok(())
    }

    fn sleep(&mut self, at: Timestamp, ms: u64) -> Fits {
        self.only_scripts()?;
        if ms > bounds::MAX_SLEEP_MS {
            return Err("nothing sleeps that long");
        }
        let until = at.after(Duration::from_millis(ms));
        self.progress.request(script::sleep_digest(ms), Became::Asleep { until }).map(|_| ())
    }

    fn only_scripts(&self) -> Fits {
        if self.facts.kind == Kind::Script { Ok(()) } else { Err("it is no script") }
    }

    fn ask(&mut self, at: Timestamp, elicitation: &Arc<Elicitation>) -> Fits {
        if self.find(elicitation.id).is_some() {
            return Err("an elicitation id is used once");
        }
        let kind = self.facts.kind;
        let again = self.call(elicitation.call).is_some_and(|call| self.was_withdrawn(call));
        let call = self.call_mut(elicitation.call)?;
        match (elicitation.origin, &mut call.phase) {
            (Origin::Gate, phase) if again || *phase == Phase::Issued => {
                let same = elicitation.digest == call.digest
                    && elicitation.args == call.args
                    && elicitation.tool == call.path;
                if !same || elicitation.kind != AskKind::Approval {
                    return Err("the gate asks for approval of the call as it will run, and nothing else");
                }
                *phase = Phase::Asked { elicitation: elicitation.id };
                // The gate asks once the script has run as far as it can; asking again says nothing of the script.
                if !again {
                    self.progress.saw_all();
                }
            }
            (Origin::Handler { .. }, _) if kind == Kind::Gate => return Err("a bare gate has no handler"),
            (Origin::Handler { ordinal }, Phase::Running(run)) => {
                if ordinal as usize != run.asks.len() {
                    return Err("a handler's questions are numbered in order");
                }
                if run.asks.len() >= bounds::MAX_ASKS_PER_CALL {
                    return Err("the call has asked as often as it may");
                }
                run.asks.push(elicitation.id);
                run.last = LastMark::AtQuestion;
                run.entries = 0;
            }
            _ => return Err("the call is in no phase to ask"),
        }
        self.progress.weigh(elicitation.args.as_str().len() + elicitation.message.len());
        self.asked.push(Asked { elicitation: Arc::clone(elicitation), at, state: AskedState::Open });
        Ok(())
    }

    fn decide(&mut self, id: ElicitationId, decision: &Decision) -> Fits {
        let asked = self.asked.iter_mut().find(|a| a.elicitation.id == id).ok_or("no such elicitation")?;
        if asked.state != AskedState::Open {
            return Err("the elicitation was decided already");
        }
        check_time(&asked.elicitation, decision)?;
        asked.state = AskedState::Decided(decision.clone());
        let (call, origin) = (asked.elicitation.call, asked.elicitation.origin);
        let call = self.call_mut(call)?;
        match (origin, &call.phase) {
            (Origin::Gate, Phase::Asked { elicitation }) if *elicitation == id => {
                call.phase = match decision.outcome {
                    Outcome::Approved => Phase::Cleared { elicitation: id },
                    Outcome::Denied | Outcome::Cancelled | Outcome::Expired => {
                        Phase::Refused { elicitation: id }
                    }
                };
                Ok(())
            }
            (Origin::Handler { .. }, Phase::Running(_)) => Ok(()),
            _ => Err("the call waits for no such decision"),
        }
    }

    /// A question that is open or approved keeps the digest that was shown; where there is no such question, the
    /// next one is bound to the new policy.
    fn rejudge(&mut self, no: CallNo, policy_version: Digest) -> Fits {
        let call = self.call(no).ok_or("no such call")?;
        let renewed = match &call.phase {
            Phase::Issued => true,
            Phase::Refused { .. } if self.was_withdrawn(call) => true,
            Phase::Asked { .. } | Phase::Cleared { .. } | Phase::Running(_) => false,
            _ => return Err("the call is in no phase to be judged again"),
        };
        let digest = self.binding(call, call.fingerprint, policy_version).digest();
        let call = self.call_mut(no)?;
        call.policy_version = policy_version;
        if renewed {
            (call.asked_under, call.digest) = (policy_version, digest);
        }
        Ok(())
    }

    /// Whether the gate's question about this call was withdrawn, not denied.
    fn was_withdrawn(&self, call: &Call) -> bool {
        let Phase::Refused { elicitation } = call.phase else { return false };
        let decision = self.find(elicitation).and_then(Asked::decision);
        decision.is_some_and(|decision| matches!(decision.by, Decider::Gateway { .. }))
    }

    fn start_call(&mut self, at: Timestamp, no: CallNo, by: &StartedBy) -> Fits {
        let phase = self.call_mut(no)?.phase.clone();
        match (by, phase) {
            (StartedBy::Policy { .. } | StartedBy::Grant { .. }, Phase::Issued) => {
                self.enter(no, by, Vec::new())
            }
            (StartedBy::Decision { elicitation }, Phase::Cleared { elicitation: cleared })
                if *elicitation == cleared =>
            {
                let yes = self.use_decision(at, cleared)?;
                if yes != Outcome::Approved
                    || self.find(cleared).map(|a| a.elicitation.digest) != self.call(no).map(|c| c.digest)
                {
                    return Err("the approval is for something else");
                }
                self.enter(no, by, Vec::new())
            }
            (StartedBy::Decision { elicitation }, Phase::Running(run)) if run.asks.contains(elicitation) => {
                let outcome = self.use_decision(at, *elicitation)?;
                let authorises = self.find(*elicitation).is_some_and(|a| a.elicitation.authorises());
                let run = self.running(no)?;
                run.last = LastMark::AllowedToRun;
                run.entries = 1;
                run.allowed_by_approval |= outcome == Outcome::Approved && authorises;
                Ok(())
            }
            (StartedBy::Retry, Phase::Retrying { run, by: who, at: said_at }) => {
                self.enter(no, by, run.steps)?;
                self.running(no)?.retried = Some((who, said_at));
                Ok(())
            }
            _ => Err("the call is in no phase to start on this authority"),
        }
    }

    fn enter(&mut self, no: CallNo, by: &StartedBy, steps: Vec<Step>) -> Fits {
        self.call_mut(no)?.phase = Phase::Running(Run::begun(by.clone(), steps));
        Ok(())
    }

    fn enter_again(&mut self, no: CallNo) -> Fits {
        let may_be_doubtful = self.call_mut(no)?.would_be_in_doubt();
        let run = self.running(no)?;
        match run.permit {
            PermitState::Spent => return Err("its handler is running"),
            PermitState::Lost if may_be_doubtful => {
                return Err("it may have had its effect; only a person can have it run again");
            }
            // Unspent: the start is recorded, and its handler was never entered.
            PermitState::Lost | PermitState::Unspent => {}
        }
        run.permit = PermitState::Unspent;
        run.entries += 1;
        Ok(())
    }

    /// One decision, one use. A yes is good only until the question's expiry.
    fn use_decision(&mut self, at: Timestamp, id: ElicitationId) -> Result<Outcome, &'static str> {
        let asked = self.asked.iter_mut().find(|a| a.elicitation.id == id).ok_or("no such elicitation")?;
        let AskedState::Decided(decision) = &asked.state else {
            return Err("the decision is not there, or was used");
        };
        if decision.outcome == Outcome::Approved
            && asked.elicitation.authorises()
            && at >= asked.elicitation.expires_at
        {
            return Err("the approval has expired");
        }
        let (outcome, decision) = (decision.outcome, decision.clone());
        asked.state = AskedState::Used(decision);
        Ok(outcome)
    }

    fn settle(&mut self, at: Timestamp, no: CallNo, outcome: &CallOutcome) -> Fits {
        self.none_open(no)?;
        match (&self.call_mut(no)?.phase, outcome) {
            (Phase::Running(_), _)
            | (
                Phase::Issued | Phase::Cleared { .. } | Phase::Refused { .. } | Phase::Retrying { .. },
                CallOutcome::Failed(_),
            ) => self.settled(at, no, outcome.clone()),
            _ => Err("the call is in no phase to settle so"),
        }
    }

    fn settled(&mut self, at: Timestamp, no: CallNo, outcome: CallOutcome) -> Fits {
        self.progress.weigh(outcome.bytes());
        self.call_mut(no)?.phase = Phase::Settled(outcome);
        self.unsettled.remove(&no);
        self.progress.complete_call(no, at);
        Ok(())
    }

    fn finish(&mut self, at: Timestamp, outcome: &CallOutcome, logs: &[LogLine]) -> Fits {
        match (self.facts.kind, &self.calls[..]) {
            (Kind::Script, _) if self.unsettled.is_empty() => {}
            (Kind::Script, _) => return Err("a call of it is not settled"),
            (Kind::Call | Kind::Gate, [Call { phase: Phase::Settled(settled), .. }]) => {
                if settled != outcome {
                    return Err("its call ended otherwise");
                }
            }
            (Kind::Call | Kind::Gate, _) => return Err("its call is not settled"),
        }
        self.end = Some(End::Finished { at, outcome: outcome.clone(), logs: logs.to_vec() });
        Ok(())
    }

    fn cancel(&mut self, at: Timestamp, reason: &str) -> Fits {
        if self.open().next().is_some() {
            return Err("a question is open");
        }
        if self.may_have_acted() {
            return Err("a call may have had an effect; it ends with its own outcome");
        }
        self.end = Some(End::Cancelled { at, reason: reason.to_owned() });
        Ok(())
    }

    fn doubt(&mut self, no: CallNo) -> Fits {
        self.none_open(no)?;
        let call = self.call_mut(no)?;
        let (Phase::Running(run) | Phase::Retrying { run, .. }) = &call.phase else {
            return Err("only a started call can be in doubt");
        };
        call.phase = Phase::InDoubt(run.clone());
        self.doubts.insert(no);
        Ok(())
    }

    fn settle_doubt(&mut self, at: Timestamp, no: CallNo, settlement: &Settlement, by: &PrincipalId) -> Fits {
        let call = self.call_mut(no)?;
        let Phase::InDoubt(run) = &call.phase else { return Err("the call is not in doubt") };
        let run = run.clone();
        self.doubts.remove(&no);
        match settlement {
            Settlement::Done { value } => self.settled(at, no, CallOutcome::Succeeded(value.clone())),
            Settlement::Failed { message } => {
                self.settled(at, no, CallOutcome::Failed(Failure::new("settled_as_failed", message)))
            }
            Settlement::Retry => {
                self.call_mut(no)?.phase = Phase::Retrying { run, by: by.clone(), at };
                Ok(())
            }
        }
    }

    fn none_open(&self, no: CallNo) -> Fits {
        if self.open().any(|e| e.call == no) { Err("a question of the call is open") } else { Ok(()) }
    }

    fn running(&mut self, no: CallNo) -> Result<&mut Run, &'static str> {
        match &mut self.call_mut(no)?.phase {
            Phase::Running(run) => Ok(run),
            _ => Err("the call is not running"),
        }
    }

    fn call_mut(&mut self, no: CallNo) -> Result<&mut Call, &'static str> {
        self.calls.get_mut(no.0 as usize).ok_or("no such call")
    }
}

/// R7: people decide before the expiry, the clock from it on; there is no moment at which both or neither may.
fn check_time(elicitation: &Elicitation, decision: &Decision) -> Fits {
    let expired = decision.at >= elicitation.expires_at;
    match (&decision.by, decision.outcome) {
        (Decider::Clock, Outcome::Expired) if expired => Ok(()),
        (Decider::Clock, Outcome::Expired) => Err("it has not expired yet"),
        (Decider::Clock, _) | (_, Outcome::Expired) => Err("only the clock expires, and does nothing else"),
        (Decider::Gateway { .. }, Outcome::Cancelled) => Ok(()),
        (Decider::Gateway { .. }, _) => Err("the gateway may only cancel"),
        (Decider::Grant { .. }, _) if elicitation.kind != AskKind::Approval => {
            Err("a grant answers approvals only")
        }
        (Decider::Grant { .. }, Outcome::Approved) | (Decider::Person { .. }, _) if !expired => Ok(()),
        (Decider::Grant { .. } | Decider::Person { .. }, _) => Err("the elicitation has expired"),
    }
}
