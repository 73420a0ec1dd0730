//! Accepting a call: steps 1 to 3 of its way, up to the point where it is an execution.
//!
//! A call that is refused here was never accepted: nothing is recorded and nothing ran. From the first `CallIssued` on, every
//! outcome is an execution's.

use std::sync::Arc;
use std::time::Duration;

use countersign_core::bounds::{self, BoundsError};
use countersign_core::canonical::{self, Canonical};
use countersign_core::digest::{Binding, Digest};
use countersign_core::elicitation::Proof;
use countersign_core::event::{CallIssued, EventBody, Failure, Kind, Started};
use countersign_core::execution::call_digest;
use countersign_core::ids::{CallNo, ExecutionId, TokenId};
use countersign_core::retention::args_of_a_read;
use countersign_sdk::{Principal, PrincipalKind, SessionId};
use serde_json::Value;

use crate::catalog::{Catalog, CatalogTool};
use crate::error::{CallError, GatewayError};
use crate::hooks::Hooked;
use crate::journal::Record;
use crate::kernel::Kernel;
use crate::owner::Owner;

/// The longest idempotency key.
const MAX_KEY_BYTES: usize = 200;

/// A request to call one tool.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the names say it")]
pub struct CallRequest {
    pub path: String,
    pub args: Value,
    /// The caller.
    pub caller: Caller,
    pub session: SessionId,
    /// The caller's own key: the same key again is the same execution.
    pub key: Option<String>,
    /// How long the caller waits for an answer.
    pub patience: Patience,
}

impl CallRequest {
    /// The digest of the request.
    fn digest(&self) -> Result<Digest, BoundsError> {
        Ok(call_digest(&self.path, &Canonical::of(&self.args)?))
    }
}

/// An acting principal and its token.
#[derive(Debug, Clone, PartialEq)]
pub struct Caller {
    /// The principal.
    pub principal: Principal,
    /// The token; none for a program that embeds the gateway.
    pub token: Option<TokenId>,
    /// How the gateway knows them; none where a program that embeds the gateway vouches for them.
    pub proof: Option<Proof>,
    /// Whether a person declared that the prompts of this caller's client reach a person.
    pub attended: bool,
}

impl From<Principal> for Caller {
    fn from(principal: Principal) -> Self {
        Self { principal, token: None, proof: None, attended: false }
    }
}

/// How long a caller waits. The execution goes on either way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// Until it ends, is in doubt, or first waits for a person.
    UntilPaused,
    /// The same, but at most this long.
    UntilPausedWithin(Duration),
    /// Until it ends or is in doubt, but at most this long.
    AtMost(Duration),
    /// Until it ends or is in doubt, however long that takes.
    Unlimited,
}

/// A call or script that becomes an execution when its owner is spawned, or that is one already.
pub(crate) enum Owned {
    New(Box<Owner>),
    Known(ExecutionId),
}

/// A request after steps 1 to 3.
pub(crate) struct Admitted {
    pub(crate) tool: Arc<CatalogTool>,
    pub(crate) args: Canonical,
    /// Why a hook wants it stopped.
    pub(crate) denied: Option<String>,
}

impl Admitted {
    /// Whether an event issued this very call.
    fn is_issued_by(&self, body: &EventBody) -> bool {
        let EventBody::CallIssued(issued) = body else { return false };
        issued.path == *self.tool.path()
            && (issued.args == self.args || issued.args == args_of_a_read(&self.args))
    }
}

impl Kernel {
    /// Steps 1 to 3 of a call's way; its owner goes on from there. A key that was used before is looked up first, so that a
    /// retry gets the recorded outcome whatever tools, hooks and rules say now.
    pub(crate) async fn accept(self: &Arc<Self>, request: &CallRequest) -> Result<Owned, CallError> {
        let CallRequest { caller, session, .. } = request;
        self.check_caller(caller, session, request.key.as_deref()).await?;
        if let Some(known) = self.known(request).await? {
            return Ok(Owned::Known(known));
        }
        self.check_storage(&caller.principal)?;
        // Before anything else walks it: what is nested too deeply would take the stack with it.
        let bytes = bounds::measure(&request.args)?;
        let slot = self.calls_in_flight.take(&caller.principal.id, bytes).ok_or(CallError::TooManyCalls)?;
        let admitted = self.admit(&request.path, request.args.clone(), &caller.principal, session).await?;
        let record = self.issue(request, &admitted)?;
        Ok(Owned::New(Box::new(Owner::new(self, record, Some(slot)).denied_by(admitted.denied))))
    }

    pub(crate) async fn check_caller(
        &self,
        caller: &Caller,
        session: &SessionId,
        key: Option<&str>,
    ) -> Result<(), CallError> {
        if self.is_closed() {
            return Err(GatewayError::Closed.into());
        }
        if !caller.principal.may_call() {
            return Err(CallError::NotAllowed("this credential may not call tools".into()));
        }
        if let Some(key) = key
            && (key.is_empty() || key.len() > MAX_KEY_BYTES || !key.bytes().all(|b| b.is_ascii_graphic()))
        {
            let problem = format!("an idempotency key is 1 to {MAX_KEY_BYTES} visible ASCII characters");
            return Err(CallError::NotAllowed(problem));
        }
        let owner = self.sessions.owner(&*self.store, session).await?;
        if owner.is_none_or(|owner| owner.principal != caller.principal.id) {
            return Err(CallError::SessionNotFound);
        }
        Ok(())
    }

    /// Whether more may be recorded for a principal today.
    pub(crate) fn check_storage(&self, principal: &Principal) -> Result<(), CallError> {
        self.storage
            .check(&principal.id, self.now())
            .map_err(|retry_after| CallError::StorageLimit { retry_after })
    }

    /// Steps 1 to 3: the tool, its input, the pre-hooks.
    pub(crate) async fn admit(
        &self,
        path: &str,
        mut args: Value,
        principal: &Principal,
        session: &SessionId,
    ) -> Result<Admitted, CallError> {
        let catalog = self.catalog.for_call(path).await;
        let tool = catalog.get(path).ok_or_else(|| not_a_tool(&catalog, path))?;
        if principal.kind == PrincipalKind::Service && !tool.tool().definition().service_account_allowed {
            return Err(CallError::NotAllowed(format!(
                "{} may not be called by a service account",
                tool.path()
            )));
        }
        let invalid = |violations| CallError::InvalidInput { violations };
        canonical::normalise(&mut args);
        let args = tool.tool().admit(args).map_err(invalid)?;
        let (args, denied) = match self.hooks.before(tool, args, principal, session).await {
            Hooked::Continue(args) => (args, None),
            Hooked::Deny { args, reason } => (args, Some(reason)),
            Hooked::Invalid(violations) => return Err(invalid(violations)),
        };
        Ok(Admitted { tool: Arc::clone(tool), args: Canonical::carrying(args)?, denied })
    }

    /// The execution this request already is, by its key.
    async fn known(&self, request: &CallRequest) -> Result<Option<ExecutionId>, CallError> {
        let Some(key) = &request.key else { return Ok(None) };
        let Some(id) = self.store.by_key(&request.caller.principal.id, key).await? else { return Ok(None) };
        self.check_same_call(id, request).await?;
        Ok(Some(id))
    }

    /// Whether the execution of a key was asked for with this very request.
    pub(crate) async fn check_same_call(
        &self,
        id: ExecutionId,
        request: &CallRequest,
    ) -> Result<(), CallError> {
        let journal = self.store.journal(id).await?;
        let requested = request.digest()?;
        let mut is_same = journal.iter().any(
            |event| matches!(&event.body, EventBody::Started(started) if started.requested == Some(requested)),
        );
        if !is_same {
            // Defaults that are sent and defaults that are filled in are the same request.
            let CallRequest { path, args, caller, session, .. } = request;
            let admitted = self.admit(path, args.clone(), &caller.principal, session).await.ok();
            is_same = admitted
                .is_some_and(|admitted| journal.iter().any(|event| admitted.is_issued_by(&event.body)));
        }
        if is_same { Ok(()) } else { Err(CallError::KeyMismatch(id)) }
    }

    fn issue(&self, request: &CallRequest, admitted: &Admitted) -> Result<Record, CallError> {
        let execution = ExecutionId::new(self.now(), self.random()?);
        let requester = &request.caller.principal;
        let issued = self.issued(CallNo(0), admitted, requester, &request.session);
        let started = Started {
            execution,
            kind: Kind::Call,
            session: request.session.clone(),
            requester: requester.clone(),
            token: request.caller.token,
            idempotency_key: request.key.clone(),
            requested: request.key.as_ref().map(|_| request.digest()).transpose()?,
            script: None,
        };
        Ok(Record::fresh(self.opening(started, issued))?)
    }

    /// A call as it is issued.
    pub(crate) fn issued(
        &self,
        call: CallNo,
        admitted: &Admitted,
        requester: &Principal,
        session: &SessionId,
    ) -> CallIssued {
        let tool = &admitted.tool;
        let binding = Binding {
            tool: tool.path(),
            fingerprint: tool.fingerprint(),
            args: &admitted.args,
            requester: &requester.id,
            session,
            policy_version: self.policy_version,
        };
        CallIssued {
            call,
            path: tool.path().clone(),
            fingerprint: tool.fingerprint(),
            effects: tool.effects(),
            digest: binding.digest(),
            args: admitted.args.clone(),
            policy_version: self.policy_version,
            requested: None,
            line: None,
            source: Some(tool.source().to_owned()),
        }
    }
}

fn not_a_tool(catalog: &Catalog, path: &str) -> CallError {
    let cut = path.chars().take(countersign_sdk::MAX_PATH_BYTES).collect();
    if let Some(source) = catalog.awaited(path) {
        return CallError::SourceNotLoaded(source.to_owned());
    }
    let inside = catalog.inside(path);
    if inside.is_empty() {
        return CallError::ToolNotFound { path: cut, near: catalog.near(path) };
    }
    CallError::Namespace { path: cut, inside }
}

/// The failure of a call that a hook denies.
pub(crate) fn denied_by_hook(reason: &str) -> Failure {
    Failure::new("denied", format!("A hook denied the call: {reason}"))
}
