//! Arguments for a person: whole, as a tree that folds and as JSON; what the tool's schema calls a secret is in no page. Where
//! there is no schema, nobody can say what is a secret, and everything is taken for one.

use std::collections::BTreeSet;

use maud::{Markup, html};
use serde_json::Value;

use super::text::{Oddities, json};

/// A text longer than this, or of several lines, stands in a block of its own.
const SHORT_TEXT: usize = 120;
/// The shortest text that is cut out of others: a shorter one stands in many that have nothing to do with it.
const SHORTEST_SECRET: usize = 4;

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
        if schema.is_null() { hidden(value) } else { shown(value, &[schema], schema) }
    }

    /// What is secret in this value.
    pub(super) fn secrets(&self) -> Secrets {
        let mut all = Secrets::default();
        self.tell(&mut all);
        all
    }

    fn tell(&self, all: &mut Secrets) {
        match self {
            Self::Secret(value) => all.take(value),
            Self::Leaf(_) => {}
            Self::List(items) => items.iter().for_each(|item| item.tell(all)),
            Self::Map(entries) => entries.iter().for_each(|(_, item)| item.tell(all)),
        }
    }
}

/// Texts that must not show up anywhere.
#[derive(Debug, Default)]
pub(super) struct Secrets(BTreeSet<String>);

impl Secrets {
    /// Everything without parts in a secret is one, also as JSON or Rust would quote it.
    fn take(&mut self, value: &Value) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.take(item)),
            Value::Object(map) => map.values().for_each(|item| self.take(item)),
            Value::String(text) => {
                let quoted = [value.to_string(), format!("{text:?}")];
                let bare = quoted.iter().map(|quoted| quoted.trim_matches('"').to_owned());
                self.0.extend(bare.chain([text.clone()]).filter(|text| text.len() >= SHORTEST_SECRET));
            }
            Value::Number(number) => {
                self.0.extend(Some(number.to_string()).filter(|n| n.len() >= SHORTEST_SECRET));
            }
            Value::Bool(_) | Value::Null => {}
        }
    }

    /// These and others.
    pub(super) fn and(mut self, others: Self) -> Self {
        self.0.extend(others.0);
        self
    }

    /// A text without them. The longest goes first: a part of it may be another one.
    pub(super) fn cut_from(&self, text: &str) -> String {
        let mut longest_first: Vec<&String> = self.0.iter().collect();
        longest_first.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        longest_first.into_iter().fold(text.to_owned(), |text, secret| text.replace(secret, "[hidden]"))
    }

    /// A value without them, in texts, in names and as whole numbers.
    pub(super) fn cut_from_value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::from(self.cut_from(text)),
            Value::Array(items) => items.iter().map(|item| self.cut_from_value(item)).collect(),
            Value::Object(map) => {
                map.iter().map(|(key, item)| (self.cut_from(key), self.cut_from_value(item))).collect()
            }
            other => {
                let text = other.to_string();
                let cut = self.cut_from(&text);
                if cut == text { other.clone() } else { Value::from(cut) }
            }
        }
    }
}

/// The shape of a value, and nothing that is in it.
fn hidden(value: &Value) -> Shown<'_> {
    match value {
        Value::Array(items) => Shown::List(items.iter().map(hidden).collect()),
        Value::Object(map) => {
            Shown::Map(map.iter().map(|(key, item)| (key.as_str(), hidden(item))).collect())
        }
        _ => Shown::Secret(value),
    }
}

fn shown<'a>(value: &'a Value, schemas: &[&Value], root: &Value) -> Shown<'a> {
    let mut all = Vec::new();
    for schema in schemas {
        gather(schema, root, &mut all);
    }
    if all.iter().any(|schema| is_secret(schema)) {
        return Shown::Secret(value);
    }
    match value {
        Value::Array(items) => {
            let item = |(n, item)| {
                let below = all.iter().flat_map(|schema| {
                    [schema.get("items"), schema.get("prefixItems").and_then(|each| each.get(n))]
                });
                shown(item, &below.flatten().collect::<Vec<_>>(), root)
            };
            Shown::List(items.iter().enumerate().map(item).collect())
        }
        Value::Object(map) => {
            let entry = |(key, item): (&'a String, &'a Value)| {
                let below: Vec<&Value> = all.iter().flat_map(|schema| of_property(schema, key)).collect();
                (key.as_str(), shown(item, &below, root))
            };
            Shown::Map(map.iter().map(entry).collect())
        }
        _ => Shown::Leaf(value),
    }
}

/// What may be said of a property. Of one without a name of its own every pattern is taken to match: a secret too many is
/// better than one too few.
fn of_property<'s>(schema: &'s Value, key: &str) -> impl Iterator<Item = &'s Value> {
    let named = schema.get("properties").and_then(|all| all.get(key));
    let unnamed = if named.is_none() { Some(schema) } else { None };
    let others = unnamed.and_then(|schema| schema.get("additionalProperties"));
    let patterns = unnamed.and_then(|schema| schema.get("patternProperties")?.as_object());
    named.into_iter().chain(others).chain(patterns.into_iter().flat_map(|all| all.values()))
}

/// A schema and all that it refers to or is made of, each once: unions that refer to themselves would double at each level.
fn gather<'s>(schema: &'s Value, root: &'s Value, into: &mut Vec<&'s Value>) {
    if into.iter().any(|known| std::ptr::eq(*known, schema)) {
        return;
    }
    into.push(schema);
    let target = schema.get("$ref").and_then(Value::as_str);
    let target = target.and_then(|at| root.pointer(at.strip_prefix('#')?));
    let alone = ["if", "then", "else"].iter().filter_map(|part| schema.get(part));
    let joined = ["allOf", "anyOf", "oneOf"].iter().filter_map(|join| schema.get(join)?.as_array()).flatten();
    let dependent = schema.get("dependentSchemas").and_then(Value::as_object);
    let dependent = dependent.into_iter().flat_map(|all| all.values());
    for part in target.into_iter().chain(alone).chain(joined).chain(dependent) {
        gather(part, root, into);
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
            Shown::Secret(secret) => span.secret { "hidden: a secret, or nobody can say that it is none" @if let Some(text) = secret.as_str() { " (" (text.chars().count()) " characters)" } },
            Shown::Leaf(Value::String(string)) if string.len() > SHORT_TEXT || string.contains('\n') => pre.long { (odd.text(string)) },
            Shown::Leaf(Value::String(string)) => span.string { "“" (odd.text(string)) "”" },
            Shown::Leaf(Value::Number(number)) => span.other { (odd.number(number)) },
            Shown::Leaf(other) => span.other { (other.to_string()) },
            Shown::Map(_) | Shown::List(_) => {}
        }
    }
}

/// The value as JSON, its secrets taken out.
pub(super) fn raw(shown: &Shown<'_>) -> Markup {
    json(&plain(shown))
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
        assert_eq!(shown.secrets().cut_from("log ann in with hunter22"), "log ann in with [hidden]");
    }

    #[test]
    fn a_secret_is_cut_out_of_other_texts_whatever_it_is_made_of_and_however_it_is_quoted() {
        let schema = json!({ "properties": {
            "pins": { "writeOnly": true },
            "pair": { "prefixItems": [{}, { "format": "password" }] },
            "x-any": { "type": "string" },
        }, "patternProperties": { "^key": { "writeOnly": true } }, "if": { "properties": { "late": { "writeOnly": true } } } });
        let args = json!({ "pins": [123_456, { "deep": "abcd" }, "abcdef"], "pair": ["open", "a\"b\nc"],
            "key1": "kkkk", "late": "later" });
        let said = format!("{} {:?} open abcdef abcd 123456 kkkk later", json!("a\"b\nc"), "a\"b\nc");
        let cut = Shown::of(&args, &schema).secrets().cut_from(&said);
        assert_eq!(cut, "\"[hidden]\" \"[hidden]\" open [hidden] [hidden] [hidden] [hidden] [hidden]");
        let answer = json!({ "abcdef": [123_456, 12, "is abcd"], "quoted": "a\"b\nc" });
        assert_eq!(
            Shown::of(&args, &schema).secrets().cut_from_value(&answer),
            json!({ "[hidden]": ["[hidden]", 12, "is [hidden]"], "quoted": "[hidden]" })
        );
    }

    #[test]
    fn without_a_schema_only_the_shape_is_shown() {
        let args = json!({ "password": "hunter22", "tries": [1, true] });
        let shown = Shown::of(&args, &Value::Null);
        let page = html! { (tree(&shown, &mut Oddities::default())) (raw(&shown)) }.into_string();
        assert!(
            page.contains("password")
                && page.contains("tries")
                && !page.contains("hunter22")
                && !page.contains("true"),
            "{page}"
        );
        assert_eq!(shown.secrets().cut_from("with hunter22"), "with [hidden]");
    }

    #[test]
    fn a_union_that_refers_to_itself_is_not_followed_twice_as_far_at_each_level() {
        let node = json!({ "anyOf": [
            { "properties": { "a": { "$ref": "#/$defs/Node" } } }, { "properties": { "a": { "$ref": "#/$defs/Node" } } },
            { "$ref": "#/$defs/Node" }, { "$ref": "#/$defs/Node" },
        ] });
        let schema = json!({ "$ref": "#/$defs/Node", "$defs": { "Node": node } });
        let args = (0..60).fold(json!(1), |inner, _| json!({ "a": inner }));
        assert!(matches!(Shown::of(&args, &schema), Shown::Map(_)), "and this ends");
    }

    #[test]
    fn a_schema_that_refers_to_itself_ends() {
        let schema = json!({ "$ref": "#/$defs/A", "$defs": { "A": { "$ref": "#/$defs/A" } } });
        assert_eq!(Shown::of(&json!(1), &schema), Shown::Leaf(&json!(1)));
    }

    #[test]
    fn every_part_is_in_the_tree_unfolded() {
        let args = json!({ "a": [1, { "b": null }], "c": {}, "d": "two\nlines" });
        let page = tree(&Shown::of(&args, &json!({})), &mut Oddities::default()).into_string();
        assert_eq!(page.matches("<details open>").count(), 2, "{page}");
        for part in ["null", "{}", "two\nlines", ">a<", ">b<"] {
            assert!(page.contains(part), "{part} in {page}");
        }
    }
}
