//! The tools of a gateway's catalog, for an agent in the same program.
//!
//! The gateway has a gate of its own: what is destructive waits in its inbox until a person decides there, bound, durable and
//! audited, so that the agent's provider is not asked as well. A call goes on in the gateway whatever becomes of the agent.

use std::sync::Arc;

use async_trait::async_trait;
use countersign_core::event::Failure;
use countersign_core::execution::Status;
use countersign_kernel::{CallError, CallRequest, Caller, ExecutionResult, Gateway, Patience};
use countersign_sdk::{SessionId, ToolError};
use futures_util::FutureExt;
use serde_json::Value;

use crate::outcome::{RefusedAtTheGate, Unsettled};
use crate::providers::CONFIRM_PATH;
use crate::scope::{ToolCtx, TurnFailed};
use crate::tool::{AgentTool, Handler, Home};
use crate::toolset::{Forecast, Toolset, ToolsetError};

/// All tools of a gateway, called by one principal in one session.
pub struct GatewayToolset {
    tools: Vec<AgentTool>,
}

impl GatewayToolset {
    /// The tools of a gateway's catalog, dots written as `__`. The session must be the caller's own and open.
    pub fn new(gateway: &Gateway, caller: &Caller, session: &SessionId) -> Self {
        let line =
            Arc::new(Line { gateway: gateway.clone(), caller: caller.clone(), session: session.clone() });
        // A question is the program's to ask: a model that could call this would ask in its name.
        let catalog = gateway.catalog();
        let known = catalog.iter().filter(|known| known.path().as_str() != CONFIRM_PATH);
        let tools = known.map(|known| {
            let definition = known.tool().definition();
            let name =
                definition.mcp_name.clone().unwrap_or_else(|| known.path().as_str().replace('.', "__"));
            let mut tool = AgentTool::new(name).describe(&definition.description);
            if known.effects().destructive {
                tool = tool.destructive();
            }
            let schema = Arc::new(known.input_schema());
            let handler = Arc::clone(&line).handler_of(known.path().as_str());
            AgentTool::foreign(tool, schema, Home::Gateway, handler)
        });
        Self { tools: tools.collect() }
    }
}

#[async_trait]
impl Toolset for GatewayToolset {
    fn name(&self) -> &str {
        "gateway"
    }

    fn forecast(&self) -> Forecast {
        Forecast::Tools(self.tools.clone())
    }

    async fn tools(&self) -> Result<Vec<AgentTool>, ToolsetError> {
        Ok(self.tools.clone())
    }
}

struct Line {
    gateway: Gateway,
    caller: Caller,
    session: SessionId,
}

impl Line {
    fn handler_of(self: Arc<Self>, path: &str) -> Arc<Handler> {
        let path: Arc<str> = path.into();
        Arc::new(move |ctx, input| {
            let (line, path) = (Arc::clone(&self), Arc::clone(&path));
            async move { line.call(&ctx, &path, input).await }.boxed()
        })
    }

    async fn call(&self, ctx: &ToolCtx, path: &str, args: Value) -> Result<Value, ToolError> {
        let request = CallRequest {
            path: path.to_owned(),
            args,
            caller: self.caller.clone(),
            session: self.session.clone(),
            key: ctx.idempotency_key().map(str::to_owned),
            patience: Patience::UntilPaused,
        };
        let first = self.gateway.call(request).await.map_err(|e| refused(&e))?;
        let Some(waiting) = first.paused() else { return answer(first, Asked::Nobody) };
        ctx.announce(waiting.elicitation.message.clone());
        let waited = ctx.patiently(self.gateway.wait(first.execution, Patience::Unlimited)).await;
        match waited.map_err(|TurnFailed| away("another call of the turn stopped the chat"))? {
            Ok(Some(end)) => answer(end, Asked::Person),
            Ok(None) => Err(ToolError::new("The gateway lost the call.")),
            Err(error) => Err(away(&error.to_string())),
        }
    }
}

/// A call that was not accepted did not run; where the gateway could not say so, it may have been accepted.
fn refused(error: &CallError) -> ToolError {
    match error.code() {
        "unavailable" | "overloaded" => away(&error.to_string()),
        code => ToolError::with_code(code, error.to_string()),
    }
}

/// Nobody knows how the call stands; the gateway does, once it answers again.
fn away(why: &str) -> ToolError {
    let message = format!("The gateway does not answer, and the call may go on there: {why}");
    ToolError::with_code("unavailable", message).caused_by(Unsettled::GatewayAway(why.to_owned()))
}

/// Whether a person stood between the call and its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    Nobody,
    Person,
}

fn answer(result: ExecutionResult, asked: Asked) -> Result<Value, ToolError> {
    let ExecutionResult { execution, status, value, error, .. } = result;
    if status == Status::InDoubt {
        let message = format!("The call is in doubt: a person must settle {execution} in the gateway.");
        return Err(ToolError::new(message).caused_by(Unsettled::InDoubtAtTheGateway(execution.to_string())));
    }
    if let Some(value) = value {
        return Ok(value);
    }
    let Some(Failure { code, message, .. }) = error else { return Err(away("it has not ended")) };
    match (code.as_str(), asked) {
        // A person stands behind these, also where they spoke while nobody waited.
        ("cancelled" | "expired", _) | ("denied", Asked::Person) => {
            Err(ToolError::denied(message.clone()).caused_by(RefusedAtTheGate(message)))
        }
        ("denied", Asked::Nobody) => Err(ToolError::denied(message)),
        _ => Err(ToolError::with_code(code, message)),
    }
}
