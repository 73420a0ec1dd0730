//! What a schema says that a type cannot: bounds, formats, defaults, in a few words.
//!
//! For input all of it, because a caller must keep to it; for output only what tells the meaning of a value.

use serde_json::{Map, Value};

use super::schema::Side;
use super::text::cut;

/// The longest description of a property or type that is written out.
pub(super) const MAX_DESCRIPTION_CHARS: usize = 600;
/// The longest default, example or pattern that is written out.
const MAX_VALUE_CHARS: usize = 80;

/// The description and the notes of a schema; empty where it says nothing.
pub(super) fn doc(schema: &Value, side: Side) -> String {
    let Some(map) = schema.as_object() else { return String::new() };
    let description = map.get("description").and_then(Value::as_str).unwrap_or_default().trim();
    let mut said = vec![cut(description, MAX_DESCRIPTION_CHARS)];
    said.extend(notes(map, side));
    if let Some(items) = map.get("items").and_then(Value::as_object) {
        said.extend(notes(items, side).into_iter().map(|note| format!("Each: {note}")));
    }
    if side == Side::Input {
        said.extend(map.get("default").filter(|d| !d.is_null()).map(|d| format!("Default: {}.", json(d))));
    }
    said.retain(|part| !part.is_empty());
    if let [first, _, ..] = said.as_mut_slice()
        && !first.ends_with(['.', '!', '?', ':', '…'])
    {
        first.push('.');
    }
    said.join(" ")
}

fn notes(map: &Map<String, Value>, side: Side) -> Vec<String> {
    let mut notes = Vec::new();
    if map.get("deprecated") == Some(&Value::Bool(true)) {
        notes.push("Deprecated.".to_owned());
    }
    if side == Side::Input {
        notes.extend(range(map));
        notes.extend(span(map, "minLength", "maxLength", "character"));
        notes.extend(span(map, "minItems", "maxItems", "item").filter(|_| !map.contains_key("prefixItems")));
        notes.extend(span(map, "minProperties", "maxProperties", "entry"));
        if map.get("uniqueItems") == Some(&Value::Bool(true)) {
            notes.push("No duplicates.".to_owned());
        }
        let pattern = map.get("pattern").and_then(Value::as_str);
        notes.extend(pattern.map(|p| format!("Matches {}.", cut(p, MAX_VALUE_CHARS))));
    }
    // The formats of numbers are widths in bits, which a script does not have.
    let textual = !has_type(map, "integer") && !has_type(map, "number");
    let format = map.get("format").and_then(Value::as_str).filter(|_| textual);
    notes.extend(format.map(|f| format!("Format: {}.", cut(f, MAX_VALUE_CHARS))));
    notes
}

fn has_type(map: &Map<String, Value>, name: &str) -> bool {
    match map.get("type") {
        Some(Value::String(one)) => one == name,
        Some(Value::Array(several)) => several.iter().any(|one| one == name),
        _ => false,
    }
}

/// `An integer from 1 to 100.`
fn range(map: &Map<String, Value>) -> Option<String> {
    let bound = |key: &str| map.get(key).filter(|v| v.is_number());
    let integer = has_type(map, "integer");
    let from = match (bound("minimum"), bound("exclusiveMinimum")) {
        (_, Some(more)) => Some(format!("more than {more}")),
        (Some(least), None) => Some(format!("from {least}")),
        (None, None) => None,
    };
    let to = match (bound("maximum"), bound("exclusiveMaximum")) {
        (_, Some(less)) => Some(format!("less than {less}")),
        (Some(most), None) => Some(format!("{} {most}", if from.is_some() { "to" } else { "up to" })),
        (None, None) => None,
    };
    let step = bound("multipleOf").map(|step| format!("in steps of {step}"));
    let said: Vec<String> = [from, to, step].into_iter().flatten().collect();
    match (integer, said.is_empty()) {
        (false, true) => None,
        (true, true) => Some("An integer.".to_owned()),
        (true, false) => Some(format!("An integer {}.", said.join(" "))),
        (false, false) => Some(format!("A number {}.", said.join(" "))),
    }
}

/// `1 to 200 characters.`
fn span(map: &Map<String, Value>, least: &str, most: &str, unit: &str) -> Option<String> {
    let bound = |key: &str| map.get(key).and_then(Value::as_u64);
    let units = |n: u64| match (n, unit.strip_suffix('y')) {
        (1, _) => unit.to_owned(),
        (_, Some(stem)) => format!("{stem}ies"),
        _ => format!("{unit}s"),
    };
    match (bound(least).filter(|n| *n > 0), bound(most)) {
        (None, None) => None,
        (Some(n), Some(m)) if n == m => Some(format!("Exactly {n} {}.", units(n))),
        (Some(n), Some(m)) => Some(format!("{n} to {m} {}.", units(m))),
        (Some(n), None) => Some(format!("At least {n} {}.", units(n))),
        (None, Some(m)) => Some(format!("At most {m} {}.", units(m))),
    }
}

fn json(value: &Value) -> String {
    cut(&value.to_string(), MAX_VALUE_CHARS)
}
