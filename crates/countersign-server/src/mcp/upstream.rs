//! Results of upstream MCP servers, handed through to clients.
//!
//! Promise: content blocks, structured content and `_meta` are those of the server. Only three things differ: `_meta` keys of
//! the gateway's own name are the gateway's, keys of the protocol's own name belong to the hop to the server and are left
//! out, and a block that rmcp does not know becomes a text with its JSON.

use countersign_kernel::CatalogTool;
use countersign_sdk::McpRequest;
use rmcp::model::{CallToolResult, ContentBlock, MetaObject};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::schemas;

/// Prefixes of `_meta` keys that are not handed through.
const NOT_HANDED_THROUGH: [&str; 2] = ["countersign/", "io.modelcontextprotocol/"];
/// Where a tool's own output schema is in the schema of its value.
const OWN_SCHEMA: &str = "/properties/structuredContent";

/// Whether a tool's value is the result of a call of an upstream MCP tool.
pub(super) fn is_upstream_call(tool: &CatalogTool) -> bool {
    tool.tool().definition().mcp_request == Some(McpRequest::CallTool)
}

/// The output schema that the server gives an upstream tool.
pub(super) fn own_output_schema(tool: &CatalogTool) -> Option<Value> {
    let mut own = tool.output_schema().pointer(OWN_SCHEMA)?.clone();
    let in_value = format!("#{OWN_SCHEMA}");
    schemas::each_reference(&mut own, &mut |reference| {
        if let Some(rest) = reference.strip_prefix(&in_value) {
            *reference = format!("#{rest}");
        }
    });
    Some(own)
}

/// A value as the result it is; nothing where it is none, because it was too large to be kept.
pub(super) fn tool_result(value: &Value) -> Option<CallToolResult> {
    let blocks = value.get("content")?.as_array()?;
    let mut result = CallToolResult::success(blocks.iter().map(block).collect());
    // The server's own answer says nothing of an error where there is none.
    result.is_error = None;
    // Clients of the 2025 era take nothing but an object.
    result.structured_content = value.get("structuredContent").filter(|value| value.is_object()).cloned();
    result.meta = meta(value);
    Some(result)
}

/// The `_meta` of a result, as far as it is handed through.
pub(super) fn meta(result: &Value) -> Option<MetaObject> {
    let mut meta: Map<String, Value> = result.get("_meta")?.as_object()?.clone();
    meta.retain(|key, _| !NOT_HANDED_THROUGH.iter().any(|prefix| key.starts_with(prefix)));
    (!meta.is_empty()).then_some(MetaObject(meta))
}

/// The entries of a list that rmcp can read. One that it cannot read costs only itself.
pub(super) fn entries<T: DeserializeOwned>(list: Vec<Value>, source: &str) -> Vec<T> {
    let read = |entry: Value| match serde_json::from_value(entry) {
        Ok(entry) => Some(entry),
        Err(error) => {
            tracing::warn!(source, %error, "an entry of a source's list cannot be read; it is left out");
            None
        }
    };
    list.into_iter().filter_map(read).collect()
}

/// One block of content.
pub(super) fn block(block: &Value) -> ContentBlock {
    serde_json::from_value(block.clone()).unwrap_or_else(|_| ContentBlock::text(block.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// What a client is sent.
    fn sent(value: &Value) -> Value {
        let text = serde_json::to_string(&tool_result(value).unwrap()).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn every_kind_of_block_is_handed_through_as_it_is() {
        let content = json!([
            { "type": "text", "text": "a", "annotations": { "audience": ["user"], "priority": 0.7, "lastModified": "2026-01-01T00:00:00Z" }, "_meta": { "k": 1 } },
            { "type": "image", "data": "aGk=", "mimeType": "image/png", "annotations": { "priority": 0.3 } },
            { "type": "audio", "data": "aGk=", "mimeType": "audio/wav" },
            { "type": "resource_link", "uri": "file:///a", "name": "a", "title": "A", "description": "d", "mimeType": "text/plain", "size": 7 },
            { "type": "resource", "resource": { "uri": "file:///a", "mimeType": "text/plain", "text": "x" }, "annotations": { "priority": 1.0 } },
            { "type": "resource", "resource": { "uri": "file:///b", "blob": "aGk=" } },
        ]);
        let result = sent(
            &json!({ "content": content, "structuredContent": { "a": [1, null] }, "_meta": { "trace": "t" } }),
        );
        assert_eq!(result["content"], content);
        assert_eq!(result["structuredContent"], json!({ "a": [1, null] }));
        assert_eq!(result["_meta"], json!({ "trace": "t" }));
        assert!(result.get("isError").is_none());
    }

    #[test]
    fn a_server_cannot_speak_in_the_gateways_name() {
        let meta = json!({ "countersign/error": { "code": "x" }, "io.modelcontextprotocol/serverInfo": {}, "own": 1 });
        assert_eq!(sent(&json!({ "content": [], "_meta": meta }))["_meta"], json!({ "own": 1 }));
    }

    #[test]
    fn a_block_of_an_unknown_kind_becomes_a_text_and_a_value_without_content_is_no_result() {
        let result = sent(&json!({ "content": [{ "type": "hologram", "x": 1 }] }));
        assert_eq!(result["content"][0]["text"], r#"{"type":"hologram","x":1}"#);
        assert!(tool_result(&json!({ "countersign/notKept": {} })).is_none());
    }
}
