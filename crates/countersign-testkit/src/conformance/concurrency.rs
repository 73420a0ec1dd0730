//! Concurrent changes: one wins, bounds hold, and answered changes can be read.

#![expect(clippy::unwrap_used, reason = "a store that fails here fails the test")]

use std::sync::Arc;

use countersign_core::audit::verify;
use countersign_core::digest::Digest;
use countersign_core::execution::Status;
use countersign_core::grant::Grant;
use countersign_kernel::ports::{
    Committed, ElicitationFilter, ExecutionFilter, GrantWrite, Page, Requirement, Store, StoreError, Write,
};
use countersign_sdk::Outcome;

use super::subject::{Subject, at, decision, grants, step};

const MANY: u64 = 64;

/// The others learn how long the journal is.
pub async fn of_many_writers_of_one_journal_exactly_one_wins(store: Arc<dyn Store>) {
    let subject = Subject::new();
    for version in 0..5 {
        let event = |n| if version == 0 { subject.started() } else { step(n) };
        let writes = (0..MANY).map(|n| subject.append(version, Status::Running, vec![event(n)])).collect();
        let results = at_once(&store, writes).await;
        let conflicts = results.iter().filter(
            |result| matches!(result, Err(StoreError::Conflict { expected, actual }) if (*expected, *actual) == (version, version + 1)),
        );
        assert_eq!(conflicts.count() as u64, MANY - 1);
        assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
    }
    assert_eq!(store.journal(subject.id).await.unwrap().len(), 5);
}

/// The others learn which one it is.
pub async fn of_many_executions_under_one_key_exactly_one_is_accepted(store: Arc<dyn Store>) {
    let subject = Subject::new();
    let siblings: Vec<Subject> = (0..MANY).map(|_| subject.sibling().keyed("same")).collect();
    let results = at_once(&store, siblings.iter().map(Subject::start).collect()).await;
    let holder = store.by_key(&subject.requester, "same").await.unwrap().unwrap();
    for (sibling, result) in siblings.iter().zip(&results) {
        match result {
            Ok(_) => assert_eq!(sibling.id, holder),
            Err(StoreError::KeyTaken(by)) => assert_eq!(*by, holder),
            Err(other) => unreachable!("{other}"),
        }
    }
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
}

/// Each use lets one execution start, in the same change.
pub async fn concurrent_uses_never_exceed_what_was_granted(store: Arc<dyn Store>) {
    let subject = Subject::new();
    let grant = Grant { uses_left: Some(7), ..subject.grant() };
    store.commit(grants(vec![GrantWrite::Give(grant.clone())])).await.unwrap();
    let using = |subject: &Subject| Write {
        grants: vec![GrantWrite::Use { id: grant.id, now: at(0) }],
        ..subject.start()
    };
    let siblings: Vec<Subject> = (0..MANY).map(|_| subject.sibling()).collect();
    let results = at_once(&store, siblings.iter().map(using).collect()).await;
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 7);
    assert_eq!(store.grants(&subject.session).await.unwrap()[0].uses_left, Some(0));
    let filter = ExecutionFilter { requester: Some(subject.requester.clone()), ..Default::default() };
    assert_eq!(store.executions(filter, Page::first(100)).await.unwrap().items.len(), 7);
}

/// As many as the bound, and not one more.
pub async fn concurrent_questions_never_exceed_the_bound(store: Arc<dyn Store>) {
    let subject = Subject::new();
    let bounded = |subject: &Subject| Write {
        require: vec![Requirement::PendingBelow { session: subject.session.clone(), bound: 5 }],
        ..subject.ask(vec![subject.elicitation(0, 90)])
    };
    let writes = (0..MANY).map(|_| bounded(&subject.sibling())).collect();
    let results = at_once(&store, writes).await;
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 5);
}

/// In whichever sessions they are asked.
pub async fn concurrent_questions_of_one_requester_never_exceed_its_bound(store: Arc<dyn Store>) {
    let subject = Subject::new();
    let bounded = |subject: &Subject| {
        let requester = subject.requester.clone();
        let require = vec![Requirement::RequesterPendingBelow { requester, open: 5, bytes: usize::MAX }];
        Write { require, ..subject.ask(vec![subject.elicitation(0, 90)]) }
    };
    let elsewhere = || Subject { session: Subject::new().session, ..subject.sibling() };
    let results = at_once(&store, (0..MANY).map(|_| bounded(&elsewhere())).collect()).await;
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 5);
}

/// Answers name different numbers, and none is missing.
pub async fn concurrent_changes_leave_a_whole_audit_chain(store: Arc<dyn Store>) {
    let writes = (0..MANY).map(|_| Subject::new().start()).collect();
    let mut numbers: Vec<u64> =
        at_once(&store, writes).await.into_iter().map(|r| r.unwrap().audit_seq).collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len() as u64, MANY);
    let all = store.audit(0, usize::MAX).await.unwrap();
    verify((0, Digest::ZERO), &all).unwrap();
    assert!(numbers.iter().all(|number| all.iter().any(|record| record.seq == *number)));
}

/// By every kind of read, while others write.
pub async fn an_answered_change_is_seen_by_every_later_read(store: Arc<dyn Store>) {
    let noise = Arc::clone(&store);
    let others = tokio::spawn(async move {
        for _ in 0..50 {
            noise.commit(Subject::new().start()).await.unwrap();
        }
    });
    for _ in 0..25 {
        let subject = Subject::new().keyed("k");
        let (asked, grant) = (subject.elicitation(0, 90), subject.grant());
        let id = asked.elicitation.id;
        let write = Write { grants: vec![GrantWrite::Give(grant.clone())], ..subject.ask(vec![asked]) };
        let seq = store.commit(write).await.unwrap().audit_seq;
        assert_eq!(store.journal(subject.id).await.unwrap().len(), 2);
        assert_eq!(store.execution(subject.id).await.unwrap().unwrap().status, Status::Waiting);
        assert_eq!(store.by_key(&subject.requester, "k").await.unwrap(), Some(subject.id));
        assert_eq!(store.grants(&subject.session).await.unwrap(), [grant]);
        assert_eq!(store.audit(seq - 1, 1).await.unwrap().len(), 1);
        let open = ElicitationFilter { execution: Some(subject.id), open_only: true, ..Default::default() };
        assert_eq!(store.elicitations(open.clone(), Page::first(1)).await.unwrap().items.len(), 1);
        store.commit(subject.decide(2, id, &decision(Outcome::Approved))).await.unwrap();
        assert!(store.elicitation(id).await.unwrap().unwrap().decision.is_some());
        assert_eq!(store.elicitations(open, Page::first(1)).await.unwrap().items, []);
    }
    others.await.unwrap();
}

/// In the order in which they were made.
pub async fn what_is_committed_soon_is_seen_before_what_is_committed_after_it(store: Arc<dyn Store>) {
    for _ in 0..20 {
        let (soon, after) = (Subject::new(), Subject::new());
        store.commit_soon(soon.start()).unwrap();
        store.commit_soon(soon.append(1, Status::Running, vec![step(1)])).unwrap();
        let seq = store.commit(after.start()).await.unwrap().audit_seq;
        assert_eq!(store.journal(soon.id).await.unwrap().len(), 2);
        let records = store.audit(0, usize::MAX).await.unwrap();
        let record = records.iter().find(|record| record.entry.contains(&soon.id.to_string())).unwrap();
        assert!(record.seq < seq);
    }
}

/// A caller whose safe call was answered may ask for it at once, in any way.
pub async fn what_is_committed_soon_is_found_by_whoever_reads_after_it(store: Arc<dyn Store>) {
    let soon = async |key: &str| {
        let subject = Subject::new().keyed(key);
        store.commit_soon(subject.start()).unwrap();
        subject
    };
    for n in 0..20 {
        let key = format!("k{n}");
        let subject = soon(&key).await;
        assert_eq!(store.journal(subject.id).await.unwrap().len(), 1);
        let subject = soon(&key).await;
        assert!(store.execution(subject.id).await.unwrap().is_some());
        let subject = soon(&key).await;
        assert_eq!(store.by_key(&subject.requester, &key).await.unwrap(), Some(subject.id));
        let subject = soon(&key).await;
        let newest = store.executions(ExecutionFilter::default(), Page::first(1_000)).await.unwrap();
        assert!(newest.items.iter().any(|row| row.id == subject.id));
        let before = store.standing().await.unwrap().recorded;
        soon(&key).await;
        assert_eq!(store.audit(before, 10).await.unwrap().len(), 1);
    }
}

async fn at_once(store: &Arc<dyn Store>, writes: Vec<Write>) -> Vec<Result<Committed, StoreError>> {
    let commit = |write| {
        let store = Arc::clone(store);
        tokio::spawn(async move { store.commit(write).await })
    };
    let tasks: Vec<_> = writes.into_iter().map(commit).collect();
    futures_util::future::join_all(tasks).await.into_iter().map(Result::unwrap).collect()
}
