//! Places: how many scripts have a VM at once, and whose they are.
//!
//! Promise: no principal holds more than its share, so that the scripts of others start at once however many it runs. Some
//! places are kept for executions that a person approved. A VM that only waits gives its place back as soon as somebody
//! else needs it: its script is replayed when there is news. The holder of the fewest places is served first.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use countersign_core::execution::Execution;
use countersign_sdk::{Outcome, PrincipalId};
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use crate::ports::{ScriptFault, Vm};

/// Of the places of a host, one in so many is kept for what was approved; at least one, where there are two.
const PLACES_PER_RESERVED: usize = 8;
/// Of whatever principals share, one of them gets at most this fraction, and at least one.
const SHARES: usize = 2;
/// The most scripts of one principal that wait to be accepted; further ones are told to come back at once.
pub(crate) const MOST_WAITING_OF_ONE: usize = 64;
/// A VM that waits for less than this keeps its place: a replay would cost more than it gives.
const SHORTEST_REST: Duration = Duration::from_millis(250);
/// When somebody who found no place should try again.
pub(crate) const RETRY_AFTER: Duration = Duration::from_secs(5);

/// How much of something one principal may have.
pub(crate) fn share_of(total: usize) -> usize {
    (total / SHARES).max(1)
}

/// The fault of a script for which there is no room at the moment.
pub(crate) fn busy() -> ScriptFault {
    ScriptFault::Busy { retry_after_s: RETRY_AFTER.as_secs() }
}

/// The reason for wanting a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Claim {
    /// A person approved something in this execution; it may use the places that are kept for that.
    Approved,
    /// It was accepted before and goes on.
    Continued,
    /// It is to be accepted.
    New,
}

impl Claim {
    /// The claim of an execution that goes on.
    pub(crate) fn of(execution: &Execution) -> Self {
        let mut decisions = execution.asked().iter().filter_map(|asked| asked.decision());
        if decisions.any(|decision| decision.outcome == Outcome::Approved) {
            Self::Approved
        } else {
            Self::Continued
        }
    }
}

/// All places of a host.
pub(crate) struct Places {
    ledger: Mutex<Ledger>,
}

/// A place that is taken. Dropping it gives it back.
pub(crate) struct Place {
    places: Weak<Places>,
    number: u64,
    wanted: watch::Receiver<Wanted>,
    /// When its VM last began to wait.
    resting_since: Instant,
}

/// A VM and its place, given back together.
pub(crate) struct PlacedVm {
    // First to go: the place is free when the VM is gone.
    pub(crate) vm: Box<dyn Vm>,
    pub(crate) place: Place,
}

/// Whether somebody waits for a place that is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    No,
    Yes,
}

/// The kinds of places.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Open,
    Reserved,
}

/// The use that the holder makes of a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    Works,
    RestsSince(Instant),
    /// It was asked for its place while it rested.
    Leaves,
}

struct Ledger {
    open: usize,
    reserved: usize,
    held: BTreeMap<u64, Held>,
    /// In the order they came.
    waiting: Vec<Waiting>,
    next: u64,
}

struct Held {
    principal: PrincipalId,
    kind: Kind,
    does: Use,
    wanted: watch::Sender<Wanted>,
}

struct Waiting {
    principal: PrincipalId,
    claim: Claim,
    granted: oneshot::Sender<Place>,
}

/// A place that was given to a waiter; it is handed over once the ledger is no longer locked.
struct Grant {
    number: u64,
    wanted: watch::Receiver<Wanted>,
    to: oneshot::Sender<Place>,
}

impl Places {
    /// So many places, none of them taken.
    pub(crate) fn new(total: usize) -> Arc<Self> {
        let reserved = if total > 1 { (total / PLACES_PER_RESERVED).max(1) } else { 0 };
        let ledger =
            Ledger { open: total - reserved, reserved, held: BTreeMap::new(), waiting: Vec::new(), next: 0 };
        Arc::new(Self { ledger: Mutex::new(ledger) })
    }

    /// Waits for a place. A script that is to be accepted does not wait behind too many others of its principal.
    pub(crate) async fn take(
        self: &Arc<Self>,
        principal: &PrincipalId,
        claim: Claim,
    ) -> Result<Place, ScriptFault> {
        let (granted, place) = oneshot::channel();
        {
            let mut ledger = self.ledger();
            ledger.forget_the_gone();
            let mine = |waiting: &&Waiting| waiting.claim == Claim::New && waiting.principal == *principal;
            if claim == Claim::New && ledger.waiting.iter().filter(mine).count() >= MOST_WAITING_OF_ONE {
                return Err(busy());
            }
            ledger.waiting.push(Waiting { principal: principal.clone(), claim, granted });
        }
        self.settle();
        // The sender is in the ledger, which lives as long as `self`.
        place.await.map_err(|_| busy())
    }

    /// Gives out what can be given, and asks those that rest for what cannot.
    fn settle(self: &Arc<Self>) {
        let grants = self.ledger().settle();
        for Grant { number, wanted, to } in grants {
            // One that nobody waits for any more is dropped here, and so given back.
            let resting_since = Instant::now();
            let _ = to.send(Place { places: Arc::downgrade(self), number, wanted, resting_since });
        }
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        // Every change of it is whole before anything can panic.
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(self: &Arc<Self>, number: u64, does: Use) {
        if let Some(held) = self.ledger().held.get_mut(&number) {
            held.does = does;
            held.wanted.send_replace(Wanted::No);
        }
        self.settle();
    }
}

impl Place {
    /// Its VM only waits from here on: the place is given to whoever needs it.
    pub(crate) fn rest(&mut self) {
        self.resting_since = Instant::now();
        self.set(Use::RestsSince(self.resting_since));
    }

    /// Its VM has something to do.
    pub(crate) fn work(&self) {
        self.set(Use::Works);
    }

    /// Completes when somebody needs the place and its VM has rested long enough to be worth a replay.
    pub(crate) fn is_needed(&self) -> impl Future<Output = ()> + Send + use<> {
        let (mut wanted, since) = (self.wanted.clone(), self.resting_since);
        async move {
            if wanted.wait_for(|wanted| *wanted == Wanted::Yes).await.is_err() {
                // The places themselves are gone, so that nobody needs one.
                return std::future::pending().await;
            }
            tokio::time::sleep_until(since + SHORTEST_REST).await;
        }
    }

    fn set(&self, does: Use) {
        if let Some(places) = self.places.upgrade() {
            places.set(self.number, does);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(places) = self.places.upgrade() {
            places.ledger().held.remove(&self.number);
            places.settle();
        }
    }
}

impl Ledger {
    fn forget_the_gone(&mut self) {
        self.waiting.retain(|waiting| !waiting.granted.is_closed());
    }

    fn settle(&mut self) -> Vec<Grant> {
        self.forget_the_gone();
        let mut grants = Vec::new();
        while let Some((index, kind)) = self.first_to_serve() {
            let Waiting { principal, granted, .. } = self.waiting.remove(index);
            let (wanted, hears) = watch::channel(Wanted::No);
            let number = self.next;
            self.next += 1;
            self.held.insert(number, Held { principal, kind, does: Use::Works, wanted });
            grants.push(Grant { number, wanted: hears, to: granted });
        }
        self.ask_the_resting();
        grants
    }

    /// The next requests to get places: approved scripts before new ones, and holders of few places before holders of many.
    fn first_to_serve(&self) -> Option<(usize, Kind)> {
        let fits = |(index, waiting): (usize, &Waiting)| {
            let kind = self.kind_for(waiting, None)?;
            Some(((waiting.claim, self.held_by(&waiting.principal), index), kind))
        };
        let first = self.waiting.iter().enumerate().filter_map(fits).min()?;
        Some((first.0.2, first.1))
    }

    /// The place that a waiter could be given, if one place were given back.
    fn kind_for(&self, waiting: &Waiting, without: Option<u64>) -> Option<Kind> {
        let fits = |kind: Kind, total: usize| {
            let held = || self.held.iter().filter(|(n, held)| held.kind == kind && Some(**n) != without);
            let mine = held().filter(|(_, held)| held.principal == waiting.principal).count();
            held().count() < total && mine < share_of(total)
        };
        if fits(Kind::Open, self.open) {
            return Some(Kind::Open);
        }
        (waiting.claim == Claim::Approved && fits(Kind::Reserved, self.reserved)).then_some(Kind::Reserved)
    }

    /// For everyone who waits, one that rests and whose place would help is asked for it: one of those who hold the most,
    /// and of these the one that has rested longest.
    fn ask_the_resting(&mut self) {
        let mut leaving: Vec<u64> =
            self.held.iter().filter(|(_, held)| held.does == Use::Leaves).map(|(n, _)| *n).collect();
        for waiting in &self.waiting {
            let helps = |number: u64| self.kind_for(waiting, Some(number)).is_some();
            if let Some(at) = leaving.iter().position(|number| helps(*number)) {
                leaving.swap_remove(at);
                continue;
            }
            let resting = self.held.iter().filter_map(|(number, held)| match held.does {
                Use::RestsSince(since) if helps(*number) => {
                    Some((std::cmp::Reverse(self.held_by(&held.principal)), since, *number))
                }
                _ => None,
            });
            if let Some((_, _, number)) = resting.min()
                && let Some(held) = self.held.get_mut(&number)
            {
                held.does = Use::Leaves;
                held.wanted.send_replace(Wanted::Yes);
            }
        }
    }

    fn held_by(&self, principal: &PrincipalId) -> usize {
        self.held.values().filter(|held| held.principal == *principal).count()
    }
}

#[cfg(test)]
mod tests;
