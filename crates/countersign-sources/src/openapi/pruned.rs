//! A document's tree without the parts that no mapping reads: examples, extensions, callbacks, external documentation.
//!
//! Skipping them while reading keeps a 13 MB document within its memory bound. What may be skipped depends on where a key
//! stands: a property may be called `example`.

use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Keys of OpenAPI objects and schemas that are skipped with everything below them.
const SKIPPED: [&str; 7] = ["callbacks", "example", "examples", "externalDocs", "links", "webhooks", "xml"];
/// The one extension that is read: GitHub marks path parameters whose value may contain slashes.
pub(super) const MULTI_SEGMENT: &str = "x-multi-segment";
/// Keys whose value is an object with names of the author's choice.
const NAMED: [&str; 19] = [
    "$defs",
    "content",
    "definitions",
    "dependentSchemas",
    "encoding",
    "headers",
    "mapping",
    "parameters",
    "patternProperties",
    "paths",
    "properties",
    "requestBodies",
    "responses",
    "schemas",
    "scopes",
    "securityDefinitions",
    "securitySchemes",
    "security",
    "variables",
];
/// Keys whose value is data, not description.
const LITERAL: [&str; 3] = ["const", "default", "enum"];

/// A tree that was pruned while it was read.
pub(super) struct Pruned(pub(super) Value);

impl<'de> Deserialize<'de> for Pruned {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Place::Keywords.deserialize(deserializer).map(Pruned)
    }
}

/// What the keys of an object are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Words of the specification.
    Keywords,
    /// Names of the author's choice; below each stand keywords.
    Names,
    /// Data, kept whole.
    Literal,
}

impl Place {
    fn skips(self, key: &str) -> bool {
        self == Self::Keywords && (SKIPPED.contains(&key) || (key.starts_with("x-") && key != MULTI_SEGMENT))
    }

    fn below(self, key: &str) -> Self {
        match self {
            Self::Literal => Self::Literal,
            Self::Names => Self::Keywords,
            Self::Keywords if NAMED.contains(&key) => Self::Names,
            Self::Keywords if LITERAL.contains(&key) => Self::Literal,
            Self::Keywords => Self::Keywords,
        }
    }

    /// What stands in an array has no name of its own: `parameters: [...]` holds objects with keywords.
    fn item(self) -> Self {
        if self == Self::Literal { Self::Literal } else { Self::Keywords }
    }
}

impl<'de> DeserializeSeed<'de> for Place {
    type Value = Value;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Place {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut kept = Vec::new();
        while let Some(item) = items.next_element_seed(self.item())? {
            kept.push(item);
        }
        kept.shrink_to_fit();
        Ok(Value::Array(kept))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut kept = Map::new();
        while let Some(Key(key)) = entries.next_key()? {
            if self.skips(&key) {
                entries.next_value::<IgnoredAny>()?;
                continue;
            }
            let value = entries.next_value_seed(self.below(&key))?;
            kept.insert(key, value);
        }
        Ok(Value::Object(kept))
    }
}

/// A key as text. YAML reads the status codes of responses as numbers.
struct Key(String);

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Key)
    }
}
