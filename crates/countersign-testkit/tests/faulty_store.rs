//! Faults happen where the plan says, once, and leave behind what the plan says.

#![expect(clippy::panic, reason = "what a test cannot make or read fails it")]

use std::sync::Arc;

use countersign_core::execution::Status;
use countersign_kernel::ports::{Store as _, StoreError};
use countersign_testkit::conformance::subject::{Subject, step};
use countersign_testkit::faulty_store::{Fault, Faults, FaultyStore, Read};
use countersign_testkit::memory_store::MemoryStore;

fn wrap(disk: &MemoryStore, faults: &Faults) -> FaultyStore<MemoryStore> {
    FaultyStore::new(Arc::new(disk.clone()), faults.clone())
}

fn is_unavailable<T: std::fmt::Debug>(result: Result<T, StoreError>, cause: &str) {
    match result {
        Err(StoreError::Unavailable(why)) => assert_eq!(why.to_string(), cause),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_crash_before_a_commit_loses_it_and_one_after_it_keeps_it() {
    for (fault, kept) in [(Fault::CrashBefore, 1), (Fault::CrashAfter, 2)] {
        let (disk, faults, subject) = (MemoryStore::new(), Faults::at(2, fault), Subject::new());
        let store = wrap(&disk, &faults);
        store.commit(subject.start()).await.unwrap();
        is_unavailable(store.commit(subject.append(1, Status::Running, vec![step(1)])).await, "crashed");
        assert!(faults.is_crashed());
        faults.until_crashed().await;

        is_unavailable(store.commit(Subject::new().start()).await, "crashed");
        is_unavailable(store.commit_soon(Subject::new().start()), "crashed");
        is_unavailable(store.journal(subject.id).await, "crashed");
        is_unavailable(store.next_expiry().await, "crashed");
        assert_eq!(faults.commits(), 2, "the dead see nothing");

        let restarted = wrap(&disk, &Faults::none());
        assert_eq!(restarted.journal(subject.id).await.unwrap().len(), kept, "{fault:?}");
    }
}

#[tokio::test]
async fn a_refusal_and_a_lost_answer_look_the_same_and_happen_once() {
    let (disk, subject) = (MemoryStore::new(), Subject::new());
    let faults = Faults::at(1, Fault::Refuse).and_at(2, Fault::LoseAnswer);
    let store = wrap(&disk, &faults);
    let planned = "the medium failed, as planned";
    is_unavailable(store.commit(subject.start()).await, planned);
    assert_eq!(store.journal(subject.id).await.unwrap().len(), 0);
    is_unavailable(store.commit(subject.start()).await, planned);
    assert_eq!(store.journal(subject.id).await.unwrap().len(), 1);
    store.commit(subject.append(1, Status::Running, vec![step(1)])).await.unwrap();
    assert!(!faults.is_crashed());
}

#[tokio::test]
async fn what_is_committed_soon_follows_the_plan_too() {
    for (fault, kept) in
        [(Fault::CrashBefore, 0), (Fault::CrashAfter, 1), (Fault::Refuse, 0), (Fault::LoseAnswer, 1)]
    {
        let (disk, subject) = (MemoryStore::new(), Subject::new());
        assert!(wrap(&disk, &Faults::at(1, fault)).commit_soon(subject.start()).is_err());
        assert_eq!(disk.journal(subject.id).await.unwrap().len(), kept, "{fault:?}");
    }
}

#[tokio::test]
async fn every_commit_can_be_crashed_at_until_a_run_completes() {
    let run = async |store: &FaultyStore<MemoryStore>| -> Result<(), StoreError> {
        let subject = Subject::new();
        store.commit(subject.start()).await?;
        store.commit_soon(subject.append(1, Status::Running, vec![step(1)]))?;
        store.commit(subject.append(2, Status::Succeeded, vec![step(2)])).await?;
        Ok(())
    };
    let mut crashes = 0;
    for nth in 1.. {
        let faults = Faults::at(nth, Fault::CrashBefore);
        if run(&wrap(&MemoryStore::new(), &faults)).await.is_ok() {
            break;
        }
        assert_eq!(faults.commits(), nth);
        crashes += 1;
    }
    assert_eq!(crashes, 3);
}

#[tokio::test]
async fn the_same_seed_gives_the_same_faults() {
    let failures = async |seed| -> Vec<bool> {
        let faults = Faults::none().failing_one_in(4, seed).yielding_at_random(3, seed);
        let store = wrap(&MemoryStore::new(), &faults);
        let mut failures = Vec::new();
        for _ in 0..100 {
            failures.push(store.commit(Subject::new().start()).await.is_err());
        }
        failures
    };
    let once = failures(7).await;
    assert_eq!(failures(7).await, once);
    assert_ne!(failures(8).await, once);
    let failed = once.iter().filter(|failed| **failed).count();
    assert!((5..60).contains(&failed), "{failed}");
}

#[tokio::test]
async fn what_is_on_its_way_when_the_process_dies_is_not_answered() {
    let (disk, subject) = (MemoryStore::new(), Subject::new());
    let faults = Faults::none().yielding_at_random(50, 3);
    let store = wrap(&disk, &faults);
    let (result, ()) = tokio::join!(store.commit(subject.start()), async {
        while disk.execution(subject.id).await.unwrap().is_none() {
            tokio::task::yield_now().await;
        }
        faults.crash();
    });
    is_unavailable(result, "crashed");
    assert_eq!(disk.journal(subject.id).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_read_fails_where_the_plan_says_and_other_kinds_of_reads_do_not() {
    let (disk, subject) = (MemoryStore::new(), Subject::new());
    let faults = Faults::none().and_read_at(Read::Journal, 2);
    let store = wrap(&disk, &faults);
    store.commit(subject.start()).await.unwrap();
    store.journal(subject.id).await.unwrap();
    store.execution(subject.id).await.unwrap();
    is_unavailable(store.journal(subject.id).await, "the medium failed, as planned");
    assert_eq!(store.journal(subject.id).await.unwrap().len(), 1, "once");
    assert_eq!((faults.reads(Read::Journal), faults.reads(Read::Execution)), (3, 1));
}

#[tokio::test]
async fn reads_fail_at_random_as_the_seed_has_it() {
    let failures = async |seed| -> Vec<bool> {
        let store = wrap(&MemoryStore::new(), &Faults::none().failing_reads_one_in(4, seed));
        let mut failures = Vec::new();
        for _ in 0..100 {
            failures.push(store.next_expiry().await.is_err());
        }
        failures
    };
    let once = failures(7).await;
    assert_eq!(failures(7).await, once);
    assert_ne!(failures(8).await, once);
    let failed = once.iter().filter(|failed| **failed).count();
    assert!((5..60).contains(&failed), "{failed}");
}

#[tokio::test]
async fn a_healed_store_fails_nothing_and_the_dead_stay_dead() {
    let (disk, subject) = (MemoryStore::new(), Subject::new());
    let faults = Faults::at(2, Fault::Refuse).failing_one_in(1, 1).failing_reads_one_in(1, 1);
    faults.fail_reads_of(Read::Due);
    let store = wrap(&disk, &faults);
    assert!(store.commit(subject.start()).await.is_err());
    assert!(store.due(subject.created_at, 10).await.is_err() && store.next_expiry().await.is_err());
    faults.heal();
    let subject = Subject::new();
    store.commit(subject.start()).await.unwrap();
    assert!(store.due(subject.created_at, 10).await.is_ok() && store.next_expiry().await.is_ok());
    faults.crash();
    faults.heal();
    is_unavailable(store.journal(subject.id).await, "crashed");
}
