//! Remembered approvals whose time is up.
//!
//! Promise: one that a call or a list found expired stays so, also in the next process, when the clock goes back. As with
//! questions, what expired is recorded as such; no clock is held back for it.

use countersign_core::audit::AuditEntry;
use countersign_core::grant::Grant;
use countersign_sdk::SessionId;

use crate::error::GatewayError;
use crate::kernel::Kernel;
use crate::ports::{GrantWrite, Write};

impl Kernel {
    /// Records which grants of a session are expired now. Whoever looks at them afterwards sees them spent.
    pub(crate) async fn retire_expired_grants(&self, session: &SessionId) -> Result<(), GatewayError> {
        let now = self.now();
        let grants = self.grants.of(&*self.store, session).await?;
        let expired = |grant: &&Grant| grant.uses_left != Some(0) && !grant.is_live(now);
        let over: Vec<&Grant> = grants.iter().filter(expired).collect();
        if over.is_empty() {
            return Ok(());
        }
        let told = |grant: &&Grant| {
            AuditEntry::bare(now, "GrantExpired", None, format!("{} in session {session}", grant.id))
        };
        let write = Write {
            grants: over.iter().map(|grant| GrantWrite::Expire(grant.id)).collect(),
            audit: over.iter().map(told).collect(),
            ..Write::default()
        };
        self.store.commit(write).await?;
        self.grants.forget(session);
        Ok(())
    }
}
