//! R4: a start without an outcome is in doubt after a crash; only a person settles it, and nothing runs by itself.

use std::time::Duration;

use countersign_core::canonical::Verbatim;
use countersign_core::event::Settlement;
use countersign_core::execution::Status;
use countersign_core::ids::{CallNo, ExecutionId};
use countersign_kernel::{ExecutionResult, Gateway, SettleError};
use countersign_sdk::{Plugin, Tool};
use countersign_testkit::ledger::CrashAt;
use countersign_testkit::world::{InTests, World, admin, agent, ann, request, service, yes};
use serde_json::{Value, json};

const CALL: CallNo = CallNo(0);

fn done(value: &Value) -> Settlement {
    Settlement::Done { value: Verbatim::of(value).unwrap() }
}

fn failed() -> Settlement {
    Settlement::Failed { message: "It never arrived.".into() }
}

/// A process that dies in the middle of an approved handler.
fn dies_while_running(world: &World, path: &str, args: Value, at: CrashAt) -> ExecutionResult {
    world.ledger.crash_at(at);
    world.life(async |gateway| {
        let waiting = gateway.ask(path, args).await.unwrap();
        gateway.ann_says(&waiting, yes()).await.unwrap();
        world.ledger.crashed().await;
        waiting
    })
}

async fn status(gateway: &Gateway, of: &ExecutionResult) -> Status {
    gateway.result(of.execution).await.unwrap().unwrap().status
}

fn note() -> Value {
    json!({ "what": "note 7" })
}

#[test]
fn a_destructive_call_whose_process_died_is_in_doubt_at_once_and_stays_so_however_often_it_restarts() {
    for (at, effects) in [(CrashAt::BeforeEffect(0), 0), (CrashAt::AfterEffect(0), 1)] {
        let world = World::new(1);
        let waiting = dies_while_running(&world, "lab.destroy", note(), at);
        for _ in 0..3 {
            world.life(async |gateway| {
                assert_eq!(status(&gateway, &waiting).await, Status::InDoubt, "as soon as it is up");
                tokio::time::sleep(Duration::from_secs(48 * 60 * 60)).await;
                assert_eq!(status(&gateway, &waiting).await, Status::InDoubt);
                let told = gateway.end_of(&waiting).await;
                assert!(!told.success() && told.value.is_none(), "whoever waits is told");
            });
        }
        assert_eq!(world.ledger.effects().len(), effects);
    }
}

#[test]
fn settled_as_done_it_succeeds_with_the_value_the_person_gave() {
    let world = World::new(1);
    let waiting = dies_while_running(&world, "lab.destroy", note(), CrashAt::AfterEffect(0));
    world.life(async |gateway| {
        let value = json!({ "done": true });
        let end = gateway.settle(waiting.execution, CALL, done(&value), &ann()).await.unwrap();
        assert_eq!((end.status, end.value), (Status::Succeeded, Some(value)));
        let again = gateway.settle(waiting.execution, CALL, failed(), &ann()).await.unwrap_err();
        assert!(matches!(again, SettleError::NotInDoubt), "{again}");
        let entries = gateway.audit(0, 100).await.unwrap();
        let settled =
            entries.iter().flat_map(|r| r.parse().unwrap()).find(|e| e.what == "DoubtSettled").unwrap();
        assert_eq!((settled.by, settled.detail.as_str()), (Some(ann().principal.id), "settled as done"));
    });
    assert_eq!(world.ledger.effects().len(), 1);
}

#[test]
fn settled_as_failed_it_fails_with_what_the_person_said() {
    let world = World::new(1);
    let waiting = dies_while_running(&world, "lab.destroy", note(), CrashAt::BeforeEffect(0));
    world.life(async |gateway| {
        let end = gateway.settle(waiting.execution, CALL, failed(), &admin()).await.unwrap();
        let error = end.error.unwrap();
        assert_eq!((error.code.as_str(), error.message.as_str()), ("settled_as_failed", "It never arrived."));
    });
    assert_eq!(world.ledger.effects(), []);
}

#[test]
fn settled_as_retry_it_runs_once_more() {
    let world = World::new(1);
    let waiting = dies_while_running(&world, "lab.destroy", note(), CrashAt::BeforeEffect(0));
    world.life(async |gateway| {
        gateway.settle(waiting.execution, CALL, Settlement::Retry, &ann()).await.unwrap();
        assert!(gateway.end_of(&waiting).await.success());
    });
    assert_eq!(world.ledger.effects().len(), 1);
}

#[test]
fn a_retry_that_dies_is_in_doubt_again() {
    let world = World::new(1);
    let waiting = dies_while_running(&world, "lab.destroy", note(), CrashAt::BeforeEffect(0));
    world.ledger.crash_at(CrashAt::BeforeEffect(1));
    world.life(async |gateway| {
        gateway.settle(waiting.execution, CALL, Settlement::Retry, &ann()).await.unwrap();
        world.ledger.crashed().await;
    });
    world.life(async |gateway| assert_eq!(status(&gateway, &waiting).await, Status::InDoubt));
    assert_eq!(world.ledger.effects(), []);
}

#[test]
fn only_a_person_settles_and_only_what_is_in_doubt() {
    let world = World::new(1);
    let waiting = dies_while_running(&world, "lab.destroy", note(), CrashAt::BeforeEffect(0));
    world.life(async |gateway| {
        for by in [agent(), service()] {
            for settlement in [done(&json!(null)), failed(), Settlement::Retry] {
                let refused = gateway.settle(waiting.execution, CALL, settlement, &by).await.unwrap_err();
                assert!(matches!(refused, SettleError::NotAllowed), "{refused}");
            }
        }
        assert_eq!(status(&gateway, &waiting).await, Status::InDoubt);
        let unknown = gateway.settle(ExecutionId::from_random([7; 16]), CALL, failed(), &ann()).await;
        assert!(matches!(unknown, Err(SettleError::NotFound)));
        let no_such_call = gateway.settle(waiting.execution, CallNo(1), failed(), &ann()).await;
        assert!(matches!(no_such_call, Err(SettleError::NotFound)));
        let fine = gateway.call(request("lab.put", note())).await.unwrap();
        let not_in_doubt = gateway.settle(fine.execution, CALL, Settlement::Retry, &ann()).await;
        assert!(matches!(not_in_doubt, Err(SettleError::NotInDoubt)));
        assert_eq!(gateway.open().await.len(), 1, "and what waits goes on waiting");
    });
}

#[test]
fn a_tool_that_changed_is_not_retried() {
    let world = World::new(1);
    let slow = |version: &str| own(&world, version);
    let waiting = world.life_with(
        |b| b.plugin(slow("1")),
        async |gateway| {
            world.ledger.crash_at(CrashAt::BeforeEffect(0));
            let waiting = gateway.ask("own.act", note()).await.unwrap();
            gateway.ann_says(&waiting, yes()).await.unwrap();
            world.ledger.crashed().await;
            waiting
        },
    );
    world.life_with(
        |b| b.plugin(slow("2")),
        async |gateway| {
            assert_eq!(status(&gateway, &waiting).await, Status::InDoubt);
            let refused =
                gateway.settle(waiting.execution, CALL, Settlement::Retry, &ann()).await.unwrap_err();
            assert!(matches!(refused, SettleError::ToolChanged), "{refused}");
            assert!(gateway.settle(waiting.execution, CALL, failed(), &ann()).await.is_ok());
        },
    );
    assert_eq!(world.ledger.effects(), []);
}

/// A plugin whose code has a version.
fn own(world: &World, version: &str) -> Plugin {
    use countersign_sdk::{Approved, Ctx, ToolError};
    use countersign_testkit::lab::{Done, What};
    let ledger = world.ledger.clone();
    let tool =
        Tool::new("own.act").name("Act").describe("Acts.").destructive(|i: &What| i.what.clone()).handler(
            move |ctx: Ctx, input: Approved<What>| {
                let ledger = ledger.clone();
                async move {
                    countersign_testkit::lab::happen(&ctx, &ledger, &input.what).await;
                    Ok::<_, ToolError>(Done { done: true })
                }
            },
        );
    Plugin::new("own", "Own", "Tools of this test.").version(version).tool(tool)
}

#[test]
fn an_idempotent_tool_is_run_again_with_the_same_key() {
    let world = World::new(1);
    let waiting = dies_while_running(&world, "lab.put", note(), CrashAt::AfterEffect(0));
    world.life(async |gateway| {
        assert!(gateway.end_of(&waiting).await.success());
    });
    let effects = world.ledger.effects();
    assert_eq!(effects.len(), 2);
    assert_eq!(effects[0], effects[1], "the same effect, under the same idempotency key");
}

#[test]
fn a_handler_let_past_its_own_question_is_in_doubt_and_one_that_waits_at_it_is_not() {
    let world = World::new(1);
    let amount = json!({ "amount": 20_000 });
    let in_doubt = dies_while_running(&world, "lab.transfer", amount, CrashAt::AfterEffect(0));
    world.life(async |gateway| assert_eq!(status(&gateway, &in_doubt).await, Status::InDoubt));

    let waiting = world.life(async |gateway| gateway.ask("lab.confirm", json!({})).await.unwrap());
    world.life(async |gateway| {
        assert_eq!(status(&gateway, &waiting).await, Status::Waiting);
        gateway.ann_says(&waiting, yes()).await.unwrap();
        assert!(gateway.end_of(&waiting).await.success());
    });
    assert_eq!(world.ledger.effects().len(), 2);
}

#[test]
fn the_questions_of_a_call_in_doubt_are_withdrawn() {
    let world = World::new(1);
    let waiting = world.life(async |gateway| {
        let waiting = gateway.ask("lab.two", json!({})).await.unwrap();
        let first = gateway.open().await[0].elicitation.id;
        let yes =
            countersign_testkit::world::says(ann(), countersign_kernel::Target::Elicitation(first), yes());
        gateway.decide(yes).await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        waiting
    });
    world.life(async |gateway| {
        assert_eq!(status(&gateway, &waiting).await, Status::InDoubt, "it was let past a yes");
        assert_eq!(gateway.open().await, []);
    });
    assert_eq!(world.ledger.effects(), []);
}
