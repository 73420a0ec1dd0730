//! Parking: what waits for a person holds no memory, and a decision brings it back without repeating anything.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use countersign_core::execution::Status;
use countersign_kernel::{Answer, CallRequest, Patience, Target};
use countersign_sdk::{Ctx, Plugin, Tool, ToolError};
use countersign_testkit::lab::{Done, Nothing, happen};
use countersign_testkit::world::{InTests, World, ann, bob, fill, request, says, yes};
use serde_json::json;

use crate::held_store::HeldStore;

const PARKED: Duration = Duration::from_secs(31);

#[tokio::test(start_paused = true)]
async fn after_park_after_nothing_is_in_memory_and_a_decision_brings_it_back() {
    for (path, args, answer, effects) in [
        ("lab.destroy", json!({ "what": "x" }), yes(), 1),
        ("lab.transfer", json!({ "amount": 20_000 }), yes(), 1),
        ("lab.confirm", json!({}), yes(), 1),
        ("lab.form", json!({}), fill(json!({ "warehouse_id": "WH-7" })), 0),
        ("lab.destroy", json!({ "what": "x" }), Answer::Deny, 0),
        ("lab.confirm", json!({}), Answer::Deny, 0),
    ] {
        let world = World::new(1);
        let gateway = world.start().await;
        let waiting = gateway.ask(path, args).await.unwrap();
        assert_eq!(gateway.live(), 1, "{path}");
        tokio::time::sleep(PARKED).await;
        assert_eq!(gateway.live(), 0, "{path} is parked");
        gateway.ann_says(&waiting, answer).await.unwrap();
        let end = gateway.end_of(&waiting).await;
        assert!(end.status.is_final());
        assert_eq!(world.ledger.effects().len(), effects, "{path}");
        tokio::time::sleep(PARKED).await;
        assert_eq!((gateway.live(), world.ledger.effects().len()), (0, effects), "{path}");
    }
}

/// As many as `registry.rs` lets rest in memory.
const MOST_AT_REST: usize = 256;

#[tokio::test(start_paused = true)]
async fn so_many_questions_rest_in_memory_and_the_others_are_decided_from_the_store() {
    let world = World::new(1).set(|settings| settings.max_pending_per_session = 2 * MOST_AT_REST);
    let gateway = world.start().await;
    let oldest = gateway.ask("lab.destroy_each", json!({ "what": "the oldest" })).await.unwrap();
    for n in 1..MOST_AT_REST {
        gateway.ask("lab.destroy_each", json!({ "what": n.to_string() })).await.unwrap();
    }
    assert_eq!(gateway.live(), MOST_AT_REST);
    gateway.ask("lab.destroy_each", json!({ "what": "one more" })).await.unwrap();
    assert_eq!(gateway.live(), MOST_AT_REST, "the oldest gave up its place");
    gateway.ann_says(&oldest, yes()).await.unwrap();
    assert!(gateway.end_of(&oldest).await.success());
    assert_eq!(world.ledger.effects().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_step_that_was_recorded_before_parking_is_not_done_again() {
    let world = World::new(1);
    let gateway = world.start().await;
    let waiting = gateway.ask("lab.steps", json!({ "what": "x" })).await.unwrap();
    gateway.ann_says(&waiting, yes()).await.unwrap();
    tokio::time::sleep(PARKED).await;
    assert_eq!(gateway.live(), 0);
    assert_eq!(gateway.open().await[0].elicitation.message, "Go on to the second step?");
    gateway.ann_says(&waiting, yes()).await.unwrap();
    assert_eq!(gateway.end_of(&waiting).await.value, Some(json!({ "done": true })));
    let effects: Vec<_> = world.ledger.effects().into_iter().map(|e| e.what).collect();
    assert_eq!(effects, ["first", "second"]);
}

#[tokio::test(start_paused = true)]
async fn a_caller_who_waits_is_answered_across_parking() {
    let world = World::new(1);
    let gateway = world.start().await;
    let patient = gateway.clone();
    let call =
        CallRequest { patience: Patience::Unlimited, ..request("lab.transfer", json!({ "amount": 20_000 })) };
    let caller = tokio::spawn(async move { patient.call(call).await.unwrap() });
    tokio::time::sleep(Duration::from_secs(10 * 60 * 60)).await;
    assert!(!caller.is_finished() && gateway.live() == 0);
    let target = Target::Execution(gateway.open().await[0].execution);
    gateway.decide(says(ann(), target, yes())).await.unwrap();
    assert!(caller.await.unwrap().success());
    assert_eq!(world.ledger.effects().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_caller_with_little_patience_is_told_what_it_waits_for() {
    let gateway = World::new(1).start().await;
    let call = CallRequest {
        patience: Patience::AtMost(Duration::from_secs(45)),
        ..request("lab.transfer", json!({ "amount": 20_000 }))
    };
    let told = gateway.call(call).await.unwrap();
    assert_eq!(told.status, Status::Waiting);
    assert_eq!(told.paused().unwrap().elicitation.message, "Large transfer exceeding $10,000");
}

#[tokio::test(start_paused = true)]
async fn a_thousand_that_wait_hold_nothing_and_each_comes_back_on_its_own() {
    let world = World::new(1);
    let gateway = world.start().await;
    let mut waiting = Vec::new();
    for n in 0..1_000 {
        waiting.push(gateway.ask("lab.destroy_each", json!({ "what": n.to_string() })).await.unwrap());
    }
    tokio::time::sleep(PARKED).await;
    assert_eq!(gateway.live(), 0);
    for one in &waiting[500..600] {
        gateway.ann_says(one, yes()).await.unwrap();
        assert!(gateway.end_of(one).await.success());
    }
    assert_eq!(world.ledger.effects().len(), 100);
    assert_eq!(gateway.open().await.len(), 900);
}

#[tokio::test(start_paused = true)]
async fn two_questions_are_answered_a_day_apart_and_the_effect_comes_once() {
    let world = World::new(1).set(|s| s.expires = Duration::from_secs(7 * 24 * 60 * 60));
    let gateway = world.start().await;
    let waiting = gateway.ask("lab.two", json!({})).await.unwrap();
    tokio::time::sleep(PARKED).await;
    for row in gateway.open().await {
        gateway.decide(says(ann(), Target::Elicitation(row.elicitation.id), yes())).await.unwrap();
        tokio::time::sleep(Duration::from_secs(24 * 60 * 60)).await;
    }
    assert_eq!(gateway.end_of(&waiting).await.value, Some(json!({ "done": true })));
    assert_eq!(world.ledger.effects().len(), 1);
}

/// A handler that asks something else each time it is entered: what it asked before was about another thing.
#[tokio::test(start_paused = true)]
async fn a_handler_that_asks_something_else_when_it_comes_back_is_stopped() {
    let (world, entered) = (World::new(1), Arc::<AtomicUsize>::default());
    let ledger = world.ledger.clone();
    let tool = Tool::new("own.fickle").name("Fickle").describe("Changes its mind.").handler(
        move |ctx: Ctx, _: Nothing| {
            let (ledger, n) = (ledger.clone(), entered.fetch_add(1, Ordering::SeqCst));
            async move {
                if ctx.confirm(format!("Delete number {n}?")).await? {
                    happen(&ctx, &ledger, "deleted").await;
                }
                Ok::<_, ToolError>(Done { done: true })
            }
        },
    );
    let plugin = Plugin::new("own", "Own", "Tools of this test.").tool(tool);
    let gateway = world.start_with(world.builder(Arc::new(world.disk.clone())).plugin(plugin)).await;
    let waiting = gateway.ask("own.fickle", json!({})).await.unwrap();
    tokio::time::sleep(PARKED).await;
    gateway.ann_says(&waiting, yes()).await.unwrap();
    assert_eq!(gateway.end_of(&waiting).await.error.unwrap().code, "diverged");
    assert_eq!(world.ledger.effects(), []);
}

/// A tool that asks, and records a step while it waits.
fn busy(world: &World) -> Plugin {
    let ledger = world.ledger.clone();
    let tool = Tool::new("own.busy").name("Busy").describe("Works while it waits.").handler(
        move |ctx: Ctx, _: Nothing| {
            let ledger = ledger.clone();
            async move {
                let meanwhile = async {
                    tokio::time::sleep(Duration::from_secs(29)).await;
                    ctx.step("meanwhile", async || Ok(1)).await
                };
                let (yes, meanwhile) = tokio::join!(ctx.confirm("Go on?"), meanwhile);
                if yes? && meanwhile? == 1 {
                    happen(&ctx, &ledger, "went on").await;
                }
                Ok::<_, ToolError>(Done { done: true })
            }
        },
    );
    Plugin::new("own", "Own", "Tools of this test.").tool(tool)
}

/// The execution is about to be parked: it waits for a write to end, and behind it a decision waits for its turn.
#[tokio::test(start_paused = true)]
async fn a_decision_that_arrives_in_the_moment_of_parking_is_not_lost() {
    let world = World::new(1);
    let store = HeldStore::new(world.disk.clone());
    let gateway = world.start_with(world.builder(Arc::new(store.clone())).plugin(busy(&world))).await;
    let waiting = gateway.ask("own.busy", json!({})).await.unwrap();
    tokio::time::sleep(Duration::from_secs(28)).await;
    store.hold();
    tokio::time::sleep(Duration::from_secs(3)).await;
    let (decider, target) = (gateway.clone(), Target::Execution(waiting.execution));
    let anns = tokio::spawn(async move { decider.decide(says(ann(), target, yes())).await });
    tokio::time::sleep(Duration::from_secs(1)).await;
    store.go_on();
    assert!(anns.await.unwrap().is_ok());
    let end =
        tokio::time::timeout(Duration::from_secs(120), gateway.end_of(&waiting)).await.expect("it goes on");
    assert!(end.success());
    assert_eq!(world.ledger.effects().len(), 1);
}

/// A tool that asks, and takes its time once it was answered.
fn slow_after_yes(world: &World) -> Plugin {
    let ledger = world.ledger.clone();
    let tool = Tool::new("own.slow").name("Slow").describe("Asks, then takes its time.").handler(
        move |ctx: Ctx, _: Nothing| {
            let ledger = ledger.clone();
            async move {
                if ctx.confirm("Go on?").await? {
                    tokio::time::sleep(Duration::from_secs(10)).await;
                    happen(&ctx, &ledger, "went on").await;
                }
                Ok::<_, ToolError>(Done { done: true })
            }
        },
    );
    Plugin::new("own", "Own", "Tools of this test.").tool(tool)
}

/// The same, where the write that parking waits for is a decision that fails.
#[tokio::test(start_paused = true)]
async fn a_decision_that_fails_in_the_moment_of_parking_does_not_lose_the_next() {
    let world = World::new(1);
    let store = HeldStore::new(world.disk.clone());
    let gateway =
        world.start_with(world.builder(Arc::new(store.clone())).plugin(slow_after_yes(&world))).await;
    let waiting = gateway.ask("own.slow", json!({})).await.unwrap();
    let target = Target::Execution(waiting.execution);
    let decide = |by| {
        let gateway = gateway.clone();
        tokio::spawn(async move { gateway.decide(says(by, target, yes())).await })
    };
    tokio::time::sleep(Duration::from_secs(29)).await;
    store.hold();
    let anns = decide(ann());
    tokio::time::sleep(Duration::from_secs(2)).await;
    let bobs = decide(bob());
    tokio::time::sleep(Duration::from_secs(1)).await;
    store.refuse_one_and_go_on();
    assert!(anns.await.unwrap().is_err(), "the store did not take it");
    assert!(bobs.await.unwrap().is_ok());
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(gateway.live(), 1, "while it runs it is where others find it");
    let end =
        tokio::time::timeout(Duration::from_secs(60), gateway.end_of(&waiting)).await.expect("it goes on");
    assert!(end.success());
    assert_eq!(world.ledger.effects().len(), 1);
}
