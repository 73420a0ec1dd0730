//! Which changes share a transaction.
//!
//! A transaction costs one wait for the medium whether it carries one change or many, so the writer waits a moment for more. It
//! sleeps meanwhile: a change wakes it only where it makes the group due, or due earlier.
//!
//! Promise: a group closes at the latest [`WAIT_AWAITED`] after the first change in it that somebody waits for, whatever arrives.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The most changes that share a transaction: enough to make the `fsync` cheap, few enough to answer the first soon.
const MOST: usize = 512;
/// The longest that an awaited change waits for others. It waits only where at least [`SHARED`] were answered together the last
/// time: they come again together.
const WAIT_AWAITED: Duration = Duration::from_millis(1);
/// From here on a transaction was a shared one.
const SHARED: usize = 4;
/// The longest that changes which nobody waits for are kept back. A reader does not wait for this.
const WAIT_UNAWAITED: Duration = Duration::from_millis(20);
/// So many changes that nobody waits for are written at once: an awaited change that comes meanwhile waits for them.
const UNAWAITED: usize = 64;

/// A change in the queue.
pub(crate) trait Change {
    /// Whether somebody waits until it is on the medium.
    fn is_awaited(&self) -> bool;
}

/// The changes on their way to the writer, in the order in which they were queued.
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
    changes: VecDeque<C>,
    pending: Pending,
    /// How many awaited changes the last transaction with such had.
    last_awaited: usize,
    is_closed: bool,
}

/// What is known of the changes that wait, without looking at them.
#[derive(Debug, Clone, Copy, Default)]
struct Pending {
    count: usize,
    awaited: usize,
    /// When the first change came.
    since: Option<Instant>,
    /// When the first awaited change came.
    awaited_since: Option<Instant>,
}

impl<C: Change> Queue<C> {
    /// An empty queue.
    pub(crate) fn new() -> Self {
        let state = State {
            changes: VecDeque::new(),
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
        if state.changes.len() >= bound {
            return Err(Refused::Full);
        }
        let now = Instant::now();
        let before = state.pending.due_at(state.last_awaited);
        state.pending.add(&change, now);
        state.changes.push_back(change);
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
            if is_due || (state.is_closed && !state.changes.is_empty()) {
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
    /// The changes of the next transaction. Those that are left keep the time at which the first change came, so they are due soon.
    fn take(&mut self) -> Vec<C> {
        let group: Vec<C> = self.changes.drain(..self.changes.len().min(MOST)).collect();
        let awaited = group.iter().filter(|change| change.is_awaited()).count();
        if awaited > 0 {
            self.last_awaited = awaited;
        }
        let Pending { since, awaited_since, awaited: all_awaited, .. } = self.pending;
        self.pending = match (self.changes.len(), all_awaited - awaited) {
            (0, _) => Pending::default(),
            (count, 0) => Pending { count, awaited: 0, since, awaited_since: None },
            (count, awaited) => Pending { count, awaited, since, awaited_since },
        };
        group
    }
}

impl Pending {
    fn add(&mut self, change: &impl Change, now: Instant) {
        self.count += 1;
        self.since.get_or_insert(now);
        if change.is_awaited() {
            self.awaited += 1;
            self.awaited_since.get_or_insert(now);
        }
    }

    /// When they are to be written; nothing where there are none. `last_awaited` is how many were answered together the last time.
    fn due_at(&self, last_awaited: usize) -> Option<Instant> {
        let since = self.since?;
        let comes_again = last_awaited >= SHARED && self.awaited < last_awaited;
        Some(match self.awaited_since {
            _ if self.count >= MOST => since,
            None if self.count >= UNAWAITED => since,
            None => since + WAIT_UNAWAITED,
            Some(awaited_since) if comes_again => (awaited_since + WAIT_AWAITED).min(since + WAIT_UNAWAITED),
            Some(awaited_since) => awaited_since,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// A change: whether it is awaited, and when it arrives.
    #[derive(Debug, Clone, Copy, PartialEq)]
    struct Arrival {
        awaited: bool,
        at: Duration,
    }

    impl Change for Arrival {
        fn is_awaited(&self) -> bool {
            self.awaited
        }
    }

    fn micros(us: u64) -> Duration {
        Duration::from_micros(us)
    }

    fn read(us: u64) -> Arrival {
        Arrival { awaited: false, at: micros(us) }
    }

    fn decision(us: u64) -> Arrival {
        Arrival { awaited: true, at: micros(us) }
    }

    /// The group that begins with the first arrival, and when it closed, as the queue's own reckoning has it.
    fn group(mut arrivals: Vec<Arrival>, last_awaited: usize) -> (Vec<Arrival>, Duration) {
        arrivals.sort_by_key(|arrival| arrival.at);
        let begun = Instant::now();
        let queue = Queue::new();
        let mut state = queue.locked();
        state.last_awaited = last_awaited;
        let mut closed = None;
        for arrival in arrivals {
            let now = begun + arrival.at;
            if let Some(due) = state.pending.due_at(last_awaited).filter(|due| *due < now) {
                closed = Some(due);
                break;
            }
            state.pending.add(&arrival, now);
            state.changes.push_back(arrival);
        }
        let last = state.changes.back().map_or(begun, |last| begun + last.at);
        let closed = closed.or_else(|| state.pending.due_at(last_awaited)).unwrap().max(last);
        (state.take(), closed.duration_since(begun))
    }

    /// Reads that come evenly, so many a second, for a second.
    fn reads(per_second: u64) -> Vec<Arrival> {
        (0..per_second).map(|n| read(n * 1_000_000 / per_second)).collect()
    }

    #[test]
    fn a_decision_amid_reads_closes_its_group_within_a_millisecond_also_after_a_burst() {
        for per_second in [500, 1_500, 2_500, 20_000] {
            for last_awaited in [0, 1, 4, 64] {
                let mut arrivals = reads(per_second);
                arrivals.retain(|read| read.at >= micros(2_000));
                arrivals.push(decision(2_050));
                let (group, closed) = group(arrivals, last_awaited);
                let case = format!("{per_second} reads a second, {last_awaited} answered before");
                assert!(closed <= micros(3_050), "{case}: closed after {closed:?}");
                assert!(group.iter().any(|change| change.awaited), "{case}: {group:?}");
            }
        }
    }

    #[test]
    fn a_decision_alone_is_written_at_once_and_one_after_a_burst_waits_for_its_likes() {
        assert_eq!(group(vec![decision(0), decision(400)], 1), (vec![decision(0)], micros(0)));
        let together = vec![decision(0), decision(400), decision(900), decision(950)];
        assert_eq!(
            group(together.clone(), 4),
            (together, micros(950)),
            "all that were there are there again"
        );
        let (group, closed) = group(vec![decision(0), decision(900), decision(1_100)], 4);
        assert_eq!((group.len(), closed), (2, micros(1_000)));
    }

    #[test]
    fn reads_alone_are_written_in_small_groups_and_soon() {
        let (one, closed) = group(vec![read(0)], 64);
        assert_eq!((one.len(), closed), (1, WAIT_UNAWAITED));
        let (some, closed) = group(reads(1_500), 64);
        assert!(some.len() <= 31 && closed == WAIT_UNAWAITED, "{} in {closed:?}", some.len());
        let (many, closed) = group(reads(20_000), 0);
        assert!(many.len() == UNAWAITED && closed < WAIT_UNAWAITED, "{} in {closed:?}", many.len());
    }

    #[test]
    fn a_queue_that_is_full_is_written_in_large_groups_and_what_is_left_follows() {
        let queue = Queue::new();
        for _ in 0..MOST + 3 {
            queue.push(read(0), MOST + 3).unwrap();
        }
        assert_eq!(queue.push(read(0), MOST + 3), Err(Refused::Full));
        let Gathered::Group(group) = queue.gather(None) else { panic!("a group") };
        assert_eq!(group.len(), MOST);
        let Gathered::Group(group) = queue.gather(None) else { panic!("a group") };
        assert_eq!(group.len(), 3);
        assert_eq!(queue.gather(Some(Duration::ZERO)), Gathered::Nothing);
    }

    #[test]
    fn a_writer_that_sleeps_for_reads_is_woken_by_a_decision_and_by_the_end() {
        let queue = Arc::new(Queue::new());
        let seen = Arc::clone(&queue);
        let writer = std::thread::spawn(move || [seen.gather(None), seen.gather(None), seen.gather(None)]);
        queue.push(read(1), 9).unwrap();
        queue.push(decision(2), 9).unwrap();
        while queue.locked().pending.count > 0 {
            std::thread::yield_now();
        }
        queue.push(read(3), 9).unwrap();
        queue.close();
        assert_eq!(queue.push(read(4), 9), Err(Refused::Closed));
        let gathered = writer.join().unwrap();
        let all = [vec![read(1), decision(2)], vec![read(3)]].map(Gathered::Group);
        assert_eq!(gathered[..2], all);
        assert_eq!(gathered[2], Gathered::Closed);
    }
}
