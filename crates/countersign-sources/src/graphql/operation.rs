//! A root field that can be called: admitted arguments in, a request out, and an answer's result.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::schema::{Field, Root, Schema};
use super::{input, selection};
use crate::bounded::bounded;
use crate::request::{HttpRequest, MAX_ERROR_BODY_BYTES, RequestError, UpstreamError};

/// Why an answer is no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoResult {
    /// The service says that it failed.
    #[error("{0}")]
    Failed(UpstreamError),
    /// The service answered, and not whether the mutation took effect.
    #[error("the answer does not say whether the mutation took effect: {0}")]
    Unknown(UpstreamError),
}

impl NoResult {
    /// What the service answered.
    pub fn answer(&self) -> &UpstreamError {
        match self {
            Self::Failed(answer) | Self::Unknown(answer) => answer,
        }
    }
}

/// A query or mutation field, ready to be called.
#[derive(Debug, Clone)]
pub struct Operation {
    pub(super) schema: Arc<Schema>,
    pub(super) endpoint: String,
    pub(super) root: Root,
    pub(super) field: Field,
    pub(super) default_selection: Option<String>,
}

impl Operation {
    /// What it is in the schema: `mutation createIssue`.
    pub fn origin(&self) -> String {
        format!("{} {}", self.root.as_str(), self.field.name)
    }

    /// The request for arguments that fit the tool's input schema.
    pub fn request(&self, arguments: &Value) -> Result<HttpRequest, RequestError> {
        let given = arguments.as_object().ok_or(RequestError::NotAnObject)?;
        let selection = self.selection(given)?;
        let mut declared = Vec::new();
        let mut passed = Vec::new();
        let mut variables = Map::new();
        for argument in &self.field.arguments {
            match given.get(&argument.name) {
                Some(value) => {
                    declared.push(format!("${}: {}", argument.name, argument.kind));
                    passed.push(format!("{0}: ${0}", argument.name));
                    variables.insert(argument.name.clone(), value.clone());
                }
                // What is not given is not sent, so that the service's own default counts.
                None if argument.is_required() => {
                    return Err(RequestError::Missing { argument: argument.name.clone() });
                }
                None => {}
            }
        }
        let bracketed =
            |list: &[String]| if list.is_empty() { String::new() } else { format!("({})", list.join(", ")) };
        let name = &self.field.name;
        let selection = selection.map(|selection| format!(" {{ {selection} }}")).unwrap_or_default();
        let query = format!(
            "{} {name}{} {{ {name}{}{selection} }}",
            self.root.as_str(),
            bracketed(&declared),
            bracketed(&passed),
        );
        let body = json!({ "query": query, "operationName": name, "variables": variables });
        let headers = [
            ("Accept", "application/graphql-response+json, application/json;q=0.9"),
            ("Content-Type", "application/json"),
        ];
        Ok(HttpRequest {
            method: "POST".to_owned(),
            url: self.endpoint.clone(),
            headers: headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
            body: Some(body.to_string().into_bytes()),
        })
    }

    /// The result for an answer: what the field answered. What a query could not answer whole is a failure that tells the data
    /// beside the errors. A mutation that answered took effect: its errors are told beside its data, as a result.
    pub fn result(&self, status: u16, _headers: &[(String, String)], body: &[u8]) -> Result<Value, NoResult> {
        let refusal = |text: &str| UpstreamError { status, body: bounded(text, MAX_ERROR_BODY_BYTES) };
        let is_success = Status(status).is_success();
        let Ok(mut answer) = serde_json::from_slice::<Value>(body) else {
            let refusal = refusal(&String::from_utf8_lossy(body));
            // It may have acted before it, or a proxy of it, came to write this.
            let is_open = is_success && self.root == Root::Mutation;
            return Err(if is_open { NoResult::Unknown(refusal) } else { NoResult::Failed(refusal) });
        };
        let errors: Vec<Value> = answer.get("errors").and_then(Value::as_array).cloned().unwrap_or_default();
        let value = answer.get_mut("data").and_then(|data| data.get_mut(&self.field.name)).map(Value::take);
        match value {
            Some(value) if errors.is_empty() && is_success => return Ok(value),
            Some(value) if !value.is_null() && is_success && self.root == Root::Mutation => {
                return Ok(json!({ "data": value, "errors": errors.iter().map(told).collect::<Vec<_>>() }));
            }
            value => self.put_back(&mut answer, value),
        }
        let refusal = refusal(&shown(&answer, &errors));
        let is_certain =
            self.root == Root::Query || self.says_it_did_nothing(&answer, &errors, Status(status));
        Err(if is_certain { NoResult::Failed(refusal) } else { NoResult::Unknown(refusal) })
    }

    fn put_back(&self, answer: &mut Value, value: Option<Value>) {
        if let Some(value) = value
            && let Some(data) = answer.get_mut("data").and_then(Value::as_object_mut)
        {
            data.insert(self.field.name.clone(), value);
        }
    }

    /// Whether a mutation's answer without a result says that it came to nothing: the service refused the request before it began,
    /// or the field itself failed. An error below the field tells only that its answer is not whole, also where it took the whole
    /// answer with it.
    fn says_it_did_nothing(&self, answer: &Value, errors: &[Value], status: Status) -> bool {
        let path = |error: &Value| error.get("path").and_then(Value::as_array).cloned().unwrap_or_default();
        let is_at = |error: &Value, is_its_length: fn(usize) -> bool| {
            let path = path(error);
            path.first().is_some_and(|first| *first == self.field.name.as_str()) && is_its_length(path.len())
        };
        let data = answer.get("data");
        let has_value =
            data.and_then(|data| data.get(&self.field.name)).is_some_and(|value| !value.is_null());
        if has_value || errors.iter().any(|error| is_at(error, |length| length > 1)) {
            return false;
        }
        let failed_itself = errors.iter().any(|error| is_at(error, |length| length == 1));
        // Without `data` nothing was executed. Where nothing of the protocol is answered, only the status tells.
        let was_refused = data.is_none() && !(errors.is_empty() && status.is_success());
        failed_itself || was_refused || status.is_refusal()
    }

    fn selection(&self, given: &Map<String, Value>) -> Result<Option<String>, RequestError> {
        let argument = input::fields_argument(&self.field);
        let refuse = |problem: String| RequestError::unusable(&argument, problem);
        match given.get(&argument) {
            None | Some(Value::Null) => Ok(self.default_selection.clone()),
            Some(Value::String(text)) => {
                selection::chosen(&self.schema, self.field.kind.inner(), text).map(Some).map_err(refuse)
            }
            Some(_) => Err(refuse("must be a text".to_owned())),
        }
    }
}

/// The HTTP status of an answer.
#[derive(Clone, Copy)]
struct Status(u16);

impl Status {
    fn is_success(self) -> bool {
        (200..300).contains(&self.0)
    }

    fn is_refusal(self) -> bool {
        (400..500).contains(&self.0)
    }
}

/// An answer without a result, as it is told.
fn shown(answer: &Value, errors: &[Value]) -> String {
    if errors.is_empty() {
        return answer.to_string();
    }
    let errors: Vec<Value> = errors.iter().map(told).collect();
    let text = match answer.get("data").filter(|data| !data.is_null()) {
        Some(data) => json!({ "errors": errors, "data": data }),
        None => json!({ "errors": errors }),
    };
    text.to_string()
}

/// What a person or a model can use of an error; extensions may be stack traces.
fn told(error: &Value) -> Value {
    let mut kept = Map::new();
    for key in ["message", "path"] {
        kept.extend(error.get(key).map(|value| (key.to_owned(), value.clone())));
    }
    kept.extend(error.pointer("/extensions/code").map(|code| ("code".to_owned(), code.clone())));
    Value::Object(kept)
}
