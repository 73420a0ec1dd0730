//! Remembered approvals: a cache of the store's, and giving and taking them by hand.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use countersign_core::audit::AuditEntry;
use countersign_core::digest::Fingerprint;
use countersign_core::grant::{Grant, GrantedTool};
use countersign_core::ids::GrantId;
use countersign_core::policy::PathPattern;
use countersign_core::time::Timestamp;
use countersign_sdk::{SessionId, ToolPath};

use crate::accept::Caller;
use crate::error::{DecideError, GatewayError};
use crate::kernel::Kernel;
use crate::ports::{GrantWrite, Requirement, Store, StoreError, Write};

/// How many sessions' grants are kept; past this the cache starts anew.
const MAX_SESSIONS: usize = 10_000;

/// The grants of the sessions that were looked at.
#[derive(Default)]
pub(crate) struct GrantCache {
    sessions: RwLock<HashMap<SessionId, Arc<Vec<Grant>>>>,
    /// Counts what was given, revoked or cleared.
    changes: AtomicU64,
}

impl GrantCache {
    /// A grant that covers a call, if the session has one. The store has the last word when it is used.
    pub(crate) async fn covering(
        &self,
        store: &dyn Store,
        session: &SessionId,
        path: &ToolPath,
        fingerprint: Fingerprint,
        now: Timestamp,
    ) -> Result<Option<GrantId>, GatewayError> {
        let grants = self.of(store, session).await?;
        Ok(grants.iter().find(|grant| grant.covers(session, path, fingerprint, now)).map(|grant| grant.id))
    }

    /// Whether an unbounded grant covers a call, as far as memory knows: no store is asked.
    pub(crate) fn covers_freely(
        &self,
        session: &SessionId,
        path: &ToolPath,
        fingerprint: Fingerprint,
        now: Timestamp,
    ) -> bool {
        let sessions = self.sessions.read().unwrap_or_else(PoisonError::into_inner);
        let Some(grants) = sessions.get(session) else { return false };
        grants.iter().any(|grant| grant.uses_left.is_none() && grant.covers(session, path, fingerprint, now))
    }

    pub(crate) async fn of(
        &self,
        store: &dyn Store,
        session: &SessionId,
    ) -> Result<Arc<Vec<Grant>>, GatewayError> {
        if let Some(known) = self.sessions.read().unwrap_or_else(PoisonError::into_inner).get(session) {
            return Ok(Arc::clone(known));
        }
        let seen = self.changes.load(Ordering::SeqCst);
        let read = Arc::new(live_grants(store, session).await?);
        let mut sessions = self.sessions.write().unwrap_or_else(PoisonError::into_inner);
        // What was read before a change must not be remembered after it.
        if self.changes.load(Ordering::SeqCst) != seen {
            return Ok(read);
        }
        if sessions.len() >= MAX_SESSIONS {
            sessions.clear();
        }
        Ok(Arc::clone(sessions.entry(session.clone()).or_insert(read)))
    }

    pub(crate) fn add(&self, session: &SessionId, grant: Grant) {
        let mut sessions = self.sessions.write().unwrap_or_else(PoisonError::into_inner);
        self.changes.fetch_add(1, Ordering::SeqCst);
        // A session that was never read stays unread: its next reader finds the grant in the store.
        if let Some(grants) = sessions.get_mut(session) {
            Arc::make_mut(grants).push(grant);
        }
    }

    pub(crate) fn forget(&self, session: &SessionId) {
        let mut sessions = self.sessions.write().unwrap_or_else(PoisonError::into_inner);
        self.changes.fetch_add(1, Ordering::SeqCst);
        sessions.remove(session);
    }

    pub(crate) fn forget_all(&self) {
        let mut sessions = self.sessions.write().unwrap_or_else(PoisonError::into_inner);
        self.changes.fetch_add(1, Ordering::SeqCst);
        sessions.clear();
    }
}

/// A session's grants, without those given with a token that was revoked since: their giver's word no longer counts.
async fn live_grants(store: &dyn Store, session: &SessionId) -> Result<Vec<Grant>, GatewayError> {
    let mut grants = store.grants(session).await?;
    if grants.iter().any(|grant| grant.token.is_some()) {
        let revoked: Vec<_> =
            store.tokens().await?.into_iter().filter(|t| t.revoked_at.is_some()).map(|t| t.id).collect();
        grants.retain(|grant| grant.token.is_none_or(|token| !revoked.contains(&token)));
    }
    Ok(grants)
}

impl Kernel {
    /// Remembers an approval for tools that a person names, by path or pattern.
    pub(crate) async fn give_grant(
        &self,
        by: &Caller,
        session: &SessionId,
        pattern: &PathPattern,
        expires_at: Option<Timestamp>,
        uses: Option<u32>,
    ) -> Result<Grant, DecideError> {
        if !by.principal.may_decide() {
            return Err(DecideError::NotAllowed);
        }
        let covered = self.catalog.iter().filter(|tool| pattern.matches(tool.path()));
        let tools: Vec<GrantedTool> = covered
            .map(|tool| GrantedTool { path: tool.path().clone(), fingerprint: tool.fingerprint() })
            .collect();
        if tools.is_empty() {
            return Err(DecideError::NotFound);
        }
        let now = self.now();
        let grant = Grant {
            id: GrantId::from_random(self.random()?),
            session: session.clone(),
            tools,
            pattern: Some(pattern.as_str().to_owned()),
            by: by.principal.id.clone(),
            token: by.token,
            elicitation: None,
            given_at: now,
            // One that nobody thinks of any more must not count for ever.
            expires_at: Some(expires_at.unwrap_or_else(|| now.after(self.settings.remember_for))),
            uses_left: uses,
        };
        self.write_grants(
            by,
            "GrantGiven",
            format!("{} for {session}: {pattern}", grant.id),
            GrantWrite::Give(grant.clone()),
        )
        .await?;
        self.grants.forget(session);
        Ok(grant)
    }

    /// Forgets one remembered approval.
    pub(crate) async fn revoke_grant(&self, by: &Caller, id: GrantId) -> Result<(), DecideError> {
        self.write_grants(by, "GrantRevoked", id.to_string(), GrantWrite::Revoke(id)).await?;
        self.grants.forget_all();
        Ok(())
    }

    /// Forgets all remembered approvals of a session.
    pub(crate) async fn clear_grants(&self, by: &Caller, session: &SessionId) -> Result<(), DecideError> {
        self.write_grants(
            by,
            "GrantRevoked",
            format!("all of {session}"),
            GrantWrite::Clear(session.clone()),
        )
        .await?;
        self.grants.forget(session);
        Ok(())
    }

    async fn write_grants(
        &self,
        by: &Caller,
        what: &str,
        detail: String,
        change: GrantWrite,
    ) -> Result<(), DecideError> {
        if !by.principal.may_decide() {
            return Err(DecideError::NotAllowed);
        }
        let audit = vec![AuditEntry::bare(self.now(), what, Some(by.principal.id.clone()), detail)];
        let require = by.token.map(Requirement::TokenLive).into_iter().collect();
        let write = Write { require, grants: vec![change], audit, ..Write::default() };
        match self.store.commit(write).await {
            Err(StoreError::TokenRevoked(_)) => Err(DecideError::NotAllowed),
            done => Ok(done.map(|_| ())?),
        }
    }
}
