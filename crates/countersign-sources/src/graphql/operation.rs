//! A root field that can be called: admitted arguments in, a request out, and an answer's result.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::schema::{Field, Root, Schema};
use super::{input, selection};
use crate::bounded::bounded;
use crate::request::{HttpRequest, MAX_ERROR_BODY_BYTES, RequestError, UpstreamError};

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

    /// The result for an answer: what the field answered. Errors are a failure, and data that came beside them is told.
    pub fn result(
        &self,
        status: u16,
        _headers: &[(String, String)],
        body: &[u8],
    ) -> Result<Value, UpstreamError> {
        let failed = |text: String| Err(UpstreamError { status, body: bounded(&text, MAX_ERROR_BODY_BYTES) });
        let Ok(mut answer) = serde_json::from_slice::<Value>(body) else {
            return failed(String::from_utf8_lossy(body).into_owned());
        };
        let has_errors =
            answer.get("errors").and_then(Value::as_array).is_some_and(|errors| !errors.is_empty());
        if has_errors {
            let errors: Vec<Value> = answer["errors"].as_array().into_iter().flatten().map(told).collect();
            let data = answer.get("data").filter(|data| !data.is_null());
            let text = match data {
                Some(data) => json!({ "errors": errors, "data": data }),
                None => json!({ "errors": errors }),
            };
            return failed(text.to_string());
        }
        match answer.get_mut("data").and_then(|data| data.get_mut(&self.field.name)) {
            Some(value) if (200..300).contains(&status) => Ok(value.take()),
            _ => failed(answer.to_string()),
        }
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

/// What a person or a model can use of an error; extensions may be stack traces.
fn told(error: &Value) -> Value {
    let mut kept = Map::new();
    for key in ["message", "path"] {
        kept.extend(error.get(key).map(|value| (key.to_owned(), value.clone())));
    }
    kept.extend(error.pointer("/extensions/code").map(|code| ("code".to_owned(), code.clone())));
    Value::Object(kept)
}
