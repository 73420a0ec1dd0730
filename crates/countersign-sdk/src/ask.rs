//! Questions a handler puts to a person, and their answers.
//!
//! Two kinds reach the person: an approval (yes or no) and a form (typed values). A [`Question`] ties what is asked to
//! the type of its answer, so that `ctx.elicit(Form::<T>::new(…))` gives an `Option<T>` and nothing else.

use std::marker::PhantomData;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Ctx, FormSchema, Remember, ToolError, ToolErrorCode, ToolPath};

/// Something a handler can ask a person.
pub trait Question: Send {
    /// The type of the answer that the handler gets.
    type Answer;

    /// The question as the gateway sees it, or `invalid_params` before a person is asked.
    fn request(&self) -> Result<AskRequest, ToolError>;

    /// The typed answer.
    fn answer(self, reply: AskReply) -> Result<Self::Answer, ToolError>;
}

/// Asks; the same as [`Ctx::elicit`], for code that prefers a free function.
pub async fn elicit<Q: Question>(ctx: &Ctx, question: Q) -> Result<Q::Answer, ToolError> {
    ctx.elicit(question).await
}

/// A yes-or-no question about what a tool is about to do.
#[derive(Debug, Clone)]
pub struct Approval {
    message: String,
    tool_path: Option<String>,
    args: Option<Value>,
    remember: Remember,
}

impl Approval {
    /// A question such as `Create issue "x" in o/r?`.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), tool_path: None, args: None, remember: Remember::Call }
    }

    /// The tool being approved; by default the running tool's own path.
    #[must_use]
    pub fn tool_path(mut self, path: impl Into<String>) -> Self {
        self.tool_path = Some(path.into());
        self
    }

    /// The arguments shown beside the message; by default the call's own.
    #[must_use]
    pub fn args(mut self, args: Value) -> Self {
        self.args = Some(args);
        self
    }

    /// How long a yes counts: for this one question, unless this says `Session`. Then a yes may be remembered for the
    /// tool and the session, and a remembered one answers this question, whatever the arguments. What the tool and the
    /// configuration say of remembering is about the gate's questions, not about this one.
    #[must_use]
    pub fn remember(mut self, remember: Remember) -> Self {
        self.remember = remember;
        self
    }
}

impl Question for Approval {
    type Answer = ElicitationResponse;

    fn request(&self) -> Result<AskRequest, ToolError> {
        let tool_path = self.tool_path.as_deref().map(ToolPath::parse).transpose();
        let tool_path =
            tool_path.map_err(|e| ToolError::coded(ToolErrorCode::InvalidParams, e.to_string()))?;
        Ok(AskRequest {
            message: self.message.clone(),
            tool_path,
            args: self.args.clone(),
            kind: AskKind::Approval,
            remember: self.remember,
        })
    }

    fn answer(self, reply: AskReply) -> Result<ElicitationResponse, ToolError> {
        let approved = reply.outcome == Outcome::Approved;
        Ok(ElicitationResponse { execution_id: reply.execution_id, approved, data: reply.data })
    }
}

/// A question with typed fields.
#[derive(Debug, Clone)]
pub struct Form<T> {
    message: String,
    schema: Option<Value>,
    answer: PhantomData<fn() -> T>,
}

/// The answer to a form without a schema of its own: one text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FreeText {
    /// The person's comment.
    pub response: String,
}

impl<T: DeserializeOwned + JsonSchema> Form<T> {
    /// A form whose fields are those of `T`.
    pub fn new(message: impl Into<String>) -> Self {
        let schema = schemars::generate::SchemaSettings::draft2020_12().for_deserialize().into_generator();
        let schema = schema.into_root_schema_for::<T>().to_value();
        Self { message: message.into(), schema: Some(schema), answer: PhantomData }
    }
}

impl<T: DeserializeOwned> Form<T> {
    /// A form with a schema given by hand.
    pub fn with_schema(message: impl Into<String>, schema: Value) -> Self {
        Self { message: message.into(), schema: Some(schema), answer: PhantomData }
    }
}

impl Form<FreeText> {
    /// A form without a schema: the person sees one text field.
    pub fn text(message: impl Into<String>) -> Self {
        Self { message: message.into(), schema: None, answer: PhantomData }
    }
}

impl<T: DeserializeOwned> Question for Form<T> {
    type Answer = Option<T>;

    fn request(&self) -> Result<AskRequest, ToolError> {
        let schema = match &self.schema {
            None => FormSchema::free_text(),
            Some(schema) => FormSchema::new(schema)
                .map_err(|e| ToolError::coded(ToolErrorCode::InvalidParams, e.to_string()))?,
        };
        Ok(AskRequest {
            message: self.message.clone(),
            tool_path: None,
            args: None,
            kind: AskKind::Form { schema },
            remember: Remember::Call,
        })
    }

    fn answer(self, reply: AskReply) -> Result<Option<T>, ToolError> {
        if reply.outcome != Outcome::Approved {
            return Ok(None);
        }
        let data = reply.data.unwrap_or_else(|| Value::Object(serde_json::Map::new()));
        let value = serde_json::from_value(data).map_err(|cause| {
            let message = "The person's answer does not fit what the tool asked for.";
            ToolError::coded(ToolErrorCode::InvalidAnswer, message).caused_by(cause)
        })?;
        Ok(Some(value))
    }
}

/// A yes-or-no question that is about no tool in particular: what [`Ctx::confirm`] asks.
pub(crate) struct Confirm(pub(crate) String);

impl Question for Confirm {
    type Answer = bool;

    fn request(&self) -> Result<AskRequest, ToolError> {
        let kind = AskKind::Form { schema: FormSchema::confirm() };
        let (message, remember) = (self.0.clone(), Remember::Call);
        Ok(AskRequest { message, tool_path: None, args: None, kind, remember })
    }

    fn answer(self, reply: AskReply) -> Result<bool, ToolError> {
        Ok(reply.outcome == Outcome::Approved)
    }
}

/// A question on its way to the gateway.
#[derive(Debug, Clone, PartialEq)]
pub struct AskRequest {
    /// The text that the person reads.
    pub message: String,
    /// The tool being approved, where it is not the running one.
    pub tool_path: Option<ToolPath>,
    /// The arguments shown beside the message, where they are not the call's own.
    pub args: Option<Value>,
    /// Yes or no, or fields.
    pub kind: AskKind,
    /// How long a yes counts.
    pub remember: Remember,
}

/// The kind of answer that is wanted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum AskKind {
    /// Yes or no.
    Approval,
    /// Typed fields.
    Form {
        /// The fields that may be filled in.
        schema: FormSchema,
    },
}

/// How a question ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// Explicitly accepted.
    Approved,
    /// Explicitly refused.
    Denied,
    /// Closed without an answer.
    Cancelled,
    /// No answer came in time.
    Expired,
}

/// The gateway's answer.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct AskReply {
    pub execution_id: String,
    pub outcome: Outcome,
    /// The fields of a form.
    pub data: Option<Value>,
}

/// The answer to an approval, as the seeds know it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ElicitationResponse {
    /// The execution that asked.
    pub execution_id: String,
    /// True only where a person approved; denied, cancelled and expired are all false.
    pub approved: bool,
    /// Fields that came with the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}
