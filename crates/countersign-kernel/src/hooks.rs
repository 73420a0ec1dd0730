//! Hooks: code before and after a tool runs.
//!
//! A pre-hook may let a call on, rewrite its input, or deny it; one that fails or panics denies. A post-hook watches,
//! always, also after denial and error, and changes nothing.

use std::panic::AssertUnwindSafe;

use async_trait::async_trait;
use countersign_core::canonical;
use countersign_core::event::CallOutcome;
use countersign_sdk::{Effects, Principal, SessionId, ToolPath, Violation};
use futures_util::FutureExt;
use serde_json::Value;

use crate::catalog::CatalogTool;

/// A call as a hook sees it.
#[derive(Debug, Clone, Copy)]
#[expect(missing_docs, reason = "the names say it")]
pub struct HookCall<'a> {
    pub path: &'a ToolPath,
    /// The tool's effects on the world.
    pub effects: Effects,
    /// The arguments, as the hooks before left them.
    pub args: &'a Value,
    /// The calling principal.
    pub principal: &'a Principal,
    pub session: &'a SessionId,
}

/// The verdict of a pre-hook.
#[derive(Debug, Clone, PartialEq)]
pub enum HookVerdict {
    /// The call goes on.
    Continue,
    /// The call is denied.
    Deny {
        /// The message for the caller.
        reason: String,
    },
    /// Go on with other arguments; they are validated again.
    Rewrite(Value),
}

/// A hook failed; the call is denied.
#[derive(Debug, thiserror::Error)]
#[error("the hook failed: {0}")]
pub struct HookError(pub String);

/// Runs before policy, in the order of registration.
#[async_trait]
pub trait PreHook: Send + Sync + 'static {
    /// Lets on, rewrites or denies.
    async fn before(&self, call: HookCall<'_>) -> Result<HookVerdict, HookError>;
}

/// Runs after the outcome is recorded, in the order of registration.
#[async_trait]
pub trait PostHook: Send + Sync + 'static {
    /// Watches.
    async fn after(&self, call: HookCall<'_>, outcome: &CallOutcome);
}

/// The registered hooks.
#[derive(Default)]
pub(crate) struct Hooks {
    pub(crate) pre: Vec<Box<dyn PreHook>>,
    pub(crate) post: Vec<Box<dyn PostHook>>,
}

/// The verdict of all pre-hooks together.
pub(crate) enum Hooked {
    Continue(Value),
    Deny { args: Value, reason: String },
    Invalid(Vec<Violation>),
}

impl Hooks {
    pub(crate) async fn before(
        &self,
        tool: &CatalogTool,
        mut args: Value,
        principal: &Principal,
        session: &SessionId,
    ) -> Hooked {
        for hook in &self.pre {
            let call =
                HookCall { path: tool.path(), effects: tool.effects(), args: &args, principal, session };
            match AssertUnwindSafe(hook.before(call)).catch_unwind().await {
                Ok(Ok(HookVerdict::Continue)) => {}
                Ok(Ok(HookVerdict::Deny { reason })) => return Hooked::Deny { args, reason },
                Ok(Ok(HookVerdict::Rewrite(mut rewritten))) => {
                    canonical::normalise(&mut rewritten);
                    match tool.tool().admit(rewritten) {
                        Ok(admitted) => args = admitted,
                        Err(violations) => return Hooked::Invalid(violations),
                    }
                }
                Ok(Err(error)) => return Hooked::Deny { args, reason: error.to_string() },
                Err(_) => return Hooked::Deny { args, reason: "a hook panicked".into() },
            }
        }
        Hooked::Continue(args)
    }

    pub(crate) async fn after(&self, call: HookCall<'_>, outcome: &CallOutcome) {
        for hook in &self.post {
            if AssertUnwindSafe(hook.after(call, outcome)).catch_unwind().await.is_err() {
                tracing::error!(tool = %call.path, "a post-hook panicked");
            }
        }
    }
}
