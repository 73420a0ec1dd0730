//! Canonical JSON (RFC 8785): one text for one value.
//!
//! Promise: what is digested, what is stored, what the person is shown and what the handler gets are all made from the
//! same bytes. The value that they say is parsed once and carried with them, so that policy and handler see the value that
//! validation saw.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Number, Value};

use crate::bounds::{self, BoundsError, MAX_SAFE_INTEGER};

/// A JSON value in its canonical text. Cheap to clone.
#[derive(Clone)]
pub struct Canonical(JsonText);

/// A JSON value kept as it came: results and steps are bound to no digest, and an upstream's 64-bit ids must survive.
#[derive(Clone)]
pub struct Verbatim(JsonText);

/// A JSON text, and the value that it says as long as somebody works with it. The text alone counts when two are compared.
#[derive(Clone)]
struct JsonText {
    text: Arc<str>,
    value: Option<Arc<Value>>,
}

/// Gives numbers the form in which the canonical text says them (`1.0` is `1`), so that the value is what its text reads as.
pub fn normalise(value: &mut Value) {
    match value {
        Value::Number(number) => {
            if let Some(whole) = whole(number) {
                *number = whole;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(normalise),
        Value::Object(map) => map.values_mut().for_each(normalise),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

impl Canonical {
    /// Brings a value into its canonical form, if it is within bounds.
    pub fn of(value: &Value) -> Result<Self, BoundsError> {
        bounds::check(value)?;
        let text = canonical_text(value)?;
        within_size(&text)?;
        Ok(Self(JsonText { text: text.into(), value: None }))
    }

    /// The same, with the value carried along for those who work with it next.
    pub fn carrying(mut value: Value) -> Result<Self, BoundsError> {
        let Self(json) = Self::of(&value)?;
        normalise(&mut value);
        Ok(Self(JsonText { value: Some(Arc::new(value)), ..json }))
    }
}

impl Verbatim {
    /// The value `null`.
    pub fn null() -> Self {
        Self(JsonText { text: "null".into(), value: None })
    }

    /// Keeps a value, if it is within the bounds of size and depth.
    pub fn of(value: &Value) -> Result<Self, BoundsError> {
        bounds::check_size(value)?;
        let text = value.to_string();
        within_size(&text)?;
        Ok(Self(JsonText { text: text.into(), value: None }))
    }

    /// The same, with the value carried along for those who work with it next.
    pub fn carrying(value: Value) -> Result<Self, BoundsError> {
        let Self(json) = Self::of(&value)?;
        Ok(Self(JsonText { value: Some(Arc::new(value)), ..json }))
    }
}

impl JsonText {
    fn value(&self) -> Cow<'_, Value> {
        match &self.value {
            Some(value) => Cow::Borrowed(value),
            // The text was made from a value, or read back by `Deserialize`, which checks that it parses.
            None => Cow::Owned(serde_json::from_str(&self.text).unwrap_or(Value::Null)),
        }
    }
}

/// The canonical text of a value within bounds.
fn canonical_text(value: &Value) -> Result<String, BoundsError> {
    let text = if is_written_canonically(value) {
        serde_json::to_string(value)
    } else {
        serde_json_canonicalizer::to_string(value)
    };
    text.map_err(|_| BoundsError::TooDeep)
}

/// Whether `serde_json` writes this value as RFC 8785 wants it, which is many times cheaper than having it sorted: its maps are in
/// the order of bytes, which for ASCII is that of UTF-16, and it escapes what the RFC escapes. Only fractions differ.
fn is_written_canonically(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::String(_) => true,
        Value::Number(number) => !number.is_f64(),
        Value::Array(items) => items.iter().all(is_written_canonically),
        Value::Object(map) => map.iter().all(|(key, value)| key.is_ascii() && is_written_canonically(value)),
    }
}

fn within_size(text: &str) -> Result<(), BoundsError> {
    if text.len() > bounds::MAX_VALUE_BYTES { Err(BoundsError::TooLarge) } else { Ok(()) }
}

/// The integer as which the canonical text says a number that is no integer type.
fn whole(number: &Number) -> Option<Number> {
    let float = number.as_f64().filter(|float| number.is_f64() && float.fract() == 0.0)?;
    #[expect(clippy::cast_precision_loss, reason = "the largest safe integer is a double")]
    let is_safe = float.abs() <= MAX_SAFE_INTEGER as f64;
    #[expect(clippy::cast_possible_truncation, reason = "a whole number within 2^53")]
    is_safe.then(|| Number::from(float as i64))
}

macro_rules! json_text {
    ($name:ident) => {
        impl $name {
            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0.text
            }

            /// The value that the text says: borrowed where it is carried, else parsed.
            pub fn value(&self) -> Cow<'_, Value> {
                self.0.value()
            }

            /// The value that the text says, for several to share.
            pub fn shared_value(&self) -> Arc<Value> {
                match &self.0.value {
                    Some(value) => Arc::clone(value),
                    None => Arc::new(self.0.value().into_owned()),
                }
            }

            /// The value that the text says.
            pub fn to_value(&self) -> Value {
                self.0.value().into_owned()
            }

            /// Keeps only the text, for what rests in memory.
            pub fn forget_value(&mut self) {
                self.0.value = None;
            }
        }

        impl PartialEq for $name {
            fn eq(&self, other: &Self) -> bool {
                self.0.text == other.0.text
            }
        }

        impl Eq for $name {}

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0.text)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let raw: &RawValue = serde_json::from_str(&self.0.text).map_err(serde::ser::Error::custom)?;
                raw.serialize(serializer)
            }
        }
    };
}

json_text!(Canonical);
json_text!(Verbatim);

impl<'de> Deserialize<'de> for Canonical {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw: Box<RawValue> = Deserialize::deserialize(deserializer)?;
        let value: Value = serde_json::from_str(raw.get()).map_err(serde::de::Error::custom)?;
        match Self::carrying(value) {
            Ok(canonical) if canonical.as_str() == raw.get() => Ok(canonical),
            // Another program wrote it. A reader would see one value and the digest would be of another.
            _ => Err(serde::de::Error::custom("the stored value is not in its canonical form")),
        }
    }
}

impl<'de> Deserialize<'de> for Verbatim {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw: Box<RawValue> = Deserialize::deserialize(deserializer)?;
        Ok(Self(JsonText { text: raw.get().into(), value: None }))
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

    #[test]
    fn the_value_that_is_carried_is_the_one_that_the_text_says() {
        let canonical =
            Canonical::carrying(json!({ "a": 1.0, "b": [-0.0, 1e2, 2.5, 1e21], "c": -3.0 })).unwrap();
        assert_eq!(*canonical.value(), serde_json::from_str::<Value>(canonical.as_str()).unwrap());
        assert_eq!(*canonical.value(), json!({ "a": 1, "b": [0, 100, 2.5, 1e21], "c": -3 }));
        let mut resting = canonical.clone();
        resting.forget_value();
        assert!(resting.0.value.is_none() && resting == canonical);
        assert_eq!(resting.value(), canonical.value());
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
        fn what_is_carried_never_differs_from_the_text(value in any_value()) {
            let canonical = Canonical::carrying(value).unwrap();
            prop_assert_eq!(&*canonical.value(), &serde_json::from_str::<Value>(canonical.as_str()).unwrap());
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
