//! The schemas that a person can be asked to fill in.
//!
//! MCP clients render only flat objects of primitives, so anything else is refused where the handler asks, before
//! anybody is disturbed. [`FormSchema`] is the proof that a schema passed.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::Violation;

/// The most properties one form may have.
const MAX_FORM_PROPERTIES: usize = 50;

/// A schema that every client can show: an object whose properties are primitives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FormSchema(Value);

/// Why a schema cannot be a form. Reported as `invalid_params` (−32602).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FormSchemaError {
    /// The top level is not an object schema.
    #[error("a form schema is an object at the top level: {{ \"type\": \"object\", \"properties\": … }}")]
    NotAnObject,
    /// A combinator at the top level.
    #[error("a form schema may not have \"{0}\" at the top level; ask one question per call")]
    Combinator(&'static str),
    /// A property that no client can show as one field.
    #[error(
        "property \"{0}\" of the form is not a string, number, integer, boolean, or a list of fixed strings"
    )]
    NotPrimitive(String),
    /// Too many properties.
    #[error("a form has at most {MAX_FORM_PROPERTIES} properties, this one has {0}")]
    TooManyProperties(usize),
}

impl FormSchema {
    /// Checks a JSON Schema against the limits of MCP elicitation, resolving local references first.
    pub fn new(schema: &Value) -> Result<Self, FormSchemaError> {
        let top = schema.as_object().ok_or(FormSchemaError::NotAnObject)?;
        for word in ["oneOf", "anyOf", "allOf", "not"] {
            if top.contains_key(word) {
                return Err(FormSchemaError::Combinator(word));
            }
        }
        if top.get("type").and_then(Value::as_str) != Some("object") {
            return Err(FormSchemaError::NotAnObject);
        }
        let empty = Map::new();
        let properties = match top.get("properties") {
            None => &empty,
            Some(value) => value.as_object().ok_or(FormSchemaError::NotAnObject)?,
        };
        if properties.len() > MAX_FORM_PROPERTIES {
            return Err(FormSchemaError::TooManyProperties(properties.len()));
        }
        let mut flat = Map::new();
        for (name, property) in properties {
            let property = inlined(property, top);
            if !is_primitive(&property) {
                return Err(FormSchemaError::NotPrimitive(name.clone()));
            }
            flat.insert(name.clone(), property);
        }
        let mut form = json!({ "type": "object", "properties": flat });
        for kept in ["required", "title", "description"] {
            if let Some(value) = top.get(kept) {
                form[kept] = value.clone();
            }
        }
        Ok(Self(form))
    }

    /// The schema of `confirm`: no fields, only accept or decline.
    pub fn confirm() -> Self {
        Self(json!({ "type": "object", "properties": {}, "required": [] }))
    }

    /// The schema where the handler gave none: one line of text.
    pub fn free_text() -> Self {
        Self(
            json!({ "type": "object", "properties": { "response": { "type": "string" } }, "required": ["response"] }),
        )
    }

    /// The schema as JSON.
    pub fn as_value(&self) -> &Value {
        &self.0
    }

    /// Checks an answer; every violation at once. Unknown fields are violations too.
    pub fn check(&self, answer: &Value) -> Result<(), Vec<Violation>> {
        let mut closed = self.0.clone();
        closed["additionalProperties"] = json!(false);
        let validator = jsonschema::draft202012::options().should_validate_formats(true).build(&closed);
        let validator =
            validator.map_err(|e| vec![Violation { at: String::new(), problem: e.to_string() }])?;
        let violations: Vec<Violation> = validator
            .iter_errors(answer)
            .take(MAX_FORM_PROPERTIES)
            .map(|e| Violation { at: e.instance_path().to_string(), problem: e.to_string() })
            .collect();
        if violations.is_empty() { Ok(()) } else { Err(violations) }
    }
}

/// A property with its local `$ref` replaced by what it points to, and `T | null` by `T`: the form's `required` list
/// already says what may be left out.
fn inlined(property: &Value, top: &Map<String, Value>) -> Value {
    let mut property = property.clone();
    let target = property.get("$ref").and_then(Value::as_str).and_then(|r| r.strip_prefix("#/$defs/"));
    if let Some(Value::Object(definition)) = target.and_then(|name| top.get("$defs")?.get(name)) {
        let mut merged = definition.clone();
        if let Some(siblings) = property.as_object() {
            merged.extend(siblings.iter().filter(|(k, _)| *k != "$ref").map(|(k, v)| (k.clone(), v.clone())));
        }
        property = Value::Object(merged);
    }
    if let Some(Value::Array(types)) = property.get("type") {
        let named: Vec<&Value> = types.iter().filter(|t| *t != "null").collect();
        if let [only] = named[..] {
            let only = only.clone();
            property["type"] = only;
        }
    }
    property
}

fn is_primitive(property: &Value) -> bool {
    let kind = property.get("type").and_then(Value::as_str);
    let combined = ["anyOf", "allOf", "not", "properties"].iter().any(|w| property.get(w).is_some());
    match kind {
        Some("string") => !combined && property.get("oneOf").is_none_or(is_titled_choice),
        Some("number" | "integer" | "boolean") => !combined && property.get("oneOf").is_none(),
        Some("array") => property.get("items").is_some_and(is_multi_select),
        _ => false,
    }
}

fn is_multi_select(items: &Value) -> bool {
    let plain = items.get("type").and_then(Value::as_str) == Some("string") && items.get("enum").is_some();
    plain || items.get("anyOf").is_some_and(is_titled_choice)
}

fn is_titled_choice(options: &Value) -> bool {
    options.as_array().is_some_and(|all| !all.is_empty() && all.iter().all(|o| o["const"].is_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(property: &Value) -> Value {
        json!({ "type": "object", "properties": { "p": property } })
    }

    #[test]
    fn primitives_enums_formats_defaults_and_multi_select_pass() {
        for property in [
            json!({ "type": "string" }),
            json!({ "type": "string", "format": "email", "default": "a@b.c", "title": "Mail" }),
            json!({ "type": "string", "enum": ["a", "b"] }),
            json!({ "type": "string", "oneOf": [{ "const": "a", "title": "A" }] }),
            json!({ "type": "integer", "minimum": 1 }),
            json!({ "type": "number" }),
            json!({ "type": "boolean", "default": true }),
            json!({ "type": ["string", "null"] }),
            json!({ "type": "array", "items": { "type": "string", "enum": ["x"] } }),
        ] {
            assert!(FormSchema::new(&object(&property)).is_ok(), "{property}");
        }
    }

    #[test]
    fn nested_objects_lists_and_combinators_are_refused() {
        for property in [
            json!({ "type": "object", "properties": {} }),
            json!({ "type": "array", "items": { "type": "string" } }),
            json!({ "type": "array", "items": { "type": "object" } }),
            json!({ "anyOf": [{ "type": "string" }, { "type": "number" }] }),
            json!({ "type": "null" }),
            json!(true),
            json!({}),
        ] {
            assert!(
                matches!(FormSchema::new(&object(&property)), Err(FormSchemaError::NotPrimitive(_))),
                "{property}"
            );
        }
        for word in ["oneOf", "anyOf", "allOf", "not"] {
            let schema = json!({ "type": "object", "properties": {}, word: [] });
            assert!(matches!(FormSchema::new(&schema), Err(FormSchemaError::Combinator(_))), "{word}");
        }
        for top in [
            json!({ "type": "string" }),
            json!([]),
            json!(true),
            json!({ "type": "object", "properties": 1 }),
        ] {
            assert_eq!(FormSchema::new(&top), Err(FormSchemaError::NotAnObject), "{top}");
        }
    }

    #[test]
    fn the_property_bound_holds_at_its_edge() {
        let schema = |n: usize| {
            let properties: Map<String, Value> =
                (0..n).map(|i| (format!("p{i}"), json!({ "type": "string" }))).collect();
            json!({ "type": "object", "properties": properties })
        };
        assert!(FormSchema::new(&schema(MAX_FORM_PROPERTIES)).is_ok());
        assert!(FormSchema::new(&schema(MAX_FORM_PROPERTIES + 1)).is_err());
    }
}
