//! Patience with a failing store: what was approved or done must be recorded once the store is back.

use std::time::Duration;

use crate::error::GatewayError;
use crate::kernel::Kernel;
use crate::ports::{ScriptFault, StoreError};

const SHORTEST: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_secs(2);

/// Pauses that grow from failure to failure.
pub(crate) struct Backoff<'a> {
    kernel: &'a Kernel,
    next: Duration,
}

impl<'a> Backoff<'a> {
    pub(crate) fn new(kernel: &'a Kernel) -> Self {
        Self { kernel, next: SHORTEST }
    }

    /// Waits before another try; gives the error back where another try cannot help.
    pub(crate) async fn pause(&mut self, error: GatewayError) -> Result<(), GatewayError> {
        if self.kernel.is_closed() || !is_passing(&error) {
            return Err(error);
        }
        tracing::warn!(cause = ?error, "it failed; trying again");
        tokio::time::sleep(self.next).await;
        self.next = (self.next * 2).min(LONGEST);
        Ok(())
    }

    /// The last try worked.
    pub(crate) fn reset(&mut self) {
        self.next = SHORTEST;
    }
}

/// Whether the same thing may work later.
fn is_passing(error: &GatewayError) -> bool {
    match error {
        GatewayError::Store(store) => {
            matches!(store, StoreError::Unavailable(_) | StoreError::Overloaded | StoreError::Conflict { .. })
        }
        // What a system lacks it lacks until this process is started again, perhaps elsewhere or with another configuration.
        GatewayError::Sandbox(ScriptFault::NotIsolated { .. }) => false,
        GatewayError::NoEntropy | GatewayError::Sandbox(_) => true,
        GatewayError::Journal(_) | GatewayError::Closed => false,
    }
}
