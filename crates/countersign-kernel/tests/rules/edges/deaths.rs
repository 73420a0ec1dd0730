//! A handler that brings the process down is not entered for ever.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use countersign_core::execution::Status;
use countersign_kernel::{CallRequest, ExecutionResult, Gateway, Patience};
use countersign_sdk::{Approved, Ctx, Plugin, Tool, ToolError};
use countersign_testkit::lab::{Done, Nothing, What};
use countersign_testkit::ledger::CrashAt;
use countersign_testkit::world::{InTests, World, request, yes};
use serde_json::json;
use tokio::sync::Notify;

use super::{A_WHILE, doubt, note, status};

/// Tools whose handlers bring the process down, so many times.
#[derive(Clone, Default)]
struct Deadly {
    deaths: usize,
    entered: Arc<AtomicUsize>,
    died: Arc<Notify>,
}

impl Deadly {
    fn dying(deaths: usize) -> Self {
        Self { deaths, ..Self::default() }
    }

    fn plugin(&self) -> Plugin {
        let (safe, put, steps) = (self.clone(), self.clone(), self.clone());
        Plugin::new("own", "Own", "Tools of this test.")
            .tool(Tool::new("own.safe").name("Safe").describe("Reads.").handler(move |_: Ctx, _: Nothing| {
                let deadly = safe.clone();
                async move { deadly.run().await }
            }))
            .tool(
                Tool::new("own.put")
                    .name("Put")
                    .describe("Puts.")
                    .idempotent()
                    .destructive(|i: &What| i.what.clone())
                    .handler(move |_: Ctx, _: Approved<What>| {
                        let deadly = put.clone();
                        async move { deadly.run().await }
                    }),
            )
            .tool(Tool::new("own.steps").name("Steps").describe("Gets one step further each time.").handler(
                move |ctx: Ctx, _: Nothing| {
                    let deadly = steps.clone();
                    async move {
                        for n in 0..=deadly.entered() {
                            ctx.step(&format!("step {n}"), async || Ok(n)).await?;
                        }
                        deadly.run().await
                    }
                },
            ))
    }

    async fn run(&self) -> Result<Done, ToolError> {
        if self.entered.fetch_add(1, Ordering::SeqCst) < self.deaths {
            self.died.notify_one();
            std::future::pending::<()>().await;
        }
        Ok(Done { done: true })
    }

    fn entered(&self) -> usize {
        self.entered.load(Ordering::SeqCst)
    }

    /// A process that takes up what the last one left, and dies of it.
    fn life(&self, world: &World) {
        world.life_with(
            |b| b.plugin(self.plugin()),
            async |_gateway| {
                let died = tokio::time::timeout(A_WHILE, self.died.notified()).await;
                assert!(died.is_ok(), "it is entered again");
            },
        );
    }

    /// A process that takes up what the last one left, and lives.
    fn last_life<T>(&self, world: &World, life: impl AsyncFnOnce(Gateway) -> T) -> T {
        world.life_with(
            |b| b.plugin(self.plugin()),
            async |gateway| {
                tokio::time::sleep(A_WHILE).await;
                life(gateway).await
            },
        )
    }
}

fn keyed(path: &str) -> CallRequest {
    CallRequest { key: Some("key-1".into()), ..request(path, json!({})) }
}

/// The first process dies of a call under a key, whose caller never hears of it.
fn dies_of(world: &World, deadly: &Deadly, path: &str) {
    world.life_with(
        |b| b.plugin(deadly.plugin()),
        async |gateway| {
            let call = keyed(path);
            tokio::spawn(async move { gateway.call(call).await });
            deadly.died.notified().await;
        },
    );
}

#[test]
fn the_third_death_of_a_safe_call_under_a_key_fails_it_and_its_caller_is_told() {
    let (world, deadly) = (World::new(1), Deadly::dying(9));
    dies_of(&world, &deadly, "own.safe");
    deadly.life(&world);
    deadly.life(&world);
    deadly.last_life(&world, async |gateway| {
        assert_eq!(deadly.entered(), 3, "it is not entered a fourth time");
        let told = gateway.call(keyed("own.safe")).await.unwrap();
        assert_eq!(told.error.as_ref().unwrap().code, "crashed_repeatedly");
        let story = gateway.story(&told).await;
        let entries = story.iter().filter(|event| ["CallStarted", "CallReentered"].contains(event));
        assert_eq!(entries.count(), 3, "each entry is recorded: {story:?}");
    });
    assert_eq!(deadly.entered(), 3);
}

#[test]
fn the_third_death_of_a_safe_call_fails_it_also_without_a_key_once_its_caller_was_told_of_it() {
    let (world, deadly) = (World::new(1), Deadly::dying(9));
    let told = world.life_with(
        |b| b.plugin(deadly.plugin()),
        async |gateway| {
            let patience = Patience::AtMost(Duration::from_secs(1));
            gateway.call(CallRequest { patience, ..request("own.safe", json!({})) }).await.unwrap()
        },
    );
    deadly.died.notified_now();
    assert_eq!((told.status, deadly.entered()), (Status::Running, 1));
    deadly.life(&world);
    deadly.life(&world);
    deadly.last_life(&world, async |gateway| {
        let end = gateway.end_of(&told).await;
        assert_eq!(end.error.unwrap().code, "crashed_repeatedly");
    });
    assert_eq!(deadly.entered(), 3);
}

#[test]
fn two_deaths_are_forgiven() {
    let (world, deadly) = (World::new(1), Deadly::dying(2));
    dies_of(&world, &deadly, "own.safe");
    deadly.life(&world);
    deadly.last_life(&world, async |gateway| {
        assert!(gateway.call(keyed("own.safe")).await.unwrap().success());
    });
    assert_eq!(deadly.entered(), 3);
}

#[test]
fn the_third_death_of_an_idempotent_destructive_call_leaves_it_in_doubt_with_its_reason() {
    let (world, deadly) = (World::new(1), Deadly::dying(9));
    let waiting = world.life_with(
        |b| b.plugin(deadly.plugin()),
        async |gateway| {
            let waiting = gateway.asks("own.put", note()).await;
            gateway.ann_says(&waiting, yes()).await.unwrap();
            deadly.died.notified().await;
            waiting
        },
    );
    deadly.life(&world);
    deadly.life(&world);
    deadly.last_life(&world, async |gateway| {
        assert_eq!(status(&gateway, &waiting).await, Status::InDoubt);
        let reason = doubt(&gateway, &waiting).await;
        assert!(reason.contains("died each time"), "{reason}");
    });
    assert_eq!(deadly.entered(), 3);
}

#[test]
fn a_handler_that_gets_one_step_further_each_time_is_entered_as_often_as_it_takes() {
    let (world, deadly) = (World::new(1), Deadly::dying(6));
    dies_of(&world, &deadly, "own.steps");
    for _ in 1..6 {
        deadly.life(&world);
    }
    deadly.last_life(&world, async |gateway| {
        let end = gateway.call(keyed("own.steps")).await.unwrap();
        assert!(end.success(), "{end:?}");
    });
    assert_eq!(deadly.entered(), 7);
}

/// Whatever a process did before it is killed at an effect, the next one enters an idempotent handler again, and says so.
#[test]
fn the_second_entry_of_an_idempotent_destructive_call_is_in_its_journal() {
    let world = World::new(1);
    world.ledger.crash_at(CrashAt::AfterEffect(0));
    let waiting: ExecutionResult = world.life(async |gateway| {
        let waiting = gateway.asks("lab.put", note()).await;
        gateway.ann_says(&waiting, yes()).await.unwrap();
        world.ledger.crashed().await;
        waiting
    });
    world.life(async |gateway| {
        assert!(gateway.end_of(&waiting).await.success());
        let story = gateway.story(&waiting).await;
        assert_eq!(story[3..], ["Decided", "CallStarted", "CallReentered", "CallSettled", "Finished"]);
    });
    assert_eq!(world.ledger.effects().len(), 2);
}

/// Takes a notice that nobody waited for.
trait NotifiedNow {
    fn notified_now(&self);
}

impl NotifiedNow for Notify {
    fn notified_now(&self) {
        let taken = futures_util::FutureExt::now_or_never(self.notified());
        assert!(taken.is_some());
    }
}
