//! Scripts at the edges: handlers that bring the process down, and a cancel that was answered before it did.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use countersign_core::canonical::Verbatim;
use countersign_core::event::Settlement;
use countersign_core::execution::Status;
use countersign_core::ids::CallNo;
use countersign_kernel::{CancelError, ExecutionResult, Gateway, Patience, RunRequest};
use countersign_sdk::{Ctx, Plugin, Tool, ToolError};
use countersign_testkit::lab::{Done, Nothing};
use countersign_testkit::ledger::CrashAt;
use countersign_testkit::world::{InTests as _, World, agent, ann, script, yes};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::fixture::world;

const A_WHILE: Duration = Duration::from_secs(60);

/// A safe tool whose handler brings the process down each time.
#[derive(Clone, Default)]
struct Deadly {
    entered: Arc<AtomicUsize>,
    died: Arc<Notify>,
}

impl Deadly {
    fn plugin(&self) -> Plugin {
        let deadly = self.clone();
        let tool =
            Tool::new("own.deadly").name("Deadly").describe("Dies.").handler(move |_: Ctx, _: Nothing| {
                let deadly = deadly.clone();
                async move {
                    deadly.entered.fetch_add(1, Ordering::SeqCst);
                    deadly.died.notify_one();
                    std::future::pending::<()>().await;
                    Ok::<_, ToolError>(Done { done: true })
                }
            });
        Plugin::new("own", "Own", "Tools of this test.").tool(tool)
    }

    fn entered(&self) -> usize {
        self.entered.load(Ordering::SeqCst)
    }

    /// Processes that take the script up and die of it, one after the other, until one lives; what that one tells.
    fn until_one_lives(&self, world: &World, of: &ExecutionResult) -> ExecutionResult {
        for _ in 0..10 {
            let told = world.life_with(
                |b| b.plugin(self.plugin()),
                async |gateway| {
                    let died = tokio::time::timeout(A_WHILE, self.died.notified()).await.is_ok();
                    if died { None } else { Some(gateway.end_of(of).await) }
                },
            );
            if let Some(told) = told {
                return told;
            }
        }
        panic!("every process died of it: {} times", self.entered());
    }
}

const SOURCE: &str = r#"
    const dead = await tools.own.deadly({}).catch((e) => e.code);
    const after = await tools.lab.read({ what: "after" });
    return { dead, after: after.what };
"#;

fn survived() -> Option<Value> {
    Some(json!({ "dead": "crashed_repeatedly", "after": "after" }))
}

#[test]
fn a_script_goes_on_after_the_third_death_of_a_call_that_its_caller_was_told_of() {
    let (world, deadly) = (world(1), Deadly::default());
    let told = world.life_with(
        |b| b.plugin(deadly.plugin()),
        async |gateway| {
            let patience = Patience::AtMost(Duration::from_secs(1));
            let told = gateway.run(RunRequest { patience, ..script(SOURCE) }).await.unwrap();
            deadly.died.notified().await;
            told
        },
    );
    let end = deadly.until_one_lives(&world, &told);
    assert_eq!((end.value, deadly.entered()), (survived(), 3), "{:?}", end.error);
}

/// Nothing of a first entry into a safe handler is on the medium when its process dies: it cannot be counted. From the first
/// process on that takes the script up each entry is recorded before it happens.
#[test]
fn a_script_goes_on_although_the_start_of_the_call_that_killed_its_process_was_not_written() {
    for key in [None, Some("key-1".to_owned())] {
        let (world, deadly) = (world(1), Deadly::default());
        let source = format!("await tools.lab.destroy_each({{ what: 'x' }});\n{SOURCE}");
        let paused = world.life_with(
            |b| b.plugin(deadly.plugin()),
            async |gateway| {
                let paused = gateway.run(RunRequest { key, ..script(&source) }).await.unwrap();
                gateway.ann_says(&paused, yes()).await.unwrap();
                deadly.died.notified().await;
                paused
            },
        );
        let end = deadly.until_one_lives(&world, &paused);
        assert_eq!(end.value, survived(), "{:?}", end.error);
        assert!(deadly.entered() <= 4, "{}", deadly.entered());
        assert_eq!(world.ledger.effects().len(), 1);
    }
}

/// A script whose call acts when somebody wants it stopped; the process dies after the answer.
fn stopping(tool: &str) -> (World, ExecutionResult) {
    let world = world(5);
    world.ledger.crash_at(CrashAt::AfterEffect(0));
    let source = format!(
        "await tools.lab.{tool}({{ what: 'x' }}); await tools.lab.destroy_each({{ what: 'y' }}); return 1;"
    );
    let paused = world.life(async |gateway| {
        let paused = gateway.runs(&source).await;
        gateway.ann_says(&paused, yes()).await.unwrap();
        world.ledger.crashed().await;
        let answered = gateway.cancel(paused.execution, &agent(), "no longer wanted").await;
        assert!(matches!(answered, Err(CancelError::Stopping)), "{answered:?}");
        paused
    });
    (world, paused)
}

async fn is_cancelled(gateway: &Gateway, world: &World, paused: &ExecutionResult, effects: usize) {
    let end = tokio::time::timeout(A_WHILE, gateway.end_of(paused)).await.unwrap();
    assert_eq!(end.status, Status::Cancelled, "{end:?}");
    assert_eq!(end.calls.len(), 1, "nothing more was asked for");
    assert_eq!(gateway.open().await, []);
    assert_eq!(world.ledger.effects().len(), effects);
}

#[test]
fn a_script_that_was_told_to_stop_stops_in_the_next_process_once_its_call_has_ended() {
    let (world, paused) = stopping("put");
    world.life(async |gateway| is_cancelled(&gateway, &world, &paused, 2).await);
}

#[test]
fn a_script_that_was_told_to_stop_stops_when_its_call_in_doubt_is_settled() {
    for retried in [false, true] {
        let (world, paused) = stopping("destroy_each");
        world.life(async |gateway| {
            assert_eq!(gateway.end_of(&paused).await.status, Status::InDoubt);
            let done = Settlement::Done { value: Verbatim::of(&json!({ "done": true })).unwrap() };
            let settlement = if retried { Settlement::Retry } else { done };
            gateway.settle(paused.execution, CallNo(0), settlement, &ann()).await.unwrap();
            is_cancelled(&gateway, &world, &paused, 1 + usize::from(retried)).await;
        });
    }
}

#[test]
fn a_cancel_that_could_not_be_written_is_no_promise() {
    use countersign_testkit::faulty_store::{Fault, Faults};
    let world = world(5);
    let faults = Faults::none();
    let source = "await tools.lab.slow({ ms: 5000 }); return 1;";
    world.life_on(
        &faults,
        |b| b,
        async |gateway| {
            let paused = gateway.runs(source).await;
            gateway.ann_says(&paused, yes()).await.unwrap();
            tokio::time::sleep(Duration::from_secs(1)).await;
            drop(faults.clone().and_at(faults.commits() + 1, Fault::Refuse));
            let refused = gateway.cancel(paused.execution, &agent(), "no longer wanted").await;
            assert!(matches!(refused, Err(CancelError::Gateway(_))), "{refused:?}");
            let end = gateway.end_of(&paused).await;
            assert_eq!(end.value, Some(json!(1)), "nobody was told that it stops: {end:?}");
        },
    );
    assert_eq!(world.ledger.effects().len(), 1);
}
