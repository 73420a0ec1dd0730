//! Children that were started ahead, so that a script need not wait for a process.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use crate::host::process::Leash;

/// Children that nobody uses yet. Dropping it ends them.
pub(crate) struct Pool {
    children: Mutex<VecDeque<Leash>>,
    wanted: usize,
}

impl Pool {
    /// An empty pool that wants so many.
    pub(crate) fn new(wanted: usize) -> Self {
        Self { children: Mutex::default(), wanted }
    }

    /// The one that has waited longest, which is the likeliest to be ready. The dead are left out, and collected.
    pub(crate) fn take(&self) -> Option<Leash> {
        loop {
            let mut leash = self.children().pop_front()?;
            if leash.lives() {
                return Some(leash);
            }
        }
    }

    /// True if there is room for another.
    pub(crate) fn wants_more(&self) -> bool {
        self.children().len() < self.wanted
    }

    /// Adds one.
    pub(crate) fn put(&self, leash: Leash) {
        self.children().push_back(leash);
    }

    fn children(&self) -> std::sync::MutexGuard<'_, VecDeque<Leash>> {
        // A queue is whole between its operations, whoever panicked.
        self.children.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
