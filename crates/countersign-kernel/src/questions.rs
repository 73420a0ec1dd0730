//! Questions from inside a handler: asked once, answered once, and answered from the journal when the handler is
//! entered again.
//!
//! Promise: nobody is asked twice about the same call. A handler's question whether its own tool may run with the call's own
//! arguments is answered by the gate's decision on this call. That follows from the journal alone and takes no number, so a
//! replay comes to the same. A remembered approval that let a destructive tool start stands for the decision: the gate's is
//! the only question such a tool has by nature, and whoever remembered it was shown that it covers any arguments. Every
//! other question of a handler is remembered, and answered from memory, only where the handler says so.

use countersign_core::bounds;
use countersign_core::canonical::Canonical;
use countersign_core::digest::Digest;
use countersign_core::elicitation::{Decider, Decision, Elicitation, Origin};
use countersign_core::event::{EventBody, StartedBy};
use countersign_core::execution::{AskedState, Call, Execution, Run};
use countersign_core::ids::{ElicitationId, GrantId};
use countersign_sdk::{
    AskKind, AskReply, AskRequest, FormSchema, Outcome, Remember, ToolError, ToolErrorCode, ToolPath,
};
use tokio::sync::oneshot;

use crate::backoff::Backoff;
use crate::error::GatewayError;
use crate::grants::Covered;
use crate::handler::{HandlerHost, unavailable};
use crate::journal::Beside;
use crate::live::{Guard, State};
use crate::ports::{GrantWrite, StoreError};
use crate::rejudge::Rejudgement;
use crate::settings::People;

/// A question that is asked, with the execution locked; the inner error is the store's.
type Asking = Result<Result<(Guard, ElicitationId), GatewayError>, ToolError>;

impl HandlerHost {
    pub(crate) async fn put_question(&self, request: AskRequest) -> Result<AskReply, ToolError> {
        let request = self.checked(request)?;
        let state = self.lock_patiently().await.map_err(unavailable)?;
        let call = state.execution.call(self.call).ok_or_else(gone)?;
        // What cannot be shown is refused before it takes a number.
        let args = self.shown_args(call, &request)?;
        if is_about_the_call(call, &request, &args)
            && gate_said_yes(&state.execution, call)
            && !self.was_asked(&state, call, &request, &args)
        {
            return Ok(self.reply(Outcome::Approved, None));
        }
        drop(state);
        let mut backoff = Backoff::new(&self.kernel);
        let (mut state, id) = self.asked(&request, &mut backoff).await?;
        loop {
            match self.answered(state, id).await? {
                Ok(reply) => return Ok(reply),
                Err(error) => backoff.pause(error).await.map_err(unavailable)?,
            }
            state = self.lock_patiently().await.map_err(unavailable)?;
        }
    }

    /// Asks, or finds what was asked before. Questions take their turn, so that their numbers are those of a replay also
    /// where the store refuses one of them for a while; one that fails gives its number back.
    async fn asked(
        &self,
        request: &AskRequest,
        backoff: &mut Backoff<'_>,
    ) -> Result<(Guard, ElicitationId), ToolError> {
        let _turn = self.turn.lock().await;
        let ordinal = self.next_ordinal();
        let asked = loop {
            match self.try_question(request, ordinal).await {
                Ok(Ok(asked)) => return Ok(asked),
                Ok(Err(error)) => {
                    if let Err(error) = backoff.pause(error).await {
                        break unavailable(error);
                    }
                }
                Err(error) => break error,
            }
        };
        self.give_back_ordinal();
        Err(asked)
    }

    /// One try: the question is asked, or found asked already. The inner error is the store's, after which the journal is
    /// looked at anew.
    async fn try_question(&self, request: &AskRequest, ordinal: u32) -> Asking {
        let state = self.lock_patiently().await.map_err(unavailable)?;
        let call = state.execution.call(self.call).cloned().ok_or_else(gone)?;
        let recorded = call.run().and_then(|run| run.asks.get(ordinal as usize)).copied();
        match recorded {
            Some(id) => self.find_again(&state, id, &call, request).map(|()| Ok((state, id))),
            None if ordinal as usize >= bounds::MAX_ASKS_PER_CALL => Err(too_many()),
            None if state.execution.version() + bounds::RESERVED_EVENTS > bounds::MAX_JOURNAL_EVENTS => Err(
                ToolError::with_code("journal_full", "The execution's journal is full; nobody was asked."),
            ),
            None if self.kernel.settings.people == People::Nobody => Err(nobody()),
            None => self.ask_anew(state, &call, request, ordinal).await,
        }
    }

    /// Bounds, and secrets cut out, before anybody sees it.
    fn checked(&self, mut request: AskRequest) -> Result<AskRequest, ToolError> {
        let refuse = |text: String| ToolError::coded(ToolErrorCode::InvalidParams, text);
        if request.message.trim().is_empty() {
            return Err(refuse("A question needs a message: the person decides by it.".into()));
        }
        if request.message.len() > bounds::MAX_TEXT_BYTES {
            return Err(refuse(format!(
                "A question's message has at most {} bytes.",
                bounds::MAX_TEXT_BYTES
            )));
        }
        request.message = self.redaction.text(request.message);
        request.args = request.args.map(|args| self.redaction.value(args));
        if let AskKind::Form { schema } = &mut request.kind {
            let redacted = self.redaction.value(schema.as_value().clone());
            *schema = FormSchema::new(&redacted).map_err(|e| refuse(e.to_string()))?;
        }
        Ok(request)
    }

    /// Whether the journal has this very question next: an older build asked it although the gate had. Its answer is used
    /// like any other.
    fn was_asked(&self, state: &State, call: &Call, request: &AskRequest, args: &Canonical) -> bool {
        let next = call.run().and_then(|run| run.asks.get(self.ordinal() as usize));
        let asked = next.and_then(|id| state.execution.find(*id));
        asked.is_some_and(|asked| asked.elicitation.digest == question_digest(call, request, args.as_str()))
    }

    async fn ask_anew(&self, mut state: Guard, call: &Call, request: &AskRequest, ordinal: u32) -> Asking {
        let elicitation = self.elicitation(call, request, ordinal)?;
        let id = elicitation.id;
        loop {
            let grant = match self.covering_grant(&state, &elicitation).await {
                Ok(Some(grant)) => grant,
                Ok(None) => break,
                Err(error) => return Ok(Err(error)),
            };
            match self.answer_by_grant(&mut state, &elicitation, grant).await {
                Ok(()) => return Ok(Ok((state, id))),
                Err(GatewayError::Store(StoreError::GrantGone(_))) => {
                    self.kernel.grants.forget(state.execution.session());
                    drop(state);
                    state = self.lock_patiently().await.map_err(unavailable)?;
                }
                Err(error) => return Ok(Err(error)),
            }
        }
        let beside = Beside { require: self.kernel.room_to_ask(&state), ..Beside::default() };
        match self.kernel.record(&mut state, vec![EventBody::Asked(Box::new(elicitation))], beside).await {
            Ok(()) => match self.kernel.withdraw_if_void(&mut state, self.call).await {
                Ok(()) => Ok(Ok((state, id))),
                Err(error) => Ok(Err(error)),
            },
            Err(error) => Ok(Err(error)),
        }
    }

    /// The handler was entered again: the question must be the one it asked before.
    fn find_again(
        &self,
        state: &State,
        id: ElicitationId,
        call: &Call,
        request: &AskRequest,
    ) -> Result<(), ToolError> {
        let asked = state.execution.find(id).ok_or_else(gone)?;
        if asked.elicitation.digest
            == question_digest(call, request, self.shown_args(call, request)?.as_str())
        {
            return Ok(());
        }
        let message = "The handler asked something else than before it was interrupted; it was stopped.";
        Err(ToolError::with_code("diverged", message))
    }

    /// Waits for the answer where it is not there yet, and gives it to the handler.
    async fn answered(
        &self,
        mut state: Guard,
        id: ElicitationId,
    ) -> Result<Result<AskReply, GatewayError>, ToolError> {
        while state.execution.find(id).is_some_and(|asked| asked.state == AskedState::Open) {
            let (answered, answer) = oneshot::channel();
            state.answers.insert(id, answered);
            drop(state);
            self.live.asked.notify_one();
            // Answered, or no longer to be answered through this channel: the journal says which.
            let _ = answer.await;
            state = self.lock_patiently().await.map_err(unavailable)?;
            if state.gone {
                // The driver has stopped; this future is about to be dropped with it.
                return Err(ToolError::coded(ToolErrorCode::Cancelled, "The execution was stopped."));
            }
        }
        self.let_past(state, id).await
    }

    /// Gives an answer to the handler: recorded first, because from then on it may act on it.
    async fn let_past(
        &self,
        mut state: Guard,
        id: ElicitationId,
    ) -> Result<Result<AskReply, GatewayError>, ToolError> {
        let asked = state.execution.find(id).cloned().ok_or_else(gone)?;
        let decision = match asked.state {
            AskedState::Open => return Err(gone()),
            AskedState::Used(decision) => return Ok(Ok(self.reply_with(&decision))),
            AskedState::Decided(decision) => decision,
        };
        let authorises = decision.outcome == Outcome::Approved && asked.elicitation.authorises();
        if authorises && self.kernel.now_for(&state) >= asked.elicitation.expires_at {
            return Err(ToolError::with_code("expired", "The approval expired before it could be used."));
        }
        let policy_version = self.kernel.policy_version;
        let call = state.execution.call(self.call).ok_or_else(gone)?;
        if authorises && self.kernel.changed_since(&state, self.call).is_some() {
            let message =
                "The tool changed since this was approved; call again to be asked about what it is now.";
            return Err(ToolError::with_code("approval_void", message));
        }
        let mut events = Vec::new();
        if authorises && call.policy_version != policy_version {
            if self.kernel.rejudged(&state, call) != Rejudgement::Stands {
                let message =
                    "The policy changed since this was approved; call again to be judged by what it is now.";
                return Err(ToolError::with_code("approval_void", message));
            }
            events.push(EventBody::Rejudged { call: self.call, policy_version });
        }
        events.push(EventBody::CallStarted { call: self.call, by: StartedBy::Decision { elicitation: id } });
        let beside = Beside { require: self.authority(&state, &decision), ..Beside::default() };
        let recorded = self.kernel.record(&mut state, events, beside).await;
        Ok(recorded.map(|()| self.reply_with(&decision)))
    }

    /// The tokens a yes relies on; a no relies on nobody.
    fn authority(&self, state: &State, decision: &Decision) -> Vec<crate::ports::Requirement> {
        if decision.outcome != Outcome::Approved {
            return Vec::new();
        }
        self.kernel.authority_to_start(state, Some(decision))
    }

    fn elicitation(&self, call: &Call, request: &AskRequest, ordinal: u32) -> Result<Elicitation, ToolError> {
        let kernel = &self.kernel;
        let args = self.shown_args(call, request)?;
        let digest = question_digest(call, request, args.as_str());
        let tool = request.tool_path.clone().unwrap_or_else(|| call.path.clone());
        Ok(Elicitation {
            id: ElicitationId::from_random(kernel.random().map_err(unavailable)?),
            call: self.call,
            origin: Origin::Handler { ordinal },
            because: format!("{} asks while it runs", call.path),
            remember: remember(request, &tool, &call.path),
            kind: request.kind.clone(),
            tool,
            message: request.message.clone(),
            args,
            digest,
            expires_at: kernel.now().after(kernel.settings.expires),
            line: call.line,
        })
    }

    fn shown_args(&self, call: &Call, request: &AskRequest) -> Result<Canonical, ToolError> {
        match &request.args {
            None => Ok(call.args.clone()),
            Some(args) => {
                Canonical::of(args).map_err(|e| ToolError::coded(ToolErrorCode::InvalidParams, e.to_string()))
            }
        }
    }

    async fn covering_grant(
        &self,
        state: &State,
        elicitation: &Elicitation,
    ) -> Result<Option<GrantId>, GatewayError> {
        if elicitation.remember != Remember::Session {
            return Ok(None);
        }
        let Some(tool) = self.kernel.catalog.at(&elicitation.tool) else { return Ok(None) };
        let (store, session) = (&*self.kernel.store, state.execution.session());
        self.kernel.retire_expired_grants(session).await?;
        let covered = Covered { path: tool.path(), fingerprint: tool.fingerprint(), args: &elicitation.args };
        self.kernel.grants.covering(store, session, covered, self.kernel.now()).await
    }

    async fn answer_by_grant(
        &self,
        state: &mut State,
        elicitation: &Elicitation,
        id: GrantId,
    ) -> Result<(), GatewayError> {
        let now = self.kernel.now_for(state);
        let decision = Decision {
            outcome: Outcome::Approved,
            by: Decider::Grant { id },
            channel: "grant".into(),
            proof: None,
            at: now,
            comment: None,
            data: None,
        };
        let events = vec![
            EventBody::Asked(Box::new(elicitation.clone())),
            EventBody::Decided { elicitation: elicitation.id, decision: decision.clone() },
            EventBody::CallStarted {
                call: self.call,
                by: StartedBy::Decision { elicitation: elicitation.id },
            },
        ];
        let beside = Beside {
            require: self.authority(state, &decision),
            grants: vec![GrantWrite::Use { id, now }],
            ..Beside::default()
        };
        self.kernel.record(state, events, beside).await
    }

    fn reply_with(&self, decision: &Decision) -> AskReply {
        self.reply(decision.outcome, decision.data.as_ref().map(Canonical::to_value))
    }

    fn reply(&self, outcome: Outcome, data: Option<serde_json::Value>) -> AskReply {
        AskReply { execution_id: self.live.id.to_string(), outcome, data }
    }
}

/// Whether a question is the gate's own over again: may this tool run with the arguments of this call? A bare confirmation
/// has no arguments of its own, so it is about the call's.
fn is_about_the_call(call: &Call, request: &AskRequest, args: &Canonical) -> bool {
    let yes_or_no = match &request.kind {
        AskKind::Approval => true,
        AskKind::Form { schema } => *schema == FormSchema::confirm(),
    };
    yes_or_no && request.tool_path.as_ref().is_none_or(|path| *path == call.path) && *args == call.args
}

/// Whether the gate's question about this call was answered with yes, or a remembered yes to a destructive tool let it start.
fn gate_said_yes(execution: &Execution, call: &Call) -> bool {
    let by_grant = |run: &Run| matches!(run.by, StartedBy::Grant { .. });
    if call.effects.destructive && call.run().is_some_and(by_grant) {
        return true;
    }
    execution.asked().iter().any(|asked| {
        let of_gate = asked.elicitation.call == call.no && asked.elicitation.origin == Origin::Gate;
        of_gate && matches!(&asked.state, AskedState::Used(decision) if decision.outcome == Outcome::Approved)
    })
}

/// Only approvals of the running tool itself can be remembered, and only where the handler says so. A form or a bare
/// confirmation is about this moment, and a tool must not collect a lasting yes for another one under words of its own.
fn remember(request: &AskRequest, tool: &ToolPath, own: &ToolPath) -> Remember {
    match request.kind {
        AskKind::Approval if tool == own => request.remember,
        AskKind::Approval | AskKind::Form { .. } => Remember::Call,
    }
}

/// What a question is, for a replay to compare: the call it belongs to and everything the person is shown.
fn question_digest(call: &Call, request: &AskRequest, args: &str) -> Digest {
    let kind = serde_json::to_string(&request.kind).unwrap_or_default();
    let path = request.tool_path.as_ref().map_or("", ToolPath::as_str);
    let mut bytes = Vec::new();
    for part in [
        call.digest.as_bytes().as_slice(),
        kind.as_bytes(),
        path.as_bytes(),
        request.message.as_bytes(),
        args.as_bytes(),
    ] {
        bytes.extend_from_slice(&(part.len() as u64).to_be_bytes());
        bytes.extend_from_slice(part);
    }
    Digest::of(&bytes)
}

fn gone() -> ToolError {
    ToolError::coded(ToolErrorCode::Unavailable, "The question is gone from the journal.")
}

fn too_many() -> ToolError {
    let message = format!("A call asks at most {} questions.", bounds::MAX_ASKS_PER_CALL);
    ToolError::with_code("too_many_questions", message)
}

fn nobody() -> ToolError {
    ToolError::coded(ToolErrorCode::ElicitationNotAvailable, "No person can be reached to answer.")
}
