//! Hooks: code before and after a tool runs, in the order of registration.
//!
//! A pre-hook lets a call on, rewrites its input or denies it; one that fails or panics denies. An on-error hook may give the
//! model another text for a tool's own failure; it never sees a denial or a rejection, so that it cannot make a success of
//! one. A post-hook watches, also after denial and rejection, and sees the input that the call ended with. It is told of every
//! end that this process saw: not of one that a person settled out of doubt, nor after a crash between the end and the hook.

use std::panic::AssertUnwindSafe;

use async_trait::async_trait;
use countersign_kernel::{HookError, HookVerdict};
use futures_util::FutureExt;
use serde_json::Value;

use crate::outcome::ToolOutcome;
use crate::tool::AgentTool;

/// A call as a hook sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolUse {
    /// The agent that calls.
    pub agent: String,
    /// The model's id for the call.
    pub call_id: String,
    /// The tool's name.
    pub tool_name: String,
    /// The arguments, as the hooks before left them.
    pub input: Value,
}

/// What an on-error hook does with a failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recovery {
    /// The model is told of the failure.
    Keep,
    /// The model is told this instead, as a success.
    Replace(String),
}

/// Runs before confirmation. Closures that take a [`ToolUse`] and return a future are pre-hooks too.
#[async_trait]
pub trait PreToolHook: Send + Sync + 'static {
    /// Lets on, rewrites or denies.
    async fn before(&self, call: ToolUse) -> Result<HookVerdict, HookError>;
}

/// Runs after everything. Closures that take a [`ToolUse`] and a [`ToolOutcome`] and return a future are post-hooks too.
#[async_trait]
pub trait PostToolHook: Send + Sync + 'static {
    /// Watches.
    async fn after(&self, call: ToolUse, outcome: ToolOutcome);
}

/// Runs when a tool fails. Closures that take a [`ToolUse`] and a [`ToolOutcome`] and return a future are on-error hooks too.
#[async_trait]
pub trait ToolErrorHook: Send + Sync + 'static {
    /// Keeps the failure, or has the model told something else.
    async fn on_error(&self, call: ToolUse, failure: ToolOutcome) -> Recovery;
}

#[async_trait]
impl<F, Fut> PreToolHook for F
where
    F: Fn(ToolUse) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<HookVerdict, HookError>> + Send,
{
    async fn before(&self, call: ToolUse) -> Result<HookVerdict, HookError> {
        self(call).await
    }
}

#[async_trait]
impl<F, Fut> PostToolHook for F
where
    F: Fn(ToolUse, ToolOutcome) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = ()> + Send,
{
    async fn after(&self, call: ToolUse, outcome: ToolOutcome) {
        self(call, outcome).await;
    }
}

#[async_trait]
impl<F, Fut> ToolErrorHook for F
where
    F: Fn(ToolUse, ToolOutcome) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Recovery> + Send,
{
    async fn on_error(&self, call: ToolUse, failure: ToolOutcome) -> Recovery {
        self(call, failure).await
    }
}

/// The registered hooks.
#[derive(Default)]
pub(crate) struct Hooks {
    pub(crate) pre: Vec<Box<dyn PreToolHook>>,
    pub(crate) on_error: Vec<Box<dyn ToolErrorHook>>,
    pub(crate) post: Vec<Box<dyn PostToolHook>>,
}

impl Hooks {
    /// Runs the pre-hooks; what they leave is in `call.input`, also where one of them then denies.
    pub(crate) async fn before(&self, tool: &AgentTool, call: &mut ToolUse) -> Result<(), ToolOutcome> {
        for hook in &self.pre {
            match AssertUnwindSafe(hook.before(call.clone())).catch_unwind().await {
                Ok(Ok(HookVerdict::Continue)) => {}
                Ok(Ok(HookVerdict::Deny { reason })) => return Err(ToolOutcome::denied(&reason)),
                Ok(Ok(HookVerdict::Rewrite(rewritten))) => call.input = tool.admit(rewritten)?,
                Ok(Err(error)) => return Err(ToolOutcome::denied(&error.to_string())),
                Err(_) => return Err(ToolOutcome::denied("a hook panicked")),
            }
        }
        Ok(())
    }

    /// The first hook that replaces a failure ends it.
    pub(crate) async fn on_error(&self, call: &ToolUse, outcome: ToolOutcome) -> ToolOutcome {
        if !outcome.is_the_tools_own_failure() {
            return outcome;
        }
        for hook in &self.on_error {
            match AssertUnwindSafe(hook.on_error(call.clone(), outcome.clone())).catch_unwind().await {
                Ok(Recovery::Keep) => {}
                Ok(Recovery::Replace(text)) => return ToolOutcome::succeeded(text),
                Err(_) => tracing::error!(tool = call.tool_name, "an on-error hook panicked"),
            }
        }
        outcome
    }

    pub(crate) async fn after(&self, call: &ToolUse, outcome: &ToolOutcome) {
        for hook in &self.post {
            if AssertUnwindSafe(hook.after(call.clone(), outcome.clone())).catch_unwind().await.is_err() {
                tracing::error!(tool = call.tool_name, "a post-hook panicked");
            }
        }
    }
}
