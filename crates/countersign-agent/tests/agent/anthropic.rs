//! The shapes of Anthropic's messages, as recorded streams have them.

use countersign_agent::model::{AnthropicModel, Retry};
use countersign_agent::{Agent, Message, OpaqueBlock, Prompt};
use serde_json::{Value, json};

use crate::disk::Disk;
use crate::openai;
use crate::server::{Answer, Server};
use crate::shop::{Shop, results};
use crate::wire::{KEY, Protocol, QUICK};

pub(crate) fn protocol() -> Protocol {
    Protocol {
        name: "anthropic",
        two_calls: include_str!("../recorded/anthropic.sse").to_owned(),
        says: says("Both read. ✓") + &event(&json!({ "type": "message_stop" })),
        no_last_event: says("Both read. ✓"),
        no_reason: start() + &text(0, "Both"),
        error: start()
            + &text(0, "Bo")
            + &event(
                &json!({ "type": "error", "error": { "type": "overloaded_error", "message": "Overloaded" } }),
            ),
        malformed: start() + "event: content_block_delta\ndata: {\"type\": \"content_blo\n\n",
        quoting: "{\"type\":\"content_block_stop\",\"index\":\"KEY\"}",
        bad_arguments: start()
            + &call(0, "toolu_a", "read_file", &["{\"path\": \"a"])
            + &stop("tool_use")
            + &event(&json!({ "type": "message_stop" })),
        cut_off_words: start() + &text(0, "Both") + &stop("max_tokens"),
        cut_off_call: start() + &call(0, "toolu_a", "list_files", &[]) + &stop("max_tokens"),
        refusal: "{\"type\":\"error\",\"error\":{\"type\":\"authentication_error\",\"message\":\"invalid x-api-key KEY\"}}",
        agent: |base, retry: Retry| {
            let model = AnthropicModel::at(base, "claude-test", KEY.into()).unwrap();
            Agent::builder().model(model.retry(retry))
        },
        build: |base| AnthropicModel::at(base, "claude-test", KEY.into()).map(drop),
        authorization: "x-api-key: sk-secret",
        path: "post /v1/messages http/1.1",
    }
}

fn event(data: &Value) -> String {
    format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap())
}

fn start() -> String {
    event(&json!({ "type": "message_start", "message": {
        "id": "msg_1", "type": "message", "role": "assistant", "content": [], "model": "claude-test",
        "stop_reason": null, "usage": { "input_tokens": 1, "output_tokens": 1 } } }))
        + &event(&json!({ "type": "ping" }))
}

fn text(index: u64, text: &str) -> String {
    event(
        &json!({ "type": "content_block_start", "index": index, "content_block": { "type": "text", "text": "" } }),
    ) + &event(&json!({ "type": "content_block_delta", "index": index,
            "delta": { "type": "text_delta", "text": text } }))
        + &event(&json!({ "type": "content_block_stop", "index": index }))
}

fn call(index: u64, id: &str, name: &str, pieces: &[&str]) -> String {
    let start = json!({ "type": "content_block_start", "index": index,
        "content_block": { "type": "tool_use", "id": id, "name": name, "input": {} } });
    let deltas: String = pieces
        .iter()
        .map(|piece| {
            event(&json!({ "type": "content_block_delta", "index": index,
                "delta": { "type": "input_json_delta", "partial_json": piece } }))
        })
        .collect();
    event(&start) + &deltas + &event(&json!({ "type": "content_block_stop", "index": index }))
}

fn stop(reason: &str) -> String {
    event(&json!({ "type": "message_delta", "delta": { "stop_reason": reason, "stop_sequence": null },
        "usage": { "output_tokens": 9 } }))
}

fn says(said: &str) -> String {
    start() + &text(0, said) + &stop("end_turn")
}

fn block(index: u64, block: &Value, deltas: &[Value]) -> String {
    let start = json!({ "type": "content_block_start", "index": index, "content_block": block });
    let delta = |delta| event(&json!({ "type": "content_block_delta", "index": index, "delta": delta }));
    event(&start)
        + &deltas.iter().map(delta).collect::<String>()
        + &event(&json!({ "type": "content_block_stop", "index": index }))
}

/// What the calls of a turn with these blocks come to.
async fn come_to(blocks: &str) -> Vec<String> {
    let stream = start() + blocks + &stop("tool_use") + &event(&json!({ "type": "message_stop" }));
    let (reply, ..) = protocol().chat([Answer::stream(&stream), Answer::stream(&says("Done."))]).await;
    results(&reply.unwrap())
}

fn input(json: &str) -> Value {
    json!({ "type": "input_json_delta", "partial_json": json })
}

#[tokio::test]
async fn a_call_that_comes_whole_with_its_start_is_taken_unless_pieces_follow() {
    let whole = json!({ "type": "tool_use", "id": "toolu_a", "name": "read_file", "input": { "path": "a" } });
    assert_eq!(come_to(&block(0, &whole, &[])).await, ["contents of a"]);
    assert_eq!(come_to(&block(0, &whole, &[input("")])).await, ["contents of a"]);
    assert_eq!(come_to(&block(0, &whole, &[input("{\"path\":\"b\"}")])).await, ["contents of b"]);
    let unstopped = json!({ "type": "content_block_start", "index": 0, "content_block": whole });
    assert_eq!(come_to(&event(&unstopped)).await, ["contents of a"]);
}

#[tokio::test]
async fn a_tool_that_the_server_runs_itself_is_no_call_and_no_error() {
    let theirs = json!({ "type": "server_tool_use", "id": "srvtoolu_a", "name": "web_search", "input": {} });
    let found = json!({ "type": "web_search_tool_result", "tool_use_id": "srvtoolu_a", "content": [] });
    let blocks = block(0, &theirs, &[input("{\"query\":"), input("\"a\"}")])
        + &block(1, &found, &[])
        + &call(2, "toolu_a", "read_file", &["{\"path\":\"a\"}"]);
    assert_eq!(come_to(&blocks).await, ["contents of a"]);
}

#[tokio::test]
async fn arguments_for_a_block_that_never_began_are_malformed() {
    let stray = json!({ "type": "content_block_delta", "index": 7, "delta": input("{}") });
    let (reply, ..) = protocol().chat([Answer::stream(&(start() + &event(&stray)))]).await;
    assert_eq!(reply.unwrap_err().code(), "stream_malformed");
}

const THINKING: &str = include_str!("../recorded/anthropic-thinking.sse");

/// The thoughts of the recorded stream, as they must come back.
fn thoughts() -> [Value; 2] {
    [
        json!({ "type": "thinking", "thinking": "Wo liegt ä?", "signature": "EqQBCgIYAhIM" }),
        json!({ "type": "redacted_thinking", "data": "EmwKAhgBEgy3" }),
    ]
}

/// The kinds of the blocks of an assistant's message.
fn kinds(message: &Value) -> Vec<&str> {
    message["content"].as_array().unwrap().iter().map(|block| block["type"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn thoughts_come_back_first_with_their_signatures() {
    let (reply, server, _) =
        protocol().chat([Answer::stream(THINKING), Answer::stream(&says("Done."))]).await;
    reply.unwrap();
    let message = &server.requests()[1].body["messages"][1];
    assert_eq!(kinds(message), ["thinking", "redacted_thinking", "text", "tool_use"]);
    assert_eq!(message["content"].as_array().unwrap()[..2], thoughts());
}

#[tokio::test]
async fn a_thought_without_its_signature_and_thoughts_alone_do_not_come_back() {
    let cut = block(0, &json!({ "type": "thinking", "thinking": "hm" }), &[]);
    let signed = json!({ "type": "thinking", "thinking": "hm", "signature": "EqQB" });
    let unsigned = start() + &cut + &text(1, "Both") + &stop("end_turn");
    let alone = start() + &block(0, &signed, &[]) + &stop("max_tokens");
    let server =
        Server::answering([unsigned, alone, says("Done.")].map(|stream| Answer::stream(&stream))).await;
    let agent = (protocol().agent)(&server.base, QUICK).build().unwrap();
    let mut history = Vec::new();
    for input in ["One", "Two", "Three"] {
        let prompt = Prompt::after(history, input);
        history = agent.chat(prompt).await.unwrap().messages;
    }
    let sent = server.requests()[2].body["messages"].clone();
    let expected = json!([
        { "role": "user", "content": "One" },
        { "role": "assistant", "content": [{ "type": "text", "text": "Both" }] },
        { "role": "user", "content": "Two" },
        { "role": "user", "content": "Three" },
    ]);
    assert_eq!(sent, expected);
}

#[tokio::test]
async fn thoughts_are_journaled_and_come_back_after_a_restart() {
    let (disk, shop) = (Disk::default(), Shop::default());
    let broken = Server::answering([Answer::stream(THINKING), Answer::status(400, "down")]).await;
    let agent = |base: &str| (protocol().agent)(base, QUICK).tool(shop.read()).build().unwrap();
    agent(&broken.base).run_durable(disk.session().await).await.unwrap_err();
    let server = Server::answering([Answer::stream(&says("Done."))]).await;
    agent(&server.base).run_durable(disk.session().await).await.unwrap();
    let message = &server.requests()[0].body["messages"][1];
    assert_eq!(message["content"].as_array().unwrap()[..2], thoughts());
    assert_eq!(shop.ran(), ["read_file ä"]);
}

#[tokio::test]
async fn thoughts_are_told_to_no_other_protocol() {
    let (reply, ..) = protocol().chat([Answer::stream(THINKING), Answer::stream(&says("Done."))]).await;
    let history = reply.unwrap().messages;
    let other = openai::protocol();
    let server = Server::answering([Answer::stream(&other.says)]).await;
    let agent = (other.agent)(&server.base, QUICK).build().unwrap();
    agent.chat(Prompt::after(history, "Go on")).await.unwrap();
    let sent = server.requests()[0].body.to_string();
    assert!(sent.contains("Réading") && !sent.contains("EqQB") && !sent.contains("Wo liegt"), "{sent}");
    let blocks = vec![OpaqueBlock::new("another", json!({ "type": "secret_sauce" }))];
    let history =
        vec![Message::user("Hello"), Message::Assistant { text: "Hello!".into(), calls: Vec::new(), blocks }];
    let server = Server::answering([Answer::stream(&says("Done."))]).await;
    let agent = (protocol().agent)(&server.base, QUICK).build().unwrap();
    agent.chat(Prompt::after(history, "Go on")).await.unwrap();
    assert_eq!(kinds(&server.requests()[0].body["messages"][1]), ["text"]);
}
