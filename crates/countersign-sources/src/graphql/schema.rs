//! What a GraphQL service can do: its types, read from introspection or from SDL.

use std::collections::BTreeMap;
use std::fmt;

/// The most bytes of a schema.
pub const MAX_SCHEMA_BYTES: usize = 32 * 1024 * 1024;
/// The most fields of all root types together.
pub const MAX_ROOT_FIELDS: usize = 10_000;

/// A GraphQL schema.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Schema {
    pub(super) query: Option<String>,
    pub(super) mutation: Option<String>,
    pub(super) subscription: Option<String>,
    pub(super) types: BTreeMap<String, TypeDefinition>,
    pub(super) warnings: Vec<String>,
}

/// Why bytes are no schema that can be mapped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// It is larger than [`MAX_SCHEMA_BYTES`].
    #[error("the schema has {bytes} bytes; the limit is {MAX_SCHEMA_BYTES}")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// It is neither an introspection's answer nor SDL.
    #[error("the schema is not valid {format}: {problem}")]
    Syntax {
        /// `introspection JSON` or `SDL`.
        format: &'static str,
        /// The parser's words.
        problem: String,
    },
    /// It has more root fields than [`MAX_ROOT_FIELDS`].
    #[error("the schema has {fields} root fields; the limit is {MAX_ROOT_FIELDS}")]
    TooManyFields {
        /// How many it has.
        fields: usize,
    },
    /// It has no query type.
    #[error("the schema has no query type")]
    NoQuery,
}

impl SchemaError {
    /// The stable code of this error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::TooLarge { .. } => "document_too_large",
            Self::Syntax { .. } => "document_syntax",
            Self::TooManyFields { .. } => "document_too_many_operations",
            Self::NoQuery => "document_version",
        }
    }
}

impl Schema {
    /// Reads a schema: the JSON that answers [`INTROSPECTION_QUERY`](super::INTROSPECTION_QUERY), or SDL.
    pub fn parse(bytes: &[u8]) -> Result<Self, SchemaError> {
        if bytes.len() > MAX_SCHEMA_BYTES {
            return Err(SchemaError::TooLarge { bytes: bytes.len() });
        }
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let starts_with_brace = bytes.iter().find(|b| !b.is_ascii_whitespace()) == Some(&b'{');
        let schema =
            if starts_with_brace { super::introspection::read(bytes)? } else { super::sdl::read(bytes)? };
        if schema.root_fields(Root::Query).is_empty() {
            return Err(SchemaError::NoQuery);
        }
        let fields =
            [Root::Query, Root::Mutation, Root::Subscription].map(|root| schema.root_fields(root).len());
        let fields = fields.iter().sum();
        if fields > MAX_ROOT_FIELDS {
            return Err(SchemaError::TooManyFields { fields });
        }
        Ok(schema)
    }

    pub(super) fn root_fields(&self, root: Root) -> &[Field] {
        let name = match root {
            Root::Query => &self.query,
            Root::Mutation => &self.mutation,
            Root::Subscription => &self.subscription,
        };
        name.as_ref().map_or(&[], |name| self.fields(name))
    }

    /// The fields that can be selected on a type; none for leaves and unions.
    pub(super) fn fields(&self, name: &str) -> &[Field] {
        match self.types.get(name) {
            Some(TypeDefinition::Object { fields, .. } | TypeDefinition::Interface { fields }) => fields,
            _ => &[],
        }
    }

    /// Whether a type needs a selection.
    pub(super) fn is_composite(&self, name: &str) -> bool {
        use TypeDefinition::{Interface, Object, Union};
        matches!(self.types.get(name), Some(Object { .. } | Interface { .. } | Union { .. }))
    }

    /// Whether some object is of both types.
    pub(super) fn can_be_both(&self, one: &str, other: &str) -> bool {
        one == other || self.types.keys().any(|object| self.is_a(object, one) && self.is_a(object, other))
    }

    /// Whether an object type is of another type.
    fn is_a(&self, object: &str, other: &str) -> bool {
        let Some(TypeDefinition::Object { interfaces, .. }) = self.types.get(object) else { return false };
        let is_member = match self.types.get(other) {
            Some(TypeDefinition::Union { members }) => members.iter().any(|member| member == object),
            _ => false,
        };
        object == other || is_member || interfaces.iter().any(|interface| interface == other)
    }
}

/// The three kinds of root fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Root {
    Query,
    Mutation,
    Subscription,
}

impl Root {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Query => "query",
            Self::Mutation => "mutation",
            Self::Subscription => "subscription",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TypeDefinition {
    Scalar { description: Option<String> },
    Object { fields: Vec<Field>, interfaces: Vec<String> },
    Interface { fields: Vec<Field> },
    Union { members: Vec<String> },
    Enum { values: Vec<String>, description: Option<String> },
    Input { fields: Vec<InputValue>, description: Option<String> },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) description: Option<String>,
    pub(super) arguments: Vec<InputValue>,
    pub(super) kind: TypeReference,
    pub(super) is_deprecated: bool,
}

impl Field {
    pub(super) fn has_required_arguments(&self) -> bool {
        self.arguments.iter().any(InputValue::is_required)
    }
}

/// An argument, or a field of an input object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct InputValue {
    pub(super) name: String,
    pub(super) description: Option<String>,
    pub(super) kind: TypeReference,
    /// As GraphQL writes it.
    pub(super) default: Option<String>,
}

impl InputValue {
    pub(super) fn is_required(&self) -> bool {
        self.default.is_none() && matches!(self.kind, TypeReference::NonNull(_))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TypeReference {
    Named(String),
    List(Box<TypeReference>),
    NonNull(Box<TypeReference>),
}

impl TypeReference {
    /// The type without lists and marks.
    pub(super) fn inner(&self) -> &str {
        match self {
            Self::Named(name) => name,
            Self::List(inner) | Self::NonNull(inner) => inner.inner(),
        }
    }
}

impl fmt::Display for TypeReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(name) => f.write_str(name),
            Self::List(inner) => write!(f, "[{inner}]"),
            Self::NonNull(inner) => write!(f, "{inner}!"),
        }
    }
}

/// Whether a text is a name in GraphQL. What comes from JSON is written into requests and must not be more than that.
pub(super) fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}
