//! One failure of the store during recovery strands nothing: it goes on until it is done, without another restart.

use std::sync::Arc;

use countersign_core::event::Settlement;
use countersign_core::execution::Status;
use countersign_kernel::{ExecutionResult, Gateway};
use countersign_sdk::Remember;
use countersign_testkit::faulty_store::{Fault, Faults};
use countersign_testkit::ledger::CrashAt;
use countersign_testkit::world::{InTests, World, agent, ann, session, yes};
use serde_json::json;

use super::{A_WHILE, CALL, status};
use crate::held_store::{HeldStore, Read};

const EACH: usize = 4;

/// A process that dies while so many calls run: destructive ones, and idempotent ones.
fn dies_amid_calls(world: &World) -> (Vec<ExecutionResult>, Vec<ExecutionResult>) {
    world.life(async |gateway| {
        let (mut destructive, mut idempotent) = (Vec::new(), Vec::new());
        for n in 0..EACH {
            let slow = gateway.asks("lab.slow", json!({ "ms": 600_000 + n })).await;
            gateway.ann_says(&slow, yes()).await.unwrap();
            destructive.push(slow);
        }
        for n in 0..EACH {
            let put = gateway.asks("lab.put", json!({ "what": n.to_string() })).await;
            world.ledger.crash_at(CrashAt::BeforeEffect(n as u64));
            gateway.ann_says(&put, yes()).await.unwrap();
            world.ledger.crashed().await;
            idempotent.push(put);
        }
        (destructive, idempotent)
    })
}

async fn all_are_taken_up(gateway: &Gateway, calls: &(Vec<ExecutionResult>, Vec<ExecutionResult>)) {
    tokio::time::sleep(A_WHILE).await;
    for one in &calls.0 {
        assert_eq!(status(gateway, one).await, Status::InDoubt);
        let failed = Settlement::Failed { message: "It never arrived.".into() };
        assert!(gateway.settle(one.execution, CALL, failed, &ann()).await.is_ok(), "it can be settled");
    }
    for one in &calls.1 {
        assert_eq!(status(gateway, one).await, Status::Succeeded);
    }
}

#[test]
fn a_commit_that_fails_once_during_recovery_strands_no_call() {
    for fault in [Fault::Refuse, Fault::LoseAnswer] {
        for nth in 1..=2 * EACH as u64 {
            let world = World::new(1).set(|s| s.remember = Remember::Call);
            let calls = dies_amid_calls(&world);
            let faults = Faults::at(nth, fault);
            world.life_on(&faults, |b| b, async |gateway| all_are_taken_up(&gateway, &calls).await);
            assert_eq!(world.ledger.effects().len(), EACH, "{fault:?} at {nth}");
        }
    }
}

#[test]
fn reads_that_fail_during_recovery_strand_no_call() {
    for times in [1, 5, 30] {
        let world = World::new(1).set(|s| s.remember = Remember::Call);
        let calls = dies_amid_calls(&world);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.unwrap().block_on(async {
            let store = HeldStore::new(world.disk.clone());
            store.fail_reads(Read::Journal, times);
            let gateway = world.builder(Arc::new(store.clone())).start().await.unwrap();
            tokio::time::sleep(A_WHILE).await;
            assert_eq!(store.reads_to_fail(Read::Journal), 0, "recovery reads the journals");
            gateway.open_session(&agent(), "test", Some(session())).await.unwrap();
            all_are_taken_up(&gateway, &calls).await;
        });
        assert_eq!(world.ledger.effects().len(), EACH);
    }
}
