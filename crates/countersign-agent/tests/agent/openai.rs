//! The shapes of OpenAI's chat completions, as recorded streams have them.

use countersign_agent::Agent;
use countersign_agent::model::{OpenAiModel, Retry};
use serde_json::json;

use crate::server::Answer;
use crate::shop::results;
use crate::wire::{KEY, Protocol};

pub(crate) fn protocol() -> Protocol {
    Protocol {
        name: "openai",
        two_calls: include_str!("../recorded/openai.sse").to_owned(),
        says: says("Both read. ✓"),
        no_last_event: says("Both read. ✓").replace("data: [DONE]\n\n", ""),
        no_reason: chunk(&json!({ "content": "Both" }), None),
        error: chunk(&json!({ "content": "Bo" }), None)
            + "data: {\"error\":{\"message\":\"The server had an error\",\"type\":\"server_error\",\"code\":null}}\n\n",
        malformed: chunk(&json!({ "content": "Bo" }), None) + "data: {\"choices\": [{\n\n",
        quoting: "{\"choices\":\"KEY\"}",
        bad_arguments: chunk(&call(0, Some("call_a"), Some("read_file"), "{\"path\": \"a"), None)
            + &chunk(&json!({}), Some("tool_calls"))
            + "data: [DONE]\n\n",
        cut_off_words: chunk(&json!({ "content": "Both" }), None) + &chunk(&json!({}), Some("length")),
        cut_off_call: chunk(&call(0, Some("call_a"), Some("list_files"), ""), None)
            + &chunk(&json!({}), Some("length")),
        refusal: "{\"error\":{\"message\":\"Incorrect API key provided: KEY\",\"type\":\"invalid_request_error\"}}",
        agent: |base, retry: Retry| {
            let model = OpenAiModel::at(&format!("{base}/v1/"), "gpt-test", KEY.into()).unwrap();
            Agent::builder().model(model.retry(retry).option("temperature", json!(0)))
        },
        build: |base| OpenAiModel::at(base, "gpt-test", KEY.into()).map(drop),
        authorization: "authorization: bearer sk-secret",
        path: "post /v1/chat/completions http/1.1",
    }
}

fn chunk(delta: &serde_json::Value, reason: Option<&str>) -> String {
    let chunk = json!({
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "model": "gpt-test",
        "choices": [{ "index": 0, "delta": delta, "logprobs": null, "finish_reason": reason }],
    });
    format!("data: {chunk}\n\n")
}

fn call(index: u64, id: Option<&str>, name: Option<&str>, arguments: &str) -> serde_json::Value {
    let mut call = json!({ "index": index, "function": { "arguments": arguments } });
    if let Some(id) = id {
        call["id"] = json!(id);
        call["type"] = json!("function");
    }
    if let Some(name) = name {
        call["function"]["name"] = json!(name);
    }
    json!({ "tool_calls": [call] })
}

fn says(text: &str) -> String {
    chunk(&json!({ "role": "assistant", "content": text }), None)
        + &chunk(&json!({}), Some("stop"))
        + "data: [DONE]\n\n"
}

/// What two reading calls come to when the server tells them apart like this, chunk by chunk.
async fn told_apart(chunks: &[serde_json::Value]) -> Vec<String> {
    let calls: String = chunks.iter().map(|calls| chunk(&json!({ "tool_calls": calls }), None)).collect();
    let stream = calls + &chunk(&json!({}), Some("tool_calls")) + "data: [DONE]\n\n";
    let (reply, ..) = protocol().chat([Answer::stream(&stream), Answer::stream(&says("Done."))]).await;
    results(&reply.unwrap())
}

fn begins(id: &str, arguments: &str) -> serde_json::Value {
    json!({ "id": id, "type": "function", "function": { "name": "read_file", "arguments": arguments } })
}

fn with_index(index: u64, mut call: serde_json::Value) -> serde_json::Value {
    call["index"] = json!(index);
    call
}

#[tokio::test]
async fn calls_are_told_apart_by_their_ids_where_their_index_does_not() {
    let (a, b) = ("{\"path\":\"a\"}", "{\"path\":\"b\"}");
    let both = ["contents of a", "contents of b"];
    // Ollama: every call has index 0, and comes whole.
    let zeros = |call| with_index(0, call);
    assert_eq!(told_apart(&[json!([zeros(begins("x", a))]), json!([zeros(begins("y", b))])]).await, both);
    assert_eq!(told_apart(&[json!([zeros(begins("x", a)), zeros(begins("y", b))])]).await, both);
    // Older ones: no index at all.
    assert_eq!(told_apart(&[json!([begins("x", a)]), json!([begins("y", b)])]).await, both);
    assert_eq!(told_apart(&[json!([begins("x", a), begins("y", b)])]).await, both);
}

#[tokio::test]
async fn arguments_without_an_id_go_on_with_the_last_call_of_their_index() {
    let more = |index: u64, arguments: &str| {
        json!([with_index(index, json!({ "function": { "arguments": arguments } }))])
    };
    let both = ["contents of a", "contents of b"];
    let same_index = [
        json!([with_index(0, begins("x", "{\"path\":"))]),
        more(0, "\"a\"}"),
        json!([with_index(0, begins("y", "{\"path\":"))]),
        more(0, "\"b\"}"),
    ];
    assert_eq!(told_apart(&same_index).await, both);
    let interleaved = [
        json!([with_index(0, begins("x", "{\"path\":"))]),
        json!([with_index(1, begins("y", "{\"path\":"))]),
        more(0, "\"a\"}"),
        more(1, "\"b\"}"),
    ];
    assert_eq!(told_apart(&interleaved).await, both);
    // Some repeat the id with every piece.
    let repeated = [
        json!([with_index(0, begins("x", "{\"path\":"))]),
        json!([with_index(0, json!({ "id": "x", "function": { "arguments": "\"a\"}" } }))]),
    ];
    assert_eq!(told_apart(&repeated).await, ["contents of a"]);
}

#[tokio::test]
async fn arguments_are_told_back_to_the_letter_or_as_an_object_that_shows_them() {
    for (written, told_back) in [
        ("{ \"path\": \"a\" }", "{ \"path\": \"a\" }"),
        ("{\"path\": \"a", "{\"malformed\":\"{\\\"path\\\": \\\"a\"}"),
        ("[1]", "{\"malformed\":\"[1]\"}"),
        ("", "{}"),
    ] {
        let stream = chunk(&call(0, Some("call_a"), Some("read_file"), written), None)
            + &chunk(&json!({}), Some("tool_calls"));
        let answers = [Answer::stream(&stream), Answer::stream(&says("Done."))];
        let (_, server, _) = protocol().chat(answers).await;
        let call = &server.requests()[1].body["messages"][2]["tool_calls"][0];
        assert_eq!(call["function"]["arguments"], json!(told_back));
    }
}
