//! A request of a client: whose it is, of which era, and how a person can be asked through it; and the conversation it
//! belongs to, where its era has such.
#![expect(deprecated, reason = "SEP-2577 deprecates logging; clients of today ask for it")]

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use countersign_core::ids::ExecutionId;
use countersign_kernel::Caller;
use countersign_sdk::{PrincipalId, SessionId};
use rmcp::model::{CallToolRequestParams, ClientCapabilities, LoggingLevel, ProtocolVersion, RequestId};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};

use super::answer::unavailable;
use super::handler::Front;
use super::seal::Bound;
use crate::session::own_session;

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

/// A request that is being served.
pub(super) struct Incoming<'a> {
    pub(super) front: &'a Front,
    pub(super) conversation: Option<&'a Conversation>,
    pub(super) context: &'a RequestContext<RoleServer>,
    /// What is called, where something is.
    pub(super) call: Option<&'a CallToolRequestParams>,
    pub(super) caller: Caller,
    pub(super) era: Era,
    pub(super) way: Way,
    /// Whether the client takes a task for an answer.
    pub(super) takes_tasks: bool,
    /// The execution it is about, once that is known.
    pub(super) execution: OnceLock<ExecutionId>,
}

/// A conversation of the 2025 era: one MCP session, one session of the gateway.
pub(super) struct Conversation {
    pub(super) session: SessionId,
    pub(super) owner: PrincipalId,
    /// Its client is told of changes.
    connected: AtomicBool,
    /// The least that a log line must matter.
    level: Mutex<LoggingLevel>,
    calls: Mutex<HashMap<RequestId, Call>>,
    has_asked: AtomicBool,
}

/// A call of a conversation, for whoever wants it cancelled.
enum Call {
    /// It is no execution yet.
    Accepting,
    /// It is this one.
    Runs(ExecutionId),
    /// It is no execution yet, and was cancelled.
    Cancelled(String),
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
        let era = Era::of(context.protocol_version().as_ref());
        let capabilities = context.client_capabilities().unwrap_or_default();
        let asks = front.options.client_elicitation && fills_forms(&capabilities);
        let way = match (era, conversation) {
            (Era::July2026, _) if asks => Way::Rounds,
            (Era::June2025 | Era::November2025, Some(_)) if asks => Way::Prompts,
            _ => Way::Hold,
        };
        let takes_tasks = era == Era::July2026 && capabilities.supports_tasks();
        Ok(Self {
            front,
            conversation,
            context,
            call: None,
            caller,
            era,
            way,
            takes_tasks,
            execution: OnceLock::new(),
        })
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
        own_session(&self.front.gateway, &self.caller)
            .await
            .map_err(|error| unavailable("unavailable", &error.to_string()))
    }

    /// Whether an execution is this caller's. Anybody else's is as good as none.
    pub(super) async fn owns(&self, execution: ExecutionId) -> Result<bool, ErrorData> {
        let owner = self.front.gateway.requester(execution).await;
        let owner = owner.map_err(|error| unavailable(error.code(), &error.to_string()))?;
        Ok(owner.as_ref() == Some(&self.caller.principal.id))
    }
}

/// `elicitation: {}` means forms; a client that names only other modes has none.
fn fills_forms(capabilities: &ClientCapabilities) -> bool {
    capabilities.elicitation.as_ref().is_some_and(|it| it.form.is_some() || it.url.is_none())
}

impl Conversation {
    pub(super) fn new(session: SessionId, owner: PrincipalId) -> Self {
        let level = Mutex::new(LoggingLevel::Info);
        let no = || AtomicBool::new(false);
        Self { session, owner, connected: no(), level, calls: Mutex::default(), has_asked: no() }
    }

    /// True once.
    pub(super) fn is_first_to_connect(&self) -> bool {
        !self.connected.swap(true, Ordering::SeqCst)
    }

    /// Whether the client was asked nothing so far; from now on it was.
    pub(super) fn asks_first(&self) -> bool {
        !self.has_asked.swap(true, Ordering::Relaxed)
    }

    pub(super) fn level(&self) -> LoggingLevel {
        *unpoisoned(&self.level)
    }

    pub(super) fn set_level(&self, level: LoggingLevel) {
        *unpoisoned(&self.level) = level;
    }

    /// A call came in.
    pub(super) fn enter(&self, request: &RequestId) {
        unpoisoned(&self.calls).insert(request.clone(), Call::Accepting);
    }

    /// A call is an execution now. The reason comes back if it was cancelled before.
    pub(super) fn begun(&self, request: &RequestId, execution: ExecutionId) -> Option<String> {
        let before = unpoisoned(&self.calls).insert(request.clone(), Call::Runs(execution));
        match before {
            Some(Call::Cancelled(reason)) => Some(reason),
            _ => None,
        }
    }

    /// A call was answered.
    pub(super) fn leave(&self, request: &RequestId) {
        unpoisoned(&self.calls).remove(request);
    }

    /// The client cancels a call. Its execution comes back where it is one.
    pub(super) fn cancel(&self, request: &RequestId, reason: &str) -> Option<ExecutionId> {
        let mut calls = unpoisoned(&self.calls);
        match calls.get_mut(request)? {
            Call::Runs(execution) => {
                let execution = *execution;
                calls.remove(request);
                Some(execution)
            }
            call => {
                *call = Call::Cancelled(reason.to_owned());
                None
            }
        }
    }
}

fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
