//! Tokens: who acts, proved by a secret that is stored nowhere.
//!
//! Promises: a token of a user acts as that user, whichever of their tokens it is; a token of an agent, service or worker
//! names the user it acts for; a token that was revoked or has expired, or whose user was disabled, is nobody's from that
//! moment on.

use countersign_core::audit::AuditEntry;
use countersign_core::digest::Digest;
use countersign_core::elicitation::Proof;
use countersign_core::ids::{TokenId, UserId};
use countersign_core::time::Timestamp;
use countersign_sdk::{Principal, PrincipalId, PrincipalKind, Role, SecretString};

use crate::accept::Caller;
use crate::error::GatewayError;
use crate::identities::{Known, principal_of};
use crate::kernel::Kernel;
use crate::ports::{TokenRow, TokenWrite, UserMay, UserRow, Write};

/// The longest name of a token or user.
pub(crate) const MAX_NAME_BYTES: usize = 100;

/// A token to be made.
#[derive(Debug, Clone)]
pub struct NewToken {
    /// Its name for people.
    pub name: String,
    /// The role of its bearer.
    pub role: Role,
    /// The user whose token it is, or for whom its bearer acts. None makes a principal of its own, for programs that embed a gateway
    /// without users.
    pub user: Option<UserId>,
    /// Whether the prompts of the client that holds it reach a person.
    pub attended: bool,
    /// From when on it is good for nothing.
    pub expires_at: Option<Timestamp>,
}

impl NewToken {
    /// A token without user or end, for an unattended client.
    pub fn new(name: impl Into<String>, role: Role) -> Self {
        Self { name: name.into(), role, user: None, attended: false, expires_at: None }
    }

    /// The same, of this user.
    #[must_use]
    pub fn of(mut self, user: UserId) -> Self {
        self.user = Some(user);
        self
    }

    /// The same, for a client whose prompts reach a person.
    #[must_use]
    pub fn attended(mut self) -> Self {
        self.attended = true;
        self
    }

    /// The same, good until then.
    #[must_use]
    pub fn until(mut self, end: Timestamp) -> Self {
        self.expires_at = Some(end);
        self
    }
}

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
    #[error("a name has 1 to {MAX_NAME_BYTES} bytes and no control characters")]
    BadName,
    /// There is no such user, or they are disabled.
    #[error("there is no such user, or the user is disabled")]
    NoUser,
    /// The user may not do what the token would let its bearer do.
    #[error("the user does not have this role; change the user's roles first")]
    RoleNotHeld,
    /// Only an agent has a client whose prompts reach a person.
    #[error("only a token with the role agent can be attended")]
    AttendedNotAgent,
    /// Its end has passed already.
    #[error("the token would have expired already")]
    AlreadyExpired,
    /// An internal error.
    #[error("{0}")]
    Gateway(#[from] GatewayError),
}

impl TokenError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::BadName => "bad_name",
            Self::NoUser => "no_user",
            Self::RoleNotHeld => "role_not_held",
            Self::AttendedNotAgent => "attended_not_agent",
            Self::AlreadyExpired => "already_expired",
            Self::Gateway(e) => e.code(),
        }
    }
}

impl Kernel {
    /// Makes a token.
    pub(crate) async fn create_token(
        &self,
        new: NewToken,
        by: Option<&Caller>,
    ) -> Result<Minted, TokenError> {
        check_name(&new.name).map_err(|()| TokenError::BadName)?;
        let created_at = self.now();
        if new.attended && new.role != Role::Agent {
            return Err(TokenError::AttendedNotAgent);
        }
        if new.expires_at.is_some_and(|end| end <= created_at) {
            return Err(TokenError::AlreadyExpired);
        }
        let id = TokenId::from_random(self.random()?);
        let secret = self.secret()?;
        let row = TokenRow {
            id,
            hash: Digest::of(secret.as_bytes()),
            principal: self.bearer(id, &new).await?,
            name: new.name,
            attended: new.attended,
            created_at,
            expires_at: new.expires_at,
            last_used_at: None,
            revoked_at: None,
        };
        let attended = if row.attended { ", attended" } else { "" };
        let of = row.principal.user().map(|user| format!(" of {user}")).unwrap_or_default();
        let detail = format!("{id} {:?} {}{of}{attended}", new.role, row.name);
        let audit = vec![AuditEntry::bare(created_at, "TokenCreated", principal_of(by), detail)];
        let tokens = vec![TokenWrite::Create(row.clone())];
        let write = Write { require: self.authority(by, UserMay::Act), tokens, audit, ..Write::default() };
        self.store.commit(write).await.map_err(GatewayError::from)?;
        Ok(Minted { row, secret: SecretString::from(secret) })
    }

    /// The principal of a new token.
    async fn bearer(&self, id: TokenId, new: &NewToken) -> Result<Principal, TokenError> {
        let kind = match new.role {
            Role::Agent => PrincipalKind::Agent,
            Role::Service => PrincipalKind::Service,
            Role::Worker => PrincipalKind::Worker,
            Role::Approver | Role::Admin => PrincipalKind::User,
        };
        let own_id = PrincipalId::parse(&id.to_string()).map_err(|_| GatewayError::NoEntropy)?;
        let Some(user) = new.user else {
            return Ok(Principal { id: own_id, kind, roles: vec![new.role], owner: None });
        };
        let row = self.active_user(user).await?.ok_or(TokenError::NoUser)?;
        let user_id = PrincipalId::parse(&user.to_string()).map_err(|_| GatewayError::NoEntropy)?;
        if kind != PrincipalKind::User {
            return Ok(Principal { id: own_id, kind, roles: vec![new.role], owner: Some(user_id) });
        }
        if effective_roles(new.role, &row) != [new.role] {
            return Err(TokenError::RoleNotHeld);
        }
        Ok(Principal { id: user_id, kind, roles: vec![new.role], owner: None })
    }

    /// Revokes a token, from this moment on and everywhere: what was approved with it and has not started will not.
    pub(crate) async fn revoke_token(&self, id: TokenId, by: Option<&Caller>) -> Result<(), GatewayError> {
        let at = self.now();
        let audit = vec![AuditEntry::bare(at, "TokenRevoked", principal_of(by), id.to_string())];
        let tokens = vec![TokenWrite::Revoke { id, at }];
        let require = self.authority(by, UserMay::Act);
        self.store.commit(Write { require, tokens, audit, ..Write::default() }).await?;
        self.forget_identities();
        Ok(())
    }

    /// The caller that a secret belongs to; none where it is unknown, revoked or expired, or its user is disabled.
    pub(crate) async fn authenticate(&self, secret: &str) -> Result<Option<Caller>, GatewayError> {
        let hash = Digest::of(secret.as_bytes());
        let now = self.now();
        if let Some(known) = self.identities.bearer(&hash) {
            self.note_use(&known, now);
            return Ok(known.caller_at(now));
        }
        let seen = self.identities.changes();
        let Some(row) = self.store.token_by_hash(hash).await? else { return Ok(None) };
        let Some(caller) = self.caller_of(&row, now).await? else { return Ok(None) };
        let known = Known::new(caller, row.expires_at, row.last_used_at);
        self.note_use(&known, now);
        self.identities.remember_bearer(hash, &known, seen);
        Ok(known.caller_at(now))
    }

    /// The caller that acts with a token now.
    pub(crate) async fn caller_of(
        &self,
        row: &TokenRow,
        now: Timestamp,
    ) -> Result<Option<Caller>, GatewayError> {
        if row.revoked_at.is_some() || row.expires_at.is_some_and(|end| end <= now) {
            return Ok(None);
        }
        let mut principal = row.principal.clone();
        if let Some(user) = principal.user().and_then(|user| user.as_str().parse::<UserId>().ok()) {
            let Some(user) = self.active_user(user).await? else { return Ok(None) };
            if principal.kind == PrincipalKind::User {
                principal.roles =
                    principal.roles.iter().flat_map(|role| effective_roles(*role, &user)).collect();
            }
        }
        let (token, proof) = (Some(row.id), Some(Proof::Token));
        Ok(Some(Caller { principal, token, proof, attended: row.attended }))
    }

    /// Notes that a token was used, at most once a minute: for people who look for tokens nobody needs.
    fn note_use(&self, known: &Known, now: Timestamp) {
        if let Some(id) = known.use_to_note(now) {
            let write = Write { tokens: vec![TokenWrite::Used { id, at: now }], ..Write::default() };
            if let Err(error) = self.store.commit_soon(write) {
                tracing::debug!(%error, "the use of a token could not be noted");
            }
        }
    }

    /// Gives the tokens of an earlier version, which had no users, to the operator.
    pub(crate) async fn adopt_tokens(&self, operator: UserId) -> Result<(), GatewayError> {
        let user = PrincipalId::parse(&operator.to_string()).map_err(|_| GatewayError::NoEntropy)?;
        let ownerless =
            |row: &TokenRow| row.principal.user().is_none_or(|user| user.as_str().parse::<UserId>().is_err());
        for row in self.store.tokens().await?.items.into_iter().filter(ownerless) {
            let principal = match row.principal.kind {
                PrincipalKind::User => Principal { id: user.clone(), ..row.principal },
                _ => row.principal.owned_by(user.clone()),
            };
            let detail = format!("{} of {operator}", row.id);
            let audit = vec![AuditEntry::bare(self.now(), "TokenAdopted", None, detail)];
            let tokens = vec![TokenWrite::Adopt { id: row.id, principal }];
            self.store.commit(Write { tokens, audit, ..Write::default() }).await?;
        }
        self.forget_identities();
        Ok(())
    }

    /// 256 random bits.
    fn secret(&self) -> Result<String, GatewayError> {
        let (a, b) = (u128::from_be_bytes(self.random()?), u128::from_be_bytes(self.random()?));
        Ok(format!("cs_{a:032x}{b:032x}"))
    }
}

/// The roles of a user's token: no more than the token has, and no more than the user has.
fn effective_roles(token: Role, user: &UserRow) -> Vec<Role> {
    let is = |role: Role| user.roles.contains(&role);
    match token {
        Role::Admin if is(Role::Admin) => vec![Role::Admin],
        Role::Admin | Role::Approver if is(Role::Admin) || is(Role::Approver) => vec![Role::Approver],
        _ => Vec::new(),
    }
}

/// Whether a name can be shown: not empty, short, without control characters.
pub(crate) fn check_name(name: &str) -> Result<(), ()> {
    let fits = !name.trim().is_empty() && name.len() <= MAX_NAME_BYTES && !name.chars().any(char::is_control);
    if fits { Ok(()) } else { Err(()) }
}
