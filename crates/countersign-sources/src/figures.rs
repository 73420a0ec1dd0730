//! How often a source was called, how often that failed, and how long it took. Lost with the process.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use countersign_kernel::ports::CallFigures;

/// The calls of one source.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    calls: AtomicU64,
    errors: AtomicU64,
    total_ms: AtomicU64,
}

impl Figures {
    pub(crate) fn count(&self, took: Duration, failed: bool) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.errors.fetch_add(u64::from(failed), Ordering::Relaxed);
        self.total_ms.fetch_add(u64::try_from(took.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(crate) fn now(&self) -> CallFigures {
        let calls = self.calls.load(Ordering::Relaxed);
        CallFigures {
            calls,
            errors: self.errors.load(Ordering::Relaxed),
            mean_ms: self.total_ms.load(Ordering::Relaxed).checked_div(calls).unwrap_or(0),
        }
    }
}
