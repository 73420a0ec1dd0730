//! Cuts definitions that contain themselves without descending into the value.
//!
//! `A: { allOf: [{ $ref: A }] }` says nothing, and a validator that follows it never comes back. Recursion through
//! `properties` or `items` is what trees are made of and stays.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

/// Keywords whose schemas apply to the same value.
const SAME_VALUE: [&str; 7] = ["allOf", "anyOf", "oneOf", "not", "if", "then", "else"];

/// Replaces each reference that closes such a circle by a schema that accepts everything.
pub(super) fn cut(definitions: &mut BTreeMap<String, Value>) {
    let mut done = BTreeSet::new();
    for name in definitions.keys().cloned().collect::<Vec<_>>() {
        while let Some((at, to)) = find_circle(&name, definitions, &mut Vec::new(), &mut done) {
            if let Some(definition) = definitions.get_mut(&at) {
                replace(definition, &to);
            }
        }
    }
}

/// A definition and the reference in it that leads back onto the way there.
fn find_circle(
    name: &str,
    definitions: &BTreeMap<String, Value>,
    way: &mut Vec<String>,
    done: &mut BTreeSet<String>,
) -> Option<(String, String)> {
    if done.contains(name) {
        return None;
    }
    way.push(name.to_owned());
    let mut targets = Vec::new();
    if let Some(definition) = definitions.get(name) {
        collect(definition, &mut targets);
    }
    for target in targets {
        if way.contains(&target) {
            return Some((name.to_owned(), target));
        }
        if let Some(found) = find_circle(&target, definitions, way, done) {
            return Some(found);
        }
    }
    way.pop();
    done.insert(name.to_owned());
    None
}

fn collect(schema: &Value, targets: &mut Vec<String>) {
    let Some(keywords) = schema.as_object() else { return };
    targets.extend(target(schema).map(str::to_owned));
    for word in SAME_VALUE {
        match keywords.get(word) {
            Some(Value::Array(list)) => list.iter().for_each(|inner| collect(inner, targets)),
            Some(inner) => collect(inner, targets),
            None => {}
        }
    }
    if let Some(Value::Object(named)) = keywords.get("dependentSchemas") {
        named.values().for_each(|inner| collect(inner, targets));
    }
}

fn replace(schema: &mut Value, to: &str) {
    if target(schema) == Some(to) {
        *schema = json!({});
        return;
    }
    let Some(keywords) = schema.as_object_mut() else { return };
    for word in SAME_VALUE {
        match keywords.get_mut(word) {
            Some(Value::Array(list)) => list.iter_mut().for_each(|inner| replace(inner, to)),
            Some(inner) => replace(inner, to),
            None => {}
        }
    }
    if let Some(Value::Object(named)) = keywords.get_mut("dependentSchemas") {
        named.values_mut().for_each(|inner| replace(inner, to));
    }
}

fn target(schema: &Value) -> Option<&str> {
    schema.get("$ref")?.as_str()?.strip_prefix("#/$defs/")
}
