//! Records decisions and expiries.
//!
//! Promise: of many deciders one wins and the others are shown the winner (R6); a decision answered with success is durable
//! (R5); one that comes too late is answered `expired` and can never be revived (R7). A decision and the start that it allows
//! are one commit where the handler can be entered here and now.

use countersign_core::elicitation::{Decision, Elicitation, Proof, may_remember};
use countersign_core::event::{EventBody, Kind};
use countersign_core::execution::{Asked, Call};
use countersign_core::grant::{Grant, GrantedTool};
use countersign_core::ids::{ElicitationId, GrantId};
use countersign_core::time::Timestamp;
use countersign_sdk::{AskKind, Outcome, Remember};

use super::Owner;
use crate::decide::{Answer, Coverage, CoveredArgs, Decide, Receipt, Target, decision, expired, withdrawal};
use crate::error::{DecideError, GatewayError};
use crate::journal::CommitExtras;
use crate::ports::{GrantWrite, Requirement, UserMay};
use crate::rejudge::Rejudgement;

impl Owner {
    /// Takes a decision on one question, or on the only one that is open.
    pub(super) async fn decide(
        &mut self,
        request: &Decide,
        target: Option<ElicitationId>,
    ) -> Result<Receipt, DecideError> {
        let id = match target {
            Some(id) => id,
            None => {
                let id = self.only_open(request)?;
                self.kernel.check_readable(id).await?;
                id
            }
        };
        let asked = self.execution().find(id).cloned().ok_or(DecideError::NotFound)?;
        if let Target::Shown(_, digest) | Target::ShownBy(_, digest) = request.target
            && digest != asked.elicitation.digest
        {
            return Err(DecideError::NotWhatWasShown(vec![id]));
        }
        let now = self.kernel.now_for(self.execution());
        let decision = decision(&asked.elicitation, request, now)?;
        if let Some(taken) = asked.decision() {
            return self.standing(taken, &decision, id);
        }
        if now >= asked.elicitation.expires_at {
            self.commit(vec![expired(id, now)], CommitExtras::default()).await?;
            return Err(DecideError::Expired);
        }
        if decision.outcome == Outcome::Approved
            && let Some(reason) = self.void(&asked)?
        {
            self.commit(vec![withdrawal(id, reason, now)], CommitExtras::default()).await?;
            return Err(DecideError::Void(reason.to_owned()));
        }
        let grant = self.grant_for(&asked, request, now)?;
        self.record_decision(&asked, &decision, request, grant.as_ref()).await?;
        if let Some(grant) = grant {
            grant.expires_at.into_iter().for_each(|at| self.kernel.alarm.set(at));
            self.kernel.grants.add(self.execution().session(), grant);
        }
        Ok(Receipt { execution: self.execution().id(), elicitation: id, decision })
    }

    /// Expires a question whose time is up. Nothing happens where it was decided meanwhile.
    pub(super) async fn expire(&mut self, id: ElicitationId) -> Result<(), GatewayError> {
        let now = self.kernel.now_for(self.execution());
        let is_due = self.execution().open().any(|question| question.id == id && now >= question.expires_at);
        if is_due {
            self.commit(vec![expired(id, now)], CommitExtras::default()).await?;
        }
        Ok(())
    }

    /// Records a decision, with the start that it allows where that can be entered now. Where the start is refused, because
    /// somebody else whom it relies on no longer counts, the decision is recorded alone.
    async fn record_decision(
        &mut self,
        asked: &Asked,
        decision: &Decision,
        request: &Decide,
        grant: Option<&Grant>,
    ) -> Result<(), DecideError> {
        let now = decision.at;
        let body = EventBody::Decided { elicitation: asked.elicitation.id, decision: decision.clone() };
        let extras = |start: Vec<Requirement>| CommitExtras {
            require: request.by.authority(UserMay::Decide, now).into_iter().chain(start).collect(),
            grants: grant.cloned().map(GrantWrite::Give).into_iter().collect(),
            ..CommitExtras::default()
        };
        self.list();
        let before = self.record.unwritten.len();
        self.note(vec![body.clone()])?;
        let kernel = std::sync::Arc::clone(&self.kernel);
        if decision.outcome == Outcome::Approved
            && let Some(plan) = self.plan_start_on(asked)
        {
            self.note(plan.events)?;
            let start = extras(plan.require);
            match kernel.commit_noted(&mut self.record, before, start).await {
                Err(GatewayError::Store(refusal)) if refusal.is_lost_authority() => {
                    self.reload().await?;
                    self.note(vec![body])?;
                }
                done => return Ok(done?),
            }
        }
        match kernel.commit_noted(&mut self.record, before, extras(Vec::new())).await {
            Err(GatewayError::Store(refusal)) if refusal.is_lost_authority() => Err(DecideError::NotAllowed),
            done => Ok(done?),
        }
    }

    /// The start that a yes to this question allows, where nothing else has to happen first.
    fn plan_start_on(&self, asked: &Asked) -> Option<super::gate::StartPlan> {
        let (execution, question) = (self.execution(), &asked.elicitation);
        if self.kernel.is_closed() || execution.kind() == Kind::Gate {
            return None;
        }
        if question.origin != countersign_core::elicitation::Origin::Gate {
            return self.plan_answer(question.id);
        }
        let ready = self.script.is_none() || self.script_is_idle();
        let has_tool = !self.kernel.lacks_tool(execution, question.call);
        (ready && has_tool).then(|| self.plan_start(question.call).ok()).flatten()
    }

    /// The same decider saying the same gets the same success again; everybody else is shown what stands.
    fn standing(
        &self,
        taken: &Decision,
        new: &Decision,
        elicitation: ElicitationId,
    ) -> Result<Receipt, DecideError> {
        if taken.repeats(new) {
            let execution = self.execution().id();
            return Ok(Receipt { execution, elicitation, decision: taken.clone() });
        }
        match taken.outcome {
            Outcome::Expired => Err(DecideError::Expired),
            _ => Err(DecideError::Decided(Box::new(taken.clone()))),
        }
    }

    /// Why a question may no longer be answered with yes: what it is about changed. A tool that is merely not registered
    /// in this process voids nothing: another process may have it.
    fn void(&self, asked: &Asked) -> Result<Option<&'static str>, DecideError> {
        let Some(call) = self.execution().call(asked.elicitation.call) else { return Ok(None) };
        // A start judges all that waits, so that this finds something only where that failed.
        match self.kernel.rejudged(self.execution(), call) {
            Rejudgement::Stands => Ok(None),
            Rejudgement::AsksOtherwise(_) => Ok(Some("the policy changed")),
            Rejudgement::Withdrawn(reason) => Ok(Some(reason)),
            Rejudgement::ToolMissing => Err(DecideError::ToolMissing(call.path.clone())),
        }
    }

    /// The grant that an approval leaves behind, where it is to be remembered.
    fn grant_for(
        &self,
        asked: &Asked,
        request: &Decide,
        now: Timestamp,
    ) -> Result<Option<Grant>, DecideError> {
        let Answer::Approve { covers, .. } = &request.answer else { return Ok(None) };
        let elicitation = &asked.elicitation;
        if elicitation.kind != AskKind::Approval {
            return Ok(None);
        }
        let (args, uses) = match covers.unwrap_or(Coverage::of_plain_yes(elicitation.remember)) {
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
        let Some(tool) = granted_tool(self.execution().call(elicitation.call), elicitation) else {
            return Ok(None);
        };
        Ok(Some(Grant {
            id: GrantId::from_random(self.kernel.random()?),
            session: self.execution().session().clone(),
            tools: vec![tool],
            args: (args == CoveredArgs::Same).then(|| elicitation.args.clone()),
            pattern: None,
            by: request.by.principal.id.clone(),
            token: request.by.token,
            elicitation: Some(elicitation.id),
            given_at: now,
            expires_at: Some(now.after(self.kernel.settings.remember_for)),
            uses_left: uses,
        }))
    }

    /// The question that an execution's id stands for.
    fn only_open(&self, request: &Decide) -> Result<ElicitationId, DecideError> {
        let execution = self.execution();
        let asked = execution.asked();
        if let Target::ShownBy(_, digest) = request.target {
            let shown = |e: &&Elicitation| e.digest == digest;
            let open = execution.open().find(shown).map(|e| e.id);
            let decided = || asked.iter().map(|a| &*a.elicitation).rfind(shown).map(|e| e.id);
            let pending = || DecideError::NotWhatWasShown(execution.open().map(|e| e.id).collect());
            return open.or_else(decided).ok_or_else(pending);
        }
        let open: Vec<ElicitationId> = execution.open().map(|e| e.id).collect();
        match open[..] {
            [] => asked.last().map(|a| a.elicitation.id).ok_or(DecideError::NotFound),
            [_] if approves_unseen(request) && asked.len() > 1 => Err(DecideError::NotWhatWasShown(open)),
            [only] => Ok(only),
            _ => Err(DecideError::Ambiguous(open)),
        }
    }
}

/// Whether a credential approves without saying what it was shown. A program that embeds the gateway knows what it
/// approves, and where the operator lets agents decide, nobody looks in any case.
fn approves_unseen(request: &Decide) -> bool {
    let looks = !matches!(request.by.proof, None | Some(Proof::AgentSetting));
    looks && matches!(request.answer, Answer::Approve { .. })
}

/// The tool that a remembered approval covers: the one that asked, and no other.
fn granted_tool(call: Option<&Call>, elicitation: &Elicitation) -> Option<GrantedTool> {
    let call = call.filter(|call| call.path == elicitation.tool)?;
    Some(GrantedTool { path: call.path.clone(), fingerprint: call.fingerprint })
}
