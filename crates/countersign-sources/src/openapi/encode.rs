//! Bodies as bytes: JSON, forms, multipart, text and files.
//!
//! Promise: the same arguments make the same bytes, also the boundary of a multipart body; and no name, file name or media
//! type of an argument ends the header it stands in.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::media;
use super::style::{Explode, Style, Writing, deep_object, text_of};
use crate::request::RequestError;

/// The argument that holds the body.
pub(super) const BODY_ARGUMENT: &str = "body";
/// The most bytes of one file argument, decoded.
pub const MAX_FILE_BYTES: usize = 8 * 1024 * 1024;
/// The deepest nesting of a form's field.
const MAX_FORM_LEVELS: usize = 16;
const OCTET_STREAM: &str = "application/octet-stream";

/// How a body is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Body {
    Json { media: String },
    Form { fields: BTreeMap<String, FieldForm> },
    Multipart { media: String, fields: BTreeMap<String, FieldForm> },
    Text { media: String },
    File { media: String },
}

/// How one field of a form is written, where the document says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FieldForm {
    pub(super) writing: Option<Writing>,
    pub(super) content_type: Option<String>,
}

/// A body ready to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Encoded {
    pub(super) content_type: String,
    pub(super) bytes: Vec<u8>,
}

impl Body {
    pub(super) fn encode(&self, value: &Value) -> Result<Encoded, RequestError> {
        match self {
            Self::Json { media } => {
                Ok(Encoded { content_type: media.clone(), bytes: value.to_string().into_bytes() })
            }
            Self::Form { fields } => form(fields_of(value)?, fields),
            Self::Multipart { media, fields } => multipart(media, fields_of(value)?, fields),
            Self::Text { media } => Ok(Encoded {
                content_type: concrete(media, "text/plain"),
                bytes: text_of(value).into_bytes(),
            }),
            Self::File { media } => {
                let file = File::of(BODY_ARGUMENT, value)?;
                let declared = concrete(media, OCTET_STREAM);
                let is_open = media.contains('*') || declared == OCTET_STREAM;
                let content_type = file.content_type.filter(|_| is_open).unwrap_or(declared);
                Ok(Encoded { content_type, bytes: file.bytes })
            }
        }
    }
}

/// A media type without wildcards.
fn concrete(media: &str, otherwise: &str) -> String {
    if media.contains('*') || !media::is_media_type(media) { otherwise.to_owned() } else { media.to_owned() }
}

fn fields_of(value: &Value) -> Result<&Map<String, Value>, RequestError> {
    value.as_object().ok_or_else(|| {
        RequestError::unusable(BODY_ARGUMENT, "must be an object, because it is sent as a form")
    })
}

fn form(values: &Map<String, Value>, fields: &BTreeMap<String, FieldForm>) -> Result<Encoded, RequestError> {
    let mut written = form_urlencoded::Serializer::new(String::new());
    for (name, value) in values {
        let writing = fields.get(name).and_then(|field| field.writing);
        for (key, text) in field_pairs(name, value, writing) {
            written.append_pair(&key, &text);
        }
    }
    let content_type = "application/x-www-form-urlencoded".to_owned();
    Ok(Encoded { content_type, bytes: written.finish().into_bytes() })
}

/// The pairs of one field. Without a style, lists of scalars repeat the name and everything nested is JSON.
fn field_pairs(name: &str, value: &Value, writing: Option<Writing>) -> Vec<(String, String)> {
    let scalars = |items: &[Value]| -> Vec<String> {
        items.iter().filter(|item| !item.is_null()).map(text_of).collect()
    };
    let style = writing.map(|writing| (writing.style, writing.explode));
    match (value, style) {
        (Value::Null, _) => Vec::new(),
        (_, Some((Style::DeepObject, _))) => {
            let mut pairs = Vec::new();
            deep_object(name, value, MAX_FORM_LEVELS, &mut pairs);
            pairs
        }
        (Value::Array(items), Some((style, Explode::No))) => {
            let separator = separator(style);
            vec![(name.to_owned(), scalars(items).join(separator))]
        }
        (Value::Array(items), _) => scalars(items).into_iter().map(|item| (name.to_owned(), item)).collect(),
        (Value::Object(members), Some((Style::Form, Explode::Yes))) => {
            members.iter().filter(|(_, v)| !v.is_null()).map(|(key, v)| (key.clone(), text_of(v))).collect()
        }
        (Value::Object(members), Some((style, Explode::No))) => {
            let flat = members.iter().flat_map(|(key, v)| [key.clone(), text_of(v)]);
            vec![(name.to_owned(), flat.collect::<Vec<_>>().join(separator(style)))]
        }
        (other, _) => vec![(name.to_owned(), text_of(other))],
    }
}

fn separator(style: Style) -> &'static str {
    match style {
        Style::SpaceDelimited => " ",
        Style::PipeDelimited => "|",
        Style::TabDelimited => "\t",
        _ => ",",
    }
}

/// A file argument, decoded.
struct File {
    bytes: Vec<u8>,
    filename: Option<String>,
    content_type: Option<String>,
}

impl File {
    fn of(argument: &str, value: &Value) -> Result<Self, RequestError> {
        let refuse = |problem: &str| RequestError::unusable(argument, problem);
        let said = |key: &str| value.get(key).and_then(Value::as_str);
        let base64 =
            said("base64").ok_or_else(|| refuse("must be a file: { base64, filename?, contentType? }"))?;
        if base64.len() / 4 * 3 > MAX_FILE_BYTES + 2 {
            return Err(refuse(&format!("is larger than {MAX_FILE_BYTES} bytes")));
        }
        let bytes = STANDARD.decode(base64).map_err(|_| refuse("is not valid base64"))?;
        if bytes.len() > MAX_FILE_BYTES {
            return Err(refuse(&format!("is larger than {MAX_FILE_BYTES} bytes")));
        }
        let content_type = said("contentType");
        if content_type.is_some_and(|media| !media::is_media_type(media)) {
            return Err(refuse("has a contentType that is no media type"));
        }
        Ok(Self {
            bytes,
            filename: said("filename").map(str::to_owned),
            content_type: content_type.map(str::to_owned),
        })
    }

    /// Schemas of multipart bodies turn every binary string into this form, so its form is what tells a file.
    fn looks_like(value: &Value) -> bool {
        value.as_object().is_some_and(|members| {
            members.get("base64").is_some_and(Value::is_string)
                && members.keys().all(|key| matches!(key.as_str(), "base64" | "filename" | "contentType"))
        })
    }
}

/// One part of a multipart body.
struct Part {
    headers: String,
    bytes: Vec<u8>,
}

fn multipart(
    media: &str,
    values: &Map<String, Value>,
    fields: &BTreeMap<String, FieldForm>,
) -> Result<Encoded, RequestError> {
    let mut parts = Vec::new();
    for (name, value) in values {
        let field = fields.get(name);
        let is_joined = field
            .and_then(|field| field.writing)
            .is_some_and(|writing| writing.explode == Explode::No && writing.style != Style::DeepObject);
        match value {
            Value::Null => {}
            Value::Array(items) if !is_joined || items.iter().any(File::looks_like) => {
                for item in items {
                    parts.push(part(name, item, field)?);
                }
            }
            Value::Array(_) => {
                let pairs = field_pairs(name, value, field.and_then(|field| field.writing));
                parts.extend(pairs.into_iter().map(|(key, text)| text_part(&key, text)));
            }
            one => parts.push(part(name, one, field)?),
        }
    }
    let boundary = boundary(&parts);
    let mut bytes = Vec::new();
    for part in &parts {
        bytes.extend_from_slice(format!("--{boundary}\r\n{}\r\n", part.headers).as_bytes());
        bytes.extend_from_slice(&part.bytes);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    let media = concrete(media, "multipart/form-data");
    Ok(Encoded { content_type: format!("{media}; boundary={boundary}"), bytes })
}

fn part(name: &str, value: &Value, field: Option<&FieldForm>) -> Result<Part, RequestError> {
    let declared = field.and_then(|field| field.content_type.clone());
    if File::looks_like(value) {
        let file = File::of(name, value)?;
        let filename = file.filename.unwrap_or_else(|| name.to_owned());
        let media = file.content_type.or(declared).unwrap_or_else(|| OCTET_STREAM.to_owned());
        let headers = format!(
            "Content-Disposition: form-data; name=\"{}\"; filename=\"{}\"\r\nContent-Type: {media}\r\n",
            quoted(name),
            quoted(&filename)
        );
        return Ok(Part { headers, bytes: file.bytes });
    }
    let is_nested = value.is_object() || value.is_array();
    let media = declared.or_else(|| is_nested.then(|| "application/json".to_owned()));
    let mut part = text_part(name, text_of(value));
    if let Some(media) = media {
        part.headers.push_str(&format!("Content-Type: {media}\r\n"));
    }
    Ok(part)
}

fn text_part(name: &str, text: String) -> Part {
    let headers = format!("Content-Disposition: form-data; name=\"{}\"\r\n", quoted(name));
    Part { headers, bytes: text.into_bytes() }
}

/// As browsers write names: what would end the quotes or the line is percent-encoded.
fn quoted(name: &str) -> String {
    name.chars()
        .map(|c| match c {
            '"' => "%22".to_owned(),
            c if c.is_control() => format!("%{:02X}", u32::from(c)),
            c => c.to_string(),
        })
        .collect()
}

/// A boundary that stands in none of the parts, and is the same for the same parts.
fn boundary(parts: &[Part]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.headers.as_bytes());
        hash.update(&part.bytes);
    }
    let mut digest = hash.finalize();
    loop {
        let hex: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        let boundary = format!("countersign-{hex}");
        let stands_in = |part: &Part| part.bytes.windows(boundary.len()).any(|at| at == boundary.as_bytes());
        if !parts.iter().any(stands_in) {
            return boundary;
        }
        digest = Sha256::digest(digest);
    }
}
