//! Requests to an owner: cancel, settle a doubt, judge again, show the execution.

use countersign_core::bounds::{self, BoundsError};
use countersign_core::event::{CallOutcome, EventBody, Failure, Kind, Settlement};
use countersign_core::execution::{Next, Phase, Status};
use countersign_core::ids::{CallNo, ElicitationId};

use super::{Did, Message, Owner, Visibility};
use crate::accept::Caller;
use crate::catalog::Offered;
use crate::decide::withdrawal;
use crate::engine::Passage;
use crate::error::{CancelError, GatewayError, SettleError};
use crate::journal::CommitExtras;
use crate::ports::UserMay;
use crate::rejudge::{TOOL_CHANGED, TOOL_REMOVED};

impl Owner {
    /// Takes a message. An error is one after which the owner must look at the store before it goes on; the sender was told.
    pub(super) async fn handle(&mut self, message: Message) -> Result<(), GatewayError> {
        // A handler's message waits for its turn, however long the store fails.
        if let Message::Handler(said) = message {
            self.said.push_back(said);
            return Ok(());
        }
        if self.record.is_stale {
            match self.reload().await {
                Ok(Did::Something) => {}
                // The execution was never stored: the sender's channel is dropped.
                Ok(Did::Nothing) => return Ok(()),
                Err(error) => {
                    message.refuse(error);
                    return Ok(());
                }
            }
        }
        // A sender that hung up wants no answer; what it asked for is done all the same.
        match message {
            Message::Decide(request, target, reply) => {
                drop(reply.send(self.decide(&request, target).await));
            }
            Message::Expire(id, reply) => drop(reply.send(self.expire(id).await)),
            Message::Cancel(by, reason, reply) => {
                let cancelled = self.cancel(&by, &reason).await;
                drop(reply.send(cancelled.map(|()| self.result())));
            }
            Message::Settle(no, settlement, reply) => {
                let (settlement, by) = *settlement;
                let settled = self.settle_doubt(no, settlement, &by).await;
                drop(reply.send(settled.map(|()| self.result())));
            }
            Message::Rejudge(reply) => drop(reply.send(self.rejudge().await)),
            Message::TakeUp(reply) => {
                self.was_interrupted = true;
                drop(reply.send(self.find_lost_calls_in_doubt().await));
            }
            Message::Pass(reply) => self.pass(reply).await?,
            Message::Show(visibility, reply) => {
                let known = self.make_known(visibility).await;
                drop(reply.send(known.map(|()| self.result())));
            }
            Message::Requester(reply) => drop(reply.send(self.execution().requester().id.clone())),
            Message::Wait(waiter) => self.add_waiter(waiter),
            Message::Handler(_) | Message::Close => {}
        }
        Ok(())
    }

    /// Writes down an execution that so far was only in memory: its caller is about to be told of it, and will come back.
    async fn make_known(&mut self, visibility: Visibility) -> Result<(), GatewayError> {
        if visibility == Visibility::Look || self.record.is_stored() {
            return Ok(());
        }
        self.commit(Vec::new(), CommitExtras::default()).await
    }

    /// An execution that waits for a person stops at once. A handler that may already have had an effect is told, and ends with its own
    /// outcome: cancelling never hides what happened. A script is stopped once none of its calls acts.
    async fn cancel(&mut self, by: &Caller, reason: &str) -> Result<(), CancelError> {
        if self.execution().requester().id != by.principal.id && !by.principal.may_decide() {
            return Err(CancelError::NotAllowed);
        }
        match self.execution().next() {
            Next::Done => return Err(CancelError::Ended),
            Next::AwaitSettlement(_) => return Err(CancelError::InDoubt),
            _ => {}
        }
        let is_script = self.execution().kind() == Kind::Script;
        let reason = &reason[..reason.floor_char_boundary(bounds::MAX_TEXT_BYTES)];
        let (who, reason) = (by.principal.id.clone(), reason.to_owned());
        if !is_script {
            self.shared.cancel();
        }
        if self.execution().may_have_acted() {
            if !is_script {
                return Err(CancelError::TooLate);
            }
            if self.execution().cancel_request().is_none() {
                let requested = EventBody::CancelRequested { by: who, reason };
                self.commit(vec![requested], CommitExtras::default()).await?;
            }
            return Err(CancelError::Stopping);
        }
        let mut events = self.withdrawals_of_all("the execution was cancelled");
        events.push(EventBody::Cancelled { by: Some(who), reason });
        self.commit(events, CommitExtras::default()).await?;
        self.shared.cancel();
        self.drop_handlers();
        Ok(())
    }

    fn withdrawals_of_all(&self, reason: &str) -> Vec<EventBody> {
        let now = self.kernel.now_for(self.execution());
        self.execution().open().map(|question| withdrawal(question.id, reason, now)).collect()
    }

    /// A person says what became of a call in doubt.
    async fn settle_doubt(
        &mut self,
        no: CallNo,
        settlement: Settlement,
        by: &Caller,
    ) -> Result<(), SettleError> {
        let call = self.execution().call(no).ok_or(SettleError::NotFound)?;
        if !matches!(call.phase(), Phase::InDoubt(_)) {
            return Err(SettleError::NotInDoubt);
        }
        let unchanged = matches!(self.kernel.catalog.offered(call), Offered::Same(_));
        let ended = match &settlement {
            Settlement::Done { value } => Some(CallOutcome::Succeeded(value.clone())),
            Settlement::Failed { message } if message.len() > bounds::MAX_TEXT_BYTES => {
                return Err(BoundsError::TooLarge.into());
            }
            Settlement::Failed { message } => {
                Some(CallOutcome::Failed(Failure::new("settled_as_failed", message)))
            }
            Settlement::Retry if unchanged => None,
            Settlement::Retry => return Err(SettleError::ToolChanged),
        };
        // A script goes on from here.
        let ended = ended.filter(|_| self.script.is_none());
        let mut events = vec![EventBody::DoubtSettled { call: no, settlement, by: by.principal.id.clone() }];
        events.extend(ended.map(EventBody::finished));
        let require = by.authority(UserMay::Decide, self.kernel.now_for(self.execution()));
        Ok(self.commit(events, CommitExtras::requiring(require)).await?)
    }

    /// Judges what waits by the policy and the tools of now. Gives how many questions were withdrawn.
    async fn rejudge(&mut self) -> Result<usize, GatewayError> {
        let events = self.kernel.rejudging(self.execution())?;
        let withdrawn = events.iter().filter(|body| matches!(body, EventBody::Decided { .. })).count();
        if !events.is_empty() {
            self.commit(events, CommitExtras::default()).await?;
        }
        Ok(withdrawn)
    }

    /// Withdraws a question that was recorded a moment ago where its tool changed in that moment: the change may have looked
    /// for open questions before this one was there.
    pub(super) async fn withdraw_if_void(&mut self, no: CallNo) -> Result<(), GatewayError> {
        let Some(call) = self.execution().call(no) else { return Ok(()) };
        let reason = match self.kernel.catalog.offered(call) {
            Offered::Same(_) | Offered::NotLoaded => return Ok(()),
            Offered::Changed => TOOL_CHANGED,
            Offered::Removed => TOOL_REMOVED,
        };
        let events = self.withdrawals(no, reason);
        self.commit(events, CommitExtras::default()).await
    }

    /// Lets the program at the gate through, if the approval is there and it still waits.
    async fn pass(
        &mut self,
        reply: tokio::sync::oneshot::Sender<Result<Option<Passage>, GatewayError>>,
    ) -> Result<(), GatewayError> {
        let no = CallNo(0);
        if reply.is_closed() || self.execution().end().is_some() {
            drop(reply.send(Ok(None)));
            return Ok(());
        }
        let passed = match self.execution().next() {
            Next::Start(_) => self.start(no).await,
            Next::Settle(_, failure) => {
                let outcome = CallOutcome::Failed(failure);
                self.settle(no, outcome, super::outcomes::Durability::Now).await
            }
            _ => Ok(()),
        };
        let execution = self.execution().id();
        let succeeded = self.execution().status() == Status::Succeeded;
        drop(reply.send(passed.map(|()| succeeded.then_some(Passage::Approved { execution }))));
        Ok(())
    }

    /// Drops the futures of all handlers; what they asked is asked again when they are entered again.
    pub(super) fn drop_handlers(&mut self) {
        self.handlers.drop_all();
        self.questions.clear();
        self.said.clear();
        self.record.execution.lose_handlers();
    }

    pub(super) fn forget_question(&mut self, id: ElicitationId) {
        self.questions.remove(&id);
    }
}

impl Message {
    /// The owner cannot look at its execution: the store does not answer.
    pub(super) fn refuse(self, error: GatewayError) {
        match self {
            Self::Decide(_, _, reply) => drop(reply.send(Err(error.into()))),
            Self::Expire(_, reply) | Self::TakeUp(reply) => drop(reply.send(Err(error))),
            Self::Cancel(_, _, reply) => drop(reply.send(Err(error.into()))),
            Self::Settle(_, _, reply) => drop(reply.send(Err(error.into()))),
            Self::Rejudge(reply) => drop(reply.send(Err(error))),
            Self::Pass(reply) => drop(reply.send(Err(error))),
            Self::Show(_, reply) => drop(reply.send(Err(error))),
            Self::Wait(waiter) => drop(waiter.reply.send(Err(error))),
            Self::Requester(_) | Self::Handler(_) | Self::Close => {}
        }
    }
}
