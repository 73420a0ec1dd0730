//! JSON values that rest in memory: schemas and definitions, of which a source may bring thousands.
//!
//! A parsed [`Value`] takes ten times the memory of its text, because each object is a tree with room for eleven entries. So
//! values that are kept and seldom read are kept as text.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// A JSON value kept as its text. Cheap to clone; serialised as the value that it says.
///
/// Two are equal where their values are: keys are sorted, and `serde_json` writes a number the way it was read.
#[derive(Clone, PartialEq, Eq)]
pub struct CompactJson(Arc<str>);

impl CompactJson {
    /// Keeps a value.
    pub fn of(value: &Value) -> Self {
        Self(value.to_string().into())
    }

    /// The text, without spaces and with sorted keys.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The value, parsed anew each time. `null` for a value nested deeper than `serde_json` reads (127 levels), which no schema
    /// of a tool may be.
    pub fn to_value(&self) -> Value {
        serde_json::from_str(&self.0).unwrap_or(Value::Null)
    }
}

impl From<Value> for CompactJson {
    fn from(value: Value) -> Self {
        Self::of(&value)
    }
}

impl fmt::Debug for CompactJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

// Not as a raw value: the value is indented where what it stands in is, and any serialiser can write it.
impl Serialize for CompactJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_value().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for CompactJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(|value| Self::of(&value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_value_survives_being_kept_and_is_written_as_itself() {
        let value =
            json!({ "b": [1, 1.0, -0.5, 18_446_744_073_709_551_615_u64], "a": { "é\u{202e}": null } });
        let kept = CompactJson::of(&value);
        assert_eq!(kept.to_value(), value);
        assert_eq!(serde_json::to_value(&kept).unwrap(), value);
        let pretty = serde_json::to_string_pretty(&value).unwrap();
        assert_eq!(serde_json::to_string_pretty(&kept).unwrap(), pretty);
        assert_eq!(serde_json::to_string(&kept).unwrap(), kept.as_str());
    }

    #[test]
    fn the_order_of_keys_and_spaces_make_no_difference() {
        let read = |text: &str| serde_json::from_str::<CompactJson>(text).unwrap();
        assert_eq!(read(r#"{ "b": 1, "a": 2 }"#), read(r#"{"a":2,"b":1}"#));
        assert_ne!(read("1"), read("1.0"));
    }

    #[test]
    fn a_value_that_is_too_deep_to_be_read_is_null() {
        let deep = (0..200).fold(json!({}), |inner, _| json!({ "not": inner }));
        assert_eq!(CompactJson::of(&deep).to_value(), Value::Null);
    }
}
