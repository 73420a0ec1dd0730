//! Forms made visible, and their answers made exact again.
//!
//! Promises: what a person reads of a form is visible: titles and descriptions, and also choices and defaults, which are data.
//! An answer that gives a choice or a default as it was shown becomes exactly what the form has. A choice or default without
//! hidden characters is shown as it is: a person may edit a default, and a remark in it would become part of the answer.

use serde_json::Value;

use super::{Visible, Warning, visible};

/// A form for a person, and what its texts contain.
#[derive(Debug, Clone, PartialEq)]
pub struct VisibleForm {
    /// The schema with every text that is shown made visible. Property names are as they were: answers use them.
    pub schema: Value,
    /// The warnings for the person, each once.
    pub warnings: Vec<Warning>,
}

/// Makes a form visible: an object schema whose properties have plain types.
pub fn visible_form(form: &Value) -> VisibleForm {
    let (mut schema, mut seen) = (form.clone(), Visible::default());
    show(&mut schema, &mut seen);
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        for (name, property) in properties {
            show(property, &mut seen);
            let shown = visible(name);
            if let Some(field) = property.as_object_mut()
                && shown.text != *name
            {
                // A client shows the name of a field that has no title.
                field.entry("title").or_insert_with(|| shown.text.clone().into());
                note(&shown, &mut seen);
            }
        }
    }
    VisibleForm { schema, warnings: seen.warnings }
}

/// Puts the form's own choices and defaults in the place of what was shown for them.
pub fn exact_answer(form: &Value, answer: &mut Value) {
    let properties = form.get("properties").and_then(Value::as_object).into_iter().flatten();
    for (name, field) in properties {
        match answer.get_mut(name) {
            Some(Value::String(text)) => make_exact(field, text),
            Some(Value::Array(items)) => {
                for item in items {
                    if let Value::String(text) = item {
                        make_exact(field, text);
                    }
                }
            }
            _ => {}
        }
    }
}

/// The texts that a field offers as answers: its choices and its default.
pub fn offered_texts(field: &Value) -> impl Iterator<Item = &str> {
    let items = field.get("items").unwrap_or(&Value::Null);
    let plain = list(field, "enum").chain(list(items, "enum"));
    let titled = [field, items].into_iter().flat_map(|of| list(of, "oneOf").chain(list(of, "anyOf")));
    let titled = titled.filter_map(|choice| choice.get("const"));
    let default = field.get("default").into_iter().chain(list(field, "default"));
    plain.chain(titled).chain(default).filter_map(Value::as_str)
}

fn list<'v>(of: &'v Value, key: &str) -> impl Iterator<Item = &'v Value> + use<'v> {
    of.get(key).and_then(Value::as_array).into_iter().flatten()
}

fn make_exact(field: &Value, text: &mut String) {
    let shown = offered_texts(field).find(|offered| shown_value(offered).text == *text);
    if let Some(offered) = shown {
        *text = offered.to_owned();
    }
}

/// Makes visible what a person reads of one schema.
fn show(schema: &mut Value, seen: &mut Visible) {
    for (key, value) in schema.as_object_mut().into_iter().flatten() {
        match key.as_str() {
            "title" | "description" => show_text(value, visible, seen),
            "enumNames" => show_list(value, visible, seen),
            "enum" => show_list(value, shown_value, seen),
            "const" => show_text(value, shown_value, seen),
            "default" if value.is_array() => show_list(value, shown_value, seen),
            "default" => show_text(value, shown_value, seen),
            "oneOf" | "anyOf" => {
                value.as_array_mut().into_iter().flatten().for_each(|choice| show(choice, seen));
            }
            "items" => show(value, seen),
            _ => {}
        }
    }
}

fn show_list(value: &mut Value, shown: fn(&str) -> Visible, seen: &mut Visible) {
    value.as_array_mut().into_iter().flatten().for_each(|item| show_text(item, shown, seen));
}

fn show_text(value: &mut Value, shown: fn(&str) -> Visible, seen: &mut Visible) {
    if let Value::String(text) = value {
        let shown = shown(text);
        note(&shown, seen);
        *text = shown.text;
    }
}

fn note(shown: &Visible, seen: &mut Visible) {
    shown.warnings.iter().for_each(|warning| seen.warn(*warning));
}

/// A choice or default as it is shown. The bracket is escaped too, so that two of them never look the same.
fn shown_value(text: &str) -> Visible {
    let shown = visible(text);
    let hides = |warning: &Warning| {
        matches!(warning, Warning::Control | Warning::Bidirectional | Warning::Invisible | Warning::Padding)
    };
    if shown.warnings.iter().any(hides) || text.contains('⟦') {
        return shown;
    }
    Visible { text: text.to_owned(), warnings: shown.warnings }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn form() -> Value {
        json!({
            "type": "object",
            "properties": {
                "color": { "type": "string", "enum": ["red", "r\u{202e}der"], "default": "r\u{202e}der" },
                "size": { "type": "string", "oneOf": [{ "const": "s\u{200b}", "title": "small\u{1b}[2J" }, { "const": "l" }] },
                "tags": { "type": "array", "items": { "type": "string", "enum": ["a\u{7}", "⟦U+0007⟧"] }, "default": ["a\u{7}"] },
                "note": { "type": "string", "default": "call 100000000\u{2066}" },
                "phone": { "type": "string", "default": "100000000" },
                "na\u{202e}me": { "type": "boolean" },
            },
        })
    }

    #[test]
    fn choices_defaults_and_names_are_shown_without_hidden_characters() {
        let VisibleForm { schema, warnings } = visible_form(&form());
        let properties = &schema["properties"];
        assert_eq!(properties["color"]["enum"], json!(["red", "r⟦U+202E⟧der"]));
        assert_eq!(properties["color"]["default"], "r⟦U+202E⟧der");
        assert_eq!(
            properties["size"]["oneOf"][0],
            json!({ "const": "s⟦U+200B⟧", "title": "small⟦U+001B⟧[2J" })
        );
        assert_eq!(properties["tags"]["items"]["enum"], json!(["a⟦U+0007⟧", "⟦U+27E6⟧U+0007⟧"]));
        assert_eq!(properties["tags"]["default"], json!(["a⟦U+0007⟧"]));
        assert_eq!(properties["phone"]["default"], "100000000", "no remark in what a person may edit");
        assert_eq!(properties["na\u{202e}me"]["title"], "na⟦U+202E⟧me");
        for kind in [Warning::Control, Warning::Bidirectional, Warning::Invisible] {
            assert!(warnings.contains(&kind), "{kind:?}");
        }
        let shown = serde_json::to_string(&schema).unwrap().replace("na\u{202e}me", "");
        assert!(!shown.contains(['\u{202e}', '\u{200b}', '\u{2066}']) && !shown.contains("\\u00"), "{shown}");
    }

    #[test]
    fn an_answer_in_the_shown_words_becomes_exactly_what_the_form_has() {
        let shown = visible_form(&form()).schema;
        let mut answer = json!({
            "color": shown["properties"]["color"]["default"],
            "size": "s⟦U+200B⟧",
            "tags": ["⟦U+27E6⟧U+0007⟧", "a⟦U+0007⟧"],
            "note": shown["properties"]["note"]["default"],
            "phone": "1000",
        });
        exact_answer(&form(), &mut answer);
        let exact = json!({
            "color": "r\u{202e}der", "size": "s\u{200b}", "tags": ["⟦U+0007⟧", "a\u{7}"],
            "note": "call 100000000\u{2066}", "phone": "1000",
        });
        assert_eq!(answer, exact);
    }
}
