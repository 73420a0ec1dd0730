//! A call in doubt stops its script until a person settles it; then the script goes on with what they said.

use std::time::Duration;

use countersign_core::canonical::Verbatim;
use countersign_core::event::Settlement;
use countersign_core::execution::Status;
use countersign_core::ids::CallNo;
use countersign_kernel::{ExecutionResult, Gateway};
use countersign_testkit::ledger::CrashAt;
use countersign_testkit::world::{InTests as _, World, ann, yes};
use serde_json::json;

use crate::fixture::{by_call, world};

const SOURCE: &str = r#"
    await tools.lab.read({ what: "before" });
    const made = await tools.lab.destroy_each({ what: "x" }).catch((e) => ({ code: e.code }));
    const after = await tools.lab.read({ what: "after" });
    return { made, after: after.what };
"#;

/// A process that dies inside the destructive handler.
fn dead_in_the_handler() -> (World, ExecutionResult) {
    let world = world(5);
    world.ledger.crash_at(CrashAt::AfterEffect(0));
    let paused = world.life(async |gateway| {
        let paused = gateway.runs(SOURCE).await;
        gateway.ann_says(&paused, yes()).await.unwrap();
        world.ledger.crashed().await;
        paused
    });
    (world, paused)
}

async fn settled(gateway: &Gateway, paused: &ExecutionResult, settlement: Settlement) -> ExecutionResult {
    let doubt = gateway.result(paused.execution).await.unwrap().unwrap();
    assert_eq!(doubt.status, Status::InDoubt, "within two seconds of the start");
    assert_eq!(doubt.calls.iter().map(|c| c.status).collect::<Vec<_>>(), ["succeeded", "in_doubt"]);
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(gateway.live(), 0, "nothing goes on by itself");
    gateway.settle(paused.execution, CallNo(1), settlement, &ann()).await.unwrap();
    gateway.end_of(paused).await
}

#[test]
fn settled_as_done_the_script_gets_the_persons_value() {
    let (world, paused) = dead_in_the_handler();
    world.life(async |gateway| {
        let value = Verbatim::of(&json!({ "done": true })).unwrap();
        let end = settled(&gateway, &paused, Settlement::Done { value }).await;
        assert_eq!(end.value, Some(json!({ "made": { "done": true }, "after": "after" })), "{:?}", end.error);
        assert_eq!(world.ledger.effects().len(), 1);
    });
}

#[test]
fn settled_as_failed_the_script_gets_an_error_it_can_catch() {
    let (world, paused) = dead_in_the_handler();
    world.life(async |gateway| {
        let end = settled(&gateway, &paused, Settlement::Failed { message: "it never arrived".into() }).await;
        assert_eq!(end.value, Some(json!({ "made": { "code": "settled_as_failed" }, "after": "after" })));
    });
}

#[test]
fn settled_as_retry_it_runs_once_more_and_the_script_goes_on() {
    let (world, paused) = dead_in_the_handler();
    world.life(async |gateway| {
        let end = settled(&gateway, &paused, Settlement::Retry).await;
        assert_eq!(end.value, Some(json!({ "made": { "done": true }, "after": "after" })));
        assert_eq!(
            world.ledger.effects().len(),
            2,
            "once before the crash, once more because a person said so"
        );
    });
}

#[test]
fn a_script_in_doubt_starts_nothing_else_although_it_is_approved() {
    let world = world(5);
    world.ledger.crash_at(CrashAt::AfterEffect(0));
    let source = r#"
        const [a, b] = await Promise.all([
            tools.lab.destroy_each({ what: "a" }), tools.lab.destroy_each({ what: "b" }),
        ]);
        return [a.done, b.done];"#;
    let paused = world.life(async |gateway| {
        let paused = gateway.runs(source).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        let open = by_call(gateway.open().await);
        let target = countersign_kernel::Target::Elicitation(open[0].elicitation.id);
        gateway.decide(countersign_testkit::world::says(ann(), target, yes())).await.unwrap();
        world.ledger.crashed().await;
        paused
    });
    world.life(async |gateway| {
        gateway.ann_says(&paused, yes()).await.unwrap();
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(world.ledger.effects().len(), 1, "approved, but its script is in doubt");
        let value = Verbatim::of(&json!({ "done": true })).unwrap();
        gateway.settle(paused.execution, CallNo(0), Settlement::Done { value }, &ann()).await.unwrap();
        assert_eq!(gateway.end_of(&paused).await.value, Some(json!([true, true])));
        assert_eq!(world.ledger.effects().len(), 2);
    });
}

/// A process that dies while the end of a script waits for a handler nobody awaited.
fn dead_at_the_end(source: &str) -> (World, ExecutionResult) {
    let world = world(5);
    world.ledger.crash_at(CrashAt::AfterEffect(0));
    let paused = world.life(async |gateway| {
        let paused = gateway.runs(source).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        for row in gateway.open().await {
            let target = countersign_kernel::Target::Elicitation(row.elicitation.id);
            gateway.decide(countersign_testkit::world::says(ann(), target, yes())).await.unwrap();
        }
        world.ledger.crashed().await;
        paused
    });
    (world, paused)
}

#[test]
fn a_retry_that_a_person_wants_happens_also_when_the_script_has_ended_without_it() {
    let source = "tools.lab.destroy_each({ what: 'x' }).catch(() => {}); await sleep(1000); return 1;";
    let (world, paused) = dead_at_the_end(source);
    world.life(async |gateway| {
        gateway.settle(paused.execution, CallNo(0), Settlement::Retry, &ann()).await.unwrap();
        let end = gateway.end_of(&paused).await;
        assert_eq!((end.value, end.calls[0].status), (Some(json!(1)), "succeeded"), "{:?}", end.error);
        assert_eq!(world.ledger.effects().len(), 2, "the person's word counts");
    });
}

#[test]
fn an_idempotent_call_that_may_have_acted_is_brought_to_its_end_and_not_called_cancelled() {
    let source = "tools.lab.put({ what: 'x' }).catch(() => {}); await sleep(1000); return 1;";
    let (world, paused) = dead_at_the_end(source);
    world.life(async |gateway| {
        let end = gateway.end_of(&paused).await;
        assert_eq!((end.value, end.calls[0].status), (Some(json!(1)), "succeeded"), "{:?}", end.error);
    });
}

#[test]
fn what_a_destructive_call_came_to_is_durable_before_its_script_goes_on() {
    let world = world(5);
    let source = "await tools.lab.destroy_each({ what: 'x' }); await sleep(60000); return 1;";
    let paused = world.life(async |gateway| {
        let paused = gateway.runs(source).await;
        gateway.ann_says(&paused, yes()).await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        paused
    });
    world.life(async |gateway| {
        let now = gateway.result(paused.execution).await.unwrap().unwrap();
        assert_eq!((now.status, now.calls[0].status), (Status::Running, "succeeded"), "nothing is in doubt");
        assert_eq!(gateway.end_of(&paused).await.value, Some(json!(1)));
        assert_eq!(world.ledger.effects().len(), 1);
    });
}
