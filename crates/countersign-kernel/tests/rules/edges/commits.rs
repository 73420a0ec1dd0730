//! What one call costs the store, and what its judges see: one record for a read, three commits for a destructive call, and one
//! value from validation to handler.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use countersign_kernel::{HookCall, HookError, HookVerdict, PreHook};
use countersign_sdk::{Ctx, Plugin, Tool, ToolError};
use countersign_testkit::faulty_store::Faults;
use countersign_testkit::world::{InTests, World, yes};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::note;

/// Longer than a queued record waits for its commit.
const UNTIL_WRITTEN: Duration = Duration::from_secs(1);

#[test]
fn a_safe_call_is_one_commit() {
    let faults = Faults::none();
    World::new(1).life_on(
        &faults,
        |builder| builder,
        async |gateway| {
            let before = faults.commits();
            assert!(gateway.ask("lab.read", note()).await.unwrap().success());
            tokio::time::sleep(UNTIL_WRITTEN).await;
            assert_eq!(faults.commits() - before, 1);
        },
    );
}

#[tokio::test(start_paused = true)]
async fn a_safe_call_that_runs_is_known_to_its_caller_alone() {
    let world = World::new(1);
    let gateway = super::bounds::start(&world).await;
    let caller = gateway.clone();
    let calling = tokio::spawn(async move { caller.ask("own.long", note()).await });
    tokio::time::sleep(UNTIL_WRITTEN).await;
    assert_eq!(gateway.live(), 0);
    assert!(calling.await.unwrap().unwrap().success());
}

#[test]
fn a_decision_and_the_start_that_it_allows_are_one_commit_and_one_record() {
    let faults = Faults::none();
    World::new(1).life_on(
        &faults,
        |builder| builder,
        async |gateway| {
            let before = faults.commits();
            let waiting = gateway.asks("lab.destroy_each", note()).await;
            assert_eq!(faults.commits() - before, 1, "accepted, issued and asked");
            gateway.ann_says(&waiting, yes()).await.unwrap();
            assert!(gateway.end_of(&waiting).await.success());
            assert_eq!(faults.commits() - before, 3, "decided and started, then settled and finished");
            let records = gateway.audit(0, 100).await.unwrap();
            let of_the_call = records.iter().rev().take(3).rev();
            let transitions: Vec<Vec<String>> = of_the_call
                .map(|record| {
                    record.parse().unwrap().into_iter().map(|entry| entry.what.into_owned()).collect()
                })
                .collect();
            let expected = [
                &["Started", "CallIssued", "Asked"][..],
                &["Decided", "CallStarted"],
                &["CallSettled", "Finished"],
            ];
            assert_eq!(transitions, expected);
        },
    );
}

#[derive(Deserialize, Serialize, JsonSchema)]
struct Count {
    n: u32,
}

/// Keeps what it saw.
struct Watches(Arc<Mutex<Vec<Value>>>);

#[async_trait]
impl PreHook for Watches {
    async fn before(&self, call: HookCall<'_>) -> Result<HookVerdict, HookError> {
        self.0.lock().unwrap().push(call.args.clone());
        Ok(HookVerdict::Continue)
    }
}

#[test]
fn hook_policy_record_and_handler_see_the_value_that_validation_saw() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let rules = "[[rule]]\nmatch = \"own.count\"\nwhen = 'args.n == 7 && type(args.n) == int'\neffect = \"allow\"\n\
                 [[rule]]\nmatch = \"own.*\"\neffect = \"deny\"\n";
    let world = World::new(1).under(rules);
    let counts = Tool::new("own.count")
        .name("Count")
        .describe("Gives its number back.")
        .handler(async |_: Ctx, count: Count| Ok::<_, ToolError>(count));
    let plugin = Plugin::new("own", "Own", "Tools of this test.").tool(counts);
    world.life_with(
        |builder| builder.plugin(plugin).pre_hook(Watches(Arc::clone(&seen))),
        async |gateway| {
            let ended = gateway.ask("own.count", json!({ "n": 7.0 })).await.unwrap();
            assert_eq!(ended.value, Some(json!({ "n": 7 })), "{ended:?}");
            assert_eq!(*seen.lock().unwrap(), [json!({ "n": 7 })]);
        },
    );
}
