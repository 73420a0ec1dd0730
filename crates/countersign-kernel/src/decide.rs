//! How a person's word becomes a fact.
//!
//! Promise: of many deciders one wins and the others are shown the winner (R6); a decision answered with success is
//! durable (R5); one that comes too late is answered `expired` and can never be revived (R7); an agent's credential is
//! refused whatever it says (R10).

use std::sync::Arc;

use countersign_core::bounds;
use countersign_core::canonical::Canonical;
use countersign_core::digest::Digest;
use countersign_core::elicitation::{Decider, Decision, Elicitation, Proof, may_remember};
use countersign_core::event::EventBody;
use countersign_core::execution::{Asked, Call, Next};
use countersign_core::grant::{Grant, GrantedTool};
use countersign_core::ids::{ElicitationId, ExecutionId, GrantId};
use countersign_core::time::Timestamp;
use countersign_sdk::{AskKind, Outcome, Remember};
use serde_json::Value;

use crate::accept::Caller;
use crate::backoff::Backoff;
use crate::catalog::Offered;
use crate::drive::Entry;
use crate::error::{DecideError, GatewayError};
use crate::journal::Beside;
use crate::kernel::Kernel;
use crate::live::{Guard, Live, State};
use crate::ports::{GrantWrite, UserMay};
use crate::rejudge::Rejudgement;

/// A decision on its way.
#[derive(Debug, Clone)]
pub struct Decide {
    /// What is decided.
    pub target: Target,
    /// Who decides.
    pub by: Caller,
    /// Through what: `console`, `cli`, `mcp`, …
    pub channel: String,
    /// What they say.
    pub answer: Answer,
    /// What they wrote beside it.
    pub comment: Option<String>,
}

/// What is decided. Whoever approves must have seen it: an elicitation never changes, so its id names what was shown; an
/// execution's id names different questions over time, and approves by itself only where there was never more than one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// This one.
    Elicitation(ElicitationId),
    /// This one, which was shown with this digest.
    Shown(ElicitationId, Digest),
    /// The only one that this execution waits for.
    Execution(ExecutionId),
    /// The one of this execution that was shown with this digest.
    ShownBy(ExecutionId, Digest),
}

/// What an approval covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coverage {
    /// This call.
    Call,
    /// Calls of this tool in the session, until the remembered approval ends.
    Session {
        /// With which arguments.
        args: CoveredArgs,
        /// How many calls after this one; without bound where nothing is said.
        uses: Option<u32>,
    },
}

/// The arguments that a remembered approval covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CoveredArgs {
    /// Any.
    Any,
    /// Those that were approved, and no others.
    Same,
}

impl Coverage {
    /// Any call of the tool in the session.
    pub const SESSION: Self = Self::Session { args: CoveredArgs::Any, uses: None };
}

impl From<Remember> for Coverage {
    fn from(remember: Remember) -> Self {
        match remember {
            Remember::Call => Self::Call,
            Remember::Session => Self::SESSION,
        }
    }
}

/// What a person says.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// Yes.
    Approve {
        /// What it covers; what the question says where nothing is said.
        covers: Option<Coverage>,
        /// The fields of a form.
        data: Option<Value>,
    },
    /// No.
    Deny,
    /// Closed without an answer.
    Cancel,
}

/// What a decider gets back.
#[derive(Debug, Clone, PartialEq)]
pub struct Receipt {
    /// The execution that waited.
    pub execution: ExecutionId,
    /// The question.
    pub elicitation: ElicitationId,
    /// The decision that counts.
    pub decision: Decision,
}

impl Kernel {
    pub(crate) async fn decide(self: &Arc<Self>, request: Decide) -> Result<Receipt, DecideError> {
        if !request.by.principal.may_decide() {
            return Err(DecideError::NotAllowed);
        }
        if request.comment.as_ref().is_some_and(|c| c.len() > bounds::MAX_TEXT_BYTES) {
            return Err(DecideError::OutOfBounds(format!(
                "a comment has at most {} bytes",
                bounds::MAX_TEXT_BYTES
            )));
        }
        let (execution, target) = self.locate(request.target).await?;
        let (live, state) = self.find(execution).await?.ok_or(DecideError::NotFound)?;
        let found = match target {
            Some(id) => Ok(id),
            None => match only_open(&state, &request) {
                Ok(id) => self.is_readable(id).await.map(|()| id),
                Err(error) => Err(error),
            },
        };
        let id = match found {
            Ok(id) => id,
            Err(error) => {
                self.release(&live, state);
                return Err(error);
            }
        };
        self.take(live, state, id, &request).await
    }

    /// Expires a question whose time is up. Nothing happens where it was decided meanwhile.
    pub(crate) async fn expire(
        self: &Arc<Self>,
        execution: ExecutionId,
        id: ElicitationId,
    ) -> Result<(), GatewayError> {
        let Some((live, mut state)) = self.find(execution).await? else { return Ok(()) };
        let now = self.now_for(&state);
        let due = state.execution.open().any(|e| e.id == id && now >= e.expires_at);
        let closed = if due { self.close(&mut state, expired(id, now)).await } else { Ok(()) };
        self.go_on(live, state);
        closed
    }

    async fn locate(&self, target: Target) -> Result<(ExecutionId, Option<ElicitationId>), DecideError> {
        match target {
            Target::Execution(execution) | Target::ShownBy(execution, _) => Ok((execution, None)),
            Target::Elicitation(id) | Target::Shown(id, _) => match self.registry.asker(id) {
                Some(execution) => Ok((execution, Some(id))),
                None => {
                    let row = self.store.elicitation(id).await?.ok_or(DecideError::NotFound)?;
                    Ok((row.execution, Some(id)))
                }
            },
        }
    }

    /// Refuses a question whose record is damaged: nobody can have been shown it, though the journal would still have it.
    async fn is_readable(&self, id: ElicitationId) -> Result<(), DecideError> {
        self.store.elicitation(id).await?.map(drop).ok_or(DecideError::NotFound)
    }

    async fn take(
        self: &Arc<Self>,
        live: Arc<Live>,
        mut state: Guard,
        id: ElicitationId,
        request: &Decide,
    ) -> Result<Receipt, DecideError> {
        let result = self.take_locked(&mut state, id, request).await;
        self.go_on(live, state);
        result
    }

    async fn take_locked(
        &self,
        state: &mut State,
        id: ElicitationId,
        request: &Decide,
    ) -> Result<Receipt, DecideError> {
        let asked = state.execution.find(id).cloned().ok_or(DecideError::NotFound)?;
        if let Target::Shown(_, digest) | Target::ShownBy(_, digest) = request.target
            && digest != asked.elicitation.digest
        {
            return Err(DecideError::NotWhatWasShown(vec![id]));
        }
        let now = self.now_for(state);
        let decision = decision(&asked.elicitation, request, now)?;
        let execution = state.execution.id();
        if let Some(taken) = asked.decision() {
            return standing(taken, &decision, execution, id);
        }
        if now >= asked.elicitation.expires_at {
            self.close(state, expired(id, now)).await?;
            return Err(DecideError::Expired);
        }
        if decision.outcome == Outcome::Approved
            && let Some(reason) = self.void(state, &asked)?
        {
            self.close(state, withdrawal(id, reason, now)).await?;
            return Err(DecideError::Void(reason.to_owned()));
        }
        let grant = self.grant_for(state, &asked, request, now)?;
        let mut beside = Beside::default();
        beside.require.extend(request.by.authority(UserMay::Decide, now));
        let session = state.execution.session().clone();
        beside.grants.extend(grant.clone().map(GrantWrite::Give));
        let body = EventBody::Decided { elicitation: id, decision: decision.clone() };
        match self.record(state, vec![body], beside).await {
            Err(GatewayError::Store(refusal)) if refusal.is_lost_authority() => {
                return Err(DecideError::NotAllowed);
            }
            recorded => recorded?,
        }
        if let Some(grant) = grant {
            grant.expires_at.into_iter().for_each(|at| self.alarm.set(at));
            self.grants.add(&session, grant);
        }
        answer(state, id);
        Ok(Receipt { execution, elicitation: id, decision })
    }

    /// Ends a question without a person.
    async fn close(&self, state: &mut State, body: EventBody) -> Result<(), GatewayError> {
        let EventBody::Decided { elicitation, .. } = &body else { return Ok(()) };
        let id = *elicitation;
        self.record(state, vec![body], Beside::default()).await?;
        answer(state, id);
        Ok(())
    }

    /// Brings an execution on after a decision; where nobody drives it, a driver is started.
    pub(crate) fn go_on(self: &Arc<Self>, live: Arc<Live>, mut state: Guard) {
        if state.doubtful {
            // The write may have happened although its answer was lost; somebody must look, or what it decided would
            // wait for nobody.
            drop(state);
            tokio::spawn(Arc::clone(self).look_again(live));
            return;
        }
        let idle =
            matches!(state.execution.next(), Next::AwaitPeople | Next::AwaitSettlement(_) | Next::Done);
        if state.driven || idle {
            self.release(&live, state);
            return;
        }
        state.driven = true;
        drop(state);
        self.spawn_driver(live, Entry::Resumed);
    }

    /// Takes up an execution whose first write failed, if the store has it after all.
    pub(crate) fn go_on_if_stored(self: &Arc<Self>, state: State) {
        if state.doubtful {
            let live = self.registry.insert(Arc::new(Live::new(state)));
            tokio::spawn(Arc::clone(self).look_again(live));
        }
    }

    async fn look_again(self: Arc<Self>, live: Arc<Live>) {
        let mut backoff = Backoff::new(&self);
        loop {
            // Found anew: the one that was written to may have left memory since.
            match self.find(live.id).await {
                Ok(Some((live, state))) if state.is_stored() => {
                    self.waiters.wake(live.id);
                    return self.go_on(live, state);
                }
                Ok(Some((live, state))) => return self.release(&live, state),
                Ok(None) => return,
                Err(error) => {
                    if let Err(error) = backoff.pause(error).await {
                        tracing::error!(execution = %live.id, cause = ?error, "the execution cannot be read");
                        return;
                    }
                }
            }
        }
    }

    /// Why a question may no longer be answered with yes: what it is about changed. A tool that is merely not registered
    /// in this process voids nothing: another process may have it.
    fn void(&self, state: &State, asked: &Asked) -> Result<Option<&'static str>, DecideError> {
        let Some(call) = state.execution.call(asked.elicitation.call) else { return Ok(None) };
        // A start judges all that waits, so that this finds something only where that failed.
        match self.rejudged(state, call) {
            Rejudgement::Stands => Ok(None),
            Rejudgement::AsksOtherwise(_) => Ok(Some("the policy changed")),
            Rejudgement::Withdrawn(reason) => Ok(Some(reason)),
            Rejudgement::ToolMissing => Err(DecideError::ToolMissing(call.path.clone())),
        }
    }

    /// The grant that an approval leaves behind, where it is to be remembered.
    fn grant_for(
        &self,
        state: &State,
        asked: &Asked,
        request: &Decide,
        now: Timestamp,
    ) -> Result<Option<Grant>, DecideError> {
        let Answer::Approve { covers, .. } = &request.answer else { return Ok(None) };
        let elicitation = &asked.elicitation;
        if elicitation.kind != AskKind::Approval {
            return Ok(None);
        }
        let (args, uses) = match covers.unwrap_or_else(|| elicitation.remember.into()) {
            Coverage::Call => return Ok(None),
            Coverage::Session { .. } if !may_remember(elicitation.remember, Remember::Session) => {
                return Err(DecideError::RememberNotAllowed);
            }
            // A prompt in a client shows one call, and a yes there is for that call.
            Coverage::Session { .. } if matches!(request.by.proof, Some(Proof::AttendedClient { .. })) => {
                return Err(DecideError::RememberNotAllowed);
            }
            Coverage::Session { args, uses } => (args, uses),
        };
        let Some(tool) = granted_tool(state.execution.call(elicitation.call), elicitation) else {
            return Ok(None);
        };
        Ok(Some(Grant {
            id: GrantId::from_random(self.random()?),
            session: state.execution.session().clone(),
            tools: vec![tool],
            args: (args == CoveredArgs::Same).then(|| elicitation.args.clone()),
            pattern: None,
            by: request.by.principal.id.clone(),
            token: request.by.token,
            elicitation: Some(elicitation.id),
            given_at: now,
            expires_at: Some(now.after(self.settings.remember_for)),
            uses_left: uses,
        }))
    }

    /// What the person reads at the gate; nothing where the tool fails to say it.
    pub(crate) fn gate_message(&self, call: &Call) -> Option<String> {
        let Offered::Same(tool) = self.catalog.offered(call) else { return None };
        let input = call.args.to_value();
        let said = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| tool.tool().message(&input)));
        let message = match said {
            // The name of a foreign tool is its source's word, and a question is ours.
            Ok(None) if tool.tool().is_foreign() => {
                format!("Run {} of the source \"{}\"?", tool.path(), tool.source())
            }
            Ok(None) => format!("Run {}?", tool.tool().definition().name),
            Ok(Some(Ok(message))) => message,
            Ok(Some(Err(_))) | Err(_) => return None,
        };
        (!message.trim().is_empty() && message.len() <= bounds::MAX_TEXT_BYTES).then_some(message)
    }
}

/// What a remembered yes covers: the tool that asked, and no other.
fn granted_tool(call: Option<&Call>, elicitation: &Elicitation) -> Option<GrantedTool> {
    let call = call.filter(|call| call.path == elicitation.tool)?;
    Some(GrantedTool { path: call.path.clone(), fingerprint: call.fingerprint })
}

/// The decision that withdraws a question.
pub(crate) fn withdrawal(elicitation: ElicitationId, reason: &str, at: Timestamp) -> EventBody {
    let by = Decider::Gateway { reason: reason.to_owned() };
    let decision = Decision {
        outcome: Outcome::Cancelled,
        by,
        channel: "gateway".into(),
        proof: None,
        at,
        comment: None,
        data: None,
    };
    EventBody::Decided { elicitation, decision }
}

fn expired(elicitation: ElicitationId, at: Timestamp) -> EventBody {
    let decision = Decision {
        outcome: Outcome::Expired,
        by: Decider::Clock,
        channel: "clock".into(),
        proof: None,
        at,
        comment: None,
        data: None,
    };
    EventBody::Decided { elicitation, decision }
}

/// The same decider saying the same gets the same success again; everybody else is shown what stands.
fn standing(
    taken: &Decision,
    new: &Decision,
    execution: ExecutionId,
    elicitation: ElicitationId,
) -> Result<Receipt, DecideError> {
    if taken.repeats(new) {
        return Ok(Receipt { execution, elicitation, decision: taken.clone() });
    }
    match taken.outcome {
        Outcome::Expired => Err(DecideError::Expired),
        _ => Err(DecideError::Decided(Box::new(taken.clone()))),
    }
}

/// Wakes the handler that waits for this answer in this process.
fn answer(state: &mut State, id: ElicitationId) {
    if let Some(waiting) = state.answers.remove(&id) {
        // A handler that no longer listens was dropped; the decision is kept in the journal.
        let _ = waiting.send(());
    }
}

/// The question that an execution's id stands for.
fn only_open(state: &State, request: &Decide) -> Result<ElicitationId, DecideError> {
    let asked = state.execution.asked();
    if let Target::ShownBy(_, digest) = request.target {
        let shown = |e: &&Elicitation| e.digest == digest;
        let open = state.execution.open().find(shown).map(|e| e.id);
        let decided = || asked.iter().map(|a| &a.elicitation).rfind(shown).map(|e| e.id);
        let pending = || DecideError::NotWhatWasShown(state.execution.open().map(|e| e.id).collect());
        return open.or_else(decided).ok_or_else(pending);
    }
    let open: Vec<ElicitationId> = state.execution.open().map(|e| e.id).collect();
    match open[..] {
        [] => asked.last().map(|a| a.elicitation.id).ok_or(DecideError::NotFound),
        [_] if approves_unseen(request) && asked.len() > 1 => Err(DecideError::NotWhatWasShown(open)),
        [only] => Ok(only),
        _ => Err(DecideError::Ambiguous(open)),
    }
}

/// Whether a credential approves without saying what it was shown. A program that embeds the gateway knows what it
/// approves, and where the operator lets agents decide, nobody looks in any case.
fn approves_unseen(request: &Decide) -> bool {
    let looks = !matches!(request.by.proof, None | Some(Proof::AgentSetting));
    looks && matches!(request.answer, Answer::Approve { .. })
}

fn decision(elicitation: &Elicitation, request: &Decide, at: Timestamp) -> Result<Decision, DecideError> {
    let (outcome, data) = match &request.answer {
        Answer::Approve { data, .. } => (Outcome::Approved, checked_data(elicitation, data.as_ref())?),
        Answer::Deny => (Outcome::Denied, None),
        Answer::Cancel => (Outcome::Cancelled, None),
    };
    let by = Decider::Person { principal: request.by.principal.id.clone(), token: request.by.token };
    let (channel, comment) = (request.channel.clone(), request.comment.clone());
    Ok(Decision { outcome, by, channel, proof: request.by.proof, at, comment, data })
}

fn checked_data(elicitation: &Elicitation, data: Option<&Value>) -> Result<Option<Canonical>, DecideError> {
    // Before anything walks it: what is nested too deeply would take the stack with it.
    data.map_or(Ok(()), bounds::check).map_err(|e| DecideError::OutOfBounds(e.to_string()))?;
    let data = match (&elicitation.kind, data) {
        (AskKind::Approval, None) => return Ok(None),
        (AskKind::Approval, Some(data)) => data.clone(),
        (AskKind::Form { schema }, data) => {
            let data = data.cloned().unwrap_or_else(|| Value::Object(serde_json::Map::new()));
            schema.check(&data).map_err(DecideError::InvalidData)?;
            data
        }
    };
    Canonical::of(&data).map(Some).map_err(|e| DecideError::OutOfBounds(e.to_string()))
}
