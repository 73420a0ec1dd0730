//! Which changes share a transaction, and when the writer is woken for them. The module is pure, so the test includes it.

#![expect(clippy::expect_used, reason = "a test that meets the unexpected stops there")]

#[path = "../src/group.rs"]
mod group;

use std::sync::{Arc, mpsc};
use std::time::Duration;

use group::{ALONG, Change, Gathered, MOST, Pending, Queue, Refused, UNAWAITED, WAIT_UNAWAITED, Wants};
use tokio::time::Instant;

/// A change: what its caller wants, and when it arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Arrival {
    wants: Wants,
    at: Duration,
}

impl Change for Arrival {
    fn wants(&self) -> Wants {
        self.wants
    }
}

fn micros(us: u64) -> Duration {
    Duration::from_micros(us)
}

fn read(us: u64) -> Arrival {
    Arrival { wants: Wants::Nothing, at: micros(us) }
}

fn decision(us: u64) -> Arrival {
    Arrival { wants: Wants::ItsOwn, at: micros(us) }
}

fn flush(us: u64) -> Arrival {
    Arrival { wants: Wants::EverythingBefore, at: micros(us) }
}

/// The group that begins with the first arrival, and when it closes.
fn group_of(mut arrivals: Vec<Arrival>, last_awaited: usize) -> (Vec<Arrival>, Duration) {
    arrivals.sort_by_key(|arrival| arrival.at);
    let begun = Instant::now();
    let (mut pending, mut group) = (Pending::default(), Vec::new());
    for arrival in arrivals {
        let now = begun + arrival.at;
        if pending.due_at(last_awaited).is_some_and(|due| due < now) {
            break;
        }
        pending.add(&arrival, now);
        group.push(arrival);
    }
    let last = group.last().map_or(begun, |last| begun + last.at);
    let closed = pending.due_at(last_awaited).expect("a group that is not empty").max(last);
    (group, closed.duration_since(begun))
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
            let (group, closed) = group_of(arrivals, last_awaited);
            let case = format!("{per_second} reads a second, {last_awaited} answered before");
            assert!(closed <= micros(3_050), "{case}: closed after {closed:?}");
            assert!(group.iter().any(|change| change.wants == Wants::ItsOwn), "{case}: {group:?}");
        }
    }
}

#[test]
fn a_decision_alone_is_written_at_once_and_one_after_a_burst_waits_for_its_likes() {
    assert_eq!(group_of(vec![decision(0), decision(400)], 1), (vec![decision(0)], micros(0)));
    let together = vec![decision(0), decision(400), decision(900), decision(950)];
    assert_eq!(group_of(together.clone(), 4), (together, micros(950)), "all that were there are there again");
    let (group, closed) = group_of(vec![decision(0), decision(900), decision(1_100)], 4);
    assert_eq!((group.len(), closed), (2, micros(1_000)));
}

#[test]
fn reads_alone_are_written_in_small_groups_and_soon() {
    let (one, closed) = group_of(vec![read(0)], 64);
    assert_eq!((one.len(), closed), (1, WAIT_UNAWAITED));
    let (some, closed) = group_of(reads(1_500), 64);
    assert!(some.len() <= 31 && closed == WAIT_UNAWAITED, "{} in {closed:?}", some.len());
    let (many, closed) = group_of(reads(20_000), 0);
    assert!(many.len() == UNAWAITED && closed < WAIT_UNAWAITED, "{} in {closed:?}", many.len());
}

#[test]
fn a_queue_that_is_full_is_written_in_large_groups_and_what_is_left_follows() {
    let queue = Queue::new();
    for _ in 0..MOST + 3 {
        queue.push(decision(0), MOST + 3).expect("room");
    }
    assert_eq!(queue.push(decision(0), MOST + 3), Err(Refused::Full));
    assert_eq!(queue.gather(None), Gathered::Group(vec![decision(0); MOST]));
    assert_eq!(queue.gather(None), Gathered::Group(vec![decision(0); 3]));
    assert_eq!(queue.gather(Some(Duration::ZERO)), Gathered::Nothing);
}

#[test]
fn a_decision_overtakes_a_burst_of_reads_and_takes_the_oldest_of_them_along() {
    let queue = Queue::new();
    let burst = UNAWAITED as u64 + ALONG as u64 + 3;
    (0..burst).for_each(|n| queue.push(read(n), MOST).expect("room"));
    queue.push(decision(0), MOST).expect("room");
    let first: Vec<Arrival> = (0..ALONG as u64).map(read).chain([decision(0)]).collect();
    assert_eq!(queue.gather(None), Gathered::Group(first));
    let second: Vec<Arrival> = (ALONG as u64..burst - 3).map(read).collect();
    assert_eq!(
        queue.gather(None),
        Gathered::Group(second),
        "a decision that comes now waits for no more than these"
    );
    assert_eq!(queue.gather(None), Gathered::Group((burst - 3..burst).map(read).collect()));
}

#[test]
fn whoever_wants_everything_before_comes_after_all_of_it_and_does_not_wait_for_company() {
    let queue = Queue::new();
    let burst = UNAWAITED as u64 + 1;
    (0..burst).for_each(|n| queue.push(read(n), MOST).expect("room"));
    queue.push(flush(0), MOST).expect("room");
    queue.push(read(burst), MOST).expect("room");
    let begun = Instant::now();
    assert_eq!(queue.gather(None), Gathered::Group((0..burst - 1).map(read).collect()));
    assert_eq!(queue.gather(None), Gathered::Group(vec![read(burst - 1), flush(0), read(burst)]));
    assert!(begun.elapsed() < WAIT_UNAWAITED, "{:?}", begun.elapsed());
}

#[test]
fn a_writer_that_sleeps_is_woken_by_a_decision_and_by_the_end() {
    let queue = Arc::new(Queue::new());
    let seen = Arc::clone(&queue);
    let (gathered, groups) = mpsc::channel();
    let writer = std::thread::spawn(move || while gathered.send(seen.gather(None)).is_ok() {});
    let next = || groups.recv().expect("the writer goes on");
    queue.push(decision(1), 9).expect("room");
    assert_eq!(next(), Gathered::Group(vec![decision(1)]));
    queue.push(read(2), 9).expect("room");
    assert_eq!(next(), Gathered::Group(vec![read(2)]));
    queue.close();
    assert_eq!(queue.push(read(3), 9), Err(Refused::Closed));
    assert_eq!(next(), Gathered::Closed);
    drop(groups);
    writer.join().expect("the writer ends");
}
