//! Many pending elicitations cost a start nothing: none of them is read before it is asked for.

#![expect(clippy::unwrap_used, reason = "a test that meets the unexpected stops there")]

use std::sync::Arc;

use countersign_core::canonical::Canonical;
use countersign_core::elicitation::Elicitation;
use countersign_kernel::ports::{ElicitationFilter, Page, Store as _};
use countersign_sdk::Outcome;
use countersign_store::SqliteStore;
use countersign_testkit::conformance::subject::{Subject, decision};
use serde_json::json;

/// Five thousand here; a hundred thousand (360 MB) open in milliseconds too, for the same reason.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_pending_elicitations_survive_and_the_first_is_decided_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = std::sync::Arc::new(SqliteStore::open(folder.path()).unwrap());
    let writers = (0..64_u64).map(|writer| {
        let store = std::sync::Arc::clone(&store);
        tokio::spawn(async move {
            for n in 0..80 {
                let subject = Subject::new().created(writer * 80 + n);
                store
                    .commit(subject.ask(vec![subject.elicitation(writer * 80 + n, 1_000_000)]))
                    .await
                    .unwrap();
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    drop(store);

    let store = SqliteStore::open(folder.path()).unwrap();
    let open = ElicitationFilter { open_only: true, ..Default::default() };
    let oldest = store.elicitations(open.clone(), Page::first(1)).await.unwrap().items.remove(0);
    let subject = Subject {
        id: oldest.execution,
        session: oldest.session,
        requester: oldest.requester,
        ..Subject::new()
    };
    store.commit(subject.decide(2, oldest.elicitation.id, &decision(Outcome::Approved))).await.unwrap();
    assert_eq!(count(&store, open).await, 64 * 80 - 1);

    // All are about the same, and lie in several blocks of the index by subject; one that is not is found alone, in the last block.
    let about = |elicitation: &Elicitation| ElicitationFilter {
        subject: Some(elicitation.subject()),
        ..Default::default()
    };
    let other = Subject::new();
    let mut asked = other.elicitation(0, 90);
    Arc::make_mut(&mut asked.elicitation).args = Canonical::of(&json!({ "other": true })).unwrap();
    store.commit(other.ask(vec![asked.clone()])).await.unwrap();
    assert_eq!(count(&store, about(&oldest.elicitation)).await, 64 * 80);
    assert_eq!(count(&store, about(&asked.elicitation)).await, 1);
}

/// How many elicitations fit, read part by part.
async fn count(store: &SqliteStore, filter: ElicitationFilter) -> usize {
    let (mut found, mut cursor) = (0, None);
    loop {
        let page = store.elicitations(filter.clone(), Page { cursor, limit: 1_000 }).await.unwrap();
        found += page.items.len();
        cursor = page.next;
        if cursor.is_none() {
            return found;
        }
    }
}
