//! Arguments made from a tool's input schema, with characters in them that a careless writer would let through.

use serde_json::{Map, Value, json};

/// Texts that need care in a URL.
const AWKWARD: [&str; 4] = ["two words", "a/b?c#d", "ümlaut & more=1", "50%+1"];
/// Deeper than this only what is required is given.
const DEPTH: usize = 4;

/// What the strings of generated arguments are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Texts {
    Awkward,
    Plain,
}

/// Arguments that fit a schema; none where this small generator finds no fitting ones.
pub(crate) fn arguments(schema: &Value) -> Option<Value> {
    let validator = jsonschema::draft202012::options().should_validate_formats(true).build(schema).unwrap();
    [Texts::Awkward, Texts::Plain].into_iter().find_map(|texts| {
        let made = Generator { root: schema, texts, count: 0 }.value(schema, 0);
        validator.is_valid(&made).then_some(made)
    })
}

struct Generator<'s> {
    root: &'s Value,
    texts: Texts,
    count: usize,
}

impl Generator<'_> {
    fn value(&mut self, schema: &Value, depth: usize) -> Value {
        if let Some(name) = schema.get("$ref").and_then(Value::as_str) {
            let root = self.root;
            let target = root.pointer(name.trim_start_matches('#')).unwrap();
            return self.value(target, depth);
        }
        if let Some(fixed) = schema.get("const").or_else(|| schema.get("enum")?.get(0)) {
            return fixed.clone();
        }
        if let Some(parts) = schema.get("allOf").and_then(Value::as_array) {
            let mut whole = Map::new();
            for part in parts {
                if let Value::Object(members) = self.value(part, depth) {
                    whole.extend(members);
                }
            }
            return Value::Object(whole);
        }
        let properties = schema.get("properties").is_some();
        for choice in ["oneOf", "anyOf"].iter().filter_map(|word| schema.get(word)?.get(0)) {
            let chosen = self.value(choice, depth);
            if !properties {
                return chosen;
            }
        }
        let kind = match schema.get("type") {
            Some(Value::String(kind)) => kind.as_str(),
            Some(Value::Array(kinds)) => {
                kinds.iter().filter_map(Value::as_str).find(|kind| *kind != "null").unwrap()
            }
            _ if properties => "object",
            _ => return json!({ "any": "thing" }),
        };
        match kind {
            "object" => self.object(schema, depth),
            "array" => {
                let item = schema.get("items").cloned().unwrap_or(json!({ "type": "string" }));
                let least = schema.get("minItems").and_then(Value::as_u64).unwrap_or(2).max(1);
                (0..least).map(|_| self.value(&item, depth + 1)).collect()
            }
            "integer" | "number" => schema.get("minimum").cloned().unwrap_or(json!(7)),
            "boolean" => json!(true),
            "null" => Value::Null,
            _ => self.text(schema),
        }
    }

    fn object(&mut self, schema: &Value, depth: usize) -> Value {
        let required: Vec<&str> = schema
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let mut made = Map::new();
        for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            if depth < DEPTH || required.contains(&name.as_str()) {
                made.insert(name.clone(), self.value(property, depth + 1));
            }
        }
        Value::Object(made)
    }

    fn text(&mut self, schema: &Value) -> Value {
        self.count += 1;
        let text = match schema.get("format").and_then(Value::as_str) {
            Some("date-time") => "2026-11-17T10:00:00Z",
            Some("date") => "2026-11-17",
            Some("uuid") => "123e4567-e89b-12d3-a456-426614174000",
            _ if schema.get("contentEncoding").is_some() => "AAEC",
            _ if self.texts == Texts::Awkward => AWKWARD[self.count % AWKWARD.len()],
            _ => "plain",
        };
        text.into()
    }
}
