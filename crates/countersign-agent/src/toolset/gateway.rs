//! The tools of a gateway's catalog, for an agent in the same program.
//!
//! The gateway has a gate of its own: what is destructive waits in its inbox until a person decides there, bound, durable and
//! audited, so that the agent's provider is not asked as well. A call goes on in the gateway whatever becomes of the agent.

use std::sync::Arc;

use async_trait::async_trait;
use countersign_core::execution::Status;
use countersign_kernel::{CallRequest, Caller, ExecutionResult, Gateway, Patience};
use countersign_sdk::{SessionId, ToolError};
use futures_util::FutureExt;
use serde_json::Value;

use crate::outcome::{DoubtAtTheGateway, RefusedAtTheGate};
use crate::scope::ToolCtx;
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
        let tools = gateway.catalog().iter().map(|known| {
            let definition = known.tool().definition();
            let name =
                definition.mcp_name.clone().unwrap_or_else(|| known.path().as_str().replace('.', "__"));
            let mut tool = AgentTool::new(name).describe(&definition.description);
            if known.effects().destructive {
                tool = tool.destructive();
            }
            let schema = Arc::new(known.input_schema().clone());
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
        let ended = self.gateway.wait(first.execution, Patience::Unlimited).await;
        let ended = ended.map_err(|e| ToolError::with_code(e.code(), e.to_string()))?;
        ended.map_or_else(
            || Err(ToolError::new("The gateway lost the call.")),
            |end| answer(end, Asked::Person),
        )
    }
}

fn refused(error: &countersign_kernel::CallError) -> ToolError {
    ToolError::with_code(error.code(), error.to_string())
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
        return Err(ToolError::new(message).caused_by(DoubtAtTheGateway(execution.to_string())));
    }
    if let Some(value) = value {
        return Ok(value);
    }
    let (code, message) = error.map_or_else(
        || ("unavailable".to_owned(), "The gateway is closing; the call goes on when it is back.".to_owned()),
        |failure| (failure.code, failure.message),
    );
    match (code.as_str(), asked) {
        ("denied" | "cancelled" | "expired", Asked::Person) => {
            Err(ToolError::denied(message.clone()).caused_by(RefusedAtTheGate(message)))
        }
        ("denied", Asked::Nobody) => Err(ToolError::denied(message)),
        _ => Err(ToolError::with_code(code, message)),
    }
}
