//! Tokens: who acts, proved by a secret that is stored nowhere.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

use countersign_core::audit::AuditEntry;
use countersign_core::digest::Digest;
use countersign_core::ids::TokenId;
use countersign_sdk::{Principal, PrincipalId, PrincipalKind, Role, SecretString};

use crate::accept::Caller;
use crate::error::GatewayError;
use crate::kernel::Kernel;
use crate::ports::{Requirement, TokenRow, TokenWrite, Write};

/// The longest token name.
const MAX_NAME_BYTES: usize = 100;
/// How many callers are kept in memory; past this the cache starts anew.
const MAX_CALLERS: usize = 10_000;

/// A new token. The secret is shown once.
pub struct Minted {
    /// The token.
    pub row: TokenRow,
    /// The secret, which the gateway does not keep.
    pub secret: SecretString,
}

/// Why a token could not be made.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The name is unusable.
    #[error("a token's name has 1 to {MAX_NAME_BYTES} bytes and no control characters")]
    BadName,
    /// Something inside failed.
    #[error("{0}")]
    Gateway(#[from] GatewayError),
}

impl TokenError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::BadName => "bad_name",
            Self::Gateway(e) => e.code(),
        }
    }
}

/// Who showed a good secret lately. Authority is checked again in the store wherever something starts or is decided
/// (R10), so what is remembered here only spares reads; revoking forgets it at once.
#[derive(Default)]
pub(crate) struct TokenCache {
    callers: RwLock<HashMap<Digest, Caller>>,
    /// Counts revocations: a read that began before one must not be remembered after it.
    revocations: AtomicU64,
}

impl TokenCache {
    fn get(&self, hash: &Digest) -> Option<Caller> {
        self.callers.read().unwrap_or_else(PoisonError::into_inner).get(hash).cloned()
    }

    fn remember(&self, hash: Digest, caller: &Caller, seen: u64) {
        let mut callers = self.callers.write().unwrap_or_else(PoisonError::into_inner);
        if self.revocations.load(Ordering::SeqCst) != seen {
            return;
        }
        if callers.len() >= MAX_CALLERS {
            callers.clear();
        }
        callers.insert(hash, caller.clone());
    }

    fn forget_all(&self) {
        let mut callers = self.callers.write().unwrap_or_else(PoisonError::into_inner);
        self.revocations.fetch_add(1, Ordering::SeqCst);
        callers.clear();
    }
}

impl Kernel {
    /// Makes a token for a new principal with one role.
    pub(crate) async fn create_token(
        &self,
        name: &str,
        role: Role,
        by: Option<&Caller>,
    ) -> Result<Minted, TokenError> {
        if name.is_empty() || name.len() > MAX_NAME_BYTES || name.chars().any(char::is_control) {
            return Err(TokenError::BadName);
        }
        let id = TokenId::from_random(self.random()?);
        let kind = match role {
            Role::Agent => PrincipalKind::Agent,
            Role::Service => PrincipalKind::Service,
            Role::Approver | Role::Admin => PrincipalKind::User,
        };
        let principal = PrincipalId::parse(&id.to_string()).map_err(|_| GatewayError::NoEntropy)?;
        let secret = self.secret()?;
        let created_at = self.now();
        let row = TokenRow {
            id,
            hash: Digest::of(secret.as_bytes()),
            name: name.to_owned(),
            principal: Principal { id: principal, kind, roles: vec![role] },
            created_at,
            revoked_at: None,
        };
        let detail = format!("{id} {role:?} {name}");
        let audit = vec![AuditEntry::bare(created_at, "TokenCreated", principal_of(by), detail)];
        let tokens = vec![TokenWrite::Create(row.clone())];
        let write = Write { require: still_good(by), tokens, audit, ..Write::default() };
        self.store.commit(write).await.map_err(GatewayError::from)?;
        Ok(Minted { row, secret: SecretString::from(secret) })
    }

    /// Revokes a token, from this moment on and everywhere: what was approved with it and has not started will not.
    pub(crate) async fn revoke_token(&self, id: TokenId, by: Option<&Caller>) -> Result<(), GatewayError> {
        let at = self.now();
        let audit = vec![AuditEntry::bare(at, "TokenRevoked", principal_of(by), id.to_string())];
        let tokens = vec![TokenWrite::Revoke { id, at }];
        self.store.commit(Write { require: still_good(by), tokens, audit, ..Write::default() }).await?;
        self.tokens.forget_all();
        self.grants.forget_all();
        Ok(())
    }

    /// Who a secret belongs to; nobody where it is unknown or revoked.
    pub(crate) async fn authenticate(&self, secret: &str) -> Result<Option<Caller>, GatewayError> {
        let hash = Digest::of(secret.as_bytes());
        if let Some(caller) = self.tokens.get(&hash) {
            return Ok(Some(caller));
        }
        let seen = self.tokens.revocations.load(Ordering::SeqCst);
        let row = self.store.token_by_hash(hash).await?;
        let live = row.filter(|row| row.revoked_at.is_none());
        let caller = live.map(|row| Caller { principal: row.principal, token: Some(row.id) });
        if let Some(caller) = &caller {
            self.tokens.remember(hash, caller, seen);
        }
        Ok(caller)
    }

    /// Who holds a token, by its id; nobody where it is unknown or revoked.
    pub(crate) async fn holder(&self, id: TokenId) -> Result<Option<Caller>, GatewayError> {
        let row = self.store.tokens().await?.into_iter().find(|row| row.id == id && row.revoked_at.is_none());
        Ok(row.map(|row| Caller { principal: row.principal, token: Some(row.id) }))
    }

    /// 256 random bits.
    fn secret(&self) -> Result<String, GatewayError> {
        let (a, b) = (u128::from_be_bytes(self.random()?), u128::from_be_bytes(self.random()?));
        Ok(format!("cs_{a:032x}{b:032x}"))
    }
}

fn principal_of(by: Option<&Caller>) -> Option<PrincipalId> {
    by.map(|caller| caller.principal.id.clone())
}

/// Whoever makes or revokes tokens must hold a good one at that very moment: a thief whose token is being revoked would
/// otherwise make a new one with it.
fn still_good(by: Option<&Caller>) -> Vec<Requirement> {
    by.and_then(|caller| caller.token).map(Requirement::TokenLive).into_iter().collect()
}
