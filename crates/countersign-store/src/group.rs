//! Which changes share a transaction.
//!
//! A transaction costs one wait for the medium whether it carries one change or many, so the writer waits a moment for more.
//!
//! Promise: a group closes at the latest [`WAIT_AWAITED`] after the first change in it that somebody waits for, whatever arrives.

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

/// The queue of changes, and the clock.
pub(crate) trait Queue<C> {
    /// The next change, where one is there.
    fn ready(&mut self) -> Option<C>;
    /// The next change; nothing where none comes in time.
    fn wait(&mut self, longest: Duration) -> Option<C>;
    fn now(&self) -> Instant;
}

/// The changes that are written together with the first one. `last_awaited` is how many were answered together the last time.
pub(crate) fn gather<C: Change>(first: C, queue: &mut impl Queue<C>, last_awaited: usize) -> Vec<C> {
    let mut group = Group { opened_at: queue.now(), awaited_since: None, awaited: 0, changes: Vec::new() };
    let mut next = Some(first);
    while let Some(change) = next {
        let now = queue.now();
        group.add(change, now);
        if group.is_due(now) {
            break;
        }
        next = queue.ready();
        if next.is_none()
            && let Some(end) = group.end(last_awaited)
        {
            next = queue.wait(end.saturating_duration_since(queue.now()));
        }
    }
    group.changes
}

/// A group that is still open.
struct Group<C> {
    opened_at: Instant,
    /// When the first awaited change came.
    awaited_since: Option<Instant>,
    awaited: usize,
    changes: Vec<C>,
}

impl<C: Change> Group<C> {
    fn add(&mut self, change: C, now: Instant) {
        if change.is_awaited() {
            self.awaited += 1;
            self.awaited_since.get_or_insert(now);
        }
        self.changes.push(change);
    }

    /// Whether nothing more is taken, also where it is there.
    fn is_due(&self, now: Instant) -> bool {
        self.changes.len() >= MOST || self.awaited_since.is_some_and(|since| now >= since + WAIT_AWAITED)
    }

    /// Until when to wait for more; nothing where it is time to write.
    fn end(&self, last_awaited: usize) -> Option<Instant> {
        match self.awaited_since {
            None if self.changes.len() >= UNAWAITED => None,
            None => Some(self.opened_at + WAIT_UNAWAITED),
            Some(since) if last_awaited >= SHARED && self.awaited < last_awaited => {
                Some(since + WAIT_AWAITED)
            }
            Some(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

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

    /// A queue whose clock goes only while it is waited for.
    struct Arrivals {
        begun: Instant,
        passed: Duration,
        coming: VecDeque<Arrival>,
    }

    impl Queue<Arrival> for Arrivals {
        fn ready(&mut self) -> Option<Arrival> {
            self.coming.pop_front_if(|next| next.at <= self.passed)
        }

        fn wait(&mut self, longest: Duration) -> Option<Arrival> {
            let end = self.passed + longest;
            let next = self.coming.pop_front_if(|next| next.at <= end);
            self.passed = next.map_or(end, |next| next.at.max(self.passed));
            next
        }

        fn now(&self) -> Instant {
            self.begun + self.passed
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

    /// The group that begins with the first arrival, and when it closed.
    fn group(mut arrivals: Vec<Arrival>, last_awaited: usize) -> (Vec<Arrival>, Duration) {
        arrivals.sort_by_key(|arrival| arrival.at);
        let first = arrivals.remove(0);
        let mut queue = Arrivals { begun: Instant::now(), passed: first.at, coming: arrivals.into() };
        (gather(first, &mut queue, last_awaited), queue.passed)
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
                arrivals.push(decision(2_050));
                let (group, closed) = group(arrivals, last_awaited);
                let case = format!("{per_second} reads a second, {last_awaited} answered before");
                assert!(group.iter().any(|change| change.awaited), "{case}");
                assert!(closed <= micros(3_050), "{case}: closed after {closed:?}");
            }
        }
    }

    #[test]
    fn a_decision_alone_is_written_at_once_and_one_after_a_burst_waits_for_its_likes() {
        assert_eq!(group(vec![decision(0), decision(400)], 1), (vec![decision(0)], micros(0)));
        let together = vec![decision(0), decision(400), decision(900), decision(950)];
        assert_eq!(group(together.clone(), 4), (together, micros(950)), "all who were there are there again");
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
    fn a_queue_that_is_full_is_written_in_large_groups() {
        let (group, closed) = group(vec![read(0); 2_000], 0);
        assert_eq!((group.len(), closed), (MOST, micros(0)));
    }
}
