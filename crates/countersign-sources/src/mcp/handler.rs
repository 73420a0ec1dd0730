//! What a server may ask of us, and what it tells us.
//!
//! Promises: sampling is refused, because the gateway has no model and lends no client's. Roots are those of the configuration
//! and never a client's: servers such as the published one for files take the folders that they may touch from roots, so an
//! agent's client would widen what the operator allowed (R18).

#![expect(deprecated, reason = "legacy servers ask for sampling and roots, and must get an answer")]

use std::sync::Arc;

use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult, ElicitRequestParams,
    ElicitResult, ElicitationAction, ElicitationCapability, ErrorData, FormElicitationCapability,
    Implementation, ListRootsResult, ProtocolVersion, RootsCapabilities,
};
use rmcp::service::{InboundStreamOrigin, NotificationContext, RequestContext, RoleClient};

use crate::mcp::call::{Question, Reply};
use crate::mcp::calls::{CallInFlight, Calls};
use crate::mcp::config::{Elicitation, Root, UpstreamConfig};
use crate::mcp::events::{Events, UpstreamEvent};
use crate::mcp::link::Link;

/// What a server is told that wants a model.
pub(super) const NO_SAMPLING: &str = "sampling is not served: this gateway has no model";

/// Our side of a connection.
pub(super) struct Handler {
    calls: Arc<Calls>,
    link: Arc<Link>,
    events: Events,
    elicitation: Elicitation,
    roots: Vec<Root>,
}

impl Handler {
    pub(super) fn new(config: &UpstreamConfig, calls: Arc<Calls>, link: Arc<Link>, events: Events) -> Self {
        Self { calls, link, events, elicitation: config.elicitation, roots: config.roots.clone() }
    }

    /// The call that a question belongs to: the one on whose stream it came or, where the transport has only one
    /// stream, the only one in flight.
    async fn asking_call(&self, context: &RequestContext<RoleClient>) -> Option<Arc<CallInFlight>> {
        let calls = self.calls.lock().await;
        if let Some(InboundStreamOrigin::OutboundRequest(id)) = context.extensions.get() {
            return calls.get(id).cloned();
        }
        let mut all = calls.values();
        let only = all.next().cloned();
        if all.next().is_some() { None } else { only }
    }

    fn capabilities(&self) -> ClientCapabilities {
        let mut capabilities = ClientCapabilities::default();
        if self.elicitation == Elicitation::Serve {
            let mut elicitation = ElicitationCapability::new();
            elicitation.form = Some(FormElicitationCapability::default());
            capabilities.elicitation = Some(elicitation);
        }
        if !self.roots.is_empty() {
            capabilities.roots = Some(RootsCapabilities::default());
        }
        capabilities
    }
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let us = Implementation::new("countersign", env!("CARGO_PKG_VERSION"));
        let mut info = ClientConfig::new(self.capabilities(), us);
        info.protocol_version = ProtocolVersion::LATEST_WITH_INITIALIZE;
        info
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        if self.elicitation == Elicitation::Refuse {
            return Err(ErrorData::invalid_request("nobody can be asked: elicitation was not offered", None));
        }
        let ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } = request else {
            return Err(ErrorData::invalid_params("only questions with a form are asked", None));
        };
        let Some(call) = self.asking_call(&context).await else {
            return Err(ErrorData::invalid_request("no call in flight that this question belongs to", None));
        };
        let schema = serde_json::to_value(requested_schema)
            .map_err(|error| ErrorData::invalid_params(error.to_string(), None))?;
        tokio::select! {
            reply = call.ask(Question { message, schema }) => Ok(elicit_result(reply)),
            () = context.ct.cancelled() => Ok(ElicitResult::new(ElicitationAction::Cancel)),
            _ = self.link.closed() => Ok(ElicitResult::new(ElicitationAction::Cancel)),
        }
    }

    async fn create_message(
        &self,
        _: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        Err(ErrorData::invalid_request(NO_SAMPLING, None))
    }

    async fn list_roots(&self, _: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        Ok(ListRootsResult::new(roots(&self.roots)))
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        (self.events)(UpstreamEvent::ToolsChanged);
    }

    async fn on_resource_list_changed(&self, _: NotificationContext<RoleClient>) {
        (self.events)(UpstreamEvent::ResourcesChanged);
    }

    async fn on_prompt_list_changed(&self, _: NotificationContext<RoleClient>) {
        (self.events)(UpstreamEvent::PromptsChanged);
    }
}

/// A person's reply in the protocol's words.
pub(super) fn elicit_result(reply: Reply) -> ElicitResult {
    match reply {
        Reply::Accepted(content) => ElicitResult::new(ElicitationAction::Accept).with_content(content),
        Reply::Declined => ElicitResult::new(ElicitationAction::Decline),
        Reply::Cancelled => ElicitResult::new(ElicitationAction::Cancel),
    }
}

/// The configured roots in the protocol's words.
pub(super) fn roots(roots: &[Root]) -> Vec<rmcp::model::Root> {
    roots
        .iter()
        .map(|root| {
            let mut told = rmcp::model::Root::new(root.uri.clone());
            told.name.clone_from(&root.name);
            told
        })
        .collect()
}
