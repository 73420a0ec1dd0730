//! From what a server lists to an [`Offer`]: pure, one tool at a time, so that a broken one costs only itself.

use std::collections::BTreeMap;

use countersign_core::compact::CompactJson;
use countersign_sdk::Effects;
use serde_json::{Map, Value, json};

use crate::mcp::config::Annotations;
use crate::mcp::names::path_words;
use crate::mcp::requests;
use crate::offer::{Offer, OfferedTool, Unmapped};

/// The largest definition of one tool.
pub const MAX_TOOL_BYTES: usize = 256 << 10;
/// The longest origin shown for a tool that has no usable name.
const MAX_ORIGIN_CHARS: usize = 80;

/// What else goes into an offer.
#[derive(Default)]
pub(super) struct Beside {
    /// The tools that stand for the server's resources and prompts.
    pub(super) requests: Vec<OfferedTool>,
    /// Those of the listing.
    pub(super) warnings: Vec<String>,
}

/// Maps the listed tools.
pub(super) fn offer(listed: Vec<Value>, annotations: Annotations, beside: Beside) -> Offer {
    let mut offer = Offer { warnings: beside.warnings, ..Offer::default() };
    let mut named: BTreeMap<String, Value> = BTreeMap::new();
    let mut refuse = |origin: String, reason: &str| {
        offer.unmapped.push(Unmapped { origin, reason: reason.to_owned() });
    };
    for tool in listed {
        match tool.get("name").and_then(Value::as_str).map(str::to_owned) {
            None => refuse(shown(&tool), "the tool has no name"),
            Some(name) if named.contains_key(&name) => refuse(name, "the server lists this name twice"),
            Some(name) if requests::is_reserved(&name) => {
                refuse(name, "its name is the one by which a request of the protocol is known here");
            }
            Some(name) => match check(&tool) {
                Ok(()) => drop(named.insert(name, tool)),
                Err(reason) => refuse(name, &reason),
            },
        }
    }
    let taken: Vec<&str> = beside.requests.iter().map(|tool| tool.name.as_str()).collect();
    let words = path_words(named.keys().map(String::as_str), &taken);
    for (origin, tool) in named {
        let name = words.get(&origin).cloned().unwrap_or_default();
        offer.tools.push(offered(name, origin, &tool, annotations, &mut offer.warnings));
    }
    offer.tools.extend(beside.requests);
    offer.tools.sort_by(|a, b| a.name.cmp(&b.name));
    offer
}

fn offered(
    name: String,
    origin: String,
    tool: &Value,
    annotations: Annotations,
    warnings: &mut Vec<String>,
) -> OfferedTool {
    let text = |key: &str| tool.get(key).and_then(Value::as_str).map(str::to_owned);
    let title = text("title")
        .or_else(|| tool.pointer("/annotations/title").and_then(Value::as_str).map(str::to_owned));
    let output_schema = tool.get("outputSchema").filter(|schema| !schema.is_null()).and_then(|schema| {
        match compile(schema) {
            Ok(()) => Some(CompactJson::of(schema)),
            Err(reason) => {
                warnings.push(format!("{origin}: its output schema is left out: {reason}"));
                None
            }
        }
    });
    OfferedTool {
        name,
        title,
        description: text("description").unwrap_or_default(),
        input_schema: input_schema(tool).into(),
        output_schema,
        server: None,
        effects: effects(tool.get("annotations"), annotations),
        origin,
    }
}

/// Why a tool cannot be offered.
fn check(tool: &Value) -> Result<(), String> {
    if serde_json::to_string(tool).map_or(usize::MAX, |text| text.len()) > MAX_TOOL_BYTES {
        return Err(format!("its definition is larger than {MAX_TOOL_BYTES} bytes"));
    }
    if tool.pointer("/execution/taskSupport").and_then(Value::as_str) == Some("required") {
        return Err("it can only be called as a task, which is not supported".to_owned());
    }
    let schema = tool.get("inputSchema").ok_or("it has no input schema")?;
    let Value::Object(schema) = schema else { return Err("its input schema is no object".to_owned()) };
    match schema.get("type") {
        None => {}
        Some(Value::String(kind)) if kind == "object" => {}
        Some(_) => return Err("its input schema does not describe an object".to_owned()),
    }
    compile(&Value::Object(schema.clone())).map_err(|reason| format!("its input schema is invalid: {reason}"))
}

fn compile(schema: &Value) -> Result<(), String> {
    if !schema.is_object() {
        return Err("it is no object".to_owned());
    }
    if let Some(elsewhere) = foreign_reference(schema) {
        return Err(format!("it refers to {elsewhere:?}, which is not part of it"));
    }
    jsonschema::options().build(schema).map(drop).map_err(|error| error.to_string())
}

/// A reference that leads out of the schema. It is never fetched.
fn foreign_reference(value: &Value) -> Option<&str> {
    match value {
        Value::Object(map) => map
            .get("$ref")
            .and_then(Value::as_str)
            .filter(|reference| reference.contains("://") || reference.starts_with('/'))
            .or_else(|| map.values().find_map(foreign_reference)),
        Value::Array(items) => items.iter().find_map(foreign_reference),
        _ => None,
    }
}

fn input_schema(tool: &Value) -> Value {
    let mut schema = tool.get("inputSchema").and_then(Value::as_object).cloned().unwrap_or_else(Map::new);
    schema.entry("type").or_insert_with(|| json!("object"));
    Value::Object(schema)
}

/// What a tool does. Where the server is not trusted, or says nothing, the worst that the protocol assumes.
fn effects(said: Option<&Value>, annotations: Annotations) -> Effects {
    let worst = Effects {
        destructive: true,
        idempotent: false,
        open_world: true,
        read_only: false,
        ..Effects::default()
    };
    if annotations == Annotations::Ignore {
        return worst;
    }
    let hint = |key: &str, unsaid: bool| {
        said.and_then(|said| said.get(key)).and_then(Value::as_bool).unwrap_or(unsaid)
    };
    let read_only = hint("readOnlyHint", false);
    Effects {
        read_only,
        destructive: !read_only && hint("destructiveHint", true),
        idempotent: hint("idempotentHint", false),
        open_world: hint("openWorldHint", true),
        ..Effects::default()
    }
}

fn shown(tool: &Value) -> String {
    tool.to_string().chars().take(MAX_ORIGIN_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_sdk::EffectClass;

    fn tool(name: &str) -> Value {
        json!({ "name": name, "description": "d", "inputSchema": { "type": "object" } })
    }

    fn with(name: &str, key: &str, value: Value) -> Value {
        let mut tool = tool(name);
        tool[key] = value;
        tool
    }

    fn mapped(listed: Vec<Value>) -> Offer {
        offer(listed, Annotations::Ignore, Beside::default())
    }

    #[test]
    fn one_bad_tool_does_not_spoil_the_list() {
        let bad = vec![
            json!(7),
            json!({ "name": 7 }),
            json!({ "name": "no_schema" }),
            with("schema_is_text", "inputSchema", json!("object")),
            with("schema_is_list", "inputSchema", json!({ "type": "array" })),
            with(
                "bad_type",
                "inputSchema",
                json!({ "type": "object", "properties": { "a": { "type": "nonsense" } } }),
            ),
            with("bad_pattern", "inputSchema", json!({ "properties": { "a": { "pattern": "(" } } })),
            with("dangling", "inputSchema", json!({ "properties": { "a": { "$ref": "#/$defs/none" } } })),
            with(
                "remote",
                "inputSchema",
                json!({ "properties": { "a": { "$ref": "http://127.0.0.1:1/s" } } }),
            ),
            with("file", "inputSchema", json!({ "properties": { "a": { "$ref": "file:///etc/passwd" } } })),
            with("task", "execution", json!({ "taskSupport": "required" })),
            with("huge", "description", json!("x".repeat(MAX_TOOL_BYTES))),
        ];
        let count = bad.len();
        let offer = mapped([bad, vec![tool("good"), tool("good")]].concat());
        assert_eq!(offer.tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), ["good"]);
        assert_eq!(offer.unmapped.len(), count + 1, "{:#?}", offer.unmapped);
        assert!(offer.unmapped.iter().all(|unmapped| !unmapped.reason.is_empty()));
    }

    #[test]
    fn a_tool_of_the_server_cannot_stand_in_for_a_request_of_the_protocol() {
        let requests = requests::offered(&json!({ "resources": {} }));
        let (origin, beside) = (requests[2].origin.clone(), Beside { requests, ..Beside::default() });
        let listed = vec![tool(&origin), tool("resources/read")];
        let offer = offer(listed, Annotations::Ignore, beside);
        assert_eq!(offer.unmapped[0].origin, origin);
        let named =
            |name: &str| offer.tools.iter().find(|tool| tool.name == name).map(|tool| tool.origin.as_str());
        assert_eq!(named("resources.read"), Some(origin.as_str()));
        let own = offer.tools.iter().find(|tool| tool.origin == "resources/read").unwrap();
        assert!(own.name.starts_with("resources.read_"), "{}", own.name);
    }

    #[test]
    fn a_bad_output_schema_costs_only_itself() {
        let offer = mapped(vec![with("a", "outputSchema", json!({ "type": "nonsense" }))]);
        assert_eq!((offer.tools.len(), &offer.tools[0].output_schema), (1, &None));
        assert_eq!(offer.warnings.len(), 1);
    }

    #[test]
    fn annotations_count_only_where_the_operator_trusts_the_source() {
        let class = |annotations: Value, trust| {
            offer(vec![with("a", "annotations", annotations)], trust, Beside::default()).tools[0]
                .effects
                .class()
        };
        let (ignore, trust) = (Annotations::Ignore, Annotations::Trust);
        assert_eq!(class(json!({ "readOnlyHint": true }), ignore), EffectClass::Destroys);
        assert_eq!(class(json!({ "readOnlyHint": true }), trust), EffectClass::Reads);
        assert_eq!(class(json!({ "destructiveHint": false }), trust), EffectClass::Writes);
        assert_eq!(class(json!({}), trust), EffectClass::Destroys);
        assert_eq!(class(json!({ "readOnlyHint": "yes" }), trust), EffectClass::Destroys);
    }

    #[test]
    fn a_definition_larger_than_its_bound_is_refused_and_one_at_it_is_not() {
        let empty = serde_json::to_string(&with("a", "description", json!(""))).unwrap().len();
        let at_bound =
            |extra| mapped(vec![with("a", "description", json!("x".repeat(MAX_TOOL_BYTES - empty + extra)))]);
        assert_eq!((at_bound(0).tools.len(), at_bound(1).tools.len()), (1, 0));
    }
}
