//! The gate alone, for programs that run their tools themselves: seed 001's `ElicitationEngine`.
//!
//! Promise: a safe tool passes at once; a tool approved for the session passes without a pause; anything else waits for
//! a person, durably: a program that was killed at the gate and asks again with the same arguments finds its question,
//! or its answer, still there. The program itself runs an approved call; the engine lets it through once. It sees,
//! resolves and is told of the questions of its own session; any other id is unknown to it.

use std::sync::Arc;

use countersign_core::bounds::BoundsError;
use countersign_core::canonical::Canonical;
use countersign_core::digest::{Binding, Digest};
use countersign_core::elicitation::subject;
use countersign_core::event::{CallIssued, Failure, Kind, Started};
use countersign_core::execution::Status;
use countersign_core::ids::{CallNo, ElicitationId, ExecutionId};
use countersign_core::policy::{Effect, PathPattern};
use countersign_sdk::SessionId;
use serde_json::Value;

use crate::accept::{Caller, Patience};
use crate::catalog::CatalogTool;
use crate::decide::{Answer, Coverage, Decide, Target};
use crate::error::{DecideError, GatewayError};
use crate::grants::NewGrant;
use crate::journal::Record;
use crate::kernel::Kernel;
use crate::owner::{Message, Owner};
use crate::ports::{ElicitationFilter, Page};
use crate::registry::Until;
use crate::result::{ExecutionResult, Pending};

/// The gate of one session.
#[derive(Clone)]
pub struct ElicitationEngine {
    kernel: Arc<Kernel>,
    session: SessionId,
    requester: Caller,
    decider: Caller,
    asking: Arc<tokio::sync::Mutex<()>>,
}

/// How a call passed the gate.
#[derive(Debug, Clone, PartialEq)]
pub enum Passage {
    /// Policy allows it: the tool is not destructive, or a rule says so.
    Safe,
    /// The tool is approved for the session.
    Remembered,
    /// A person approved this call.
    Approved {
        /// The execution that waited.
        execution: ExecutionId,
    },
}

/// Why a call did not pass.
#[derive(Debug, thiserror::Error)]
pub enum GateError {
    /// Denied, cancelled or expired.
    #[error("{0}")]
    Refused(Failure),
    /// The arguments are out of bounds, or the tool cannot say what it would do with them.
    #[error("{0}")]
    InvalidInput(String),
    /// The tool is not of this gateway's catalog.
    #[error("the tool is not registered with this gateway")]
    UnknownTool,
    /// Something inside failed; the call did not pass.
    #[error("{0}")]
    Gateway(#[from] GatewayError),
}

impl GateError {
    /// The stable code.
    pub fn code(&self) -> &str {
        match self {
            Self::Refused(failure) => &failure.code,
            Self::InvalidInput(_) => "invalid_input",
            Self::UnknownTool => "tool_not_found",
            Self::Gateway(e) => e.code(),
        }
    }
}

impl ElicitationEngine {
    pub(crate) fn new(kernel: Arc<Kernel>, session: SessionId, requester: Caller, decider: Caller) -> Self {
        Self { kernel, session, requester, decider, asking: Arc::default() }
    }

    /// Lets a call through, or waits for a person. Returns at once for safe and for session-approved tools. A call that is let
    /// through is recorded, as an execution of its own.
    pub async fn gate(&self, tool: &CatalogTool, args: &Value) -> Result<Passage, GateError> {
        if self.kernel.is_closed() {
            return Err(GatewayError::Closed.into());
        }
        let owner = self.kernel.sessions.owner(&*self.kernel.store, &self.session).await?;
        if owner.is_some_and(|owner| owner.principal != self.requester.principal.id) {
            return Err(GateError::Refused(Failure::new("session_not_found", "There is no such session.")));
        }
        let known = self.kernel.catalog.at(tool.path());
        if known.is_none_or(|known| known.fingerprint() != tool.fingerprint()) {
            return Err(GateError::UnknownTool);
        }
        let args = Canonical::of(args).map_err(|e: BoundsError| GateError::InvalidInput(e.to_string()))?;
        let record = self.opening(tool, args)?;
        let call = record.execution.call(CallNo(0)).cloned().ok_or(GateError::UnknownTool)?;
        let asks = self.kernel.verdict(&record.execution, &call, tool).effect == Effect::Ask;
        if !asks {
            return match self.enter(record).await? {
                Entered::Passed => Ok(Passage::Safe),
                Entered::Waits(execution) => Box::pin(self.until_decided(execution)).await,
            };
        }
        if self.kernel.gate_message(&call).is_none() {
            let problem = "the tool cannot say what it would do with these arguments";
            return Err(GateError::InvalidInput(problem.into()));
        }
        let execution = {
            // One after the other, so that two programs at the gate with the same call find one question.
            let _turn = self.asking.lock().await;
            match self.question_before(subject(&call.path, &call.args), call.digest).await? {
                Some(execution) => execution,
                None => match self.enter(record).await? {
                    Entered::Passed => return Ok(Passage::Remembered),
                    Entered::Waits(execution) => execution,
                },
            }
        };
        Box::pin(self.until_decided(execution)).await
    }

    /// Decides the pending elicitation of this id, its own or its execution's. True if it was found and this is now its
    /// decision.
    pub async fn resolve(&self, id: &str, approved: bool, data: Option<Value>) -> bool {
        let Some(target) = self.own_target(id).await else {
            tracing::warn!(id, "nothing of this id was asked in the engine's session");
            return false;
        };
        let answer =
            if approved { Answer::Approve { covers: Some(Coverage::Call), data } } else { Answer::Deny };
        let by = self.decider.clone();
        let decided =
            self.kernel.decide(Decide { target, by, channel: "engine".into(), answer, comment: None }).await;
        match decided {
            Ok(_) => true,
            Err(error) => {
                tracing::warn!(id, %error, "the elicitation was not resolved");
                false
            }
        }
    }

    /// One pending elicitation of the session, by its own id or its execution's.
    pub async fn get_pending(&self, id: &str) -> Option<Pending> {
        let all = self.all_pending().await;
        all.into_iter().find(|p| p.elicitation.id.to_string() == id || p.execution.to_string() == id)
    }

    /// All pending elicitations of the session, oldest first.
    pub async fn all_pending(&self) -> Vec<Pending> {
        let mut found = Vec::new();
        let mut page = Page::first(1_000);
        let filter = ElicitationFilter { open_only: true, ..ElicitationFilter::default() };
        loop {
            let Ok(rows) = self.kernel.store.elicitations(filter.clone(), page).await else { return found };
            let own = rows.items.into_iter().filter(|row| row.session == self.session);
            found.extend(own.map(|row| Pending {
                execution: row.execution,
                asked_at: row.asked_at,
                elicitation: row.elicitation,
            }));
            match rows.next {
                Some(cursor) => page = Page { cursor: Some(cursor), limit: 1_000 },
                None => return found,
            }
        }
    }

    /// Whether anything is pending in the session.
    pub async fn has_pending(&self) -> bool {
        !self.all_pending().await.is_empty()
    }

    /// Lets future calls of this path through without a pause, in this session.
    pub async fn add_session_approval(&self, path: &str) -> Result<(), DecideError> {
        let exact = PathPattern::parse(path).map_err(|_| DecideError::NotFound)?;
        self.kernel.give_grant(&self.decider, NewGrant::new(self.session.clone(), exact)).await?;
        self.kernel.grants.of(&*self.kernel.store, &self.session).await?;
        Ok(())
    }

    /// Whether this path is approved for the session.
    pub async fn is_session_approved(&self, path: &str) -> bool {
        let catalog = self.kernel.catalog.snapshot();
        let Some(tool) = catalog.get(path) else { return false };
        if self.kernel.grants.of(&*self.kernel.store, &self.session).await.is_err() {
            return false;
        }
        let now = self.kernel.now();
        self.kernel.grants.covers_freely(&self.session, tool.path(), tool.fingerprint(), now)
    }

    /// Forgets all session approvals.
    pub async fn clear_session_approvals(&self) -> Result<(), DecideError> {
        self.kernel.clear_grants(&self.decider, &self.session).await
    }

    /// Calls back whenever something of the session starts to wait for a person.
    pub fn on_pause(&self, callback: impl Fn(&Pending) + Send + Sync + 'static) {
        let mut callbacks = self.kernel.on_pause.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        let own = self.session.clone();
        callbacks.push(Arc::new(move |session: &SessionId, pending: &Pending| {
            if *session == own {
                callback(pending);
            }
        }));
    }

    /// The question or execution that an id names, where this session asked it.
    async fn own_target(&self, id: &str) -> Option<Target> {
        let target = target(id)?;
        let session = match target {
            Target::Elicitation(id) | Target::Shown(id, _) => {
                self.kernel.store.elicitation(id).await.ok()??.session
            }
            Target::Execution(id) | Target::ShownBy(id, _) => {
                self.kernel.store.execution(id).await.ok()??.session
            }
        };
        (session == self.session).then_some(target)
    }

    /// The question that this very call already asked, before it was interrupted.
    async fn question_before(
        &self,
        subject: Digest,
        digest: Digest,
    ) -> Result<Option<ExecutionId>, GateError> {
        let requester = Some(self.requester.principal.id.clone());
        let filter = ElicitationFilter { subject: Some(subject), requester, ..ElicitationFilter::default() };
        let rows =
            self.kernel.store.elicitations(filter, Page::first(1_000)).await.map_err(GatewayError::from)?;
        for row in rows.items.iter().rev().filter(|row| row.elicitation.digest == digest) {
            let execution = self.kernel.store.execution(row.execution).await.map_err(GatewayError::from)?;
            if execution.is_some_and(|it| it.kind == Kind::Gate && !it.status.is_final()) {
                return Ok(Some(row.execution));
            }
        }
        Ok(None)
    }

    /// An execution that is nothing but the gate.
    fn opening(&self, tool: &CatalogTool, args: Canonical) -> Result<Record, GateError> {
        let kernel = &self.kernel;
        let execution = ExecutionId::new(kernel.now(), kernel.random()?);
        let digest = self.binding(tool, &args).digest();
        let started = Started {
            execution,
            kind: Kind::Gate,
            session: self.session.clone(),
            requester: self.requester.principal.clone(),
            token: self.requester.token,
            idempotency_key: None,
            requested: None,
            script: None,
        };
        let issued = CallIssued {
            call: CallNo(0),
            path: tool.path().clone(),
            fingerprint: tool.fingerprint(),
            effects: tool.effects(),
            args,
            policy_version: kernel.policy_version,
            digest,
            requested: None,
            line: None,
            source: Some(tool.source().to_owned()),
        };
        Ok(Record::fresh(kernel.opening(started, issued)).map_err(GatewayError::from)?)
    }

    /// Enters the gate: the call is let through and recorded, refused, or waits for a person.
    async fn enter(&self, record: Record) -> Result<Entered, GateError> {
        let (kernel, execution) = (&self.kernel, record.id());
        let result = kernel.first_answer(Owner::new(kernel, record, None), Patience::UntilPaused).await?;
        match result.status {
            Status::Succeeded => Ok(Entered::Passed),
            Status::Waiting | Status::Running => Ok(Entered::Waits(execution)),
            _ => Err(GateError::Refused(refusal(result))),
        }
    }

    async fn until_decided(&self, execution: ExecutionId) -> Result<Passage, GateError> {
        loop {
            let Some(result) = self.kernel.wait_until(execution, Until::Moved, None).await? else {
                return Err(GateError::UnknownTool);
            };
            if result.status.is_final() {
                return Err(GateError::Refused(refusal(result)));
            }
            if let Some(passage) = self.kernel.request(execution, Message::Pass).await?.transpose()?.flatten()
            {
                return Ok(passage);
            }
        }
    }

    fn binding<'a>(&'a self, tool: &'a CatalogTool, args: &'a Canonical) -> Binding<'a> {
        Binding {
            tool: tool.path(),
            fingerprint: tool.fingerprint(),
            args,
            requester: &self.requester.principal.id,
            session: &self.session,
            policy_version: self.kernel.policy_version,
        }
    }
}

/// The result of a call at the gate.
enum Entered {
    Passed,
    Waits(ExecutionId),
}

/// Why a call did not pass, or that its approval was used by another program.
fn refusal(result: ExecutionResult) -> Failure {
    result.error.unwrap_or_else(|| Failure::new("cancelled", "The question was answered elsewhere."))
}

fn target(id: &str) -> Option<Target> {
    let elicitation = id.parse::<ElicitationId>().map(Target::Elicitation);
    elicitation.or_else(|_| id.parse::<ExecutionId>().map(Target::Execution)).ok()
}
