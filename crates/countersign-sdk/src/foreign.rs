//! Foreign tools: tools that another system defines, known only as JSON schemas at run time.
//!
//! Promise: the handler takes a [`ForeignInput`], which nothing but the gateway makes, at the moment it starts the handler.
//! Effects of a foreign tool are data, so the compiler cannot tell a destructive one from the rest; instead no foreign
//! handler takes a bare value, and the handler of a destructive one is not entered without an [`Authority`]. The arguments
//! reach the handler as they were approved: defaults of the schema are not filled in, because an update that names a field
//! overwrites it.

use std::future::Future;
use std::ops::Deref;
use std::sync::Arc;

use futures_util::future::FutureExt;
use serde_json::{Value, json};

use crate::permit::Permit;
use crate::tool::{Handler, Message};
use crate::{
    Authority, Ctx, Effects, McpRequest, PathError, Remember, Schema, SchemaError, Tool, ToolError, ToolPath,
};

/// The largest schema of a foreign tool, as JSON text.
pub const MAX_FOREIGN_SCHEMA_BYTES: usize = 1024 * 1024;
/// How deep a schema of a foreign tool may be nested.
pub const MAX_FOREIGN_SCHEMA_DEPTH: usize = 100;

/// Description of a foreign tool whose source gives none.
const NO_DESCRIPTION: &str = "The source gives no description.";

/// The arguments of a foreign tool's call, with the authority that the call runs on.
///
/// ```compile_fail
/// use countersign_sdk::ForeignInput;
/// let forged = ForeignInput { arguments: serde_json::json!({}), authority: None };
/// ```
#[derive(Debug)]
pub struct ForeignInput {
    arguments: Value,
    authority: Option<Authority>,
}

impl ForeignInput {
    /// The arguments, as they were shown and approved.
    pub fn into_inner(self) -> Value {
        self.arguments
    }

    /// The authority on which the call runs. Always present for a destructive tool.
    pub fn authority(&self) -> Option<&Authority> {
        self.authority.as_ref()
    }
}

impl Deref for ForeignInput {
    type Target = Value;
    fn deref(&self) -> &Value {
        &self.arguments
    }
}

/// Why a foreign tool cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ForeignToolError {
    /// The path breaks the rule for paths.
    #[error("{0}")]
    Path(#[from] PathError),
    /// A schema is unusable.
    #[error("the {which} schema cannot be used: {problem}")]
    Schema {
        /// `input` or `output`.
        which: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// It declares both `read_only` and `destructive`.
    #[error("the tool is declared both read-only and destructive")]
    Contradiction,
}

impl ForeignToolError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Path(_) => "invalid_path",
            Self::Schema { .. } => "invalid_schema",
            Self::Contradiction => "contradictory_effects",
        }
    }
}

/// A foreign tool without a handler yet.
#[must_use = "a tool exists once it has a handler"]
pub struct ForeignToolBuilder {
    tool: crate::Definition,
    path: ToolPath,
    input: Schema,
    output: Schema,
    message: Option<Box<Message>>,
}

impl Tool {
    /// Starts a foreign tool. Without an output schema any output fits.
    pub fn foreign(
        path: impl Into<String>,
        input_schema: Value,
        output_schema: Option<Value>,
        effects: Effects,
    ) -> Result<ForeignToolBuilder, ForeignToolError> {
        let mut tool = crate::Definition::new(path.into());
        tool.effects = effects;
        let path = ToolPath::parse(&tool.path)?;
        if effects.read_only && effects.destructive {
            return Err(ForeignToolError::Contradiction);
        }
        let input = foreign_schema("input", &of_an_object(input_schema)?)?;
        let output = foreign_schema("output", &output_schema.unwrap_or_else(|| json!({})))?;
        Ok(ForeignToolBuilder { tool, path, input, output, message: None })
    }
}

impl ForeignToolBuilder {
    /// The name that the source gives it; its path where none is given.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.tool.name = name.into();
        self
    }

    /// The source's own description.
    pub fn describe(mut self, description: impl Into<String>) -> Self {
        self.tool.description = description.into();
        self
    }

    /// The question for the person, from checked arguments. Without one the gateway asks by path and source, never in the
    /// source's own words.
    pub fn message(mut self, message: impl Fn(&Value) -> String + Send + Sync + 'static) -> Self {
        self.message = Some(Box::new(move |arguments| Ok(message(arguments))));
        self
    }

    /// The auth provider it uses.
    pub fn auth_provider(mut self, provider: impl Into<String>) -> Self {
        self.tool.auth_provider = Some(provider.into());
        self
    }

    /// Says why no call of it can get the credential that it needs, and what to do about it. Its calls fail with
    /// `auth_not_available` before a person is asked.
    pub fn auth_not_available(mut self, reason: impl Into<String>) -> Self {
        self.tool.auth_not_available = Some(reason.into());
        self
    }

    /// Lets service accounts call it.
    pub fn service_account_allowed(mut self) -> Self {
        self.tool.service_account_allowed = true;
        self
    }

    /// How long an approval counts.
    pub fn remember(mut self, remember: Remember) -> Self {
        self.tool.remember = Some(remember);
        self
    }

    /// Its name for MCP clients, instead of its path with dots as `__`.
    pub fn mcp_name(mut self, name: impl Into<String>) -> Self {
        self.tool.mcp_name = Some(name.into());
        self
    }

    /// Says that the tool sends this request to an upstream MCP server and that its value is the request's result. MCP clients
    /// of the gateway are then given the result as the server sent it.
    pub fn mcp_request(mut self, request: McpRequest) -> Self {
        self.tool.mcp_request = Some(request);
        self
    }

    /// Says that the output schema only describes. Published documents are often wrong about answers, and a call that took
    /// effect must not be told as a failure.
    pub fn output_is_hint(mut self) -> Self {
        self.tool.output_is_hint = true;
        self
    }

    /// Finishes the tool. A handler that sent a request and got no answer says so with [`ToolError::outcome_unknown`].
    pub fn handler<F, Fut>(mut self, handler: F) -> Tool
    where
        F: Fn(Ctx, ForeignInput) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Value, ToolError>> + Send + 'static,
    {
        let destructive = self.tool.effects.destructive;
        let handler: Arc<Handler> = Arc::new(move |ctx, Permit { authority }, arguments| {
            if destructive && authority.is_none() {
                return async { Err(ToolError::unapproved()) }.boxed();
            }
            handler(ctx, ForeignInput { arguments, authority }).boxed()
        });
        if self.tool.name.trim().is_empty() {
            self.tool.name = self.path.to_string();
        }
        if self.tool.description.trim().is_empty() {
            NO_DESCRIPTION.clone_into(&mut self.tool.description);
        }
        Tool::from_foreign(self.tool, self.path, (self.input, self.output), self.message, handler)
    }
}

/// A tool takes an object. A schema that does not say so is made to.
fn of_an_object(mut schema: Value) -> Result<Value, ForeignToolError> {
    let refuse =
        |problem: &str| Err(ForeignToolError::Schema { which: "input", problem: problem.to_owned() });
    let Some(fields) = schema.as_object_mut() else { return refuse("it is not a JSON object") };
    match fields.get("type") {
        None => {
            fields.insert("type".to_owned(), json!("object"));
            Ok(schema)
        }
        Some(kind) if kind == "object" => Ok(schema),
        Some(_) => refuse("its type is not \"object\""),
    }
}

fn foreign_schema(which: &'static str, json: &Value) -> Result<Schema, ForeignToolError> {
    let refuse = |problem: String| ForeignToolError::Schema { which, problem };
    if !json.is_object() {
        return Err(refuse("it is not a JSON object".to_owned()));
    }
    if is_deeper_than(json, MAX_FOREIGN_SCHEMA_DEPTH) {
        return Err(refuse(format!("it is nested more than {MAX_FOREIGN_SCHEMA_DEPTH} levels deep")));
    }
    if json.to_string().len() > MAX_FOREIGN_SCHEMA_BYTES {
        return Err(refuse(format!("it has more than {MAX_FOREIGN_SCHEMA_BYTES} bytes")));
    }
    Schema::from_json(json).map_err(|error: SchemaError| refuse(error.problem().to_owned()))
}

fn is_deeper_than(value: &Value, levels: usize) -> bool {
    let Some(below) = levels.checked_sub(1) else { return true };
    match value {
        Value::Object(fields) => fields.values().any(|value| is_deeper_than(value, below)),
        Value::Array(items) => items.iter().any(|value| is_deeper_than(value, below)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Resumable;

    const DESTRUCTIVE: Effects = Effects {
        destructive: true,
        idempotent: false,
        open_world: true,
        read_only: false,
        resumable: Resumable::Unsaid,
    };

    fn foreign(input: Value, output: Option<Value>) -> Result<ForeignToolBuilder, ForeignToolError> {
        Tool::foreign("files.delete", input, output, DESTRUCTIVE)
    }

    fn tool(input: Value, output: Option<Value>) -> Tool {
        foreign(input, output).unwrap().handler(async |_, input| Ok(input.into_inner()))
    }

    fn nested(levels: usize) -> Value {
        (1..levels).fold(json!({}), |inner, _| json!({ "not": inner }))
    }

    #[test]
    fn an_unusable_schema_is_an_error_that_says_which_and_why() {
        for (input, output, which) in [
            (json!({ "type": "object", "properties": 7 }), None, "input"),
            (json!({ "type": "array" }), None, "input"),
            (json!("anything"), None, "input"),
            (json!({}), Some(json!({ "type": "nonsense" })), "output"),
            (json!({}), Some(json!([])), "output"),
            (json!({ "$ref": "https://example.com/schema.json" }), None, "input"),
            (json!({ "$ref": "file:///etc/passwd" }), None, "input"),
            (json!({ "$ref": "#/$defs/missing" }), None, "input"),
            (json!({ "properties": { "a": { "pattern": "(" } } }), None, "input"),
        ] {
            let error = foreign(input.clone(), output).err();
            let error = error.unwrap_or_else(|| panic!("{input} is refused"));
            assert_eq!(error.code(), "invalid_schema");
            assert!(error.to_string().starts_with(&format!("the {which} schema")), "{error}");
        }
    }

    #[test]
    fn a_schema_is_bounded_in_depth_and_size() {
        assert!(foreign(json!({}), Some(nested(MAX_FOREIGN_SCHEMA_DEPTH))).is_ok());
        assert!(foreign(json!({}), Some(nested(MAX_FOREIGN_SCHEMA_DEPTH + 1))).is_err());
        let of_size = |bytes: usize| {
            let empty = json!({ "title": "" }).to_string().len();
            json!({ "title": "x".repeat(bytes - empty) })
        };
        assert!(foreign(json!({}), Some(of_size(MAX_FOREIGN_SCHEMA_BYTES))).is_ok());
        assert!(foreign(json!({}), Some(of_size(MAX_FOREIGN_SCHEMA_BYTES + 1))).is_err());
    }

    #[test]
    fn a_bad_path_and_contradicting_effects_are_errors() {
        let bad = |path: &str, effects| Tool::foreign(path, json!({}), None, effects).err().unwrap().code();
        assert_eq!(bad("no good!", DESTRUCTIVE), "invalid_path");
        let both = Effects { read_only: true, ..DESTRUCTIVE };
        assert_eq!(bad("files.delete", both), "contradictory_effects");
    }

    #[test]
    fn arguments_are_checked_and_stay_as_they_were_sent() {
        let schema = json!({
            "type": "object",
            "properties": {
                "id": { "type": "integer" },
                "private": { "type": "boolean", "default": false }
            },
            "required": ["id"]
        });
        let tool = tool(schema, None);
        let sent = json!({ "id": 1, "more": [1, 2] });
        assert_eq!(tool.admit(sent.clone()).unwrap(), sent, "no default is written into an update");
        assert!(tool.admit(json!({ "id": "one" })).is_err());
        assert!(tool.admit(json!([])).is_err());
    }

    #[test]
    fn without_an_output_schema_any_output_fits() {
        let any = tool(json!({}), None);
        for output in [json!(null), json!(7), json!([1]), json!({ "a": 1 })] {
            assert!(any.check_output(&output).is_ok());
        }
        let strict = tool(json!({}), Some(json!({ "type": "object", "required": ["id"] })));
        assert!(strict.check_output(&json!({})).is_err());
        let hint = foreign(json!({}), Some(json!({ "required": ["a"] }))).unwrap().output_is_hint();
        let hint = hint.handler(async |_, input| Ok(input.into_inner()));
        assert!(hint.check_output(&json!({})).is_ok());
    }

    #[test]
    fn a_schema_of_an_older_draft_keeps_its_meaning() {
        let schema = json!({
            "$schema": "http://json-schema.org/draft-07/schema#",
            "type": "object",
            "properties": { "pair": { "items": [{ "type": "integer" }, { "type": "string" }] } }
        });
        let tool = tool(schema, None);
        assert!(tool.admit(json!({ "pair": [1, "a"] })).is_ok());
        assert!(tool.admit(json!({ "pair": ["a", 1] })).is_err());
    }

    #[test]
    fn a_tool_without_name_or_description_goes_by_its_path() {
        let tool = tool(json!({}), None);
        assert_eq!(tool.definition().name, "files.delete");
        assert_eq!(tool.definition().description, NO_DESCRIPTION);
        assert!(tool.is_foreign() && tool.message(&json!({})).is_none());
        assert!(crate::Plugin::new("files", "Files", "Files.").tool(tool).check().is_ok());
    }
}
