//! How parameter values are written: OpenAPI's styles, `explode`, `deepObject` and `content` parameters.
//!
//! Promise: a value stays the value of its parameter. Everything but unreserved characters is percent-encoded, so that no
//! argument ends its segment, adds a parameter or begins a fragment.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value};

/// All but the unreserved characters of RFC 3986.
const UNRESERVED_ONLY: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// For `allowReserved`: reserved characters stay, but for those that would end the value.
const RESERVED_TOO: &AsciiSet = &UNRESERVED_ONLY
    .remove(b':')
    .remove(b'/')
    .remove(b'?')
    .remove(b'@')
    .remove(b'!')
    .remove(b'$')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b'*')
    .remove(b',')
    .remove(b';')
    .remove(b'=');
/// The deepest nesting of a `deepObject` value.
const MAX_DEEP_OBJECT_LEVELS: usize = 16;

/// OpenAPI's styles, and Swagger 2's tabs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    Simple,
    Label,
    Matrix,
    Form,
    SpaceDelimited,
    PipeDelimited,
    TabDelimited,
    DeepObject,
}

/// Whether each member of an array or object is written by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Explode {
    Yes,
    No,
}

/// Which characters are encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reserved {
    Encoded,
    Allowed,
}

/// How one parameter is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Writing {
    pub(super) style: Style,
    pub(super) explode: Explode,
    pub(super) reserved: Reserved,
}

/// Percent-encodes all but unreserved characters.
pub(super) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, UNRESERVED_ONLY).to_string()
}

/// A scalar as text; arrays and objects inside other values are JSON, since no style says anything better.
pub(super) fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => match number.as_f64() {
            // JSON's `5.0` is the integer 5, and integers are what upstreams parse.
            Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < 9e15 => {
                format!("{float:.0}")
            }
            _ => number.to_string(),
        },
        other => other.to_string(),
    }
}

/// A value inside a path segment; none where there is nothing to write.
pub(super) fn in_path(name: &str, value: &Value, writing: Writing) -> Option<String> {
    let plain = Plain::of(value)?;
    let name = encoded(name);
    let explode = writing.explode == Explode::Yes;
    let text = match (writing.style, &plain) {
        (Style::Label, Plain::Pairs(pairs)) if explode => format!(".{}", joined_pairs(pairs, "=", ".")),
        (Style::Label, _) => format!(".{}", plain.joined(if explode { "." } else { "," })),
        (Style::Matrix, Plain::Scalar(_)) => format!(";{name}={}", plain.joined(",")),
        (Style::Matrix, Plain::List(items)) if explode => {
            items.iter().map(|item| format!(";{name}={}", encoded(item))).collect()
        }
        (Style::Matrix, Plain::Pairs(pairs)) if explode => format!(";{}", joined_pairs(pairs, "=", ";")),
        (Style::Matrix, _) => format!(";{name}={}", plain.joined(",")),
        (_, Plain::Pairs(pairs)) if explode => joined_pairs(pairs, "=", ","),
        _ => plain.joined(","),
    };
    Some(text)
}

/// A header's value: `simple`, and nothing is encoded there.
pub(super) fn in_header(value: &Value, explode: Explode) -> Option<String> {
    Some(match (Plain::of(value)?, explode) {
        (Plain::Scalar(text), _) => text,
        (Plain::List(items), _) => items.join(","),
        (Plain::Pairs(pairs), Explode::Yes) => {
            pairs.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",")
        }
        (Plain::Pairs(pairs), Explode::No) => {
            pairs.iter().flat_map(|(key, value)| [key.as_str(), value]).collect::<Vec<_>>().join(",")
        }
    })
}

/// The encoded `name=value` pairs of a query or cookie parameter, in order.
pub(super) fn in_query(name: &str, value: &Value, writing: Writing) -> Vec<String> {
    let pair = |key: &str, value: &str| format!("{}={}", encoded(key), encode(value, writing.reserved));
    let separator = match writing.style {
        Style::DeepObject => {
            let mut pairs = Vec::new();
            deep_object(name, value, MAX_DEEP_OBJECT_LEVELS, &mut pairs);
            return pairs.iter().map(|(key, value)| pair(key, value)).collect();
        }
        Style::SpaceDelimited => "%20",
        Style::PipeDelimited => "%7C",
        Style::TabDelimited => "%09",
        _ => ",",
    };
    let Some(plain) = Plain::of(value) else { return Vec::new() };
    let encode_all = |texts: &[String]| {
        texts.iter().map(|text| encode(text, writing.reserved)).collect::<Vec<_>>().join(separator)
    };
    match (plain, writing.explode) {
        (Plain::Scalar(text), _) => vec![pair(name, &text)],
        (Plain::List(items), Explode::Yes) => items.iter().map(|item| pair(name, item)).collect(),
        (Plain::Pairs(pairs), Explode::Yes) => pairs.iter().map(|(key, value)| pair(key, value)).collect(),
        (Plain::List(items), Explode::No) => vec![format!("{}={}", encoded(name), encode_all(&items))],
        (Plain::Pairs(pairs), Explode::No) => {
            let flat: Vec<String> = pairs.into_iter().flat_map(|(key, value)| [key, value]).collect();
            vec![format!("{}={}", encoded(name), encode_all(&flat))]
        }
    }
}

/// `a[b][c]` for members of objects, `a[]` for lists of scalars, `a[0][b]` for lists of anything else.
pub(super) fn deep_object(name: &str, value: &Value, levels: usize, pairs: &mut Vec<(String, String)>) {
    match value {
        Value::Null => {}
        Value::Object(members) if levels > 0 => {
            for (key, member) in members {
                deep_object(&format!("{name}[{key}]"), member, levels - 1, pairs);
            }
        }
        Value::Array(items) if levels > 0 => {
            let is_flat = items.iter().all(|item| !item.is_object() && !item.is_array());
            for (at, item) in items.iter().enumerate() {
                let key = if is_flat { format!("{name}[]") } else { format!("{name}[{at}]") };
                deep_object(&key, item, levels - 1, pairs);
            }
        }
        other => pairs.push((name.to_owned(), text_of(other))),
    }
}

/// A value whose members are text.
enum Plain {
    Scalar(String),
    List(Vec<String>),
    Pairs(Vec<(String, String)>),
}

impl Plain {
    /// None for `null` and for empty lists and objects: RFC 6570 writes nothing for those.
    fn of(value: &Value) -> Option<Self> {
        match value {
            Value::Null => None,
            Value::Array(items) => {
                let items: Vec<String> = items.iter().filter(|item| !item.is_null()).map(text_of).collect();
                (!items.is_empty()).then_some(Self::List(items))
            }
            Value::Object(members) => Self::pairs(members),
            scalar => Some(Self::Scalar(text_of(scalar))),
        }
    }

    fn pairs(members: &Map<String, Value>) -> Option<Self> {
        let given = members.iter().filter(|(_, value)| !value.is_null());
        let pairs: Vec<_> = given.map(|(key, value)| (key.clone(), text_of(value))).collect();
        (!pairs.is_empty()).then_some(Self::Pairs(pairs))
    }

    fn joined(&self, separator: &str) -> String {
        match self {
            Self::Scalar(text) => encoded(text),
            Self::List(items) => items.iter().map(|item| encoded(item)).collect::<Vec<_>>().join(separator),
            Self::Pairs(pairs) => joined_pairs(pairs, separator, separator),
        }
    }
}

fn joined_pairs(pairs: &[(String, String)], between: &str, separator: &str) -> String {
    let pairs = pairs.iter().map(|(key, value)| format!("{}{between}{}", encoded(key), encoded(value)));
    pairs.collect::<Vec<_>>().join(separator)
}

fn encode(text: &str, reserved: Reserved) -> String {
    match reserved {
        Reserved::Encoded => encoded(text),
        Reserved::Allowed => utf8_percent_encode(text, RESERVED_TOO).to_string(),
    }
}
