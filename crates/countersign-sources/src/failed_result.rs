//! The result of an MCP tool that says of itself that it failed (`isError`): an error with the result as its details.
//!
//! Promise: the result is kept as the server sent it within [`MAX_RESULT_BYTES`]. Beyond that, texts are cut and other blocks
//! are replaced by a text that says what is left out.

use countersign_sdk::ToolError;
use serde_json::{Value, json};

use crate::bounded::bounded;
use crate::mcp::CallOutcome;
use crate::mcp_output::value_of;
use crate::request::MAX_ERROR_BODY_BYTES;

/// The largest failed result that is kept; a failure's details have a little more room.
const MAX_RESULT_BYTES: usize = 60 * 1024;

/// The error for a failed result. Its message is the result's text.
pub(crate) fn error(outcome: CallOutcome) -> ToolError {
    let message = text_of(&outcome.content);
    ToolError::with_code("upstream_error", message).with_details(value_of(within_bounds(outcome)))
}

fn text_of(content: &[Value]) -> String {
    let texts: Vec<&str> = content.iter().filter_map(|block| block.get("text")?.as_str()).collect();
    let text =
        if texts.is_empty() { "the tool failed and does not say why".to_owned() } else { texts.join("\n") };
    bounded(&text, MAX_ERROR_BODY_BYTES)
}

fn within_bounds(mut outcome: CallOutcome) -> CallOutcome {
    let mut room = MAX_RESULT_BYTES;
    for part in [&mut outcome.structured, &mut outcome.meta] {
        let bytes = part.as_ref().map_or(0, bytes_of);
        match room.checked_sub(bytes) {
            Some(left) => room = left,
            None => *part = None,
        }
    }
    let mut kept = Vec::new();
    for block in outcome.content {
        let bytes = bytes_of(&block);
        if let Some(left) = room.checked_sub(bytes) {
            room = left;
            kept.push(block);
            continue;
        }
        let text = match block.get("text").and_then(Value::as_str) {
            // As JSON a character can be six times as long.
            Some(text) => bounded(text, room / 6),
            None => format!("A block of {bytes} bytes is left out."),
        };
        kept.push(json!({ "type": "text", "text": text }));
        break;
    }
    outcome.content = kept;
    outcome
}

fn bytes_of(value: &Value) -> usize {
    value.to_string().len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(content: &Value) -> Value {
        let content = content.as_array().unwrap().clone();
        error(CallOutcome { content, ..CallOutcome::default() }).details().unwrap().clone()
    }

    #[test]
    fn a_failed_result_is_kept_as_it_came() {
        let content = json!([{ "type": "text", "text": "no", "annotations": { "priority": 1 } },
            { "type": "image", "data": "aGk=", "mimeType": "image/png" }]);
        assert_eq!(failed(&content)["content"], content);
    }

    #[test]
    fn a_large_failed_result_is_cut_to_its_bound() {
        let long = json!([{ "type": "text", "text": "\u{1}".repeat(MAX_RESULT_BYTES) }]);
        let kept = failed(&long);
        assert!(kept.to_string().len() <= MAX_RESULT_BYTES + 1_000, "{}", kept.to_string().len());
        assert!(kept["content"][0]["text"].as_str().unwrap().starts_with('\u{1}'));
        let image = json!([{ "type": "text", "text": "no" }, { "type": "image", "data": "A".repeat(MAX_RESULT_BYTES) }]);
        let kept = failed(&image);
        assert_eq!(kept["content"][0]["text"], "no");
        assert!(kept["content"][1]["text"].as_str().unwrap().contains("left out"), "{kept}");
    }
}
