//! Schemas of a document as JSON Schema 2020-12 with `$ref` into `#/$defs`.
//!
//! Promise: what comes out compiles, whatever the document says: a keyword that is wrong is left out, because a document's
//! mistake must not cost the operation. References stay references, so that recursion ends and shared types are written
//! once. The work stops as soon as the result is larger than its budget.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value, json};

use super::Document;
use super::discriminator;
use super::patterns::Patterns;

/// Formats that are kept: the gateway checks formats, and documents use the others loosely.
const FORMATS: [&str; 11] =
    ["date", "date-time", "double", "float", "int32", "int64", "ipv4", "ipv6", "password", "byte", "uuid"];
const TYPES: [&str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];
/// The longest description where descriptions are shortened.
const BRIEF_CHARS: usize = 100;

/// Which way values go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    /// Arguments: `readOnly` properties are left out.
    Input,
    /// Results: `writeOnly` properties are left out.
    Output,
}

/// What a binary string is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Binary {
    /// A file: `{ base64, filename?, contentType? }`.
    File,
    /// A string like any other.
    Text,
}

/// How much of the descriptions is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Detail {
    Full,
    Brief,
    None,
}

/// The schema is larger than its budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooLarge;

/// Converts the schemas of one tool and collects the definitions they refer to.
pub(super) struct Converter<'d> {
    document: &'d Document,
    patterns: &'d Patterns,
    direction: Direction,
    detail: Detail,
    binary: Binary,
    budget_bytes: usize,
    names: HashMap<String, String>,
    waiting: Vec<(String, &'d Value)>,
    definitions: BTreeMap<String, Value>,
}

impl<'d> Converter<'d> {
    pub(super) fn new(document: &'d Document, patterns: &'d Patterns, direction: Direction) -> Self {
        Self {
            document,
            patterns,
            direction,
            detail: Detail::Full,
            binary: Binary::Text,
            budget_bytes: usize::MAX,
            names: HashMap::new(),
            waiting: Vec::new(),
            definitions: BTreeMap::new(),
        }
    }

    pub(super) fn detail(mut self, detail: Detail) -> Self {
        self.detail = detail;
        self
    }

    pub(super) fn binary(mut self, binary: Binary) -> Self {
        self.binary = binary;
        self
    }

    pub(super) fn budget_bytes(mut self, bytes: usize) -> Self {
        self.budget_bytes = bytes;
        self
    }

    /// A schema of the document, converted. References in it are written out by [`finish`](Self::finish).
    pub(super) fn convert(&mut self, schema: &Value) -> Result<Value, TooLarge> {
        match schema {
            Value::Bool(_) => Ok(schema.clone()),
            Value::Object(keywords) => self.keywords(keywords),
            _ => Ok(json!({})),
        }
    }

    /// Takes bytes off the budget; for what is added beside converted schemas.
    pub(super) fn charge(&mut self, bytes: usize) -> Result<(), TooLarge> {
        self.budget_bytes = self.budget_bytes.checked_sub(bytes).ok_or(TooLarge)?;
        Ok(())
    }

    /// A description, shortened as asked; charged.
    pub(super) fn description(&mut self, text: &str) -> Result<Option<String>, TooLarge> {
        let kept = match self.detail {
            Detail::Full => Some(text.trim().to_owned()),
            Detail::Brief => Some(brief(text)),
            Detail::None => None,
        };
        let kept = kept.filter(|text| !text.is_empty());
        self.charge(kept.as_ref().map_or(0, |text| text.len() + 18))?;
        Ok(kept)
    }

    /// Puts the definitions into a schema that this converter made.
    pub(super) fn finish(mut self, mut schema: Map<String, Value>) -> Result<Value, TooLarge> {
        while let Some((name, target)) = self.waiting.pop() {
            self.charge(name.len() + 4)?;
            let converted = self.convert(target)?;
            self.definitions.insert(name, converted);
        }
        if !self.definitions.is_empty() {
            super::cycles::cut(&mut self.definitions);
            schema.insert("$defs".into(), Value::Object(self.definitions.into_iter().collect()));
        }
        Ok(Value::Object(schema))
    }

    fn keywords(&mut self, keywords: &Map<String, Value>) -> Result<Value, TooLarge> {
        if self.direction == Direction::Input && self.binary == Binary::File && is_binary(keywords) {
            return self.file(keywords);
        }
        if let Some(reference) = keywords.get("$ref").and_then(Value::as_str) {
            return self.reference(reference, keywords);
        }
        let mut made = Map::new();
        for (key, value) in keywords {
            let kept = match key.as_str() {
                "type" => types(value),
                "enum" => value.as_array().filter(|list| !list.is_empty()).map(|_| value.clone()),
                "const" => Some(value.clone()),
                "title" => value.as_str().map(|_| value.clone()),
                "description" => match value.as_str() {
                    Some(text) => self.description(text)?.map(Value::String),
                    None => None,
                },
                "format" => self.format(value),
                "pattern" => value.as_str().filter(|p| self.patterns.compiles(p)).map(|_| value.clone()),
                "properties" => self.properties(value)?,
                "required" => self.required(value, keywords),
                "items"
                | "not"
                | "if"
                | "then"
                | "else"
                | "contains"
                | "propertyNames"
                | "unevaluatedProperties"
                | "unevaluatedItems"
                | "additionalProperties" => self.one(value)?,
                "allOf" | "anyOf" | "oneOf" | "prefixItems" => self.list(value)?,
                "dependentSchemas" | "patternProperties" => self.named(key, value)?,
                "dependentRequired" => {
                    value.as_object().filter(|map| map.values().all(is_name_list)).map(|_| value.clone())
                }
                "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties"
                | "minContains" | "maxContains" => value.as_u64().map(Value::from),
                "minimum" | "maximum" => self.limit(key, value, keywords),
                "exclusiveMinimum" | "exclusiveMaximum" => exclusive(key, value, keywords),
                "multipleOf" => value.as_f64().filter(|n| *n > 0.0).map(|_| value.clone()),
                "uniqueItems" | "deprecated" => value.as_bool().filter(|said| *said).map(Value::Bool),
                "contentEncoding" | "contentMediaType" => value.as_str().map(|_| value.clone()),
                _ => None,
            };
            if let Some(kept) = kept {
                // A description is charged where it is shortened.
                let bytes = if key == "description" { 0 } else { key.len() + 4 + scalar_bytes(&kept) };
                self.charge(bytes)?;
                made.insert(key.clone(), kept);
            }
        }
        // Draft 4 wrote tuples as a list under `items`.
        if let Some(Value::Array(list)) = keywords.get("items") {
            let list = Value::Array(list.clone());
            if let Some(tuple) = self.list(&list)? {
                made.insert("prefixItems".into(), tuple);
            }
        }
        self.say_default(keywords, &mut made)?;
        if let Some(told) = self.told_variants(keywords) {
            self.charge(told.len() + 1)?;
            append(&mut made, &told);
        }
        Ok(nullable(made, keywords))
    }

    /// Which property tells the variants of a choice apart, and how. Told and not demanded: a document that is wrong about it would
    /// else refuse what its service takes.
    fn told_variants(&self, keywords: &Map<String, Value>) -> Option<String> {
        if self.direction != Direction::Input || self.detail == Detail::None {
            return None;
        }
        discriminator::told(keywords, |reference| self.names.get(reference).cloned())
    }

    /// The gateway writes a schema's defaults into the arguments, and those of a document belong to the upstream: sent with a
    /// PATCH they would overwrite. So they are told, not applied.
    fn say_default(
        &mut self,
        keywords: &Map<String, Value>,
        made: &mut Map<String, Value>,
    ) -> Result<(), TooLarge> {
        let (Direction::Input, Some(default)) = (self.direction, keywords.get("default")) else {
            return Ok(());
        };
        let said = default.to_string();
        if default.is_null() || self.detail == Detail::None || said.len() > BRIEF_CHARS {
            return Ok(());
        }
        self.charge(said.len() + 11)?;
        append(made, &format!("Default: {said}."));
        Ok(())
    }

    fn reference(&mut self, reference: &str, keywords: &Map<String, Value>) -> Result<Value, TooLarge> {
        let Some(name) = self.definition_name(reference) else { return Ok(json!({})) };
        let mut made = Map::new();
        made.insert("$ref".into(), format!("#/$defs/{name}").into());
        self.charge(name.len() + 20)?;
        if let Some(text) = keywords.get("description").and_then(Value::as_str)
            && let Some(text) = self.description(text)?
        {
            made.insert("description".into(), text.into());
        }
        if self.document.dialect() == super::Dialect::OpenApi31 {
            return self.beside_reference(made, keywords);
        }
        Ok(nullable(made, keywords))
    }

    /// From 3.1 on keywords beside a reference count too.
    fn beside_reference(
        &mut self,
        mut made: Map<String, Value>,
        keywords: &Map<String, Value>,
    ) -> Result<Value, TooLarge> {
        let siblings = keywords.iter().filter(|(key, _)| !matches!(key.as_str(), "$ref" | "description"));
        let siblings: Map<String, Value> =
            siblings.map(|(key, value)| (key.clone(), value.clone())).collect();
        if !siblings.is_empty()
            && let Value::Object(beside) = self.keywords(&siblings)?
        {
            made.extend(beside);
        }
        Ok(Value::Object(made))
    }

    /// The name of the definition that a reference becomes; none where it leads nowhere.
    fn definition_name(&mut self, reference: &str) -> Option<String> {
        if let Some(known) = self.names.get(reference) {
            return Some(known.clone());
        }
        let target = self.document.target(reference).ok()?;
        self.document.resolve(target).ok()?;
        let last = reference.rsplit('/').next().unwrap_or_default();
        let readable: String = last
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' })
            .collect();
        let mut name = if readable.is_empty() { "schema".to_owned() } else { readable };
        let mut number = 2;
        while self.names.values().any(|used| *used == name) {
            name = format!("{}_{number}", name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '_'));
            number += 1;
        }
        self.names.insert(reference.to_owned(), name.clone());
        self.waiting.push((name.clone(), target));
        Some(name)
    }

    fn properties(&mut self, value: &Value) -> Result<Option<Value>, TooLarge> {
        let Some(properties) = value.as_object() else { return Ok(None) };
        let mut made = Map::new();
        for (name, schema) in properties {
            if self.goes_the_other_way(schema) {
                continue;
            }
            self.charge(name.len() + 4)?;
            made.insert(name.clone(), self.convert(schema)?);
        }
        Ok(Some(Value::Object(made)))
    }

    /// Whether a property is for results only where arguments are described, or the reverse.
    fn goes_the_other_way(&self, schema: &Value) -> bool {
        let word = match self.direction {
            Direction::Input => "readOnly",
            Direction::Output => "writeOnly",
        };
        let says = |schema: &Value| schema.get(word).and_then(Value::as_bool) == Some(true);
        says(schema) || self.document.resolve(schema).is_ok_and(says)
    }

    fn required(&self, value: &Value, keywords: &Map<String, Value>) -> Option<Value> {
        let properties = keywords.get("properties").and_then(Value::as_object);
        let mut names: Vec<&str> = value.as_array()?.iter().filter_map(Value::as_str).collect();
        names.retain(|name| {
            let property = properties.and_then(|properties| properties.get(*name));
            property.is_none_or(|property| !self.goes_the_other_way(property))
        });
        names.sort_unstable();
        names.dedup();
        (!names.is_empty()).then(|| json!(names))
    }

    fn one(&mut self, value: &Value) -> Result<Option<Value>, TooLarge> {
        match value {
            Value::Object(_) | Value::Bool(_) => self.convert(value).map(Some),
            _ => Ok(None),
        }
    }

    fn list(&mut self, value: &Value) -> Result<Option<Value>, TooLarge> {
        let Some(list) = value.as_array().filter(|list| !list.is_empty()) else { return Ok(None) };
        let made: Result<Vec<Value>, TooLarge> = list.iter().map(|schema| self.convert(schema)).collect();
        Ok(Some(Value::Array(made?)))
    }

    fn named(&mut self, key: &str, value: &Value) -> Result<Option<Value>, TooLarge> {
        let Some(named) = value.as_object() else { return Ok(None) };
        let mut made = Map::new();
        for (name, schema) in named {
            if key == "patternProperties" && !self.patterns.compiles(name) {
                continue;
            }
            self.charge(name.len() + 4)?;
            made.insert(name.clone(), self.convert(schema)?);
        }
        Ok(Some(Value::Object(made)))
    }

    fn format(&self, value: &Value) -> Option<Value> {
        let format = value.as_str()?;
        (self.direction == Direction::Input && FORMATS.contains(&format)).then(|| value.clone())
    }

    /// 3.0 makes a limit exclusive by a boolean beside it; then the exclusive keyword carries the number.
    fn limit(&self, key: &str, value: &Value, keywords: &Map<String, Value>) -> Option<Value> {
        let exclusive = if key == "minimum" { "exclusiveMinimum" } else { "exclusiveMaximum" };
        let is_exclusive = keywords.get(exclusive) == Some(&Value::Bool(true));
        (value.is_number() && !is_exclusive).then(|| value.clone())
    }

    fn file(&mut self, keywords: &Map<String, Value>) -> Result<Value, TooLarge> {
        let mut made = file_schema();
        self.charge(220)?;
        if let Some(text) = keywords.get("description").and_then(Value::as_str)
            && let Some(text) = self.description(text)?
        {
            made["description"] = text.into();
        }
        Ok(made)
    }
}

/// Adds a sentence to a schema's description.
fn append(made: &mut Map<String, Value>, sentence: &str) {
    let text = match made.get("description").and_then(Value::as_str) {
        Some(description) => format!("{description} {sentence}"),
        None => sentence.to_owned(),
    };
    made.insert("description".into(), text.into());
}

/// The schema of a file argument.
pub(super) fn file_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "base64": { "type": "string", "contentEncoding": "base64" },
            "filename": { "type": "string" },
            "contentType": { "type": "string" },
        },
        "required": ["base64"],
        "additionalProperties": false,
    })
}

/// Whether a schema is of bytes: 3.0's `format: binary`, 3.1's media type without encoding, Swagger 2's `file`.
pub(super) fn is_binary(keywords: &Map<String, Value>) -> bool {
    let said = |key: &str| keywords.get(key).and_then(Value::as_str);
    let is_raw_media = said("contentMediaType").is_some_and(|media| !media.ends_with("json"))
        && said("contentEncoding").is_none();
    match said("type") {
        Some("file") => true,
        Some("string") | None => said("format") == Some("binary") || is_raw_media,
        Some(_) => false,
    }
}

fn types(value: &Value) -> Option<Value> {
    match value {
        Value::String(one) => TYPES.contains(&one.as_str()).then(|| value.clone()),
        Value::Array(several) => {
            let mut known: Vec<&str> = several.iter().filter_map(Value::as_str).collect();
            known.retain(|one| TYPES.contains(one));
            known.sort_unstable();
            known.dedup();
            (!known.is_empty()).then(|| json!(known))
        }
        _ => None,
    }
}

fn exclusive(key: &str, value: &Value, keywords: &Map<String, Value>) -> Option<Value> {
    let inclusive = if key == "exclusiveMinimum" { "minimum" } else { "maximum" };
    match value {
        Value::Number(_) => Some(value.clone()),
        Value::Bool(true) => keywords.get(inclusive).filter(|limit| limit.is_number()).cloned(),
        _ => None,
    }
}

/// 3.0's `nullable: true`, also where it stands beside a reference or a choice, as documents mean it.
fn nullable(mut made: Map<String, Value>, keywords: &Map<String, Value>) -> Value {
    if keywords.get("nullable") != Some(&Value::Bool(true)) {
        return Value::Object(made);
    }
    if let Some(Value::Array(list)) = made.get_mut("enum")
        && !list.contains(&Value::Null)
    {
        list.push(Value::Null);
    }
    let is_composed = ["$ref", "allOf", "anyOf", "oneOf"].iter().any(|key| made.contains_key(*key));
    if is_composed {
        let description = made.remove("description");
        let mut either = Map::new();
        either.insert("anyOf".into(), json!([made, { "type": "null" }]));
        either.extend(description.map(|text| ("description".to_owned(), text)));
        return Value::Object(either);
    }
    if let Some(Value::String(one)) = made.get("type")
        && one != "null"
    {
        let both = json!([one, "null"]);
        made.insert("type".into(), both);
    }
    Value::Object(made)
}

fn is_name_list(value: &Value) -> bool {
    value.as_array().is_some_and(|list| list.iter().all(Value::is_string))
}

/// The size of what was not charged already: schemas inside charged themselves.
fn scalar_bytes(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 2,
        Value::Array(items) => {
            items.iter().filter(|item| !item.is_object()).map(scalar_bytes).sum::<usize>() + 2
        }
        Value::Object(_) => 2,
        _ => 8,
    }
}

/// The first sentence, and no more than fits a line.
fn brief(text: &str) -> String {
    let text = text.trim();
    let line = text.lines().next().unwrap_or_default();
    let sentence = line.find(". ").map_or(line, |end| &line[..=end]);
    if sentence.chars().count() <= BRIEF_CHARS {
        return sentence.to_owned();
    }
    let cut: String = sentence.chars().take(BRIEF_CHARS - 1).collect();
    format!("{}…", cut.trim_end())
}
