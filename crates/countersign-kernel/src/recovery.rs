//! Taking up, on start, what was running when the process died.
//!
//! Promise: when it returns, every call that started without an outcome is in doubt (R4) or goes on, whichever its
//! journal says; one that the store did not let be taken up is tried again until it is. An execution that waits for a person stays a row
//! until the person decides, so starting with a million of them costs nothing; it is read only where the rules or the
//! tools changed (`rejudge.rs`).

use std::sync::{Arc, Weak};

use countersign_core::execution::Status;
use countersign_core::ids::ExecutionId;

use crate::backoff::Backoff;
use crate::error::GatewayError;
use crate::kernel::Kernel;
use crate::owner::Message;
use crate::ports::{ExecutionFilter, Page};

const BATCH: usize = 500;

impl Kernel {
    pub(crate) async fn recover(self: &Arc<Self>) -> Result<usize, GatewayError> {
        let filter = ExecutionFilter { status: vec![Status::Running], ..ExecutionFilter::default() };
        let (mut page, mut found, mut failed) = (Page::first(BATCH), 0, Vec::new());
        loop {
            // Keyset cursors stand still while rows change status, so each execution is seen once.
            let rows = self.store.executions(filter.clone(), page).await?;
            found += rows.items.len();
            for damaged in &rows.damaged {
                tracing::error!(
                    execution = damaged.id,
                    problem = damaged.problem,
                    "left alone: its record is damaged"
                );
            }
            // Side by side, so that their commits share the disk's syncs: R4 allows two seconds for all of them.
            let taken_up = rows.items.iter().map(|row| async { (row.id, self.take_up(row.id).await) });
            for (id, taken) in futures_util::future::join_all(taken_up).await {
                if let Err(error) = taken {
                    failed.push((id, error));
                }
            }
            match rows.next {
                Some(cursor) => page = Page { cursor: Some(cursor), limit: BATCH },
                None => break,
            }
        }
        for (id, error) in failed {
            tracing::warn!(execution = %id, ?error, "an execution could not be taken up yet");
            tokio::spawn(take_up_later(Arc::downgrade(self), id, error));
        }
        Ok(found)
    }

    /// Makes an execution go on in this process; what its process left in doubt is recorded when this returns.
    pub(crate) async fn take_up(self: &Arc<Self>, id: ExecutionId) -> Result<(), GatewayError> {
        self.request(id, Message::TakeUp).await?.unwrap_or(Ok(()))
    }
}

/// Tries until it works, or until another try cannot help.
async fn take_up_later(kernel: Weak<Kernel>, id: ExecutionId, mut error: GatewayError) {
    let mut backoff = Backoff::default();
    loop {
        let Some(at) = kernel.upgrade().and_then(|kernel| backoff.next_try(&kernel, &error)) else {
            tracing::error!(execution = %id, ?error, "an execution could not be taken up");
            return;
        };
        tokio::time::sleep_until(at).await;
        let Some(kernel) = kernel.upgrade() else { return };
        match kernel.take_up(id).await {
            Ok(()) => return,
            Err(again) => error = again,
        }
    }
}
