//! Executions in memory.
//!
//! Promise: at most one [`Live`] per execution is in the registry, and at most one task drives it. Parking removes it;
//! whoever still holds it sees `gone` and looks again. A parked execution costs nothing here.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use countersign_core::event::{Event, Kind, LogLine};
use countersign_core::execution::{ApplyError, Execution};
use countersign_core::ids::{ElicitationId, ExecutionId};
use countersign_sdk::PrincipalId;
use tokio::sync::{Notify, OwnedMutexGuard, oneshot, watch};

pub(crate) type Guard = OwnedMutexGuard<State>;

/// An execution in memory.
pub(crate) struct Live {
    pub(crate) id: ExecutionId,
    state: Arc<tokio::sync::Mutex<State>>,
    pub(crate) kind: Kind,
    /// For whom it runs.
    pub(crate) requester: PrincipalId,
    logs: Mutex<Vec<(Speaker, LogLine)>>,
    /// Fires at each question, so that parking starts its timer only where there is one.
    pub(crate) asked: Notify,
    cancelled: watch::Sender<Cancel>,
    /// Who wants a script stopped that cannot be stopped yet, and why.
    wish: Mutex<Option<(PrincipalId, String)>>,
}

/// Who logged a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Speaker {
    /// A tool's handler.
    Handler,
    /// The script; it says the same again when it is replayed.
    Script,
}

/// Whether somebody wants the execution stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cancel {
    No,
    Requested,
}

/// What changes about an execution in memory.
pub(crate) struct State {
    pub(crate) execution: Execution,
    /// Applied, but not in the store yet.
    pub(crate) unflushed: Vec<Event>,
    /// How many events the store is known to have.
    pub(crate) stored: u64,
    /// Handlers that wait for an answer in this process.
    pub(crate) answers: HashMap<ElicitationId, oneshot::Sender<()>>,
    /// A task drives it.
    pub(crate) driven: bool,
    /// A write failed: what is in memory may not be what is stored.
    pub(crate) doubtful: bool,
    /// It is no longer in the registry.
    pub(crate) gone: bool,
    /// How often it was read anew: whoever remembers another number remembers what may never have happened.
    pub(crate) reloads: u64,
}

impl Live {
    pub(crate) fn new(state: State) -> Self {
        Self {
            id: state.execution.id(),
            kind: state.execution.kind(),
            requester: state.execution.requester().id.clone(),
            state: Arc::new(tokio::sync::Mutex::new(state)),
            logs: Mutex::default(),
            asked: Notify::new(),
            cancelled: watch::Sender::new(Cancel::No),
            wish: Mutex::default(),
        }
    }

    pub(crate) async fn lock(&self) -> Guard {
        Arc::clone(&self.state).lock_owned().await
    }

    pub(crate) fn log(&self, speaker: Speaker, line: LogLine, bound: usize) {
        let mut logs = unpoisoned(&self.logs);
        if logs.len() < bound {
            logs.push((speaker, line));
        }
    }

    /// A script that starts over says everything again.
    pub(crate) fn forget_what_the_script_said(&self) {
        unpoisoned(&self.logs).retain(|(speaker, _)| *speaker != Speaker::Script);
    }

    pub(crate) fn logs(&self) -> Vec<LogLine> {
        unpoisoned(&self.logs).iter().map(|(_, line)| line.clone()).collect()
    }

    pub(crate) fn request_cancel(&self) {
        self.cancelled.send_replace(Cancel::Requested);
    }

    /// A script that acts right now is to be stopped as soon as it no longer does.
    pub(crate) fn wish_cancelled(&self, by: PrincipalId, reason: &str) {
        unpoisoned(&self.wish).get_or_insert((by, reason.to_owned()));
    }

    pub(crate) fn wish(&self) -> Option<(PrincipalId, String)> {
        unpoisoned(&self.wish).clone()
    }

    pub(crate) async fn cancel_requested(&self) {
        // The sender lives as long as `self`, so waiting can only end with the request.
        let _ = self.cancelled.subscribe().wait_for(|c| *c == Cancel::Requested).await;
    }
}

impl State {
    /// An execution that is not in the store yet.
    pub(crate) fn fresh(events: Vec<Event>) -> Result<Self, ApplyError> {
        let execution = Execution::replay(&events)?;
        Ok(Self { unflushed: events, stored: 0, ..Self::stored(execution) })
    }

    /// An execution as the store has it.
    pub(crate) fn stored(execution: Execution) -> Self {
        Self {
            stored: execution.version(),
            execution,
            unflushed: Vec::new(),
            answers: HashMap::new(),
            driven: false,
            doubtful: false,
            gone: false,
            reloads: 0,
        }
    }

    /// Takes over what the store has. Where a write failed and the store has nothing new, the execution goes back to
    /// before that write, with what was noted until then. Where it has something new, that is the truth: what is not
    /// there was never confirmed to anybody, and is forgotten.
    pub(crate) fn reload(&mut self, journal: &[Event]) -> Result<(), ApplyError> {
        if journal.len() as u64 == self.stored {
            self.execution = Execution::replay(journal.iter().chain(&self.unflushed))?;
        } else {
            self.execution = Execution::replay(journal)?;
            self.unflushed.clear();
            self.stored = self.execution.version();
            self.reloads += 1;
        }
        self.doubtful = false;
        // A decision whose answer was lost is news to the handler that waits for it.
        let execution = &self.execution;
        self.answers.retain(|id, waiting| !waiting.is_closed() && execution.open().any(|e| e.id == *id));
        Ok(())
    }

    /// Whether the store knows of it.
    pub(crate) fn is_stored(&self) -> bool {
        self.stored > 0
    }
}

/// The executions in memory, and which of them asked what.
#[derive(Default)]
pub(crate) struct Registry {
    inner: Mutex<Entries>,
}

#[derive(Default)]
struct Entries {
    live: HashMap<ExecutionId, Arc<Live>>,
    asked: HashMap<ElicitationId, ExecutionId>,
}

impl Registry {
    pub(crate) fn get(&self, id: ExecutionId) -> Option<Arc<Live>> {
        unpoisoned(&self.inner).live.get(&id).cloned()
    }

    /// Adds an execution; if somebody else was faster, theirs stays and is given back.
    pub(crate) fn insert(&self, live: Arc<Live>) -> Arc<Live> {
        Arc::clone(unpoisoned(&self.inner).live.entry(live.id).or_insert(live))
    }

    /// Removes exactly this one; another of the same id stays.
    pub(crate) fn remove(&self, live: &Arc<Live>) {
        let mut entries = unpoisoned(&self.inner);
        if entries.live.get(&live.id).is_some_and(|there| Arc::ptr_eq(there, live)) {
            entries.live.remove(&live.id);
            entries.asked.retain(|_, execution| *execution != live.id);
        }
    }

    pub(crate) fn note_asked(&self, elicitation: ElicitationId, execution: ExecutionId) {
        unpoisoned(&self.inner).asked.insert(elicitation, execution);
    }

    pub(crate) fn forget_asked(&self, elicitation: ElicitationId) {
        unpoisoned(&self.inner).asked.remove(&elicitation);
    }

    pub(crate) fn asker(&self, elicitation: ElicitationId) -> Option<ExecutionId> {
        unpoisoned(&self.inner).asked.get(&elicitation).copied()
    }

    pub(crate) fn all(&self) -> Vec<Arc<Live>> {
        unpoisoned(&self.inner).live.values().cloned().collect()
    }

    pub(crate) fn scripts(&self) -> usize {
        unpoisoned(&self.inner).live.values().filter(|live| live.kind == Kind::Script).count()
    }

    pub(crate) fn scripts_of(&self, requester: &PrincipalId) -> usize {
        let mine = |live: &&Arc<Live>| live.kind == Kind::Script && live.requester == *requester;
        unpoisoned(&self.inner).live.values().filter(mine).count()
    }

    pub(crate) fn len(&self) -> usize {
        unpoisoned(&self.inner).live.len()
    }
}

/// Callers that wait for an execution to change, wherever it is at the moment.
#[derive(Default)]
pub(crate) struct Waiters {
    inner: Mutex<HashMap<ExecutionId, (Arc<Notify>, usize)>>,
}

/// A place among the waiters, given up when dropped.
pub(crate) struct Waiting<'a> {
    waiters: &'a Waiters,
    id: ExecutionId,
    pub(crate) changed: Arc<Notify>,
}

impl Waiters {
    pub(crate) fn join(&self, id: ExecutionId) -> Waiting<'_> {
        let mut inner = unpoisoned(&self.inner);
        let (changed, count) = inner.entry(id).or_default();
        *count += 1;
        Waiting { waiters: self, id, changed: Arc::clone(changed) }
    }

    pub(crate) fn wake(&self, id: ExecutionId) {
        if let Some((changed, _)) = unpoisoned(&self.inner).get(&id) {
            changed.notify_waiters();
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut inner = unpoisoned(&self.waiters.inner);
        if let Some((_, count)) = inner.get_mut(&self.id) {
            *count -= 1;
            if *count == 0 {
                inner.remove(&self.id);
            }
        }
    }
}

/// The maps stay whole even if a holder panicked: each change to them is one call.
fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
