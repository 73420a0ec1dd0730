//! The schemas of a tool: its arguments, and its result where that is small enough to tell.
//!
//! Parameters stand at the top level and the body whole under `body`: 3,279 published operations have a body field named
//! like a parameter. Where one name stands in two places, each is called `<place>_<name>`.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::Document;
use super::answer::{AnswerShape, ITEMS, NEXT};
use super::bodies::DeclaredBody;
use super::encode::{BODY_ARGUMENT, Body};
use super::media;
use super::parameters::{Declared, Need};
use super::patterns::Patterns;
use super::schema::{Binary, Converter, Detail, Direction, TooLarge, file_schema};

/// Input schemas above this lose their long descriptions.
pub const MAX_DESCRIBED_INPUT_BYTES: usize = 16 * 1024;
/// Input schemas above this, without descriptions, take any `body`.
pub const MAX_INPUT_BYTES: usize = 64 * 1024;
/// Output schemas above this are left out.
pub const MAX_OUTPUT_BYTES: usize = 16 * 1024;

/// Gives every parameter its argument's name.
pub(super) fn name_arguments(parameters: &mut [Declared<'_>], body: Option<&DeclaredBody<'_>>) {
    let mut count: HashMap<String, usize> = HashMap::new();
    if body.is_some() {
        count.insert(BODY_ARGUMENT.to_owned(), 1);
    }
    for declared in parameters.iter() {
        *count.entry(declared.parameter.name.clone()).or_default() += 1;
    }
    let mut taken: Vec<String> = Vec::new();
    for declared in parameters.iter_mut() {
        let parameter = &mut declared.parameter;
        let is_shared = count.get(&parameter.name).copied().unwrap_or_default() > 1;
        if is_shared {
            parameter.argument = format!("{}_{}", parameter.place.as_str(), parameter.name);
        }
        // Another parameter may have been given that very name by its author.
        while taken.contains(&parameter.argument) || (is_shared && count.contains_key(&parameter.argument)) {
            parameter.argument = format!("{}_{}", parameter.place.as_str(), parameter.argument);
        }
        taken.push(parameter.argument.clone());
    }
}

/// The input schema of an operation, as detailed as its size allows.
pub(super) fn schema(
    document: &Document,
    patterns: &Patterns,
    parameters: &[Declared<'_>],
    body: Option<&DeclaredBody<'_>>,
) -> Value {
    let levels = [
        (Detail::Full, MAX_DESCRIBED_INPUT_BYTES),
        (Detail::Brief, MAX_DESCRIBED_INPUT_BYTES),
        (Detail::None, MAX_INPUT_BYTES),
    ];
    let attempt = |detail, budget, described: BodyDetail| {
        let converter =
            Converter::new(document, patterns, Direction::Input).detail(detail).budget_bytes(budget);
        build(converter, parameters, body, described)
    };
    let whole =
        levels.into_iter().find_map(|(detail, budget)| attempt(detail, budget, BodyDetail::Whole).ok());
    whole
        .or_else(|| attempt(Detail::Brief, usize::MAX, BodyDetail::Any).ok())
        .unwrap_or_else(|| json!({ "type": "object" }))
}

/// How the body is described.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BodyDetail {
    Whole,
    /// Its schema is too large to be shown.
    Any,
}

fn build(
    mut converter: Converter<'_>,
    parameters: &[Declared<'_>],
    body: Option<&DeclaredBody<'_>>,
    detail: BodyDetail,
) -> Result<Value, TooLarge> {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for declared in parameters {
        let argument = &declared.parameter.argument;
        converter.charge(argument.len() + 8)?;
        properties.insert(argument.clone(), parameter_schema(&mut converter, declared)?);
        if declared.parameter.need == Need::Required {
            required.push(argument.as_str());
        }
    }
    if let Some(declared) = body {
        let (described, changed) = body_schema(converter, declared, detail)?;
        converter = changed;
        properties.insert(BODY_ARGUMENT.to_owned(), described);
        if declared.need == Need::Required {
            required.push(BODY_ARGUMENT);
        }
    }
    let mut schema = Map::new();
    schema.insert("type".into(), "object".into());
    schema.insert("properties".into(), Value::Object(properties));
    if !required.is_empty() {
        required.sort_unstable();
        schema.insert("required".into(), json!(required));
    }
    schema.insert("additionalProperties".into(), false.into());
    converter.finish(schema)
}

fn parameter_schema(converter: &mut Converter<'_>, declared: &Declared<'_>) -> Result<Value, TooLarge> {
    let mut made = match declared.schema {
        Some(schema) => converter.convert(schema)?,
        None => json!({ "type": "string" }),
    };
    let Some(keywords) = made.as_object_mut() else { return Ok(made) };
    if let Some(text) = declared.description {
        // Swagger 2 has the description in the schema already.
        let is_said = declared.schema.and_then(|schema| schema.get("description")).and_then(Value::as_str)
            == Some(text);
        if !is_said && let Some(text) = converter.description(text)? {
            let default = keywords.get("description").and_then(Value::as_str);
            let default = default.and_then(|said| said.find("Default: ").map(|at| said[at..].to_owned()));
            let text = default.map_or_else(|| text.clone(), |default| format!("{text} {default}"));
            keywords.insert("description".into(), text.into());
        }
    }
    if declared.is_deprecated {
        keywords.insert("deprecated".into(), true.into());
    }
    Ok(made)
}

fn body_schema<'d>(
    mut converter: Converter<'d>,
    declared: &DeclaredBody<'_>,
    detail: BodyDetail,
) -> Result<(Value, Converter<'d>), TooLarge> {
    let is_form = matches!(declared.body, Body::Form { .. } | Body::Multipart { .. });
    if is_form {
        converter = converter.binary(Binary::File);
    }
    let mut made = match (&declared.body, declared.schema.as_deref(), detail) {
        (Body::File { .. }, _, _) => file_schema(),
        (Body::Text { .. }, _, _) => json!({ "type": "string" }),
        (_, Some(schema), BodyDetail::Whole) => converter.convert(schema)?,
        (_, None, BodyDetail::Whole) if is_form => json!({ "type": "object" }),
        (_, None, BodyDetail::Whole) => json!({}),
        (_, _, BodyDetail::Any) if is_form => json!({ "type": "object" }),
        (_, _, BodyDetail::Any) => json!({}),
    };
    let note = match &declared.body {
        Body::Text { media } if !media.starts_with("text/plain") => Some(format!("Sent as {media}.")),
        _ => None,
    };
    let said =
        [declared.description.map(str::to_owned), note].into_iter().flatten().collect::<Vec<_>>().join(" ");
    if let Some(text) = converter.description(&said)?
        && let Some(keywords) = made.as_object_mut()
    {
        keywords.entry("description").or_insert(text.into());
    }
    Ok((made, converter))
}

/// What a successful answer looks like.
pub(super) struct Answered {
    pub(super) schema: Option<Value>,
    pub(super) shape: AnswerShape,
    pub(super) accept: String,
}

/// Reads the answers of an operation.
pub(super) fn answered(
    document: &Document,
    patterns: &Patterns,
    method: &str,
    operation: &Value,
) -> Answered {
    let responses = operation.get("responses").and_then(Value::as_object).into_iter().flatten();
    let successes = responses.filter(|(status, _)| status.starts_with('2') || *status == "default");
    let successes: Vec<(&String, &Value)> =
        successes.filter_map(|(status, response)| Some((status, document.resolve(response).ok()?))).collect();
    let produces = operation.get("produces").or_else(|| document.root.get("produces"));
    let produces = produces.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let contents = successes.iter().filter_map(|(_, response)| response.get("content")?.as_object());
    let offered: Vec<&str> = contents.flat_map(Map::keys).map(String::as_str).chain(produces).collect();
    let accept = accept(&offered);
    let declared: Vec<&Value> = successes
        .iter()
        .filter(|(status, _)| status.starts_with('2'))
        .filter_map(|(_, response)| {
            // Swagger 2 has the schema in the response itself.
            let content = response.get("content").and_then(Value::as_object);
            let content = content.and_then(|content| content.iter().find(|(media, _)| media::is_json(media)));
            content.map_or(*response, |(_, content)| content).get("schema")
        })
        .collect();
    // Where several answers differ, no one schema tells the truth.
    let [only] = declared.as_slice() else {
        return Answered { schema: None, shape: AnswerShape::Plain, accept };
    };
    let is_list = document
        .resolve(only)
        .is_ok_and(|schema| schema.get("type").and_then(Value::as_str) == Some("array"));
    let shape = if method == "GET" && is_list { AnswerShape::Items } else { AnswerShape::Plain };
    Answered { schema: output(document, patterns, only, shape).ok(), shape, accept }
}

fn output(
    document: &Document,
    patterns: &Patterns,
    schema: &Value,
    shape: AnswerShape,
) -> Result<Value, TooLarge> {
    let mut converter = Converter::new(document, patterns, Direction::Output)
        .detail(Detail::Brief)
        .budget_bytes(MAX_OUTPUT_BYTES);
    let made = converter.convert(schema)?;
    let top = match (shape, made) {
        (AnswerShape::Items, items) => {
            let properties = json!({ ITEMS: items, NEXT: { "type": "string" } });
            let wrapped = json!({ "type": "object", "properties": properties, "required": [ITEMS] });
            wrapped.as_object().cloned().unwrap_or_default()
        }
        (AnswerShape::Plain, Value::Object(mut keywords)) => {
            // MCP clients look for the type at the top, also where a reference says it.
            let is_object =
                document.resolve(schema).is_ok_and(|target| target.get("type") == Some(&json!("object")));
            if is_object && keywords.contains_key("$ref") {
                keywords.insert("type".into(), "object".into());
            }
            keywords
        }
        (AnswerShape::Plain, _) => Map::new(),
    };
    converter.finish(top)
}

fn accept(offered: &[&str]) -> String {
    match media::preferred(offered.iter().copied().filter(|media| media::is_media_type(media))) {
        None => "application/json, */*;q=0.5".to_owned(),
        Some(media) if media.contains('*') => "*/*".to_owned(),
        Some(media) => format!("{media}, */*;q=0.5"),
    }
}
