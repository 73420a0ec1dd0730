//! The rules once more, kept by other means: from the accepted events alone, without looking at the state machine.
//!
//! The state machine says which events fit. The ledger says, of those that did, whether they may have: every start on its
//! own authority, every decision once, every use once.

use std::collections::HashMap;

use countersign_core::digest::Digest;
use countersign_core::elicitation::{Decision, Elicitation, Origin};
use countersign_core::event::{CallIssued, CallOutcome, Event, EventBody, Settlement, StartedBy};
use countersign_core::execution::{Execution, Phase};
use countersign_core::ids::ElicitationId;
use countersign_sdk::Outcome;

type Verdict = Result<(), String>;

#[derive(Default)]
pub(crate) struct Ledger {
    call: Option<CallIssued>,
    questions: HashMap<ElicitationId, Question>,
    /// How often the handler was entered, and how often a person said that it may be once more.
    entries: usize,
    retries: usize,
    in_doubt: bool,
    done: bool,
    ended: bool,
    accepted: u64,
}

struct Question {
    asked: Elicitation,
    decision: Option<Decision>,
    uses: usize,
}

impl Ledger {
    /// How many permits there can have been: one for each entry.
    pub(crate) fn entries(&self) -> usize {
        self.entries
    }

    /// Takes note of an accepted event, or says why it should not have been.
    pub(crate) fn note(&mut self, event: &Event) -> Verdict {
        self.accepted += 1;
        if self.ended {
            return Err(format!("{} after the end", event.body.name()));
        }
        match &event.body {
            EventBody::CallIssued(issued) => self.call = Some(issued.clone()),
            EventBody::Asked(asked) => {
                let question = Question { asked: (**asked).clone(), decision: None, uses: 0 };
                if self.questions.insert(asked.id, question).is_some() {
                    return Err(format!("{} was asked twice", asked.id));
                }
            }
            EventBody::Decided { elicitation, decision } => return self.decided(*elicitation, decision),
            EventBody::CallStarted { by, .. } => return self.started(event, by),
            EventBody::CallSettled { outcome: CallOutcome::Succeeded(_), .. } => return self.succeeded(),
            EventBody::FoundInDoubt { .. } => self.in_doubt = true,
            EventBody::DoubtSettled { settlement, .. } => return self.doubt_settled(settlement),
            EventBody::Finished { .. } | EventBody::Cancelled { .. } => return self.ends(),
            EventBody::Started(_) | EventBody::StepRecorded { .. } | EventBody::CallSettled { .. } => {}
        }
        Ok(())
    }

    fn decided(&mut self, id: ElicitationId, decision: &Decision) -> Verdict {
        let question = self.questions.get_mut(&id).ok_or("a decision about nothing")?;
        let late = decision.at >= question.asked.expires_at;
        let by_clock = decision.outcome == Outcome::Expired;
        if by_clock != late && decision.outcome != Outcome::Cancelled {
            return Err(format!("{decision:?} at the wrong side of {}", question.asked.expires_at));
        }
        match question.decision.replace(decision.clone()) {
            Some(_) => Err(format!("{id} was decided twice")),
            None => Ok(()),
        }
    }

    fn started(&mut self, event: &Event, by: &StartedBy) -> Verdict {
        let call = self.call.as_ref().ok_or("a start without a call")?;
        let first = self.entries == 0;
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
                    question.lets_in(call.digest)?;
                    if !first {
                        return Err("the gate let in twice".into());
                    }
                }
                question.used(event)
            }
        }
    }

    fn succeeded(&mut self) -> Verdict {
        self.done = true;
        if self.entries > 0 { Ok(()) } else { Err("success without a start".into()) }
    }

    fn doubt_settled(&mut self, settlement: &Settlement) -> Verdict {
        if !std::mem::take(&mut self.in_doubt) {
            return Err("a doubt settled that was none".into());
        }
        match settlement {
            Settlement::Retry => self.retries += 1,
            Settlement::Done { .. } => self.done = true,
            Settlement::Failed { .. } => {}
        }
        Ok(())
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
            if asked.decision() != question.decision.as_ref() || asked.elicitation != question.asked {
                return Err(format!("{} is told otherwise", asked.elicitation.id));
            }
        }
        let phase = execution.calls().first().map(|call| call.phase());
        let ran = match phase {
            Some(Phase::Running(_) | Phase::InDoubt(_) | Phase::Retrying(_)) => true,
            Some(Phase::Settled(CallOutcome::Succeeded(_))) => self.done,
            _ => return Ok(()),
        };
        if ran && self.entries > 0 { Ok(()) } else { Err(format!("{phase:?} without a start")) }
    }
}

impl Question {
    /// Whether its answer lets in the call with this digest.
    fn lets_in(&self, digest: Digest) -> Verdict {
        let yes = self.decision.as_ref().is_some_and(|d| d.outcome == Outcome::Approved);
        if !yes {
            return Err(format!("let in without a yes: {:?}", self.decision));
        }
        if self.asked.digest != digest {
            return Err("let in on a yes to something else".into());
        }
        Ok(())
    }

    fn used(&mut self, event: &Event) -> Verdict {
        let decision = self.decision.as_ref().ok_or("an answer used before it was given")?;
        if decision.outcome == Outcome::Approved && event.at >= self.asked.expires_at {
            return Err("a yes used after its expiry".into());
        }
        self.uses += 1;
        if self.uses == 1 { Ok(()) } else { Err(format!("{} was used {} times", self.asked.id, self.uses)) }
    }
}
