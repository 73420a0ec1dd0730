//! A request of a client: whose it is, of which era, and how a person can be asked through it.

use std::sync::OnceLock;

use countersign_core::ids::ExecutionId;
use countersign_kernel::Caller;
use countersign_sdk::SessionId;
use rmcp::model::{
    CallToolRequestParams, ClientCapabilities, ProtocolVersion, RequestId, RequestMetaObject,
    ServerNotification,
};
use rmcp::service::{Peer, RequestContext};
use rmcp::{ErrorData, RoleServer};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::answer::{unavailable, unserved};
use super::conversation::Conversation;
use super::handler::Front;
use super::options::ClientElicitation;
use super::seal::Bound;
use crate::session::{Through, own_session};

/// The revisions that are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Era {
    /// 2025-06-18.
    June2025,
    /// 2025-11-25.
    November2025,
    /// 2026-07-28: no sessions, no requests from the server.
    July2026,
}

/// How a person is asked through a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// The answer says what is to be asked, and the client comes back with what was said.
    Rounds,
    /// The server asks while the call is open.
    Prompts,
    /// The client cannot ask: a person elsewhere is awaited for a while.
    Hold,
}

/// How a client is spoken to while its request is served.
#[derive(Clone)]
pub(super) enum ToClient {
    /// Through rmcp, which can ask as well as tell.
    Peer(Peer<RoleServer>),
    /// In the response, which can only tell.
    Response(mpsc::Sender<ServerNotification>),
    /// It asked to be told nothing.
    Silent,
}

/// The facts of a request beside its parameters, and the way to reach its client.
pub(super) struct RequestScope<'a> {
    pub(super) id: &'a RequestId,
    pub(super) meta: &'a RequestMetaObject,
    /// Cancelled when the client does not wait any more.
    pub(super) ct: &'a CancellationToken,
    pub(super) client: ToClient,
    /// The name that the request gives its call, for cancelling it.
    pub(super) call_name: Option<&'a str>,
}

/// A request that is being served.
pub(super) struct Incoming<'a> {
    pub(super) front: &'a Front,
    pub(super) conversation: Option<&'a Conversation>,
    pub(super) scope: RequestScope<'a>,
    /// What is called, where something is.
    pub(super) call: Option<&'a CallToolRequestParams>,
    pub(super) caller: Caller,
    pub(super) era: Era,
    pub(super) way: Way,
    /// Whether the client takes a task for an answer.
    pub(super) takes_tasks: bool,
    /// The execution that it began, once there is one.
    pub(super) began: OnceLock<ExecutionId>,
}

impl Era {
    fn of(version: Option<&ProtocolVersion>) -> Self {
        match version.map(ProtocolVersion::as_str) {
            Some(version) if version >= ProtocolVersion::V_2026_07_28.as_str() => Self::July2026,
            Some(version) if version >= ProtocolVersion::V_2025_11_25.as_str() => Self::November2025,
            _ => Self::June2025,
        }
    }
}

impl<'a> Incoming<'a> {
    /// Looks at a request. One without a caller, or in somebody else's conversation, is refused.
    pub(super) fn of(
        front: &'a Front,
        conversation: Option<&'a Conversation>,
        context: &'a RequestContext<RoleServer>,
    ) -> Result<Self, ErrorData> {
        let caller = super::door::caller(&context.extensions).cloned();
        let owner = conversation.map(|conversation| &conversation.owner);
        let caller = caller.filter(|caller| owner.is_none_or(|owner| *owner == caller.principal.id));
        let caller = caller.ok_or_else(|| {
            ErrorData::invalid_request("not authenticated; send a token with every request", None)
        })?;
        let scope = RequestScope {
            id: &context.id,
            meta: &context.meta,
            ct: &context.ct,
            client: ToClient::Peer(context.peer.clone()),
            call_name: super::door::call_name(&context.extensions),
        };
        let era = Era::of(context.protocol_version().as_ref());
        let capabilities = context.client_capabilities().unwrap_or_default();
        Ok(Self::new(front, conversation, caller, scope, era, &capabilities))
    }

    /// A request whose caller is known.
    pub(super) fn new(
        front: &'a Front,
        conversation: Option<&'a Conversation>,
        caller: Caller,
        scope: RequestScope<'a>,
        era: Era,
        capabilities: &ClientCapabilities,
    ) -> Self {
        // A client that nobody declared attended may answer its prompts by itself: it is not asked (R10).
        let is_attended = caller.attended && front.options.client_elicitation == ClientElicitation::Attended;
        let asks = is_attended && fills_forms(capabilities);
        let way = match (era, conversation) {
            (Era::July2026, _) if asks => Way::Rounds,
            (Era::June2025 | Era::November2025, Some(_)) if asks => Way::Prompts,
            _ => Way::Hold,
        };
        let takes_tasks = era == Era::July2026 && capabilities.supports_tasks();
        Self { front, conversation, scope, call: None, caller, era, way, takes_tasks, began: OnceLock::new() }
    }

    /// The same, as a call.
    pub(super) fn calling(self, call: &'a CallToolRequestParams) -> Self {
        Self { call: Some(call), ..self }
    }

    /// What a state for this call is bound to.
    pub(super) fn bound(&self) -> Option<Bound<'_>> {
        let call = self.call?;
        let arguments = call.arguments.as_ref();
        Some(Bound { principal: &self.caller.principal.id, tool: &call.name, arguments })
    }

    /// The gateway's session: the conversation's, or the token's own where the era has none.
    pub(super) async fn session(&self) -> Result<SessionId, ErrorData> {
        if let Some(conversation) = self.conversation {
            return Ok(conversation.session.clone());
        }
        own_session(&self.front.gateway, &self.caller, Through::Mcp)
            .await
            .map_err(|error| unavailable("unavailable", &error.to_string()))
    }

    /// Whether an execution is this caller's. Anybody else's is as good as none.
    pub(super) async fn owns(&self, execution: ExecutionId) -> Result<bool, ErrorData> {
        let owner = self.front.gateway.requester(execution).await.map_err(|error| unserved(&error))?;
        Ok(owner.as_ref() == Some(&self.caller.principal.id))
    }
}

/// `elicitation: {}` means forms; a client that names only other modes has none.
fn fills_forms(capabilities: &ClientCapabilities) -> bool {
    capabilities.elicitation.as_ref().is_some_and(|it| it.form.is_some() || it.url.is_none())
}
