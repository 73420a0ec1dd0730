//! What waits for people, in numbers; and callers who wait for it.

use std::time::Duration;

use countersign_kernel::{Answer, Patience};
use countersign_testkit::world::{InTests, World, yes};
use serde_json::json;

use super::note;

const PARKED: Duration = Duration::from_secs(31);
/// As many as `registry.rs` lets rest in memory.
const MOST_AT_REST: usize = 256;

#[tokio::test(start_paused = true)]
async fn of_ten_thousand_that_wait_few_are_in_memory_and_each_can_be_decided() {
    let many = 10_000;
    let world = World::new(1).set(|s| {
        (s.max_pending_per_session, s.max_pending_per_requester) = (many, many);
    });
    let gateway = world.start().await;
    let mut waiting = Vec::new();
    for n in 0..many {
        waiting.push(gateway.asks("lab.destroy_each", json!({ "what": n.to_string() })).await);
    }
    assert!(gateway.live() <= MOST_AT_REST, "{}", gateway.live());
    tokio::time::sleep(PARKED).await;
    assert_eq!(gateway.live(), 0);
    for one in &waiting {
        gateway.ann_says(one, yes()).await.unwrap();
    }
    for one in &waiting {
        assert!(gateway.end_of(one).await.success());
    }
    tokio::time::sleep(PARKED).await;
    assert_eq!((world.ledger.effects().len(), gateway.live(), gateway.open().await.len()), (many, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_caller_with_all_the_time_is_answered_whenever_it_began_to_wait() {
    // Before parking and after it; for a question of the gate and for one of a handler.
    for begins in [Duration::ZERO, PARKED] {
        for (path, args) in [("lab.destroy", note()), ("lab.transfer", json!({ "amount": 20_000 }))] {
            for answer in [yes(), Answer::Deny] {
                let world = World::new(1);
                let gateway = world.start().await;
                let waiting = gateway.asks(path, args.clone()).await;
                tokio::time::sleep(begins).await;
                let callers: Vec<_> = (0..3)
                    .map(|_| {
                        let (gateway, id) = (gateway.clone(), waiting.execution);
                        tokio::spawn(async move { gateway.wait(id, Patience::Unlimited).await })
                    })
                    .collect();
                tokio::time::sleep(2 * PARKED).await;
                assert!(callers.iter().all(|caller| !caller.is_finished()));
                assert_eq!(gateway.live(), 0, "{path}: callers that wait keep nothing in memory");
                gateway.ann_says(&waiting, answer.clone()).await.unwrap();
                for caller in callers {
                    let told = tokio::time::timeout(PARKED, caller).await.expect("it is answered").unwrap();
                    assert_eq!(told.unwrap().unwrap().success(), answer == yes(), "{path}");
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_caller_whose_patience_ends_is_told_how_it_stands_and_later_ones_are_answered() {
    let gateway = World::new(1).start().await;
    let waiting = gateway.asks("lab.transfer", json!({ "amount": 20_000 })).await;
    for seconds in [1, 100] {
        let patience = Patience::AtMost(Duration::from_secs(seconds));
        let told = gateway.wait(waiting.execution, patience).await.unwrap().unwrap();
        assert!(told.paused().is_some());
    }
    assert_eq!(gateway.live(), 0, "a caller that hung up keeps nothing in memory");
    gateway.ann_says(&waiting, yes()).await.unwrap();
    assert!(gateway.end_of(&waiting).await.success());
}
