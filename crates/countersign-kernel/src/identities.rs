//! A cache of bearers of tokens and logins to the console.
//!
//! Promise: authority is checked again in the store wherever something starts or is decided (R10), so what is remembered
//! here only spares reads. Every change of an identity (a revoked token, an ended login, a disabled user) forgets
//! everything at once and wakes the streams to callers.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use countersign_core::digest::Digest;
use countersign_core::elicitation::Proof;
use countersign_core::ids::{LoginId, TokenId, UserId};
use countersign_core::time::Timestamp;
use countersign_sdk::PrincipalId;
use tokio::sync::watch;

use crate::accept::Caller;
use crate::error::GatewayError;
use crate::kernel::Kernel;
use crate::ports::{Requirement, UserMay};

/// How many bearers, and how many logins, are kept in memory; past this the cache starts anew.
const MAX_KNOWN: usize = 10_000;
/// How often a token's use is noted at most.
const NOTE_EVERY_MS: u64 = 60_000;

/// The identities that were looked at.
pub(crate) struct IdentityCache {
    bearers: RwLock<HashMap<Digest, Known>>,
    logins: RwLock<HashMap<LoginId, Known>>,
    /// Counts changes: what was read before one must not be remembered after it.
    changed: watch::Sender<u64>,
}

/// A cached caller.
#[derive(Clone)]
pub(crate) struct Known {
    caller: Arc<Caller>,
    expires_at: Option<Timestamp>,
    used_ms: Arc<AtomicU64>,
}

impl Known {
    pub(crate) fn new(caller: Caller, expires_at: Option<Timestamp>, used: Option<Timestamp>) -> Self {
        let used_ms = Arc::new(AtomicU64::new(used.map_or(0, |at| at.as_millis())));
        Self { caller: Arc::new(caller), expires_at, used_ms }
    }

    /// The caller at a time; none once the credential has expired.
    pub(crate) fn caller_at(&self, now: Timestamp) -> Option<Caller> {
        self.expires_at.is_none_or(|end| now < end).then(|| Caller::clone(&self.caller))
    }

    /// The token whose use is to be noted now, if it is.
    pub(crate) fn use_to_note(&self, now: Timestamp) -> Option<TokenId> {
        let (used, now) = (self.used_ms.load(Ordering::Relaxed), now.as_millis());
        if now < used.saturating_add(NOTE_EVERY_MS) {
            return None;
        }
        self.used_ms.store(now, Ordering::Relaxed);
        self.caller.token
    }
}

impl Default for IdentityCache {
    fn default() -> Self {
        Self { bearers: RwLock::default(), logins: RwLock::default(), changed: watch::Sender::new(0) }
    }
}

impl IdentityCache {
    /// How often identities changed so far.
    pub(crate) fn changes(&self) -> u64 {
        *self.changed.borrow()
    }

    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    pub(crate) fn bearer(&self, hash: &Digest) -> Option<Known> {
        self.bearers.read().unwrap_or_else(PoisonError::into_inner).get(hash).cloned()
    }

    pub(crate) fn remember_bearer(&self, hash: Digest, known: &Known, seen: u64) {
        self.remember(&self.bearers, hash, known, seen);
    }

    pub(crate) fn login(&self, id: LoginId) -> Option<Known> {
        self.logins.read().unwrap_or_else(PoisonError::into_inner).get(&id).cloned()
    }

    pub(crate) fn remember_login(&self, id: LoginId, known: &Known, seen: u64) {
        self.remember(&self.logins, id, known, seen);
    }

    fn remember<K: Eq + Hash>(&self, map: &RwLock<HashMap<K, Known>>, key: K, known: &Known, seen: u64) {
        let mut all = map.write().unwrap_or_else(PoisonError::into_inner);
        if self.changes() != seen {
            return;
        }
        if all.len() >= MAX_KNOWN {
            all.clear();
        }
        all.insert(key, known.clone());
    }

    fn forget_all(&self) {
        let mut bearers = self.bearers.write().unwrap_or_else(PoisonError::into_inner);
        let mut logins = self.logins.write().unwrap_or_else(PoisonError::into_inner);
        self.changed.send_modify(|changes| *changes += 1);
        bearers.clear();
        logins.clear();
    }
}

impl Kernel {
    /// After somebody's authority changed: nothing that was remembered of anybody counts.
    pub(crate) fn forget_identities(&self) {
        self.identities.forget_all();
        self.grants.forget_all();
    }

    /// The requirements of a change by a caller: a thief whose token is being revoked would otherwise
    /// make a new one with it.
    pub(crate) fn authority(&self, by: Option<&Caller>, may: UserMay) -> Vec<Requirement> {
        by.map(|caller| caller.authority(may, self.now())).unwrap_or_default()
    }

    /// Whether a caller's credential is still valid, for streams to the caller.
    pub(crate) async fn still_counts(&self, caller: &Caller) -> Result<bool, GatewayError> {
        let now = self.now();
        if let Some(Proof::Login { id }) = caller.proof {
            return Ok(self.login_caller(id).await?.is_some());
        }
        let Some(token) = caller.token else { return Ok(true) };
        let row = self.store.tokens().await?.items.into_iter().find(|row| row.id == token);
        match row {
            Some(row) => Ok(self.caller_of(&row, now).await?.is_some()),
            None => Ok(false),
        }
    }
}

impl Caller {
    /// The requirements of a change that this caller makes or once made.
    pub(crate) fn authority(&self, may: UserMay, now: Timestamp) -> Vec<Requirement> {
        let mut all = Vec::new();
        all.extend(self.token.map(|id| Requirement::TokenLive { id, now }));
        if let Some(Proof::Login { id }) = self.proof {
            all.push(Requirement::LoginLive { id, now });
        }
        all.extend(user_in(&self.principal.id).map(|id| Requirement::User { id, may }));
        all
    }
}

/// The user that a principal's id names, if it names one.
pub(crate) fn user_in(id: &PrincipalId) -> Option<UserId> {
    // Most principals are agents, for which an error need not be made.
    id.as_str().starts_with(UserId::PREFIX).then(|| id.as_str().parse().ok()).flatten()
}

pub(crate) fn principal_of(by: Option<&Caller>) -> Option<PrincipalId> {
    by.map(|caller| caller.principal.id.clone())
}
