//! Accepting a call: steps 1 to 3 of its way, up to the point where it is an execution.
//!
//! What is refused here was never accepted: nothing is recorded and nothing ran. From the first `CallIssued` on, every
//! outcome is an execution's.

use std::sync::Arc;
use std::time::Duration;

use countersign_core::bounds;
use countersign_core::canonical::Canonical;
use countersign_core::digest::Binding;
use countersign_core::elicitation::Proof;
use countersign_core::event::{CallIssued, CallOutcome, EventBody, Failure, Kind, Started};
use countersign_core::execution::Next;
use countersign_core::ids::{CallNo, ExecutionId, TokenId};
use countersign_core::retention::args_of_a_read;
use countersign_sdk::{Principal, PrincipalKind, SessionId};
use serde_json::Value;

use crate::catalog::{Catalog, CatalogTool};
use crate::error::{CallError, GatewayError};
use crate::hooks::Hooked;
use crate::journal::Beside;
use crate::kernel::Kernel;
use crate::live::{Live, State};
use crate::ports::StoreError;

/// The longest idempotency key.
const MAX_KEY_BYTES: usize = 200;

/// A call of one tool.
#[derive(Debug, Clone)]
pub struct CallRequest {
    /// The tool.
    pub path: String,
    /// The arguments.
    pub args: Value,
    /// Who calls.
    pub caller: Caller,
    /// In which session.
    pub session: SessionId,
    /// The caller's own key: the same key again is the same execution.
    pub key: Option<String>,
    /// How long the caller waits for an answer.
    pub patience: Patience,
}

/// Who acts, and with which token.
#[derive(Debug, Clone, PartialEq)]
pub struct Caller {
    /// Who.
    pub principal: Principal,
    /// With which token; none for a program that embeds the gateway.
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

/// A call that became an execution, or turned out to be one already.
pub(crate) enum Accepted {
    New(Arc<Live>),
    Known(ExecutionId),
}

/// What steps 1 to 3 made of a request.
pub(crate) struct Admitted {
    pub(crate) tool: Arc<CatalogTool>,
    pub(crate) args: Canonical,
    /// Why a hook wants it stopped.
    pub(crate) denied: Option<String>,
}

impl Kernel {
    pub(crate) async fn accept(self: &Arc<Self>, request: &CallRequest) -> Result<Accepted, CallError> {
        let CallRequest { caller, session, .. } = request;
        self.check_caller(caller, session, request.key.as_deref()).await?;
        let admitted = self.admit(&request.path, &request.args, &caller.principal, session).await?;
        if let Some(known) = self.known(request, &admitted).await? {
            return Ok(Accepted::Known(known));
        }
        let mut state = self.issue(request, &admitted)?;
        let judged = match &admitted.denied {
            Some(reason) => {
                self.settle_now(&mut state, CallNo(0), CallOutcome::Failed(denied_by_hook(reason))).await
            }
            None => self.judge(&mut state, CallNo(0)).await.map(|_| ()),
        };
        match judged {
            Err(GatewayError::Store(StoreError::KeyTaken(known))) => {
                self.same_call(known, admitted.tool.path().as_str(), &admitted.args).await?;
                return Ok(Accepted::Known(known));
            }
            Err(error) => {
                // The caller is told that nothing is confirmed; should it have been written all the same, it goes on.
                self.go_on_if_stored(state);
                return Err(error.into());
            }
            Ok(()) => {}
        }
        state.driven = true;
        // Whoever was told of the question may have answered it already: then what is in memory here is old.
        state.doubtful |= state.execution.next() == Next::AwaitPeople;
        let ours = Arc::new(Live::new(state));
        let live = self.registry.insert(Arc::clone(&ours));
        Ok(if Arc::ptr_eq(&live, &ours) { Accepted::New(live) } else { Accepted::Known(live.id) })
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
        if self.sessions.owner(&*self.store, session).await?.as_ref() != Some(&caller.principal.id) {
            return Err(CallError::SessionNotFound);
        }
        self.storage
            .check(&caller.principal.id, self.now())
            .map_err(|retry_after| CallError::StorageLimit { retry_after })
    }

    /// Steps 1 to 3: the tool, its input, the pre-hooks.
    pub(crate) async fn admit(
        &self,
        path: &str,
        args: &Value,
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
        // Before anything walks it: what is nested too deeply would take the stack with it.
        bounds::check(args)?;
        let invalid = |violations| CallError::InvalidInput { violations };
        let args = tool.tool().admit(args.clone()).map_err(invalid)?;
        let (args, denied) = match self.hooks.before(tool, args.clone(), principal, session).await {
            Hooked::Continue(args) => (args, None),
            Hooked::Deny(reason) => (args, Some(reason)),
            Hooked::Invalid(violations) => return Err(invalid(violations)),
        };
        Ok(Admitted { tool: Arc::clone(tool), args: Canonical::of(&args)?, denied })
    }

    /// The execution this request already is, by its key.
    async fn known(
        &self,
        request: &CallRequest,
        admitted: &Admitted,
    ) -> Result<Option<ExecutionId>, CallError> {
        let Some(key) = &request.key else { return Ok(None) };
        let Some(id) = self.store.by_key(&request.caller.principal.id, key).await? else { return Ok(None) };
        self.same_call(id, admitted.tool.path().as_str(), &admitted.args).await?;
        Ok(Some(id))
    }

    async fn same_call(&self, id: ExecutionId, path: &str, args: &Canonical) -> Result<(), CallError> {
        let journal = self.store.journal(id).await?;
        let same = journal.iter().any(|event| match &event.body {
            EventBody::CallIssued(issued) => {
                issued.path == *path && (issued.args == *args || issued.args == args_of_a_read(args))
            }
            _ => false,
        });
        if same { Ok(()) } else { Err(CallError::KeyMismatch(id)) }
    }

    fn issue(&self, request: &CallRequest, admitted: &Admitted) -> Result<State, CallError> {
        let execution = ExecutionId::from_random(self.random()?);
        let requester = &request.caller.principal;
        let issued = self.issued(CallNo(0), admitted, requester, &request.session);
        let started = Started {
            execution,
            kind: Kind::Call,
            session: request.session.clone(),
            requester: requester.clone(),
            token: request.caller.token,
            idempotency_key: request.key.clone(),
            script: None,
        };
        Ok(State::fresh(self.opening(started, issued))?)
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

    /// Records the outcome of a call that never ran, and with it the end of a one-call execution. In a script nothing
    /// happened that must not be lost, so it is written with what comes next.
    pub(crate) async fn settle_now(
        &self,
        state: &mut State,
        call: CallNo,
        outcome: CallOutcome,
    ) -> Result<(), GatewayError> {
        let settled = EventBody::CallSettled { call, outcome: outcome.clone() };
        if state.execution.kind() == Kind::Script {
            return self.note(state, vec![settled]);
        }
        self.record(state, vec![settled, EventBody::finished(outcome)], Beside::default()).await
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

/// What the caller is told of a call that a hook denies.
pub(crate) fn denied_by_hook(reason: &str) -> Failure {
    Failure::new("denied", format!("A hook denied the call: {reason}"))
}
