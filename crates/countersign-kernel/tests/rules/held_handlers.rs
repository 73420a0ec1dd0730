//! Handlers that ask after they acted: a destructive one is not dropped at its own question, and a crash there is doubt. Only a
//! tool that says it is resumable is dropped and entered again.

use std::sync::Arc;
use std::time::Duration;

use countersign_core::execution::Status;
use countersign_kernel::ExecutionResult;
use countersign_sdk::{Approved, Ctx, Effects, ForeignInput, Plugin, Resumable, Tool, ToolError};
use countersign_testkit::lab::{Done, What, happen};
use countersign_testkit::world::{InTests, World, yes};
use serde_json::{Value, json};

const PARKED: Duration = Duration::from_secs(31);
const A_DAY: Duration = Duration::from_secs(20 * 60 * 60);

/// Acts, asks whether to go on, and acts again.
fn acts_then_asks(world: &World, path: &str, resumable: Resumable) -> Tool {
    let ledger = world.ledger.clone();
    let tool = Tool::new(path).name("Two acts").describe("Acts, asks, and acts again.");
    let tool = if resumable == Resumable::Yes { tool.resumable() } else { tool };
    tool.destructive(|i: &What| format!("Begin with \"{}\"?", i.what)).handler(
        move |ctx: Ctx, _: Approved<What>| {
            let ledger = ledger.clone();
            async move {
                happen(&ctx, &ledger, "first").await;
                if ctx
                    .elicit(countersign_sdk::Approval::new("Go on?").args(json!({ "part": 2 })))
                    .await?
                    .approved
                {
                    happen(&ctx, &ledger, "second").await;
                }
                Ok::<_, ToolError>(Done { done: true })
            }
        },
    )
}

fn plugin(world: &World) -> Plugin {
    Plugin::new("own", "Own", "Tools of this test.")
        .tool(acts_then_asks(world, "own.held", Resumable::Unsaid))
        .tool(acts_then_asks(world, "own.resumable", Resumable::Yes))
}

/// A request to somebody else's service that destroys nothing and must not be sent twice.
fn sends(world: &World) -> Tool {
    let ledger = world.ledger.clone();
    let effects = Effects { resumable: Resumable::No, ..Effects::default() };
    let tool = Tool::foreign("mail.send", json!({ "type": "object" }), None, effects).unwrap();
    tool.name("Send").describe("Sends.").handler(move |ctx: Ctx, _: ForeignInput| {
        let ledger = ledger.clone();
        async move {
            happen(&ctx, &ledger, "sent").await;
            let _ = ctx.confirm("Was it received?").await?;
            Ok::<Value, ToolError>(json!({}))
        }
    })
}

fn what(world: &World) -> Vec<String> {
    world.ledger.effects().into_iter().map(|effect| effect.what).collect()
}

#[tokio::test(start_paused = true)]
async fn a_destructive_handler_that_asks_after_it_acted_acts_once_however_late_the_answer() {
    let world = World::new(1);
    let gateway = world.start_with(world.builder(Arc::new(world.disk.clone())).plugin(plugin(&world))).await;
    let waiting = gateway.ask("own.held", json!({ "what": "x" })).await.unwrap();
    gateway.ann_says(&waiting, yes()).await.unwrap();
    tokio::time::sleep(A_DAY).await;
    assert_eq!(gateway.live(), 1, "it is kept while it waits");
    assert_eq!(gateway.open().await[0].elicitation.message, "Go on?");
    let told = gateway.result(waiting.execution).await.unwrap().unwrap();
    assert!(told.paused().is_some(), "its caller is told what it waits for: {told:?}");
    gateway.ann_says(&waiting, yes()).await.unwrap();
    assert!(gateway.end_of(&waiting).await.success());
    assert_eq!(what(&world), ["first", "second"]);
}

#[tokio::test(start_paused = true)]
async fn a_resumable_handler_is_parked_and_entered_again_from_the_top() {
    let world = World::new(1);
    let gateway = world.start_with(world.builder(Arc::new(world.disk.clone())).plugin(plugin(&world))).await;
    let waiting = gateway.ask("own.resumable", json!({ "what": "x" })).await.unwrap();
    gateway.ann_says(&waiting, yes()).await.unwrap();
    tokio::time::sleep(PARKED).await;
    assert_eq!(gateway.live(), 0);
    gateway.ann_says(&waiting, yes()).await.unwrap();
    assert!(gateway.end_of(&waiting).await.success());
    assert_eq!(what(&world), ["first", "first", "second"], "it said that entering it again is harmless");
}

/// Dies while a tool's own question is open, and comes back.
fn found_after_a_crash(world: &World, build: impl Fn() -> Plugin, path: &str) -> ExecutionResult {
    let waiting = world.life_with(
        |builder| builder.plugin(build()),
        async |gateway| {
            let waiting = gateway.ask(path, json!({ "what": "x" })).await.unwrap();
            if gateway.open().await[0].elicitation.message.starts_with("Begin") {
                gateway.ann_says(&waiting, yes()).await.unwrap();
            }
            while !gateway.open().await.iter().any(|row| row.elicitation.message == "Go on?") {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            waiting
        },
    );
    world.life_with(
        |builder| builder.plugin(build()),
        async |gateway| {
            tokio::time::sleep(PARKED).await;
            let found = gateway.result(waiting.execution).await.unwrap().unwrap();
            let open = gateway.open().await.len();
            assert_eq!(
                open,
                usize::from(found.status != Status::InDoubt),
                "nobody can answer for a lost handler"
            );
            found
        },
    )
}

#[test]
fn a_crash_while_a_destructive_handler_asks_after_it_acted_leaves_it_in_doubt() {
    let world = World::new(1);
    let found = found_after_a_crash(&world, || plugin(&world), "own.held");
    assert_eq!(found.status, Status::InDoubt);
    assert_eq!(what(&world), ["first"]);
}

#[test]
fn a_crash_while_a_resumable_handler_asks_leaves_its_question_open() {
    let world = World::new(1);
    let found = found_after_a_crash(&world, || plugin(&world), "own.resumable");
    assert_eq!(found.status, Status::Waiting);
    assert_eq!(what(&world), ["first"], "it is entered again when the answer comes");
}

#[test]
fn a_request_that_must_not_be_sent_twice_is_recorded_before_it_is_sent_and_in_doubt_after_a_crash() {
    let world = World::new(1);
    let source = |gateway: countersign_kernel::Gateway| {
        let tool = sends(&world);
        async move { gateway.replace_source("mail", vec![tool]).await.map(drop) }
    };
    let execution = world.life(async |gateway| {
        source(gateway.clone()).await.unwrap();
        let waiting = gateway.ask("mail.send", json!({})).await.unwrap();
        assert!(waiting.paused().is_some() && what(&world) == ["sent"]);
        tokio::time::sleep(A_DAY).await;
        assert_eq!(gateway.live(), 1, "dropping it would send it again");
        waiting.execution
    });
    world.life(async |gateway| {
        source(gateway.clone()).await.unwrap();
        tokio::time::sleep(PARKED).await;
        let found = gateway.result(execution).await.unwrap().unwrap();
        assert_eq!((found.status, what(&world).len()), (Status::InDoubt, 1));
    });
}
