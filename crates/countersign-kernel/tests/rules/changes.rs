//! R14, A6, A7 and A9: what changed after it was approved, asked about or remembered is another thing.

use std::time::Duration;

use countersign_core::policy::PathPattern;
use countersign_kernel::{Answer, CallRequest, Caller, Coverage, DecideError, GatewayBuilder, NewGrant};
use countersign_sdk::{Approved, Ctx, Plugin, Principal, Remember, Tool, ToolError};
use countersign_testkit::lab::{Done, What, happen};
use countersign_testkit::world::{InTests, World, agent, ann, request, session, yes};
use serde_json::{Value, json};

fn note() -> Value {
    json!({ "what": "note 7" })
}

/// One version of a tool that may change behind people's backs.
#[derive(Clone, Copy)]
struct Edition {
    version: &'static str,
    name: &'static str,
    description: &'static str,
    input: fn(&World, countersign_sdk::ToolBuilder<countersign_sdk::Safe>) -> Tool,
}

const FIRST: Edition = Edition { version: "1", name: "Act", description: "Acts.", input: acting::<What> };

fn acting<I>(world: &World, tool: countersign_sdk::ToolBuilder<countersign_sdk::Safe>) -> Tool
where
    I: serde::de::DeserializeOwned + serde::Serialize + schemars::JsonSchema + Send + Sync + 'static,
{
    let ledger = world.ledger.clone();
    tool.destructive(|_: &I| "Act?".into()).handler(move |ctx: Ctx, input: Approved<I>| {
        let ledger = ledger.clone();
        async move {
            happen(&ctx, &ledger, &serde_json::to_string(&*input)?).await;
            Ok::<_, ToolError>(Done { done: true })
        }
    })
}

/// The same tool with one more field.
#[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
struct Wider {
    what: String,
    force: Option<bool>,
}

fn edition(world: &World, edition: Edition) -> impl FnOnce(GatewayBuilder) -> GatewayBuilder {
    let tool = Tool::new("own.act").name(edition.name).describe(edition.description);
    let tool = (edition.input)(world, tool);
    let plugin = Plugin::new("own", "Own", "Tools of this test.").version(edition.version).tool(tool);
    move |builder| builder.plugin(plugin)
}

fn changed_editions() -> [Edition; 8] {
    [
        Edition { version: "2", ..FIRST },
        Edition { name: "Act!", ..FIRST },
        Edition { description: "Acts, and sends a copy to the vendor.", ..FIRST },
        Edition { input: acting::<Wider>, ..FIRST },
        Edition { input: |world, tool| acting::<What>(world, tool.idempotent()), ..FIRST },
        Edition { input: |world, tool| acting::<What>(world, tool.open_world()), ..FIRST },
        Edition { input: |world, tool| acting::<What>(world, tool.service_account_allowed()), ..FIRST },
        Edition { input: |world, tool| acting::<What>(world, tool.remember(Remember::Session)), ..FIRST },
    ]
}

#[test]
fn a6_a_tool_that_changes_after_it_was_approved_does_not_start() {
    for changed in changed_editions() {
        let world = World::new(1);
        let waiting = world.life_up_to_the_start(edition(&world, FIRST), "own.act", note());
        world.life_with(edition(&world, changed), async |gateway| {
            let end = gateway.end_of(&waiting).await;
            assert_eq!(end.error.unwrap().code, "approval_void");
        });
        assert_eq!(world.ledger.effects(), []);
    }
}

#[test]
fn a6_an_unchanged_tool_starts_after_the_same_death() {
    let world = World::new(1);
    let waiting = world.life_up_to_the_start(edition(&world, FIRST), "own.act", note());
    assert_eq!(world.ledger.effects(), []);
    world
        .life_with(edition(&world, FIRST), async |gateway| assert!(gateway.end_of(&waiting).await.success()));
    assert_eq!(world.ledger.effects().len(), 1);
}

#[test]
fn a6_a_tool_that_is_not_registered_starts_nothing_and_voids_nothing() {
    let world = World::new(1);
    let open = world.life_with(edition(&world, FIRST), async |gateway| {
        gateway.asks("own.act", json!({ "what": "note 8" })).await
    });
    let approved = world.life_up_to_the_start(edition(&world, FIRST), "own.act", note());
    world.life(async |gateway| {
        tokio::time::sleep(Duration::from_secs(60)).await;
        let refused = gateway.ann_says(&open, yes()).await.unwrap_err();
        assert_eq!(refused.code(), "tool_not_found");
        assert_eq!(gateway.open().await.len(), 1, "the question stays for a process that has the tool");
    });
    assert_eq!(world.ledger.effects(), []);
    world.life_with(edition(&world, FIRST), async |gateway| {
        gateway.ann_says(&open, yes()).await.unwrap();
        assert!(gateway.end_of(&open).await.success());
        assert!(gateway.end_of(&approved).await.success());
    });
    assert_eq!(world.ledger.effects().len(), 2);
}

#[test]
fn a6_a_policy_that_changes_after_the_approval_means_no_start() {
    for (path, args) in [("lab.destroy", note()), ("lab.transfer", json!({ "amount": 20_000 }))] {
        for rule in [
            "effect = \"deny\"",
            "effect = \"ask\"\nremember = \"call\"",
            "effect = \"ask\"\nreason = \"New.\"",
        ] {
            let world = World::new(1);
            let waiting = world.life_up_to_the_start(|builder| builder, path, args.clone());
            let world = world.under(&format!("[[rule]]\nmatch = \"{path}\"\n{rule}\n"));
            world.life(async |gateway| {
                let end = gateway.end_of(&waiting).await;
                assert!(!end.success(), "{path}, {rule}");
            });
            assert_eq!(world.ledger.effects(), [], "{path}, {rule}");
        }
    }
}

#[test]
fn a6_an_approval_is_good_for_no_other_session_requester_or_arguments() {
    let world = World::new(1);
    world.life(async |gateway| {
        let this_once = Answer::Approve { covers: Some(Coverage::Call), data: None };
        let waiting = gateway.asks("lab.destroy", note()).await;
        gateway.ann_says(&waiting, this_once).await.unwrap();
        let other: Caller = Principal::agent("agent-2").unwrap().into();
        let theirs = gateway.open_session(&other, "test", None).await.unwrap();
        let elsewhere = gateway.open_session(&agent(), "test", None).await.unwrap();
        for call in [
            CallRequest { caller: other, session: theirs, ..request("lab.destroy", note()) },
            CallRequest { session: elsewhere, ..request("lab.destroy", note()) },
            request("lab.destroy", json!({ "what": "note 8" })),
            request("lab.destroy", note()),
        ] {
            assert!(gateway.call(call).await.unwrap().paused().is_some());
        }
        gateway.end_of(&waiting).await;
    });
    assert_eq!(world.ledger.effects().len(), 1);
}

#[test]
fn a7_a_changed_tool_voids_its_pending_questions() {
    for changed in changed_editions() {
        let world = World::new(1);
        let waiting =
            world.life_with(edition(&world, FIRST), async |gateway| gateway.asks("own.act", note()).await);
        world.life_with(edition(&world, changed), async |gateway| {
            assert_eq!(gateway.open().await, [], "the question is withdrawn");
            let refused = gateway.ann_says(&waiting, yes()).await.unwrap_err();
            assert!(matches!(refused, DecideError::Decided(_)), "{refused}");
            let end = gateway.end_of(&waiting).await.error.unwrap();
            assert_eq!(end.message, "Withdrawn: the tool changed. The call did not run.");
        });
        assert_eq!(world.ledger.effects(), []);
    }
}

#[test]
fn a7_a_persons_no_stands_where_the_tool_is_gone() {
    let world = World::new(1);
    let waiting =
        world.life_with(edition(&world, FIRST), async |gateway| gateway.asks("own.act", note()).await);
    world.life(async |gateway| {
        gateway.ann_says(&waiting, Answer::Deny).await.unwrap();
        assert_eq!(gateway.end_of(&waiting).await.error.unwrap().code, "denied");
    });
    assert_eq!(world.ledger.effects(), []);
}

#[test]
fn a7_a_changed_tool_voids_its_grants() {
    for changed in changed_editions() {
        let world = World::new(1);
        world.life_with(edition(&world, FIRST), async |gateway| {
            assert!(gateway.approved("own.act", note()).await.success());
            assert!(gateway.ask("own.act", note()).await.unwrap().success(), "remembered");
        });
        world.life_with(edition(&world, changed), async |gateway| {
            gateway.asks("own.act", note()).await;
        });
        assert_eq!(world.ledger.effects().len(), 2);
    }
}

#[test]
fn a7_a_question_from_inside_a_handler_is_voided_by_a_changed_tool_too() {
    let inside = |world: &World, version: &'static str| {
        let ledger = world.ledger.clone();
        let tool =
            Tool::new("own.act").name("Act").describe("Acts.").handler(move |ctx: Ctx, input: What| {
                let ledger = ledger.clone();
                async move {
                    if ctx.confirm("Act?").await? {
                        happen(&ctx, &ledger, &input.what).await;
                    }
                    Ok::<_, ToolError>(Done { done: true })
                }
            });
        Plugin::new("own", "Own", "Tools of this test.").version(version).tool(tool)
    };
    let world = World::new(1);
    let open = world
        .life_with(|b| b.plugin(inside(&world, "1")), async |gateway| gateway.asks("own.act", note()).await);
    let decided = world.life_up_to_the_start(|b| b.plugin(inside(&world, "1")), "own.act", note());
    world.life_with(
        |b| b.plugin(inside(&world, "2")),
        async |gateway| {
            assert_eq!(gateway.open().await, [], "the question is withdrawn");
            assert!(matches!(gateway.ann_says(&open, yes()).await, Err(DecideError::Decided(_))));
            assert_eq!(gateway.end_of(&open).await.error.unwrap().code, "approval_void");
            assert_eq!(gateway.end_of(&decided).await.error.unwrap().code, "approval_void");
        },
    );
    assert_eq!(world.ledger.effects(), []);
}

#[test]
fn a9_a_pattern_does_not_cover_a_tool_that_appears_later() {
    let world = World::new(1);
    world.life(async |gateway| {
        let everything = PathPattern::parse("**").unwrap();
        gateway.give_grant(&ann(), NewGrant::new(session(), everything.clone())).await.unwrap();
    });
    world.life_with(edition(&world, FIRST), async |gateway| {
        assert!(gateway.ask("lab.destroy", note()).await.unwrap().success());
        gateway.asks("own.act", note()).await;
    });
}
