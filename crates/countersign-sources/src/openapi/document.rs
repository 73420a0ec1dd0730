//! Reads a document: JSON or YAML, OpenAPI 3.0, 3.1 or Swagger 2, and resolves references inside it.
//!
//! Promise: parsing is bounded in bytes and depth, and keeps only what the mapping reads. Examples make up most of a
//! large document, so they are skipped while it is read.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;
use serde_json::Value;

use super::pruned::Pruned;

/// The most bytes of a document.
pub const MAX_DOCUMENT_BYTES: usize = 32 * 1024 * 1024;
/// The most levels of objects and arrays in a document.
pub const MAX_DEPTH: usize = 120;
/// The most operations of a document.
pub const MAX_OPERATIONS: usize = 10_000;
/// The longest chain of references that only lead to other references.
const MAX_REFERENCE_HOPS: usize = 16;

/// What a path's operations are called in a document.
const METHOD_KEYS: [&str; 9] = ["delete", "get", "head", "options", "patch", "post", "put", "query", "trace"];

/// A parsed document.
#[derive(Debug)]
pub struct Document {
    pub(super) root: Value,
    pub(super) dialect: Dialect,
}

/// Which rules a document follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// Swagger 2.0.
    Swagger2,
    /// OpenAPI 3.0.
    OpenApi30,
    /// OpenAPI 3.1 and later.
    OpenApi31,
}

/// Why bytes are no document that can be mapped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DocumentError {
    /// It is larger than [`MAX_DOCUMENT_BYTES`].
    #[error("the document has {bytes} bytes; the limit is {MAX_DOCUMENT_BYTES}")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// It is nested more than [`MAX_DEPTH`] levels.
    #[error("the document is nested more than {MAX_DEPTH} levels deep")]
    TooDeep,
    /// It is neither JSON nor YAML.
    #[error("the document is not valid {format}: {problem}")]
    Syntax {
        /// `JSON` or `YAML`.
        format: &'static str,
        /// The parser's words, with the place.
        problem: String,
    },
    /// It has more than [`MAX_OPERATIONS`].
    #[error("the document has {operations} operations; the limit is {MAX_OPERATIONS}")]
    TooManyOperations {
        /// How many it has.
        operations: usize,
    },
    /// It says neither `openapi: 3.x` nor `swagger: "2.0"`.
    #[error("the document is not OpenAPI 3.0, 3.1 or Swagger 2.0: {found}")]
    UnknownVersion {
        /// What it says of itself.
        found: String,
    },
}

impl DocumentError {
    /// The stable code of this error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::TooLarge { .. } => "document_too_large",
            Self::TooDeep => "document_too_deep",
            Self::TooManyOperations { .. } => "document_too_many_operations",
            Self::Syntax { .. } => "document_syntax",
            Self::UnknownVersion { .. } => "document_version",
        }
    }
}

impl Document {
    /// Reads a document; JSON where it begins with a brace, else YAML.
    pub fn parse(bytes: &[u8]) -> Result<Self, DocumentError> {
        if bytes.len() > MAX_DOCUMENT_BYTES {
            return Err(DocumentError::TooLarge { bytes: bytes.len() });
        }
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let starts_with_brace = bytes.iter().find(|b| !b.is_ascii_whitespace()) == Some(&b'{');
        let root = if starts_with_brace { parse_json(bytes)? } else { parse_yaml(bytes)? };
        let dialect = dialect_of(&root)?;
        let operations = count_operations(&root);
        if operations > MAX_OPERATIONS {
            return Err(DocumentError::TooManyOperations { operations });
        }
        Ok(Self { root, dialect })
    }

    /// Which rules it follows.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Follows `$ref` until something else is found; the error says which reference leads nowhere.
    pub(super) fn resolve<'d>(&'d self, mut value: &'d Value) -> Result<&'d Value, String> {
        for _ in 0..MAX_REFERENCE_HOPS {
            match value.get("$ref").and_then(Value::as_str) {
                None => return Ok(value),
                Some(reference) => value = self.target(reference)?,
            }
        }
        Err("its references go in a circle".to_owned())
    }

    /// What a reference points to.
    pub(super) fn target(&self, reference: &str) -> Result<&Value, String> {
        let Some(pointer) = reference.strip_prefix('#') else {
            return Err(format!("it refers to another document, {reference:?}"));
        };
        let pointer: Cow<'_, str> = percent_decode_str(pointer).decode_utf8_lossy();
        let found = self.root.pointer(&pointer);
        found.ok_or_else(|| format!("it refers to {reference:?}, which is not in the document"))
    }
}

fn parse_json(bytes: &[u8]) -> Result<Value, DocumentError> {
    let parsed = serde_json::from_slice::<Pruned>(bytes).map_err(|error| {
        let problem = error.to_string();
        if problem.contains("recursion limit") {
            return DocumentError::TooDeep;
        }
        DocumentError::Syntax { format: "JSON", problem }
    });
    within_depth(parsed?.0)
}

fn parse_yaml(bytes: &[u8]) -> Result<Value, DocumentError> {
    let syntax = |problem: String| DocumentError::Syntax { format: "YAML", problem };
    let text = std::str::from_utf8(bytes).map_err(|error| syntax(error.to_string()))?;
    let options = serde_saphyr::options! { strict_booleans: true };
    let parsed = serde_saphyr::from_str_with_options::<Pruned>(text, options);
    within_depth(parsed.map_err(|error| syntax(error.to_string()))?.0)
}

fn within_depth(root: Value) -> Result<Value, DocumentError> {
    if is_within(&root, MAX_DEPTH) { Ok(root) } else { Err(DocumentError::TooDeep) }
}

fn is_within(value: &Value, levels: usize) -> bool {
    match value {
        Value::Object(map) => levels > 0 && map.values().all(|inner| is_within(inner, levels - 1)),
        Value::Array(items) => levels > 0 && items.iter().all(|inner| is_within(inner, levels - 1)),
        _ => true,
    }
}

fn dialect_of(root: &Value) -> Result<Dialect, DocumentError> {
    let said = |key: &str| match root.get(key) {
        Some(Value::String(version)) => Some(version.clone()),
        // YAML without quotes makes `swagger: 2.0` a number.
        Some(Value::Number(version)) => Some(version.to_string()),
        _ => None,
    };
    let found = match (said("openapi"), said("swagger")) {
        (Some(version), _) if version == "3" || version.starts_with("3.0") => return Ok(Dialect::OpenApi30),
        (Some(version), _) if version.starts_with("3.") => return Ok(Dialect::OpenApi31),
        (_, Some(version)) if version.starts_with('2') => return Ok(Dialect::Swagger2),
        (Some(version), _) => format!("it says openapi {version:?}"),
        (None, Some(version)) => format!("it says swagger {version:?}"),
        (None, None) => "it has neither \"openapi\" nor \"swagger\"".to_owned(),
    };
    Err(DocumentError::UnknownVersion { found })
}

fn count_operations(root: &Value) -> usize {
    let items = root.get("paths").and_then(Value::as_object).into_iter().flatten();
    let operations = items.filter_map(|(_, item)| item.as_object()).flat_map(|item| item.iter());
    operations.filter(|(key, value)| METHOD_KEYS.contains(&key.as_str()) && value.is_object()).count()
}
