//! The stream of events, parallel calls, and cancelling.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use countersign_agent::model::{Model, ModelError, ModelRequest, ScriptedModel, ScriptedTurn, TurnSoFar};
use countersign_agent::{Agent, AgentEvent, Verdict};
use countersign_sdk::ToolError;
use futures_util::StreamExt;
use serde_json::json;
use tokio::sync::{Barrier, Notify};

use crate::shop::{SOON, Shop, calling, deleting, results, until, with};

/// An event in a word or two.
fn brief(event: &AgentEvent) -> String {
    match event {
        AgentEvent::ContentDelta { text } => format!("delta {text:?}"),
        AgentEvent::ToolUseStart { call_id, name } => format!("use {call_id} {name}"),
        AgentEvent::ToolUseDelta { call_id, json } => format!("input {call_id} {json}"),
        AgentEvent::ToolUseStop { call_id } => format!("used {call_id}"),
        AgentEvent::ConfirmationRequired(request) => format!("confirm {}", request.tool_call_id),
        AgentEvent::ToolSettled(result) => format!("settled {} {:?}", result.call_id, result.content),
        AgentEvent::Complete(reply) => format!("complete {:?}", reply.text),
        AgentEvent::Error(error) => format!("error {}", error.code()),
        other => format!("{other:?}"),
    }
}

#[tokio::test]
async fn a_chat_tells_everything_in_order_and_ends_with_one_last_event() {
    let shop = Shop::default();
    let model = ScriptedModel::new([
        ScriptedTurn::text(["Let me ", "see."]).and_calls(
            "c1",
            "delete_records",
            &json!({ "table": "logs" }),
        ),
        ScriptedTurn::says("Done."),
    ]);
    let agent =
        with(&model).tool(shop.delete()).confirmation(shop.somebody(Verdict::Approve)).build().unwrap();
    let events: Vec<String> = agent.chat_stream("Go").map(|event| brief(&event)).collect().await;
    insta::assert_snapshot!(events.join("\n"), @r#"
    ContentStart
    delta "Let me see."
    ContentStop
    use c1 delete_records
    input c1 {"table":"logs"}
    used c1
    confirm c1
    settled c1 "deleted"
    ContentStart
    delta "Done."
    ContentStop
    complete "Done."
    "#);
}

#[tokio::test]
async fn a_chat_that_fails_ends_with_the_error() {
    let model = ScriptedModel::new([ScriptedTurn::says("Hm").and_fails(ModelError::Truncated)]);
    let agent = with(&model).build().unwrap();
    let events: Vec<String> = agent.chat_stream("Go").map(|event| brief(&event)).collect().await;
    assert_eq!(events.last().unwrap(), "error stream_truncated");
    assert_eq!(agent.chat("Go").await.unwrap_err().code(), "script_ended");
}

#[tokio::test]
async fn calls_run_in_parallel_and_their_results_keep_the_order_of_the_calls() {
    let meet = Arc::new(Barrier::new(3));
    let tool = Shop::tool("meet", move |ctx| {
        let meet = Arc::clone(&meet);
        async move {
            // None of them gets past this unless all three run at once.
            meet.wait().await;
            // The first call ends last.
            let wait = if ctx.call_id() == "c1" { 20 } else { 0 };
            tokio::time::sleep(Duration::from_millis(wait)).await;
            Ok(ctx.call_id().to_owned())
        }
    });
    let model = ScriptedModel::new([
        ScriptedTurn::calls("c1", "meet", &json!({})).and_calls("c2", "meet", &json!({})).and_calls(
            "c3",
            "meet",
            &json!({}),
        ),
        ScriptedTurn::says("Done."),
    ]);
    let agent = with(&model).tool(tool).build().unwrap();
    let reply = tokio::time::timeout(SOON, agent.chat("Go")).await.expect("they run at once").unwrap();
    assert_eq!(results(&reply), ["c1", "c2", "c3"]);
}

/// Three calls of a tool that knows how many of it run, and the most that ever did.
async fn most_at_once(
    build: impl FnOnce(countersign_agent::AgentBuilder) -> countersign_agent::AgentBuilder,
) -> usize {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let seen = Arc::clone(&most);
    let tool = Shop::tool("count", move |_| {
        let (now, most) = (Arc::clone(&now), Arc::clone(&most));
        async move {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(2)).await;
            now.fetch_sub(1, Ordering::SeqCst);
            Ok(String::new())
        }
    });
    let turn = (0..6)
        .fold(ScriptedTurn::says("Six."), |turn, n| turn.and_calls(&format!("c{n}"), "count", &json!({})));
    let model = ScriptedModel::new([turn, ScriptedTurn::says("Done.")]);
    build(with(&model).tool(tool)).build().unwrap().chat("Go").await.unwrap();
    seen.load(Ordering::SeqCst)
}

#[tokio::test]
async fn the_number_of_tools_that_run_at_once_is_bounded_as_the_builder_says() {
    assert_eq!(most_at_once(|builder| builder.sequential_tools()).await, 1);
    assert_eq!(most_at_once(|builder| builder.max_parallel_tools(2)).await, 2);
    assert_eq!(most_at_once(|builder| builder).await, 6);
}

#[tokio::test]
async fn parallel_calls_are_confirmed_each_by_itself_and_a_person_who_thinks_holds_nobody_up() {
    let shop = Shop::default();
    let (provider, confirmations) = countersign_agent::providers::ChannelConfirmation::new();
    let model = ScriptedModel::new([
        ScriptedTurn::calls("c1", "delete_records", &json!({ "table": "a" }))
            .and_calls("c2", "delete_records", &json!({ "table": "b" }))
            .and_calls("c3", "read_file", &json!({ "path": "x" })),
        ScriptedTurn::says("Done."),
    ]);
    let agent = with(&model)
        .tool(shop.delete())
        .tool(shop.read())
        .max_parallel_tools(1)
        .confirmation(provider)
        .build()
        .unwrap();
    let chat = tokio::spawn(async move { agent.chat("Go").await });
    until("both are asked and the third ran meanwhile", || {
        confirmations.pending().len() == 2 && shop.ran() == ["read_file x"]
    })
    .await;
    let asked = confirmations.pending();
    let of = |id: &str| asked.iter().find(|request| request.tool_call_id == id).unwrap();
    confirmations.respond(of("c2"), Verdict::Approve).await.unwrap();
    until("the second ran", || shop.ran().len() == 2).await;
    confirmations.respond(of("c1"), Verdict::reject("keep a")).await.unwrap();
    let reply = chat.await.unwrap().unwrap();
    assert_eq!(
        results(&reply),
        ["Tool call requires confirmation — rejected by user: keep a", "deleted", "contents of x"]
    );
}

#[tokio::test]
async fn a_person_who_thinks_inside_one_tool_holds_no_other_up_and_is_shown_in_the_stream() {
    let shop = Shop::default();
    let (provider, confirmations) = countersign_agent::providers::ChannelConfirmation::new();
    let model = ScriptedModel::new([
        ScriptedTurn::calls("c1", "transfer", &json!({ "amount": 20_000 }))
            .and_calls("c2", "transfer", &json!({ "amount": 30_000 }))
            .and_calls("c3", "read_file", &json!({ "path": "x" })),
        ScriptedTurn::says("Done."),
    ]);
    let agent = with(&model)
        .tool(shop.transfer())
        .tool(shop.read())
        .max_parallel_tools(1)
        .confirmation(provider)
        .build()
        .unwrap();
    let mut stream = agent.chat_stream("Go");
    until("both are asked and the third ran meanwhile", || {
        confirmations.pending().len() == 2 && shop.ran() == ["read_file x"]
    })
    .await;
    let mut hints = Vec::new();
    while let Some(event) = stream.next().await {
        if let AgentEvent::ConfirmationRequired(request) = event {
            confirmations.respond(&request, Verdict::Approve).await.unwrap();
            hints.push((request.tool_call_id, request.hint.unwrap()));
        }
    }
    hints.sort();
    let hint = "Large transfer exceeding $10,000";
    assert_eq!(hints, [("c1".to_owned(), hint.to_owned()), ("c2".to_owned(), hint.to_owned())]);
    assert_eq!(shop.ran().len(), 3);
}

#[tokio::test]
async fn a_durable_chat_is_streamed_and_what_happened_before_a_restart_is_not_told_again() {
    let (shop, disk) = (Shop::default(), crate::disk::Disk::default());
    let model = crate::disk::Rehearsed::new(vec![vec![("a", "delete_records", json!({ "table": "logs" }))]]);
    let build =
        |yes| Agent::builder().model(model.clone()).tool(shop.delete()).confirmation(yes).build().unwrap();
    let names = async |stream: countersign_agent::ChatStream| {
        let events: Vec<AgentEvent> = stream.collect().await;
        let name = |event: &AgentEvent| format!("{event:?}").split(['(', ' ']).next().unwrap().to_owned();
        events.iter().map(name).collect::<Vec<_>>().join(" ")
    };
    disk.plan(4, crate::disk::Fate::StopAfter);
    let stream = build(shop.somebody(Verdict::Approve)).run_durable_stream(disk.session().await);
    disk.until_stopped().await;
    drop(stream);
    disk.heal();
    let stream = build(shop.somebody(Verdict::Approve)).run_durable_stream(disk.session().await);
    insta::assert_snapshot!(names(stream).await, @"ToolSettled ContentStart ContentDelta ContentStop Complete");
}

/// Says when it is dropped.
struct Dropped(Arc<Notify>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

#[tokio::test]
async fn dropping_the_stream_drops_what_runs() {
    let (started, dropped) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (begun, gone) = (Arc::clone(&started), Arc::clone(&dropped));
    let tool = Shop::tool("slow", move |_| {
        let (begun, guard) = (Arc::clone(&begun), Dropped(Arc::clone(&gone)));
        async move {
            begun.notify_one();
            std::future::pending::<()>().await;
            drop(guard);
            Ok(String::new())
        }
    });
    let agent = with(&calling("slow", &json!({}))).tool(tool).build().unwrap();
    let stream = agent.chat_stream("Go");
    started.notified().await;
    drop(stream);
    tokio::time::timeout(SOON, dropped.notified()).await.expect("the handler's future is dropped");
}

#[tokio::test]
async fn dropping_the_stream_withdraws_the_question() {
    let shop = Shop::default();
    let (provider, confirmations) = countersign_agent::providers::ChannelConfirmation::new();
    let agent = with(&deleting()).tool(shop.delete()).confirmation(provider).build().unwrap();
    let stream = agent.chat_stream("Go");
    until("it asks", || confirmations.pending().len() == 1).await;
    drop(stream);
    until("the question is gone", || confirmations.pending().is_empty()).await;
    assert_eq!(shop.ran().len(), 0);
}

/// A model that never answers and says when its request is dropped.
struct Silent(Arc<Notify>, Arc<Notify>);

#[async_trait::async_trait]
impl Model for Silent {
    async fn turn(&self, _: ModelRequest<'_>, _: &mut TurnSoFar) -> Result<(), ModelError> {
        let _guard = Dropped(Arc::clone(&self.1));
        self.0.notify_one();
        std::future::pending().await
    }
}

#[tokio::test]
async fn dropping_the_stream_drops_the_models_request() {
    let (asked, dropped) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let agent = Agent::builder().model(Silent(Arc::clone(&asked), Arc::clone(&dropped))).build().unwrap();
    let stream = agent.chat_stream("Go");
    asked.notified().await;
    drop(stream);
    tokio::time::timeout(SOON, dropped.notified()).await.expect("the request is dropped");
}

/// A model that breaks instead of failing.
struct Bomb;

#[async_trait::async_trait]
impl Model for Bomb {
    async fn turn(&self, _: ModelRequest<'_>, _: &mut TurnSoFar) -> Result<(), ModelError> {
        panic!("boom")
    }
}

#[tokio::test]
async fn a_stream_whose_chat_panics_still_ends() {
    let agent = Agent::builder().model(Bomb).build().unwrap();
    let events: Vec<String> = agent.chat_stream("Go").map(|event| brief(&event)).collect().await;
    assert_eq!(events, ["error stopped"]);
}

#[tokio::test]
async fn malformed_arguments_are_told_to_the_model_and_it_may_try_again() {
    let shop = Shop::default();
    let model = ScriptedModel::new([
        ScriptedTurn::default().and_writes("c1", "read_file", "{\"path\": "),
        ScriptedTurn::default().and_writes("c2", "read_file", "[1]"),
        ScriptedTurn::calls("c3", "raed_file", &json!({ "path": "a" })),
        ScriptedTurn::calls("c4", "read_file", &json!({ "path": "a" })),
        ScriptedTurn::says("Done."),
    ]);
    let agent = with(&model).tool(shop.read()).build().unwrap();
    let told = results(&agent.chat("Go").await.unwrap());
    assert!(told[0].starts_with("Invalid tool input: the arguments are not JSON"), "{}", told[0]);
    assert!(told[1].starts_with("Invalid tool input: "), "{}", told[1]);
    assert_eq!(told[2], "Tool not found: raed_file; did you mean read_file?");
    assert_eq!(told[3], "contents of a");
}

#[tokio::test]
async fn a_result_past_its_bound_is_an_error_that_says_so() {
    let large = Shop::tool("large", |_| async { Ok("x".repeat(2 << 20)) });
    let agent = with(&calling("large", &json!({}))).tool(large).build().unwrap();
    let told = results(&agent.chat("Go").await.unwrap());
    assert!(told[0].starts_with("Tool failed: the result has 2097152 bytes"), "{}", &told[0][..80]);
}

#[tokio::test]
async fn a_chat_goes_on_from_an_earlier_one() {
    let model = ScriptedModel::new([ScriptedTurn::says("Hello Ann."), ScriptedTurn::says("You are Ann.")]);
    let agent = with(&model).build().unwrap();
    let first = agent.chat("I am Ann.").await.unwrap();
    let prompt = countersign_agent::Prompt::after(first.messages, "Who am I?");
    let second = agent.chat(prompt).await.unwrap();
    assert_eq!((second.text.as_str(), second.messages.len()), ("You are Ann.", 4));
    assert_eq!(model.asked()[1].messages.len(), 3);
}

#[tokio::test]
async fn a_tool_may_ask_only_so_many_questions() {
    let shop = Shop::default();
    let asks = Shop::tool("asks", |ctx| async move {
        loop {
            if let Err(error) = ctx.request_confirmation("Again?", json!(null)).await {
                return Err(ToolError::from(error));
            }
        }
    });
    let agent = with(&calling("asks", &json!({})))
        .tool(asks)
        .confirmation(shop.somebody(Verdict::Approve))
        .build()
        .unwrap();
    let told = results(&agent.chat("Go").await.unwrap());
    assert_eq!(told, ["Confirmation error: a call may ask at most 100 questions"]);
    assert_eq!(shop.asked().len(), countersign_agent::MAX_ASKS_PER_CALL as usize);
}
