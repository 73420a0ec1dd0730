//! A handler that panics: nobody knows what a destructive one did.

use std::sync::Arc;

use countersign_core::event::Settlement;
use countersign_core::execution::Status;
use countersign_sdk::{Approved, Ctx, Plugin, Tool, ToolError};
use countersign_testkit::lab::{Done, Nothing, What, happen};
use countersign_testkit::world::{InTests, World, ann, yes};
use serde_json::json;

use super::{CALL, doubt, note};

fn plugin(world: &World) -> Plugin {
    let (put, asking) = (world.ledger.clone(), world.ledger.clone());
    let panic = || std::panic::resume_unwind(Box::new("a handler's bug"));
    Plugin::new("own", "Own", "Tools of this test.")
        .tool(Tool::new("own.safe").name("Safe").describe("Panics.").handler(
            move |_: Ctx, _: Nothing| async move {
                panic();
                Ok::<_, ToolError>(Done { done: true })
            },
        ))
        .tool(
            Tool::new("own.put")
                .name("Put")
                .describe("Acts, and panics.")
                .idempotent()
                .destructive(|i: &What| i.what.clone())
                .handler(move |ctx: Ctx, _: Approved<What>| {
                    let ledger = put.clone();
                    async move {
                        happen(&ctx, &ledger, "put").await;
                        panic();
                        Ok::<_, ToolError>(Done { done: true })
                    }
                }),
        )
        .tool(Tool::new("own.asking").name("Asking").describe("Asks, acts and panics.").handler(
            move |ctx: Ctx, _: Nothing| {
                let ledger = asking.clone();
                async move {
                    if ctx.confirm("Sure?").await? {
                        happen(&ctx, &ledger, "asked").await;
                        panic();
                    }
                    Ok::<_, ToolError>(Done { done: true })
                }
            },
        ))
}

#[tokio::test(start_paused = true)]
async fn a_destructive_handler_that_panics_is_in_doubt_and_one_that_changes_nothing_fails() {
    for (path, args, in_doubt) in [
        ("lab.fail", json!({ "what": "panic" }), true),
        ("own.put", note(), true),
        ("own.asking", json!({}), true),
        ("own.safe", json!({}), false),
    ] {
        let world = World::new(1);
        let builder = world.builder(Arc::new(world.disk.clone())).plugin(plugin(&world));
        let gateway = world.start_with(builder).await;
        let end = gateway.approved(path, args).await;
        if !in_doubt {
            assert_eq!((end.status, end.error.unwrap().code.as_str()), (Status::Failed, "handler_panicked"));
            continue;
        }
        assert_eq!(end.status, Status::InDoubt, "{path}");
        assert!(doubt(&gateway, &end).await.contains("crashed"), "{path}");
        let failed = Settlement::Failed { message: "It never arrived.".into() };
        assert_eq!(gateway.settle(end.execution, CALL, failed, &ann()).await.unwrap().status, Status::Failed);
        assert!(world.ledger.effects().len() <= 1, "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_retry_of_a_handler_that_panicked_is_a_start_like_any_other() {
    let world = World::new(1);
    let gateway = world.start().await;
    let waiting = gateway.asks("lab.fail", json!({ "what": "panic" })).await;
    gateway.ann_says(&waiting, yes()).await.unwrap();
    assert_eq!(gateway.end_of(&waiting).await.status, Status::InDoubt);
    gateway.settle(waiting.execution, CALL, Settlement::Retry, &ann()).await.unwrap();
    assert_eq!(gateway.end_of(&waiting).await.status, Status::InDoubt, "it panicked again");
}
