//! The one loop of effects: what an execution wants done is recorded, then done.
//!
//! Promise: at most one task drives an execution. A failing store is tried again for as long as it takes, because what
//! a person approved must run once the store is back; nothing is done that is not recorded.

use std::sync::Arc;
use std::time::Duration;

use countersign_core::canonical::Verbatim;
use countersign_core::digest::{Digest, Fingerprint};
use countersign_core::elicitation::{Decision, Elicitation, Origin};
use countersign_core::event::{CallOutcome, EventBody, Failure, Kind, StartedBy};
use countersign_core::execution::{Call, End, Next, Phase, Recovery};
use countersign_core::ids::{CallNo, ElicitationId};
use countersign_core::policy::{Effect, Subject, Verdict};
use countersign_sdk::{AskKind, Remember};

use crate::backoff::Backoff;
use crate::catalog::{CatalogTool, Offered};
use crate::error::GatewayError;
use crate::grants::Covered;
use crate::identities::user_in;
use crate::journal::Beside;
use crate::kernel::Kernel;
use crate::live::{Guard, Live, State};
use crate::ports::{GrantWrite, Requirement, StoreError, UserMay};
use crate::rejudge::Rejudgement;
use crate::settings::People;

/// How a driver comes to an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entry {
    /// It was just accepted.
    Fresh,
    /// It was parked, or its process died: what was running has no handler here.
    Resumed,
}

/// Whether to go on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    Continue,
    Stop,
}

/// What the gate is about to ask.
pub(crate) struct GateQuestion {
    pub(crate) message: String,
    pub(crate) because: String,
    pub(crate) expires: Duration,
    pub(crate) remember: Remember,
}

impl Kernel {
    /// Starts a task that drives the execution; the caller has set `driven`.
    pub(crate) fn spawn_driver(self: &Arc<Self>, live: Arc<Live>, entry: Entry) {
        if live.kind == Kind::Script {
            tokio::spawn(Arc::clone(self).conduct(live, None));
        } else {
            tokio::spawn(Arc::clone(self).drive(live, entry));
        }
    }

    async fn drive(self: Arc<Self>, live: Arc<Live>, mut entry: Entry) {
        let mut backoff = Backoff::new(&self);
        loop {
            match self.step(&live, &mut entry).await {
                Ok(Flow::Continue) => backoff.reset(),
                Ok(Flow::Stop) => return,
                Err(error) => {
                    if let Err(error) = backoff.pause(error).await {
                        tracing::error!(execution = %live.id, cause = ?error, "the execution cannot go on");
                        return self.abandon(&live).await;
                    }
                }
            }
        }
    }

    async fn step(self: &Arc<Self>, live: &Arc<Live>, entry: &mut Entry) -> Result<Flow, GatewayError> {
        let mut state = self.lock(live).await?;
        if self.is_closed() && would_start(&state, *entry) {
            // Nothing starts in a process that is going away; the next one takes it up.
            return Ok(self.stop(live, state));
        }
        if *entry == Entry::Resumed {
            return self.resume(live, state, entry).await;
        }
        match state.execution.next() {
            Next::Judge(call) | Next::RecordStart(call) if self.lacks_tool(&state, call) => {
                self.wait_for_tool(&state, call);
                Ok(self.stop(live, state))
            }
            Next::Judge(call) => self.judge(&mut state, call).await,
            Next::RecordStart(call) if self.waits_for_its_gate(&state, call) => Ok(self.stop(live, state)),
            Next::RecordStart(call) => self.record_start(&mut state, call).await,
            Next::Settle(call, failure) => {
                self.conclude(live, state, call, CallOutcome::Failed(failure)).await
            }
            Next::Run(call) => match state.execution.take_permit(call) {
                Some(permit) => {
                    drop(state);
                    self.run(live, permit).await
                }
                None => Ok(self.stop(live, state)),
            },
            Next::AwaitPeople => {
                drop(state);
                self.await_people(live).await
            }
            Next::Finish(outcome) => {
                self.record(&mut state, vec![EventBody::finished(outcome)], Beside::default()).await?;
                Ok(Flow::Continue)
            }
            // A handler that nobody here runs: the state was read anew after a failed write, so it is taken up as after a crash.
            Next::AwaitHandler(_) => {
                *entry = Entry::Resumed;
                Ok(Flow::Continue)
            }
            Next::Done => match state.execution.end().cloned() {
                // It ended before it could start, so nobody has told the post-hooks yet.
                Some(End::Finished { outcome, .. }) if state.execution.kind() == Kind::Call => {
                    Ok(self.leave(live, state, CallNo(0), &outcome).await)
                }
                _ => Ok(self.stop(live, state)),
            },
            Next::Issue | Next::AwaitSettlement(_) => Ok(self.stop(live, state)),
            // Only scripts have these, and another loop.
            Next::Rerun(_) | Next::FindInDoubt(_) | Next::RunScript => Ok(self.stop(live, state)),
        }
    }

    /// Takes up what was running when it was parked or its process died.
    async fn resume(
        self: &Arc<Self>,
        live: &Arc<Live>,
        mut state: Guard,
        entry: &mut Entry,
    ) -> Result<Flow, GatewayError> {
        *entry = Entry::Fresh;
        let Some(recovery) = state.execution.recover().first().copied() else { return Ok(Flow::Continue) };
        match recovery {
            Recovery::FoundInDoubt(call) => {
                *entry = Entry::Resumed;
                let flow = self.find_in_doubt(&mut state, call, None).await?;
                *entry = Entry::Fresh;
                Ok(flow)
            }
            Recovery::Rerun(_) if state.execution.next() == Next::AwaitPeople => Ok(self.stop(live, state)),
            Recovery::Rerun(call) if self.lacks_tool(&state, call) => {
                self.wait_for_tool(&state, call);
                Ok(self.stop(live, state))
            }
            Recovery::Rerun(call) => {
                if let Some(failure) = self.changed_since(&state, call) {
                    let events = self.withdrawn(&state, "the tool changed");
                    self.note(&mut state, events)?;
                    return self.conclude(live, state, call, CallOutcome::Failed(failure)).await;
                }
                match state.execution.take_permit_again(call) {
                    Some(permit) => {
                        drop(state);
                        self.run(live, permit).await
                    }
                    None => Ok(self.stop(live, state)),
                }
            }
        }
    }

    /// Steps 4 and 5: policy, then grants.
    pub(crate) async fn judge(&self, state: &mut State, no: CallNo) -> Result<Flow, GatewayError> {
        let Some(call) = state.execution.call(no).cloned() else { return Ok(Flow::Stop) };
        let tool = match self.catalog.offered(&call) {
            Offered::Same(tool) => tool,
            lost => {
                self.settle_now(state, no, CallOutcome::Failed(not_offered(&lost))).await?;
                return Ok(Flow::Continue);
            }
        };
        if call.policy_version != self.policy_version {
            // Issued by a process with other rules, which did not come to judge it.
            let rejudged = EventBody::Rejudged { call: no, policy_version: self.policy_version };
            self.note(state, vec![rejudged])?;
        }
        let verdict = self.verdict(state, &call, &tool);
        match verdict.effect {
            Effect::Deny => self.settle_now(state, no, CallOutcome::Failed(denied(&verdict))).await?,
            Effect::Allow => self.start_by_policy(state, no, &verdict).await?,
            Effect::Ask => self.start_by_grant_or_ask(state, no, &verdict).await?,
        }
        Ok(Flow::Continue)
    }

    /// What policy says of a call.
    pub(crate) fn verdict(&self, state: &State, call: &Call, tool: &CatalogTool) -> Verdict {
        self.policy.decide(&Subject {
            path: &call.path,
            effects: call.effects,
            source: tool.source(),
            args: &call.args.to_value(),
            principal: state.execution.requester(),
            session: state.execution.session(),
        })
    }

    async fn start_by_policy(
        &self,
        state: &mut State,
        no: CallNo,
        verdict: &Verdict,
    ) -> Result<(), GatewayError> {
        let started =
            EventBody::CallStarted { call: no, by: StartedBy::Policy { rule: verdict.source.to_string() } };
        let effects = state.execution.call(no).map(|call| call.effects).unwrap_or_default();
        let must_be_known = effects.destructive || effects.is_at_most_once();
        // A caller's key must be taken before anything runs under it.
        if must_be_known || (state.execution.idempotency_key().is_some() && !state.is_stored()) {
            let beside = Beside { require: self.authority_to_start(state, None), ..Beside::default() };
            return self.record(state, vec![started], beside).await;
        }
        self.note(state, vec![started])
    }

    async fn start_by_grant_or_ask(
        &self,
        state: &mut State,
        no: CallNo,
        verdict: &Verdict,
    ) -> Result<(), GatewayError> {
        let Some(call) = state.execution.call(no).cloned() else { return Ok(()) };
        let remember = self.remember_for(&call.path, verdict.remember);
        let session = state.execution.session().clone();
        if remember == Remember::Session {
            self.retire_expired_grants(&session).await?;
        }
        while remember == Remember::Session
            && let Some(grant) =
                self.grants.covering(&*self.store, &session, Covered::of(&call), self.now()).await?
        {
            let started = EventBody::CallStarted { call: no, by: StartedBy::Grant { id: grant } };
            let now = self.now();
            let beside = Beside {
                require: self.authority_to_start(state, None),
                grants: vec![GrantWrite::Use { id: grant, now }],
                ..Beside::default()
            };
            match self.record(state, vec![started], beside).await {
                Err(GatewayError::Store(StoreError::GrantGone(_))) => {
                    // Somebody revoked it or used it up meanwhile; nothing was written. Perhaps there is another.
                    let journal = self.store.journal(state.execution.id()).await?;
                    state.reload(&journal)?;
                    self.grants.forget(&session);
                }
                done => return done,
            }
        }
        self.ask_at_gate(state, no, verdict, remember).await
    }

    /// Step 6: the gate asks.
    async fn ask_at_gate(
        &self,
        state: &mut State,
        no: CallNo,
        verdict: &Verdict,
        remember: Remember,
    ) -> Result<(), GatewayError> {
        let Some(call) = state.execution.call(no).cloned() else { return Ok(()) };
        if self.settings.people == People::Nobody {
            let failure =
                Failure::new("denied", "The call needs a person's approval and nobody can be reached.");
            return self.settle_now(state, no, CallOutcome::Failed(failure)).await;
        }
        let Some(message) = self.gate_message(&call) else {
            let failure =
                Failure::new("denied", "The tool could not say what it is about to do, so nobody was asked.");
            return self.settle_now(state, no, CallOutcome::Failed(failure)).await;
        };
        let because = verdict.because();
        let expires = verdict.expires.unwrap_or(self.settings.expires);
        self.put_gate_question(state, &call, GateQuestion { message, because, expires, remember }).await
    }

    pub(crate) async fn put_gate_question(
        &self,
        state: &mut State,
        call: &Call,
        question: GateQuestion,
    ) -> Result<(), GatewayError> {
        let elicitation = self.gate_elicitation(call, question)?;
        let beside = Beside { require: self.room_to_ask(state), ..Beside::default() };
        self.record(state, vec![EventBody::Asked(Box::new(elicitation))], beside).await?;
        self.withdraw_if_void(state, call.no).await
    }

    pub(crate) fn gate_elicitation(
        &self,
        call: &Call,
        question: GateQuestion,
    ) -> Result<Elicitation, GatewayError> {
        Ok(Elicitation {
            id: ElicitationId::from_random(self.random()?),
            call: call.no,
            origin: Origin::Gate,
            kind: AskKind::Approval,
            tool: call.path.clone(),
            message: question.message,
            args: call.args.clone(),
            digest: call.digest,
            because: question.because,
            remember: question.remember,
            expires_at: self.now().after(question.expires),
            line: call.line,
        })
    }

    /// Step 7: the approval is checked against this moment and used up, in one transaction with the start.
    pub(crate) async fn record_start(&self, state: &mut State, no: CallNo) -> Result<Flow, GatewayError> {
        let Some(call) = state.execution.call(no).cloned() else { return Ok(Flow::Stop) };
        let fingerprint =
            self.catalog.at(&call.path).map_or(Fingerprint(Digest::ZERO), |tool| tool.fingerprint());
        if let Some(rejudged) = self.approval_stands(state, &call) {
            self.note(state, vec![rejudged])?;
        }
        match state.execution.authorise(no, self.now_for(state), fingerprint, self.policy_version) {
            Ok(started) => {
                let mut events = vec![started];
                if state.execution.kind() == Kind::Gate {
                    let outcome = CallOutcome::Succeeded(Verbatim::null());
                    events.push(EventBody::CallSettled { call: no, outcome: outcome.clone() });
                    events.push(EventBody::finished(outcome));
                }
                let decision = decision_on(state, no);
                let require = self.authority_to_start(state, decision.as_ref());
                let beside = Beside { require, ..Beside::default() };
                match self.record(state, events, beside).await {
                    Err(GatewayError::Store(refusal)) if refusal.is_lost_authority() => {
                        let journal = self.store.journal(state.execution.id()).await?;
                        state.reload(&journal)?;
                        let failure = lost_authority(&refusal);
                        self.settle_now(state, no, CallOutcome::Failed(failure)).await?;
                    }
                    done => done?,
                }
            }
            Err(refusal) => {
                let failure = Failure::new(refusal.code(), refusal.to_string());
                self.settle_now(state, no, CallOutcome::Failed(failure)).await?;
            }
        }
        Ok(Flow::Continue)
    }

    /// What is to be recorded where a call was approved under another policy, and the one of now asks for the same.
    fn approval_stands(&self, state: &State, call: &Call) -> Option<EventBody> {
        let approved = matches!(call.phase(), Phase::Cleared { .. });
        let changed = call.policy_version != self.policy_version;
        (approved && changed && self.rejudged(state, call) == Rejudgement::Stands)
            .then_some(EventBody::Rejudged { call: call.no, policy_version: self.policy_version })
    }

    /// A bare gate's approval is used by whoever waits at the gate, never by a driver: a waiter that died must not
    /// consume it. Only one that is too old to be used is settled here.
    fn waits_for_its_gate(&self, state: &State, no: CallNo) -> bool {
        let asked = state.execution.asked().iter().find(|a| a.elicitation.call == no);
        state.execution.kind() == Kind::Gate && asked.is_some_and(|a| self.now() < a.elicitation.expires_at)
    }

    /// Authority is checked again at every start: the requester's, and the decider's.
    pub(crate) fn authority_to_start(&self, state: &State, decision: Option<&Decision>) -> Vec<Requirement> {
        let now = self.now_for(state);
        let tokens = state.execution.token().into_iter().chain(decision.and_then(Decision::token));
        let mut all: Vec<_> = tokens.map(|id| Requirement::TokenLive { id, now }).collect();
        let requester = user_in(&state.execution.requester().id);
        all.extend(requester.map(|id| Requirement::User { id, may: UserMay::Act }));
        let decider = decision.and_then(Decision::user);
        all.extend(decider.map(|id| Requirement::User { id, may: UserMay::Decide }));
        all
    }

    pub(crate) fn room_to_ask(&self, state: &State) -> Vec<Requirement> {
        let bound = self.settings.max_pending_per_session;
        let of_requester = Requirement::RequesterPendingBelow {
            requester: state.execution.requester().id.clone(),
            open: self.settings.max_pending_per_requester,
            bytes: self.settings.max_pending_bytes_per_requester,
        };
        vec![Requirement::PendingBelow { session: state.execution.session().clone(), bound }, of_requester]
    }

    /// How long an approval of a tool counts: the rule says, else the tool, else the settings.
    pub(crate) fn remember_for(&self, path: &countersign_sdk::ToolPath, rule: Option<Remember>) -> Remember {
        let tool = self.catalog.at(path).and_then(|tool| tool.tool().definition().remember);
        rule.or(tool).unwrap_or(self.settings.remember)
    }

    /// The decisions that withdraw every open question of an execution.
    pub(crate) fn withdrawn(&self, state: &State, reason: &str) -> Vec<EventBody> {
        let now = self.now_for(state);
        state.execution.open().map(|e| crate::decide::withdrawal(e.id, reason, now)).collect()
    }

    /// The decisions that withdraw every open question of one call.
    pub(crate) fn withdrawn_of(&self, state: &State, call: CallNo, reason: &str) -> Vec<EventBody> {
        let now = self.now_for(state);
        let open = state.execution.open().filter(|e| e.call == call);
        open.map(|e| crate::decide::withdrawal(e.id, reason, now)).collect()
    }

    /// Why a running call may not be taken up again: its tool is not what it was (R14).
    pub(crate) fn changed_since(&self, state: &State, no: CallNo) -> Option<Failure> {
        let call = state.execution.call(no)?;
        let same = matches!(self.catalog.offered(call), Offered::Same(_));
        (!same).then(|| {
            Failure::new("approval_void", "The tool is gone or changed since it was asked about; call again.")
        })
    }

    /// Waits for a person, and parks when that takes long.
    async fn await_people(&self, live: &Arc<Live>) -> Result<Flow, GatewayError> {
        let waiting = self.waiters.join(live.id);
        let changed = waiting.changed.notified();
        tokio::pin!(changed);
        changed.as_mut().enable();
        let state = self.lock(live).await?;
        if state.execution.next() != Next::AwaitPeople {
            return Ok(Flow::Continue);
        }
        drop(state);
        tokio::select! {
            biased;
            () = changed => return Ok(Flow::Continue),
            () = self.closing() => {}
            () = tokio::time::sleep(self.settings.park_after) => {}
        }
        let state = self.lock(live).await?;
        if state.execution.next() == Next::AwaitPeople {
            Ok(self.stop(live, state))
        } else {
            Ok(Flow::Continue)
        }
    }

    /// Ends the driver's work; the execution leaves memory, its journal remains.
    pub(crate) fn stop(&self, live: &Arc<Live>, mut state: Guard) -> Flow {
        state.driven = false;
        state.answers.clear();
        self.release(live, state);
        self.waiters.wake(live.id);
        Flow::Stop
    }

    pub(crate) async fn abandon(&self, live: &Arc<Live>) {
        let state = live.lock().await;
        self.stop(live, state);
    }
}

/// Whether the next step enters a handler, or leads to it without another look at the doors.
fn would_start(state: &State, entry: Entry) -> bool {
    let enters_again = || state.execution.recover().iter().any(|r| matches!(r, Recovery::Rerun(_)));
    matches!(state.execution.next(), Next::Judge(_) | Next::RecordStart(_))
        || (entry == Entry::Resumed && enters_again())
}

/// What the caller is told of a call that nobody was asked about and whose tool is not there any more.
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

/// What the caller is told of a call that policy denies.
pub(crate) fn denied(verdict: &Verdict) -> Failure {
    let why = verdict.reason.as_deref().map(|reason| format!(" {reason}")).unwrap_or_default();
    Failure::new("denied", format!("Policy denied the call: {}.{why}", verdict.source))
}

/// The last decision on a call, if there is one.
fn decision_on(state: &State, no: CallNo) -> Option<Decision> {
    let asked = state.execution.asked().iter().rfind(|a| a.elicitation.call == no)?;
    asked.decision().cloned()
}

/// What the caller reads where somebody that a start relies on no longer counts.
pub(crate) fn lost_authority(refusal: &StoreError) -> Failure {
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
