//! Executions in memory: which task owns them, which rest without a task, and which callers wait for them.
//!
//! Promise: at most one task owns an execution. A message is delivered under the lock of the execution's shard, and an owner
//! leaves under the same lock, only while its mailbox is empty: no message falls in between. An execution that can only wait
//! for people rests as a value, without a task, and is forgotten after a while: its journal has everything.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher as _, Hash, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use countersign_core::execution::{Execution, Next, Status};
use countersign_core::ids::{ElicitationId, ExecutionId};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use crate::allocator::return_freed_memory;
use crate::error::GatewayError;
use crate::journal::Record;
use crate::kernel::Kernel;
use crate::owner::Message;
use crate::result::ExecutionResult;

const SHARDS: usize = 32;
/// The most executions that rest in memory. The others are in the store alone, and a decision about one of them reads its
/// journal.
const MAX_RESTING: usize = 256;
/// After so many executions were parked, their memory is given back as soon as none rests.
const PARKED_UNTIL_MEMORY_IS_RETURNED: usize = 1_000;
/// How often it is noticed, at the latest, that the gateway is gone.
const LONGEST_NAP: Duration = Duration::from_secs(1);

/// A caller that waits for an execution.
pub(crate) struct Waiter {
    pub(crate) until: Until,
    pub(crate) reply: oneshot::Sender<Result<ExecutionResult, GatewayError>>,
}

/// The condition that ends a caller's wait.
#[derive(Debug, Clone)]
pub(crate) enum Until {
    /// It ended or is in doubt.
    Ended,
    /// The same, or a question is open.
    Paused,
    /// It ended, is in doubt, or asks something that was not open at the first look.
    AsksAnew(Option<Vec<ElicitationId>>),
    /// A question is no longer open.
    Answered(ElicitationId),
    /// It does not wait for people: it has something to do, or it ended.
    Moved,
}

/// The two ends of an owner's mailbox.
pub(crate) struct Mailbox {
    pub(crate) address: UnboundedSender<Message>,
    pub(crate) messages: UnboundedReceiver<Message>,
}

/// An execution that a new owner takes over.
pub(crate) struct Taken {
    pub(crate) mailbox: Mailbox,
    pub(crate) waiters: Vec<Waiter>,
}

/// The delivery of a message.
pub(crate) enum Delivery {
    /// The owner has it.
    Sent,
    /// The execution rested: the sender makes it an owner, which begins with the message.
    Rested(Box<Record>, Taken, Message),
    /// The execution is not in memory.
    NotHere(Message),
}

/// Where an execution is, for a caller that only looks.
pub(crate) enum Seen<T> {
    /// A task owns it.
    Owned(UnboundedSender<Message>),
    /// It rests, and this is what it shows.
    Resting(T),
    /// It is not in memory.
    NotHere,
}

/// An owner that is about to leave, with the execution's shard locked.
pub(crate) struct Leaving<'a> {
    registry: &'a Registry,
    id: ExecutionId,
    shard: MutexGuard<'a, HashMap<ExecutionId, Entry>>,
}

impl Leaving<'_> {
    /// The execution stays in memory for a while, as a value.
    pub(crate) fn rest(mut self, record: Box<Record>, waiters: Vec<Waiter>) {
        let since = Instant::now();
        self.shard.insert(self.id, Entry { presence: Presence::Resting(record, since), waiters });
        drop(self.shard);
        self.registry.note_rest(self.id, since);
    }

    /// The execution is in the store alone, or has ended.
    pub(crate) fn forget(mut self, waiters: Vec<Waiter>) {
        self.registry.live.fetch_sub(1, Ordering::Relaxed);
        if waiters.is_empty() {
            self.shard.remove(&self.id);
        } else {
            self.shard.insert(self.id, Entry { presence: Presence::Stored, waiters });
        }
    }
}

/// The executions in memory.
pub(crate) struct Registry {
    hasher: RandomState,
    executions: [Mutex<HashMap<ExecutionId, Entry>>; SHARDS],
    questions: [Mutex<HashMap<ElicitationId, ExecutionId>>; SHARDS],
    pub(crate) resting: Arc<RestQueue>,
    live: AtomicUsize,
}

struct Entry {
    presence: Presence,
    /// Those who wait for an execution that no task owns; an owner holds its own.
    waiters: Vec<Waiter>,
}

enum Presence {
    Owned(UnboundedSender<Message>),
    Resting(Box<Record>, Instant),
    Stored,
}

impl Mailbox {
    pub(crate) fn new() -> Self {
        let (address, messages) = unbounded_channel();
        Self { address, messages }
    }
}

impl Default for Registry {
    fn default() -> Self {
        Self {
            hasher: RandomState::new(),
            executions: std::array::from_fn(|_| Mutex::default()),
            questions: std::array::from_fn(|_| Mutex::default()),
            resting: Arc::default(),
            live: AtomicUsize::new(0),
        }
    }
}

impl Registry {
    /// How many executions are owned or rest.
    pub(crate) fn len(&self) -> usize {
        self.live.load(Ordering::Relaxed)
    }

    /// Gives a message to the owner, or says why there is none.
    pub(crate) fn deliver(&self, id: ExecutionId, message: Message) -> Delivery {
        let mut shard = self.shard(&id);
        let Some(entry) = shard.get_mut(&id) else { return Delivery::NotHere(message) };
        let message = match &entry.presence {
            Presence::Owned(address) => match address.send(message) {
                Ok(()) => return Delivery::Sent,
                // The owner's task died: what it had not recorded is lost, and the journal is the truth.
                Err(lost) => {
                    self.live.fetch_sub(1, Ordering::Relaxed);
                    entry.presence = Presence::Stored;
                    return Delivery::NotHere(lost.0);
                }
            },
            Presence::Stored => return Delivery::NotHere(message),
            Presence::Resting(..) => message,
        };
        let mailbox = Mailbox::new();
        let before = std::mem::replace(&mut entry.presence, Presence::Owned(mailbox.address.clone()));
        let waiters = std::mem::take(&mut entry.waiters);
        match before {
            Presence::Resting(record, _) => Delivery::Rested(record, Taken { mailbox, waiters }, message),
            Presence::Owned(_) | Presence::Stored => Delivery::NotHere(message),
        }
    }

    /// Makes the caller the owner of an execution that it read from the store; nothing where it has an owner or rests in memory.
    pub(crate) fn claim(&self, id: ExecutionId) -> Option<Taken> {
        let mut shard = self.shard(&id);
        let waiters = match shard.get_mut(&id) {
            None => Vec::new(),
            Some(Entry { presence: Presence::Stored, waiters }) => std::mem::take(waiters),
            Some(_) => return None,
        };
        let mailbox = Mailbox::new();
        let presence = Presence::Owned(mailbox.address.clone());
        shard.insert(id, Entry { presence, waiters: Vec::new() });
        self.live.fetch_add(1, Ordering::Relaxed);
        Some(Taken { mailbox, waiters })
    }

    /// Makes an execution findable that only its own task knew so far.
    pub(crate) fn list(&self, id: ExecutionId, address: &UnboundedSender<Message>) {
        let entry = Entry { presence: Presence::Owned(address.clone()), waiters: Vec::new() };
        self.shard(&id).insert(id, entry);
        self.live.fetch_add(1, Ordering::Relaxed);
    }

    /// Begins to end an ownership: no message is delivered before the guard is gone.
    pub(crate) fn leaving(&self, id: ExecutionId) -> Leaving<'_> {
        Leaving { registry: self, id, shard: self.shard(&id) }
    }

    /// Adds a caller that waits. Nothing is given back where an owner has it or it was answered; else the execution is not in
    /// memory, and the caller must look at the store: it is told of whatever happens from now on.
    pub(crate) fn wait(
        &self,
        id: ExecutionId,
        mut waiter: Waiter,
        show: impl Fn(&Execution) -> ExecutionResult,
    ) -> Seen<()> {
        let mut shard = self.shard(&id);
        let entry =
            shard.entry(id).or_insert_with(|| Entry { presence: Presence::Stored, waiters: Vec::new() });
        match &entry.presence {
            Presence::Owned(address) => match address.send(Message::Wait(waiter)) {
                Ok(()) => Seen::Owned(address.clone()),
                Err(_) => {
                    self.live.fetch_sub(1, Ordering::Relaxed);
                    entry.presence = Presence::Stored;
                    Seen::NotHere
                }
            },
            Presence::Resting(record, _) => {
                if waiter.until.holds(&record.execution) {
                    // A caller that hung up wants no answer.
                    let _ = waiter.reply.send(Ok(show(&record.execution)));
                } else {
                    entry.waiters.push(waiter);
                }
                Seen::Resting(())
            }
            Presence::Stored => {
                entry.waiters.push(waiter);
                Seen::NotHere
            }
        }
    }

    /// Forgets callers that hung up.
    pub(crate) fn forget_waiters(&self, id: ExecutionId) {
        let mut shard = self.shard(&id);
        if let Some(entry) = shard.get_mut(&id) {
            entry.waiters.retain(|waiter| !waiter.reply.is_closed());
            if entry.waiters.is_empty() && matches!(entry.presence, Presence::Stored) {
                shard.remove(&id);
            }
        }
    }

    /// Looks at an execution where it is.
    pub(crate) fn look<T>(&self, id: ExecutionId, look: impl FnOnce(&Execution) -> T) -> Seen<T> {
        match self.shard(&id).get(&id).map(|entry| &entry.presence) {
            Some(Presence::Owned(address)) => Seen::Owned(address.clone()),
            Some(Presence::Resting(record, _)) => Seen::Resting(look(&record.execution)),
            Some(Presence::Stored) | None => Seen::NotHere,
        }
    }

    /// Remembers which execution asks a question, so that its decider needs no read.
    pub(crate) fn note_question(&self, question: ElicitationId, execution: ExecutionId) {
        self.question_shard(&question).insert(question, execution);
    }

    pub(crate) fn forget_question(&self, question: ElicitationId) {
        self.question_shard(&question).remove(&question);
    }

    pub(crate) fn asker(&self, question: ElicitationId) -> Option<ExecutionId> {
        self.question_shard(&question).get(&question).copied()
    }

    /// Tells every owner something; for the end of the process only.
    pub(crate) fn tell_all(&self, message: impl Fn() -> Message) {
        for shard in &self.executions {
            for entry in unpoisoned(shard).values() {
                if let Presence::Owned(address) = &entry.presence {
                    // An owner that is gone needs to be told nothing.
                    let _ = address.send(message());
                }
            }
        }
    }

    /// Forgets an execution that has rested since this moment.
    fn park(&self, id: ExecutionId, since: Instant) {
        let mut shard = self.shard(&id);
        let Some(entry) = shard.get_mut(&id) else { return };
        if !matches!(entry.presence, Presence::Resting(_, at) if at == since) {
            return;
        }
        let waiters = std::mem::take(&mut entry.waiters);
        if let Some(Entry { presence: Presence::Resting(record, _), .. }) = shard.remove(&id) {
            record.execution.open().for_each(|question| self.forget_question(question.id));
        }
        if !waiters.is_empty() {
            shard.insert(id, Entry { presence: Presence::Stored, waiters });
        }
        self.live.fetch_sub(1, Ordering::Relaxed);
        self.resting.parked.fetch_add(1, Ordering::Relaxed);
    }

    fn note_rest(&self, id: ExecutionId, since: Instant) {
        let mut queue = unpoisoned(&self.resting.queue);
        if queue.is_empty() {
            self.resting.added.notify_one();
        }
        queue.push_back((since, id));
        let oldest = if queue.len() > MAX_RESTING { queue.pop_front() } else { None };
        drop(queue);
        if let Some((since, id)) = oldest {
            self.park(id, since);
        }
    }

    fn shard(&self, id: &ExecutionId) -> MutexGuard<'_, HashMap<ExecutionId, Entry>> {
        unpoisoned(&self.executions[self.index(id)])
    }

    fn question_shard(&self, id: &ElicitationId) -> MutexGuard<'_, HashMap<ElicitationId, ExecutionId>> {
        unpoisoned(&self.questions[self.index(id)])
    }

    fn index(&self, id: &impl Hash) -> usize {
        usize::try_from(self.hasher.hash_one(id) % SHARDS as u64).unwrap_or(0)
    }
}

impl Until {
    /// Whether the wait is over.
    pub(crate) fn holds(&mut self, execution: &Execution) -> bool {
        let status = execution.status();
        let ended = status.is_final() || status == Status::InDoubt;
        match self {
            Self::Ended => ended,
            Self::Paused => ended || execution.open().next().is_some(),
            Self::AsksAnew(known) => {
                let known = known.get_or_insert_with(|| execution.open().map(|e| e.id).collect());
                ended || execution.open().any(|question| !known.contains(&question.id))
            }
            Self::Answered(id) => !execution.open().any(|question| question.id == *id),
            Self::Moved => execution.next() != Next::AwaitPeople,
        }
    }
}

/// Executions that rest, in the order in which they began to.
#[derive(Default)]
pub(crate) struct RestQueue {
    queue: Mutex<VecDeque<(Instant, ExecutionId)>>,
    added: Notify,
    /// How many were parked since their memory was last given back.
    parked: AtomicUsize,
}

impl RestQueue {
    /// Gives the memory of parked executions back, if they were many and none rests that would soon need as much.
    fn return_memory_after_a_burst(&self) {
        let were_many = self.parked.load(Ordering::Relaxed) >= PARKED_UNTIL_MEMORY_IS_RETURNED;
        if were_many && unpoisoned(&self.queue).is_empty() {
            self.parked.store(0, Ordering::Relaxed);
            return_freed_memory();
        }
    }
}

/// Forgets executions that have rested for [`crate::Settings::park_after`], until the gateway is gone or closed. It holds the
/// gateway only while it works, so that dropping the last one frees the store at once.
pub(crate) async fn park_resting(kernel: Weak<Kernel>, resting: Arc<RestQueue>) {
    loop {
        let next = unpoisoned(&resting.queue).front().copied();
        let Some(park_after) = kernel.upgrade().filter(|k| !k.is_closed()).map(|k| k.settings.park_after)
        else {
            return;
        };
        let due = next.map(|(since, _)| since + park_after);
        let nap = Instant::now() + LONGEST_NAP;
        tokio::select! {
            biased;
            () = tokio::time::sleep_until(due.unwrap_or(nap).min(nap)) => {}
            () = resting.added.notified(), if due.is_none() => {}
        }
        if let (Some((since, id)), Some(kernel)) = (next, kernel.upgrade())
            && due.is_some_and(|due| Instant::now() >= due)
        {
            // Where too many rest, it may have left the queue meanwhile.
            unpoisoned(&resting.queue).pop_front_if(|front| *front == (since, id));
            kernel.registry.park(id, since);
            resting.return_memory_after_a_burst();
        }
    }
}

/// The maps stay whole even if a holder panicked: each change to them is one call.
fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
