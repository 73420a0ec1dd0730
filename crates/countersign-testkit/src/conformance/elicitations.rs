//! Elicitations: open until they are decided, decided for good, and due when their time is up.

#![expect(clippy::unwrap_used, reason = "a store that fails here fails the test")]

use std::sync::Arc;

use countersign_core::canonical::Canonical;
use countersign_core::ids::{ElicitationId, ExecutionId};
use countersign_core::time::Timestamp;
use countersign_kernel::ports::{ElicitationFilter, ElicitationRow, Page, Store};
use countersign_sdk::Outcome;

use super::subject::{Subject, at, decision, fresh};

/// With everything that was asked, and everything that was answered.
pub async fn an_elicitation_comes_back_open_and_then_decided(store: Arc<dyn Store>) {
    let subject = Subject::new();
    let asked = subject.elicitation(0, 90);
    let id = asked.elicitation.id;
    assert_eq!(store.elicitation(id).await.unwrap(), None);
    store.commit(subject.ask(vec![asked.clone()])).await.unwrap();
    assert_eq!(store.elicitation(id).await.unwrap(), Some(asked.clone()));
    assert_eq!(of(&*store, subject.id, Openness::Open).await, std::slice::from_ref(&asked));

    let decision = decision(Outcome::Approved);
    store.commit(subject.decide(2, id, &decision)).await.unwrap();
    let decided = ElicitationRow { decision: Some(decision), ..asked };
    assert_eq!(store.elicitation(id).await.unwrap(), Some(decided.clone()));
    assert_eq!(of(&*store, subject.id, Openness::Open).await, []);
    assert_eq!(of(&*store, subject.id, Openness::Any).await, [decided]);
}

/// A second decision by any decider is refused, and the first stays.
pub async fn a_decided_elicitation_keeps_its_decision(store: Arc<dyn Store>) {
    let subject = Subject::new();
    let asked = subject.elicitation(0, 90);
    let id = asked.elicitation.id;
    store.commit(subject.ask(vec![asked])).await.unwrap();
    let first = decision(Outcome::Denied);
    store.commit(subject.decide(2, id, &first)).await.unwrap();
    assert!(store.commit(subject.decide(3, id, &decision(Outcome::Approved))).await.is_err());
    assert_eq!(store.elicitation(id).await.unwrap().unwrap().decision, Some(first));
    assert_eq!(store.journal(subject.id).await.unwrap().len(), 3);
}

/// As where a grant answers it at once: it is never open and never due.
pub async fn an_elicitation_may_be_opened_already_decided(store: Arc<dyn Store>) {
    let subject = Subject::new();
    let asked = ElicitationRow { decision: Some(decision(Outcome::Approved)), ..subject.elicitation(0, 1) };
    store.commit(subject.ask(vec![asked.clone()])).await.unwrap();
    assert_eq!(store.elicitation(asked.elicitation.id).await.unwrap(), Some(asked.clone()));
    assert_eq!(of(&*store, subject.id, Openness::Open).await, []);
    assert_eq!(of(&*store, subject.id, Openness::Any).await, std::slice::from_ref(&asked));
    let due = store.due(at(5), usize::MAX).await.unwrap();
    assert!(!due.contains(&(asked.elicitation.id, subject.id)));
}

/// Each filter alone and together; a filter that fits nothing finds nothing.
pub async fn elicitations_are_found_by_execution_subject_and_openness(store: Arc<dyn Store>) {
    let (subject, other) = (Subject::new(), Subject::new());
    let (mut first, second) = (subject.elicitation(0, 90), subject.elicitation(1, 90));
    let mut third = other.elicitation(2, 90);
    let args = fresh(|bits| Canonical::of(&serde_json::json!({ "which": bits }))).unwrap();
    Arc::make_mut(&mut first.elicitation).args = args.clone();
    Arc::make_mut(&mut third.elicitation).args = args;
    store.commit(subject.ask(vec![first.clone(), second.clone()])).await.unwrap();
    store.commit(other.ask(vec![third.clone()])).await.unwrap();
    store.commit(subject.decide(3, first.elicitation.id, &decision(Outcome::Denied))).await.unwrap();

    let about = Some(first.elicitation.subject());
    let everywhere = ElicitationFilter { subject: about, ..Default::default() };
    assert_eq!(ids(&*store, everywhere).await, [first.elicitation.id, third.elicitation.id]);
    let open = ElicitationFilter { subject: about, open_only: true, ..Default::default() };
    assert_eq!(ids(&*store, open).await, [third.elicitation.id]);
    let here = ElicitationFilter { subject: about, execution: Some(subject.id), ..Default::default() };
    assert_eq!(ids(&*store, here.clone()).await, [first.elicitation.id]);
    assert_eq!(ids(&*store, ElicitationFilter { open_only: true, ..here }).await, []);
    let theirs =
        ElicitationFilter { subject: about, requester: Some(first.requester.clone()), ..Default::default() };
    assert_eq!(ids(&*store, theirs.clone()).await, [first.elicitation.id]);
    assert_eq!(
        ids(&*store, ElicitationFilter { open_only: true, subject: None, ..theirs }).await,
        [second.elicitation.id]
    );
    assert_eq!(of(&*store, subject.id, Openness::Open).await, [second]);
    assert_eq!(of(&*store, fresh(ExecutionId::from_random), Openness::Any).await, []);
}

/// From the very millisecond on; at most as many as asked for; not the decided ones.
pub async fn what_is_due_comes_oldest_expiry_first(store: Arc<dyn Store>) {
    let subject = Subject::new();
    let asked: Vec<ElicitationRow> = [3, 1, 2].map(|expires| expiring(&subject, expires)).into();
    let id = |n: usize| asked[n].elicitation.id;
    store.commit(subject.ask(asked.clone())).await.unwrap();
    let due = async |ms, limit| -> Vec<ElicitationId> {
        let due = store.due(Timestamp::from_millis(ms), limit).await.unwrap();
        assert!(due.iter().all(|(_, execution)| *execution == subject.id), "{due:?}");
        due.into_iter().map(|(id, _)| id).collect()
    };
    assert_eq!(due(0, 9).await, []);
    assert_eq!(due(1, 9).await, [id(1)]);
    assert_eq!(due(2, 9).await, [id(1), id(2)]);
    assert_eq!(due(3, 9).await, [id(1), id(2), id(0)]);
    assert_eq!(due(9, 2).await, [id(1), id(2)]);
    assert_eq!(due(9, 0).await, []);

    for (version, n) in (4..).zip([1, 0, 2]) {
        store.commit(subject.decide(version, id(n), &decision(Outcome::Expired))).await.unwrap();
        assert!(!due(9, 9).await.contains(&id(n)));
    }
    assert_eq!(due(9, 9).await, []);
}

/// The soonest; the next one when that is decided.
pub async fn the_next_expiry_is_that_of_an_open_elicitation(store: Arc<dyn Store>) {
    let before = store.next_expiry().await.unwrap();
    let subject = Subject::new();
    let (soon, sooner) = (expiring(&subject, 6), expiring(&subject, 5));
    store.commit(subject.ask(vec![soon.clone(), sooner.clone()])).await.unwrap();
    assert_eq!(store.next_expiry().await.unwrap(), Some(Timestamp::from_millis(5)));
    store.commit(subject.decide(3, sooner.elicitation.id, &decision(Outcome::Expired))).await.unwrap();
    assert_eq!(store.next_expiry().await.unwrap(), Some(Timestamp::from_millis(6)));
    store.commit(subject.decide(4, soon.elicitation.id, &decision(Outcome::Expired))).await.unwrap();
    assert_eq!(store.next_expiry().await.unwrap(), before);
}

/// An open elicitation of long ago: in a shared database it comes before all others.
fn expiring(subject: &Subject, ms: u64) -> ElicitationRow {
    let mut row = subject.elicitation(0, 0);
    Arc::make_mut(&mut row.elicitation).expires_at = Timestamp::from_millis(ms);
    row
}

enum Openness {
    Open,
    Any,
}

async fn of(store: &dyn Store, execution: ExecutionId, openness: Openness) -> Vec<ElicitationRow> {
    let open_only = matches!(openness, Openness::Open);
    let filter = ElicitationFilter { execution: Some(execution), open_only, ..Default::default() };
    store.elicitations(filter, Page::first(100)).await.unwrap().items
}

async fn ids(store: &dyn Store, filter: ElicitationFilter) -> Vec<ElicitationId> {
    let found = store.elicitations(filter, Page::first(100)).await.unwrap().items;
    found.into_iter().map(|row| row.elicitation.id).collect()
}
