//! The interface between a running handler and the gateway.
//!
//! [`Ctx`] is a cheap handle to a [`CtxHost`], which the kernel implements. Nothing here performs an
//! effect by itself.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use secrecy::SecretString;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::ask::Confirm;
use crate::{
    AskReply, AskRequest, ClientRequest, Principal, Question, SessionId, ToolError, ToolErrorCode, ToolPath,
};

/// A handler's view of the call it serves.
#[derive(Clone)]
pub struct Ctx {
    facts: Arc<CallFacts>,
    host: Arc<dyn CtxHost>,
}

/// The fixed facts of one call.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the names say it")]
pub struct CallFacts {
    pub path: ToolPath,
    /// The execution the call belongs to, `exec_…`.
    pub execution_id: String,
    pub principal: Principal,
    /// The conversation the call belongs to.
    pub session: SessionId,
    /// The same for every attempt at this call: pass it to upstreams that know idempotency keys.
    pub idempotency_key: String,
}

/// The port behind [`Ctx`], implemented by the program that runs the handler.
pub trait CtxHost: Send + Sync {
    /// Puts a question to a person and waits, for as long as it takes.
    fn ask(&self, request: AskRequest) -> BoxFuture<'_, Result<AskReply, ToolError>>;
    /// The caller's token for a declared provider.
    fn token<'a>(&'a self, provider: &'a str) -> BoxFuture<'a, Result<SecretString, ToolError>>;
    /// The recorded value of the next step of this name, if it ran before.
    fn step_recorded<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<Value>, ToolError>>;
    /// Records the value of a step that just ran, durably.
    fn record_step<'a>(&'a self, name: &'a str, value: Value) -> BoxFuture<'a, Result<(), ToolError>>;
    /// Keeps a log line with the call.
    fn log(&self, level: LogLevel, message: &str, fields: Value);
    /// Reports progress to clients that follow the call, if there are any.
    fn progress(&self, progress: Progress) {
        let _ = progress;
    }
    /// Sends a request to the client that made the call, where it waits for the answer and can serve it.
    fn ask_client(&self, request: ClientRequest) -> BoxFuture<'_, Result<Value, ToolError>> {
        Box::pin(std::future::ready(Err(request.capability.not_available())))
    }
    /// Completes when the execution is cancelled.
    fn cancelled(&self) -> BoxFuture<'_, ()>;
}

/// The progress of a call, for clients that wait for it. It is sent, not recorded.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// How much is done, in the tool's own measure.
    pub done: f64,
    /// How much there is, where that is known.
    pub total: Option<f64>,
    /// The current step.
    pub message: Option<String>,
}

/// How much a log line matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Details for debugging the tool.
    Debug,
    /// Normal progress.
    Info,
    /// A problem that did not stop the tool.
    Warn,
    /// An event that did harm.
    Error,
}

impl Ctx {
    /// Made by the program that runs the handler.
    pub fn new(facts: CallFacts, host: Arc<dyn CtxHost>) -> Self {
        Self { facts: Arc::new(facts), host }
    }

    /// Asks a person; see [`Approval`](crate::Approval) and [`Form`](crate::Form). Ask before you change anything: after
    /// a crash the handler starts again and its recorded answers are given at once.
    pub async fn elicit<Q: Question>(&self, question: Q) -> Result<Q::Answer, ToolError> {
        let reply = self.host.ask(question.request()?).await?;
        question.answer(reply)
    }

    /// Asks yes or no. True only on an explicit yes: decline, cancel, expiry and nobody reachable are all false. Where the
    /// gate has asked a person about this very call, that decision is the answer: nobody is asked twice.
    pub async fn confirm(&self, question: impl Into<String>) -> Result<bool, ToolError> {
        match self.elicit(Confirm(question.into())).await {
            Err(e) if *e.code() == ToolErrorCode::ElicitationNotAvailable => Ok(false),
            answer => answer,
        }
    }

    /// Does a piece of work once: its value is journaled, and after a crash the recorded value is given instead of
    /// running it again. Steps are matched by name, and by order where a name repeats.
    pub async fn step<T, F>(&self, name: &str, work: F) -> Result<T, ToolError>
    where
        T: Serialize + DeserializeOwned,
        F: AsyncFnOnce() -> Result<T, ToolError>,
    {
        if let Some(recorded) = self.host.step_recorded(name).await? {
            return Ok(serde_json::from_value(recorded)?);
        }
        let value = work().await?;
        self.host.record_step(name, serde_json::to_value(&value)?).await?;
        Ok(value)
    }

    /// Access to the caller's credentials.
    pub fn auth(&self) -> Auth<'_> {
        Auth(&*self.host)
    }

    /// A structured logger scoped to this call.
    pub fn logger(&self) -> Logger<'_> {
        Logger(&*self.host)
    }

    /// Tells whoever waits for the call how far it got. It is not recorded, and costs the handler nothing where nobody
    /// listens.
    pub fn progress(&self, done: f64, total: Option<f64>, message: impl Into<String>) {
        let message = Some(message.into()).filter(|m: &String| !m.is_empty());
        self.host.progress(Progress { done, total, message });
    }

    /// Uses the model or the folders of the client that made the call. An error where that client cannot be asked: a call over
    /// REST, in a script or after a restart has none. What it answers is no decision of a person.
    pub async fn ask_client(&self, request: ClientRequest) -> Result<Value, ToolError> {
        self.host.ask_client(request).await
    }

    /// Who called.
    pub fn principal(&self) -> &Principal {
        &self.facts.principal
    }

    /// The conversation the call belongs to.
    pub fn session(&self) -> &SessionId {
        &self.facts.session
    }

    /// The execution the call belongs to.
    pub fn execution_id(&self) -> &str {
        &self.facts.execution_id
    }

    /// The same for every attempt at this call.
    pub fn idempotency_key(&self) -> &str {
        &self.facts.idempotency_key
    }

    /// The tool being run.
    pub fn path(&self) -> &ToolPath {
        &self.facts.path
    }

    /// Completes when the execution is cancelled; a long handler selects on it.
    pub async fn cancelled(&self) {
        self.host.cancelled().await;
    }
}

/// The caller's credentials.
pub struct Auth<'a>(&'a dyn CtxHost);

impl Auth<'_> {
    /// The caller's token for a provider that the plugin declares.
    pub async fn token(&self, provider: &str) -> Result<SecretString, ToolError> {
        self.0.token(provider).await
    }
}

/// Logs with the call.
pub struct Logger<'a>(&'a dyn CtxHost);

impl Logger<'_> {
    /// Details for debugging the tool.
    pub fn debug(&self, message: &str, fields: Value) {
        self.0.log(LogLevel::Debug, message, fields);
    }
    /// Normal progress.
    pub fn info(&self, message: &str, fields: Value) {
        self.0.log(LogLevel::Info, message, fields);
    }
    /// An unexpected event that did no harm.
    pub fn warn(&self, message: &str, fields: Value) {
        self.0.log(LogLevel::Warn, message, fields);
    }
    /// A failure.
    pub fn error(&self, message: &str, fields: Value) {
        self.0.log(LogLevel::Error, message, fields);
    }
}
