//! Whoever hangs up in the middle of a call or a decision leaves nothing half done: fronts drop the futures of clients that
//! went away.

use std::sync::Arc;
use std::time::Duration;

use countersign_core::execution::Status;
use countersign_kernel::{Answer, CallRequest, ExecutionResult, Gateway, Target};
use countersign_testkit::history::History;
use countersign_testkit::invariants::{Moment, violations};
use countersign_testkit::world::{InTests, World, ann, bob, request, says, yes};
use serde_json::{Value, json};

use crate::held_store::HeldStore;

const A_WHILE: Duration = Duration::from_secs(120);

async fn on_a_held_store(world: &World) -> (Gateway, HeldStore) {
    let store = HeldStore::new(world.disk.clone());
    (world.start_with(world.builder(Arc::new(store.clone()))).await, store)
}

fn calls() -> [(&'static str, Value); 2] {
    [("lab.destroy", json!({ "what": "x" })), ("lab.transfer", json!({ "amount": 20_000 }))]
}

/// Ann says yes and hangs up while the store is at it.
async fn ann_hangs_up(gateway: &Gateway, waiting: &ExecutionResult) {
    let deciding = gateway.decide(says(ann(), Target::Execution(waiting.execution), yes()));
    assert!(tokio::time::timeout(Duration::from_millis(10), deciding).await.is_err(), "the store is held");
}

/// Waiting as it was asked, and parked.
fn moments() -> [Duration; 2] {
    [Duration::from_secs(1), Duration::from_secs(31)]
}

#[tokio::test(start_paused = true)]
async fn a_decision_that_was_never_written_binds_nobody() {
    for after in moments() {
        for (path, args) in calls() {
            let world = World::new(1);
            let (gateway, store) = on_a_held_store(&world).await;
            let waiting = gateway.ask(path, args).await.unwrap();
            tokio::time::sleep(after).await;
            store.hold();
            ann_hangs_up(&gateway, &waiting).await;
            store.go_on();
            tokio::time::sleep(Duration::from_millis(10)).await;
            let target = Target::Execution(waiting.execution);
            let bobs = gateway.decide(says(bob(), target, Answer::Deny)).await;
            let on_disk =
                countersign_kernel::ports::Store::journal(&world.disk, waiting.execution).await.unwrap();
            let told = on_disk.iter().any(|e| e.body.name() == "Decided");
            assert!(told, "{path} after {after:?}: bob was told {bobs:?} and nothing of it is on the disk");
            let end = tokio::time::timeout(A_WHILE, gateway.end_of(&waiting)).await.expect("it ends");
            assert_eq!(end.success(), bobs.is_err(), "{path}: one of the two stands");
            assert_eq!(world.ledger.effects().len(), usize::from(end.success()));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_decision_that_was_written_is_acted_on_though_its_decider_is_gone() {
    for after in moments() {
        for (path, args) in calls() {
            let world = World::new(1);
            let (gateway, store) = on_a_held_store(&world).await;
            let waiting = gateway.ask(path, args).await.unwrap();
            tokio::time::sleep(after).await;
            store.hold_answers();
            ann_hangs_up(&gateway, &waiting).await;
            store.go_on();
            let end = tokio::time::timeout(A_WHILE, gateway.end_of(&waiting)).await;
            assert!(end.is_ok_and(|end| end.success()), "{path} after {after:?}");
            assert_eq!(world.ledger.effects().len(), 1);
            let found = violations(&world.disk, &world.ledger, &History::default(), Moment::AtRest).await;
            assert_eq!(found, Vec::<String>::new());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_whose_caller_is_gone_can_be_answered() {
    let world = World::new(1);
    let (gateway, store) = on_a_held_store(&world).await;
    store.hold_answers();
    let call = gateway.ask("lab.destroy", json!({ "what": "x" }));
    assert!(tokio::time::timeout(Duration::from_millis(10), call).await.is_err());
    store.go_on();
    let target = Target::Elicitation(gateway.open().await[0].elicitation.id);
    let receipt = gateway.decide(says(ann(), target, yes())).await.unwrap();
    let end = gateway
        .wait(receipt.execution, countersign_kernel::Patience::AtMost(A_WHILE))
        .await
        .unwrap()
        .unwrap();
    assert!(end.success());
    assert_eq!(world.ledger.effects().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_was_let_start_does_not_hang_because_its_caller_is_gone() {
    let world = World::new(1).under("[[rule]]\nmatch = \"lab.destroy\"\neffect = \"allow\"\n");
    let (gateway, store) = on_a_held_store(&world).await;
    store.hold_answers();
    let keyed =
        || CallRequest { key: Some("key-1".into()), ..request("lab.destroy", json!({ "what": "x" })) };
    assert!(tokio::time::timeout(Duration::from_millis(10), gateway.call(keyed())).await.is_err());
    store.go_on();
    let again = tokio::time::timeout(A_WHILE, gateway.call(keyed()))
        .await
        .expect("it does not run for ever")
        .unwrap();
    assert!(again.status.is_final() || again.status == Status::InDoubt, "{again:?}");
    assert!(world.ledger.effects().len() <= 1);
}
