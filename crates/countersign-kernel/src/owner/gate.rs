//! How a call gets past policy, grants and people: steps 4 to 7 of its way.
//!
//! Promise: every start passes [`Owner::start`] or the policy's own allowance in [`Owner::judge`], is checked against the tool,
//! the policy and the authority of this moment, and is recorded before the handler is entered.

use std::sync::Arc;
use std::time::Duration;

use countersign_core::canonical::Verbatim;
use countersign_core::digest::{Digest, Fingerprint};
use countersign_core::elicitation::{Elicitation, Origin};
use countersign_core::event::{CallOutcome, EventBody, Failure, Kind, StartedBy};
use countersign_core::execution::{Asked, Call, Execution, Phase, Terms};
use countersign_core::ids::{CallNo, ElicitationId, UserId};
use countersign_core::policy::{Effect, Subject, Verdict};
use countersign_sdk::{AskKind, Remember};

use super::Owner;
use super::outcomes::Durability;
use crate::accept::denied_by_hook;
use crate::catalog::{CatalogTool, Offered};
use crate::error::GatewayError;
use crate::grants::Covered;
use crate::identities::user_in;
use crate::journal::CommitExtras;
use crate::kernel::Kernel;
use crate::ports::{GrantWrite, Requirement, StoreError, UserMay};
use crate::rejudge::Rejudgement;
use crate::settings::People;

/// The gate's question before it is asked.
pub(crate) struct GateQuestion {
    pub(crate) message: String,
    pub(crate) because: String,
    pub(crate) expires: Duration,
    pub(crate) remember: Remember,
}

/// A start that was checked: its events, and what must hold when they are recorded.
pub(super) struct StartPlan {
    pub(super) events: Vec<EventBody>,
    pub(super) require: Vec<Requirement>,
}

impl Owner {
    /// Steps 4 and 5: policy, then grants. An execution that is known goes on where the store refuses to let a call ask or start:
    /// that call fails, and a script may catch the failure. One that is not was never accepted.
    pub(super) async fn judge(&mut self, no: CallNo) -> Result<(), GatewayError> {
        match self.try_judge(no).await {
            Err(GatewayError::Store(refusal)) if self.is_known() && refuses_one_call(&refusal) => {
                self.reload().await?;
                let failure = match &refusal {
                    StoreError::TooManyPending { .. } => Failure::new(
                        "too_many_pending",
                        "The session has as many open questions as it may; nobody was asked.",
                    ),
                    StoreError::RequesterFull { .. } => {
                        Failure::new("too_many_pending", format!("Nobody was asked: {refusal}."))
                    }
                    lost => lost_authority(lost),
                };
                if self.execution().call(no).is_some_and(|call| *call.phase() == Phase::Issued) {
                    self.refuse_call(no, failure).await?;
                }
                Ok(())
            }
            judged => judged,
        }
    }

    fn is_known(&self) -> bool {
        self.script.is_some() || self.record.is_stored()
    }

    async fn try_judge(&mut self, no: CallNo) -> Result<(), GatewayError> {
        if let Some(reason) = self.denied_by_hook.take() {
            return self.refuse_call(no, denied_by_hook(&reason)).await;
        }
        let Some(call) = self.execution().call(no) else { return Ok(()) };
        let tool = match self.kernel.catalog.offered(call) {
            Offered::Same(tool) => tool,
            lost => return self.refuse_call(no, not_offered(&lost)).await,
        };
        let policy_version = self.kernel.policy_version;
        let is_rejudged = call.policy_version != policy_version;
        let verdict = self.kernel.verdict(self.execution(), call, &tool);
        if is_rejudged {
            // Issued by a process with other rules, which did not come to judge it.
            self.note(vec![EventBody::Rejudged { call: no, policy_version }])?;
        }
        let auth_not_available = tool.tool().definition().auth_not_available.as_deref();
        match (verdict.effect, auth_not_available) {
            (Effect::Deny, _) => self.refuse_call(no, denied(&verdict)).await,
            // An approval would be worth nothing: the call would fail right after it.
            (_, Some(reason)) => self.refuse_call(no, Failure::new("auth_not_available", reason)).await,
            (Effect::Allow, None) => self.start_by_policy(no, &verdict).await,
            (Effect::Ask, None) => self.start_by_grant_or_ask(no, &verdict).await,
        }
    }

    /// Records the failure of a call that never ran.
    async fn refuse_call(&mut self, no: CallNo, failure: Failure) -> Result<(), GatewayError> {
        let durability = if self.script.is_some() { Durability::Later } else { Durability::Now };
        self.settle(no, CallOutcome::Failed(failure), durability).await
    }

    async fn start_by_policy(&mut self, no: CallNo, verdict: &Verdict) -> Result<(), GatewayError> {
        let Some(call) = self.execution().call(no) else { return Ok(()) };
        let must_be_known = call.effects.destructive || call.effects.is_at_most_once();
        let is_gate = self.execution().kind() == Kind::Gate;
        let takes_key = self.execution().idempotency_key().is_some() && !self.record.is_stored();
        let by = StartedBy::Policy { rule: verdict.source.to_string() };
        let require = self.kernel.start_authority(self.execution(), call);
        let mut events = vec![EventBody::CallStarted { call: no, by }];
        if is_gate {
            events.extend(let_through(no));
        }
        // A caller's key must be taken before anything runs under it. And where a process died, every entry is recorded: the handler
        // may be what it died of.
        if must_be_known || takes_key || self.was_interrupted {
            return self.commit(events, CommitExtras::requiring(require)).await;
        }
        self.note(events)?;
        if is_gate {
            self.kernel.commit_soon(&mut self.record)?;
        }
        Ok(())
    }

    async fn start_by_grant_or_ask(&mut self, no: CallNo, verdict: &Verdict) -> Result<(), GatewayError> {
        let Some(call) = self.execution().call(no).cloned() else { return Ok(()) };
        let kernel = std::sync::Arc::clone(&self.kernel);
        let remember = kernel.remember_for(&call.path, verdict.remember);
        let session = self.execution().session().clone();
        if remember == Remember::Session {
            kernel.retire_expired_grants(&session).await?;
        }
        while remember == Remember::Session
            && let Some(grant) =
                kernel.grants.covering(&*kernel.store, &session, Covered::of(&call), kernel.now()).await?
        {
            let mut events = vec![EventBody::CallStarted { call: no, by: StartedBy::Grant { id: grant } }];
            if self.execution().kind() == Kind::Gate {
                events.extend(let_through(no));
            }
            let extras = CommitExtras {
                require: kernel.start_authority(self.execution(), &call),
                grants: vec![GrantWrite::Use { id: grant, now: kernel.now() }],
                ..CommitExtras::default()
            };
            match self.commit(events, extras).await {
                Err(GatewayError::Store(StoreError::GrantGone(_))) => {
                    // The grant was revoked or used up meanwhile; nothing was written. Perhaps there is another.
                    self.reload().await?;
                    kernel.grants.forget(&session);
                }
                done => return done,
            }
        }
        self.ask_at_gate(&call, verdict, remember).await
    }

    /// Step 6: the gate asks.
    async fn ask_at_gate(
        &mut self,
        call: &Call,
        verdict: &Verdict,
        remember: Remember,
    ) -> Result<(), GatewayError> {
        if self.kernel.settings.people == People::Nobody {
            let message = "The call needs a person's approval and nobody can be reached.";
            return self.refuse_call(call.no, Failure::new("denied", message)).await;
        }
        let Some(message) = self.kernel.gate_message(call) else {
            let message = "The tool could not say what it is about to do, so nobody was asked.";
            return self.refuse_call(call.no, Failure::new("denied", message)).await;
        };
        let because = verdict.because();
        let expires = verdict.expires.unwrap_or(self.kernel.settings.expires);
        let question = GateQuestion { message, because, expires, remember };
        let elicitation = gate_elicitation(&self.kernel, call, question)?;
        let require = self.kernel.room_to_ask(self.execution());
        self.commit(vec![EventBody::Asked(Arc::new(elicitation))], CommitExtras::requiring(require)).await?;
        self.withdraw_if_void(call.no).await
    }

    /// Step 7: the approval is checked against this moment and used up, in one transaction with the start. The same for a
    /// call that a person has run again, and for a handler that is entered again.
    pub(super) async fn start(&mut self, no: CallNo) -> Result<(), GatewayError> {
        match self.plan_start(no) {
            Ok(plan) => match self.commit(plan.events, CommitExtras::requiring(plan.require)).await {
                Err(GatewayError::Store(refusal)) if refusal.is_lost_authority() => {
                    self.reload().await?;
                    self.refuse_start(no, lost_authority(&refusal)).await
                }
                done => done,
            },
            Err(failure) => self.refuse_start(no, failure).await,
        }
    }

    /// The events of a start, if it is allowed now.
    pub(super) fn plan_start(&self, no: CallNo) -> Result<StartPlan, Failure> {
        let void = || Failure::new("approval_void", "The call is not there any more.");
        let (execution, kernel) = (self.execution(), &self.kernel);
        let call = execution.call(no).ok_or_else(void)?;
        // No question is asked again, but a call that policy denies now does not run again.
        if let (Phase::Running(_) | Phase::Retrying { .. }, Offered::Same(tool)) =
            (call.phase(), kernel.catalog.offered(call))
        {
            let verdict = kernel.verdict(execution, call, &tool);
            if verdict.effect == Effect::Deny {
                return Err(denied(&verdict));
            }
        }
        // Approved under another policy, and the one of now asks for the same: recorded, and the approval stands.
        let stands = matches!(call.phase(), Phase::Cleared { .. })
            && call.policy_version != kernel.policy_version
            && kernel.rejudged(execution, call) == Rejudgement::Stands;
        let rejudged = EventBody::Rejudged { call: no, policy_version: kernel.policy_version };
        let mut events: Vec<EventBody> = stands.then_some(rejudged).into_iter().collect();
        let terms = Terms {
            now: kernel.now_for(execution),
            fingerprint: kernel.catalog.at(&call.path).map_or(Fingerprint(Digest::ZERO), |t| t.fingerprint()),
            policy_version: if stands { call.policy_version } else { kernel.policy_version },
        };
        let started = execution
            .check_start(no, terms)
            .map_err(|refusal| Failure::new(refusal.code(), refusal.to_string()))?;
        events.push(started);
        if execution.kind() == Kind::Gate {
            events.extend(let_through(no));
        }
        Ok(StartPlan { events, require: kernel.start_authority(execution, call) })
    }

    /// A call that may not start fails; where it may have had its effect before, only a person can say what became of it.
    async fn refuse_start(&mut self, no: CallNo, failure: Failure) -> Result<(), GatewayError> {
        let Some(call) = self.execution().call(no) else { return Ok(()) };
        let may_have_acted = match call.phase() {
            Phase::Retrying { .. } => true,
            Phase::Running(_) => call.may_have_acted(),
            _ => false,
        };
        if may_have_acted {
            let reason = format!("It was not run again: {}", failure.message);
            return self.find_in_doubt(no, Some(reason)).await;
        }
        self.refuse_call(no, failure).await
    }

    /// A bare gate's approval is used by the program that waits at the gate, never by the owner: a program that died must not
    /// consume it. Only one that is too old to be used is settled here.
    pub(super) fn waits_at_its_gate(&self, no: CallNo) -> bool {
        let execution = self.execution();
        let asked = execution.asked().iter().rfind(|asked| asked.elicitation.call == no);
        let now = self.kernel.now();
        execution.kind() == Kind::Gate && asked.is_some_and(|asked| now < asked.elicitation.expires_at)
    }
}

impl Kernel {
    /// The policy's verdict on a call.
    pub(crate) fn verdict(&self, execution: &Execution, call: &Call, tool: &CatalogTool) -> Verdict {
        self.policy.decide(&Subject {
            path: &call.path,
            effects: call.effects,
            source: tool.source(),
            args: &call.args.value(),
            principal: execution.requester(),
            session: execution.session(),
        })
    }

    /// Authority is checked again at every start: the requester's, and that of the person who approved the call or had it run
    /// again.
    fn start_authority(&self, execution: &Execution, call: &Call) -> Vec<Requirement> {
        let now = self.now_for(execution);
        let decision = match call.phase() {
            Phase::Cleared { elicitation } => Some(*elicitation),
            Phase::Running(run) => match run.by {
                StartedBy::Decision { elicitation } => Some(elicitation),
                _ => None,
            },
            _ => None,
        };
        let decision = decision.and_then(|id| execution.find(id)).and_then(Asked::decision);
        let mut all = self.requesters_authority(execution);
        let token = decision.and_then(|decision| decision.token());
        all.extend(token.map(|id| Requirement::TokenLive { id, now }));
        let settler: Option<UserId> = match call.phase() {
            Phase::Retrying { by, .. } => user_in(by),
            Phase::Running(run) => run.retried.as_ref().and_then(|(by, _)| user_in(by)),
            _ => None,
        };
        let decider = decision.and_then(|decision| decision.user()).or(settler);
        all.extend(decider.map(|id| Requirement::User { id, may: UserMay::Decide }));
        all
    }

    /// The authority of the principal that the execution runs for.
    pub(crate) fn requesters_authority(&self, execution: &Execution) -> Vec<Requirement> {
        let now = self.now_for(execution);
        let mut all: Vec<_> =
            execution.token().map(|id| Requirement::TokenLive { id, now }).into_iter().collect();
        let requester = user_in(&execution.requester().id);
        all.extend(requester.map(|id| Requirement::User { id, may: UserMay::Act }));
        all
    }

    pub(crate) fn room_to_ask(&self, execution: &Execution) -> Vec<Requirement> {
        let bound = self.settings.max_pending_per_session;
        let of_requester = Requirement::RequesterPendingBelow {
            requester: execution.requester().id.clone(),
            open: self.settings.max_pending_per_requester,
            bytes: self.settings.max_pending_bytes_per_requester,
        };
        vec![Requirement::PendingBelow { session: execution.session().clone(), bound }, of_requester]
    }

    /// How long an approval of a tool counts: the rule says, else the tool, else the settings.
    pub(crate) fn remember_for(&self, path: &countersign_sdk::ToolPath, rule: Option<Remember>) -> Remember {
        let tool = self.catalog.at(path).and_then(|tool| tool.tool().definition().remember);
        rule.or(tool).unwrap_or(self.settings.remember)
    }
}

/// The gate's question about a call.
pub(crate) fn gate_elicitation(
    kernel: &Kernel,
    call: &Call,
    question: GateQuestion,
) -> Result<Elicitation, GatewayError> {
    Ok(Elicitation {
        id: ElicitationId::new(kernel.now(), kernel.random()?),
        call: call.no,
        origin: Origin::Gate,
        kind: AskKind::Approval,
        tool: call.path.clone(),
        message: question.message,
        args: call.args.clone(),
        digest: call.digest,
        because: question.because,
        remember: question.remember,
        expires_at: kernel.now().after(question.expires),
        line: call.line,
    })
}

/// The end of a bare gate, which has no handler in this process and so ends with its start.
fn let_through(no: CallNo) -> [EventBody; 2] {
    let outcome = CallOutcome::Succeeded(Verbatim::null());
    [EventBody::CallSettled { call: no, outcome: outcome.clone() }, EventBody::finished(outcome)]
}

/// The failure of a call that was not asked about and whose tool is gone.
fn not_offered(offered: &Offered) -> Failure {
    match offered {
        Offered::NotLoaded => {
            Failure::new("tool_not_found", "The tool's source was not loaded in time; the call did not run.")
        }
        Offered::Removed => Failure::new("tool_not_found", "The tool was removed; the call did not run."),
        Offered::Changed | Offered::Same(_) => {
            Failure::new("approval_void", "The tool changed meanwhile; call again.")
        }
    }
}

/// The failure of a call that policy denies.
fn denied(verdict: &Verdict) -> Failure {
    let why = verdict.reason.as_deref().map(|reason| format!(" {reason}")).unwrap_or_default();
    Failure::new("denied", format!("Policy denied the call: {}.{why}", verdict.source))
}

/// The failure where a user, token or login that a start relies on is no longer valid.
fn lost_authority(refusal: &StoreError) -> Failure {
    match refusal {
        StoreError::UserInactive(user) => Failure::new(
            "user_inactive",
            format!("The user {user} was disabled or may no longer do this, so the call did not start."),
        ),
        StoreError::TokenRevoked(token) => Failure::new(
            "token_revoked",
            format!("The credential {token} was revoked or expired before the call could start."),
        ),
        _ => Failure::new("login_ended", "The login ended before the call could start."),
    }
}

/// Whether a refusal of the store concerns one call of a script and not the script.
fn refuses_one_call(refusal: &StoreError) -> bool {
    refusal.is_lost_authority()
        || matches!(refusal, StoreError::TooManyPending { .. } | StoreError::RequesterFull { .. })
}
