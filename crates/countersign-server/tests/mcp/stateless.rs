//! Calls of the 2026-07-28 era that the front serves by itself, beside the same calls served by rmcp: a client cannot tell them
//! apart, and what is not as it should be is refused as rmcp refuses it.

use countersign_sdk::Role;
use reqwest::{Method, Response, StatusCode};
use serde_json::{Value, json};

use crate::client::{Client, Era, Stream};
use crate::house::House;

/// Tools, what they are given, and their names as a header may have them: rmcp alone reads those.
const CALLS: [(&str, &str, &str); 5] = [
    ("shop__look", "{}", "=?base64?c2hvcF9fbG9vaw==?="),
    ("shop__look", r#"{"unknown":1}"#, "=?base64?c2hvcF9fbG9vaw==?="),
    ("shop__work", "{}", "=?base64?c2hvcF9fd29yaw==?="),
    ("lab__destroy", r#"{"what":"x"}"#, "=?base64?bGFiX19kZXN0cm95?="),
    ("not__there", "{}", "=?base64?bm90X190aGVyZQ==?="),
];

async fn sent(client: &Client, message: &Value, name: &str) -> Response {
    let request = client.request(Method::POST).header("mcp-method", "tools/call").header("mcp-name", name);
    request.json(message).send().await.unwrap()
}

/// Everything a client can see of a response, without the ids of executions and questions.
async fn seen(response: Response) -> (StatusCode, String, Vec<Value>) {
    let status = response.status();
    let kind = response.headers()["content-type"].to_str().unwrap().to_owned();
    let mut stream = Stream::of(response);
    let mut messages = Vec::new();
    while let Some(mut message) = stream.next().await {
        without_ids(&mut message);
        messages.push(message);
    }
    (status, kind, messages)
}

fn without_ids(value: &mut Value) {
    match value {
        Value::Object(object) => object.values_mut().for_each(without_ids),
        Value::Array(items) => items.iter_mut().for_each(without_ids),
        Value::String(text) => {
            let words = text.split_inclusive(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let is_id = |word: &str| word.starts_with("exec_") || word.starts_with("eli_");
            *text = words.map(|word| if is_id(word) { "ID " } else { word }).collect();
        }
        _ => {}
    }
}

#[tokio::test]
async fn a_call_is_answered_alike_whoever_serves_it() {
    let house = House::open().await;
    let key = house.key(Role::Agent).await;
    let mut client = house.client_that(&key, Era::July2026, json!({})).await;
    for meta in [json!({}), json!({ "progressToken": "t", "io.modelcontextprotocol/logLevel": "info" })] {
        client.meta = meta;
        for (tool, args, encoded) in CALLS {
            let args: Value = serde_json::from_str(args).unwrap();
            let mut message = client.message("tools/call", json!({ "name": tool, "arguments": args }));
            message["id"] = json!("one id for both");
            let ours = seen(sent(&client, &message, tool).await).await;
            let theirs = seen(sent(&client, &message, encoded).await).await;
            let times = ["askedAt", "expiresAt", "createdAt", "updatedAt"];
            let timeless = |seen: &(StatusCode, String, Vec<Value>)| {
                let mut seen = seen.clone();
                seen.2.iter_mut().for_each(|message| without(message, &times));
                seen
            };
            assert_eq!(timeless(&ours), timeless(&theirs), "{tool}");
        }
    }
}

fn without(value: &mut Value, fields: &[&str]) {
    match value {
        Value::Object(object) => {
            object.retain(|field, _| !fields.contains(&field.as_str()));
            object.values_mut().for_each(|value| without(value, fields));
        }
        Value::Array(items) => items.iter_mut().for_each(|value| without(value, fields)),
        _ => {}
    }
}

#[tokio::test]
async fn a_call_that_is_not_as_it_should_be_is_refused_and_does_not_run() {
    let house = House::open().await;
    let client = house.client(Era::July2026).await;
    let message = client.message("tools/call", json!({ "name": "shop__look", "arguments": {} }));
    let post = || client.request(Method::POST).header("mcp-method", "tools/call");
    let mut refused = Vec::new();
    refused.push(("no name", post().json(&message)));
    refused.push(("another name", post().header("mcp-name", "shop__work").json(&message)));
    let twice = post().header("mcp-name", "shop__look").header("mcp-name", "shop__look");
    refused.push(("a name twice", twice.json(&message)));
    let another_method = client.request(Method::POST).header("mcp-method", "tools/list");
    refused.push(("another method", another_method.header("mcp-name", "shop__look").json(&message)));
    for (what, pointer) in [("no capabilities", "clientCapabilities"), ("no version", "protocolVersion")] {
        let mut message = message.clone();
        let meta = message["params"]["_meta"].as_object_mut().unwrap();
        meta.remove(&format!("io.modelcontextprotocol/{pointer}"));
        refused.push((what, post().header("mcp-name", "shop__look").json(&message)));
    }
    let mut both = message.clone();
    both["result"] = json!({});
    refused.push(("a request that is an answer too", post().header("mcp-name", "shop__look").json(&both)));
    for (what, request) in refused {
        let status = request.send().await.unwrap().status();
        assert!(status.is_client_error(), "{what}: {status}");
    }
    assert_eq!(house.gateway.live(), 0);
    let answer = sent(&client, &message, "shop__look").await;
    assert_eq!(answer.status(), StatusCode::OK);
}
