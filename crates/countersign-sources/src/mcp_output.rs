//! The value of an upstream MCP tool, and its schema.
//!
//! The value is the result as the server sent it, `{ "content": […], "structuredContent"?: …, "_meta"?: … }`, for every
//! caller. The journal must have all of it, because a client may fetch the result after a restart; and a script sees in the
//! declaration which parts there are: `result.structuredContent.temperature`, `result.content[0].text`. Reshaping it by what
//! one result happens to hold would give a script two shapes from one tool.

use serde_json::{Map, Value, json};

use crate::mcp::CallOutcome;

/// Where a tool's own output schema is in the schema of its value.
const OWN_SCHEMA: &str = "/properties/structuredContent";

/// A result as a value.
pub(crate) fn value_of(outcome: CallOutcome) -> Value {
    let mut value = Map::new();
    value.insert("content".to_owned(), Value::Array(outcome.content));
    if let Some(structured) = outcome.structured {
        value.insert("structuredContent".to_owned(), structured);
    }
    if let Some(meta) = outcome.meta {
        value.insert("_meta".to_owned(), meta);
    }
    Value::Object(value)
}

/// The schema of [`value_of`], for a tool with this output schema.
pub(crate) fn mcp_output(own: Option<Value>) -> Value {
    let mut properties = json!({ "content": { "type": "array", "items": { "type": "object" } } });
    let mut required = vec!["content"];
    let mut dialect = None;
    if let Some(mut own) = own {
        moved(&mut own);
        dialect = own.as_object_mut().and_then(|own| own.remove("$schema"));
        properties["structuredContent"] = own;
        required.push("structuredContent");
    }
    let mut schema = json!({ "type": "object", "properties": properties, "required": required });
    if let Some(dialect) = dialect {
        schema["$schema"] = dialect;
    }
    schema
}

/// References start at the top of a schema, and this one no longer is the top.
fn moved(schema: &mut Value) {
    match schema {
        Value::Object(words) => {
            for (word, inner) in words.iter_mut() {
                match inner {
                    Value::String(reference) if word == "$ref" => {
                        if reference == "#" || reference.starts_with("#/") {
                            reference.insert_str(1, OWN_SCHEMA);
                        }
                    }
                    _ if matches!(word.as_str(), "const" | "default" | "enum" | "examples") => {}
                    inner => moved(inner),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(moved),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_of_a_tools_own_schema_still_mean_what_they_meant() {
        let own = json!({
            "$schema": "http://json-schema.org/draft-07/schema#", "type": "object",
            "$defs": { "Node": { "type": "object", "properties": { "next": { "$ref": "#/$defs/Node" } }, "required": ["id"] } },
            "properties": { "first": { "$ref": "#/$defs/Node" }, "whole": { "$ref": "#" }, "data": { "const": { "$ref": "#/x" } } },
        });
        let schema = mcp_output(Some(own.clone()));
        assert_eq!(schema["$schema"], own["$schema"]);
        let validator = jsonschema::validator_for(&schema).unwrap();
        let with = |structured: Value| json!({ "content": [], "structuredContent": structured });
        assert!(validator.is_valid(&with(json!({ "first": { "id": 1, "next": { "id": 2 } } }))));
        assert!(!validator.is_valid(&with(json!({ "first": { "id": 1, "next": {} } }))));
        assert!(!validator.is_valid(&with(json!({ "whole": { "first": {} } }))));
        assert!(validator.is_valid(&with(json!({ "data": { "$ref": "#/x" } }))), "data is no reference");
        assert!(!validator.is_valid(&json!({ "content": [] })));
    }
}
