//! Calls in doubt, and how a person settles them.

use countersign_agent::{Agent, AgentTool, CallKey, DurableSession, ToolCtx, Verdict};
use countersign_core::canonical::Verbatim;
use countersign_core::event::Settlement;
use countersign_sdk::ToolError;
use serde_json::json;

use crate::disk::{Disk, Fate, Rehearsed};
use crate::shop::{Delete, Shop, only_result};

fn model() -> Rehearsed {
    Rehearsed::new(vec![vec![("a", "delete_records", json!({ "table": "logs" }))]])
}

fn agent(shop: &Shop, model: &Rehearsed, tool: AgentTool) -> Agent {
    let yes = shop.somebody(Verdict::Approve);
    Agent::builder().model(model.clone()).tool(tool).confirmation(yes).build().unwrap()
}

/// A disk on which the tool was started and no result is recorded: it ran, and the process died.
async fn in_doubt(shop: &Shop, model: &Rehearsed, tool: AgentTool) -> Disk {
    let disk = Disk::of_a_run(agent(shop, model, tool), 4, Fate::StopBefore).await;
    assert_eq!(disk.names().last().unwrap(), "callStarted");
    disk
}

#[tokio::test]
async fn a_destructive_call_without_a_recorded_outcome_stops_the_run_with_an_error_that_names_it() {
    let (shop, model) = (Shop::default(), model());
    let disk = in_doubt(&shop, &model, shop.delete()).await;
    let run =
        async || agent(&shop, &model, shop.delete()).run_durable(disk.session().await).await.unwrap_err();
    assert_eq!(run().await.code(), "in_doubt");
    let error = run().await;
    insta::assert_snapshot!(error, @"call t1.c1 of delete_records was started and its outcome is unknown; look whether it took effect, then settle it");
    let doubts = disk.session().await.in_doubt().await;
    assert_eq!(doubts.len(), 1);
    assert_eq!(doubts[0].input, json!({ "table": "logs", "rows": "all" }), "what it really ran with");
    assert_eq!((shop.ran().len(), model.asked().len()), (1, 1));
}

async fn settled(settlement: Settlement) -> (Shop, (String, bool)) {
    let (shop, model) = (Shop::default(), model());
    let disk = in_doubt(&shop, &model, shop.delete()).await;
    let session = disk.session().await;
    let call = session.in_doubt().await[0].call;
    session.settle(call, settlement, "ann").await.unwrap();
    // What was settled is on the disk, too.
    let reply = agent(&shop, &model, shop.delete()).run_durable(disk.session().await).await.unwrap();
    assert!(disk.lines().iter().any(|line| line.contains("\"by\":\"ann\"")));
    (shop, only_result(&reply))
}

#[tokio::test]
async fn settled_as_done_the_model_is_told_the_value_and_nothing_runs_again() {
    let (shop, told) =
        settled(Settlement::Done { value: Verbatim::of(&json!({ "rows": 7 })).unwrap() }).await;
    assert_eq!((told, shop.ran().len()), (("{\"rows\":7}".into(), false), 1));
}

#[tokio::test]
async fn settled_as_failed_the_model_is_told_so_and_nothing_runs_again() {
    let (shop, told) = settled(Settlement::Failed { message: "it never got there".into() }).await;
    assert_eq!((told, shop.ran().len()), (("Tool failed: it never got there".into(), true), 1));
}

#[tokio::test]
async fn settled_as_retry_it_runs_once_more_with_the_same_input_and_nobody_is_asked_again() {
    let (shop, told) = settled(Settlement::Retry).await;
    assert_eq!(told, ("deleted".into(), false));
    assert_eq!(shop.ran(), ["delete_records logs all"; 2]);
    assert_eq!(shop.asked().len(), 1);
}

#[tokio::test]
async fn a_retry_that_dies_too_is_in_doubt_again() {
    let (shop, model) = (Shop::default(), model());
    let disk = in_doubt(&shop, &model, shop.delete()).await;
    let session = disk.session().await;
    session.settle(session.in_doubt().await[0].call, Settlement::Retry, "ann").await.unwrap();
    disk.plan(2, Fate::StopBefore);
    let again = agent(&shop, &model, shop.delete());
    tokio::select! {
        _ = again.run_durable(session) => panic!("it was to be stopped"),
        () = disk.until_stopped() => {}
    }
    disk.heal();
    assert_eq!((disk.session().await.in_doubt().await.len(), shop.ran().len()), (1, 2));
}

#[tokio::test]
async fn an_idempotent_tool_is_never_in_doubt_and_runs_again_with_the_same_key() {
    let (shop, model) = (Shop::default(), model());
    let tool = || {
        let shop = shop.clone();
        AgentTool::new("delete_records").describe("Idempotent.").destructive().idempotent().handler(
            move |ctx: ToolCtx, _: Delete| {
                shop.note(ctx.idempotency_key().unwrap());
                async { Ok::<_, ToolError>("deleted") }
            },
        )
    };
    let disk = in_doubt(&shop, &model, tool()).await;
    let reply = agent(&shop, &model, tool()).run_durable(disk.session().await).await.unwrap();
    assert_eq!((reply.text.as_str(), shop.asked().len()), ("Done.", 1));
    let keys = shop.ran();
    assert_eq!((keys.len(), &keys[0]), (2, &keys[1]), "the same key");
    assert!(keys[0].ends_with(":t1.c1"), "{keys:?}");
}

#[tokio::test]
async fn only_what_is_in_doubt_can_be_settled() {
    let (shop, model) = (Shop::default(), model());
    let disk = in_doubt(&shop, &model, shop.delete()).await;
    let session: DurableSession = disk.session().await;
    let lines = disk.lines().len();
    for call in [CallKey { turn: 1, call: 2 }, CallKey { turn: 2, call: 1 }, CallKey { turn: 1, call: 0 }] {
        let error = session.settle(call, Settlement::Retry, "ann").await.unwrap_err();
        assert_eq!(error.code(), "journal_conflict");
    }
    let call = session.in_doubt().await[0].call;
    session.settle(call, Settlement::Failed { message: "no".into() }, "ann").await.unwrap();
    assert_eq!(session.settle(call, Settlement::Retry, "ann").await.unwrap_err().code(), "journal_conflict");
    assert_eq!(disk.lines().len(), lines + 1, "what does not fit is not written");
}
