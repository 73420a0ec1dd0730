//! Requests of a source to the client that called it: for its model and its roots. Only that client is asked, only while its call is open.

use std::sync::{Arc, Mutex};

use countersign_kernel::{Answer, Coverage};
use countersign_sdk::{ClientCapability, ClientRequest, Ctx, Effects, ForeignInput, McpRequest, Role, Tool};
use countersign_testkit::world::InTests as _;
use serde_json::{Value, json};

use crate::client::{Client, Era, approve, text};
use crate::house::House;
use crate::sources::READS;

const OLD: [Era; 2] = [Era::June2025, Era::November2025];
const DESTROYS: Effects = Effects { destructive: true, read_only: false, ..READS };

/// The answers that the source's handlers got.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<String>>>);

impl Heard {
    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    async fn until(&self, count: usize) -> Vec<String> {
        for _ in 0..6_000 {
            if self.all().len() >= count {
                return self.all();
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        panic!("a handler never hears an answer: {:?}", self.all());
    }

    /// A tool of a source that asks the client, and answers what it heard.
    fn tool(&self, path: &str, capability: ClientCapability, effects: Effects) -> Tool {
        let heard = self.clone();
        let tool = Tool::foreign(path, json!({ "type": "object" }), None, effects).unwrap();
        tool.mcp_request(McpRequest::CallTool).handler(move |ctx: Ctx, input: ForeignInput| {
            let heard = heard.clone();
            async move {
                let params = json!({ "messages": [], "maxTokens": 1, "metadata": *input });
                let said = match ctx.ask_client(ClientRequest { capability, params }).await {
                    Ok(answer) => answer.to_string(),
                    Err(error) => format!("{}: {}", error.code().as_str(), error.message()),
                };
                heard.0.lock().unwrap().push(said.clone());
                Ok(json!({ "content": [{ "type": "text", "text": said }] }))
            }
        })
    }

    async fn offered(&self, house: &House) {
        let tools = vec![
            self.tool("far.write", ClientCapability::Sampling, READS),
            self.tool("far.look", ClientCapability::Roots, READS),
            self.tool("far.burn", ClientCapability::Sampling, DESTROYS),
        ];
        house.gateway.replace_source("far", tools).await.unwrap();
    }
}

async fn far() -> (House, Heard) {
    let (house, heard) = (House::open().await, Heard::default());
    heard.offered(&house).await;
    (house, heard)
}

async fn rich(house: &House, era: Era) -> Client {
    let can = json!({ "sampling": {}, "roots": {}, "elicitation": {} });
    house.client_that(&house.key(Role::Agent).await, era, can).await
}

fn message(text: &str) -> Value {
    json!({ "model": "m", "role": "assistant", "content": { "type": "text", "text": text } })
}

#[tokio::test]
async fn a_source_gets_the_model_and_the_roots_of_the_client_that_calls_it() {
    for era in OLD {
        let (house, _) = far().await;
        let client = rich(&house, era).await;
        let mut call = client.begin("far__write", json!({ "who": "ann" })).await;
        let asked = call.until("sampling/createMessage").await;
        assert_eq!(asked["params"]["metadata"], json!({ "who": "ann" }));
        assert_eq!((&asked["params"]["messages"], &asked["params"]["maxTokens"]), (&json!([]), &json!(1)));
        client.answer(&asked, message("hello")).await;
        let result = call.answer().await["result"].clone();
        assert!(text(&result).contains("hello"), "{era:?}: {result}");
        let mut call = client.begin("far__look", json!({})).await;
        let asked = call.until("roots/list").await;
        client.answer(&asked, json!({ "roots": [{ "uri": "file:///home/ann" }] })).await;
        let result = call.answer().await["result"].clone();
        assert!(text(&result).contains("file:///home/ann"), "{era:?}: {result}");
    }
}

/// Two conversations of one agent and one of another, all at once: each hears of its own call, and an answer from another
/// conversation counts for nothing.
#[tokio::test]
async fn a_request_and_its_answer_are_of_one_conversation_and_of_no_other() {
    let (house, _) = far().await;
    let can = json!({ "sampling": {} });
    let (key, other) = (house.key(Role::Agent).await, house.key(Role::Agent).await);
    let clients = [
        house.client_that(&key, Era::November2025, can.clone()).await,
        house.client_that(&key, Era::November2025, can.clone()).await,
        house.client_that(&other, Era::November2025, can).await,
    ];
    let mut calls = Vec::new();
    for (n, client) in clients.iter().enumerate() {
        calls.push(client.begin("far__write", json!({ "who": n })).await);
    }
    let mut asked = Vec::new();
    for (n, call) in calls.iter_mut().enumerate() {
        let request = call.until("sampling/createMessage").await;
        assert_eq!(request["params"]["metadata"]["who"], n, "it is asked for its own call");
        asked.push(request);
    }
    for (n, client) in clients.iter().enumerate() {
        // Every conversation numbers its requests by itself: this is the number of the next one's question.
        let foreign = &asked[(n + 1) % clients.len()];
        if foreign["id"] != asked[n]["id"] {
            client.answer(foreign, message("forged")).await;
        }
    }
    for (n, (client, call)) in clients.iter().zip(&mut calls).enumerate() {
        client.answer(&asked[n], message(&format!("from {n}"))).await;
        let result = call.answer().await["result"].clone();
        assert!(text(&result).contains(&format!("from {n}")), "{result}");
    }
}

fn is_refused(said: &str) -> bool {
    said.starts_with("sampling_not_available: sampling is not available for this call")
}

#[tokio::test]
async fn a_call_without_a_client_that_can_is_refused_clearly() {
    let (house, heard) = far().await;
    let key = house.key(Role::Agent).await;
    // Another conversation of the same agent waits meanwhile, and could.
    let other = house.client_that(&key, Era::November2025, json!({ "sampling": {} })).await;
    let mut waiting = other.begin("far__write", json!({})).await;
    let asked = waiting.until("sampling/createMessage").await;
    let poor = house.client_that(&key, Era::November2025, json!({ "roots": {} })).await;
    assert!(is_refused(text(&poor.call("far__write", json!({})).await)), "it does not declare sampling");
    let none = house.client_that(&key, Era::June2025, json!({})).await;
    assert!(is_refused(text(&none.call("far__write", json!({})).await)), "it declares nothing");
    let modern = rich(&house, Era::July2026).await;
    assert!(is_refused(text(&modern.call("far__write", json!({})).await)), "it takes no requests");
    let old = rich(&house, Era::November2025).await;
    old.call("run", json!({ "script": "far.write x" })).await;
    house.gateway.ask("far.write", json!({})).await.unwrap();
    let all = heard.all();
    assert!(all.len() == 5 && all.iter().all(|said| is_refused(said)), "{all:#?}");
    other.answer(&asked, message("only once")).await;
    let next = waiting.next().await.unwrap();
    assert!(text(&next["result"]).contains("only once"), "it was asked nothing else: {next}");
}

#[tokio::test]
async fn a_call_that_was_approved_while_its_client_waits_asks_that_client() {
    for house in [House::open().await, House::that_parks().await] {
        let heard = Heard::default();
        heard.offered(&house).await;
        let client = rich(&house, Era::November2025).await;
        let mut call = client.begin("far__burn", json!({})).await;
        let prompt = call.until("elicitation/create").await;
        assert_eq!(heard.all(), [""; 0], "nobody's model is asked before the call is approved");
        client.answer(&prompt, approve()).await;
        let asked = call.until("sampling/createMessage").await;
        client.answer(&asked, message("burnt")).await;
        let result = call.answer().await["result"].clone();
        assert!(text(&result).contains("burnt"), "{result}");
    }
}

#[tokio::test]
async fn a_call_whose_client_was_answered_before_or_was_lost_with_the_process_asks_nobody() {
    let (house, heard) = far().await;
    let can = json!({ "sampling": {} });
    let client = house.client_that(&house.key(Role::Agent).await, Era::November2025, can).await;
    let paused = client.call("far__burn", json!({})).await;
    assert_eq!(paused["structuredContent"]["status"], "paused", "{paused}");
    let question = house.only_question().await.elicitation.id;
    house.ann_says(question, Answer::Approve { covers: Some(Coverage::Call), data: None }).await;
    assert!(is_refused(&heard.until(1).await[0]), "{:?}", heard.all());

    let paused = client.call("far__burn", json!({ "again": true })).await;
    assert_eq!(paused["structuredContent"]["status"], "paused", "{paused}");
    let house = house.after().await;
    heard.offered(&house).await;
    let question = house.until_open(1).await[0].elicitation.id;
    house.ann_says(question, Answer::Approve { covers: Some(Coverage::Call), data: None }).await;
    assert!(is_refused(&heard.until(2).await[1]), "{:?}", heard.all());
}

#[tokio::test]
async fn a_request_is_withdrawn_when_the_client_cancels_its_call() {
    let (house, _) = far().await;
    let client = rich(&house, Era::November2025).await;
    let mut announced = client.listen().await;
    let message = client.message("tools/call", json!({ "name": "far__write", "arguments": {} }));
    let mut call = crate::client::Stream::of(client.send(&message).await);
    let asked = call.until("sampling/createMessage").await;
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": message["id"], "reason": "enough" } });
    client.send(&cancel).await;
    let withdrawn = announced.until("notifications/cancelled").await;
    assert_eq!(withdrawn["params"]["requestId"], asked["id"], "{withdrawn}");
}
