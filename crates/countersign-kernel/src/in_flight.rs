//! Bounds on the calls in memory, for one principal and for all together (R16).
//!
//! Promise: a principal at a bound is told to come back, and all others are let in; a call is counted until its
//! slot is dropped. Deciding needs no slot.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use countersign_sdk::PrincipalId;

/// Bounds on what is in memory at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) count: usize,
    pub(crate) bytes: usize,
}

/// The calls in memory, by principal.
pub(crate) struct InFlight {
    all: Bounds,
    each: Bounds,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    all: Load,
    of: HashMap<PrincipalId, Load>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Load {
    count: usize,
    bytes: usize,
}

/// A counted place. Dropping it gives it back.
pub(crate) struct Slot {
    in_flight: Arc<InFlight>,
    principal: PrincipalId,
    bytes: usize,
}

impl InFlight {
    pub(crate) fn new(all: Bounds, each: Bounds) -> Arc<Self> {
        Arc::new(Self { all, each, held: Mutex::default() })
    }

    /// A slot for so many bytes; nothing where a bound is reached.
    pub(crate) fn take(self: &Arc<Self>, principal: &PrincipalId, bytes: usize) -> Option<Slot> {
        let mut held = self.held();
        let mine = held.of.get(principal).copied().unwrap_or_default();
        if !held.all.has_room(bytes, self.all) || !mine.has_room(bytes, self.each) {
            return None;
        }
        held.all.add(bytes);
        held.of.entry(principal.clone()).or_default().add(bytes);
        drop(held);
        Some(Slot { in_flight: Arc::clone(self), principal: principal.clone(), bytes })
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        // Every change of it is whole before anything can panic.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Load {
    /// One that is larger than the bound is let in where nothing else is: its own size has a bound elsewhere.
    fn has_room(self, bytes: usize, bounds: Bounds) -> bool {
        self.count < bounds.count && (self.count == 0 || self.bytes.saturating_add(bytes) <= bounds.bytes)
    }

    fn add(&mut self, bytes: usize) {
        self.count += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }

    fn remove(&mut self, bytes: usize) {
        self.count = self.count.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut held = self.in_flight.held();
        held.all.remove(self.bytes);
        if let Some(mine) = held.of.get_mut(&self.principal) {
            mine.remove(self.bytes);
            if mine.count == 0 {
                held.of.remove(&self.principal);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn principal(name: &str) -> PrincipalId {
        PrincipalId::parse(name).unwrap()
    }

    #[test]
    fn every_bound_holds_at_its_edge_and_a_dropped_slot_is_free_again() {
        let bounds = |count, bytes| Bounds { count, bytes };
        let calls = InFlight::new(bounds(3, 100), bounds(2, 60));
        let (ann, bob) = (principal("ann"), principal("bob"));
        let first = calls.take(&ann, 30).unwrap();
        assert!(calls.take(&ann, 31).is_none(), "61 bytes of one principal");
        let second = calls.take(&ann, 30).unwrap();
        assert!(calls.take(&ann, 0).is_none(), "three calls of one principal");
        assert!(calls.take(&bob, 41).is_none(), "101 bytes in all");
        let third = calls.take(&bob, 40).unwrap();
        assert!(calls.take(&principal("cid"), 0).is_none(), "four calls in all");
        drop((first, second, third));
        assert!(calls.held().of.is_empty(), "who has nothing is forgotten");
        assert!(calls.take(&ann, 1_000).is_some(), "one large call is let in where there is no other");
    }
}
