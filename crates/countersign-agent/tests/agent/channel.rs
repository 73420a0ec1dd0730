//! The channel: questions as a stream, and answers that reach the question they were given to.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use countersign_agent::model::{ScriptedModel, ScriptedTurn};
use countersign_agent::providers::{ChannelConfirmation, MAX_PENDING};
use countersign_agent::{
    Agent, ConfirmationProvider, ConfirmationRequest, ToolCtx, Verdict, request_confirmation,
};
use futures_util::StreamExt;
use serde_json::json;

use crate::shop::{Shop, calling, deleting, only_result, until, with};

fn request() -> ConfirmationRequest {
    ConfirmationRequest::new("call-1", "delete_records", json!({}))
}

#[tokio::test]
async fn the_channel_shows_each_request_once_and_takes_one_answer() {
    let shop = Shop::default();
    let (provider, confirmations) = ChannelConfirmation::new();
    let agent = with(&deleting()).tool(shop.delete()).confirmation(provider).build().unwrap();
    let chat = tokio::spawn(async move { agent.chat("Go").await });
    let shown = confirmations.next().await.unwrap();
    assert_eq!(shown.tool_call_id, "call-1");
    confirmations.respond(&shown, Verdict::reject("no")).await.unwrap();
    let again = confirmations.respond(&shown, Verdict::Approve).await.unwrap_err();
    assert_eq!(again.tool_name, "delete_records");
    assert!(only_result(&chat.await.unwrap().unwrap()).1);
    assert_eq!(shop.ran().len(), 0);
}

#[tokio::test]
async fn a_second_click_on_one_question_does_not_answer_the_next_one_of_the_same_call() {
    let shop = Shop::default();
    let ran = shop.clone();
    let asks_twice = Shop::tool("asks_twice", move |ctx: ToolCtx| {
        let ran = ran.clone();
        async move {
            request_confirmation(&ctx, "The first?", json!(1)).await?;
            request_confirmation(&ctx, "The second?", json!(2)).await?;
            ran.note("ran");
            Ok("ran".to_owned())
        }
    });
    let (provider, confirmations) = ChannelConfirmation::new();
    let model = calling("asks_twice", &json!({}));
    let agent = with(&model).tool(asks_twice).confirmation(provider).build().unwrap();
    let chat = tokio::spawn(async move { agent.chat("Go").await });
    let first = confirmations.next().await.unwrap();
    confirmations.respond(&first, Verdict::Approve).await.unwrap();
    confirmations.respond(&first, Verdict::Approve).await.unwrap_err();
    let second = confirmations.next().await.unwrap();
    assert_eq!((second.hint.as_deref(), shop.ran().len()), (Some("The second?"), 0), "nobody answered it");
    confirmations.respond(&second, Verdict::Approve).await.unwrap();
    chat.await.unwrap().unwrap();
    assert_eq!(shop.ran().len(), 1);
}

#[tokio::test]
async fn two_chats_whose_models_give_their_calls_the_same_id_are_answered_apart() {
    let shop = Shop::default();
    let (provider, confirmations) = ChannelConfirmation::new();
    let table = Mutex::new(["a", "b"].into_iter());
    let model = ScriptedModel::endless(move |_| match table.lock().unwrap().next() {
        Some(table) => ScriptedTurn::calls("call_1", "delete_records", &json!({ "table": table })),
        None => ScriptedTurn::says("Done."),
    });
    let agent = Agent::builder().model(model).tool(shop.delete()).confirmation(provider).build().unwrap();
    let chats: Vec<_> = (0..2)
        .map(|_| {
            let agent = agent.clone();
            tokio::spawn(async move { agent.chat("Go").await })
        })
        .collect();
    let (one, other) = (confirmations.next().await.unwrap(), confirmations.next().await.unwrap());
    let (keep, delete) = if one.input["table"] == "a" { (one, other) } else { (other, one) };
    confirmations.respond(&delete, Verdict::Approve).await.unwrap();
    confirmations.respond(&keep, Verdict::reject("keep it")).await.unwrap();
    for chat in chats {
        chat.await.unwrap().unwrap();
    }
    assert_eq!(shop.ran(), ["delete_records b all"]);
}

#[tokio::test]
async fn an_answer_that_is_faster_than_its_question_is_not_lost() {
    let (provider, confirmations) = ChannelConfirmation::new();
    let asked = request();
    let answer = confirmations.respond(&asked, Verdict::Approve);
    let question = async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        provider.confirm(asked.clone()).await
    };
    let (answered, verdict) = tokio::join!(answer, question);
    assert_eq!((answered, verdict.unwrap()), (Ok(()), Verdict::Approve));
}

#[tokio::test]
async fn a_channel_whose_reader_is_gone_approves_nothing() {
    let shop = Shop::default();
    let (provider, confirmations) = ChannelConfirmation::new();
    let agent = with(&deleting()).tool(shop.delete()).confirmation(provider).build().unwrap();
    let asking = agent.clone();
    let chat = tokio::spawn(async move { asking.chat("Go").await });
    until("it asks", || confirmations.pending().len() == 1).await;
    drop(confirmations);
    let told = only_result(&chat.await.unwrap().unwrap());
    assert_eq!(told, ("Confirmation error: nobody is left to answer".into(), true));
    assert_eq!(shop.ran().len(), 0);
}

#[tokio::test]
async fn the_stream_of_questions_ends_when_the_agent_is_gone() {
    let (provider, mut confirmations) = ChannelConfirmation::new();
    let asking = tokio::spawn(async move { provider.confirm(request()).await });
    let shown = StreamExt::next(&mut confirmations).await.unwrap();
    asking.abort();
    let _ = asking.await;
    assert_eq!(confirmations.pending(), [], "a question whose asker is gone is withdrawn");
    assert_eq!(StreamExt::next(&mut confirmations).await, None);
    confirmations.respond(&shown, Verdict::Approve).await.unwrap_err();
}

#[tokio::test]
async fn at_its_bound_the_channel_takes_the_last_question_and_refuses_one_more() {
    let (provider, confirmations) = ChannelConfirmation::new();
    let provider = Arc::new(provider);
    let ask = || {
        let provider = Arc::clone(&provider);
        tokio::spawn(async move { provider.confirm(request()).await.map_err(|error| error.to_string()) })
    };
    let waiting: Vec<_> = (0..MAX_PENDING).map(|_| ask()).collect();
    until("all of them wait", || confirmations.pending().len() == MAX_PENDING).await;
    assert_eq!(ask().await.unwrap(), Err("1024 questions wait already".to_owned()));
    drop(confirmations);
    for asked in waiting {
        assert_eq!(asked.await.unwrap(), Err("nobody is left to answer".to_owned()));
    }
}
