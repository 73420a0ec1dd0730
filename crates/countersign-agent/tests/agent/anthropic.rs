//! The shapes of Anthropic's messages, as recorded streams have them.

use countersign_agent::Agent;
use countersign_agent::model::{AnthropicModel, Retry};
use serde_json::{Value, json};

use crate::wire::{KEY, Protocol};

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
