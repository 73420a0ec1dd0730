//! Asking through a gateway: the question is an execution like any other, so that it shows up in inbox and console, is bound to
//! what is asked, survives a restart, and is audited.
//!
//! A local tool is not in the gateway's catalog, so that what is gated is a tool of the gateway that stands for it:
//! [`CONFIRM_PATH`], whose arguments are the request. It is destructive, so that policy asks; it does nothing, so that its
//! success is the person's yes; and a yes counts for one call, never for a session.

use std::sync::Arc;

use async_trait::async_trait;
use countersign_kernel::ports::{Entropy as _, SystemEntropy};
use countersign_kernel::{Begun, CallError, CallRequest, Caller, Follow, Gateway, Patience};
use countersign_sdk::{Approved, Ctx, Plugin, Remember, SessionId, Tool, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::confirm::{
    ConfirmationProvider, ConfirmationRequest, ProviderError, Unavailable, Verdict, hex, sha256,
};

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
    desk: Arc<Desk>,
}

/// Where questions are put, and in whose name.
struct Desk {
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
        let desk = Desk { gateway: gateway.clone(), requester: requester.clone(), session: session.clone() };
        Ok(Self { desk: Arc::new(desk) })
    }
}

impl Desk {
    /// Asks. The same key again finds the same question.
    async fn begin(&self, request: ConfirmationRequest, key: String) -> Result<Begun, CallError> {
        let ConfirmationRequest { tool_call_id, tool_name, input, hint, payload, .. } = request;
        let asked = Confirm { tool: tool_name, input, hint, payload, call: tool_call_id };
        let call = CallRequest {
            path: CONFIRM_PATH.to_owned(),
            args: json!(asked),
            caller: self.requester.clone(),
            session: self.session.clone(),
            key: Some(key),
            patience: Patience::UntilPaused,
        };
        self.gateway.begin_call(call, Follow::No).await
    }

    async fn withdraw(&self, request: ConfirmationRequest, key: String) {
        let withdrawn = match self.begin(request, key).await {
            Ok(begun) => {
                let why = "the agent no longer waits for it";
                self.gateway.cancel(begun.execution, &self.requester, why).await.map_err(|e| e.to_string())
            }
            Err(error) => Err(error.to_string()),
        };
        if let Err(error) = withdrawn {
            tracing::warn!(error, "a question that nobody waits for could not be withdrawn");
        }
    }

    /// The gateway's key for a question. Other words are another question, also where the conversation's key is the same.
    fn key(&self, request: &ConfirmationRequest) -> Result<String, ProviderError> {
        let whose = match &request.key {
            Some(key) => key.clone(),
            None => {
                format!("{}:{}", hex(&SystemEntropy.bits().ok_or("the system has no entropy")?), request.id)
            }
        };
        let shown = json!([request.tool_name, request.input, request.hint, request.payload]);
        Ok(format!("confirm:{whose}:{}", &sha256(&shown.to_string())[..16]))
    }
}

#[async_trait]
impl ConfirmationProvider for GatewayConfirmation {
    async fn confirm(&self, request: ConfirmationRequest) -> Result<Verdict, ProviderError> {
        let key = self.desk.key(&request)?;
        // Before anything is asked: whoever stops waiting while the question is on its way leaves it to nobody.
        let open = request.key.is_none().then(|| (request.clone(), key.clone()));
        let mut question = Question { desk: Arc::clone(&self.desk), open };
        let begun = self.desk.begin(request, key).await.map_err(|error| match error.code() {
            "unavailable" | "overloaded" => ProviderError::from(Unavailable(error.to_string())),
            _ => error.into(),
        })?;
        let ended = self.desk.gateway.wait_for(&begun, Patience::Unlimited).await;
        let ended = ended.map_err(|error| Unavailable(error.to_string()))?;
        question.open = None;
        if ended.success() {
            return Ok(Verdict::Approve);
        }
        match ended.error {
            Some(failure) if matches!(failure.code.as_str(), "denied" | "cancelled" | "expired") => {
                Ok(Verdict::reject(failure.message))
            }
            Some(failure) => Err(failure.message.into()),
            None => Err(Unavailable("the gateway closed before anybody decided".to_owned()).into()),
        }
    }

    async fn withdraw(&self, request: ConfirmationRequest) {
        // One without a key was withdrawn when its future was dropped.
        if request.key.is_some()
            && let Ok(key) = self.desk.key(&request)
        {
            self.desk.withdraw(request, key).await;
        }
    }
}

/// A question whose asker may go away. One of a durable conversation stays: its asker comes back. Any other is withdrawn, so
/// that nobody approves what nobody waits for.
struct Question {
    desk: Arc<Desk>,
    open: Option<(ConfirmationRequest, String)>,
}

impl Drop for Question {
    fn drop(&mut self) {
        if let Some((request, key)) = self.open.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let desk = Arc::clone(&self.desk);
            runtime.spawn(async move { desk.withdraw(request, key).await });
        }
    }
}
