//! A tool's schemas in the form that every official MCP client can read.
//!
//! Promise: no schema made here lets a client reject a whole `tools/list`, which the TypeScript client 1.x does for a property
//! `true`, for a top level without `"type": "object"`, and for an output schema that its validator does not compile. What
//! every client reads, the clients of each revision read, so there is one form for all. A schema is only ever loosened: the
//! gateway checks calls and results against the tool's own.

use rmcp::model::JsonObject;
use serde_json::{Map, Value, json};

use super::pattern::is_portable;

/// The most bytes of one schema. Clients compile output schemas while they list: a megabyte takes them seconds.
const MAX_BYTES: usize = 256 * 1024;
/// The most levels of JSON in one schema. Clients recurse, and serde_json reads at most 128 levels of a whole message.
const MAX_LEVELS: usize = 100;

/// The keywords whose value is a schema; where marked, `true` and `false` are what every client expects there.
const ONE: [(&str, Booleans); 12] = [
    ("additionalItems", Booleans::Stay),
    ("additionalProperties", Booleans::Stay),
    ("contains", Booleans::Become),
    ("contentSchema", Booleans::Become),
    ("else", Booleans::Become),
    ("if", Booleans::Become),
    ("items", Booleans::Become),
    ("not", Booleans::Become),
    ("propertyNames", Booleans::Become),
    ("then", Booleans::Become),
    ("unevaluatedItems", Booleans::Stay),
    ("unevaluatedProperties", Booleans::Stay),
];
/// The keywords whose value is an object of schemas.
const NAMED: [&str; 5] = ["$defs", "definitions", "dependentSchemas", "patternProperties", "properties"];
/// The keywords whose value is an array of schemas.
const LISTED: [&str; 5] = ["allOf", "anyOf", "items", "oneOf", "prefixItems"];
/// The keywords of an output schema that every client's validator takes the same way, beside those with schemas.
const OUTPUT_WORDS: [&str; 22] = [
    "$anchor",
    "$ref",
    "const",
    "default",
    "dependentRequired",
    "description",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "pattern",
    "required",
    "title",
];
/// The formats that validators agree on. A result must not fail in a client because its validator is stricter than ours.
const FORMATS: [&str; 5] = ["date", "date-time", "ipv4", "ipv6", "uuid"];

/// What becomes of `true` and `false` in the place of a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Booleans {
    Stay,
    Become,
}

/// What a schema is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    Input,
    Output,
}

/// Why a schema cannot be shown to clients.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum NotShown {
    #[error("the schema has {0} bytes, and clients are shown at most {MAX_BYTES}; use simpler types")]
    TooLarge(usize),
    #[error("the schema is nested more than {MAX_LEVELS} levels deep; use flatter types")]
    TooDeep,
    #[error(
        "the schema is not of an object, and MCP arguments are one; wrap the value in a struct with named fields"
    )]
    NotAnObject,
    #[error("the schema refers to {0:?}, which is not in it; keep definitions in the schema")]
    BrokenReference(String),
}

/// The dialect of JSON Schema that MCP's schemas are in.
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// A tool's input schema.
pub(super) fn input(schema: &Value) -> Result<JsonObject, NotShown> {
    let mut shown = normalised(schema, Use::Input)?;
    // The dialect that MCP means is kept where a tool names it; no client looks another one up.
    shown.retain(|key, value| key != "$schema" || value == DIALECT);
    match shown.get("type") {
        // A choice between objects says so in each branch, and clients look at the top alone.
        None => {}
        Some(Value::String(kind)) if kind == "object" => {}
        Some(Value::Array(kinds)) if kinds.iter().any(|kind| kind == "object") => {}
        Some(_) => return Err(NotShown::NotAnObject),
    }
    shown.insert("type".into(), "object".into());
    bounded(shown)
}

/// A tool's output schema, or another object where `or` says so: none where the output is not an object.
pub(super) fn output(schema: &Value, or: Option<Value>) -> Result<Option<JsonObject>, NotShown> {
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        return Ok(None);
    }
    let mut own = normalised(schema, Use::Output)?;
    let shown = match or {
        None => own,
        Some(other) => {
            let mut either = json!({ "type": "object" });
            // References to definitions start at the top, so the definitions stay there.
            for definitions in ["$defs", "definitions"] {
                if let Some(definitions_of_own) = own.remove(definitions) {
                    either[definitions] = definitions_of_own;
                }
            }
            either["anyOf"] = json!([own, other]);
            each_reference(&mut either, &mut |reference| {
                let to_definitions =
                    ["#/$defs/", "#/definitions/"].iter().any(|at| reference.starts_with(at));
                if !to_definitions && (reference == "#" || reference.starts_with("#/")) {
                    reference.insert_str(1, "/anyOf/0");
                }
            });
            match either {
                Value::Object(either) => either,
                _ => return Ok(None),
            }
        }
    };
    let mut whole = Value::Object(shown);
    let mut references = Vec::new();
    each_reference(&mut whole, &mut |reference| references.push(reference.clone()));
    if let Some(broken) = references.into_iter().find(|reference| !resolves(reference, &whole)) {
        return Err(NotShown::BrokenReference(broken));
    }
    match whole {
        Value::Object(shown) => bounded(shown).map(Some),
        _ => Ok(None),
    }
}

fn normalised(schema: &Value, its_use: Use) -> Result<JsonObject, NotShown> {
    if !is_within(schema, MAX_LEVELS) {
        return Err(NotShown::TooDeep);
    }
    let mut schema = schema.clone();
    normalise(&mut schema, its_use);
    match schema {
        Value::Object(schema) => Ok(schema),
        _ => Err(NotShown::NotAnObject),
    }
}

fn bounded(schema: JsonObject) -> Result<JsonObject, NotShown> {
    let bytes = serde_json::to_string(&schema).map_or(usize::MAX, |text| text.len());
    if bytes > MAX_BYTES { Err(NotShown::TooLarge(bytes)) } else { Ok(schema) }
}

fn is_within(value: &Value, levels: usize) -> bool {
    match value {
        Value::Object(map) => levels > 0 && map.values().all(|inner| is_within(inner, levels - 1)),
        Value::Array(items) => levels > 0 && items.iter().all(|inner| is_within(inner, levels - 1)),
        _ => true,
    }
}

/// Only where a schema can stand: a property may have the name of a keyword, and a default may look like a schema.
fn normalise(schema: &mut Value, its_use: Use) {
    let words = match schema {
        Value::Bool(true) => return *schema = json!({}),
        Value::Bool(false) => return *schema = json!({ "not": {} }),
        Value::Object(words) => words,
        _ => return,
    };
    if its_use == Use::Output {
        loosen(words);
    }
    for (word, booleans) in ONE {
        match words.get_mut(word) {
            Some(Value::Bool(_)) if booleans == Booleans::Stay => {}
            Some(Value::Array(_)) | None => {}
            Some(inner) => normalise(inner, its_use),
        }
    }
    for word in NAMED {
        if let Some(Value::Object(named)) = words.get_mut(word) {
            named.values_mut().for_each(|inner| normalise(inner, its_use));
        }
    }
    for word in LISTED {
        if let Some(Value::Array(listed)) = words.get_mut(word) {
            listed.iter_mut().for_each(|inner| normalise(inner, its_use));
        }
    }
}

/// Takes out of an output schema what some client's validator does not compile, or holds against a result that is right.
fn loosen(words: &mut Map<String, Value>) {
    let is_schema = |word: &str| {
        NAMED.contains(&word) || LISTED.contains(&word) || ONE.iter().any(|(one, _)| *one == word)
    };
    words.retain(|word, _| word == "type" || OUTPUT_WORDS.contains(&word.as_str()) || is_schema(word));
    let text =
        |words: &Map<String, Value>, word: &str| words.get(word).and_then(Value::as_str).map(str::to_owned);
    if text(words, "pattern").is_some_and(|pattern| !is_portable(&pattern)) {
        words.remove("pattern");
    }
    if text(words, "format").is_some_and(|format| !FORMATS.contains(&format.as_str())) {
        words.remove("format");
    }
    if words.get("enum").and_then(Value::as_array).is_some_and(Vec::is_empty) {
        words.remove("enum");
    }
    let patterns = words.get("patternProperties").and_then(Value::as_object);
    if patterns.is_some_and(|patterns| patterns.keys().any(|pattern| !is_portable(pattern))) {
        // What the patterns admitted, nothing else may forbid.
        for word in ["patternProperties", "additionalProperties", "unevaluatedProperties"] {
            words.remove(word);
        }
    }
    // Validators of draft 7 know `items` and `contains`, and not the words that restrict their meaning.
    if words.contains_key("prefixItems") {
        words.remove("items");
    }
    words.remove("contains");
}

/// Shows every reference of a schema to the visitor, who may change it. Data that looks like a reference is none.
pub(super) fn each_reference(schema: &mut Value, visit: &mut impl FnMut(&mut String)) {
    match schema {
        Value::Object(words) => {
            for (word, inner) in words.iter_mut().filter(|(word, _)| !is_data(word)) {
                match inner {
                    Value::String(reference) if word == "$ref" => visit(reference),
                    inner => each_reference(inner, visit),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|inner| each_reference(inner, visit)),
        _ => {}
    }
}

/// Keywords whose value is data and not a schema.
fn is_data(word: &str) -> bool {
    matches!(word, "const" | "default" | "enum" | "examples" | "example")
}

fn resolves(reference: &str, root: &Value) -> bool {
    let Some(fragment) = reference.strip_prefix('#') else { return false };
    if fragment.is_empty() || fragment.starts_with('/') {
        // A pointer in a reference is percent-encoded too; names that need it are rare, and a miss only costs the schema.
        return root.pointer(fragment).is_some();
    }
    has_anchor(root, fragment)
}

fn has_anchor(schema: &Value, name: &str) -> bool {
    match schema {
        Value::Object(words) => {
            words.get("$anchor").and_then(Value::as_str) == Some(name)
                || words.values().any(|inner| has_anchor(inner, name))
        }
        Value::Array(items) => items.iter().any(|inner| has_anchor(inner, name)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_boolean_in_the_place_of_a_schema_becomes_an_object_and_additional_properties_stay() {
        let schema = json!({ "type": "object", "additionalProperties": false, "properties": {
            "any": true, "none": false, "list": { "items": true }, "either": { "anyOf": [true, { "not": false }] },
            "properties": { "type": "object", "properties": { "true": true }, "default": { "properties": { "a": true } } }
        } });
        let shown = json!({ "type": "object", "additionalProperties": false, "properties": {
            "any": {}, "none": { "not": {} }, "list": { "items": {} }, "either": { "anyOf": [{}, { "not": { "not": {} } }] },
            "properties": { "type": "object", "properties": { "true": {} }, "default": { "properties": { "a": true } } }
        } });
        assert_eq!(Value::Object(input(&schema).unwrap()), shown);
    }

    #[test]
    fn an_input_says_at_the_top_that_it_is_an_object() {
        let choice = json!({ "oneOf": [{ "type": "object" }, { "type": "object" }] });
        assert_eq!(input(&choice).unwrap()["type"], "object");
        assert_eq!(input(&json!({ "type": ["object", "null"] })).unwrap()["type"], "object");
        assert_eq!(input(&json!(true)).unwrap(), *json!({ "type": "object" }).as_object().unwrap());
        assert_eq!(input(&json!({ "type": "string" })), Err(NotShown::NotAnObject));
    }

    #[test]
    fn an_output_keeps_what_every_validator_takes_the_same_way() {
        let schema = json!({ "type": "object", "$id": "x", "$schema": "y", "id": "z", "properties": {
            "kept": { "type": "string", "pattern": "^[a-z]+$", "format": "date", "minLength": 1 },
            "loose": { "type": "string", "pattern": "(?i)x", "format": "uri", "nullable": true, "enum": [] },
            "map": { "type": "object", "patternProperties": { "\\_": {} }, "additionalProperties": false },
            "pair": { "type": "array", "prefixItems": [true], "items": false }
        } });
        let shown = json!({ "type": "object", "properties": {
            "kept": { "type": "string", "pattern": "^[a-z]+$", "format": "date", "minLength": 1 },
            "loose": { "type": "string" },
            "map": { "type": "object" },
            "pair": { "type": "array", "prefixItems": [{}] }
        } });
        assert_eq!(output(&schema, None).unwrap().map(Value::Object), Some(shown));
        for no_object in [json!(true), json!({ "type": "string" }), json!({ "type": ["object", "null"] })] {
            assert_eq!(output(&no_object, None), Ok(None));
        }
    }

    #[test]
    fn references_of_an_output_still_point_to_what_they_meant_when_it_may_be_something_else_too() {
        let schema = json!({ "type": "object", "$defs": { "D": { "properties": { "d": { "$ref": "#/$defs/D" } } } },
            "properties": { "self": { "$ref": "#" }, "d": { "$ref": "#/$defs/D" }, "same": { "$ref": "#/properties/d" },
                "data": { "const": { "$ref": "#/nowhere" } } } });
        let shown = output(&schema, Some(json!({ "title": "Other" }))).unwrap().unwrap();
        let own = &shown["anyOf"][0]["properties"];
        assert_eq!(own["self"]["$ref"], "#/anyOf/0");
        assert_eq!(own["d"]["$ref"], "#/$defs/D");
        assert_eq!(own["same"]["$ref"], "#/anyOf/0/properties/d");
        assert_eq!(own["data"]["const"]["$ref"], "#/nowhere", "this is data");
        assert_eq!(shown["$defs"]["D"]["properties"]["d"]["$ref"], "#/$defs/D");
    }

    #[test]
    fn an_output_that_refers_to_what_it_does_not_have_is_not_shown() {
        for broken in ["#/$defs/x", "other.json", "#nowhere"] {
            let schema = json!({ "type": "object", "properties": { "a": { "$ref": broken } } });
            assert_eq!(output(&schema, None), Err(NotShown::BrokenReference(broken.into())));
        }
        let anchored =
            json!({ "type": "object", "properties": { "a": { "$ref": "#b" }, "b": { "$anchor": "b" } } });
        assert!(output(&anchored, None).is_ok());
    }

    #[test]
    fn a_schema_at_the_bounds_is_shown_and_one_past_them_is_not() {
        let of_bytes = |bytes: usize| {
            let empty = json!({ "description": "", "type": "object" });
            let filler = "x".repeat(bytes - empty.to_string().len());
            json!({ "description": filler, "type": "object" })
        };
        assert!(input(&of_bytes(MAX_BYTES)).is_ok());
        assert_eq!(input(&of_bytes(MAX_BYTES + 1)), Err(NotShown::TooLarge(MAX_BYTES + 1)));
        assert_eq!(output(&of_bytes(MAX_BYTES + 1), None), Err(NotShown::TooLarge(MAX_BYTES + 1)));
        // The innermost object is one level, and every `not` around it another.
        let of_levels = |levels: usize| (1..levels).fold(json!({}), |inner, _| json!({ "not": inner }));
        assert!(input(&of_levels(MAX_LEVELS)).is_ok());
        assert_eq!(input(&of_levels(MAX_LEVELS + 1)), Err(NotShown::TooDeep));
    }
}
