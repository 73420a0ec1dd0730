//! The resources and prompts of a server as tools: `files.resources.list`, `files.resources.read`, `files.resources.templates`,
//! `files.prompts.list`, `files.prompts.get`.
//!
//! They are offered where the server declares the capability, and are pinned, accepted, judged and recorded like its own
//! tools, so that nothing of a source goes around the gate. They only read. Their definitions are ours and never change; the
//! server's own tools cannot take their origins ([`is_reserved`]) or their names.

use countersign_sdk::{Effects, McpRequest, Resumable};
use serde_json::{Map, Value, json};

use crate::offer::OfferedTool;

/// The requests that can be tools.
const ALL: [McpRequest; 5] = [
    McpRequest::ListResources,
    McpRequest::ListResourceTemplates,
    McpRequest::ReadResource,
    McpRequest::ListPrompts,
    McpRequest::GetPrompt,
];

/// The prefix of the origin of such a tool.
const ORIGIN: &str = "request ";
/// What a result says to the next hop only: it is no part of a tool's value.
const HOP_FIELDS: [&str; 3] = ["resultType", "ttlMs", "cacheScope"];

/// The tools of what a server declares.
pub(super) fn offered(capabilities: &Value) -> Vec<OfferedTool> {
    let declared =
        |request: &McpRequest| capabilities.get(capability(*request)).is_some_and(Value::is_object);
    ALL.into_iter().filter(declared).map(tool).collect()
}

/// The request that an offered tool stands for; `tools/call` for the server's own tools.
pub(crate) fn request_of(origin: &str) -> McpRequest {
    let Some(method) = origin.strip_prefix(ORIGIN) else { return McpRequest::CallTool };
    ALL.into_iter().find(|request| request.method() == method).unwrap_or(McpRequest::CallTool)
}

/// Whether a tool of the server has the origin of one of ours.
pub(super) fn is_reserved(origin: &str) -> bool {
    request_of(origin) != McpRequest::CallTool
}

/// A result as the value of its tool.
pub(super) fn value(mut result: Value) -> Value {
    if let Some(fields) = result.as_object_mut() {
        for field in HOP_FIELDS {
            fields.remove(field);
        }
    }
    result
}

/// The parameters of a request, from a tool's arguments.
pub(super) fn params(request: McpRequest, mut arguments: Map<String, Value>) -> Value {
    if request == McpRequest::GetPrompt {
        // Some servers refuse a prompt without arguments unless they are told so.
        arguments.entry("arguments").or_insert_with(|| json!({}));
    }
    Value::Object(arguments)
}

fn origin_of(request: McpRequest) -> String {
    format!("{ORIGIN}{}", request.method())
}

fn capability(request: McpRequest) -> &'static str {
    match request {
        McpRequest::ListPrompts | McpRequest::GetPrompt => "prompts",
        McpRequest::CallTool => "tools",
        McpRequest::ListResources | McpRequest::ListResourceTemplates | McpRequest::ReadResource => {
            "resources"
        }
    }
}

fn tool(request: McpRequest) -> OfferedTool {
    let (name, title, description) = match request {
        McpRequest::ListResources => (
            "resources.list",
            "List resources",
            "Lists the resources of this MCP server, one page at a time.",
        ),
        McpRequest::ListResourceTemplates => (
            "resources.templates",
            "List resource templates",
            "Lists the templates of the resource URIs that this MCP server can read, one page at a time.",
        ),
        McpRequest::ReadResource => {
            ("resources.read", "Read a resource", "Reads a resource of this MCP server by its URI.")
        }
        McpRequest::ListPrompts => {
            ("prompts.list", "List prompts", "Lists the prompts of this MCP server, one page at a time.")
        }
        McpRequest::GetPrompt | McpRequest::CallTool => {
            ("prompts.get", "Get a prompt", "Gets a prompt of this MCP server, filled in with its arguments.")
        }
    };
    OfferedTool {
        name: name.to_owned(),
        title: Some(title.to_owned()),
        description: description.to_owned(),
        input_schema: input(request).into(),
        output_schema: Some(output(request).into()),
        server: None,
        effects: Effects {
            destructive: false,
            idempotent: true,
            open_world: true,
            read_only: true,
            resumable: Resumable::Unsaid,
        },
        origin: origin_of(request),
    }
}

fn input(request: McpRequest) -> Value {
    let object = |properties: Value, required: &[&str]| json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false });
    match request {
        McpRequest::ReadResource => object(json!({ "uri": { "type": "string" } }), &["uri"]),
        McpRequest::GetPrompt => {
            let arguments = json!({ "type": "object", "additionalProperties": { "type": "string" } });
            object(json!({ "name": { "type": "string" }, "arguments": arguments }), &["name"])
        }
        _ => {
            let about = "The nextCursor of the page before.";
            object(json!({ "cursor": { "type": "string", "description": about } }), &[])
        }
    }
}

fn output(request: McpRequest) -> Value {
    let list = match request {
        McpRequest::ListResources => "resources",
        McpRequest::ListResourceTemplates => "resourceTemplates",
        McpRequest::ReadResource => "contents",
        McpRequest::ListPrompts => "prompts",
        McpRequest::GetPrompt | McpRequest::CallTool => "messages",
    };
    let mut properties = json!({ list: { "type": "array", "items": { "type": "object" } } });
    if matches!(
        request,
        McpRequest::ListResources | McpRequest::ListResourceTemplates | McpRequest::ListPrompts
    ) {
        properties["nextCursor"] = json!({ "type": "string" });
    }
    json!({ "type": "object", "properties": properties, "required": [list] })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_offers_what_it_declares_and_nothing_else() {
        let names = |capabilities: Value| -> Vec<String> {
            offered(&capabilities).into_iter().map(|tool| tool.name).collect()
        };
        assert!(names(json!({ "tools": {} })).is_empty());
        assert_eq!(
            names(json!({ "resources": { "subscribe": true } })),
            ["resources.list", "resources.templates", "resources.read"]
        );
        assert_eq!(names(json!({ "prompts": {} })), ["prompts.list", "prompts.get"]);
    }

    #[test]
    fn the_origin_says_which_request_a_tool_stands_for() {
        for tool in offered(&json!({ "resources": {}, "prompts": {} })) {
            assert_eq!(tool.origin, format!("request {}", request_of(&tool.origin).method()));
            assert!(is_reserved(&tool.origin));
        }
        assert_eq!(request_of("resources/read"), McpRequest::CallTool, "a server may call its own tool so");
    }
}
