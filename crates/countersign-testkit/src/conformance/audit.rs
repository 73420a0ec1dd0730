//! The audit: numbered without gaps, chained, written with the change or not at all.

#![expect(clippy::unwrap_used, reason = "a store that fails here fails the test")]

use std::sync::Arc;

use countersign_core::audit::verify;
use countersign_core::digest::Digest;
use countersign_core::execution::Status;
use countersign_kernel::ports::{Store, Write};

use super::subject::{Subject, create, live, step, token};

/// From 1, one for each change, also around changes that were refused.
pub async fn records_are_numbered_without_gaps_and_chained(store: Arc<dyn Store>) {
    let subject = Subject::new();
    let first =
        store.commit(subject.append(0, Status::Running, vec![subject.started(), step(1)])).await.unwrap();
    let unknown =
        Write { require: vec![live(&token(0))], ..subject.append(2, Status::Running, vec![step(2)]) };
    store.commit(unknown).await.unwrap_err();
    store.commit(subject.start()).await.unwrap_err();
    let entries = vec![subject.entry("One"), subject.entry("Two"), subject.entry("Three")];
    let second = store.commit(Write { audit: entries.clone(), ..Write::default() }).await.unwrap();
    assert_eq!(second.audit_seq, first.audit_seq + 1, "one record for each change");

    let all = store.audit(0, usize::MAX).await.unwrap();
    let (seq, _) = verify((0, Digest::ZERO), &all).unwrap();
    assert_eq!(seq, second.audit_seq);
    assert_eq!(all.last().unwrap().parse().unwrap(), entries, "which lists its transitions");
}

/// So that a caller can tell what it has seen.
pub async fn a_change_without_records_names_the_last_there_is(store: Arc<dyn Store>) {
    let subject = Subject::new();
    let with = store.commit(subject.start()).await.unwrap();
    let without = store.commit(create(&token(0))).await.unwrap();
    assert_eq!(without, with);
    assert_eq!(store.commit(Write::default()).await.unwrap(), with, "a change of nothing is one too");
}

/// After a number, at most so many.
pub async fn records_are_read_in_parts(store: Arc<dyn Store>) {
    let subject = Subject::new();
    let mut last = 0;
    for n in 0..5 {
        let audit = vec![subject.entry(format!("Entry{n}")), subject.entry("Also")];
        last = store.commit(Write { audit, ..Write::default() }).await.unwrap().audit_seq;
    }
    let all = store.audit(0, usize::MAX).await.unwrap();
    let (mut head, mut seen) = ((0, Digest::ZERO), Vec::new());
    loop {
        let part = store.audit(head.0, 2).await.unwrap();
        if part.is_empty() {
            break;
        }
        assert!(part.len() <= 2);
        head = verify(head, &part).unwrap();
        seen.extend(part);
    }
    assert_eq!(seen, all);
    assert_eq!(head.0, last);
    assert_eq!(store.audit(last - 1, 9).await.unwrap(), all[all.len() - 1..]);
    assert_eq!(store.audit(last, 9).await.unwrap(), []);
    assert_eq!(store.audit(u64::MAX, 9).await.unwrap(), []);
    assert_eq!(store.audit(0, 0).await.unwrap(), []);
}
