//! Cancelling, in every phase: what waits stops at once, what may have happened ends with its own outcome.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use countersign_core::elicitation::Decider;
use countersign_core::execution::Status;
use countersign_core::ids::ExecutionId;
use countersign_kernel::{CallRequest, Caller, CancelError, DecideError, ExecutionResult, Gateway, Patience};
use countersign_sdk::{Ctx, Outcome, Plugin, Principal, Tool, ToolError};
use countersign_testkit::lab::{Done, Nothing};
use countersign_testkit::world::{InTests, World, agent, ann, request, service, yes};
use serde_json::{Value, json};

/// Calls that come to wait for a person, at the gate or inside the handler.
fn waiting_calls() -> [(&'static str, Value); 4] {
    [
        ("lab.destroy", json!({ "what": "x" })),
        ("lab.transfer", json!({ "amount": 20_000 })),
        ("lab.form", json!({})),
        ("lab.two", json!({})),
    ]
}

async fn started(gateway: &Gateway, path: &str, args: Value) -> ExecutionResult {
    let a_moment = Patience::AtMost(Duration::from_millis(10));
    gateway.call(CallRequest { patience: a_moment, ..request(path, args) }).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn what_waits_for_a_person_is_cancelled_at_once_and_its_questions_are_withdrawn() {
    for after in [Duration::ZERO, Duration::from_secs(60)] {
        for (path, args) in waiting_calls() {
            let world = World::new(1);
            let gateway = world.start().await;
            let waiting = gateway.ask(path, args).await.unwrap();
            tokio::time::sleep(after).await;
            let end = gateway.cancel(waiting.execution, &agent(), "no longer needed").await.unwrap();
            assert_eq!(end.status, Status::Cancelled, "{path}");
            let error = end.error.unwrap();
            assert_eq!((error.code.as_str(), error.message.as_str()), ("cancelled", "no longer needed"));
            assert_eq!(gateway.open().await, [], "{path}");
            tokio::time::sleep(Duration::from_secs(60)).await;
            assert_eq!((gateway.live(), world.ledger.effects()), (0, vec![]), "{path} after {after:?}");
            assert_eq!(gateway.end_of(&waiting).await.status, Status::Cancelled);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_decision_on_a_cancelled_execution_is_shown_that_it_was_withdrawn() {
    let gateway = World::new(1).start().await;
    let waiting = gateway.ask("lab.destroy", json!({ "what": "x" })).await.unwrap();
    gateway.cancel(waiting.execution, &agent(), "never mind").await.unwrap();
    match gateway.ann_says(&waiting, yes()).await.unwrap_err() {
        DecideError::Decided(standing) => {
            assert_eq!(standing.outcome, Outcome::Cancelled);
            assert!(matches!(standing.by, Decider::Gateway { .. }));
        }
        other => panic!("{other}"),
    }
}

#[tokio::test(start_paused = true)]
async fn its_requester_and_people_who_decide_may_cancel_and_nobody_else() {
    let gateway = World::new(1).start().await;
    let waiting = gateway.ask("lab.destroy", json!({ "what": "x" })).await.unwrap();
    let stranger: Caller = Principal::agent("agent-2").unwrap().into();
    for by in [stranger, service()] {
        let refused = gateway.cancel(waiting.execution, &by, "mine now").await.unwrap_err();
        assert!(matches!(refused, CancelError::NotAllowed), "{refused}");
    }
    assert_eq!(gateway.open().await.len(), 1);
    assert!(gateway.cancel(waiting.execution, &ann(), "stop").await.is_ok());
}

/// A safe tool that never ends by itself, and notes that it was dropped.
fn endless(dropped: &Arc<AtomicBool>) -> Plugin {
    struct Notes(Arc<AtomicBool>);
    impl Drop for Notes {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let dropped = Arc::clone(dropped);
    let tool = Tool::new("own.endless").name("Endless").describe("Never ends.").handler(
        move |_: Ctx, _: Nothing| {
            let notes = Notes(Arc::clone(&dropped));
            async move {
                std::future::pending::<()>().await;
                drop(notes);
                Ok::<_, ToolError>(Done { done: true })
            }
        },
    );
    Plugin::new("own", "Own", "Tools of this test.").tool(tool)
}

#[tokio::test(start_paused = true)]
async fn a_running_handler_that_may_be_dropped_is_dropped() {
    let (world, dropped) = (World::new(1), Arc::<AtomicBool>::default());
    let gateway =
        world.start_with(world.builder(Arc::new(world.disk.clone())).plugin(endless(&dropped))).await;
    let running = started(&gateway, "own.endless", json!({})).await;
    assert_eq!(running.status, Status::Running);
    let end = gateway.cancel(running.execution, &agent(), "enough").await.unwrap();
    assert_eq!(end.status, Status::Cancelled);
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert!(dropped.load(Ordering::SeqCst));
    assert_eq!(gateway.live(), 0);
    assert_eq!(gateway.story(&running).await.last(), Some(&"Cancelled"));
}

#[tokio::test(start_paused = true)]
async fn a_destructive_handler_is_told_and_ends_with_its_own_outcome() {
    let world = World::new(1);
    let gateway = world.start().await;
    let waiting = gateway.ask("lab.slow", json!({ "ms": 60_000 })).await.unwrap();
    gateway.ann_says(&waiting, yes()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let refused = gateway.cancel(waiting.execution, &agent(), "stop").await.unwrap_err();
    assert!(matches!(refused, CancelError::TooLate), "{refused}");
    let end = tokio::time::timeout(Duration::from_secs(1), gateway.end_of(&waiting))
        .await
        .expect("the handler was told");
    assert_eq!(end.status, Status::Failed);
    assert_eq!(end.error.unwrap().message, "Stopped before the effect.");
    assert_eq!(world.ledger.effects(), []);
}

#[tokio::test(start_paused = true)]
async fn what_has_ended_or_never_was_cannot_be_cancelled() {
    let gateway = World::new(1).start().await;
    let end = gateway.approved("lab.destroy", json!({ "what": "x" })).await;
    assert!(matches!(gateway.cancel(end.execution, &agent(), "late").await, Err(CancelError::Ended)));
    let unknown = ExecutionId::from_random([7; 16]);
    assert!(matches!(gateway.cancel(unknown, &agent(), "what").await, Err(CancelError::NotFound)));
    let waiting = gateway.ask("lab.put", json!({ "what": "x" })).await.unwrap();
    gateway.cancel(waiting.execution, &agent(), "once").await.unwrap();
    assert!(matches!(gateway.cancel(waiting.execution, &agent(), "twice").await, Err(CancelError::Ended)));
}

#[test]
fn what_is_in_doubt_is_settled_and_not_cancelled() {
    let world = World::new(1);
    let waiting = world.life(async |gateway| {
        let waiting = gateway.ask("lab.slow", json!({ "ms": 60_000 })).await.unwrap();
        gateway.ann_says(&waiting, yes()).await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        waiting
    });
    world.life(async |gateway| {
        let refused = gateway.cancel(waiting.execution, &ann(), "forget it").await.unwrap_err();
        assert!(matches!(refused, CancelError::InDoubt), "{refused}");
        assert_eq!(gateway.end_of(&waiting).await.status, Status::InDoubt);
    });
}

#[test]
fn what_waits_can_be_cancelled_after_a_restart() {
    let world = World::new(1);
    for (path, args) in waiting_calls() {
        let waiting = world.life(async |gateway| gateway.ask(path, args).await.unwrap());
        world.life(async |gateway| {
            let end = gateway.cancel(waiting.execution, &agent(), "changed my mind").await.unwrap();
            assert_eq!(end.status, Status::Cancelled);
            assert_eq!(gateway.open().await, []);
        });
    }
    assert_eq!(world.ledger.effects(), []);
}
