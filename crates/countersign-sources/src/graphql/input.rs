//! A field's arguments as JSON Schema, and the argument that chooses what is answered.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::schema::{Field, InputValue, Schema, TypeDefinition, TypeReference};

/// The argument with the caller's selection; where a field has one of that name, an underscore is put behind it.
pub const FIELDS_ARGUMENT: &str = "fields";
/// Input schemas above this lose their descriptions.
const MAX_DESCRIBED_BYTES: usize = 16 * 1024;
/// Input schemas above this, without descriptions, take any object for input types.
const MAX_BYTES: usize = 64 * 1024;
/// The longest default selection that is told.
const MAX_TOLD_SELECTION: usize = 600;

/// How much of the schema is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Detail {
    Full,
    WithoutDescriptions,
    WithoutInputTypes,
}

/// The name of the argument with the caller's selection.
pub(super) fn fields_argument(field: &Field) -> String {
    let mut name = FIELDS_ARGUMENT.to_owned();
    while field.arguments.iter().any(|argument| argument.name == name) {
        name.push('_');
    }
    name
}

/// The input schema of a field, as detailed as its size allows.
pub(super) fn schema(schema: &Schema, field: &Field, default_selection: Option<&str>) -> Value {
    let full = build(schema, field, default_selection, Detail::Full);
    if full.to_string().len() <= MAX_DESCRIBED_BYTES {
        return full;
    }
    let bare = build(schema, field, default_selection, Detail::WithoutDescriptions);
    if bare.to_string().len() <= MAX_BYTES {
        return bare;
    }
    build(schema, field, default_selection, Detail::WithoutInputTypes)
}

fn build(schema: &Schema, field: &Field, default_selection: Option<&str>, detail: Detail) -> Value {
    let mut writer = Writer { schema, detail, definitions: BTreeMap::new() };
    let mut properties = Map::new();
    for argument in &field.arguments {
        properties.insert(argument.name.clone(), writer.value(argument));
    }
    if let Some(selection) = default_selection {
        let told = if selection.len() <= MAX_TOLD_SELECTION {
            format!(" Default: {selection}")
        } else {
            String::new()
        };
        let inner = field.kind.inner();
        let text =
            format!("Which fields of {inner} to answer, as a GraphQL selection such as \"id name\".{told}");
        properties.insert(fields_argument(field), json!({ "type": "string", "description": text }));
    }
    let required: Vec<&str> =
        field.arguments.iter().filter(|one| one.is_required()).map(|one| one.name.as_str()).collect();
    let mut made = Map::new();
    made.insert("type".into(), "object".into());
    made.insert("properties".into(), properties.into());
    if !required.is_empty() {
        made.insert("required".into(), json!(required));
    }
    made.insert("additionalProperties".into(), false.into());
    if !writer.definitions.is_empty() {
        let definitions =
            writer.definitions.into_iter().map(|(name, made)| (name, made.unwrap_or(Value::Bool(true))));
        made.insert("$defs".into(), Value::Object(definitions.collect()));
    }
    Value::Object(made)
}

struct Writer<'s> {
    schema: &'s Schema,
    detail: Detail,
    /// A definition that is still being written is there without a value, so that recursion ends.
    definitions: BTreeMap<String, Option<Value>>,
}

impl Writer<'_> {
    fn value(&mut self, input: &InputValue) -> Value {
        let mut made = self.reference(&input.kind);
        let default = input.default.as_ref().map(|default| format!("Default: {default}."));
        let text: Vec<String> = [input.description.clone(), default].into_iter().flatten().collect();
        self.describe(&mut made, &text.join(" "));
        made
    }

    fn describe(&self, made: &mut Value, text: &str) {
        if let (Detail::Full, false, Some(keywords)) =
            (self.detail, text.trim().is_empty(), made.as_object_mut())
        {
            keywords.insert("description".into(), text.trim().into());
        }
    }

    fn reference(&mut self, kind: &TypeReference) -> Value {
        match kind {
            TypeReference::NonNull(inner) => self.present(inner),
            nullable => or_null(self.present(nullable)),
        }
    }

    fn present(&mut self, kind: &TypeReference) -> Value {
        match kind {
            TypeReference::Named(name) => self.named(name),
            TypeReference::List(inner) => json!({ "type": "array", "items": self.reference(inner) }),
            TypeReference::NonNull(inner) => self.present(inner),
        }
    }

    fn named(&mut self, name: &str) -> Value {
        match name {
            "Int" => return json!({ "type": "integer" }),
            "Float" => return json!({ "type": "number" }),
            "String" => return json!({ "type": "string" }),
            "Boolean" => return json!({ "type": "boolean" }),
            "ID" => return json!({ "type": ["string", "integer"] }),
            _ => {}
        }
        match self.schema.types.get(name) {
            Some(TypeDefinition::Input { .. }) if self.detail == Detail::WithoutInputTypes => {
                json!({ "type": "object" })
            }
            Some(TypeDefinition::Enum { .. } | TypeDefinition::Input { .. }) => {
                self.define(name);
                json!({ "$ref": format!("#/$defs/{name}") })
            }
            // A service's own scalar may be anything.
            Some(TypeDefinition::Scalar { description }) => {
                let mut made = json!({ "title": name });
                self.describe(&mut made, description.as_deref().unwrap_or_default());
                made
            }
            _ => json!({}),
        }
    }

    fn define(&mut self, name: &str) {
        if self.definitions.contains_key(name) {
            return;
        }
        self.definitions.insert(name.to_owned(), None);
        let schema = self.schema;
        let made = match schema.types.get(name) {
            Some(TypeDefinition::Enum { values, description }) => {
                let mut made = json!({ "type": "string", "enum": values });
                self.describe(&mut made, description.as_deref().unwrap_or_default());
                made
            }
            Some(TypeDefinition::Input { fields, description }) => {
                let mut properties = Map::new();
                for field in fields {
                    properties.insert(field.name.clone(), self.value(field));
                }
                let required: Vec<&str> = fields
                    .iter()
                    .filter(|field| field.is_required())
                    .map(|field| field.name.as_str())
                    .collect();
                let mut made = json!({
                    "type": "object", "properties": properties, "required": required, "additionalProperties": false,
                });
                self.describe(&mut made, description.as_deref().unwrap_or_default());
                made
            }
            _ => Value::Bool(true),
        };
        self.definitions.insert(name.to_owned(), Some(made));
    }
}

fn or_null(mut made: Value) -> Value {
    match made.get("type").cloned() {
        Some(Value::String(kind)) => {
            made["type"] = json!([kind, "null"]);
            made
        }
        Some(Value::Array(mut kinds)) => {
            kinds.push("null".into());
            made["type"] = kinds.into();
            made
        }
        _ if made.get("$ref").is_some() => json!({ "anyOf": [made, { "type": "null" }] }),
        _ => made,
    }
}
