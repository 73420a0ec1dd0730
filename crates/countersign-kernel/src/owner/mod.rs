//! The one owner of a live execution: a task that holds the [`Execution`] and reads one mailbox.
//!
//! Promise: nobody else changes the execution while it lives. A call is a script without a VM: one loop serves both. In each
//! turn it handles messages, takes the next steps of the state machine (recorded first), answers callers, and then waits for
//! the next message, handler or timer; or leaves, once only people or another process can bring the execution on.
//!
//! A failing store is tried again for as long as it takes, because what a person approved must run once the store is back;
//! nothing is done that is not recorded.
//!
//! Read `advance.rs` for what is done about calls, `gate.rs` for how one gets past policy and people, `handlers.rs` for the one place
//! that starts a handler, `decisions.rs` for how a person's word becomes a fact, and `script.rs` for the VM's turns.

mod advance;
mod decisions;
mod ending;
mod gate;
mod handlers;
mod leaving;
mod outcomes;
mod questions;
mod requests;
mod script;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use countersign_core::event::{EventBody, Settlement};
use countersign_core::execution::Execution;
use countersign_core::ids::{CallNo, ElicitationId, ExecutionId};
use countersign_sdk::PrincipalId;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep};

use crate::accept::Caller;
use crate::backoff::Backoff;
use crate::decide::{Decide, Receipt};
use crate::engine::Passage;
use crate::error::{CancelError, DecideError, GatewayError, SettleError};
use crate::follow::LeftResults;
use crate::in_flight::Slot;
use crate::journal::{CommitExtras, Record};
use crate::kernel::Kernel;
use crate::registry::{Mailbox, Taken, Waiter};
use crate::result::ExecutionResult;

pub(crate) use gate::{GateQuestion, gate_elicitation};
pub(crate) use handlers::Shared;
use handlers::{FromHandler, Handlers};
use questions::HandlerReply;
pub(crate) use script::ScriptRun;

/// A message to an owner. The reply channel is dropped where the owner cannot answer.
pub(crate) enum Message {
    /// A person decided.
    Decide(Box<Decide>, Option<ElicitationId>, oneshot::Sender<Result<Receipt, DecideError>>),
    /// The time of a question is up.
    Expire(ElicitationId, oneshot::Sender<Result<(), GatewayError>>),
    /// A caller cancels it.
    Cancel(Box<Caller>, String, oneshot::Sender<Result<ExecutionResult, CancelError>>),
    /// A person settles a call in doubt.
    Settle(CallNo, Box<(Settlement, Caller)>, oneshot::Sender<Result<ExecutionResult, SettleError>>),
    /// The rules or the tools changed: judge what waits again, and tell how many questions were withdrawn.
    Rejudge(oneshot::Sender<Result<usize, GatewayError>>),
    /// Look at what is next: the process is new, or a tool is there that was not.
    TakeUp(oneshot::Sender<Result<(), GatewayError>>),
    /// A program waits at its gate: use the approval, if it is there.
    Pass(oneshot::Sender<Result<Option<Passage>, GatewayError>>),
    /// A caller wants to know how it stands.
    Show(Visibility, oneshot::Sender<Result<ExecutionResult, GatewayError>>),
    /// A caller asks for its requester.
    Requester(oneshot::Sender<PrincipalId>),
    /// A caller waits.
    Wait(Waiter),
    /// Something of a handler that runs here.
    Handler(FromHandler),
    /// The gateway closes.
    Close,
}

/// Whether the caller is about to be told of an execution that so far was only in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Visibility {
    /// The caller only reads.
    Look,
    /// It will come back, so that the execution must be in the store.
    MakeKnown,
}

/// Whether the execution's first caller was told that it was accepted.
enum Acceptance {
    /// Not yet; the caller is the first of the waiters.
    Waits,
    /// Not yet; the caller wants to know only this.
    WantsToKnow(oneshot::Sender<Result<(), GatewayError>>),
    /// It was accepted, and the caller is told at the end of the turn: a handler that ends at once is over by then.
    ToBeTold(oneshot::Sender<Result<(), GatewayError>>),
    /// The caller was told that it was accepted.
    Accepted,
    /// The caller was told that nothing was confirmed. Should the first write have happened all the same, it goes on.
    Refused,
}

/// The owner of one execution.
pub(crate) struct Owner {
    kernel: Arc<Kernel>,
    record: Record,
    shared: Arc<Shared>,
    address: UnboundedSender<Message>,
    messages: UnboundedReceiver<Message>,
    first: Option<Message>,
    is_listed: bool,
    acceptance: Acceptance,
    /// Why a hook wants it stopped.
    denied_by_hook: Option<String>,
    /// Another process died or closed while it ran.
    was_interrupted: bool,
    /// Starts that are in the store although the answer to their commit was an error.
    unconfirmed: BTreeSet<CallNo>,
    waiters: Vec<Waiter>,
    /// Where results are left for a caller that has not begun to wait yet.
    left: Option<Arc<LeftResults>>,
    /// The journal's length when waiting callers were last checked.
    told: u64,
    handlers: Handlers,
    /// Messages of handlers that are not recorded yet, in order.
    said: VecDeque<FromHandler>,
    /// Handlers that wait for an answer here.
    questions: HashMap<ElicitationId, HandlerReply>,
    script: Option<Box<ScriptRun>>,
    /// A timer that runs while there is nothing to do and dropping a handler or VM would free memory.
    parking: Option<(Awaited, Pin<Box<Sleep>>)>,
    /// After a failure only messages are handled before this time.
    retry_at: Option<Instant>,
    backoff: Backoff,
    _slot: Option<Slot>,
    _counted: Counted,
}

/// The reason why an execution waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Awaited {
    /// It waits for people only.
    People,
    /// A handler, or the end of a script's sleep.
    Work,
}

/// Whether a step was taken, so that another one may follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Did {
    Something,
    Nothing,
}

/// The continuation of an owner after a turn.
enum Flow {
    Continue,
    /// It leaves; the execution rests or is in the store.
    Leave,
    /// The execution was never stored: its first write failed.
    Vanish,
}

/// Counts an owner for as long as it lives, so that closing can wait for it.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(owners: &Arc<AtomicUsize>) -> Self {
        owners.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(owners))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Owner {
    /// The owner of an execution that was just accepted. Only its own task knows of it, until it is listed.
    pub(crate) fn new(kernel: &Arc<Kernel>, record: Record, slot: Option<Slot>) -> Self {
        Self::with(kernel, record, Mailbox::new(), slot)
    }

    /// The owner of an execution that was resting or in the store.
    pub(crate) fn taking_over(
        kernel: &Arc<Kernel>,
        record: Record,
        taken: Taken,
        first: Option<Message>,
    ) -> Self {
        let Taken { mailbox, waiters } = taken;
        Self { first, waiters, is_listed: true, ..Self::with(kernel, record, mailbox, None) }
    }

    fn with(kernel: &Arc<Kernel>, record: Record, mailbox: Mailbox, slot: Option<Slot>) -> Self {
        let script = record.execution.script().map(|_| Box::default());
        Self {
            shared: Shared::new(record.id()),
            kernel: Arc::clone(kernel),
            record,
            address: mailbox.address,
            messages: mailbox.messages,
            first: None,
            is_listed: false,
            acceptance: Acceptance::Accepted,
            denied_by_hook: None,
            was_interrupted: false,
            unconfirmed: BTreeSet::new(),
            waiters: Vec::new(),
            left: None,
            told: 0,
            handlers: Handlers::default(),
            said: VecDeque::new(),
            questions: HashMap::new(),
            script,
            parking: None,
            retry_at: None,
            backoff: Backoff::default(),
            _slot: slot,
            _counted: Counted::new(&kernel.owners),
        }
    }

    /// Its first caller waits for it.
    #[must_use]
    pub(crate) fn awaited_by(mut self, waiter: Waiter) -> Self {
        self.acceptance = Acceptance::Waits;
        self.waiters.push(waiter);
        self
    }

    /// Gives the script its VM.
    #[must_use]
    pub(crate) fn with_script(mut self, script: ScriptRun) -> Self {
        self.script = Some(Box::new(script));
        self
    }

    /// Where it can be written to.
    pub(crate) fn address(&self) -> UnboundedSender<Message> {
        self.address.clone()
    }

    /// Makes it findable.
    pub(crate) fn list(&mut self) {
        if !self.is_listed {
            self.is_listed = true;
            self.kernel.registry.list(self.record.id(), &self.address);
        }
    }

    /// The execution's id.
    pub(crate) fn id(&self) -> ExecutionId {
        self.record.id()
    }

    /// A hook denied the call: it is recorded, and does not run.
    #[must_use]
    pub(crate) fn denied_by(mut self, hook: Option<String>) -> Self {
        self.denied_by_hook = hook;
        self
    }

    /// Leaves its result with a caller that did not begin to wait yet.
    #[must_use]
    pub(crate) fn telling(mut self, left: &Arc<LeftResults>) -> Self {
        self.left = Some(Arc::clone(left));
        self
    }

    /// Begins its work.
    pub(crate) fn spawn(self) {
        tokio::spawn(self.run());
    }

    /// Begins its work, and waits until everything is recorded that must be before anybody is told of the execution.
    pub(crate) async fn begin(mut self) -> Result<(), GatewayError> {
        let (reply, accepted) = oneshot::channel();
        self.acceptance = Acceptance::WantsToKnow(reply);
        self.spawn();
        accepted.await.unwrap_or(Err(GatewayError::Closed))
    }

    async fn run(mut self) {
        if let Some(first) = self.first.take()
            && let Err(error) = self.handle(first).await
        {
            self.retry_at = self.backoff.next_try(&self.kernel, &error);
        }
        loop {
            match self.turn().await {
                Ok(Flow::Continue) => {}
                Ok(Flow::Leave) => match self.leave() {
                    Ok(()) => return,
                    Err(stays) => self = *stays,
                },
                Ok(Flow::Vanish) => return self.vanish(),
                Err(error) => {
                    self.retry_at = self.backoff.next_try(&self.kernel, &error);
                    let was_refused = self.refuse(error);
                    match self.retry_at {
                        Some(_) => {}
                        None if was_refused => return self.vanish(),
                        None => return self.give_up().await,
                    }
                }
            }
        }
    }

    async fn turn(&mut self) -> Result<Flow, GatewayError> {
        if let Some(at) = self.retry_at {
            return self.wait_to_retry(at).await;
        }
        if self.record.is_stale && self.reload().await? == Did::Nothing {
            return Ok(Flow::Vanish);
        }
        while let Ok(message) = self.messages.try_recv() {
            self.handle(message).await?;
        }
        while self.advance().await? == Did::Something {
            self.backoff.reset();
        }
        if self.record.is_stale {
            // A write failed whose sender was told; the journal is read before anything is done or told.
            return Ok(Flow::Continue);
        }
        self.tell_accepted();
        self.tell_waiters();
        if self.is_to_leave().await? {
            return Ok(Flow::Leave);
        }
        self.wait().await?;
        Ok(Flow::Continue)
    }

    /// Applies events and makes them durable. From here on others may come across the execution in the store, so they must
    /// find its owner.
    async fn commit(&mut self, bodies: Vec<EventBody>, extras: CommitExtras) -> Result<(), GatewayError> {
        if bodies.is_empty() && self.record.unwritten.is_empty() {
            return Ok(());
        }
        self.list();
        let kernel = Arc::clone(&self.kernel);
        kernel.commit(&mut self.record, bodies, extras).await?;
        self.tell_accepted();
        Ok(())
    }

    fn note(&mut self, bodies: Vec<EventBody>) -> Result<(), GatewayError> {
        self.kernel.note(&mut self.record, bodies)
    }

    /// Reads the journal after a failed write. Nothing is done where the execution never came to be.
    async fn reload(&mut self) -> Result<Did, GatewayError> {
        let before = self.execution().clone();
        let journal = self.kernel.store.journal(self.record.id()).await?;
        if journal.is_empty() && matches!(self.acceptance, Acceptance::Refused) {
            return Ok(Did::Nothing);
        }
        self.record.reload(&journal)?;
        // A question may be in the store although the answer to its write was lost: its expiry must be noticed all the same.
        self.record.execution.open().for_each(|question| self.kernel.alarm.set(question.expires_at));
        // A start that was written although its answer was lost: nobody entered the handler, and it is entered once a later
        // commit has shown that the start is on the medium.
        self.unconfirmed.extend(self.record.execution.restore_permits(&before, &self.unconfirmed));
        // Handlers of this process go on whatever the journal says of them.
        for no in self.handlers.running() {
            self.record.execution.keep_handler(no);
        }
        Ok(Did::Something)
    }

    async fn wait_to_retry(&mut self, at: Instant) -> Result<Flow, GatewayError> {
        tokio::select! {
            biased;
            message = self.messages.recv() => {
                if let Some(message) = message {
                    self.handle(message).await?;
                }
            }
            () = tokio::time::sleep_until(at) => self.retry_at = None,
        }
        Ok(Flow::Continue)
    }

    fn execution(&self) -> &Execution {
        &self.record.execution
    }

    /// Its result for a caller.
    fn result(&self) -> ExecutionResult {
        self.kernel.result_of(&self.record.execution, self.shared.logs())
    }

    /// Answers the callers whose wait is over.
    fn tell_waiters(&mut self) {
        let version = self.record.execution.version();
        if self.waiters.is_empty() || self.told == version {
            return;
        }
        self.told = version;
        let (over, waiting): (Vec<Waiter>, Vec<Waiter>) = std::mem::take(&mut self.waiters)
            .into_iter()
            .filter(|waiter| !waiter.reply.is_closed())
            .map(|mut waiter| (waiter.until.holds(&self.record.execution), waiter))
            .fold((Vec::new(), Vec::new()), |mut all, (over, waiter)| {
                if over {
                    all.0.push(waiter);
                } else {
                    all.1.push(waiter);
                }
                all
            });
        self.waiters = waiting;
        for waiter in over {
            // A caller that hung up wants no answer.
            let _ = waiter.reply.send(Ok(self.result()));
        }
    }

    fn add_waiter(&mut self, mut waiter: Waiter) {
        if waiter.until.holds(&self.record.execution) {
            // A caller that hung up wants no answer.
            let _ = waiter.reply.send(Ok(self.result()));
        } else {
            if self.waiters.len() == self.waiters.capacity() {
                // Those who hung up, before room is made for more.
                self.waiters.retain(|waiter| !waiter.reply.is_closed());
            }
            self.waiters.push(waiter);
        }
    }

    /// It is accepted: whatever was to be recorded before that is.
    fn accepted(&mut self) {
        self.acceptance = match std::mem::replace(&mut self.acceptance, Acceptance::Accepted) {
            Acceptance::WantsToKnow(reply) | Acceptance::ToBeTold(reply) => Acceptance::ToBeTold(reply),
            _ => Acceptance::Accepted,
        };
    }

    /// Its first caller learns that it was accepted. From then on the caller may name the execution, so it must be findable
    /// unless it has ended.
    fn tell_accepted(&mut self) {
        if let Acceptance::WantsToKnow(reply) | Acceptance::ToBeTold(reply) =
            std::mem::replace(&mut self.acceptance, Acceptance::Accepted)
        {
            if self.execution().end().is_none() {
                self.list();
            }
            if let Some(left) = &self.left
                && self.execution().open().next().is_some()
            {
                left.leave_pause(self.result());
            }
            // A caller that hung up wants no answer.
            let _ = reply.send(Ok(()));
        }
    }

    /// Its first caller, if it was not told that the execution was accepted, learns why not. Whether it was.
    fn refuse(&mut self, error: GatewayError) -> bool {
        match std::mem::replace(&mut self.acceptance, Acceptance::Refused) {
            accepted @ (Acceptance::Accepted | Acceptance::ToBeTold(_)) => {
                self.acceptance = accepted;
                if self.retry_at.is_none() {
                    tracing::error!(execution = %self.record.id(), cause = ?error, "the execution cannot go on");
                }
                return false;
            }
            Acceptance::WantsToKnow(reply) => drop(reply.send(Err(error))),
            Acceptance::Waits if self.waiters.is_empty() => {}
            Acceptance::Waits => drop(self.waiters.remove(0).reply.send(Err(error))),
            Acceptance::Refused => {}
        }
        true
    }
}
