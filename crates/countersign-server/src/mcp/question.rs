//! A question as a client's user reads it, and their answer.
//!
//! Promise: an approval shows the tool, what it says, and the stored arguments whole (R13). Our own words come first; what
//! others wrote is quoted line by line and made visible, so that it cannot pass for ours. Nothing but an explicit yes is one.

use countersign_core::elicitation::Elicitation;
use countersign_core::visible::{Warning, exact_answer, listed, visible, visible_form, visible_json};
use countersign_kernel::{Answer, Coverage};
use countersign_sdk::AskKind;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::requests::Era;

const APPROVE: &str = "approve";
const DENY: &str = "deny";
/// The formats that every revision knows.
const FORMATS: [&str; 4] = ["email", "uri", "date", "date-time"];

/// The parameters of `elicitation/create`, as this era has them.
pub(super) fn params(elicitation: &Elicitation, era: Era) -> Value {
    let mut params = json!({ "message": message(elicitation), "requestedSchema": schema(elicitation, era) });
    if era != Era::June2025 {
        params["mode"] = "form".into();
    }
    params
}

/// What the person reads.
fn message(elicitation: &Elicitation) -> String {
    let said = visible(&elicitation.message);
    match &elicitation.kind {
        AskKind::Form { schema } => {
            let form = visible_form(schema.as_value());
            let beware = warned(&[&said.warnings, &form.warnings]);
            format!("The tool {} asks:\n{}{beware}", elicitation.tool, quoted(&said.text))
        }
        AskKind::Approval => {
            let args = visible_json(&elicitation.args.to_value());
            format!(
                "Approval needed. Nothing runs unless you approve it.\n\nTool: {}\n\nThe tool says:\n{}\n\nArguments, whole, as they will run:\n{}{}\n\nApproval covers: {}.",
                elicitation.tool,
                quoted(&said.text),
                args.text,
                warned(&[&said.warnings, &args.warnings]),
                Coverage::Call.words(elicitation.tool.as_str(), None),
            )
        }
    }
}

/// Each line marked as somebody else's words.
fn quoted(text: &str) -> String {
    text.lines().map(|line| format!("> {line}")).collect::<Vec<_>>().join("\n")
}

fn warned(texts: &[&[Warning]]) -> String {
    match listed(&texts.concat()) {
        None => String::new(),
        Some(found) => format!("\n\nBeware: this request contains {found}. Each place is marked ⟦…⟧."),
    }
}

/// The fields the person fills in.
fn schema(elicitation: &Elicitation, era: Era) -> Value {
    let form = match &elicitation.kind {
        AskKind::Approval => return approval_schema(era),
        AskKind::Form { schema } => schema.as_value(),
    };
    let mut shown = visible_form(form).schema;
    if let Some(properties) = shown.get_mut("properties").and_then(Value::as_object_mut) {
        properties.values_mut().for_each(|property| fit(property, era));
    }
    shown
}

/// Through a client a yes covers one call: a prompt does not show what a session's approval would cover.
fn approval_schema(era: Era) -> Value {
    let choices = [
        json!({ "const": APPROVE, "title": "Approve this call" }),
        json!({ "const": DENY, "title": "Deny it" }),
    ];
    let mut decision = json!({ "type": "string", "title": "Decision", "oneOf": choices });
    fit(&mut decision, era);
    json!({ "type": "object", "properties": { "decision": decision }, "required": ["decision"] })
}

/// Takes out of a field what a revision does not know. The answer is held against the tool's own schema all the same.
fn fit(property: &mut Value, era: Era) {
    let Some(field) = property.as_object_mut() else { return };
    if field.get("format").and_then(Value::as_str).is_some_and(|format| !FORMATS.contains(&format)) {
        field.remove("format");
    }
    if era != Era::November2025 {
        field.remove("pattern");
    }
    if era != Era::June2025 {
        return;
    }
    if field.get("type").and_then(Value::as_str) != Some("boolean") {
        field.remove("default");
    }
    if let Some(choices) = field.remove("oneOf") {
        let (values, names) = choices_of(&choices);
        field.insert("enum".into(), values);
        field.insert("enumNames".into(), names);
    }
    if is_list(field) {
        as_text(field);
    }
}

/// Takes out of a form's fields everything but what every client has to know.
pub(super) fn plain(schema: &mut Value) {
    let known = ["type", "title", "description", "enum", "oneOf", "items", "default", "minimum", "maximum"];
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        for property in properties.values_mut().filter_map(Value::as_object_mut) {
            property.retain(|key, _| known.contains(&key.as_str()));
        }
    }
}

fn choices_of(choices: &Value) -> (Value, Value) {
    let each = choices.as_array().into_iter().flatten();
    let values = each.clone().map(|choice| choice["const"].clone()).collect();
    let names = each.map(|choice| choice.get("title").unwrap_or(&choice["const"]).clone()).collect();
    (values, names)
}

fn is_list(field: &Map<String, Value>) -> bool {
    field.get("type").and_then(Value::as_str) == Some("array")
}

/// A choice of several, for clients that know only one value a field.
fn as_text(field: &mut Map<String, Value>) {
    let items = field.remove("items").unwrap_or_default();
    let values = match items.get("enum") {
        Some(values) => values.clone(),
        None => choices_of(items.get("anyOf").unwrap_or(&Value::Null)).0,
    };
    let values: Vec<&str> = values.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let says = field.get("description").and_then(Value::as_str).unwrap_or_default();
    let says = format!("{says} One or more of {}, separated by commas.", values.join(", "));
    let title = field.remove("title");
    field.clear();
    field.insert("type".into(), "string".into());
    field.insert("description".into(), says.trim().into());
    field.extend(title.map(|title| ("title".to_owned(), title)));
}

#[derive(Deserialize)]
struct Response {
    action: Action,
    #[serde(default)]
    content: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Action {
    Accept,
    Decline,
    Cancel,
}

/// What the person said; nothing where the response says nothing that can be understood.
pub(super) fn read(elicitation: &Elicitation, response: &Value) -> Option<Answer> {
    let Response { action, content } = Response::deserialize(response).ok()?;
    match (action, &elicitation.kind) {
        (Action::Decline, _) => Some(Answer::Deny),
        (Action::Cancel, _) => Some(Answer::Cancel),
        (Action::Accept, AskKind::Approval) => {
            let decision = content.as_ref()?.get("decision")?.as_str()?;
            match decision {
                APPROVE => Some(Answer::Approve { covers: Some(Coverage::Call), data: None }),
                DENY => Some(Answer::Deny),
                _ => None,
            }
        }
        (Action::Accept, AskKind::Form { schema }) => {
            let mut content = content.unwrap_or_else(|| json!({}));
            as_lists(schema.as_value(), &mut content);
            exact_answer(schema.as_value(), &mut content);
            // An answer that does not fit is no answer; the kernel holds it against the schema once more.
            schema.check(&content).ok()?;
            Some(Answer::Approve { covers: None, data: Some(content) })
        }
    }
}

/// Choices that were written as one text, taken apart again.
fn as_lists(schema: &Value, content: &mut Value) {
    let lists = schema["properties"].as_object().into_iter().flatten();
    for (name, _) in lists.filter(|(_, field)| field.as_object().is_some_and(is_list)) {
        if let Some(Value::String(text)) = content.get(name) {
            let values = text.split(',').map(str::trim).filter(|value| !value.is_empty());
            content[name] = values.collect();
        }
    }
}
