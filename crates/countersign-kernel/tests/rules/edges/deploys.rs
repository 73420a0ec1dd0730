//! A key is looked up before anything else is asked of a call: a retry after a deploy gets what is recorded.

use async_trait::async_trait;
use countersign_core::execution::Status;
use countersign_kernel::{CallError, CallRequest, GatewayBuilder, HookCall, HookError, HookVerdict, PreHook};
use countersign_sdk::{Ctx, Plugin, Tool, ToolError};
use countersign_testkit::lab::{Amount, Done, What};
use countersign_testkit::world::{InTests, World, request, yes};
use serde_json::json;

use super::note;

struct DeniesAll;

#[async_trait]
impl PreHook for DeniesAll {
    async fn before(&self, _: HookCall<'_>) -> Result<HookVerdict, HookError> {
        Ok(HookVerdict::Deny { reason: "not today".into() })
    }
}

fn keyed(path: &str, what: &str) -> CallRequest {
    CallRequest { key: Some("key-1".into()), ..request(path, json!({ "what": what })) }
}

fn first(builder: GatewayBuilder) -> GatewayBuilder {
    let tool = Tool::new("own.act")
        .name("Act")
        .describe("Acts.")
        .handler(async |_: Ctx, input: What| -> Result<What, ToolError> { Ok(input) });
    builder.plugin(Plugin::new("own", "Own", "Tools of this test.").tool(tool))
}

/// The same path takes something else now, and a hook denies everything.
fn deployed(builder: GatewayBuilder) -> GatewayBuilder {
    let tool = Tool::new("own.act")
        .name("Act")
        .describe("Acts.")
        .handler(async |_: Ctx, _: Amount| -> Result<Done, ToolError> { Ok(Done { done: false }) });
    builder.plugin(Plugin::new("own", "Own", "Tools of this test.").tool(tool)).pre_hook(DeniesAll)
}

#[test]
fn a_retry_after_a_deploy_gets_its_recorded_outcome() {
    let world = World::new(1);
    let before =
        world.life_with(first, async |gateway| gateway.call(keyed("own.act", "note 7")).await.unwrap());
    assert_eq!(before.value, Some(note()));
    let deny = "[[rule]]\nmatch = \"own.act\"\neffect = \"deny\"\n";
    for build in [first, deployed, |builder| builder] {
        world.clone().under(deny).life_with(build, async |gateway| {
            let again = gateway.call(keyed("own.act", "note 7")).await.unwrap();
            assert_eq!((again.execution, again.value), (before.execution, before.value.clone()));
        });
    }
}

#[test]
fn a_key_still_names_one_request_after_a_deploy() {
    let world = World::new(1);
    let before =
        world.life_with(first, async |gateway| gateway.call(keyed("own.act", "note 7")).await.unwrap());
    world.life_with(deployed, async |gateway| {
        let other = gateway.call(keyed("own.act", "note 8")).await.unwrap_err();
        assert!(matches!(other, CallError::KeyMismatch(id) if id == before.execution), "{other}");
    });
}

#[test]
fn a_call_that_waits_is_found_by_its_key_although_a_hook_would_deny_it_now() {
    let world = World::new(1);
    let waiting = world.life(async |gateway| gateway.call(keyed("lab.destroy", "x")).await.unwrap());
    world.life_with(
        |b| b.pre_hook(DeniesAll),
        async |gateway| {
            let again = gateway.call(keyed("lab.destroy", "x")).await.unwrap();
            assert_eq!((again.execution, again.status), (waiting.execution, Status::Waiting));
            gateway.ann_says(&again, yes()).await.unwrap();
            assert!(gateway.end_of(&again).await.success());
        },
    );
    assert_eq!(world.ledger.effects().len(), 1);
}
