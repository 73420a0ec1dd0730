//! A durable chat taken up by a program that is not what it was: another tool of the same name, somebody to ask, nobody to ask.

use countersign_agent::{
    Agent, AgentBuilder, AgentError, AgentTool, ConfirmationError, DurableSession, ToolCtx, Verdict,
    request_confirmation,
};
use countersign_core::event::Settlement;
use countersign_sdk::ToolError;
use serde_json::json;

use crate::disk::{Disk, Fate, Rehearsed};
use crate::shop::{Delete, Shop, only_result, until};

fn model() -> Rehearsed {
    Rehearsed::new(vec![vec![("a", "delete_records", json!({ "table": "logs" }))]])
}

fn with(model: &Rehearsed) -> AgentBuilder {
    Agent::builder().model(model.clone())
}

/// A tool that may run twice.
fn idempotent(shop: &Shop, describe: &str) -> AgentTool {
    let (shop, about) = (shop.clone(), describe.to_owned());
    AgentTool::new("delete_records").describe(describe).destructive().idempotent().handler(
        move |_: ToolCtx, _: Delete| {
            shop.note(about.clone());
            async { Ok::<_, ToolError>("deleted") }
        },
    )
}

#[tokio::test]
async fn what_ran_unattended_is_asked_about_once_there_is_somebody_to_ask() {
    let (shop, model) = (Shop::default(), model());
    let unattended = with(&model).tool(idempotent(&shop, "It deletes.")).unattended().build().unwrap();
    let disk = Disk::of_a_run(unattended, 2, Fate::StopAfter).await;
    assert_eq!(disk.names().last().unwrap(), "callStarted");
    let no = shop.somebody(Verdict::reject("not these"));
    let attended = with(&model).tool(idempotent(&shop, "It deletes.")).confirmation(no).build().unwrap();
    let reply = attended.run_durable(disk.session().await).await.unwrap();
    assert!(only_result(&reply).0.ends_with("rejected by user: not these"));
    assert_eq!((shop.ran().len(), shop.asked().len()), (0, 1));
}

#[tokio::test]
async fn a_yes_is_not_for_a_tool_that_was_changed_since() {
    let (shop, model) = (Shop::default(), model());
    let build = |describe: &str, verdict| {
        let person = shop.somebody(verdict);
        with(&model).tool(idempotent(&shop, describe)).confirmation(person).build().unwrap()
    };
    let disk = Disk::of_a_run(build("It deletes old records.", Verdict::Approve), 2, Fate::StopAfter).await;
    assert_eq!(disk.names().last().unwrap(), "callDecided");
    let changed = build("It deletes everything.", Verdict::reject("no"));
    changed.run_durable(disk.session().await).await.unwrap();
    assert_eq!((shop.ran().len(), shop.asked().len()), (0, 2), "it is asked about anew");
}

#[tokio::test]
async fn a_started_call_whose_tool_is_gone_or_changed_is_in_doubt_and_goes_its_way_anew_on_retry() {
    for gone in [true, false] {
        let (shop, model) = (Shop::default(), model());
        let yes = || shop.somebody(Verdict::Approve);
        let build =
            |describe| with(&model).tool(idempotent(&shop, describe)).confirmation(yes()).build().unwrap();
        let disk = Disk::of_a_run(build("It deletes old records."), 3, Fate::StopAfter).await;
        assert_eq!(disk.names().last().unwrap(), "callStarted");
        let later = || if gone { with(&model).build().unwrap() } else { build("It deletes everything.") };
        let error = later().run_durable(disk.session().await).await.unwrap_err();
        assert!(matches!(&error, AgentError::InDoubt { tool, .. } if tool == "delete_records"), "{error}");
        let session = disk.session().await;
        let doubts = session.in_doubt().await;
        assert_eq!(doubts[0].input, json!({ "table": "logs", "rows": "all" }));
        session.settle(doubts[0].call, Settlement::Retry, "ann").await.unwrap();
        let told = only_result(&later().run_durable(session).await.unwrap());
        if gone {
            assert_eq!(told, ("Tool not found: delete_records".into(), true));
        } else {
            assert_eq!(
                (told.0.as_str(), shop.ran(), shop.asked().len()),
                ("deleted", vec!["It deletes everything.".into()], 2)
            );
        }
    }
}

#[tokio::test]
async fn let_past_its_own_question_unattended_a_tool_is_not_run_twice() {
    let shop = Shop::default();
    let model = Rehearsed::new(vec![vec![("a", "transfer", json!({ "amount": 20_000 }))]]);
    let build = || with(&model).tool(shop.transfer()).unattended().build().unwrap();
    // Its result is the record that is lost.
    let disk = Disk::of_a_run(build(), 3, Fate::StopBefore).await;
    assert_eq!(disk.names().last().unwrap(), "callWaived");
    let error = build().run_durable(disk.session().await).await.unwrap_err();
    assert_eq!((error.code(), shop.ran().len()), ("in_doubt", 1));
}

#[tokio::test]
async fn an_answer_from_before_is_not_given_to_another_question_of_the_same_number() {
    let shop = Shop::default();
    let model = Rehearsed::new(vec![vec![("a", "asks", json!({}))]]);
    let build = |rows: u32, verdict: Verdict| {
        let ran = shop.clone();
        let tool = Shop::tool("asks", move |ctx| {
            let ran = ran.clone();
            async move {
                request_confirmation(&ctx, "Delete them?", json!({ "rows": rows })).await?;
                ran.note("ran");
                Ok("done".to_owned())
            }
        });
        with(&model).tool(tool).confirmation(shop.somebody(verdict)).build().unwrap()
    };
    // The yes is on the disk and the process dies; a person looked and says that nothing happened.
    let disk = Disk::of_a_run(build(3, Verdict::Approve), 3, Fate::StopAfter).await;
    let session = disk.session().await;
    session.settle(session.in_doubt().await[0].call, Settlement::Retry, "ann").await.unwrap();
    build(3_000, Verdict::reject("too many")).run_durable(session).await.unwrap();
    assert_eq!((shop.ran().len(), shop.asked().len()), (0, 2), "the yes was for three rows");
}

#[tokio::test]
async fn a_turn_that_fails_is_not_held_up_by_somebody_who_thinks_and_starts_nothing_more() {
    let shop = Shop::default();
    let call = |id, table| (id, "delete_records", json!({ "table": table }));
    let model = Rehearsed::new(vec![vec![("r", "read_file", json!({ "path": "a" })), call("d", "logs")]]);
    let disk = Disk::default();
    let session = disk.session().await;
    // The reader's result cannot be recorded, while the person still thinks about the deletion.
    disk.plan(2, Fate::Fail);
    let agent = with(&model)
        .tool(shop.read())
        .tool(shop.delete())
        .confirmation(shop.nobody_answers())
        .build()
        .unwrap();
    let run = tokio::time::timeout(crate::shop::SOON, agent.run_durable(session)).await;
    assert_eq!(run.expect("nobody is waited for").unwrap_err().code(), "journal_unavailable");
    assert_eq!(shop.ran(), ["read_file a"]);
}

#[tokio::test]
async fn a_settlement_that_nobody_waits_for_is_written_once_and_the_journal_stays_whole() {
    let (shop, model) = (Shop::default(), model());
    let build =
        || with(&model).tool(shop.delete()).confirmation(shop.somebody(Verdict::Approve)).build().unwrap();
    let disk = Disk::of_a_run(build(), 3, Fate::StopAfter).await;
    let session = std::sync::Arc::new(disk.session().await);
    let call = session.in_doubt().await[0].call;
    let failed = || Settlement::Failed { message: "it never got there".into() };
    // Polled once, so that the write begins, and dropped.
    let mut waiting = Box::pin(session.settle(call, failed(), "ann"));
    assert!(futures_util::poll!(&mut waiting).is_pending());
    drop(waiting);
    until("it is written", || disk.names().last().unwrap() == "doubtSettled").await;
    assert_eq!(session.settle(call, failed(), "ann").await.unwrap_err().code(), "journal_conflict");
    assert!(DurableSession::open(disk).await.is_ok(), "it can be read");
}

#[tokio::test]
async fn whoever_keeps_a_context_asks_nobody_once_the_call_has_ended() {
    let shop = Shop::default();
    let (keep, kept) = tokio::sync::mpsc::unbounded_channel();
    let tool = AgentTool::new("delete_records").describe("Keeps its context.").destructive().handler(
        move |ctx: ToolCtx, _: Delete| {
            keep.send(ctx).unwrap();
            async { Ok::<_, ToolError>("deleted") }
        },
    );
    let mut kept = kept;
    let agent = with(&model()).tool(tool).confirmation(shop.somebody(Verdict::Approve)).build().unwrap();
    agent.chat("Go").await.unwrap();
    let late = request_confirmation(&kept.recv().await.unwrap(), "More?", json!(null)).await;
    assert!(matches!(late, Err(ConfirmationError::Failed(why)) if why.starts_with("the call has ended")));
}
