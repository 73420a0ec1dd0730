//! Which changes share a transaction.
//!
//! A transaction costs one wait for the medium whether it carries one change or many, so the writer waits a moment for more. It
//! sleeps meanwhile: a change wakes it only where it makes the group due, or due earlier.
//!
//! Awaited changes overtake unawaited ones, which are records of ended reads: a caller that waits must not wait for a burst of
//! those. Each kind stays in its own order, and a group takes along some of the oldest unawaited changes, so that they never starve.
//!
//! Promises: a group closes at the latest [`WAIT_AWAITED`] after its first awaited change, whatever arrives; it holds no more
//! unawaited changes than [`ALONG`], or [`UNAWAITED`] where no change is awaited; a [`Wants::EverythingBefore`] comes after each change
//! that was queued before it.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The most awaited changes that share a transaction: enough to make the `fsync` cheap, few enough to answer the first soon.
pub(crate) const MOST: usize = 512;
/// The longest that an awaited change waits for others. It waits only where at least [`SHARED`] were answered together the last
/// time: they come again together.
const WAIT_AWAITED: Duration = Duration::from_millis(1);
/// The number of awaited changes that makes a transaction a shared one.
const SHARED: usize = 4;
/// The longest that unawaited changes are kept back. A reader does not wait for this.
pub(crate) const WAIT_UNAWAITED: Duration = Duration::from_millis(20);
/// The number of unawaited changes that are written at once: an awaited change that comes meanwhile waits for them.
pub(crate) const UNAWAITED: usize = 128;
/// The most unawaited changes in a transaction with awaited ones.
pub(crate) const ALONG: usize = 32;

/// A change in the queue.
pub(crate) trait Change {
    /// What its caller waits for.
    fn wants(&self) -> Wants;
}

/// What the caller of a change waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wants {
    /// Nothing: it is written with one of the next transactions.
    Nothing,
    /// That it is on the medium.
    ItsOwn,
    /// That everything queued before it is, too.
    EverythingBefore,
}

/// The changes on their way to the writer.
#[derive(Debug)]
pub(crate) struct Queue<C> {
    state: Mutex<State<C>>,
    is_due: Condvar,
}

/// What the writer's wait ended with.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Gathered<C> {
    /// The changes that share the next transaction.
    Group(Vec<C>),
    /// Nothing came within the time that the writer wanted to wait.
    Nothing,
    /// Nothing will come any more.
    Closed,
}

#[derive(Debug)]
struct State<C> {
    awaited: VecDeque<C>,
    /// And those that want everything before them.
    unawaited: VecDeque<C>,
    pending: Pending,
    /// How many awaited changes the last transaction with such had.
    last_awaited: usize,
    is_closed: bool,
}

/// What is known of the changes that wait, without looking at them.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Pending {
    unawaited: usize,
    awaited: usize,
    /// Changes among the unawaited that want everything before them.
    flushes: usize,
    /// When the first change came.
    since: Option<Instant>,
    /// When the first awaited change came.
    awaited_since: Option<Instant>,
}

impl<C: Change> Queue<C> {
    /// An empty queue.
    pub(crate) fn new() -> Self {
        let state = State {
            awaited: VecDeque::new(),
            unawaited: VecDeque::new(),
            pending: Pending::default(),
            last_awaited: 0,
            is_closed: false,
        };
        Self { state: Mutex::new(state), is_due: Condvar::new() }
    }

    /// Queues a change; gives it back where the queue is closed, or has as many as the bound allows.
    pub(crate) fn push(&self, change: C, bound: usize) -> Result<(), Refused> {
        let mut state = self.locked();
        if state.is_closed {
            return Err(Refused::Closed);
        }
        if state.len() >= bound {
            return Err(Refused::Full);
        }
        let now = Instant::now();
        let before = state.pending.due_at(state.last_awaited);
        state.pending.add(&change, now);
        match change.wants() {
            Wants::ItsOwn => state.awaited.push_back(change),
            Wants::Nothing | Wants::EverythingBefore => state.unawaited.push_back(change),
        }
        let after = state.pending.due_at(state.last_awaited);
        drop(state);
        if before.is_none_or(|before| after.is_some_and(|after| after < before)) {
            self.is_due.notify_one();
        }
        Ok(())
    }

    /// No more changes are taken; those that are there still come.
    pub(crate) fn close(&self) {
        self.locked().is_closed = true;
        self.is_due.notify_one();
    }

    /// Waits until a group is due, or at most so long for its first change.
    pub(crate) fn gather(&self, longest: Option<Duration>) -> Gathered<C> {
        let give_up = longest.map(|longest| Instant::now() + longest);
        let mut state = self.locked();
        loop {
            let now = Instant::now();
            let due = state.pending.due_at(state.last_awaited);
            let is_due = due.is_some_and(|due| due <= now);
            if is_due || (state.is_closed && state.len() > 0) {
                return Gathered::Group(state.take());
            }
            if state.is_closed {
                return Gathered::Closed;
            }
            let until = due.or(give_up);
            if due.is_none() && give_up.is_some_and(|give_up| give_up <= now) {
                return Gathered::Nothing;
            }
            state = match until {
                None => self.is_due.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(until) => {
                    let left = until.saturating_duration_since(now);
                    self.is_due.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    fn locked(&self) -> MutexGuard<'_, State<C>> {
        // Each change of it is whole before anything can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why a change was not queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The queue has as many changes as it may.
    Full,
    /// The store closes.
    Closed,
}

impl<C: Change> State<C> {
    fn len(&self) -> usize {
        self.awaited.len() + self.unawaited.len()
    }

    /// The changes of the next transaction. Those that are left keep the time at which the first change came, so they are due soon.
    fn take(&mut self) -> Vec<C> {
        let awaited = self.awaited.len().min(MOST);
        let most = if awaited > 0 { ALONG } else { UNAWAITED };
        let along = self.unawaited.len().min(most);
        let mut group = Vec::with_capacity(along + awaited);
        group.extend(self.unawaited.drain(..along));
        let flushes = group.iter().filter(|change| change.wants() == Wants::EverythingBefore).count();
        group.extend(self.awaited.drain(..awaited));
        if awaited > 0 {
            self.last_awaited = awaited;
        }
        let Pending { since, awaited_since, flushes: all_flushes, .. } = self.pending;
        self.pending = Pending {
            unawaited: self.unawaited.len(),
            awaited: self.awaited.len(),
            flushes: all_flushes - flushes,
            since: since.filter(|_| self.len() > 0),
            awaited_since: awaited_since.filter(|_| !self.awaited.is_empty()),
        };
        group
    }
}

impl Pending {
    /// Counts a change that came at a moment.
    pub(crate) fn add(&mut self, change: &impl Change, now: Instant) {
        self.since.get_or_insert(now);
        match change.wants() {
            Wants::Nothing => self.unawaited += 1,
            Wants::ItsOwn => {
                self.awaited += 1;
                self.awaited_since.get_or_insert(now);
            }
            Wants::EverythingBefore => {
                self.unawaited += 1;
                self.flushes += 1;
            }
        }
    }

    /// When they are to be written; nothing where there are none. `last_awaited` is how many were answered together the last time.
    pub(crate) fn due_at(&self, last_awaited: usize) -> Option<Instant> {
        let since = self.since?;
        let comes_again = last_awaited >= SHARED && self.awaited < last_awaited;
        Some(match self.awaited_since {
            _ if self.awaited >= MOST || self.unawaited >= UNAWAITED || self.flushes > 0 => since,
            None => since + WAIT_UNAWAITED,
            Some(awaited_since) if comes_again => (awaited_since + WAIT_AWAITED).min(since + WAIT_UNAWAITED),
            Some(awaited_since) => awaited_since,
        })
    }
}
