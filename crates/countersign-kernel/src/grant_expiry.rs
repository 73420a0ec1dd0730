//! Remembered approvals whose time is up.
//!
//! Promise: one that expired stays so, also in the next process, when the clock goes back. As with questions, its end is
//! recorded: by the expiry timer, and by a call that finds it expired before the timer did. Reading never records it (R15).

use countersign_core::audit::AuditEntry;
use countersign_core::grant::Grant;
use countersign_core::ids::GrantId;
use countersign_core::time::Timestamp;
use countersign_sdk::SessionId;

use crate::error::GatewayError;
use crate::kernel::Kernel;
use crate::ports::{GrantWrite, Write};

/// How many ends are recorded in one commit.
const BATCH: usize = 200;

impl Kernel {
    /// Records which grants of a session are expired now. Later reads show them as used up.
    pub(crate) async fn retire_expired_grants(&self, session: &SessionId) -> Result<(), GatewayError> {
        let now = self.now();
        let grants = self.grants.of(&*self.store, session).await?;
        let expired = |grant: &&Grant| grant.uses_left != Some(0) && !grant.is_live(now);
        let over = grants.iter().filter(expired).map(|grant| (grant.id, session.clone())).collect();
        self.record_expired(over, now).await
    }

    /// Records every grant whose time is up, whether or not anybody looks at it.
    pub(crate) async fn retire_due_grants(&self, now: Timestamp) -> Result<(), GatewayError> {
        loop {
            let due = self.store.due_grants(now, BATCH).await?;
            let was_last = due.len() < BATCH;
            self.record_expired(due, now).await?;
            if was_last {
                return Ok(());
            }
        }
    }

    async fn record_expired(
        &self,
        over: Vec<(GrantId, SessionId)>,
        now: Timestamp,
    ) -> Result<(), GatewayError> {
        if over.is_empty() {
            return Ok(());
        }
        let told = |(id, session): &(GrantId, SessionId)| {
            AuditEntry::bare(now, "GrantExpired", None, format!("{id} in session {session}"))
        };
        let write = Write {
            grants: over.iter().map(|(id, _)| GrantWrite::Expire(*id)).collect(),
            audit: over.iter().map(told).collect(),
            ..Write::default()
        };
        self.store.commit(write).await?;
        for (_, session) in &over {
            self.grants.forget(session);
        }
        Ok(())
    }
}
