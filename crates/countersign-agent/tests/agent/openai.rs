//! The shapes of OpenAI's chat completions, as recorded streams have them.

use countersign_agent::Agent;
use countersign_agent::model::{OpenAiModel, Retry};
use serde_json::json;

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
