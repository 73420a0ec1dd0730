//! An operation that can be called: admitted arguments in, a request out.
//!
//! Promise: scheme, host and the path in front are the operator's; an argument fills its own segment, parameter, header
//! value or body and nothing else. A path that a URL parser would read differently is refused.

use serde_json::{Map, Value};
use url::Url;

use super::answer::AnswerShape;
use super::encode::{BODY_ARGUMENT, Body};
use super::parameters::{Need, Parameter, ParameterForm, Place, Span};
use super::style;
use crate::request::{HttpRequest, RequestError};

/// An operation of an OpenAPI document, ready to be called.
#[derive(Debug, Clone, PartialEq)]
pub struct Operation {
    pub(super) origin: String,
    pub(super) method: &'static str,
    /// Without a slash at the end.
    pub(super) base_url: String,
    pub(super) path: Vec<Segment>,
    pub(super) parameters: Vec<Parameter>,
    pub(super) body: Option<(Body, Need)>,
    pub(super) accept: String,
    pub(super) answer: AnswerShape,
}

/// What stands between two slashes of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Segment(pub(super) Vec<Piece>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
    /// Encoded already.
    Literal(String),
    /// The index of a parameter.
    Parameter(usize),
}

impl Operation {
    /// What it is in the document: `POST /repos/{owner}/{repo}/issues`.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// The header by which the upstream recognises a repeated request, where the document declares one.
    pub fn idempotency_header(&self) -> Option<&str> {
        let mut headers = self.parameters.iter().filter(|parameter| parameter.place == Place::Header);
        headers.find(|parameter| is_idempotency_key(&parameter.name)).map(|parameter| parameter.name.as_str())
    }

    /// The request for arguments that fit the tool's input schema.
    pub fn request(&self, arguments: &Value) -> Result<HttpRequest, RequestError> {
        let arguments = match arguments {
            Value::Object(arguments) => arguments,
            _ => return Err(RequestError::NotAnObject),
        };
        let mut url = self.base_url.clone();
        url.push_str(&self.path(arguments)?);
        self.check_location(&url)?;
        let query = self.query(arguments)?;
        if !query.is_empty() {
            url.push('?');
            url.push_str(&query.join("&"));
        }
        let mut headers = vec![("Accept".to_owned(), self.accept.clone())];
        self.add_headers(arguments, &mut headers)?;
        let body = self.body(arguments, &mut headers)?;
        Ok(HttpRequest { method: self.method.to_owned(), url, headers, body })
    }

    fn path(&self, arguments: &Map<String, Value>) -> Result<String, RequestError> {
        let mut path = String::new();
        for segment in &self.path {
            let mut text = String::new();
            let mut spans = Span::OneSegment;
            let mut argument = "";
            for piece in &segment.0 {
                match piece {
                    Piece::Literal(literal) => text.push_str(literal),
                    Piece::Parameter(at) => {
                        let parameter = &self.parameters[*at];
                        argument = &parameter.argument;
                        if parameter.span == Span::Segments {
                            spans = Span::Segments;
                        }
                        text.push_str(&path_value(parameter, arguments)?);
                    }
                }
            }
            let parts = match spans {
                Span::OneSegment => vec![text.as_str()],
                Span::Segments => text.split('/').collect(),
            };
            // Encoding leaves dots alone, and URL parsers make `/repos/../x` into `/x`.
            if !argument.is_empty() && parts.iter().any(|part| matches!(*part, "" | "." | "..")) {
                return Err(RequestError::unusable(argument, "must not be empty, \".\" or \"..\" in a path"));
            }
            path.push('/');
            path.push_str(&text);
        }
        Ok(path)
    }

    /// A second look at the whole, by the parser that the client uses.
    fn check_location(&self, url: &str) -> Result<(), RequestError> {
        let refuse = || RequestError::unusable("path", "would change where the request goes");
        let parsed = Url::parse(url).map_err(|_| refuse())?;
        if parsed.as_str().trim_end_matches('/') == url.trim_end_matches('/') {
            Ok(())
        } else {
            Err(refuse())
        }
    }

    fn query(&self, arguments: &Map<String, Value>) -> Result<Vec<String>, RequestError> {
        let mut pairs = Vec::new();
        for (parameter, value) in self.given(Place::Query, arguments) {
            let value = value?;
            match parameter.form {
                ParameterForm::Styled(writing) => {
                    pairs.extend(style::in_query(&parameter.name, value, writing));
                }
                ParameterForm::Json | ParameterForm::Text => {
                    let text = content_text(parameter, value);
                    pairs.push(format!("{}={}", style::encoded(&parameter.name), style::encoded(&text)));
                }
            }
        }
        Ok(pairs)
    }

    fn add_headers(
        &self,
        arguments: &Map<String, Value>,
        headers: &mut Vec<(String, String)>,
    ) -> Result<(), RequestError> {
        for (parameter, value) in self.given(Place::Header, arguments) {
            let value = value?;
            let text = match parameter.form {
                ParameterForm::Styled(writing) => style::in_header(value, writing.explode),
                ParameterForm::Json | ParameterForm::Text => Some(content_text(parameter, value)),
            };
            let Some(text) = text else { continue };
            if !text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
                return Err(RequestError::unusable(
                    &parameter.argument,
                    "must be printable ASCII in a header",
                ));
            }
            headers.push((parameter.name.clone(), text));
        }
        let mut cookies = Vec::new();
        for (parameter, value) in self.given(Place::Cookie, arguments) {
            let value = value?;
            match parameter.form {
                ParameterForm::Styled(writing) => {
                    cookies.extend(style::in_query(&parameter.name, value, writing));
                }
                ParameterForm::Json | ParameterForm::Text => {
                    cookies.push(format!(
                        "{}={}",
                        parameter.name,
                        style::encoded(&content_text(parameter, value))
                    ));
                }
            }
        }
        if !cookies.is_empty() {
            headers.push(("Cookie".to_owned(), cookies.join("; ")));
        }
        Ok(())
    }

    fn body(
        &self,
        arguments: &Map<String, Value>,
        headers: &mut Vec<(String, String)>,
    ) -> Result<Option<Vec<u8>>, RequestError> {
        let Some((body, need)) = &self.body else { return Ok(None) };
        match (arguments.get(BODY_ARGUMENT), need) {
            (None, Need::Optional) => Ok(None),
            (None, Need::Required) => Err(RequestError::Missing { argument: BODY_ARGUMENT.to_owned() }),
            (Some(value), _) => {
                let encoded = body.encode(value)?;
                headers.push(("Content-Type".to_owned(), encoded.content_type));
                Ok(Some(encoded.bytes))
            }
        }
    }

    /// The parameters of a place that were given, and the error for a required one that was not.
    fn given<'a>(
        &'a self,
        place: Place,
        arguments: &'a Map<String, Value>,
    ) -> impl Iterator<Item = (&'a Parameter, Result<&'a Value, RequestError>)> {
        let of_place = self.parameters.iter().filter(move |parameter| parameter.place == place);
        of_place.filter_map(|parameter| match (arguments.get(&parameter.argument), parameter.need) {
            (Some(value), _) => Some((parameter, Ok(value))),
            (None, Need::Optional) => None,
            (None, Need::Required) => {
                Some((parameter, Err(RequestError::Missing { argument: parameter.argument.clone() })))
            }
        })
    }
}

/// Whether a header marks a repeated request as the same one.
pub(super) fn is_idempotency_key(header: &str) -> bool {
    let header = header.to_ascii_lowercase();
    matches!(header.as_str(), "idempotency-key" | "x-idempotency-key")
}

fn path_value(parameter: &Parameter, arguments: &Map<String, Value>) -> Result<String, RequestError> {
    let missing = || RequestError::Missing { argument: parameter.argument.clone() };
    let value = arguments.get(&parameter.argument).ok_or_else(missing)?;
    let text = match parameter.form {
        ParameterForm::Styled(_) if parameter.span == Span::Segments => {
            style::text_of(value).split('/').map(style::encoded).collect::<Vec<_>>().join("/")
        }
        ParameterForm::Styled(writing) => style::in_path(&parameter.name, value, writing).unwrap_or_default(),
        ParameterForm::Json | ParameterForm::Text => style::encoded(&content_text(parameter, value)),
    };
    if text.is_empty() {
        return Err(RequestError::unusable(
            &parameter.argument,
            "must not be empty, \".\" or \"..\" in a path",
        ));
    }
    Ok(text)
}

fn content_text(parameter: &Parameter, value: &Value) -> String {
    match parameter.form {
        ParameterForm::Json => value.to_string(),
        ParameterForm::Styled(_) | ParameterForm::Text => style::text_of(value),
    }
}
