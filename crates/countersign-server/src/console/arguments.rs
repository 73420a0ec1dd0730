//! Arguments for a person: whole, as a tree that folds and as JSON; what the tool's schema calls a secret is not sent to the
//! browser at all.

use maud::{Markup, html};
use serde_json::Value;

use super::text::{Oddities, text};

/// A text longer than this, or of several lines, stands in a block of its own.
const SHORT_TEXT: usize = 120;
/// How many references of a schema are followed before it is given up as endless.
const MOST_HOPS: usize = 32;

/// A value with its secrets taken out.
#[derive(Debug, PartialEq)]
pub(super) enum Shown<'a> {
    /// Something the schema calls a secret: what it was, to keep it out of other texts.
    Secret(&'a Value),
    /// A value without parts.
    Leaf(&'a Value),
    List(Vec<Shown<'a>>),
    Map(Vec<(&'a str, Shown<'a>)>),
}

impl<'a> Shown<'a> {
    /// A value by its schema: `writeOnly` or the format `password` make a secret.
    pub(super) fn of(value: &'a Value, schema: &Value) -> Self {
        shown(value, &[schema], schema)
    }

    /// A text with every secret of this value taken out.
    pub(super) fn without_secrets(&self, text: &str) -> String {
        let mut text = text.to_owned();
        self.each_secret(&mut |secret| {
            if let Some(secret) = secret.as_str().filter(|secret| secret.len() >= 4) {
                text = text.replace(secret, "[hidden]");
            }
        });
        text
    }

    fn each_secret(&self, visit: &mut impl FnMut(&Value)) {
        match self {
            Self::Secret(value) => visit(value),
            Self::Leaf(_) => {}
            Self::List(items) => items.iter().for_each(|item| item.each_secret(visit)),
            Self::Map(entries) => entries.iter().for_each(|(_, item)| item.each_secret(visit)),
        }
    }
}

fn shown<'a>(value: &'a Value, schemas: &[&Value], root: &Value) -> Shown<'a> {
    let mut all = Vec::new();
    for schema in schemas {
        gather(schema, root, MOST_HOPS, &mut all);
    }
    if all.iter().any(|schema| is_secret(schema)) {
        return Shown::Secret(value);
    }
    match value {
        Value::Array(items) => {
            let below: Vec<&Value> = all
                .iter()
                .flat_map(|schema| [schema.get("items"), schema.get("prefixItems").and_then(|p| p.get(0))])
                .flatten()
                .collect();
            Shown::List(items.iter().map(|item| shown(item, &below, root)).collect())
        }
        Value::Object(map) => Shown::Map(
            map.iter()
                .map(|(key, item)| {
                    let below: Vec<&Value> = all
                        .iter()
                        .filter_map(|schema| {
                            schema
                                .get("properties")
                                .and_then(|p| p.get(key))
                                .or_else(|| schema.get("additionalProperties"))
                        })
                        .collect();
                    (key.as_str(), shown(item, &below, root))
                })
                .collect(),
        ),
        _ => Shown::Leaf(value),
    }
}

/// A schema and all that it refers to or is made of.
fn gather<'s>(schema: &'s Value, root: &'s Value, hops: usize, into: &mut Vec<&'s Value>) {
    if hops == 0 {
        return;
    }
    into.push(schema);
    if let Some(target) =
        schema.get("$ref").and_then(Value::as_str).and_then(|at| root.pointer(at.strip_prefix('#')?))
    {
        gather(target, root, hops - 1, into);
    }
    for join in ["allOf", "anyOf", "oneOf"] {
        for part in schema.get(join).and_then(Value::as_array).into_iter().flatten() {
            gather(part, root, hops - 1, into);
        }
    }
}

fn is_secret(schema: &Value) -> bool {
    schema.get("writeOnly") == Some(&Value::Bool(true))
        || schema.get("format").and_then(Value::as_str) == Some("password")
}

/// The value as a tree. It begins unfolded: nothing is out of sight unless the reader put it there.
pub(super) fn tree(shown: &Shown<'_>, odd: &mut Oddities) -> Markup {
    html! {
        @match shown {
            Shown::Map(entries) if entries.is_empty() => p.faint { "None: an empty object." },
            Shown::Map(_) | Shown::List(_) => div.tree { (children(shown, odd)) },
            Shown::Leaf(_) | Shown::Secret(_) => div.tree { (leaf(shown, odd)) },
        }
    }
}

fn children(shown: &Shown<'_>, odd: &mut Oddities) -> Markup {
    html! {
        ul {
            @match shown {
                Shown::Map(entries) => @for (key, item) in entries { (entry(&odd.text(key), item, odd)) },
                Shown::List(items) => @for (n, item) in items.iter().enumerate() { (entry(&html! { (n) }, item, odd)) },
                Shown::Leaf(_) | Shown::Secret(_) => {}
            }
        }
    }
}

fn entry(key: &Markup, item: &Shown<'_>, odd: &mut Oddities) -> Markup {
    let size = match item {
        Shown::Map(entries) => Some((entries.len(), "{", "}")),
        Shown::List(items) => Some((items.len(), "[", "]")),
        Shown::Leaf(_) | Shown::Secret(_) => None,
    };
    html! {
        li {
            @match size {
                Some((0, open, close)) => { span.key { (key) } span.faint { (open) (close) } }
                Some((n, open, close)) => details open {
                    summary { span.key { (key) } span.faint { (open) (n) (close) } }
                    (children(item, odd))
                },
                None => { span.key { (key) } (leaf(item, odd)) }
            }
        }
    }
}

fn leaf(item: &Shown<'_>, odd: &mut Oddities) -> Markup {
    html! {
        @match item {
            Shown::Secret(secret) => span.secret { "hidden: the tool calls it a secret" @if let Some(text) = secret.as_str() { " (" (text.chars().count()) " characters)" } },
            Shown::Leaf(Value::String(string)) if string.len() > SHORT_TEXT || string.contains('\n') => pre.long { (odd.text(string)) },
            Shown::Leaf(Value::String(string)) => span.string { "“" (odd.text(string)) "”" },
            Shown::Leaf(other) => span.other { (other.to_string()) },
            Shown::Map(_) | Shown::List(_) => {}
        }
    }
}

/// The value as JSON, its secrets taken out.
pub(super) fn raw(shown: &Shown<'_>) -> Markup {
    text(&serde_json::to_string_pretty(&plain(shown)).unwrap_or_default())
}

fn plain(shown: &Shown<'_>) -> Value {
    match shown {
        Shown::Secret(_) => Value::from("[hidden]"),
        Shown::Leaf(value) => (*value).clone(),
        Shown::List(items) => items.iter().map(plain).collect(),
        Shown::Map(entries) => entries.iter().map(|(key, item)| ((*key).to_owned(), plain(item))).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_the_schema_calls_a_secret_is_nowhere_in_the_page() {
        let schema = json!({
            "properties": {
                "user": { "type": "string" },
                "password": { "type": "string", "format": "password" },
                "keys": { "type": "array", "items": { "$ref": "#/$defs/Key" } },
                "more": { "anyOf": [{ "type": "null" }, { "$ref": "#/$defs/More" }] },
            },
            "$defs": {
                "Key": { "type": "string", "writeOnly": true },
                "More": { "properties": { "pin": { "allOf": [{ "format": "password" }] } } },
            },
        });
        let args = json!({ "user": "ann", "password": "hunter22", "keys": ["k-one", "k-two"], "more": { "pin": "0000" } });
        let shown = Shown::of(&args, &schema);
        let page = html! { (tree(&shown, &mut Oddities::default())) (raw(&shown)) }.into_string();
        for secret in ["hunter22", "k-one", "k-two", "0000"] {
            assert!(!page.contains(secret), "{secret} in {page}");
        }
        assert!(page.contains("ann") && page.contains("8 characters"));
        assert_eq!(shown.without_secrets("log ann in with hunter22"), "log ann in with [hidden]");
    }

    #[test]
    fn a_schema_that_refers_to_itself_ends() {
        let schema = json!({ "$ref": "#/$defs/A", "$defs": { "A": { "$ref": "#/$defs/A" } } });
        assert_eq!(Shown::of(&json!(1), &schema), Shown::Leaf(&json!(1)));
    }

    #[test]
    fn every_part_is_in_the_tree_unfolded() {
        let args = json!({ "a": [1, { "b": null }], "c": {}, "d": "two\nlines" });
        let page = tree(&Shown::of(&args, &Value::Null), &mut Oddities::default()).into_string();
        assert_eq!(page.matches("<details open>").count(), 2, "{page}");
        for part in ["null", "{}", "two\nlines", ">a<", ">b<"] {
            assert!(page.contains(part), "{part} in {page}");
        }
    }
}
