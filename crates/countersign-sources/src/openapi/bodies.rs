//! The body that an operation declares: one media type is chosen, and the argument `body` described for it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::encode::{Body, FieldForm};
use super::media::{self, MediaKind};
use super::parameters::{Declarations, Need};
use super::schema::is_binary;
use super::style::{Explode, Reserved, Style, Writing};
use super::{Dialect, Document};

const JSON: &str = "application/json";

/// A body as the document has it.
#[derive(Debug)]
pub(super) struct DeclaredBody<'d> {
    pub(super) body: Body,
    pub(super) need: Need,
    /// None where nothing is said of its content.
    pub(super) schema: Option<Cow<'d, Value>>,
    pub(super) description: Option<&'d str>,
}

/// The body of an operation, if it has one. The error is why the operation cannot be called.
pub(super) fn declared<'d>(
    document: &'d Document,
    operation: &'d Value,
    declarations: &Declarations<'d>,
) -> Result<Option<DeclaredBody<'d>>, String> {
    let found = match document.dialect() {
        Dialect::Swagger2 => swagger2(document, operation, declarations),
        Dialect::OpenApi30 | Dialect::OpenApi31 => openapi3(document, operation)?,
    };
    Ok(found.filter(|declared| !is_empty_form(document, declared)))
}

fn openapi3<'d>(document: &'d Document, operation: &'d Value) -> Result<Option<DeclaredBody<'d>>, String> {
    let Some(declared) = operation.get("requestBody") else { return Ok(None) };
    let declared = document.resolve(declared).map_err(|why| format!("its body is unreadable: {why}"))?;
    let Some(content) = declared.get("content").and_then(Value::as_object) else { return Ok(None) };
    let Some(media) = media::preferred(content.keys().map(String::as_str)) else { return Ok(None) };
    let described = &content[media];
    let media = named(document, media, described.get("schema"));
    let fields = || fields(described.get("encoding"));
    let body = match media::kind(media) {
        MediaKind::Json => Body::Json { media: media.to_owned() },
        MediaKind::Form => Body::Form { fields: fields() },
        MediaKind::Multipart => Body::Multipart { media: media.to_owned(), fields: fields() },
        MediaKind::Text => Body::Text { media: media.to_owned() },
        MediaKind::Binary => Body::File { media: media.to_owned() },
    };
    Ok(Some(DeclaredBody {
        body,
        need: Need::of(declared.get("required")),
        schema: described.get("schema").map(Cow::Borrowed),
        description: declared.get("description").and_then(Value::as_str),
    }))
}

/// `*/*` says nothing: what has a structure is sent as JSON.
fn named<'m>(document: &Document, media: &'m str, schema: Option<&Value>) -> &'m str {
    let schema = schema.and_then(|schema| document.resolve(schema).ok()).and_then(Value::as_object);
    let is_text = schema.is_none_or(|keywords| {
        is_binary(keywords) || keywords.get("type").and_then(Value::as_str) == Some("string")
    });
    if media == "*/*" && !is_text { JSON } else { media }
}

/// The `encoding` of a form's fields.
fn fields(encoding: Option<&Value>) -> BTreeMap<String, FieldForm> {
    let Some(encoding) = encoding.and_then(Value::as_object) else { return BTreeMap::new() };
    let form = |said: &Value| {
        let style = match said.get("style").and_then(Value::as_str) {
            Some("form") => Some(Style::Form),
            Some("spaceDelimited") => Some(Style::SpaceDelimited),
            Some("pipeDelimited") => Some(Style::PipeDelimited),
            Some("deepObject") => Some(Style::DeepObject),
            _ => None,
        };
        let explode = said.get("explode").and_then(Value::as_bool);
        let style = style.or_else(|| explode.map(|_| Style::Form));
        let writing = style.map(|style| {
            let explode = if explode.unwrap_or(style == Style::Form) { Explode::Yes } else { Explode::No };
            Writing { style, explode, reserved: Reserved::Encoded }
        });
        let content_type = said.get("contentType").and_then(Value::as_str);
        // A list of types or a wildcard leaves the choice to the file.
        let content_type = content_type.filter(|one| !one.contains([',', '*']) && media::is_media_type(one));
        FieldForm { writing, content_type: content_type.map(str::to_owned) }
    };
    encoding.iter().map(|(name, said)| (name.clone(), form(said))).collect()
}

fn swagger2<'d>(
    document: &'d Document,
    operation: &'d Value,
    declarations: &Declarations<'d>,
) -> Option<DeclaredBody<'d>> {
    let consumes = operation.get("consumes").or_else(|| document.root.get("consumes"));
    let consumes: Vec<&str> =
        consumes.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    if !declarations.form.is_empty() {
        return Some(swagger2_form(&declarations.form, &consumes));
    }
    let declared = declarations.body?;
    let schema = declared.get("schema");
    let media = media::preferred(consumes.into_iter()).unwrap_or(JSON);
    let media = named(document, media, schema);
    let body = match media::kind(media) {
        MediaKind::Text => Body::Text { media: media.to_owned() },
        MediaKind::Binary => Body::File { media: media.to_owned() },
        // A body that is declared whole is JSON, whatever forms the document takes elsewhere.
        MediaKind::Json => Body::Json { media: media.to_owned() },
        MediaKind::Form | MediaKind::Multipart => Body::Json { media: JSON.to_owned() },
    };
    Some(DeclaredBody {
        body,
        need: Need::of(declared.get("required")),
        schema: schema.map(Cow::Borrowed),
        description: declared.get("description").and_then(Value::as_str),
    })
}

fn swagger2_form<'d>(parameters: &[&'d Value], consumes: &[&str]) -> DeclaredBody<'d> {
    let mut properties = Map::new();
    let mut required = Vec::new();
    let mut fields = BTreeMap::new();
    let mut has_file = false;
    for parameter in parameters {
        let Some(name) = parameter.get("name").and_then(Value::as_str) else { continue };
        if Need::of(parameter.get("required")) == Need::Required {
            required.push(name);
        }
        has_file |= parameter.as_object().is_some_and(is_binary);
        let said = parameter.get("collectionFormat").and_then(Value::as_str);
        let (style, explode) = match said {
            Some("multi") => (Style::Form, Explode::Yes),
            Some("ssv") => (Style::SpaceDelimited, Explode::No),
            Some("tsv") => (Style::TabDelimited, Explode::No),
            Some("pipes") => (Style::PipeDelimited, Explode::No),
            _ => (Style::Form, Explode::No),
        };
        let writing = Some(Writing { style, explode, reserved: Reserved::Encoded });
        fields.insert(name.to_owned(), FieldForm { writing, content_type: None });
        properties.insert(name.to_owned(), (*parameter).clone());
    }
    let wants_multipart = has_file || consumes.iter().any(|media| media::kind(media) == MediaKind::Multipart);
    let need = if required.is_empty() { Need::Optional } else { Need::Required };
    let schema = json!({ "type": "object", "properties": properties, "required": required });
    let body = if wants_multipart {
        Body::Multipart { media: "multipart/form-data".to_owned(), fields }
    } else {
        Body::Form { fields }
    };
    DeclaredBody { body, need, schema: Some(Cow::Owned(schema)), description: None }
}

/// Stripe declares a form without fields on 213 GETs; sending an empty body with those would be wrong.
fn is_empty_form(document: &Document, declared: &DeclaredBody<'_>) -> bool {
    let schema = declared.schema.as_deref().and_then(|schema| document.resolve(schema).ok());
    let properties = schema.and_then(|schema| schema.get("properties")?.as_object());
    declared.need == Need::Optional
        && matches!(declared.body, Body::Form { .. } | Body::Multipart { .. })
        && properties.is_some_and(Map::is_empty)
}
