//! A durable chat stopped before and after every append, and taken up again.

use countersign_agent::{Agent, ConfirmationProvider, ConfirmationRequest, ProviderError, Verdict};
use countersign_core::canonical::Verbatim;
use countersign_core::event::Settlement;
use serde_json::json;

use crate::disk::{Disk, Fate, Rehearsed};
use crate::shop::{Shop, results};

/// Reads, deletes (asked before), transfers (asks from inside), and ends.
fn rehearsed() -> Rehearsed {
    Rehearsed::new(vec![
        vec![("a", "read_file", json!({ "path": "a" })), ("b", "delete_records", json!({ "table": "logs" }))],
        vec![("c", "transfer", json!({ "amount": 20_000 }))],
    ])
}

fn agent(shop: &Shop, model: &Rehearsed) -> Agent {
    Agent::builder()
        .model(model.clone())
        .tool(shop.read())
        .tool(shop.delete())
        .tool(shop.transfer())
        .sequential_tools()
        .confirmation(shop.somebody(Verdict::Approve))
        .build()
        .unwrap()
}

fn times(ran: &[String], what: &str) -> usize {
    ran.iter().filter(|it| it.starts_with(what)).count()
}

/// Runs until the disk stops the process; true if the chat ended before that.
async fn first_life(agent: Agent, disk: &Disk) -> bool {
    let session = disk.session().await;
    tokio::select! {
        ended = agent.run_durable(session) => { ended.unwrap(); true }
        () = disk.until_stopped() => false,
    }
}

#[tokio::test]
async fn uninterrupted_it_writes_these_records_and_does_everything_once() {
    let (disk, shop, model) = (Disk::default(), Shop::default(), rehearsed());
    let reply = agent(&shop, &model).run_durable(disk.session().await).await.unwrap();
    assert_eq!(results(&reply), ["contents of a", "deleted", "Transfer complete"]);
    assert_eq!(shop.ran(), ["read_file a", "delete_records logs all", "transfer 20000"]);
    assert_eq!((model.asked(), shop.asked().len()), (vec![0, 1, 2], 2));
    insta::assert_snapshot!(disk.names().join(" "), @"opened said modelTurned callSettled callDecided callStarted callSettled modelTurned callAsked callDecided callSettled modelTurned");
}

#[tokio::test]
async fn stopped_anywhere_it_goes_on_and_repeats_neither_model_turns_nor_tools_nor_questions() {
    for fate in [Fate::StopBefore, Fate::StopAfter] {
        // The first two appends are the session's own.
        for nth in 1.. {
            let (disk, shop, model) = (Disk::default(), Shop::default(), rehearsed());
            drop(disk.session().await);
            disk.plan(nth, fate);
            if first_life(agent(&shop, &model), &disk).await {
                assert!(nth > 9, "it was stopped at every one of its records");
                break;
            }
            disk.heal();
            let at = format!("{fate:?} {nth} {:?}", disk.names());
            let session = disk.session().await;
            let doubts = session.in_doubt().await;
            if !doubts.is_empty() {
                let refused = agent(&shop, &model).run_durable(disk.session().await).await.unwrap_err();
                assert_eq!(refused.code(), "in_doubt", "{at}");
            }
            for doubt in &doubts {
                let done = Settlement::Done { value: Verbatim::of(&json!("settled")).unwrap() };
                session.settle(doubt.call, done, "ann").await.unwrap();
            }
            let reply = agent(&shop, &model).run_durable(session).await.unwrap();
            assert_eq!(reply.text, "Done.", "{at}");
            let ran = shop.ran();
            for tool in ["delete_records", "transfer"] {
                let times = times(&ran, tool);
                let in_doubt = doubts.iter().any(|doubt| doubt.tool == tool);
                assert!(times == 1 || (in_doubt && times == 0), "{at}: {tool} ran {times} times");
            }
            let expected = if fate == Fate::StopAfter { 3 } else { 4 };
            assert!(model.asked().len() <= expected, "{at}: {:?}", model.asked());
            if fate == Fate::StopAfter {
                assert_eq!((model.asked(), shop.asked().len()), (vec![0, 1, 2], 2), "{at}");
            }
        }
    }
}

#[tokio::test]
async fn stopped_while_a_person_thinks_it_asks_again_and_goes_on() {
    for tool in ["delete_records", "transfer"] {
        let (disk, shop) = (Disk::default(), Shop::default());
        let input = json!({ "table": "logs" });
        let input = if tool == "transfer" { json!({ "amount": 20_000 }) } else { input };
        let model = Rehearsed::new(vec![vec![("c", tool, input)]]);
        let waiting = Agent::builder()
            .model(model.clone())
            .tool(shop.delete())
            .tool(shop.transfer())
            .confirmation(shop.nobody_answers())
            .build()
            .unwrap();
        let session = disk.session().await;
        let running = tokio::spawn(async move { waiting.run_durable(session).await });
        crate::shop::until("it asks", || shop.asked().len() == 1).await;
        running.abort();
        let _ = running.await;
        assert_eq!(disk.session().await.in_doubt().await, [], "nothing happened yet");
        let reply = agent(&shop, &model).run_durable(disk.session().await).await.unwrap();
        assert_eq!((reply.text.as_str(), shop.ran().len(), shop.asked().len()), ("Done.", 1, 2));
        assert_eq!(model.asked(), [0, 1], "the model was not asked again");
        let keys: Vec<_> = shop.asked().into_iter().map(|request| request.key.unwrap()).collect();
        assert_eq!(keys[0], keys[1], "it is the same question");
    }
}

#[tokio::test]
async fn a_disk_that_refuses_a_record_stops_the_chat_before_what_would_follow() {
    let all = {
        let (disk, shop) = (Disk::default(), Shop::default());
        agent(&shop, &rehearsed()).run_durable(disk.session().await).await.unwrap();
        disk.names()
    };
    for (nth, name) in (1..).zip(all.iter().skip(2)) {
        let (disk, shop) = (Disk::default(), Shop::default());
        let session = disk.session().await;
        disk.plan(nth, Fate::Fail);
        let model = rehearsed();
        let outcome = agent(&shop, &model).run_durable(session).await;
        let started = times(&shop.ran(), "delete_records") > 0;
        // A question that cannot be recorded is not asked, and a yes that cannot be recorded is none.
        let code = if ["callAsked", "callDecided"].contains(&name.as_str()) {
            "unavailable"
        } else {
            "journal_unavailable"
        };
        assert_eq!(outcome.unwrap_err().code(), code, "{name}");
        assert!(nth > 4 || !started, "nothing is deleted before its start is on record");
        assert!(
            nth > 8 || times(&shop.ran(), "transfer") == 0,
            "nothing is transferred before the yes is on record"
        );
    }
}

#[tokio::test]
async fn an_approval_counts_only_for_the_input_it_was_given_for() {
    let (disk, shop, model) = (Disk::default(), Shop::default(), rehearsed());
    drop(disk.session().await);
    // The decision is on the disk, the start is not.
    disk.plan(3, Fate::StopAfter);
    assert!(!first_life(agent(&shop, &model), &disk).await);
    assert_eq!(disk.names().last().unwrap(), "callDecided");
    disk.heal();
    let widen = |call: countersign_agent::ToolUse| async move {
        let mut input = call.input;
        if call.tool_name == "delete_records" {
            input["rows"] = json!("even more");
        }
        Ok::<_, countersign_agent::HookError>(countersign_agent::HookVerdict::Rewrite(input))
    };
    let changed = Agent::builder()
        .model(model.clone())
        .tool(shop.read())
        .tool(shop.delete())
        .tool(shop.transfer())
        .pre_hook(widen)
        .confirmation(shop.somebody(Verdict::Reject { reason: None }))
        .build()
        .unwrap();
    changed.run_durable(disk.session().await).await.unwrap();
    assert_eq!(times(&shop.ran(), "delete_records"), 0, "the old yes was for other rows");
    assert_eq!(shop.asked()[1].input["rows"], "even more");
}

#[tokio::test]
async fn a_handler_that_is_entered_again_is_given_the_answers_it_had() {
    let (disk, shop) = (Disk::default(), Shop::default());
    let model = Rehearsed::new(vec![vec![("a", "asks_twice", json!({}))]]);
    let build = |person| {
        let ran = shop.clone();
        let tool = Shop::tool("asks_twice", move |ctx| {
            let ran = ran.clone();
            async move {
                ctx.request_confirmation("First?", json!(1)).await?;
                ctx.request_confirmation("Second?", json!(2)).await?;
                ran.note("ran");
                Ok("done".to_owned())
            }
        });
        Agent::builder().model(model.clone()).tool(tool).confirmation(person).build().unwrap()
    };
    // Says yes to the first question and thinks about the second.
    let asked = shop.clone();
    let thinks = move |request: ConfirmationRequest| {
        let first = request.hint.as_deref() == Some("First?");
        asked.note(request.hint.unwrap_or_default());
        async move {
            if !first {
                std::future::pending::<()>().await;
            }
            Ok::<_, ProviderError>(Verdict::Approve)
        }
    };
    let (agent, session) = (build(Box::new(thinks) as Box<dyn ConfirmationProvider>), disk.session().await);
    let running = tokio::spawn(async move { agent.run_durable(session).await });
    crate::shop::until("it asks the second", || shop.ran() == ["First?", "Second?"]).await;
    running.abort();
    let _ = running.await;
    assert_eq!(disk.session().await.in_doubt().await, [], "it waits at a question and has done nothing");
    let agent = build(Box::new(shop.somebody(Verdict::Approve)));
    let reply = agent.run_durable(disk.session().await).await.unwrap();
    assert_eq!(results(&reply), ["done"]);
    let asked: Vec<_> = shop.asked().into_iter().map(|request| request.hint.unwrap()).collect();
    assert_eq!(asked, ["Second?"], "the first was answered already");
}
