//! The checker: compares journals, audit, effects and acknowledgements with the rules, from outside.
//!
//! It uses nothing of the kernel but the store's reads, so that a bug of the kernel cannot hide itself.

mod starts;

use std::collections::HashMap;

use countersign_core::audit;
use countersign_core::digest::Digest;
use countersign_core::elicitation::{Decider, Elicitation, Origin};
use countersign_core::event::{CallOutcome, Event, EventBody, StartedBy};
use countersign_core::execution::{Execution, Status};
use countersign_core::ids::{CallNo, ElicitationId, ExecutionId};
use countersign_kernel::ports::{ExecutionFilter, ExecutionRow, Page, Store};
use countersign_sdk::{Outcome, PrincipalKind};

use crate::history::History;
use crate::ledger::Ledger;
use crate::world::session;
use starts::call_of;

/// Whether work may still be under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// Handlers may be running.
    Busy,
    /// Everything that could go on has; nothing may be running.
    AtRest,
}

/// Every violation found; empty is good.
pub async fn violations(
    store: &dyn Store,
    ledger: &Ledger,
    history: &History,
    moment: Moment,
) -> Vec<String> {
    let mut found = Found::default();
    let rows = all_executions(store).await;
    let grants = store.grants(&session()).await.unwrap_or_default();
    let mut journals = HashMap::new();
    for row in &rows {
        let journal = store.journal(row.id).await.unwrap_or_default();
        found.check_journal(row, &journal, moment);
        found.check_starts(row.id, &journal, &grants);
        journals.insert(row.id, journal);
    }
    found.check_effects(ledger, &journals);
    found.check_entries(ledger, &journals);
    found.check_answers(ledger, &journals);
    found.check_history(history, &journals, moment);
    let audit = found.check_audit(store, &journals).await;
    found.check_grants(&grants, &audit);
    found.0
}

/// Every journal, as text, to compare two runs.
pub async fn dump(store: &dyn Store) -> String {
    let mut text = String::new();
    for row in all_executions(store).await {
        text.push_str(&format!("{} {}\n", row.id, row.status.as_str()));
        for event in store.journal(row.id).await.unwrap_or_default() {
            text.push_str(&format!("  {} {:?}\n", event.at, event.body));
        }
    }
    text
}

#[derive(Default)]
struct Found(Vec<String>);

impl Found {
    fn check_journal(&mut self, row: &ExecutionRow, journal: &[Event], moment: Moment) {
        let execution = match Execution::replay(journal) {
            Ok(execution) => execution,
            Err(error) => return self.add("R8", row.id, &format!("its journal does not replay: {error}")),
        };
        if execution.status() != row.status {
            self.add(
                "R9",
                row.id,
                &format!("its row says {:?}, its journal {:?}", row.status, execution.status()),
            );
        }
        if moment == Moment::AtRest && execution.status() == Status::Running {
            self.add("R9", row.id, &format!("at rest it is still running: next is {:?}", execution.next()));
        }
        let questions: HashMap<ElicitationId, &Elicitation> = journal.iter().filter_map(asked).collect();
        let mut used: HashMap<ElicitationId, usize> = HashMap::new();
        for event in journal {
            match &event.body {
                EventBody::CallStarted { by: StartedBy::Decision { elicitation }, .. } => {
                    *used.entry(*elicitation).or_default() += 1;
                    self.check_start(&execution, event, *elicitation, &questions);
                }
                EventBody::Decided { elicitation, decision } => {
                    let late = questions.get(elicitation).is_some_and(|q| decision.at >= q.expires_at);
                    let by_person = matches!(decision.by, Decider::Person { .. });
                    if late && (by_person || decision.outcome == Outcome::Approved) {
                        self.add("R7", row.id, &format!("{elicitation} was decided after its expiry"));
                    }
                    if !late && decision.outcome == Outcome::Expired {
                        self.add("R7", row.id, &format!("{elicitation} expired before its time"));
                    }
                }
                EventBody::CallSettled { outcome: CallOutcome::Failed(failure), .. }
                | EventBody::Finished { outcome: CallOutcome::Failed(failure), .. }
                    if failure.code == "diverged" =>
                {
                    self.add("R8", row.id, "a replay diverged");
                }
                _ => {}
            }
        }
        for (elicitation, times) in used.into_iter().filter(|(_, times)| *times > 1) {
            self.add("R3", row.id, &format!("the decision of {elicitation} was used {times} times"));
        }
    }

    fn check_start(
        &mut self,
        execution: &Execution,
        started: &Event,
        elicitation: ElicitationId,
        questions: &HashMap<ElicitationId, &Elicitation>,
    ) {
        let id = execution.id();
        let Some(question) = questions.get(&elicitation) else {
            return self.add("R1", id, &format!("it started on {elicitation}, which was never asked"));
        };
        let decision = execution.find(elicitation).and_then(|a| a.decision());
        let Some(decision) = decision else {
            return self.add("R1", id, &format!("it started on {elicitation}, which nobody decided"));
        };
        let approved = decision.outcome == Outcome::Approved;
        if question.origin == Origin::Gate {
            let digest = execution.call(question.call).map(|c| c.digest);
            if !approved || Some(question.digest) != digest {
                self.add("R1", id, "it started on a decision that is no fitting approval");
            }
        }
        if approved && question.authorises() && started.at >= question.expires_at {
            self.add("R1", id, "it started on an expired approval");
        }
        if let Decider::Person { principal, .. } = &decision.by
            && *principal == execution.requester().id
            && execution.requester().kind == PrincipalKind::Agent
        {
            self.add("R10", id, "the agent decided for itself");
        }
    }

    /// Every effect has a recorded leave, and there are never more effects than leaves, but for idempotent tools.
    fn check_effects(&mut self, ledger: &Ledger, journals: &HashMap<ExecutionId, Vec<Event>>) {
        let mut counts: HashMap<(String, String, String), usize> = HashMap::new();
        for effect in ledger.effects() {
            *counts.entry((effect.key, effect.tool, effect.what)).or_default() += 1;
        }
        for ((key, tool, what), times) in counts {
            let Some((id, call)) = call_of(&key) else { continue };
            let journal = journals.get(&id).map(|journal| of_call(journal, call)).unwrap_or_default();
            let Some(journal) = Some(&journal[..]).filter(|j| !j.is_empty()) else {
                // A safe call that never asked may be lost with its process: it had leave from policy.
                if tool != "lab.transfer" {
                    self.add("R1", id, &format!("{tool} had an effect and no journal"));
                }
                continue;
            };
            let leaves = journal.iter().filter(|e| is_leave(&e.body)).count();
            if leaves == 0 {
                self.add("R1", id, &format!("{tool} had the effect {what} without any leave"));
            }
            let idempotent = may_repeat(journal);
            let allowed = if idempotent { usize::MAX } else { entries(journal) };
            if times > allowed {
                self.add(
                    "R3",
                    id,
                    &format!("{tool} had the effect {what} {times} times on {allowed} leave(s)"),
                );
            }
            let step = what == "first" || what == "second";
            if !idempotent && step && times > 1 {
                self.add("R3", id, &format!("step {what} ran {times} times"));
            }
            self.check_refused(id, journal, &tool);
        }
    }

    fn check_refused(&mut self, id: ExecutionId, journal: &[Event], tool: &str) {
        let gates: Vec<ElicitationId> = journal
            .iter()
            .filter_map(asked)
            .filter(|(_, question)| question.origin == Origin::Gate)
            .map(|(id, _)| id)
            .collect();
        let refused = journal.iter().any(|e| {
            let EventBody::Decided { elicitation, decision } = &e.body else { return false };
            // A question that the gateway withdrew and asked again is answered by the answer to the last question.
            let asked_again =
                matches!(decision.by, Decider::Gateway { .. }) && gates.last() != Some(elicitation);
            gates.contains(elicitation) && decision.outcome != Outcome::Approved && !asked_again
        });
        if refused {
            self.add("R2", id, &format!("{tool} had an effect although its gate was answered with no"));
        }
    }

    fn check_history(
        &mut self,
        history: &History,
        journals: &HashMap<ExecutionId, Vec<Event>>,
        moment: Moment,
    ) {
        self.check_keys(history);
        for execution in history.cancels().into_iter().filter(|_| moment == Moment::AtRest) {
            let Some(Ok(now)) = journals.get(&execution).map(Execution::replay) else { continue };
            if now.status() != Status::Cancelled {
                self.add(
                    "R5",
                    execution,
                    &format!("its cancel was acknowledged, and it is {:?}", now.status()),
                );
            }
        }
        for (execution, elicitation, outcome) in history.decisions() {
            let kept = journals.get(&execution).is_some_and(|journal| {
                journal.iter().any(|e| {
                    matches!(&e.body, EventBody::Decided { elicitation: id, decision } if *id == elicitation && decision.outcome == outcome)
                })
            });
            if !kept {
                self.add(
                    "R5",
                    execution,
                    &format!("the acknowledged decision {outcome:?} on {elicitation} is gone"),
                );
            }
        }
        for execution in history.accepted() {
            if journals.get(&execution).is_none_or(Vec::is_empty) {
                self.add("R9", execution, "it was accepted and is gone");
            }
        }
        for end in history.ends() {
            let Some(Ok(now)) = journals.get(&end.execution).map(Execution::replay) else { continue };
            if now.status() != end.status {
                self.add(
                    "R5",
                    end.execution,
                    &format!("a caller was told {:?}, now it is {:?}", end.status, now.status()),
                );
            }
        }
    }

    fn check_keys(&mut self, history: &History) {
        let mut named: HashMap<String, ExecutionId> = HashMap::new();
        for (key, execution) in history.keys() {
            let first = *named.entry(key.clone()).or_insert(execution);
            if first != execution {
                self.add("R3", execution, &format!("the key {key} named {first} before"));
            }
        }
    }

    /// Gives the audit as text, for further checks.
    async fn check_audit(
        &mut self,
        store: &dyn Store,
        journals: &HashMap<ExecutionId, Vec<Event>>,
    ) -> Vec<String> {
        let mut text = Vec::new();
        let (mut head, mut told) = ((0, Digest::ZERO), HashMap::<ExecutionId, Vec<String>>::new());
        loop {
            let records = store.audit(head.0, 1_000).await.unwrap_or_default();
            if records.is_empty() {
                break;
            }
            match audit::verify(head, &records) {
                Ok(next) => head = next,
                Err(broken) => {
                    self.0.push(format!("R11: {broken}"));
                    return text;
                }
            }
            text.extend(records.iter().map(|record| record.entry.clone()));
            for transition in records.iter().filter_map(|r| r.parse().ok()).flatten() {
                // A remembered approval is given with an event, and is none itself.
                if let Some(execution) = transition.execution.filter(|_| transition.what != "GrantGiven") {
                    told.entry(execution).or_default().push(transition.what.into_owned());
                }
            }
        }
        for (execution, journal) in journals {
            let told = told.remove(execution).unwrap_or_default();
            if !journal.iter().map(|event| event.body.name()).eq(told.iter().map(String::as_str)) {
                self.add("R11", *execution, &format!("{} events, in the audit {told:?}", journal.len()));
            }
        }
        text
    }

    fn add(&mut self, rule: &str, execution: ExecutionId, problem: &str) {
        self.0.push(format!("{rule}: {execution}: {problem}"));
    }
}

/// The events of a journal that are about one call.
fn of_call(journal: &[Event], no: CallNo) -> Vec<Event> {
    let questions: HashMap<ElicitationId, CallNo> =
        journal.iter().filter_map(asked).map(|(id, question)| (id, question.call)).collect();
    let about = |body: &EventBody| match body {
        EventBody::CallIssued(issued) => Some(issued.call),
        EventBody::Asked(question) => Some(question.call),
        EventBody::Decided { elicitation, .. } => questions.get(elicitation).copied(),
        EventBody::CallStarted { call, .. }
        | EventBody::CallReentered { call }
        | EventBody::Rejudged { call, .. }
        | EventBody::StepRecorded { call, .. }
        | EventBody::CallSettled { call, .. }
        | EventBody::FoundInDoubt { call, .. }
        | EventBody::DoubtSettled { call, .. } => Some(*call),
        _ => None,
    };
    journal.iter().filter(|event| about(&event.body) == Some(no)).cloned().collect()
}

fn asked(event: &Event) -> Option<(ElicitationId, &Elicitation)> {
    match &event.body {
        EventBody::Asked(elicitation) => Some((elicitation.id, &**elicitation)),
        _ => None,
    }
}

/// A recorded leave to have effects.
fn is_leave(body: &EventBody) -> bool {
    matches!(body, EventBody::CallStarted { .. })
}

/// A handler may run again after a crash where it says so, or where it neither declares destruction nor was let past
/// anybody's yes: reading twice is reading.
fn may_repeat(journal: &[Event]) -> bool {
    let harmless = |body: &EventBody| matches!(body, EventBody::CallIssued(c) if c.effects.idempotent || !c.effects.destructive);
    let destructive = |body: &EventBody| matches!(body, EventBody::CallIssued(c) if !c.effects.idempotent);
    let yes = journal.iter().any(
        |e| matches!(&e.body, EventBody::Decided { decision, .. } if decision.outcome == Outcome::Approved),
    );
    journal.iter().any(|e| harmless(&e.body)) && !(yes && journal.iter().any(|e| destructive(&e.body)))
}

/// How often a handler was let in anew, so that its effects may repeat: once, and once more for each retry.
fn entries(journal: &[Event]) -> usize {
    let anew = |body: &EventBody| match body {
        EventBody::CallStarted { by: StartedBy::Decision { elicitation }, .. } => {
            journal.iter().filter_map(asked).any(|(id, q)| id == *elicitation && q.origin == Origin::Gate)
        }
        EventBody::CallStarted { .. } => true,
        _ => false,
    };
    journal.iter().filter(|e| anew(&e.body)).count()
}

async fn all_executions(store: &dyn Store) -> Vec<ExecutionRow> {
    let mut rows = Vec::new();
    let mut page = Page::first(1_000);
    while let Ok(listing) = store.executions(ExecutionFilter::default(), page).await {
        rows.extend(listing.items);
        match listing.next {
            Some(cursor) => page = Page { cursor: Some(cursor), limit: 1_000 },
            None => break,
        }
    }
    rows
}
