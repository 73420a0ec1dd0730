//! A process that starts without the source of a tool: what waits for the tool waits on, says so, and goes on when it is there.

use std::time::Duration;

use countersign_core::execution::Status;
use countersign_kernel::{Answer, ExecutionResult, Gateway, GatewayBuilder};
use countersign_testkit::world::{InTests, World, admin, agent, yes};

use crate::sources::{DELETE, deletes, file, withdrawn_because};

fn with_files(world: &World) -> impl FnOnce(GatewayBuilder) -> GatewayBuilder {
    let tools = vec![deletes(world, "Deletes.")];
    move |builder| builder.source("files", tools)
}

/// One question and one approved call that has not started, left behind by a process that had the source.
fn left_behind(world: &World) -> (ExecutionResult, ExecutionResult) {
    let open = world.life_with(with_files(world), async |gateway| gateway.asks(DELETE, file()).await);
    (open, world.life_up_to_the_start(with_files(world), DELETE, file()))
}

async fn now(gateway: &Gateway, of: &ExecutionResult) -> ExecutionResult {
    gateway.result(of.execution).await.unwrap().unwrap()
}

#[test]
fn what_waits_for_a_tool_that_is_not_loaded_waits_on_and_says_so() {
    let world = World::new(1);
    let (open, approved) = left_behind(&world);
    world.life(async |gateway| {
        for waiting in [&open, &approved] {
            let now = now(&gateway, waiting).await;
            assert!(!now.status.is_final());
            let missing: Vec<_> = now.missing_tools.iter().map(|path| path.as_str()).collect();
            assert_eq!(missing, [DELETE]);
        }
        assert_eq!(gateway.ann_says(&open, yes()).await.unwrap_err().code(), "tool_not_found");
        assert_eq!(gateway.open().await.len(), 1);
    });
    assert_eq!(world.ledger.effects(), []);
}

#[test]
fn it_goes_on_when_the_source_comes_back_as_it_was() {
    let world = World::new(1);
    let (open, approved) = left_behind(&world);
    world.life(async |gateway| {
        gateway.replace_source("files", vec![deletes(&world, "Deletes.")]).await.unwrap();
        assert!(gateway.end_of(&approved).await.success(), "by itself");
        assert!(now(&gateway, &open).await.missing_tools.is_empty());
        gateway.ann_says(&open, yes()).await.unwrap();
        assert!(gateway.end_of(&open).await.success());
    });
    assert_eq!(world.ledger.effects().len(), 2);
}

#[test]
fn it_is_withdrawn_when_the_source_comes_back_with_another_tool_or_without_it() {
    for (tools, reason) in [(1, "the tool changed"), (0, "the tool was removed")] {
        let world = World::new(1);
        let (open, approved) = left_behind(&world);
        world.life(async |gateway| {
            let tools = (0..tools).map(|_| deletes(&world, "Another.")).collect();
            gateway.replace_source("files", tools).await.unwrap();
            assert_eq!(withdrawn_because(&gateway, &open).await, reason);
            assert!(!gateway.end_of(&open).await.success());
            assert_eq!(gateway.end_of(&approved).await.error.unwrap().code, "approval_void");
        });
        assert_eq!(world.ledger.effects(), []);
    }
}

#[test]
fn people_can_deny_and_cancel_it_meanwhile() {
    let world = World::new(1);
    let (open, approved) = left_behind(&world);
    world.life(async |gateway| {
        gateway.ann_says(&open, Answer::Deny).await.unwrap();
        assert_eq!(gateway.end_of(&open).await.error.unwrap().code, "denied");
        gateway.cancel(approved.execution, &admin(), "no longer wanted").await.unwrap();
        assert_eq!(now(&gateway, &approved).await.status, Status::Cancelled);
    });
    assert_eq!(world.ledger.effects(), []);
}

#[test]
fn nothing_waits_for_a_source_longer_than_people_gave_it() {
    let world = World::new(1);
    let (open, approved) = left_behind(&world);
    world.life(async |gateway| {
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(now(&gateway, &approved).await.missing_tools.len(), 1);
        world.clock.pass(25 * 60 * 60 * 1_000);
        tokio::time::sleep(Duration::from_secs(10)).await;
        for waiting in [&open, &approved] {
            let now = now(&gateway, waiting).await;
            assert_eq!(now.error.map(|error| error.code).as_deref(), Some("expired"));
            assert!(now.missing_tools.is_empty());
        }
        // And one that the source would have brought on finds it ended.
        gateway.replace_source("files", vec![deletes(&world, "Deletes.")]).await.unwrap();
        assert!(gateway.cancel(approved.execution, &agent(), "late").await.is_err());
    });
    assert_eq!(world.ledger.effects(), []);
}

fn awaiting_files(builder: GatewayBuilder) -> GatewayBuilder {
    builder.awaits(["files".to_owned()])
}

#[test]
fn a_call_soon_after_the_start_waits_until_its_source_is_loaded() {
    let world = World::new(1);
    world.life_with(awaiting_files, async |gateway| {
        let loading = async {
            tokio::time::sleep(Duration::from_secs(14)).await;
            gateway.replace_source("files", vec![deletes(&world, "Deletes.")]).await.unwrap();
        };
        let (waiting, ()) = tokio::join!(gateway.asks(DELETE, file()), loading);
        gateway.ann_says(&waiting, yes()).await.unwrap();
        assert!(gateway.end_of(&waiting).await.success());
    });
    assert_eq!(world.ledger.effects().len(), 1);
}

#[test]
fn a_source_that_does_not_come_is_told_and_no_longer_waited_for() {
    World::new(1).life_with(awaiting_files, async |gateway| {
        let begun = tokio::time::Instant::now();
        for _ in 0..3 {
            let refused = gateway.ask(DELETE, file()).await.unwrap_err();
            assert_eq!(refused.code(), "source_not_loaded", "{refused}");
        }
        let waited = begun.elapsed();
        assert!(waited >= Duration::from_secs(14) && waited < Duration::from_secs(17), "once: {waited:?}");
    });
}

#[test]
fn nobody_waits_for_a_source_that_was_removed() {
    World::new(1).life_with(awaiting_files, async |gateway| {
        let begun = tokio::time::Instant::now();
        let (refused, _) = tokio::join!(gateway.ask(DELETE, file()), gateway.remove_source("files"));
        assert_eq!(refused.unwrap_err().code(), "tool_not_found");
        assert!(begun.elapsed() < Duration::from_secs(1));
    });
}
