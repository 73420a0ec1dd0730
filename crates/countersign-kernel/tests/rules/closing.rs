//! Closing: nothing more is accepted or started, running handlers are waited for, and the next process takes up the rest.

use std::time::Duration;

use countersign_core::execution::Status;
use countersign_kernel::Target;
use countersign_testkit::world::{InTests, World, ann, says, yes};
use serde_json::json;

#[tokio::test(start_paused = true)]
async fn a_closed_gateway_accepts_nothing_more() {
    let world = World::new(1);
    let gateway = world.start().await;
    gateway.close(Duration::from_secs(1)).await;
    for path in ["lab.read", "lab.destroy"] {
        let error = gateway.ask(path, json!({ "what": "x" })).await.unwrap_err();
        assert_eq!(error.code(), "unavailable", "{path}: {error}");
    }
    let rows =
        gateway.executions(Default::default(), countersign_kernel::ports::Page::first(10)).await.unwrap();
    assert_eq!(rows.items, []);
}

#[tokio::test(start_paused = true)]
async fn closing_waits_for_running_handlers_up_to_its_limit() {
    for (limit, finished) in [(Duration::from_secs(10), true), (Duration::from_secs(1), false)] {
        let world = World::new(1);
        let gateway = world.start().await;
        let waiting = gateway.ask("lab.slow", json!({ "ms": 5_000 })).await.unwrap();
        gateway.ann_says(&waiting, yes()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(10)).await;
        let before = tokio::time::Instant::now();
        gateway.close(limit).await;
        assert!(before.elapsed() <= limit + Duration::from_millis(1));
        let status = gateway.result(waiting.execution).await.unwrap().unwrap().status;
        assert_eq!(status.is_final(), finished, "{limit:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn closing_does_not_wait_for_people() {
    let gateway = World::new(1).start().await;
    let waiting = gateway.ask("lab.destroy", json!({ "what": "x" })).await.unwrap();
    let inside = gateway.ask("lab.transfer", json!({ "amount": 20_000 })).await.unwrap();
    let before = tokio::time::Instant::now();
    gateway.close(Duration::from_secs(60)).await;
    assert!(before.elapsed() < Duration::from_secs(1));
    for one in [waiting, inside] {
        assert_eq!(gateway.result(one.execution).await.unwrap().unwrap().status, Status::Waiting);
    }
}

#[test]
fn a_decision_after_closing_is_kept_and_starts_nothing_until_the_next_process() {
    let world = World::new(1);
    let waiting = world.life(async |gateway| {
        let waiting = gateway.ask("lab.destroy", json!({ "what": "x" })).await.unwrap();
        tokio::time::sleep(Duration::from_secs(31)).await;
        gateway.close(Duration::from_secs(1)).await;
        gateway.ann_says(&waiting, yes()).await.unwrap();
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(world.ledger.effects(), [], "nothing starts in a process that is going away");
        waiting
    });
    world.life(async |gateway| {
        assert!(gateway.end_of(&waiting).await.success());
    });
    assert_eq!(world.ledger.effects().len(), 1);
}

/// One of two questions is answered, so that the handler may have acted and cannot be parked, and the other is open.
#[tokio::test(start_paused = true)]
async fn closing_ends_in_time_though_a_handler_can_neither_go_on_nor_be_parked() {
    let gateway = World::new(1).start().await;
    gateway.ask("lab.two", json!({})).await.unwrap();
    let first = Target::Elicitation(gateway.open().await[0].elicitation.id);
    gateway.decide(says(ann(), first, yes())).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = tokio::time::Instant::now();
    gateway.close(Duration::from_secs(5)).await;
    assert!(before.elapsed() <= Duration::from_secs(6));
}
