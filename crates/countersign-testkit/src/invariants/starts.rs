//! Every start and every entry, whatever allowed it: by policy, by a remembered approval, by a decision, by a retry, or again after
//! a crash. Idempotent tools are no exception: they may be entered again, but only with a recorded start each time.
//!
//! No scenario that is checked has a rule which allows destructive calls without asking.

use std::collections::HashMap;

use countersign_core::elicitation::Origin;
use countersign_core::event::{CallIssued, Event, EventBody, Settlement, StartedBy};
use countersign_core::grant::Grant;
use countersign_core::ids::{CallNo, ExecutionId};
use countersign_sdk::{Effects, Outcome};

use super::{Found, asked, entries, of_call};
use crate::lab::awkward::SECOND_QUESTION;
use crate::ledger::Ledger;

/// A handler that brings the process down is entered this often at most, unless a person has it run again.
const MOST_DEATHS: usize = 3;

impl Found {
    /// The starts of one execution's calls, each against what allowed it.
    pub(super) fn check_starts(&mut self, id: ExecutionId, journal: &[Event], grants: &[Grant]) {
        let issued = journal.iter().filter_map(|event| match &event.body {
            EventBody::CallIssued(issued) => Some(issued),
            _ => None,
        });
        for call in issued {
            self.check_starts_of(id, call, &of_call(journal, call.call), grants);
        }
    }

    fn check_starts_of(&mut self, id: ExecutionId, call: &CallIssued, journal: &[Event], grants: &[Grant]) {
        let (mut starts, mut retries) = (0, 0);
        for event in journal {
            let by = match &event.body {
                EventBody::DoubtSettled { settlement: Settlement::Retry, .. } => {
                    retries += 1;
                    continue;
                }
                EventBody::CallStarted { by, .. } => by,
                _ => continue,
            };
            match by {
                StartedBy::Policy { rule } if call.effects.destructive => {
                    self.add(
                        "R1",
                        id,
                        &format!("{} is destructive and was started by policy: {rule}", call.path),
                    );
                }
                StartedBy::Grant { id: grant } => {
                    // When it was given proves nothing: the clock may have jumped back since.
                    let fits = |grant: &Grant| {
                        grant.expires_at.is_none_or(|end| event.at < end)
                            && grant.tools.iter().any(|tool| tool.path == call.path)
                    };
                    if grants.iter().any(|known| known.id == *grant && !fits(known)) {
                        self.add("R1", id, &format!("{grant} does not cover the start of {}", call.path));
                    }
                }
                StartedBy::Retry if retries == 0 => {
                    self.add(
                        "R1",
                        id,
                        &format!("{} was started by a retry that nobody asked for", call.path),
                    );
                }
                StartedBy::Retry => retries -= 1,
                StartedBy::Policy { .. } | StartedBy::Decision { .. } => {}
            }
            let is_anew = entries(std::slice::from_ref(event)) == 1 || is_of_the_gate(by, journal);
            starts += usize::from(is_anew);
            let may_repeat = call.effects.idempotent || !call.effects.destructive || *by == StartedBy::Retry;
            if is_anew && starts > 1 && !may_repeat {
                self.add(
                    "R3",
                    id,
                    &format!("{} was started {starts} times, and nobody asked for a retry", call.path),
                );
            }
        }
    }

    /// Handlers were entered no more often than starts were recorded.
    pub(super) fn check_entries(&mut self, ledger: &Ledger, journals: &HashMap<ExecutionId, Vec<Event>>) {
        let mut counts: HashMap<(String, String), usize> = HashMap::new();
        for entry in ledger.entries() {
            *counts.entry((entry.key, entry.tool)).or_default() += 1;
        }
        for ((key, tool), times) in counts {
            let Some((id, no)) = call_of(&key) else { continue };
            let journal = journals.get(&id).map(|journal| of_call(journal, no)).unwrap_or_default();
            let retries = count(&journal, |body| {
                matches!(body, EventBody::DoubtSettled { settlement: Settlement::Retry, .. })
            });
            if tool.starts_with("awkward.fatal") && times > MOST_DEATHS * (1 + retries) {
                self.add("liveness", id, &format!("{tool} brought the process down {times} times"));
            }
            let effects = journal.iter().find_map(|event| match &event.body {
                EventBody::CallIssued(issued) => Some(issued.effects),
                _ => None,
            });
            match effects {
                None if tool != "awkward.fatal" => {
                    self.add("R1", id, &format!("{tool} was entered and has no journal"));
                }
                Some(effects) if effects.destructive => {
                    let recorded = recorded_entries(&journal, effects);
                    if times > recorded {
                        self.add(
                            "R1",
                            id,
                            &format!("{tool} was entered {times} times on {recorded} recorded start(s)"),
                        );
                    }
                }
                _ => {}
            }
        }
    }

    /// A handler's own question is answered by a person each time the handler acts on it: a retry asks anew.
    pub(super) fn check_answers(&mut self, ledger: &Ledger, journals: &HashMap<ExecutionId, Vec<Event>>) {
        let mut counts: HashMap<String, usize> = HashMap::new();
        for effect in ledger.effects().into_iter().filter(|effect| effect.what == SECOND_QUESTION) {
            *counts.entry(effect.key).or_default() += 1;
        }
        for (key, times) in counts {
            let Some((id, no)) = call_of(&key) else { continue };
            let journal = journals.get(&id).map(|journal| of_call(journal, no)).unwrap_or_default();
            let approved = |body: &EventBody| {
                let EventBody::Decided { elicitation, decision } = body else { return false };
                let mut questions = journal.iter().filter_map(asked);
                let question = questions.find(|(id, _)| id == elicitation);
                decision.outcome == Outcome::Approved
                    && question.is_some_and(|(_, question)| question.message == SECOND_QUESTION)
            };
            let answers = count(&journal, approved);
            if times > answers {
                self.add("R1", id, &format!("its handler acted {times} times on {answers} answer(s)"));
            }
        }
    }

    /// Every remembered approval is in the audit.
    pub(super) fn check_grants(&mut self, grants: &[Grant], audit: &[String]) {
        for grant in grants {
            let id = grant.id.to_string();
            if !audit.iter().any(|entry| entry.contains(&id) && entry.contains("GrantGiven")) {
                self.0.push(format!("R11: {id} was given and is not in the audit"));
            }
        }
    }
}

/// How often the journal lets a handler in. A started handler that may not be repeated goes on from its own question and is not
/// entered again for it.
fn recorded_entries(journal: &[Event], effects: Effects) -> usize {
    match effects.idempotent || effects.is_resumable() {
        true => count(journal, |body| {
            matches!(body, EventBody::CallStarted { .. } | EventBody::CallReentered { .. })
        }),
        false => entries(journal),
    }
}

fn is_of_the_gate(by: &StartedBy, journal: &[Event]) -> bool {
    let StartedBy::Decision { elicitation } = by else { return false };
    let mut questions = journal.iter().filter_map(asked);
    questions.any(|(id, question)| id == *elicitation && question.origin == Origin::Gate)
}

fn count(journal: &[Event], is_counted: impl Fn(&EventBody) -> bool) -> usize {
    journal.iter().filter(|event| is_counted(&event.body)).count()
}

/// A handler's key is its execution and the number of its call.
pub(super) fn call_of(key: &str) -> Option<(ExecutionId, CallNo)> {
    let (id, call) = key.rsplit_once('.')?;
    Some((id.parse().ok()?, CallNo(call.parse().ok()?)))
}
