//! Canonical JSON (RFC 8785): one text for one value.
//!
//! Promise: what is digested, what is stored, what the person is shown and what the handler gets are all made from the
//! same bytes.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::bounds::{self, BoundsError};

/// A JSON value in its canonical text. Cheap to clone.
#[derive(Clone, PartialEq, Eq)]
pub struct Canonical(Arc<str>);

impl Canonical {
    /// Brings a value into its canonical form, if it is within bounds.
    pub fn of(value: &Value) -> Result<Self, BoundsError> {
        bounds::check(value)?;
        let text = serde_json_canonicalizer::to_string(value).map_err(|_| BoundsError::TooDeep)?;
        if text.len() > bounds::MAX_VALUE_BYTES {
            return Err(BoundsError::TooLarge);
        }
        Ok(Self(text.into()))
    }

    /// The canonical text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The value that the text says.
    pub fn to_value(&self) -> Value {
        // The text was made from a value, or read back by `Deserialize`, which checks that it parses.
        serde_json::from_str(&self.0).unwrap_or(Value::Null)
    }
}

/// A JSON value kept as it came: results and steps are bound to no digest, and an upstream's 64-bit ids must survive.
#[derive(Clone, PartialEq, Eq)]
pub struct Verbatim(Arc<str>);

impl Verbatim {
    /// The value `null`.
    pub fn null() -> Self {
        Self("null".into())
    }

    /// Keeps a value, if it is within the bounds of size and depth.
    pub fn of(value: &Value) -> Result<Self, BoundsError> {
        bounds::check_size(value)?;
        let text = value.to_string();
        if text.len() > bounds::MAX_VALUE_BYTES {
            return Err(BoundsError::TooLarge);
        }
        Ok(Self(text.into()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The value that the text says.
    pub fn to_value(&self) -> Value {
        serde_json::from_str(&self.0).unwrap_or(Value::Null)
    }
}

macro_rules! stored_as_raw_json {
    ($name:ident) => {
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let raw: &RawValue = serde_json::from_str(&self.0).map_err(serde::ser::Error::custom)?;
                raw.serialize(serializer)
            }
        }
    };
}

stored_as_raw_json!(Canonical);
stored_as_raw_json!(Verbatim);

impl<'de> Deserialize<'de> for Canonical {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw: Box<RawValue> = Deserialize::deserialize(deserializer)?;
        let value: Value = serde_json::from_str(raw.get()).map_err(serde::de::Error::custom)?;
        match Self::of(&value) {
            Ok(canonical) if canonical.as_str() == raw.get() => Ok(canonical),
            // Somebody else wrote this: it says one thing to whoever reads it and another to whoever digests it.
            _ => Err(serde::de::Error::custom("the stored value is not in its canonical form")),
        }
    }
}

impl<'de> Deserialize<'de> for Verbatim {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw: Box<RawValue> = Deserialize::deserialize(deserializer)?;
        Ok(Self(raw.get().into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn keys_are_sorted_and_numbers_have_one_form() {
        let value = json!({ "b": 1.0, "a": 1e2, "\u{20ac}": "\u{000f}", "z": [true, null] });
        assert_eq!(
            Canonical::of(&value).unwrap().as_str(),
            "{\"a\":100,\"b\":1,\"z\":[true,null],\"€\":\"\\u000f\"}"
        );
    }

    #[test]
    fn it_is_stored_as_the_very_bytes_that_were_digested() {
        let canonical = Canonical::of(&json!({ "b": 1.5, "a": "\u{202e}" })).unwrap();
        let stored = serde_json::to_string(&canonical).unwrap();
        assert_eq!(stored, canonical.as_str());
        assert_eq!(serde_json::from_str::<Canonical>(&stored).unwrap(), canonical);
    }

    pub(crate) fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (-9_007_199_254_740_991_i64..=9_007_199_254_740_991).prop_map(Value::from),
            any::<f64>().prop_map(Value::from).prop_filter("within bounds", |v| bounds::check(v).is_ok()),
            "[^\\x00]{0,12}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::btree_map("[^\\x00]{0,6}", inner, 0..6)
                    .prop_map(|m| Value::Object(m.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn the_canonical_form_is_a_fixed_point(value in any_value()) {
            let once = Canonical::of(&value).unwrap();
            let twice = Canonical::of(&once.to_value()).unwrap();
            prop_assert_eq!(once, twice);
        }

        #[test]
        fn different_values_have_different_texts(a in any_value(), b in any_value()) {
            let (ca, cb) = (Canonical::of(&a).unwrap(), Canonical::of(&b).unwrap());
            // Equal texts must come from values that mean the same, numbers compared as doubles.
            prop_assert_eq!(ca == cb, same(&a, &b));
        }
    }

    fn same(a: &Value, b: &Value) -> bool {
        match (a, b) {
            (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
            (Value::Array(a), Value::Array(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
            }
            (Value::Object(a), Value::Object(b)) => {
                a.len() == b.len() && a.iter().all(|(k, v)| b.get(k).is_some_and(|w| same(v, w)))
            }
            (a, b) => a == b,
        }
    }
}
