//! Questions from inside a handler: asked once, answered once, and answered from the journal when the handler is
//! entered again.
//!
//! Promise: nobody is asked twice about the same call. A handler's question whether its own tool may run with the call's own
//! arguments is answered by the gate's decision on this call. That follows from the journal alone and takes no number, so a
//! replay comes to the same. A remembered approval that let a destructive tool start stands for the decision: the gate's is
//! the only question such a tool has by nature, and the person who remembered it was shown that it covers any arguments. Every
//! other question of a handler is remembered, and answered from memory, only where the handler says so. A call that a person
//! has run again asks everything anew.

use std::sync::Arc;

use countersign_core::bounds;
use countersign_core::canonical::Canonical;
use countersign_core::digest::Digest;
use countersign_core::elicitation::{Decider, Decision, Elicitation, Origin};
use countersign_core::event::{EventBody, StartedBy};
use countersign_core::execution::{AskedState, Call, Execution, Run};
use countersign_core::ids::{CallNo, ElicitationId, GrantId};
use countersign_sdk::{
    AskKind, AskReply, AskRequest, FormSchema, Outcome, Remember, ToolError, ToolErrorCode, ToolPath,
};
use tokio::sync::oneshot;

use super::gate::StartPlan;
use super::handlers::{FromHandler, NewStep, unavailable};
use super::{Did, Owner};
use crate::error::GatewayError;
use crate::grants::Covered;
use crate::journal::CommitExtras;
use crate::ports::{GrantWrite, Requirement, StoreError};
use crate::redaction::Redaction;
use crate::rejudge::Rejudgement;
use crate::settings::People;

pub(super) type HandlerReply = oneshot::Sender<Result<AskReply, ToolError>>;

/// A question of a handler, within bounds and without secrets.
pub(crate) struct Question(AskRequest);

/// The state of a handler's question.
pub(super) enum AskedByHandler {
    /// It waits for the answer to this question.
    Waits(ElicitationId),
    /// It has its answer, or why there is none.
    Answered(Result<AskReply, ToolError>),
}

impl Question {
    /// Bounds, and secrets cut out, before anybody sees it.
    pub(super) fn checked(mut request: AskRequest, redaction: &Redaction) -> Result<Self, ToolError> {
        let refuse = |text: String| ToolError::coded(ToolErrorCode::InvalidParams, text);
        if request.message.trim().is_empty() {
            return Err(refuse("A question needs a message: the person decides by it.".into()));
        }
        if request.message.len() > bounds::MAX_TEXT_BYTES {
            let bound = bounds::MAX_TEXT_BYTES;
            return Err(refuse(format!("A question's message has at most {bound} bytes.")));
        }
        request.message = redaction.text(request.message);
        request.args = request.args.map(|args| redaction.value(args));
        if let AskKind::Form { schema } = &mut request.kind {
            let redacted = redaction.value(schema.as_value().clone());
            *schema = FormSchema::new(&redacted).map_err(|e| refuse(e.to_string()))?;
        }
        Ok(Self(request))
    }

    fn shown_args(&self, call: &Call) -> Result<Canonical, ToolError> {
        match &self.0.args {
            None => Ok(call.args.clone()),
            Some(args) => {
                Canonical::of(args).map_err(|e| ToolError::coded(ToolErrorCode::InvalidParams, e.to_string()))
            }
        }
    }

    /// Whether it is the gate's own question over again: may this tool run with the arguments of this call? A bare
    /// confirmation has no arguments of its own, so it is about the call's.
    fn is_about_the_call(&self, call: &Call, args: &Canonical) -> bool {
        let yes_or_no = match &self.0.kind {
            AskKind::Approval => true,
            AskKind::Form { schema } => *schema == FormSchema::confirm(),
        };
        yes_or_no && self.0.tool_path.as_ref().is_none_or(|path| *path == call.path) && *args == call.args
    }

    /// Its digest, for a replay to compare: over the call it belongs to and everything the person is shown.
    fn digest(&self, call: &Call, args: &str) -> Digest {
        let kind = serde_json::to_string(&self.0.kind).unwrap_or_default();
        let path = self.0.tool_path.as_ref().map_or("", ToolPath::as_str);
        let mut bytes = Vec::new();
        for part in [
            call.digest.as_bytes().as_slice(),
            kind.as_bytes(),
            path.as_bytes(),
            self.0.message.as_bytes(),
            args.as_bytes(),
        ] {
            bytes.extend_from_slice(&(part.len() as u64).to_be_bytes());
            bytes.extend_from_slice(part);
        }
        Digest::of(&bytes)
    }

    /// Only approvals of the running tool itself can be remembered, and only where the handler says so. A form or a bare
    /// confirmation is about this moment, and a tool must not collect a lasting yes for another one under words of its own.
    fn remember(&self, own: &ToolPath) -> Remember {
        match self.0.kind {
            AskKind::Approval if self.0.tool_path.as_ref().is_none_or(|tool| tool == own) => self.0.remember,
            AskKind::Approval | AskKind::Form { .. } => Remember::Call,
        }
    }
}

impl FromHandler {
    /// The owner could not record it, and another try would not help.
    pub(super) fn refuse(self, error: GatewayError) {
        // A handler that was dropped wants no answer.
        match self {
            Self::Ask(_, _, reply) => drop(reply.send(Err(unavailable(error)))),
            Self::Step(.., reply) => drop(reply.send(Err(unavailable(error)))),
            Self::Ended(..) => {}
        }
    }
}

impl Owner {
    /// Asks a handler's question, or finds what was asked before. An error is the store's.
    pub(super) async fn ask_for_handler(
        &mut self,
        no: CallNo,
        question: &Question,
    ) -> Result<AskedByHandler, GatewayError> {
        let refused = |error| Ok(AskedByHandler::Answered(Err(error)));
        let Some(call) = self.execution().call(no).cloned() else { return refused(gone()) };
        // A question that cannot be shown is refused before it takes a number.
        let args = match question.shown_args(&call) {
            Ok(args) => args,
            Err(error) => return refused(error),
        };
        let ordinal = self.handlers.asks(no);
        let recorded = call.run().and_then(|run| run.asks.get(ordinal as usize)).copied();
        let digest = question.digest(&call, args.as_str());
        let same = |id| self.execution().find(id).is_some_and(|asked| asked.elicitation.digest == digest);
        if question.is_about_the_call(&call, &args)
            && gate_said_yes(self.execution(), &call)
            && !recorded.is_some_and(same)
        {
            return Ok(AskedByHandler::Answered(Ok(self.reply(Outcome::Approved, None))));
        }
        if let Some(id) = recorded {
            if !same(id) {
                let message =
                    "The handler asked something else than before it was interrupted; it was stopped.";
                return refused(ToolError::with_code("diverged", message));
            }
            self.handlers.count_ask(no);
            return Ok(AskedByHandler::Waits(id));
        }
        if ordinal as usize >= bounds::MAX_ASKS_PER_CALL {
            let message = format!("A call asks at most {} questions.", bounds::MAX_ASKS_PER_CALL);
            return refused(ToolError::with_code("too_many_questions", message));
        }
        if self.execution().version() + bounds::RESERVED_EVENTS > bounds::MAX_JOURNAL_EVENTS {
            let message = "The execution's journal is full; nobody was asked.";
            return refused(ToolError::with_code("journal_full", message));
        }
        if self.kernel.settings.people == People::Nobody {
            let message = "No person can be reached to answer.";
            return refused(ToolError::coded(ToolErrorCode::ElicitationNotAvailable, message));
        }
        let elicitation = self.handler_elicitation(&call, question, args, ordinal)?;
        let id = elicitation.id;
        self.ask_anew(no, elicitation).await?;
        self.handlers.count_ask(no);
        Ok(AskedByHandler::Waits(id))
    }

    /// Remembers who waits for a question, or gives the answer.
    pub(super) fn take_asked(&mut self, asked: AskedByHandler, said: FromHandler) -> Did {
        if let FromHandler::Ask(_, _, reply) = said {
            match asked {
                AskedByHandler::Waits(id) => drop(self.questions.insert(id, reply)),
                // A handler that was dropped wants no answer.
                AskedByHandler::Answered(answer) => drop(reply.send(answer)),
            }
        }
        Did::Something
    }

    /// Gives handlers the answers that are there. Recorded first, because from then on a handler may act on it.
    pub(super) async fn answer_handlers(&mut self) -> Result<Did, GatewayError> {
        let Some(id) = self.answered_question() else { return Ok(Did::Nothing) };
        let answer = self.answer_with(id).await?;
        if let Some(reply) = self.questions.remove(&id) {
            // A handler that was dropped wants no answer.
            let _ = reply.send(answer);
        }
        Ok(Did::Something)
    }

    /// A question of a waiting handler that is no longer open.
    fn answered_question(&self) -> Option<ElicitationId> {
        let is_open = |id: &ElicitationId| self.execution().open().any(|question| question.id == *id);
        self.questions.keys().find(|id| !is_open(id)).copied()
    }

    async fn answer_with(&mut self, id: ElicitationId) -> Result<Result<AskReply, ToolError>, GatewayError> {
        let Some(asked) = self.execution().find(id).cloned() else { return Ok(Err(gone())) };
        match &asked.state {
            AskedState::Open => Ok(Err(gone())),
            AskedState::Used(decision) => Ok(Ok(self.reply_with(decision))),
            AskedState::Decided(decision) => match self.check_answer(&asked.elicitation, decision) {
                Err(error) => Ok(Err(error)),
                Ok(plan) => match self.commit(plan.events, CommitExtras::requiring(plan.require)).await {
                    Ok(()) => Ok(Ok(self.reply_with(decision))),
                    Err(error) if crate::backoff::is_passing(&error) => Err(error),
                    Err(error) => {
                        self.reload().await?;
                        Ok(Err(unavailable(error)))
                    }
                },
            },
        }
    }

    /// The events that give a waiting handler the answer which was noted a moment ago.
    pub(super) fn plan_answer(&self, id: ElicitationId) -> Option<StartPlan> {
        let asked = self.execution().find(id).filter(|_| self.questions.contains_key(&id))?;
        let AskedState::Decided(decision) = &asked.state else { return None };
        self.check_answer(&asked.elicitation, decision).ok()
    }

    /// The events that give a handler its answer, if it may still act on it.
    fn check_answer(&self, question: &Elicitation, decision: &Decision) -> Result<StartPlan, ToolError> {
        let (kernel, execution) = (&self.kernel, self.execution());
        let no = question.call;
        let authorises = decision.outcome == Outcome::Approved && question.authorises();
        if authorises && kernel.now_for(execution) >= question.expires_at {
            return Err(ToolError::with_code("expired", "The approval expired before it could be used."));
        }
        let call = execution.call(no).ok_or_else(gone)?;
        if authorises && kernel.has_changed(call) {
            let message =
                "The tool changed since this was approved; call again to be asked about what it is now.";
            return Err(ToolError::with_code("approval_void", message));
        }
        let mut events = Vec::new();
        if authorises && call.policy_version != kernel.policy_version {
            if kernel.rejudged(execution, call) != Rejudgement::Stands {
                let message =
                    "The policy changed since this was approved; call again to be judged by what it is now.";
                return Err(ToolError::with_code("approval_void", message));
            }
            events.push(EventBody::Rejudged { call: no, policy_version: kernel.policy_version });
        }
        events
            .push(EventBody::CallStarted { call: no, by: StartedBy::Decision { elicitation: question.id } });
        Ok(StartPlan { events, require: self.authority_of(decision) })
    }

    /// The people a yes relies on; a no relies on nobody.
    fn authority_of(&self, decision: &Decision) -> Vec<Requirement> {
        if decision.outcome != Outcome::Approved {
            return Vec::new();
        }
        let (kernel, execution) = (&self.kernel, self.execution());
        let now = kernel.now_for(execution);
        let mut all = kernel.requesters_authority(execution);
        all.extend(decision.token().map(|id| Requirement::TokenLive { id, now }));
        let may = crate::ports::UserMay::Decide;
        all.extend(decision.user().map(|id| Requirement::User { id, may }));
        all
    }

    async fn ask_anew(&mut self, no: CallNo, elicitation: Elicitation) -> Result<(), GatewayError> {
        while let Some(grant) = self.covering_grant(&elicitation).await? {
            match self.answer_by_grant(&elicitation, grant).await {
                Err(GatewayError::Store(StoreError::GrantGone(_))) => {
                    self.kernel.grants.forget(self.execution().session());
                    self.reload().await?;
                }
                done => return done,
            }
        }
        let require = self.kernel.room_to_ask(self.execution());
        let asked = EventBody::Asked(Arc::new(elicitation));
        self.commit(vec![asked], CommitExtras::requiring(require)).await?;
        self.withdraw_if_void(no).await
    }

    fn handler_elicitation(
        &self,
        call: &Call,
        question: &Question,
        args: Canonical,
        ordinal: u32,
    ) -> Result<Elicitation, GatewayError> {
        let (kernel, request) = (&self.kernel, &question.0);
        Ok(Elicitation {
            id: ElicitationId::new(kernel.now(), kernel.random()?),
            call: call.no,
            origin: Origin::Handler { ordinal },
            because: format!("{} asks while it runs", call.path),
            remember: question.remember(&call.path),
            kind: request.kind.clone(),
            tool: request.tool_path.clone().unwrap_or_else(|| call.path.clone()),
            message: request.message.clone(),
            digest: question.digest(call, args.as_str()),
            args,
            expires_at: kernel.now().after(kernel.settings.expires),
            line: call.line,
        })
    }

    async fn covering_grant(&mut self, elicitation: &Elicitation) -> Result<Option<GrantId>, GatewayError> {
        if elicitation.remember != Remember::Session {
            return Ok(None);
        }
        let kernel = Arc::clone(&self.kernel);
        let Some(tool) = kernel.catalog.at(&elicitation.tool) else { return Ok(None) };
        let session = self.execution().session().clone();
        kernel.retire_expired_grants(&session).await?;
        let covered = Covered { path: tool.path(), fingerprint: tool.fingerprint(), args: &elicitation.args };
        kernel.grants.covering(&*kernel.store, &session, covered, kernel.now()).await
    }

    async fn answer_by_grant(&mut self, elicitation: &Elicitation, id: GrantId) -> Result<(), GatewayError> {
        let now = self.kernel.now_for(self.execution());
        let decision = Decision {
            outcome: Outcome::Approved,
            by: Decider::Grant { id },
            channel: "grant".into(),
            proof: None,
            at: now,
            comment: None,
            data: None,
        };
        let by = StartedBy::Decision { elicitation: elicitation.id };
        let events = vec![
            EventBody::Asked(Arc::new(elicitation.clone())),
            EventBody::Decided { elicitation: elicitation.id, decision: decision.clone() },
            EventBody::CallStarted { call: elicitation.call, by },
        ];
        let extras = CommitExtras {
            require: self.authority_of(&decision),
            grants: vec![GrantWrite::Use { id, now }],
            ..CommitExtras::default()
        };
        self.commit(events, extras).await
    }

    /// Records a step of a handler; the inner error is the handler's.
    pub(super) async fn record_step(
        &mut self,
        no: CallNo,
        step: &NewStep,
    ) -> Result<Result<(), ToolError>, GatewayError> {
        let run = self.execution().call(no).and_then(|call| call.run());
        if run.is_some_and(|run| run.steps.iter().filter(|s| s.name == step.name).count() >= step.nth) {
            // An earlier try was written after all, and only its answer was lost.
            return Ok(Ok(()));
        }
        if run.is_some_and(|run| run.steps.len() >= bounds::MAX_STEPS_PER_CALL) {
            let message = format!("A call records at most {} steps.", bounds::MAX_STEPS_PER_CALL);
            return Ok(Err(ToolError::with_code("too_many_steps", message)));
        }
        if self.execution().version() + bounds::RESERVED_EVENTS > bounds::MAX_JOURNAL_EVENTS {
            let message = "The execution's journal is full; the step was not recorded.";
            return Ok(Err(ToolError::with_code("journal_full", message)));
        }
        let NewStep { name, value, .. } = step;
        let recorded = EventBody::StepRecorded { call: no, name: name.clone(), value: value.clone() };
        self.commit(vec![recorded], CommitExtras::default()).await?;
        Ok(Ok(()))
    }

    fn reply_with(&self, decision: &Decision) -> AskReply {
        self.reply(decision.outcome, decision.data.as_ref().map(Canonical::to_value))
    }

    fn reply(&self, outcome: Outcome, data: Option<serde_json::Value>) -> AskReply {
        AskReply { execution_id: self.execution().id().to_string(), outcome, data }
    }
}

/// Whether the gate's question about this call was answered with yes, or a remembered yes to a destructive tool let it start.
/// A person who has a call run again answers none of its questions.
fn gate_said_yes(execution: &Execution, call: &Call) -> bool {
    let Some(run) = call.run().filter(|run| run.by != StartedBy::Retry) else { return false };
    let by_grant = |run: &Run| matches!(run.by, StartedBy::Grant { .. });
    if call.effects.destructive && by_grant(run) {
        return true;
    }
    execution.asked().iter().any(|asked| {
        let of_gate = asked.elicitation.call == call.no && asked.elicitation.origin == Origin::Gate;
        of_gate && matches!(&asked.state, AskedState::Used(decision) if decision.outcome == Outcome::Approved)
    })
}

fn gone() -> ToolError {
    ToolError::coded(ToolErrorCode::Unavailable, "The question is gone from the journal.")
}
