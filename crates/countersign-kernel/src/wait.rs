//! Waiting for an execution, wherever it is: owned by a task, at rest, or in the store alone.

use std::sync::Arc;
use std::time::Duration;

use countersign_core::event::LogLine;
use countersign_core::execution::Execution;
use countersign_core::ids::ExecutionId;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;

use crate::accept::{CallRequest, Owned, Patience};
use crate::calling_clients::CallingClient;
use crate::error::{CallError, GatewayError};
use crate::follow::{Begun, Follow};
use crate::kernel::Kernel;
use crate::owner::{Message, Owner, Visibility};
use crate::ports::StoreError;
use crate::registry::{Seen, Until, Waiter};
use crate::result::ExecutionResult;
use crate::script::RunRequest;

type Answer = oneshot::Receiver<Result<ExecutionResult, GatewayError>>;

impl Patience {
    /// Whether the wait is over once the execution waits for a person.
    pub(crate) fn ends_at_a_pause(self) -> bool {
        matches!(self, Self::UntilPaused | Self::UntilPausedWithin(_))
    }

    fn until(self) -> Until {
        if self.ends_at_a_pause() { Until::Paused } else { Until::Ended }
    }

    fn limit(self) -> Option<Duration> {
        match self {
            Self::AtMost(limit) | Self::UntilPausedWithin(limit) => Some(limit),
            Self::UntilPaused | Self::Unlimited => None,
        }
    }
}

impl Kernel {
    /// Calls a tool and waits as long as the caller's patience lasts.
    pub(crate) async fn call(self: &Arc<Self>, request: CallRequest) -> Result<ExecutionResult, CallError> {
        let patience = request.patience;
        let known = match self.accept(&request).await? {
            Owned::Known(known) => known,
            Owned::New(owner) => match self.first_answer(*owner, patience).await {
                Err(GatewayError::Store(StoreError::KeyTaken(known))) => {
                    self.check_same_call(known, &request).await?;
                    known
                }
                answered => return Ok(answered?),
            },
        };
        Ok(self.wait_for(known, patience).await?.ok_or(GatewayError::Closed)?)
    }

    /// Runs a script and waits as long as the caller's patience lasts. A script goes on also where the caller hangs up.
    pub(crate) async fn run(self: &Arc<Self>, request: RunRequest) -> Result<ExecutionResult, CallError> {
        let begun = self.begin_script(&request, Follow::No).await?;
        Ok(self.wait_for(begun.execution, request.patience).await?.ok_or(GatewayError::Closed)?)
    }

    /// Accepts a script and lets it begin.
    pub(crate) async fn begin_script(
        self: &Arc<Self>,
        request: &RunRequest,
        follow: Follow,
    ) -> Result<Begun, CallError> {
        let mut owner = match self.accept_script(request).await? {
            Owned::Known(known) => return Ok(self.begun(known, follow)),
            Owned::New(owner) => owner,
        };
        owner.list();
        let begun = self.begun(owner.id(), follow);
        if request.key.is_none() {
            owner.spawn();
            return Ok(begun);
        }
        match owner.begin().await {
            Err(GatewayError::Store(StoreError::KeyTaken(known))) => {
                self.check_same_script(known, &request.source).await?;
                Ok(self.begun(known, follow))
            }
            accepted => Ok(accepted.map(|()| begun)?),
        }
    }

    /// Accepts a call and lets it begin; everything that must be recorded before its id is told is.
    pub(crate) async fn begin_call(
        self: &Arc<Self>,
        request: &CallRequest,
        follow: Follow,
        client: Option<Arc<dyn CallingClient>>,
    ) -> Result<Begun, CallError> {
        let owner = match self.accept(request).await? {
            // An earlier request began it, and its handler's requests are for that client.
            Owned::Known(known) => return Ok(self.begun(known, follow)),
            Owned::New(owner) => owner,
        };
        let mut begun = self.begun(owner.id(), follow);
        begun.client = client.map(|client| self.client_waits(owner.id(), client));
        match owner.telling(&begun.left).begin().await {
            Err(GatewayError::Store(StoreError::KeyTaken(known))) => {
                self.check_same_call(known, request).await?;
                Ok(self.begun(known, follow))
            }
            accepted => Ok(accepted.map(|()| begun)?),
        }
    }

    /// Lets an execution begin that was just accepted, and waits for the answer.
    pub(crate) async fn first_answer(
        self: &Arc<Self>,
        owner: Owner,
        patience: Patience,
    ) -> Result<ExecutionResult, GatewayError> {
        let (reply, mut answer) = oneshot::channel();
        let (id, address) = (owner.id(), owner.address());
        owner.awaited_by(Waiter { until: patience.until(), reply }).spawn();
        let waited = match patience.limit() {
            None => (&mut answer).await,
            Some(limit) => match tokio::time::timeout(limit, &mut answer).await {
                Ok(answered) => answered,
                Err(_) => {
                    let shown = self.show(id, Some(address), Visibility::MakeKnown).await;
                    // It ended in this very moment: of a read the record may not keep the value, and the answer has it.
                    return match answer.try_recv() {
                        Ok(answered) => answered,
                        Err(_) => shown?.ok_or(GatewayError::Closed),
                    };
                }
            },
        };
        match waited {
            Ok(answered) => answered,
            // The owner gave up; the store says how it stands.
            Err(_) => self.show(id, None, Visibility::Look).await?.ok_or(GatewayError::Closed),
        }
    }

    /// Waits as long as the caller's patience lasts; nothing where there is no such execution.
    pub(crate) async fn wait_for(
        self: &Arc<Self>,
        id: ExecutionId,
        patience: Patience,
    ) -> Result<Option<ExecutionResult>, GatewayError> {
        self.wait_until(id, patience.until(), patience.limit()).await
    }

    /// Waits until something holds of an execution, at most so long; nothing where there is no such execution.
    pub(crate) async fn wait_until(
        self: &Arc<Self>,
        id: ExecutionId,
        mut until: Until,
        limit: Option<Duration>,
    ) -> Result<Option<ExecutionResult>, GatewayError> {
        let waited = async {
            loop {
                let (reply, answer) = oneshot::channel();
                let waiter = Waiter { until: until.clone(), reply };
                let mut waiting = Waiting { kernel: self, id, answer: Some(answer) };
                let seen = self.registry.wait(id, waiter, |it| self.result_of(it, Vec::new()));
                if matches!(seen, Seen::NotHere) {
                    // It is told of what happens from now on; what happened before is in the store.
                    let journal = self.store.journal(id).await?;
                    if journal.is_empty() {
                        return Ok(None);
                    }
                    let execution = Execution::replay(&journal)?;
                    if until.holds(&execution) {
                        return Ok(Some(self.result_of(&execution, Vec::new())));
                    }
                }
                if let Some(answered) = waiting.answer().await {
                    return answered.map(Some);
                }
            }
        };
        match limit {
            None => waited.await,
            Some(limit) => match tokio::time::timeout(limit, waited).await {
                Ok(answered) => answered,
                Err(_) => self.show(id, None, Visibility::MakeKnown).await,
            },
        }
    }

    /// An execution as it stands; nothing where there is none.
    pub(crate) async fn show(
        &self,
        id: ExecutionId,
        owner: Option<UnboundedSender<Message>>,
        visibility: Visibility,
    ) -> Result<Option<ExecutionResult>, GatewayError> {
        let owner = match self.registry.look(id, |it| self.result_of(it, Vec::new())) {
            Seen::Resting(result) => return Ok(Some(result)),
            Seen::Owned(owner) => Some(owner),
            Seen::NotHere => owner,
        };
        if let Some(owner) = owner {
            let (reply, shown) = oneshot::channel();
            if owner.send(Message::Show(visibility, reply)).is_ok()
                && let Ok(shown) = shown.await
            {
                return shown.map(Some);
            }
            // The owner left in this very moment; the execution rests, or its journal has everything.
            if let Seen::Resting(result) = self.registry.look(id, |it| self.result_of(it, Vec::new())) {
                return Ok(Some(result));
            }
        }
        let journal = self.store.journal(id).await?;
        if journal.is_empty() {
            return Ok(None);
        }
        Ok(Some(self.result_of(&Execution::replay(&journal)?, Vec::new())))
    }

    /// The result for a caller, with the reason why the execution cannot go on in this process.
    pub(crate) fn result_of(&self, execution: &Execution, logs: Vec<LogLine>) -> ExecutionResult {
        let missing_tools = self.missing_tools_of(execution);
        ExecutionResult { missing_tools, ..ExecutionResult::of(execution, logs) }
    }
}

/// A caller that waits; forgotten when it hangs up.
struct Waiting<'a> {
    kernel: &'a Kernel,
    id: ExecutionId,
    answer: Option<Answer>,
}

impl Waiting<'_> {
    /// The answer; nothing where the owner gave up, so that the caller must look again.
    async fn answer(&mut self) -> Option<Result<ExecutionResult, GatewayError>> {
        match &mut self.answer {
            Some(answer) => answer.await.ok(),
            None => None,
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.answer = None;
        self.kernel.registry.forget_waiters(self.id);
    }
}
