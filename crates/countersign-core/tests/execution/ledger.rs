//! The rules once more, kept by other means: from the accepted events alone, without looking at the state machine.
//!
//! The state machine says which events fit. The ledger says, of those that did, whether they may have: every start on its
//! own authority, every decision once, every use once, nothing hidden, no time twice.

use std::collections::HashMap;

use countersign_core::digest::{Binding, Digest};
use countersign_core::elicitation::{Decider, Decision, Elicitation, Origin};
use countersign_core::event::{
    CallIssued, CallOutcome, Event, EventBody, Failure, Kind, Settlement, Started, StartedBy,
};
use countersign_core::execution::{Execution, Phase};
use countersign_core::ids::ElicitationId;
use countersign_core::time::Timestamp;
use countersign_sdk::{AskKind, Outcome};

type Verdict = Result<(), String>;

#[derive(Default)]
pub(crate) struct Ledger {
    facts: Option<Started>,
    call: Option<CallIssued>,
    questions: HashMap<ElicitationId, Question>,
    /// How often the handler was entered, and how often a person said that it may be once more.
    entries: usize,
    /// How often it was entered again without a start of its own.
    reentries: usize,
    retries: usize,
    traces: Traces,
    in_doubt: bool,
    outcome: Option<CallOutcome>,
    ended: bool,
    accepted: u64,
    latest: Timestamp,
}

struct Question {
    asked: Elicitation,
    decision: Option<Decision>,
    uses: usize,
}

/// What a running handler may have left behind.
#[derive(Default)]
struct Traces {
    past_a_yes: bool,
    steps: usize,
    asked_last: bool,
}

impl Ledger {
    /// How many permits there can have been: one for each entry.
    pub(crate) fn entries(&self) -> usize {
        self.entries + self.reentries
    }

    /// Takes note of an accepted event, or says why it should not have been.
    pub(crate) fn note(&mut self, event: &Event) -> Verdict {
        self.accepted += 1;
        if self.ended || event.at < self.latest {
            return Err(format!("{} after the end, or before the last event", event.body.name()));
        }
        self.latest = event.at;
        match &event.body {
            EventBody::Started(facts) => self.facts = Some(facts.clone()),
            EventBody::CallIssued(issued) => return self.issued(issued),
            EventBody::Asked(asked) => return self.asked(asked),
            EventBody::Decided { decision, .. } if decision.at != event.at => {
                return Err("a decision of another time".into());
            }
            EventBody::Decided { elicitation, decision } => return self.decided(*elicitation, decision),
            EventBody::Rejudged { policy_version, .. } => return self.rejudged(*policy_version),
            EventBody::CallStarted { by, .. } => return self.started(event, by),
            EventBody::CallReentered { .. } => return self.entered_again(),
            EventBody::StepRecorded { .. } => self.traces.steps += 1,
            EventBody::CancelRequested { .. }
            | EventBody::CallRefused { .. }
            | EventBody::SleepStarted { .. }
            | EventBody::SleepEnded { .. }
            | EventBody::ScriptWaits { .. } => return Err("a script's event without a script".into()),
            EventBody::CallSettled { outcome, .. } => return self.settled(outcome),
            EventBody::FoundInDoubt { .. } => self.in_doubt = true,
            EventBody::DoubtSettled { settlement, .. } => return self.doubt_settled(settlement),
            EventBody::Finished { outcome, .. } => return self.finished(outcome),
            EventBody::Cancelled { .. } => return self.cancelled(),
        }
        Ok(())
    }

    fn issued(&mut self, issued: &CallIssued) -> Verdict {
        let honest = self.digest_of(issued)? == issued.digest;
        self.call = Some(issued.clone());
        if honest { Ok(()) } else { Err("a call under the digest of something else".into()) }
    }

    fn digest_of(&self, issued: &CallIssued) -> Result<Digest, String> {
        let facts = self.facts.as_ref().ok_or("a call of nobody")?;
        let binding = Binding {
            tool: &issued.path,
            fingerprint: issued.fingerprint,
            args: &issued.args,
            requester: &facts.requester.id,
            session: &facts.session,
            policy_version: issued.policy_version,
        };
        Ok(binding.digest())
    }

    /// A digest is renewed only while nobody reads it or has approved it.
    fn rejudged(&mut self, policy_version: Digest) -> Verdict {
        let mut call = self.call.clone().ok_or("nothing judged again")?;
        let mut of_gate = self.questions.values().filter(|q| q.asked.origin == Origin::Gate);
        let nobody_relies_on_it = of_gate.all(Question::was_withdrawn) && self.entries == 0;
        if self.outcome.is_some() || self.in_doubt {
            return Err("judged again although it ran".into());
        }
        if nobody_relies_on_it {
            call.policy_version = policy_version;
            call.digest = self.digest_of(&call)?;
            self.call = Some(call);
        }
        Ok(())
    }

    fn asked(&mut self, asked: &Elicitation) -> Verdict {
        let call = self.call.as_ref().ok_or("a question about nothing")?;
        let gate_only = self.facts.as_ref().is_none_or(|facts| facts.kind == Kind::Gate);
        if asked.origin == Origin::Gate {
            let same = (&asked.tool, &asked.args, asked.digest) == (&call.path, &call.args, call.digest);
            if !same || asked.kind != AskKind::Approval {
                return Err("the gate shows something else than the call".into());
            }
            let mut before = self.questions.values().filter(|q| q.asked.origin == Origin::Gate);
            if !before.all(Question::was_withdrawn) {
                return Err("the gate asks again after an answer".into());
            }
        } else if gate_only {
            return Err("a handler where there is none".into());
        } else {
            self.traces.asked_last = true;
        }
        let question = Question { asked: asked.clone(), decision: None, uses: 0 };
        match self.questions.insert(asked.id, question) {
            Some(_) => Err(format!("{} was asked twice", asked.id)),
            None => Ok(()),
        }
    }

    fn decided(&mut self, id: ElicitationId, decision: &Decision) -> Verdict {
        let question = self.questions.get_mut(&id).ok_or("a decision about nothing")?;
        let late = decision.at >= question.asked.expires_at;
        let by_clock = decision.outcome == Outcome::Expired;
        if matches!(decision.by, Decider::Grant { .. }) && question.asked.kind != AskKind::Approval {
            return Err("a grant that fills in a form".into());
        }
        if by_clock != late && decision.outcome != Outcome::Cancelled {
            return Err(format!("{decision:?} at the wrong side of {}", question.asked.expires_at));
        }
        match question.decision.replace(decision.clone()) {
            Some(_) => Err(format!("{id} was decided twice")),
            None => Ok(()),
        }
    }

    fn started(&mut self, event: &Event, by: &StartedBy) -> Verdict {
        if self.call.is_none() {
            return Err("a start without a call".into());
        }
        let first = self.entries == 0;
        self.traces.asked_last = false;
        match by {
            StartedBy::Policy { .. } | StartedBy::Grant { .. } => {
                let asked = self.questions.values().any(|q| q.asked.origin == Origin::Gate);
                self.entries += 1;
                if first && !asked {
                    Ok(())
                } else {
                    Err("a second start, or one past an asking gate".into())
                }
            }
            StartedBy::Retry => {
                self.entries += 1;
                if !first && self.entries <= 1 + self.retries {
                    Ok(())
                } else {
                    Err("a retry nobody asked for".into())
                }
            }
            StartedBy::Decision { elicitation } => {
                let question = self.questions.get_mut(elicitation).ok_or("a start on no question")?;
                if question.asked.origin == Origin::Gate {
                    self.entries += 1;
                    question.lets_in()?;
                    if !first {
                        return Err("the gate let in twice".into());
                    }
                } else {
                    self.traces.past_a_yes |= question.lets_in().is_ok() && question.asked.authorises();
                }
                question.used(event)
            }
        }
    }

    fn entered_again(&mut self) -> Verdict {
        if self.entries == 0 || self.in_doubt || self.outcome.is_some() {
            return Err("entered again without having run".into());
        }
        self.reentries += 1;
        Ok(())
    }

    fn settled(&mut self, outcome: &CallOutcome) -> Verdict {
        let nobody_entered = self.entries == 0 && matches!(outcome, CallOutcome::Succeeded(_));
        if nobody_entered || self.in_doubt || self.outcome.replace(outcome.clone()).is_some() {
            return Err(format!("{outcome:?} without a start, over a doubt, or once more"));
        }
        Ok(())
    }

    fn doubt_settled(&mut self, settlement: &Settlement) -> Verdict {
        if !std::mem::take(&mut self.in_doubt) {
            return Err("a doubt settled that was none".into());
        }
        match settlement {
            Settlement::Retry => {
                self.retries += 1;
                Ok(())
            }
            Settlement::Done { value } => self.settled(&CallOutcome::Succeeded(value.clone())),
            Settlement::Failed { message } => {
                self.settled(&CallOutcome::Failed(Failure::new("settled_as_failed", message)))
            }
        }
    }

    fn finished(&mut self, outcome: &CallOutcome) -> Verdict {
        if self.outcome.as_ref() != Some(outcome) {
            return Err(format!("{outcome:?} told of a call that ended with {:?}", self.outcome));
        }
        self.ends()
    }

    fn cancelled(&mut self) -> Verdict {
        let destructive = self.call.as_ref().is_some_and(|call| call.effects.destructive);
        let acts = self.entries > 0 && (destructive || self.traces.past_a_yes);
        let acted = acts && (!self.traces.asked_last || self.traces.steps > 0);
        if acted || self.retries > 0 || self.outcome.is_some() {
            return Err("cancelled over an effect".into());
        }
        self.ends()
    }

    fn ends(&mut self) -> Verdict {
        self.ended = true;
        let open = self.questions.values().any(|q| q.decision.is_none());
        if open || self.in_doubt { Err("an end over an open question or a doubt".into()) } else { Ok(()) }
    }

    /// Whether the execution tells the same story.
    pub(crate) fn agrees(&self, execution: &Execution) -> Verdict {
        if execution.version() != self.accepted {
            return Err(format!("version {} after {} events", execution.version(), self.accepted));
        }
        if execution.asked().len() != self.questions.len() {
            return Err("a question is missing".into());
        }
        for asked in execution.asked() {
            let question = self.questions.get(&asked.elicitation.id).ok_or("a question nobody asked")?;
            if asked.decision() != question.decision.as_ref() || *asked.elicitation != question.asked {
                return Err(format!("{} is told otherwise", asked.elicitation.id));
            }
        }
        let phase = execution.calls().first().map(|call| call.phase());
        let ran = match phase {
            Some(Phase::Running(_) | Phase::InDoubt(_) | Phase::Retrying { .. }) => true,
            Some(Phase::Settled(outcome)) if self.outcome.as_ref() != Some(outcome) => false,
            Some(Phase::Settled(CallOutcome::Succeeded(_))) => true,
            _ => return Ok(()),
        };
        if ran && self.entries > 0 { Ok(()) } else { Err(format!("{phase:?} without a start")) }
    }
}

impl Question {
    fn was_withdrawn(&self) -> bool {
        self.decision.as_ref().is_some_and(|d| matches!(d.by, Decider::Gateway { .. }))
    }

    /// Whether its answer is a yes.
    fn lets_in(&self) -> Verdict {
        let yes = self.decision.as_ref().is_some_and(|d| d.outcome == Outcome::Approved);
        if yes { Ok(()) } else { Err(format!("let in without a yes: {:?}", self.decision)) }
    }

    fn used(&mut self, event: &Event) -> Verdict {
        let decision = self.decision.as_ref().ok_or("an answer used before it was given")?;
        let authorises = decision.outcome == Outcome::Approved && self.asked.authorises();
        if authorises && event.at >= self.asked.expires_at {
            return Err("a yes used after its expiry".into());
        }
        self.uses += 1;
        if self.uses == 1 { Ok(()) } else { Err(format!("{} was used {} times", self.asked.id, self.uses)) }
    }
}
