//! The parameters of an operation: read from the document, and written into a request.
//!
//! Promise: no argument sets a header that belongs to the connection or to credentials, and none leaves its path segment.

use serde_json::Value;

use super::pruned::MULTI_SEGMENT;
use super::style::{Explode, Reserved, Style, Writing};
use super::{Dialect, Document};

/// Headers that OpenAPI says are void as parameters, and those that belong to the connection.
const NOT_ARGUMENTS: [&str; 21] = [
    "accept",
    "accept-encoding",
    "authorization",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "cookie",
    "cookie2",
    "expect",
    "forwarded",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "set-cookie",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Where a parameter stands in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Place {
    Path,
    Query,
    Header,
    Cookie,
}

impl Place {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Path => "path",
            Self::Query => "query",
            Self::Header => "header",
            Self::Cookie => "cookie",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        [Self::Path, Self::Query, Self::Header, Self::Cookie].into_iter().find(|place| place.as_str() == text)
    }
}

/// A parameter as a request needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Parameter {
    /// Its name among the arguments.
    pub(super) argument: String,
    /// Its name on the wire.
    pub(super) name: String,
    pub(super) place: Place,
    pub(super) need: Need,
    pub(super) form: ParameterForm,
    pub(super) span: Span,
}

/// Whether something must be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    Required,
    Optional,
}

impl Need {
    pub(super) fn of(said: Option<&Value>) -> Self {
        if said.and_then(Value::as_bool) == Some(true) { Self::Required } else { Self::Optional }
    }
}

/// How a parameter's value becomes text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ParameterForm {
    Styled(Writing),
    /// A `content` parameter: JSON as text, or the string itself.
    Json,
    Text,
}

/// How much of a path a parameter may fill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Span {
    OneSegment,
    /// GitHub marks 25 parameters whose value may contain slashes.
    Segments,
}

/// A parameter as the document has it.
#[derive(Debug, Clone)]
pub(super) struct Declared<'d> {
    pub(super) parameter: Parameter,
    /// None where nothing is said: any string.
    pub(super) schema: Option<&'d Value>,
    pub(super) description: Option<&'d str>,
    pub(super) is_deprecated: bool,
}

/// What an operation declares: parameters that become arguments, and Swagger 2's body among them.
#[derive(Debug, Default)]
pub(super) struct Declarations<'d> {
    pub(super) parameters: Vec<Declared<'d>>,
    /// Swagger 2: the parameter with `in: body`.
    pub(super) body: Option<&'d Value>,
    /// Swagger 2: the parameters with `in: formData`.
    pub(super) form: Vec<&'d Value>,
}

/// Reads the parameters of a path and its operation; the operation's win. The error is why the operation cannot be called.
pub(super) fn declared<'d>(
    document: &'d Document,
    path_item: &'d Value,
    operation: &'d Value,
) -> Result<Declarations<'d>, String> {
    let mut found: Vec<&'d Value> = Vec::new();
    for listed in [path_item, operation].into_iter().filter_map(|at| at.get("parameters")?.as_array()) {
        for parameter in listed {
            let parameter =
                document.resolve(parameter).map_err(|why| format!("a parameter is unreadable: {why}"))?;
            found.retain(|known| identity(known) != identity(parameter));
            found.push(parameter);
        }
    }
    let mut declarations = Declarations::default();
    for parameter in found {
        match parameter.get("in").and_then(Value::as_str) {
            Some("body") => declarations.body = Some(parameter),
            Some("formData") => declarations.form.push(parameter),
            _ => declarations.parameters.extend(read(document, parameter)?),
        }
    }
    Ok(declarations)
}

/// A path parameter that the path has and nobody declares: a string.
pub(super) fn undeclared(name: &str) -> Declared<'static> {
    let parameter = Parameter {
        argument: name.to_owned(),
        name: name.to_owned(),
        place: Place::Path,
        need: Need::Required,
        form: ParameterForm::Styled(default_writing(Place::Path)),
        span: Span::OneSegment,
    };
    Declared { parameter, schema: None, description: None, is_deprecated: false }
}

/// Whether arguments may set a header of this name.
pub(super) fn may_be_argument(header: &str) -> bool {
    let header = header.to_ascii_lowercase();
    let is_token = !header.is_empty()
        && header.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b));
    is_token && !NOT_ARGUMENTS.contains(&header.as_str())
}

fn identity(parameter: &Value) -> (Option<&str>, Option<String>) {
    let place = parameter.get("in").and_then(Value::as_str);
    let name = parameter.get("name").and_then(Value::as_str);
    // Header names have no case.
    let name =
        name.map(|name| if place == Some("header") { name.to_ascii_lowercase() } else { name.to_owned() });
    (place, name)
}

fn read<'d>(document: &'d Document, declared: &'d Value) -> Result<Option<Declared<'d>>, String> {
    let said = |key: &str| declared.get(key).and_then(Value::as_str);
    let Some(name) = said("name") else { return Err("a parameter has no name".to_owned()) };
    let Some(place) = said("in").and_then(Place::parse) else {
        return Err(format!("parameter {name:?} does not say where it belongs"));
    };
    if place == Place::Header && !may_be_argument(name) {
        return Ok(None);
    }
    if place == Place::Cookie
        && !name.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
    {
        return Err(format!("cookie parameter {name:?} has a name that no cookie can have"));
    }
    let (form, schema) = match document.dialect() {
        Dialect::Swagger2 => {
            (ParameterForm::Styled(collection_format(place, said("collectionFormat"))), Some(declared))
        }
        Dialect::OpenApi30 | Dialect::OpenApi31 => form_and_schema(place, declared),
    };
    let need = if place == Place::Path { Need::Required } else { Need::of(declared.get("required")) };
    let span = match declared.get(MULTI_SEGMENT) {
        Some(Value::Bool(true)) => Span::Segments,
        _ => Span::OneSegment,
    };
    let parameter = Parameter { argument: name.to_owned(), name: name.to_owned(), place, need, form, span };
    let is_deprecated = declared.get("deprecated").and_then(Value::as_bool) == Some(true);
    Ok(Some(Declared { parameter, schema, description: said("description"), is_deprecated }))
}

fn form_and_schema(place: Place, declared: &Value) -> (ParameterForm, Option<&Value>) {
    if let Some((media, content)) =
        declared.get("content").and_then(Value::as_object).and_then(|c| c.iter().next())
    {
        let form = if super::media::is_json(media) { ParameterForm::Json } else { ParameterForm::Text };
        return (form, content.get("schema"));
    }
    let mut writing = default_writing(place);
    let style = declared.get("style").and_then(Value::as_str).and_then(|style| style_of(place, style));
    if let Some(style) = style {
        writing.style = style;
        writing.explode = if style == Style::Form { Explode::Yes } else { Explode::No };
    }
    match declared.get("explode").and_then(Value::as_bool) {
        Some(true) => writing.explode = Explode::Yes,
        Some(false) => writing.explode = Explode::No,
        None => {}
    }
    if declared.get("allowReserved").and_then(Value::as_bool) == Some(true) && place == Place::Query {
        writing.reserved = Reserved::Allowed;
    }
    (ParameterForm::Styled(writing), declared.get("schema"))
}

/// A style where it is one of this place; documents that err get the place's default.
fn style_of(place: Place, style: &str) -> Option<Style> {
    match (place, style) {
        (Place::Path | Place::Header, "simple") => Some(Style::Simple),
        (Place::Path, "label") => Some(Style::Label),
        (Place::Path, "matrix") => Some(Style::Matrix),
        (Place::Query | Place::Cookie, "form") => Some(Style::Form),
        (Place::Query, "spaceDelimited") => Some(Style::SpaceDelimited),
        (Place::Query, "pipeDelimited") => Some(Style::PipeDelimited),
        (Place::Query, "deepObject") => Some(Style::DeepObject),
        _ => None,
    }
}

fn default_writing(place: Place) -> Writing {
    let (style, explode) = match place {
        Place::Path | Place::Header => (Style::Simple, Explode::No),
        Place::Query | Place::Cookie => (Style::Form, Explode::Yes),
    };
    Writing { style, explode, reserved: Reserved::Encoded }
}

fn collection_format(place: Place, said: Option<&str>) -> Writing {
    let style = match (place, said) {
        (Place::Query, Some("ssv")) => Style::SpaceDelimited,
        (Place::Query, Some("tsv")) => Style::TabDelimited,
        (Place::Query, Some("pipes")) => Style::PipeDelimited,
        (Place::Query | Place::Cookie, _) => Style::Form,
        (Place::Path | Place::Header, _) => Style::Simple,
    };
    let explode = if said == Some("multi") && place == Place::Query { Explode::Yes } else { Explode::No };
    Writing { style, explode, reserved: Reserved::Encoded }
}
