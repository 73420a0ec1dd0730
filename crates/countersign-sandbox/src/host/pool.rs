//! Children that were started ahead, so that a script need not wait for a process.
//!
//! Promise: the next child is started before the last one is taken. Taking the last one makes the pool larger, up
//! to a bound; a pool that is not used for [`IDLE_BOUND`] shrinks to its usual size.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::host::process::ChildHandle;

/// How many times its usual size a pool may have under load.
pub(crate) const MOST_GROWTH: usize = 4;

/// How long a pool that has grown keeps its size while no child is taken.
pub(crate) const IDLE_BOUND: Duration = Duration::from_secs(5);

/// Children that are not in use yet. Dropping the pool ends them.
pub(crate) struct Pool {
    state: Mutex<State>,
    usual: usize,
}

struct State {
    /// The oldest first.
    children: VecDeque<ChildHandle>,
    wanted: usize,
}

impl Pool {
    /// An empty pool of this usual size.
    pub(crate) fn new(usual: usize) -> Self {
        Self { state: Mutex::new(State { children: VecDeque::new(), wanted: usual }), usual }
    }

    /// The child that has waited longest, which had the most time to get ready. Dead ones are dropped.
    pub(crate) fn take(&self) -> Option<ChildHandle> {
        let mut state = self.state();
        let mut taken = None;
        while let Some(mut child) = state.children.pop_front() {
            if child.is_running() {
                taken = Some(child);
                break;
            }
        }
        if state.children.is_empty() {
            state.wanted = (state.wanted + 1).min(self.usual * MOST_GROWTH);
        }
        taken
    }

    pub(crate) fn has_room(&self) -> bool {
        let state = self.state();
        state.children.len() < state.wanted
    }

    pub(crate) fn put(&self, child: ChildHandle) {
        self.state().children.push_back(child);
    }

    pub(crate) fn has_grown(&self) -> bool {
        self.state().wanted > self.usual
    }

    /// Goes back to the usual size, and ends the children beyond it.
    pub(crate) fn shrink(&self) {
        let mut state = self.state();
        state.wanted = self.usual;
        state.children.truncate(self.usual);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // The state is consistent between its operations, so a panic elsewhere does no harm.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
