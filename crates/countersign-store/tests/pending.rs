//! Many pending elicitations cost a start nothing: none of them is read before it is asked for.

use countersign_kernel::ports::{ElicitationFilter, Page, Store as _};
use countersign_sdk::Outcome;
use countersign_store::SqliteStore;
use countersign_testkit::conformance::subject::{Subject, decision};

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
    let (mut left, mut cursor) = (0, None);
    loop {
        let page = store.elicitations(open.clone(), Page { cursor, limit: 1_000 }).await.unwrap();
        left += page.items.len();
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(left, 64 * 80 - 1);
}
