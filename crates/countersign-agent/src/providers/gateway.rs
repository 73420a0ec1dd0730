//! Asking through a gateway: the question is an execution like any other, so that it shows up in inbox and console, is bound to
//! what is asked, survives a restart, and is audited.
//!
//! A local tool is not in the gateway's catalog, so that what is gated is a tool of the gateway that stands for it:
//! [`CONFIRM_PATH`], whose arguments are the request. It is destructive, so that policy asks; it does nothing, so that its
//! success is the person's yes; and a yes counts for one call, never for a session.

use async_trait::async_trait;
use countersign_core::ids::ExecutionId;
use countersign_kernel::{Begun, CallRequest, Caller, Follow, Gateway, Patience};
use countersign_sdk::{Approved, Ctx, Plugin, Remember, SessionId, Tool, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::confirm::{ConfirmationProvider, ConfirmationRequest, ProviderError, Verdict};

/// The gateway's tool that stands for tools of agents.
pub const CONFIRM_PATH: &str = "agent.tools.confirm";

/// Why confirmations cannot go through a gateway.
#[derive(Debug, thiserror::Error)]
pub enum GatewayConfirmationError {
    /// The gateway does not know the tool that stands for an agent's.
    #[error(
        "the gateway has no {CONFIRM_PATH}; add .plugin(GatewayConfirmation::plugin()) where the gateway is built"
    )]
    NoPlugin,
}

/// Asks whoever decides in a gateway.
pub struct GatewayConfirmation {
    gateway: Gateway,
    requester: Caller,
    session: SessionId,
}

/// What is shown, and what the approval is bound to.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Confirm {
    /// The agent's tool.
    tool: String,
    /// The arguments it will run with.
    input: Value,
    /// What the tool says about it.
    hint: Option<String>,
    /// What the tool shows beside it.
    payload: Option<Value>,
    /// The model's id for the call.
    call: String,
}

#[derive(Serialize, JsonSchema)]
struct Confirmed {
    approved: bool,
}

impl GatewayConfirmation {
    /// The plugin that the gateway must be built with.
    pub fn plugin() -> Plugin {
        let ask = |it: &Confirm| match &it.hint {
            None => format!("Let the agent run its tool {:?}?", it.tool),
            Some(hint) => format!("Let the agent's tool {:?} go on? It says: {hint}", it.tool),
        };
        let confirm = Tool::new(CONFIRM_PATH)
            .name("Confirm an agent's tool")
            .describe("Asks a person whether an agent may run a tool of its own. It does nothing else.")
            // It changes nothing itself: after a crash it is simply answered again.
            .idempotent()
            .remember(Remember::Call)
            .destructive(ask)
            .handler(async |_ctx: Ctx, _input: Approved<Confirm>| -> Result<Confirmed, ToolError> {
                Ok(Confirmed { approved: true })
            });
        Plugin::new("agent", "Agent", "Confirmations of tools that an agent runs itself.").tool(confirm)
    }

    /// Asks in the name of `requester`, in a session that is its own and open.
    pub fn new(
        gateway: &Gateway,
        requester: &Caller,
        session: &SessionId,
    ) -> Result<Self, GatewayConfirmationError> {
        if gateway.catalog().get(CONFIRM_PATH).is_none() {
            return Err(GatewayConfirmationError::NoPlugin);
        }
        Ok(Self { gateway: gateway.clone(), requester: requester.clone(), session: session.clone() })
    }
}

impl GatewayConfirmation {
    /// Asks. The same key again finds the same question.
    async fn begin(&self, request: ConfirmationRequest) -> Result<Begun, ProviderError> {
        let ConfirmationRequest { tool_call_id, tool_name, input, hint, payload, key } = request;
        let asked = Confirm { tool: tool_name, input, hint, payload, call: tool_call_id };
        let call = CallRequest {
            path: CONFIRM_PATH.to_owned(),
            args: serde_json::to_value(asked)?,
            caller: self.requester.clone(),
            session: self.session.clone(),
            key: key.map(|key| format!("confirm:{key}")),
            patience: Patience::UntilPaused,
        };
        Ok(self.gateway.begin_call(call, Follow::No).await?)
    }
}

#[async_trait]
impl ConfirmationProvider for GatewayConfirmation {
    async fn confirm(&self, request: ConfirmationRequest) -> Result<Verdict, ProviderError> {
        let durable = request.key.is_some();
        let begun = self.begin(request).await?;
        let mut question = Question { asker: self, execution: begun.execution, withdraw: !durable };
        let ended = self.gateway.wait_for(&begun, Patience::Unlimited).await?;
        question.withdraw = false;
        if ended.success() {
            return Ok(Verdict::Approve);
        }
        match ended.error {
            Some(failure) if matches!(failure.code.as_str(), "denied" | "cancelled" | "expired") => {
                Ok(Verdict::reject(failure.message))
            }
            Some(failure) => Err(failure.message.into()),
            None => Err("the gateway closed before anybody decided".into()),
        }
    }

    async fn withdraw(&self, request: ConfirmationRequest) {
        // One without a key was withdrawn when its future was dropped.
        if request.key.is_none() {
            return;
        }
        match self.begin(request).await {
            Ok(begun) => withdraw(&self.gateway, begun.execution, &self.requester).await,
            Err(error) => tracing::warn!(%error, "a question whose time ran out could not be withdrawn"),
        }
    }
}

async fn withdraw(gateway: &Gateway, execution: ExecutionId, by: &Caller) {
    if let Err(error) = gateway.cancel(execution, by, "the agent no longer waits for it").await {
        tracing::warn!(%execution, %error, "a question that nobody waits for could not be withdrawn");
    }
}

/// A question whose asker may go away. One of a durable conversation stays: its asker comes back. Any other is withdrawn, so
/// that nobody approves what nobody waits for.
struct Question<'a> {
    asker: &'a GatewayConfirmation,
    execution: ExecutionId,
    withdraw: bool,
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        let Some(runtime) = tokio::runtime::Handle::try_current().ok().filter(|_| self.withdraw) else {
            return;
        };
        let (gateway, by) = (self.asker.gateway.clone(), self.asker.requester.clone());
        let execution = self.execution;
        runtime.spawn(async move { withdraw(&gateway, execution, &by).await });
    }
}
