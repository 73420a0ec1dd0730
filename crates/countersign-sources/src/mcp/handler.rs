//! What a server may ask of us, and what it tells us.
//!
//! Promises: a question goes to the people of the call that it belongs to, and a request for a client's own to the client of that
//! call; where it is not clear which call that is, nobody is asked. The server is told of what the operator lets it ask for,
//! and of nothing else.

#![expect(deprecated, reason = "legacy servers ask for sampling and roots, and must get an answer")]

use std::sync::Arc;

use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult, ElicitRequestParams,
    ElicitResult, ElicitationAction, ElicitationCapability, ErrorData, FormElicitationCapability,
    Implementation, ListRootsResult, ProtocolVersion, RootsCapabilities, SamplingCapability,
};
use rmcp::service::{InboundStreamOrigin, NotificationContext, RequestContext, RoleClient};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::mcp::call::{Question, Reply};
use crate::mcp::calls::{CallInFlight, Calls};
use crate::mcp::client_side::ClientSide;
use crate::mcp::config::{Elicitation, UpstreamConfig};
use crate::mcp::events::{Events, UpstreamEvent};
use crate::mcp::given_up::GivenUpCalls;
use crate::mcp::link::Link;

/// Our side of a connection.
pub(super) struct Handler {
    calls: Arc<Calls>,
    link: Arc<Link>,
    events: Events,
    elicitation: Elicitation,
    client: ClientSide,
    given_up: Arc<GivenUpCalls>,
}

impl Handler {
    pub(super) fn new(
        config: &UpstreamConfig,
        (calls, given_up): (Arc<Calls>, Arc<GivenUpCalls>),
        link: Arc<Link>,
        events: Events,
    ) -> Self {
        let (elicitation, client) = (config.elicitation, ClientSide::of(config));
        Self { calls, link, events, elicitation, client, given_up }
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

    /// The call whose client is asked. On a stream that does not say which call that is, a server may still work on one that was
    /// given up, and that may be another client's.
    async fn call_of_client(&self, context: &RequestContext<RoleClient>) -> Option<Arc<CallInFlight>> {
        let call = self.asking_call(context).await?;
        if let Some(InboundStreamOrigin::OutboundRequest(_)) = context.extensions.get() {
            return Some(call);
        }
        let is_clear = !self.given_up.is_another_possible(call.asker.session().as_deref());
        is_clear.then_some(call)
    }

    /// An answer of the client, unless the server withdraws its request or is gone.
    async fn client_answer<T: DeserializeOwned>(
        &self,
        context: &RequestContext<RoleClient>,
        asked: impl Future<Output = Result<Value, String>>,
    ) -> Result<T, ErrorData> {
        let answer = tokio::select! {
            answer = asked => answer,
            () = context.ct.cancelled() => Err("the request was withdrawn".to_owned()),
            reason = self.link.closed() => Err(reason),
        };
        let answer = answer.map_err(|reason| ErrorData::invalid_request(reason, None))?;
        serde_json::from_value(answer).map_err(|error| ErrorData::internal_error(error.to_string(), None))
    }

    fn capabilities(&self) -> ClientCapabilities {
        let mut capabilities = ClientCapabilities::default();
        if self.elicitation == Elicitation::Serve {
            let mut elicitation = ElicitationCapability::new();
            elicitation.form = Some(FormElicitationCapability::default());
            capabilities.elicitation = Some(elicitation);
        }
        if self.client.has_sampling() {
            capabilities.sampling = Some(SamplingCapability::default());
        }
        if self.client.has_roots() {
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
        request: CreateMessageRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        let params = serde_json::to_value(request)
            .map_err(|error| ErrorData::invalid_params(error.to_string(), None))?;
        let call = self.call_of_client(&context).await;
        self.client_answer(&context, self.client.sample(call.as_deref(), params)).await
    }

    async fn list_roots(&self, context: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        let call = self.call_of_client(&context).await;
        self.client_answer(&context, self.client.list_roots(call.as_deref())).await
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
