//! Taking up, on start, what was running when the process died.
//!
//! Promise: when it returns, every call that started without an outcome is in doubt (R4) or goes on, whichever its
//! journal says. What waits for a person stays a row until somebody decides, so starting with a hundred thousand of them
//! costs nothing; it is looked at only where the rules or the tools changed (`rejudge.rs`).

use std::sync::Arc;

use countersign_core::event::EventBody;
use countersign_core::execution::{Recovery, Status};

use crate::error::GatewayError;
use crate::journal::Beside;
use crate::kernel::Kernel;
use crate::ports::{ExecutionFilter, Page};

const BATCH: usize = 500;

impl Kernel {
    pub(crate) async fn recover(self: &Arc<Self>) -> Result<usize, GatewayError> {
        let filter = ExecutionFilter { status: vec![Status::Running], ..ExecutionFilter::default() };
        let mut page = Page::first(BATCH);
        let mut found = 0;
        loop {
            // Keyset cursors stand still while rows change status, so each execution is seen once.
            let rows = self.store.executions(filter.clone(), page).await?;
            found += rows.items.len();
            for damaged in &rows.damaged {
                tracing::error!(execution = %damaged.execution, problem = damaged.problem, "left alone: its record is damaged");
            }
            // Side by side, so that their commits share the disk's syncs: R4 allows two seconds for all of them.
            let taken_up = rows.items.iter().map(|row| async move {
                if let Err(error) = self.take_up(row.id).await {
                    tracing::error!(execution = %row.id, ?error, "an execution could not be taken up");
                }
            });
            futures_util::future::join_all(taken_up).await;
            match rows.next {
                Some(cursor) => page = Page { cursor: Some(cursor), limit: BATCH },
                None => return Ok(found),
            }
        }
    }

    async fn take_up(self: &Arc<Self>, id: countersign_core::ids::ExecutionId) -> Result<(), GatewayError> {
        let Some((live, mut state)) = self.find(id).await? else { return Ok(()) };
        let mut events = Vec::new();
        for recovery in state.execution.recover() {
            if let Recovery::FoundInDoubt(call) = recovery {
                events.extend(self.withdrawn_of(&state, call, "the call is in doubt"));
                events.push(EventBody::FoundInDoubt { call, reason: None });
            }
        }
        if !events.is_empty() {
            self.record(&mut state, events, Beside::default()).await?;
        }
        self.go_on(live, state);
        Ok(())
    }
}
