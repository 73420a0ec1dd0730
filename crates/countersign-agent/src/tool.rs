//! Tools of an agent, and the builder that makes them from typed closures.
//!
//! Promise: input that reaches a handler passed the schema of its type, with defaults written out, so that a person who
//! confirms it sees what will run.

use std::sync::{Arc, OnceLock};

use countersign_sdk::{Schema, SchemaError, ToolError, ToolErrorCode, UnknownProperties};
use futures_util::future::{BoxFuture, FutureExt};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::confirm::sha256;
use crate::outcome::ToolOutcome;
use crate::scope::ToolCtx;

/// The longest tool name that both wire protocols take.
pub const MAX_NAME_BYTES: usize = 64;

pub(crate) type Handler =
    dyn Fn(ToolCtx, Value) -> BoxFuture<'static, Result<Value, ToolError>> + Send + Sync;

/// A tool. Cheap to clone; what a clone is given does not touch the original.
#[derive(Clone)]
pub struct AgentTool {
    definition: Arc<Definition>,
    confirmation: Confirmation,
    work: Work,
}

/// What a tool is, apart from who confirms it.
struct Definition {
    name: String,
    description: String,
    schema: Arc<Value>,
    checked: Option<Result<Schema, SchemaError>>,
    effects: AgentEffects,
    home: Home,
    fingerprint: OnceLock<String>,
}

impl Definition {
    /// What the tool is, as one value: what it is called, says, takes and does.
    fn fingerprint(&self) -> &str {
        self.fingerprint.get_or_init(|| {
            let definition = json!({
                "name": self.name,
                "description": self.description,
                "schema": self.schema,
                "destructive": self.effects.destructive,
                "idempotent": self.effects.idempotent,
                "gateway": self.home == Home::Gateway,
            });
            sha256(&definition.to_string())
        })
    }
}

/// Where a tool's calls live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Home {
    /// In this process: they end with it.
    Here,
    /// In a gateway, which has a gate of its own, and keeps its calls across a crash of the agent.
    Gateway,
}

/// What running a tool does to the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct AgentEffects {
    pub(crate) destructive: bool,
    pub(crate) idempotent: bool,
}

/// Who lets a call on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Confirmation {
    /// The agent's provider, where the tool is destructive and no gateway asks about it.
    ByEffects,
    /// The agent's provider, always.
    Required,
}

#[derive(Clone)]
pub(crate) enum Work {
    Handler(Arc<Handler>),
    /// Another agent takes over.
    Handoff,
}

impl AgentTool {
    /// Starts a tool. The name is checked when the agent is built.
    #[expect(clippy::new_ret_no_self, reason = "as in the sdk: a tool exists once it has a handler")]
    pub fn new(name: impl Into<String>) -> AgentToolBuilder {
        AgentToolBuilder {
            name: name.into(),
            description: String::new(),
            effects: AgentEffects::default(),
            confirmation: Confirmation::ByEffects,
            unknown: UnknownProperties::default(),
        }
    }

    /// A tool whose schema is known only as JSON: its input is checked by whoever runs it.
    pub(crate) fn foreign(
        builder: AgentToolBuilder,
        schema: Arc<Value>,
        home: Home,
        handler: Arc<Handler>,
    ) -> Self {
        let AgentToolBuilder { name, description, effects, confirmation, .. } = builder;
        let fingerprint = OnceLock::new();
        let definition = Definition { name, description, schema, checked: None, effects, home, fingerprint };
        Self { definition: Arc::new(definition), confirmation, work: Work::Handler(handler) }
    }

    /// The tool by which another agent takes over.
    pub(crate) fn handoff(name: String, description: String) -> Self {
        let schema = json!({
            "type": "object",
            "properties": { "reason": { "type": "string", "description": "Why the other agent should go on." } },
        });
        let definition = Definition {
            name,
            description,
            schema: Arc::new(schema),
            checked: None,
            effects: AgentEffects::default(),
            home: Home::Here,
            fingerprint: OnceLock::new(),
        };
        Self { definition: Arc::new(definition), confirmation: Confirmation::ByEffects, work: Work::Handoff }
    }

    /// What the model calls it.
    pub fn name(&self) -> &str {
        &self.definition.name
    }

    /// What it does, for the model.
    pub fn description(&self) -> &str {
        &self.definition.description
    }

    /// The schema of its input.
    pub fn schema(&self) -> &Value {
        &self.definition.schema
    }

    /// Whether it creates, deletes, sends or overwrites, as far as is known.
    pub fn is_destructive(&self) -> bool {
        self.definition.effects.destructive
    }

    /// Whether the agent's provider is asked before it runs.
    pub fn requires_confirmation(&self) -> bool {
        match self.confirmation {
            Confirmation::Required => true,
            Confirmation::ByEffects => self.is_destructive() && !self.lives_in_a_gateway(),
        }
    }

    /// The same tool, confirmed before every run.
    #[must_use]
    pub fn with_confirmation(&self) -> Self {
        Self { confirmation: Confirmation::Required, ..self.clone() }
    }

    pub(crate) fn is_handoff(&self) -> bool {
        matches!(self.work, Work::Handoff)
    }

    pub(crate) fn work(&self) -> &Work {
        &self.work
    }

    pub(crate) fn schema_problem(&self) -> Option<String> {
        self.definition.checked.as_ref()?.as_ref().err().map(ToString::to_string)
    }

    /// Whether a gateway has the call, and keeps it across a crash of the agent.
    pub(crate) fn lives_in_a_gateway(&self) -> bool {
        self.definition.home == Home::Gateway
    }

    /// Whether its start must be on record before it runs: because it must not run twice, or must run with the same input.
    pub(crate) fn start_is_recorded(&self) -> bool {
        self.is_destructive() || self.requires_confirmation() || self.lives_in_a_gateway()
    }

    /// Whether nobody may run it again before it is known what became of it.
    pub(crate) fn must_not_run_twice(&self) -> bool {
        self.start_is_recorded() && !self.is_repeatable()
    }

    /// What the tool is, as one value: an approval of it is for no other.
    pub(crate) fn fingerprint(&self) -> &str {
        self.definition.fingerprint()
    }

    /// Whether it may run again where nobody knows if it ran: by its effects, or because a gateway knows the call by its key.
    pub(crate) fn is_repeatable(&self) -> bool {
        self.definition.effects.idempotent || self.lives_in_a_gateway()
    }

    /// Checks input and writes out its defaults; every violation at once.
    pub(crate) fn admit(&self, input: Value) -> Result<Value, ToolOutcome> {
        let checked = match &self.definition.checked {
            None if input.is_null() => return Ok(json!({})),
            None if input.is_object() => return Ok(input),
            None => return Err(ToolOutcome::unusable("Invalid tool input: the arguments must be an object")),
            Some(checked) => checked,
        };
        let schema = checked.as_ref().map_err(|e| ToolOutcome::unusable(e.to_string()))?;
        schema.admit(input).map_err(|violations| {
            let all: Vec<String> = violations.iter().map(ToString::to_string).collect();
            ToolOutcome::unusable(format!("Invalid tool input: {}", all.join("; ")))
        })
    }
}

impl std::fmt::Debug for AgentTool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AgentTool")
            .field("name", &self.definition.name)
            .field("effects", &self.definition.effects)
            .field("confirmation", &self.confirmation)
            .finish_non_exhaustive()
    }
}

/// A tool in the making.
#[must_use = "a tool exists once it has a handler"]
pub struct AgentToolBuilder {
    name: String,
    description: String,
    effects: AgentEffects,
    confirmation: Confirmation,
    unknown: UnknownProperties,
}

impl AgentToolBuilder {
    /// What it does, when to use it, what it returns.
    pub fn describe(mut self, description: impl Into<String>) -> Self {
        self.description = description.into();
        self
    }

    /// It creates, deletes, sends or overwrites: it is confirmed before it runs, and is never run twice by a durable chat.
    pub fn destructive(mut self) -> Self {
        self.effects.destructive = true;
        self
    }

    /// It is confirmed before it runs.
    pub fn require_confirmation(mut self) -> Self {
        self.confirmation = Confirmation::Required;
        self
    }

    /// Running it twice with the same [`idempotency_key`](ToolCtx::idempotency_key) is the same as running it once.
    pub fn idempotent(mut self) -> Self {
        self.effects.idempotent = true;
        self
    }

    /// What becomes of input properties that the type does not know; refused where nothing is said.
    pub fn unknown_properties(mut self, unknown: UnknownProperties) -> Self {
        self.unknown = unknown;
        self
    }

    /// Finishes the tool. A string goes to the model as it is, everything else as JSON.
    pub fn handler<I, O, F, Fut>(self, handler: F) -> AgentTool
    where
        I: DeserializeOwned + JsonSchema + Send + 'static,
        O: Serialize + 'static,
        F: Fn(ToolCtx, I) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O, ToolError>> + Send + 'static,
    {
        let checked = Schema::for_input::<I>(self.unknown);
        let schema = checked.as_ref().map_or(Value::Null, Schema::json);
        let definition = Definition {
            name: self.name,
            description: self.description,
            schema: Arc::new(schema),
            checked: Some(checked),
            effects: self.effects,
            home: Home::Here,
            fingerprint: OnceLock::new(),
        };
        let erased: Arc<Handler> = Arc::new(move |ctx, input| match serde_json::from_value::<I>(input) {
            Ok(input) => {
                let running = handler(ctx, input);
                async move { Ok(serde_json::to_value(running.await?)?) }.boxed()
            }
            Err(cause) => {
                let message = format!("The input does not fit the tool's type: {cause}");
                async move { Err(ToolError::coded(ToolErrorCode::InvalidParams, message)) }.boxed()
            }
        });
        AgentTool {
            definition: Arc::new(definition),
            confirmation: self.confirmation,
            work: Work::Handler(erased),
        }
    }
}

/// What is wrong with a name that models are to call something by.
pub(crate) fn name_problem(name: &str) -> Option<String> {
    let fits = (1..=MAX_NAME_BYTES).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    (!fits).then(|| format!("{name:?} is no name: use 1 to {MAX_NAME_BYTES} letters, digits, `_` or `-`"))
}
