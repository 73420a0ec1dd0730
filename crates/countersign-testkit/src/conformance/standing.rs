//! The store's counts of unfinished work.

#![expect(clippy::unwrap_used, reason = "a store that fails here fails the test")]

use std::sync::Arc;

use countersign_core::digest::Digest;
use countersign_kernel::ports::{Store, Write};
use countersign_sdk::Outcome;

use super::subject::{Subject, decision};

/// A question counts until it is decided, an execution until its status changes, and every record counts.
pub async fn what_is_unfinished_is_counted(store: Arc<dyn Store>) {
    let before = store.standing().await.unwrap();
    let subject = Subject::new();
    let asked = subject.elicitation(0, 90);
    store.commit(subject.ask(vec![asked.clone()])).await.unwrap();
    let waiting = store.standing().await.unwrap();
    assert_eq!((waiting.open, waiting.recorded > before.recorded), (before.open + 1, true));
    let unfinished = |s: countersign_kernel::ports::Standing| s.waiting + s.running + s.in_doubt;
    assert_eq!(unfinished(waiting), unfinished(before) + 1);
    store.commit(subject.decide(2, asked.elicitation.id, &decision(Outcome::Denied))).await.unwrap();
    let decided = store.standing().await.unwrap();
    assert_eq!(decided.open, before.open);
    assert!(decided.recorded > waiting.recorded);
}

/// And a change that says nothing of it leaves it.
pub async fn what_everything_open_was_judged_by_is_the_last_that_was_said(store: Arc<dyn Store>) {
    for rules in [b"some rules", b"more rules"] {
        let rulebook = Some(Digest::of(rules));
        store.commit(Write { rulebook, ..Write::default() }).await.unwrap();
        store.commit(Subject::new().start()).await.unwrap();
        assert_eq!(store.rulebook().await.unwrap(), rulebook);
    }
}
