//! Remembered approvals: a cache of the store's, and giving and taking them by hand.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use countersign_core::audit::AuditEntry;
use countersign_core::canonical::Canonical;
use countersign_core::digest::Fingerprint;
use countersign_core::execution::Call;
use countersign_core::grant::{Grant, GrantedTool};
use countersign_core::ids::GrantId;
use countersign_core::policy::PathPattern;
use countersign_core::time::Timestamp;
use countersign_sdk::{SessionId, ToolPath};

use crate::accept::Caller;
use crate::error::{DecideError, GatewayError};
use crate::identities::user_in;
use crate::kernel::Kernel;
use crate::ports::{GrantWrite, Store, UserMay, Write};

/// How many sessions' grants are kept; past this the cache starts anew.
const MAX_SESSIONS: usize = 10_000;

/// A call that a grant may cover: its tool as it is now, and its arguments.
#[derive(Clone, Copy)]
pub(crate) struct Covered<'a> {
    pub(crate) path: &'a ToolPath,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) args: &'a Canonical,
}

impl<'a> Covered<'a> {
    pub(crate) fn of(call: &'a Call) -> Self {
        Self { path: &call.path, fingerprint: call.fingerprint, args: &call.args }
    }

    fn is_covered_by(self, grant: &Grant, session: &SessionId, now: Timestamp) -> bool {
        grant.covers(session, self.path, self.fingerprint, self.args, now)
    }
}

/// The coverage of an approval that is given by hand.
#[derive(Debug, Clone)]
pub struct NewGrant {
    /// The session.
    pub session: SessionId,
    /// The tools, by path or pattern.
    pub pattern: PathPattern,
    /// The only arguments; any where nothing is said.
    pub args: Option<Canonical>,
    /// Its end; after [`crate::Settings::remember_for`] where nothing is said.
    pub expires_at: Option<Timestamp>,
    /// For how many calls; without bound where nothing is said.
    pub uses: Option<u32>,
}

impl NewGrant {
    /// Any calls of these tools, for as long as any remembered approval counts.
    pub fn new(session: SessionId, pattern: PathPattern) -> Self {
        Self { session, pattern, args: None, expires_at: None, uses: None }
    }
}

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
        call: Covered<'_>,
        now: Timestamp,
    ) -> Result<Option<GrantId>, GatewayError> {
        let grants = self.of(store, session).await?;
        Ok(grants.iter().find(|grant| call.is_covered_by(grant, session, now)).map(|grant| grant.id))
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
        let covers_the_tool = |grant: &Grant| {
            grant.is_live(now)
                && grant.tools.iter().any(|tool| tool.path == *path && tool.fingerprint == fingerprint)
        };
        grants.iter().any(|grant| grant.uses_left.is_none() && grant.args.is_none() && covers_the_tool(grant))
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
        // Grants that were read before a change must not be cached after it.
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

/// A session's grants, without those whose giver's word no longer counts: given with a token that was revoked since, or by a
/// user who is disabled, or whose record is damaged.
async fn live_grants(store: &dyn Store, session: &SessionId) -> Result<Vec<Grant>, GatewayError> {
    let mut grants = store.grants(session).await?;
    if grants.iter().any(|grant| grant.token.is_some()) {
        let tokens = store.tokens().await?.items;
        let good: Vec<_> = tokens.into_iter().filter(|t| t.revoked_at.is_none()).map(|t| t.id).collect();
        grants.retain(|grant| grant.token.is_none_or(|token| good.contains(&token)));
    }
    if grants.iter().any(|grant| user_in(&grant.by).is_some()) {
        let users = store.users().await?.items;
        let active: Vec<_> = users.into_iter().filter(|u| u.disabled_at.is_none()).map(|u| u.id).collect();
        grants.retain(|grant| user_in(&grant.by).is_none_or(|user| active.contains(&user)));
    }
    Ok(grants)
}

impl Kernel {
    /// Remembers an approval for tools that a person names, by path or pattern.
    pub(crate) async fn give_grant(&self, by: &Caller, new: NewGrant) -> Result<Grant, DecideError> {
        if !by.principal.may_decide() {
            return Err(DecideError::NotAllowed);
        }
        let NewGrant { session, pattern, args, expires_at, uses } = new;
        let catalog = self.catalog.snapshot();
        let covered = catalog.iter().filter(|tool| pattern.matches(tool.path()));
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
            args,
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
        grant.expires_at.into_iter().for_each(|at| self.alarm.set(at));
        self.grants.forget(&session);
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
        what: &'static str,
        detail: String,
        change: GrantWrite,
    ) -> Result<(), DecideError> {
        if !by.principal.may_decide() {
            return Err(DecideError::NotAllowed);
        }
        let audit = vec![AuditEntry::bare(self.now(), what, Some(by.principal.id.clone()), detail)];
        let require = by.authority(UserMay::Decide, self.now());
        let write = Write { require, grants: vec![change], audit, ..Write::default() };
        match self.store.commit(write).await {
            Err(refusal) if refusal.is_lost_authority() => Err(DecideError::NotAllowed),
            done => Ok(done.map(|_| ())?),
        }
    }
}
