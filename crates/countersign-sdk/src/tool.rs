//! Tools and the builder that makes them.
//!
//! The builder's type remembers whether the tool is destructive. [`ToolBuilder<Safe>`] takes a handler of the bare input;
//! after [`destructive`](ToolBuilder::destructive) the handler must take [`Approved`] input, and a bare one does not
//! compile.

use std::future::Future;
use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::permit::Permit;
use crate::{
    Approved, Ctx, Effects, McpRequest, PathError, Remember, Resumable, Schema, SchemaError, ToolError,
    ToolErrorCode, ToolPath, UnknownProperties, Violation,
};

pub(crate) type Handler =
    dyn Fn(Ctx, Permit, Value) -> BoxFuture<'static, Result<Value, ToolError>> + Send + Sync;
pub(crate) type Message = dyn Fn(&Value) -> Result<String, ToolError> + Send + Sync;

/// A tool, ready to be registered with a plugin.
pub struct Tool {
    definition: Definition,
    path: Result<ToolPath, PathError>,
    input: Result<Schema, SchemaError>,
    output: Result<Schema, SchemaError>,
    message: Option<Box<Message>>,
    handler: Arc<Handler>,
    written_by: WrittenBy,
}

/// The author of a tool's name and description.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WrittenBy {
    Author,
    Source,
}

/// The facts about a tool that are known without running it.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Definition {
    /// The path as the author wrote it.
    pub path: String,
    pub name: String,
    /// The tool's purpose, when to use it, and its result.
    pub description: String,
    /// Its effects on the world.
    pub effects: Effects,
    pub auth_provider: Option<String>,
    /// Why no call of it can get the credential that it needs. Such a call fails with `auth_not_available` before a person is
    /// asked. It is no part of the fingerprint: it says nothing of what the tool does.
    pub auth_not_available: Option<String>,
    /// Whether a service account may call it.
    pub service_account_allowed: bool,
    /// How long an approval counts, where the author says so.
    pub remember: Option<Remember>,
    /// Its name for MCP clients, where the author gives one; otherwise its path with dots as `__`. It is no part of the
    /// fingerprint: people decide about the path, and what runs is the same under any name.
    pub mcp_name: Option<String>,
    /// Which request of an upstream MCP server it sends, for a foreign tool of such a server. It is no part of the fingerprint:
    /// the output schema says the same.
    pub mcp_request: Option<McpRequest>,
    /// Whether the output schema only describes: an output that differs is handed on. It is no part of the fingerprint.
    pub output_is_hint: bool,
}

impl Definition {
    pub(crate) fn new(path: String) -> Self {
        Self {
            path,
            name: String::new(),
            description: String::new(),
            effects: Effects::default(),
            auth_provider: None,
            auth_not_available: None,
            service_account_allowed: false,
            remember: None,
            mcp_name: None,
            mcp_request: None,
            output_is_hint: false,
        }
    }
}

impl Tool {
    /// Starts a tool. The path is checked when the tool is registered.
    #[expect(
        clippy::new_ret_no_self,
        reason = "the seed's name for starting a definition; a tool exists once it has a handler"
    )]
    pub fn new(path: impl Into<String>) -> ToolBuilder<Safe> {
        let definition = Definition::new(path.into());
        ToolBuilder { definition, unknown: UnknownProperties::default(), class: Safe }
    }

    pub(crate) fn from_foreign(
        definition: Definition,
        path: ToolPath,
        (input, output): (Schema, Schema),
        message: Option<Box<Message>>,
        handler: Arc<Handler>,
    ) -> Self {
        let written_by = WrittenBy::Source;
        Self {
            definition,
            path: Ok(path),
            input: Ok(input),
            output: Ok(output),
            message,
            handler,
            written_by,
        }
    }

    /// Whether another system defines it ([`Tool::foreign`]): its name and description are that system's words.
    pub fn is_foreign(&self) -> bool {
        self.written_by == WrittenBy::Source
    }

    /// The facts that are known without running it.
    pub fn definition(&self) -> &Definition {
        &self.definition
    }

    /// The checked path.
    pub fn path(&self) -> Result<&ToolPath, &PathError> {
        self.path.as_ref()
    }

    /// The input schema, or why the input type cannot be one.
    pub fn input_schema(&self) -> Result<&Schema, &SchemaError> {
        self.input.as_ref()
    }

    /// The output schema, or why the output type cannot be one.
    pub fn output_schema(&self) -> Result<&Schema, &SchemaError> {
        self.output.as_ref()
    }

    /// Checks input and fills in defaults; every violation at once.
    pub fn admit(&self, input: Value) -> Result<Value, Vec<Violation>> {
        self.input.as_ref().map_err(broken)?.admit(input)
    }

    /// Checks output, where its schema is a promise.
    pub fn check_output(&self, output: &Value) -> Result<(), Vec<Violation>> {
        if self.definition.output_is_hint {
            return Ok(());
        }
        self.output.as_ref().map_err(broken)?.validate(output)
    }

    /// The question for the person, from admitted input; none for a tool that says nothing of its own: one that is not
    /// destructive, or a foreign one.
    pub fn message(&self, input: &Value) -> Option<Result<String, ToolError>> {
        self.message.as_ref().map(|message| message(input))
    }

    /// Runs the handler. Only the kernel has a [`Permit`] to offer.
    pub fn run(
        &self,
        ctx: Ctx,
        permit: Permit,
        input: Value,
    ) -> BoxFuture<'static, Result<Value, ToolError>> {
        (self.handler)(ctx, permit, input)
    }
}

fn broken(error: &SchemaError) -> Vec<Violation> {
    vec![Violation { at: String::new(), problem: error.to_string() }]
}

/// The tool reads or writes, and destroys nothing; its handler takes the bare input.
#[derive(Debug)]
pub struct Safe;

/// The tool destroys, sends or overwrites; its handler takes [`Approved`] input.
pub struct Destructive<I> {
    message: Box<dyn Fn(&I) -> String + Send + Sync>,
}

/// A tool in the making.
#[must_use = "a tool exists once it has a handler"]
pub struct ToolBuilder<Class> {
    definition: Definition,
    unknown: UnknownProperties,
    class: Class,
}

impl<Class> ToolBuilder<Class> {
    /// Human-readable name.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.definition.name = name.into();
        self
    }

    /// The tool's purpose, when to use it, and its result.
    pub fn describe(mut self, description: impl Into<String>) -> Self {
        self.definition.description = description.into();
        self
    }

    /// Running it twice with the same idempotency key is the same as running it once.
    pub fn idempotent(mut self) -> Self {
        self.definition.effects.idempotent = true;
        self
    }

    /// Its handler may be dropped while it waits for an answer, and is entered again from the top when the answer comes: it
    /// changes nothing before its last question that it has not recorded with `ctx.step`. A destructive handler that does
    /// not say so is kept in memory while it asks, and a crash then leaves its call in doubt.
    pub fn resumable(mut self) -> Self {
        self.definition.effects.resumable = Resumable::Yes;
        self
    }

    /// It changes nothing: it only looks. A tool that does not say so counts as one that writes. Registration refuses a tool
    /// that says both this and that it is destructive.
    pub fn read_only(mut self) -> Self {
        self.definition.effects.read_only = true;
        self
    }

    /// It reaches systems outside the gateway's own.
    pub fn open_world(mut self) -> Self {
        self.definition.effects.open_world = true;
        self
    }

    /// The auth provider it uses; the plugin must declare it.
    pub fn auth_provider(mut self, provider: impl Into<String>) -> Self {
        self.definition.auth_provider = Some(provider.into());
        self
    }

    /// Lets service accounts call it.
    pub fn service_account_allowed(mut self) -> Self {
        self.definition.service_account_allowed = true;
        self
    }

    /// How long an approval counts.
    pub fn remember(mut self, remember: Remember) -> Self {
        self.definition.remember = Some(remember);
        self
    }

    /// Its name for MCP clients, instead of its path with dots as `__`: 1 to 64 letters, digits, `_` or `-`, unlike any
    /// other tool's.
    pub fn mcp_name(mut self, name: impl Into<String>) -> Self {
        self.definition.mcp_name = Some(name.into());
        self
    }

    /// Sets the treatment of input properties that the type does not know; the default is to refuse them.
    pub fn unknown_properties(mut self, unknown: UnknownProperties) -> Self {
        self.unknown = unknown;
        self
    }

    fn finish<I, O>(self, message: Option<Box<Message>>, handler: Arc<Handler>) -> Tool
    where
        I: JsonSchema,
        O: JsonSchema,
    {
        Tool {
            path: ToolPath::parse(&self.definition.path),
            input: Schema::for_input::<I>(self.unknown),
            output: Schema::for_output::<O>(),
            definition: self.definition,
            message,
            handler,
            written_by: WrittenBy::Author,
        }
    }
}

impl ToolBuilder<Safe> {
    /// Declares the tool destructive. `message` is what the person reads; it is made from the checked input.
    pub fn destructive<I>(
        mut self,
        message: impl Fn(&I) -> String + Send + Sync + 'static,
    ) -> ToolBuilder<Destructive<I>> {
        self.definition.effects.destructive = true;
        ToolBuilder {
            definition: self.definition,
            unknown: self.unknown,
            class: Destructive { message: Box::new(message) },
        }
    }

    /// Finishes a tool that is not destructive.
    pub fn handler<I, O, F, Fut>(self, handler: F) -> Tool
    where
        I: DeserializeOwned + JsonSchema + Send + 'static,
        O: Serialize + JsonSchema + 'static,
        F: Fn(Ctx, I) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O, ToolError>> + Send + 'static,
    {
        let erased: Arc<Handler> =
            Arc::new(move |ctx, _permit, input| match serde_json::from_value::<I>(input) {
                Ok(input) => handler(ctx, input).map(serialised).boxed(),
                Err(cause) => async move { Err(unreadable(&cause)) }.boxed(),
            });
        self.finish::<I, O>(None, erased)
    }
}

impl<I> ToolBuilder<Destructive<I>>
where
    I: DeserializeOwned + JsonSchema + Send + 'static,
{
    /// Finishes a destructive tool.
    pub fn handler<O, F, Fut>(self, handler: F) -> Tool
    where
        O: Serialize + JsonSchema + 'static,
        F: Fn(Ctx, Approved<I>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O, ToolError>> + Send + 'static,
    {
        let erased: Arc<Handler> = Arc::new(move |ctx, permit, input| {
            let Some(authority) = permit.authority else {
                return async { Err(ToolError::unapproved()) }.boxed();
            };
            match serde_json::from_value::<I>(input) {
                Ok(input) => handler(ctx, Approved::new(input, authority)).map(serialised).boxed(),
                Err(cause) => async move { Err(unreadable(&cause)) }.boxed(),
            }
        });
        let ask = self.class.message;
        let message: Box<Message> = Box::new(move |input| {
            let input: I = serde_json::from_value(input.clone()).map_err(|e| unreadable(&e))?;
            Ok(ask(&input))
        });
        ToolBuilder { definition: self.definition, unknown: self.unknown, class: Safe }
            .finish::<I, O>(Some(message), erased)
    }
}

fn serialised<O: Serialize>(result: Result<O, ToolError>) -> Result<Value, ToolError> {
    Ok(serde_json::to_value(result?)?)
}

fn unreadable(cause: &serde_json::Error) -> ToolError {
    let message = format!("The input does not fit the tool's type: {cause}");
    ToolError::coded(ToolErrorCode::InvalidParams, message)
}
