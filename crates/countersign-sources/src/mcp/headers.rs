//! The headers of one request, and what a connection remembers for them. Pure.

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::header::{HeaderMap, HeaderName};
use serde_json::Value;

/// From this version on a request says in its headers what it is.
const FIRST_WITH_STANDARD_HEADERS: &str = "2026-07-28";
const VERSION_IN_META: &str = "/params/_meta/io.modelcontextprotocol~1protocolVersion";

/// What is remembered of a session.
#[derive(Debug, Default)]
pub(super) struct Session {
    /// Given by a legacy server when it is initialised.
    pub(super) id: Option<String>,
    version: Option<String>,
    /// Arguments that a tool wants in headers too, by the tool's name (`x-mcp-header`, SEP-2243).
    promoted: HashMap<String, Vec<PromotedArgument>>,
}

/// An argument that goes into a header.
#[derive(Debug)]
struct PromotedArgument {
    /// A JSON pointer into the arguments.
    pointer: String,
    header: String,
}

impl Session {
    /// Notes the session that an answer to `initialize` gives.
    pub(super) fn learn(&mut self, headers: &HeaderMap, request: &Value) {
        if request["method"] == "initialize" {
            let id = headers.get("mcp-session-id").and_then(|value| value.to_str().ok());
            self.id = id.map(str::to_owned);
        }
        if let Some(version) = request.pointer(VERSION_IN_META).and_then(Value::as_str)
            && request["method"] != "server/discover"
        {
            self.version = Some(version.to_owned());
        }
    }

    /// Notes the version that an answer to `initialize` names, and what the tools of a list want in headers.
    pub(super) fn learn_answer(&mut self, answer: &Value) {
        for tool in answer.pointer("/result/tools").and_then(Value::as_array).into_iter().flatten() {
            let mut promoted = Vec::new();
            collect_promoted(tool.pointer("/inputSchema/properties"), "", &mut promoted);
            let name = tool.get("name").and_then(Value::as_str);
            if let (Some(name), false) = (name, promoted.is_empty()) {
                self.promoted.insert(name.to_owned(), promoted);
            }
        }
        if self.version.is_none()
            && let Some(version) = answer.pointer("/result/protocolVersion").and_then(Value::as_str)
        {
            self.version = Some(version.to_owned());
        }
    }

    pub(super) fn is_modern(&self) -> bool {
        self.version.as_deref().is_some_and(|version| version >= FIRST_WITH_STANDARD_HEADERS)
    }
}

/// The headers of a request with this body.
pub(super) fn request_headers(session: &Session, body: Option<&Value>) -> Vec<(String, String)> {
    let mut headers = vec![("Accept".to_owned(), "application/json, text/event-stream".to_owned())];
    let mut add = |name: &str, value: String| headers.push((name.to_owned(), value));
    if body.is_some() {
        add("Content-Type", "application/json".to_owned());
    }
    if let Some(id) = &session.id {
        add("Mcp-Session-Id", id.clone());
    }
    let said = body.and_then(|body| body.pointer(VERSION_IN_META)).and_then(Value::as_str);
    let Some(version) = said.or(session.version.as_deref()) else { return headers };
    add("MCP-Protocol-Version", version.to_owned());
    let method = body.and_then(|body| body.get("method")).and_then(Value::as_str);
    if let (true, Some(body), Some(method)) = (version >= FIRST_WITH_STANDARD_HEADERS, body, method) {
        add("Mcp-Method", method.to_owned());
        let name = match method {
            "tools/call" | "prompts/get" => body.pointer("/params/name"),
            "resources/read" => body.pointer("/params/uri"),
            _ => None,
        };
        if let Some(name) = name.and_then(Value::as_str) {
            add("Mcp-Name", header_text(name));
        }
    }
    if method == Some("tools/call") && version >= FIRST_WITH_STANDARD_HEADERS {
        headers.extend(body.map(|body| argument_headers(session, body)).unwrap_or_default());
    }
    headers
}

/// The headers for arguments that the called tool wants there.
fn argument_headers(session: &Session, body: &Value) -> Vec<(String, String)> {
    let name = body.pointer("/params/name").and_then(Value::as_str).unwrap_or_default();
    let promoted = session.promoted.get(name).map(Vec::as_slice).unwrap_or_default();
    promoted
        .iter()
        .filter_map(|argument| {
            let value = match body.pointer("/params/arguments")?.pointer(&argument.pointer)? {
                Value::String(text) => text.clone(),
                value @ (Value::Bool(_) | Value::Number(_)) => value.to_string(),
                _ => return None,
            };
            Some((format!("Mcp-Param-{}", argument.header), header_text(&value)))
        })
        .collect()
}

fn collect_promoted(properties: Option<&Value>, at: &str, promoted: &mut Vec<PromotedArgument>) {
    for (name, schema) in properties.and_then(Value::as_object).into_iter().flatten() {
        let pointer = format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"));
        let header = schema.get("x-mcp-header").and_then(Value::as_str);
        if let Some(header) = header.filter(|header| HeaderName::try_from(*header).is_ok()) {
            promoted.push(PromotedArgument { pointer: pointer.clone(), header: header.to_owned() });
        }
        collect_promoted(schema.get("properties"), &pointer, promoted);
    }
}

/// Text that may not stand in a header as it is goes in base64, marked as such (SEP-2243).
fn header_text(text: &str) -> String {
    let is_plain = text.bytes().all(|byte| (0x20..=0x7e).contains(&byte))
        && text.trim() == text
        && !(text.starts_with("=?base64?") && text.ends_with("?="));
    if is_plain { text.to_owned() } else { format!("=?base64?{}?=", STANDARD.encode(text)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn header<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
        headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    #[test]
    fn a_modern_request_says_its_method_and_name() {
        let body = json!({ "method": "tools/call", "params": {
            "name": "größe", "_meta": { "io.modelcontextprotocol/protocolVersion": "2026-07-28" } } });
        let headers = request_headers(&Session::default(), Some(&body));
        assert_eq!(header(&headers, "MCP-Protocol-Version"), Some("2026-07-28"));
        assert_eq!(header(&headers, "Mcp-Method"), Some("tools/call"));
        assert_eq!(header(&headers, "Mcp-Name"), Some("=?base64?Z3LDtsOfZQ==?="));
    }

    #[test]
    fn arguments_that_a_tool_wants_in_headers_are_put_there() {
        let mut session = Session::default();
        let properties = json!({ "region": { "type": "string", "x-mcp-header": "Region" },
            "deep": { "properties": { "n": { "x-mcp-header": "N" }, "bad": { "x-mcp-header": "a b" } } } });
        session.learn_answer(
            &json!({ "result": { "tools": [{ "name": "t", "inputSchema": { "properties": properties } }] } }),
        );
        let body = json!({ "method": "tools/call", "params": { "name": "t",
            "arguments": { "region": "eu", "deep": { "n": 7, "bad": "x" } },
            "_meta": { "io.modelcontextprotocol/protocolVersion": "2026-07-28" } } });
        let headers = request_headers(&session, Some(&body));
        assert_eq!(
            (header(&headers, "Mcp-Param-Region"), header(&headers, "Mcp-Param-N")),
            (Some("eu"), Some("7"))
        );
        assert_eq!(headers.iter().filter(|(name, _)| name.starts_with("Mcp-Param-")).count(), 2);
    }

    #[test]
    fn a_legacy_session_is_remembered_from_its_initialisation() {
        let mut session = Session::default();
        let mut answered = HeaderMap::new();
        answered.insert("mcp-session-id", "s-1".parse().unwrap());
        session.learn(&answered, &json!({ "method": "initialize" }));
        session.learn_answer(&json!({ "result": { "protocolVersion": "2025-11-25" } }));
        let headers = request_headers(&session, Some(&json!({ "method": "tools/list" })));
        assert_eq!(header(&headers, "Mcp-Session-Id"), Some("s-1"));
        assert_eq!(header(&headers, "MCP-Protocol-Version"), Some("2025-11-25"));
        assert_eq!(header(&headers, "Mcp-Method"), None);
        assert!(!session.is_modern());
    }
}
