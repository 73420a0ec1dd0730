//! From JSON Schema to types: one document, with everything it refers to.
//!
//! Promise: any JSON at all gives a type. What cannot be said in TypeScript, what lies outside the document and what
//! is nested deeper than [`MAX_DEPTH`] is `unknown`.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::definitions::Definition;
use super::notes;
use super::text::{MAX_LITERAL_CHARS, literal};
use super::types::{
    Field, Item, MAX_MEMBERS, Member, More, NEVER, NULL, Presence, Type, UNKNOWN, intersection, union,
};

/// How deep a schema is followed.
pub(super) const MAX_DEPTH: usize = 16;
/// The most definitions of one document that are followed.
pub(super) const MAX_DEFINITIONS: usize = 200;

/// Which way values of a document go. A caller may leave out what has a default; in a result it is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Side {
    Input,
    Output,
}

/// Reads a document. What it says stands first; after it what it refers to, numbered on from `base`.
pub(super) fn read(root: &Value, side: Side, base: usize) -> Vec<Definition> {
    let mut reader = Reader { root, side, base, ids: HashMap::new(), found: Vec::new() };
    reader.definition("");
    let mut read = Vec::new();
    while let Some((name, schema)) = reader.found.get(read.len()).cloned() {
        let doc = notes::doc(schema, side);
        read.push(Definition { name, doc, ty: reader.ty(schema, 0) });
    }
    read
}

struct Reader<'a> {
    root: &'a Value,
    side: Side,
    base: usize,
    ids: HashMap<String, usize>,
    found: Vec<(String, &'a Value)>,
}

impl<'a> Reader<'a> {
    fn ty(&mut self, schema: &'a Value, depth: usize) -> Type {
        match schema {
            Value::Bool(false) => NEVER,
            Value::Object(map) if depth < MAX_DEPTH => self.of(map, depth + 1),
            _ => UNKNOWN,
        }
    }

    fn of(&mut self, map: &'a Map<String, Value>, depth: usize) -> Type {
        let mut parts: Vec<Type> = Vec::new();
        parts.extend(map.get("$ref").and_then(Value::as_str).map(|reference| self.reference(reference)));
        let values = map.get("const").map(std::slice::from_ref);
        let values = values.or_else(|| map.get("enum")?.as_array().map(Vec::as_slice));
        match values {
            Some(values) => parts.push(union(values.iter().map(|v| plain(value(v, depth))))),
            None => parts.extend(self.kinds(map, depth)),
        }
        for word in ["anyOf", "oneOf"] {
            if let Some(Value::Array(choices)) = map.get(word) {
                let choices: Vec<Member> = choices
                    .iter()
                    .map(|s| Member { doc: notes::doc(s, self.side), ty: self.ty(s, depth) })
                    .collect();
                parts.push(union(choices));
            }
        }
        if let Some(Value::Array(all)) = map.get("allOf") {
            parts.extend(all.iter().map(|s| self.ty(s, depth)));
        }
        let whole = intersection(parts);
        if map.get("nullable") == Some(&Value::Bool(true)) { whole.or_null() } else { whole }
    }

    /// What `type` says, or what the other keywords make sense for.
    fn kinds(&mut self, map: &'a Map<String, Value>, depth: usize) -> Option<Type> {
        let has = |words: &[&str]| words.iter().any(|word| map.contains_key(*word));
        let object = has(&["properties", "required", "additionalProperties", "patternProperties"]);
        let array = has(&["items", "prefixItems"]);
        let names: Vec<&str> = match map.get("type") {
            Some(Value::String(name)) => vec![name],
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
            _ if object => vec!["object"],
            _ if array => vec!["array"],
            _ => return None,
        };
        // The type beside a choice only repeats what every choice says.
        if !object && names == ["object"] && has(&["$ref", "anyOf", "oneOf", "allOf"]) {
            return None;
        }
        let kinds: Vec<Member> = names
            .iter()
            .take(MAX_MEMBERS)
            .map(|name| {
                plain(match *name {
                    "string" => Type::Word("string"),
                    "number" | "integer" => Type::Word("number"),
                    "boolean" => Type::Word("boolean"),
                    "null" => NULL,
                    "array" => self.array(map, depth),
                    "object" => self.object(map, depth),
                    _ => UNKNOWN,
                })
            })
            .collect();
        Some(union(kinds))
    }

    fn array(&mut self, map: &'a Map<String, Value>, depth: usize) -> Type {
        let old_style = map.get("items").and_then(Value::as_array);
        let (first, rest) = match (map.get("prefixItems").and_then(Value::as_array), old_style) {
            (Some(first), _) => (first, map.get("items")),
            (None, Some(first)) => (first, map.get("additionalItems")),
            (None, None) => {
                let item = map.get("items").map_or(UNKNOWN, |s| self.ty(s, depth));
                return Type::Array(Box::new(item));
            }
        };
        let bound = |key: &str| map.get(key).and_then(Value::as_u64);
        let least = bound("minItems").unwrap_or(0);
        let ends = bound("maxItems").is_some_and(|most| most <= first.len() as u64);
        let items: Vec<Item> = first
            .iter()
            .take(MAX_MEMBERS)
            .zip(0..)
            .map(|(schema, at)| Item {
                presence: if at < least { Presence::Required } else { Presence::Optional },
                ty: self.ty(schema, depth),
            })
            .collect();
        let rest = match rest {
            _ if first.len() > MAX_MEMBERS => Some(UNKNOWN),
            _ if ends => None,
            Some(schema) => Some(self.ty(schema, depth)).filter(|ty| *ty != NEVER),
            None => Some(UNKNOWN),
        };
        Type::Tuple { items, rest: rest.map(Box::new) }
    }

    fn object(&mut self, map: &'a Map<String, Value>, depth: usize) -> Type {
        let (fields, more) = self.fields(map, depth);
        let patterns = map.get("patternProperties").and_then(Value::as_object);
        let mut others: Vec<Member> =
            patterns.into_iter().flat_map(|p| p.values()).map(|s| plain(self.ty(s, depth))).collect();
        match map.get("additionalProperties") {
            Some(Value::Bool(false)) => {}
            Some(schema) => others.push(plain(self.ty(schema, depth))),
            // Anything goes where nothing is said at all; beside named properties it goes without saying.
            None if fields.is_empty() && others.is_empty() && !map.contains_key("properties") => {
                others.push(plain(UNKNOWN));
            }
            None => {}
        }
        let others = union(others);
        if fields.is_empty() && more == More::No && others != NEVER {
            return Type::Record(Box::new(others));
        }
        if others == UNKNOWN {
            return Type::Object { fields, more: More::Unknown };
        }
        let known = Type::Object { fields, more };
        if others == NEVER { known } else { intersection([known, Type::Record(Box::new(others))]) }
    }

    /// The properties: what is required first and in the author's order, then the rest by name.
    fn fields(&mut self, map: &'a Map<String, Value>, depth: usize) -> (Vec<Field>, More) {
        let properties = map.get("properties").and_then(Value::as_object);
        let required = map.get("required").and_then(Value::as_array);
        let required = required.into_iter().flatten().filter_map(Value::as_str);
        let mut names: Vec<(&str, Presence)> = Vec::new();
        let mut seen: HashSet<&str> = HashSet::new();
        for name in required {
            if seen.insert(name) {
                names.push((name, self.presence(properties.and_then(|p| p.get(name)))));
            }
        }
        let rest = properties.into_iter().flat_map(Map::keys).map(String::as_str);
        let mut rest: Vec<_> = rest.filter(|n| !seen.contains(n)).map(|n| (n, Presence::Optional)).collect();
        rest.sort_unstable_by_key(|(name, _)| *name);
        names.extend(rest);
        names.sort_by_key(|(_, presence)| *presence == Presence::Optional);

        let all = names.len();
        names.retain(|(name, _)| name.chars().nth(MAX_LITERAL_CHARS).is_none());
        names.truncate(MAX_MEMBERS);
        let more = if names.len() < all { More::Unknown } else { More::No };
        let fields = names.into_iter().map(|(name, presence)| {
            let schema = properties.and_then(|p| p.get(name)).unwrap_or(&Value::Null);
            let doc = notes::doc(schema, self.side);
            Field { name: name.to_owned(), presence, doc, ty: self.ty(schema, depth) }
        });
        (fields.collect(), more)
    }

    /// Whether a required property must really be given: the gateway fills in what has a default.
    fn presence(&self, schema: Option<&Value>) -> Presence {
        let default = schema.and_then(|s| s.get("default")).filter(|d| !d.is_null());
        match (self.side, default) {
            (Side::Input, Some(_)) => Presence::Optional,
            _ => Presence::Required,
        }
    }

    fn reference(&mut self, reference: &str) -> Type {
        let pointer = reference.strip_prefix('#').and_then(unescaped);
        pointer.and_then(|pointer| self.definition(&pointer)).map_or(UNKNOWN, Type::Definition)
    }

    /// The number of what a pointer points at, if it points at something.
    fn definition(&mut self, pointer: &str) -> Option<usize> {
        if let Some(id) = self.ids.get(pointer) {
            return Some(*id);
        }
        let schema = self.root.pointer(pointer)?;
        if self.found.len() >= MAX_DEFINITIONS {
            return None;
        }
        let title = schema.get("title").and_then(Value::as_str);
        let name = pointer.rsplit_once('/').map_or(title.unwrap_or_default(), |(_, last)| last);
        let id = self.base + self.found.len();
        self.ids.insert(pointer.to_owned(), id);
        self.found.push((name.replace("~1", "/").replace("~0", "~"), schema));
        Some(id)
    }
}

fn plain(ty: Type) -> Member {
    Member { doc: String::new(), ty }
}

/// The type of one value.
fn value(value: &Value, depth: usize) -> Type {
    let deeper = depth + 1;
    match value {
        Value::Null => NULL,
        Value::Bool(b) => Type::Literal { text: b.to_string(), of: "boolean" },
        Value::Number(n) => Type::Literal { text: n.to_string(), of: "number" },
        Value::String(s) if s.chars().nth(MAX_LITERAL_CHARS).is_some() => Type::Word("string"),
        Value::String(s) => Type::Literal { text: literal(s), of: "string" },
        _ if depth > MAX_DEPTH => UNKNOWN,
        Value::Array(items) if items.len() > MAX_MEMBERS => Type::Array(Box::new(UNKNOWN)),
        Value::Array(items) => {
            let items =
                items.iter().map(|v| Item { presence: Presence::Required, ty: self::value(v, deeper) });
            Type::Tuple { items: items.collect(), rest: None }
        }
        Value::Object(map) if map.len() > MAX_MEMBERS => Type::Record(Box::new(UNKNOWN)),
        Value::Object(map) if map.keys().any(|k| k.chars().nth(MAX_LITERAL_CHARS).is_some()) => {
            Type::Record(Box::new(UNKNOWN))
        }
        Value::Object(map) => {
            let fields = map.iter().map(|(name, v)| Field {
                name: name.clone(),
                presence: Presence::Required,
                doc: String::new(),
                ty: self::value(v, deeper),
            });
            Type::Object { fields: fields.collect(), more: More::No }
        }
    }
}

/// A fragment without its percent signs.
fn unescaped(fragment: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(fragment.len());
    let mut parts = fragment.split('%');
    bytes.extend(parts.next()?.bytes());
    for part in parts {
        let (code, rest) = part.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(code, 16).ok()?);
        bytes.extend(rest.bytes());
    }
    String::from_utf8(bytes).ok()
}
