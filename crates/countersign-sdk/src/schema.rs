//! JSON Schemas, made from types or given as JSON: validation with every violation at once, and for types defaults filled in.
//!
//! Promise: input that passes [`Schema::admit`] of a type's schema deserialises into the type the schema was made from, has its defaults
//! written out (so that a person sees them), and has no property that the type does not know.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::OnceLock;

use jsonschema::Validator;
use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Value, json};

/// How many violations are reported; a hostile input can have a million.
const MAX_VIOLATIONS: usize = 50;

/// The treatment of properties that the input type does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UnknownProperties {
    /// They are a violation: a person must not be shown what the tool will ignore.
    #[default]
    Refuse,
    /// They are dropped before a person sees the call, as the seed's Zod objects do.
    Strip,
}

/// A schema that was checked, with its validator.
pub struct Schema {
    /// The schema as text: parsed it takes ten times the memory, and it is seldom looked at.
    text: Box<str>,
    /// Made when it is first needed for a schema of another system: a source with a thousand tools has thousands of them, and
    /// few are ever called.
    validator: OnceLock<Validator>,
    defaults: Defaults,
    /// The only properties that stay; all stay where it is none.
    kept: Option<BTreeSet<String>>,
}

/// One way in which a value does not fit its schema.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Violation {
    /// JSON pointer to the offending place; empty for the whole value.
    pub at: String,
    /// What is wrong there.
    pub problem: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.at.is_empty() { "/" } else { &self.at };
        write!(f, "{place}: {}", self.problem)
    }
}

/// Why a schema cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the schema of {type_name} cannot be used: {problem}")]
pub struct SchemaError {
    type_name: String,
    problem: String,
}

impl SchemaError {
    /// The problem, without the type's name.
    pub fn problem(&self) -> &str {
        &self.problem
    }
}

impl Schema {
    /// The schema for a tool's input: an object, closed against unknown properties.
    pub fn for_input<T: JsonSchema>(unknown: UnknownProperties) -> Result<Self, SchemaError> {
        let mut json = generate::<T>(SchemaSettings::draft2020_12().for_deserialize());
        let is_object = json.get("type").and_then(Value::as_str) == Some("object")
            || ["oneOf", "anyOf", "allOf"].iter().any(|w| json.get(w).is_some());
        if !is_object {
            let problem = "a tool takes an object; wrap the value in a struct with named fields".to_owned();
            return Err(SchemaError { type_name: T::schema_name().into_owned(), problem });
        }
        if unknown == UnknownProperties::Refuse {
            close(&mut json);
        }
        Self::compile::<T>(&json, unknown)
    }

    /// The schema for a tool's output.
    pub fn for_output<T: JsonSchema>() -> Result<Self, SchemaError> {
        let json = generate::<T>(SchemaSettings::draft2020_12().for_serialize());
        Self::compile::<T>(&json, UnknownProperties::Refuse)
    }

    /// A schema that another system wrote, taken as it is: it says itself which properties it knows, and its defaults are not
    /// filled in. The draft is the one that `$schema` names, else 2020-12. Nothing is fetched: a reference that leads out of
    /// the schema is an error.
    pub fn from_json(json: &Value) -> Result<Self, SchemaError> {
        foreign_validator(json)
            .map_err(|problem| SchemaError { type_name: "a foreign tool".to_owned(), problem })?;
        let (text, validator) = (json.to_string().into(), OnceLock::new());
        Ok(Self { text, validator, defaults: Defaults::None, kept: None })
    }

    /// The schema as JSON, parsed anew each time.
    pub fn json(&self) -> Value {
        // The text was made from a value; one that is nested too deep to be read again is refused by `Tool::foreign`.
        serde_json::from_str(&self.text).unwrap_or(Value::Null)
    }

    /// Fills in defaults, strips what is to be stripped, and validates.
    pub fn admit(&self, mut value: Value) -> Result<Value, Vec<Violation>> {
        if value.is_null() {
            value = json!({});
        }
        if let (Some(kept), Value::Object(given)) = (&self.kept, &mut value) {
            given.retain(|name, _| kept.contains(name));
        }
        self.defaults.fill(&mut value);
        self.validate(&value)?;
        Ok(value)
    }

    /// Validates without changing anything; every violation at once, up to a bound.
    pub fn validate(&self, value: &Value) -> Result<(), Vec<Violation>> {
        let validator = match self.validator.get() {
            Some(validator) => validator,
            None => {
                let made = foreign_validator(&self.json());
                let made = made.map_err(|problem| vec![Violation { at: String::new(), problem }])?;
                self.validator.get_or_init(|| made)
            }
        };
        if validator.is_valid(value) {
            return Ok(());
        }
        let violations = validator.iter_errors(value).take(MAX_VIOLATIONS);
        Err(violations
            .map(|e| Violation { at: e.instance_path().to_string(), problem: shortened(&e.to_string()) })
            .collect())
    }

    fn compile<T: JsonSchema>(json: &Value, unknown: UnknownProperties) -> Result<Self, SchemaError> {
        let validator = jsonschema::draft202012::options()
            .should_validate_formats(true)
            .build(json)
            .map_err(|e| SchemaError { type_name: T::schema_name().into_owned(), problem: e.to_string() })?;
        let kept = (unknown == UnknownProperties::Strip).then(|| known_properties(json)).flatten();
        let text = json.to_string().into();
        Ok(Self { text, validator: validator.into(), defaults: Defaults::of(json, json), kept })
    }
}

/// A validator for a schema of another system, or what is wrong with the schema.
fn foreign_validator(json: &Value) -> Result<Validator, String> {
    jsonschema::options().should_validate_formats(true).build(json).map_err(|e| shortened(&e.to_string()))
}

fn generate<T: JsonSchema>(settings: SchemaSettings) -> Value {
    let generator: SchemaGenerator = settings.into_generator();
    let mut json = generator.into_root_schema_for::<T>().to_value();
    if let Some(object) = json.as_object_mut() {
        object.remove("$schema");
    }
    json
}

/// The text of a violation quotes the instance, so it is cut to a readable length.
fn shortened(text: &str) -> String {
    const MOST: usize = 300;
    if text.chars().count() <= MOST {
        return text.to_owned();
    }
    let head: String = text.chars().take(MOST).collect();
    format!("{head}…")
}

/// Forbids unknown properties. A schema built by flattening spreads one object over several subschemas, and closing
/// those one by one would refuse each other's properties: there the whole is closed at the top instead.
fn close(schema: &mut Value) {
    if is_flattened(schema) {
        if let Some(top) = schema.as_object_mut() {
            top.entry("unevaluatedProperties").or_insert(json!(false));
        }
        return;
    }
    close_plain(schema);
}

fn is_flattened(schema: &Value) -> bool {
    match schema {
        Value::Object(map) => {
            let combined = ["allOf", "anyOf", "oneOf", "$ref"].iter().any(|w| map.contains_key(*w));
            map.contains_key("allOf")
                || (combined && map.contains_key("properties"))
                || map.values().any(is_flattened)
        }
        Value::Array(items) => items.iter().any(is_flattened),
        _ => false,
    }
}

fn close_plain(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            // A type without fields has no `properties` at all; a map says what else it takes.
            if map.get("type") == Some(&json!("object")) && !map.contains_key("patternProperties") {
                map.entry("additionalProperties").or_insert(json!(false));
            }
            map.iter_mut()
                .filter(|(k, _)| !matches!(k.as_str(), "default" | "const" | "enum"))
                .for_each(|(_, v)| close_plain(v));
        }
        Value::Array(items) => items.iter_mut().for_each(close_plain),
        _ => {}
    }
}

/// The properties that a schema names at its top; none where it may take others as well.
fn known_properties(schema: &Value) -> Option<BTreeSet<String>> {
    let takes_more = ["additionalProperties", "patternProperties", "oneOf", "anyOf", "allOf"]
        .iter()
        .any(|w| schema.get(w).is_some());
    match schema.get("properties") {
        Some(Value::Object(known)) => Some(known.keys().cloned().collect()),
        None if !takes_more => Some(BTreeSet::new()),
        _ => None,
    }
}

/// Which properties have defaults, found once so that a call pays only for those.
enum Defaults {
    None,
    Object(Vec<(String, Option<Value>, Defaults)>),
}

impl Defaults {
    fn of(schema: &Value, root: &Value) -> Self {
        Self::at_depth(schema, root, 0)
    }

    /// Recursive types refer to themselves; past this depth their defaults are left to serde.
    fn at_depth(schema: &Value, root: &Value, depth: usize) -> Self {
        const DEEPEST: usize = 8;
        let schema = resolved(schema, root);
        let Some(Value::Object(properties)) = schema.get("properties").filter(|_| depth < DEEPEST) else {
            return Self::None;
        };
        let entries: Vec<_> = properties
            .iter()
            .map(|(name, property)| {
                let default = property.get("default").or_else(|| resolved(property, root).get("default"));
                let default = default.filter(|d| !d.is_null()).cloned();
                (name.clone(), default, Self::at_depth(property, root, depth + 1))
            })
            .filter(|(_, default, below)| default.is_some() || !matches!(below, Self::None))
            .collect();
        if entries.is_empty() { Self::None } else { Self::Object(entries) }
    }

    fn fill(&self, value: &mut Value) {
        let (Self::Object(entries), Value::Object(given)) = (self, value) else { return };
        for (name, default, below) in entries {
            if let (false, Some(default)) = (given.contains_key(name), default) {
                given.insert(name.clone(), default.clone());
            }
            if let Some(present) = given.get_mut(name) {
                below.fill(present);
            }
        }
    }
}

fn resolved<'a>(schema: &'a Value, root: &'a Value) -> &'a Value {
    let target = schema.get("$ref").and_then(Value::as_str).and_then(|r| r.strip_prefix("#/$defs/"));
    target.and_then(|name| root.get("$defs")?.get(name)).unwrap_or(schema)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Deserialize, JsonSchema)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    struct Input {
        owner: String,
        #[serde(default = "open")]
        state: String,
        #[serde(default)]
        page: Page,
        labels: Option<Vec<String>>,
    }

    #[derive(Deserialize, serde::Serialize, JsonSchema, Default)]
    struct Page {
        #[serde(default = "thirty")]
        limit: u32,
    }

    #[derive(Deserialize, JsonSchema)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    struct Flat {
        a: String,
        #[serde(flatten)]
        page: Page,
        #[serde(flatten)]
        choice: Choice,
    }

    #[derive(Deserialize, JsonSchema)]
    #[serde(tag = "kind")]
    #[expect(dead_code, reason = "only its schema is looked at")]
    enum Choice {
        One { x: u8 },
        Two { y: u8 },
    }

    fn open() -> String {
        "open".into()
    }
    fn thirty() -> u32 {
        30
    }

    fn input() -> Schema {
        Schema::for_input::<Input>(UnknownProperties::Refuse).unwrap()
    }

    #[test]
    fn defaults_are_written_out_also_inside_nested_objects() {
        let admitted = input().admit(json!({ "owner": "o", "page": {} })).unwrap();
        assert_eq!(admitted, json!({ "owner": "o", "state": "open", "page": { "limit": 30 } }));
    }

    #[test]
    fn every_violation_is_reported_at_once() {
        let violations =
            input().admit(json!({ "state": 1, "page": { "limit": -1 }, "extra": true })).unwrap_err();
        let places: Vec<&str> = violations.iter().map(|v| v.at.as_str()).collect();
        assert!(
            places.contains(&"/state") && places.contains(&"/page/limit") && violations.len() >= 4,
            "{violations:?}"
        );
        let text = violations.iter().map(ToString::to_string).collect::<String>();
        assert!(text.contains("extra") && text.contains("owner"), "{text}");
    }

    #[test]
    fn unknown_properties_are_refused_unless_the_tool_strips_them() {
        assert!(input().admit(json!({ "owner": "o", "zzz": 1 })).is_err());
        let lenient = Schema::for_input::<Input>(UnknownProperties::Strip).unwrap();
        let admitted = lenient.admit(json!({ "owner": "o", "zzz": 1 })).unwrap();
        assert!(admitted.get("zzz").is_none());
    }

    #[test]
    fn flattened_types_are_closed_as_a_whole() {
        let schema = Schema::for_input::<Flat>(UnknownProperties::Refuse).unwrap();
        assert!(schema.admit(json!({ "a": "x", "limit": 1, "kind": "One", "x": 1 })).is_ok());
        assert!(schema.admit(json!({ "a": "x", "limit": 1, "kind": "Two", "y": 1 })).is_ok());
        assert!(schema.admit(json!({ "a": "x", "limit": 1, "kind": "One", "x": 1, "zzz": 1 })).is_err());
    }

    #[test]
    fn a_tool_that_takes_no_object_is_refused_with_advice() {
        let error = Schema::for_input::<String>(UnknownProperties::Refuse).err().unwrap();
        assert!(error.to_string().contains("struct with named fields"), "{error}");
    }

    #[test]
    fn a_flood_of_violations_is_cut_and_huge_values_are_not_quoted_whole() {
        let bad: Vec<u32> = (0..1000).collect();
        let violations = input().admit(json!({ "owner": "x".repeat(9), "labels": bad })).unwrap_err();
        assert_eq!(violations.len(), MAX_VIOLATIONS);
        let violations = input().admit(json!({ "owner": "o", "page": "y".repeat(1 << 20) })).unwrap_err();
        assert!(violations.iter().all(|v| v.problem.len() < 1000));
    }
}
