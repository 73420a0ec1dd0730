//! Retries while the store fails: approvals and outcomes must be recorded once it is back.

use std::time::Duration;

use tokio::time::Instant;

use crate::error::GatewayError;
use crate::kernel::Kernel;
use crate::ports::{ScriptFault, StoreError};

const SHORTEST: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_secs(2);

/// Pauses that grow from failure to failure.
#[derive(Debug)]
pub(crate) struct Backoff {
    next: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { next: SHORTEST }
    }
}

impl Backoff {
    /// When to try again; nothing where another try cannot help.
    pub(crate) fn next_try(&mut self, kernel: &Kernel, error: &GatewayError) -> Option<Instant> {
        if kernel.is_closed() || !is_passing(error) {
            return None;
        }
        tracing::warn!(cause = ?error, "it failed; trying again");
        let at = Instant::now() + self.next;
        self.next = (self.next * 2).min(LONGEST);
        Some(at)
    }

    /// The last try worked.
    pub(crate) fn reset(&mut self) {
        self.next = SHORTEST;
    }
}

/// Whether the same thing may work later.
pub(crate) fn is_passing(error: &GatewayError) -> bool {
    match error {
        GatewayError::Store(store) => {
            matches!(store, StoreError::Unavailable(_) | StoreError::Overloaded | StoreError::Conflict { .. })
        }
        // A missing layer of isolation stays missing until this process is started again, perhaps on another system.
        GatewayError::Sandbox(ScriptFault::NotIsolated { .. }) => false,
        GatewayError::NoEntropy | GatewayError::Sandbox(_) => true,
        GatewayError::Journal(_) | GatewayError::Closed => false,
    }
}
