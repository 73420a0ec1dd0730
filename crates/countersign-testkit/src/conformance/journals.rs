//! Journals: what was appended comes back, and nothing is appended to a journal other than the writer thinks it is.

#![expect(clippy::unwrap_used, reason = "a store that fails here fails the test")]

use std::sync::Arc;

use countersign_core::canonical::{Canonical, Verbatim};
use countersign_core::digest::{Digest, Fingerprint};
use countersign_core::event::{
    CallIssued, CallOutcome, Event, EventBody, Failure, Kind, Settlement, StartedBy,
};
use countersign_core::execution::Status;
use countersign_core::ids::{CallNo, ElicitationId, GrantId, RequestNo};
use countersign_kernel::ports::{ExecutionRow, Store, StoreError, Write};
use countersign_sdk::{Effects, Outcome};
use serde_json::json;

use super::subject::{Subject, at, decision, fresh, fresh_principal, step, tool};

/// Every kind of event, byte for byte; an unknown execution has no journal and no row.
pub async fn a_journal_comes_back_as_it_was_written(store: Arc<dyn Store>) {
    let subject = Subject::new();
    assert_eq!(store.journal(subject.id).await.unwrap(), []);
    assert_eq!(store.execution(subject.id).await.unwrap(), None);

    let events: Vec<Event> = every_body(&subject).into_iter().map(|body| Event { at: at(1), body }).collect();
    store.commit(subject.append(0, Status::Running, events.clone())).await.unwrap();
    assert_eq!(store.journal(subject.id).await.unwrap(), events);
    assert_eq!(store.execution(subject.id).await.unwrap(), Some(subject.row(Status::Running)));
}

/// Appends of several sizes, also of none.
pub async fn events_are_appended_in_order(store: Arc<dyn Store>) {
    let subject = Subject::new();
    store.commit(subject.start()).await.unwrap();
    store.commit(subject.append(1, Status::Running, (1..4).map(step).collect())).await.unwrap();
    store.commit(subject.append(4, Status::Waiting, vec![])).await.unwrap();
    store.commit(subject.append(4, Status::Running, vec![step(4)])).await.unwrap();

    let expected: Vec<Event> = std::iter::once(subject.started()).chain((1..5).map(step)).collect();
    assert_eq!(store.journal(subject.id).await.unwrap(), expected);
}

/// A script of many calls has hundreds of events.
pub async fn a_long_journal_comes_back_whole(store: Arc<dyn Store>) {
    let subject = Subject::new();
    let events: Vec<Event> = std::iter::once(subject.started()).chain((1..700).map(step)).collect();
    store.commit(subject.append(0, Status::Running, events.clone())).await.unwrap();
    assert_eq!(store.journal(subject.id).await.unwrap(), events);
}

/// As large as a value may be.
pub async fn a_large_value_comes_back_whole(store: Arc<dyn Store>) {
    let subject = Subject::new();
    let value = Verbatim::of(&json!("x".repeat(countersign_core::bounds::MAX_VALUE_BYTES - 2))).unwrap();
    let body = EventBody::StepRecorded { call: CallNo(0), name: "large".into(), value };
    let events = vec![subject.started(), Event { at: at(1), body }];
    store.commit(subject.append(0, Status::Running, events.clone())).await.unwrap();
    assert_eq!(store.journal(subject.id).await.unwrap(), events);
}

/// Too few, too many, and for an execution that does not exist.
pub async fn another_length_than_expected_is_a_conflict_that_names_both(store: Arc<dyn Store>) {
    let conflict = async |write: Write| match store.commit(write).await {
        Err(StoreError::Conflict { expected, actual }) => (expected, actual),
        other => unreachable!("a conflict, not {other:?}"),
    };
    let subject = Subject::new();
    assert_eq!(conflict(subject.append(1, Status::Running, vec![step(1)])).await, (1, 0));
    assert_eq!(store.execution(subject.id).await.unwrap(), None);

    store.commit(subject.append(0, Status::Running, vec![subject.started(), step(1)])).await.unwrap();
    assert_eq!(conflict(subject.start()).await, (0, 2));
    assert_eq!(conflict(subject.append(1, Status::Failed, vec![step(2)])).await, (1, 2));
    assert_eq!(conflict(subject.append(3, Status::Failed, vec![step(2)])).await, (3, 2));
    assert_eq!(store.journal(subject.id).await.unwrap().len(), 2);
    assert_eq!(store.execution(subject.id).await.unwrap().unwrap().status, Status::Running);
}

/// Status, tool and the time of the last change follow the journal; the rest is from the first write.
pub async fn an_execution_stays_what_it_is_and_shows_how_far_it_got(store: Arc<dyn Store>) {
    for kind in [Kind::Call, Kind::Gate, Kind::Script] {
        stays_what_it_is(&*store, kind).await;
    }
}

async fn stays_what_it_is(store: &dyn Store, kind: Kind) {
    let subject = Subject::new().keyed("mine");
    let first = ExecutionRow { tool: None, kind, ..subject.row(Status::Running) };
    let mut write = subject.start();
    if let Some(journal) = &mut write.journal {
        journal.row = first.clone();
    }
    store.commit(write).await.unwrap();
    assert_eq!(store.execution(subject.id).await.unwrap(), Some(first.clone()));

    for (expected, status) in
        (1..).zip([Status::Waiting, Status::Waiting, Status::InDoubt, Status::Succeeded])
    {
        let mut write = subject.append(expected, status, vec![step(expected)]);
        let row = ExecutionRow { status, tool: Some(tool()), updated_at: at(expected), ..first.clone() };
        if let Some(journal) = &mut write.journal {
            journal.row = row.clone();
        }
        store.commit(write).await.unwrap();
        assert_eq!(store.execution(subject.id).await.unwrap(), Some(row));
    }
}

/// A key is a requester's own; a second execution under it learns which one has it.
pub async fn a_key_leads_to_its_execution_and_is_nobody_elses(store: Arc<dyn Store>) {
    let first = Subject::new().keyed("k-1");
    assert_eq!(store.by_key(&first.requester, "k-1").await.unwrap(), None);
    store.commit(first.start()).await.unwrap();
    assert_eq!(store.by_key(&first.requester, "k-1").await.unwrap(), Some(first.id));
    assert_eq!(store.by_key(&first.requester, "k-2").await.unwrap(), None);

    let again = first.sibling().keyed("k-1");
    let refused = store.commit(again.start()).await;
    assert!(matches!(refused, Err(StoreError::KeyTaken(holder)) if holder == first.id), "{refused:?}");
    assert_eq!(store.execution(again.id).await.unwrap(), None);

    store.commit(first.append(1, Status::Running, vec![step(1)])).await.unwrap();
    store.commit(Subject::new().keyed("k-1").start()).await.unwrap();
    store.commit(first.sibling().keyed("k-2").start()).await.unwrap();
    store.commit(first.sibling().start()).await.unwrap();
    store.commit(first.sibling().start()).await.unwrap();
}

fn every_body(subject: &Subject) -> Vec<EventBody> {
    let call = CallNo(0);
    let value = Verbatim::of(&json!({ "id": u64::MAX, "text": "ünï\u{202e}\u{0000}\n\"" })).unwrap();
    let elicitation = subject.elicitation(1, 2).elicitation;
    let issued = CallIssued {
        call,
        path: tool(),
        fingerprint: Fingerprint(Digest::of(b"tool")),
        effects: Effects { destructive: true, ..Effects::default() },
        args: Canonical::of(&json!({ "a": [1, { "b": "\u{2066}" }] })).unwrap(),
        policy_version: Digest::of(b"policy"),
        digest: Digest::of(b"binding"),
        requested: Some(Digest::of(b"request")),
        line: Some(7),
        source: Some("files".into()),
    };
    let started = [
        StartedBy::Policy { rule: "rule 1".into() },
        StartedBy::Grant { id: fresh(GrantId::from_random) },
        StartedBy::Decision { elicitation: fresh(ElicitationId::from_random) },
        StartedBy::Retry,
    ];
    let settlements = [
        Settlement::Done { value: value.clone() },
        Settlement::Failed { message: "no".into() },
        Settlement::Retry,
    ];
    let failed = CallOutcome::Failed(Failure::new("denied", "Ann said no."));
    let mut bodies = vec![
        subject.started().body,
        EventBody::CallIssued(issued),
        EventBody::Decided { elicitation: elicitation.id, decision: decision(Outcome::Denied) },
        EventBody::Asked(elicitation),
        EventBody::StepRecorded { call, name: "step".into(), value: value.clone() },
        EventBody::CallSettled { call, outcome: CallOutcome::Succeeded(value) },
        EventBody::CallRefused {
            path: "no.such".into(),
            requested: Digest::of(b"request"),
            failure: Failure::new("tool_not_found", "There is no such tool."),
        },
        EventBody::SleepStarted { ms: 7 },
        EventBody::SleepEnded { request: RequestNo(3) },
        EventBody::ScriptWaits { seen: 2 },
        EventBody::finished(failed),
        EventBody::Cancelled { by: None, reason: "enough".into() },
        EventBody::FoundInDoubt { call, reason: Some("no answer came".into()) },
    ];
    bodies.extend(started.into_iter().map(|by| EventBody::CallStarted { call, by }));
    let settled = |settlement| EventBody::DoubtSettled { call, settlement, by: fresh_principal() };
    bodies.extend(settlements.into_iter().map(settled));
    bodies
}
