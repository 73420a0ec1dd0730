//! Users: the people who decide, and their logins to the console.
//!
//! Promises: only users decide; a user is known by an id that never changes hands; whoever is disabled may do nothing from
//! that moment on, with whatever credential, and what they approved and has not started will not start. There is always an
//! admin.

use std::time::Duration;

use countersign_core::audit::AuditEntry;
use countersign_core::elicitation::Proof;
use countersign_core::ids::{LoginId, TokenId, UserId};
use countersign_core::time::Timestamp;
use countersign_sdk::{Principal, PrincipalId, PrincipalKind, Role};

use crate::accept::Caller;
use crate::error::GatewayError;
use crate::identities::{Known, principal_of};
use crate::kernel::Kernel;
use crate::ports::{LoginRow, LoginWrite, StoreError, UserMay, UserRow, UserWrite, Write};
use crate::tokens::{MAX_NAME_BYTES, check_name};

/// The most users there can be.
pub const MAX_USERS: usize = 10_000;

/// Why a user could not be added or changed.
#[derive(Debug, thiserror::Error)]
pub enum UserError {
    /// The name is unusable.
    #[error("a user's name has 1 to {MAX_NAME_BYTES} bytes and no control characters")]
    BadName,
    /// The name is taken.
    #[error("there is a user of this name already; choose another")]
    NameTaken,
    /// Users are approvers or admins; the other roles are for programs.
    #[error("a user's role is approver or admin, or none")]
    BadRole,
    /// There is no such user.
    #[error("there is no such user")]
    NotFound,
    /// Without an admin nobody could change anything any more.
    #[error("this is the last admin; make another user an admin first")]
    LastAdmin,
    /// There are as many as there can be.
    #[error("there are {MAX_USERS} users, and there can be no more")]
    TooMany,
    /// It cannot be told who the operator is.
    #[error("the record of the operator is damaged; restore a backup")]
    OperatorDamaged,
    /// An internal error.
    #[error("{0}")]
    Gateway(#[from] GatewayError),
}

impl UserError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::BadName => "bad_name",
            Self::NameTaken => "name_taken",
            Self::BadRole => "bad_role",
            Self::NotFound => "not_found",
            Self::LastAdmin => "last_admin",
            Self::TooMany => "too_many_users",
            Self::OperatorDamaged => "damaged",
            Self::Gateway(e) => e.code(),
        }
    }
}

/// The status of a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UserStatus {
    /// The user may act.
    Enabled,
    /// The user may not act.
    Disabled,
}

/// The changes to a user; fields that are left out stay.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct UserChange {
    /// The user's roles.
    pub roles: Option<Vec<Role>>,
    /// The new status.
    pub status: Option<UserStatus>,
}

impl Kernel {
    /// Adds a user.
    pub(crate) async fn create_user(
        &self,
        name: &str,
        roles: Vec<Role>,
        by: Option<&Caller>,
    ) -> Result<UserRow, UserError> {
        check_name(name).map_err(|()| UserError::BadName)?;
        check_roles(&roles)?;
        if self.store.users().await.map_err(GatewayError::from)?.recorded() >= MAX_USERS {
            return Err(UserError::TooMany);
        }
        let (id, created_at) = (UserId::from_random(self.random()?), self.now());
        let row = UserRow { id, name: name.to_owned(), roles, created_at, disabled_at: None };
        let detail = format!("{id} {:?} {name}", row.roles);
        let audit = vec![AuditEntry::bare(created_at, "UserAdded", principal_of(by), detail)];
        let users = vec![UserWrite::Create(row.clone())];
        let require = self.authority(by, UserMay::Decide);
        match self.store.commit(Write { require, users, audit, ..Write::default() }).await {
            Err(StoreError::NameTaken) => Err(UserError::NameTaken),
            Err(error) => Err(GatewayError::from(error).into()),
            Ok(_) => Ok(row),
        }
    }

    /// Changes a user's roles, or disables or enables them.
    pub(crate) async fn change_user(
        &self,
        id: UserId,
        change: UserChange,
        by: Option<&Caller>,
    ) -> Result<UserRow, UserError> {
        let at = self.now();
        let all = self.store.users().await.map_err(GatewayError::from)?.items;
        let mut row = all.iter().find(|user| user.id == id).cloned().ok_or(UserError::NotFound)?;
        if let Some(roles) = change.roles {
            check_roles(&roles)?;
            row.roles = roles;
        }
        match change.status {
            Some(UserStatus::Disabled) => row.disabled_at = row.disabled_at.or(Some(at)),
            Some(UserStatus::Enabled) => row.disabled_at = None,
            None => {}
        }
        let is_admin = |user: &UserRow| user.disabled_at.is_none() && user.roles.contains(&Role::Admin);
        if !is_admin(&row) && !all.iter().any(|user| user.id != id && is_admin(user)) {
            return Err(UserError::LastAdmin);
        }
        let what = if row.disabled_at.is_some() { "UserDisabled" } else { "UserChanged" };
        let detail = format!("{id} {:?} {}", row.roles, row.name);
        let audit = vec![AuditEntry::bare(at, what, principal_of(by), detail)];
        let (roles, disabled_at) = (row.roles.clone(), row.disabled_at);
        let users = vec![UserWrite::Change { id, roles, disabled_at }];
        let require = self.authority(by, UserMay::Decide);
        self.store
            .commit(Write { require, users, audit, ..Write::default() })
            .await
            .map_err(GatewayError::from)?;
        self.forget_identities();
        Ok(row)
    }

    /// The first user there is, made if there is none, with every token of an earlier version.
    pub(crate) async fn ensure_operator(&self, name: &str) -> Result<UserRow, UserError> {
        let known = self.store.users().await.map_err(GatewayError::from)?;
        let first = known.items.into_iter().next();
        // A later user is not the operator because the operator's record cannot be read.
        let is_first = |at: Timestamp| first.as_ref().is_none_or(|first| at <= first.created_at);
        if known.damaged.iter().any(|damaged| is_first(damaged.at)) {
            return Err(UserError::OperatorDamaged);
        }
        if let Some(first) = first {
            return Ok(first);
        }
        let operator = self.create_user(name, vec![Role::Admin], None).await?;
        self.adopt_tokens(operator.id).await?;
        Ok(operator)
    }

    /// A user who may act; nobody where they are unknown or disabled.
    pub(crate) async fn active_user(&self, id: UserId) -> Result<Option<UserRow>, GatewayError> {
        let users = self.store.users().await?.items;
        Ok(users.into_iter().find(|user| user.id == id && user.disabled_at.is_none()))
    }

    /// Begins a login to the console.
    pub(crate) async fn begin_login(
        &self,
        user: UserId,
        token: Option<TokenId>,
        life: Duration,
    ) -> Result<Option<LoginRow>, GatewayError> {
        let began_at = self.now();
        let id = LoginId::from_random(self.random()?);
        let row = LoginRow { id, user, token, began_at, expires_at: began_at.after(life), ended_at: None };
        let by = PrincipalId::parse(&user.to_string()).ok();
        let audit = vec![AuditEntry::bare(began_at, "LoginBegan", by, id.to_string())];
        let mut require = vec![crate::ports::Requirement::User { id: user, may: UserMay::Decide }];
        require.extend(token.map(|id| crate::ports::Requirement::TokenLive { id, now: began_at }));
        let logins = vec![LoginWrite::Begin(row.clone())];
        match self.store.commit(Write { require, logins, audit, ..Write::default() }).await {
            Ok(_) => Ok(Some(row)),
            Err(StoreError::UserInactive(_) | StoreError::TokenRevoked(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Ends a login, at once and for good.
    pub(crate) async fn end_login(&self, id: LoginId, by: &Caller) -> Result<(), GatewayError> {
        let at = self.now();
        let audit = vec![AuditEntry::bare(at, "LoginEnded", Some(by.principal.id.clone()), id.to_string())];
        let logins = vec![LoginWrite::End { id, at }];
        self.store.commit(Write { logins, audit, ..Write::default() }).await?;
        self.forget_identities();
        Ok(())
    }

    /// The caller of a login; none where the login has ended or its user may no longer decide.
    pub(crate) async fn login_caller(&self, id: LoginId) -> Result<Option<Caller>, GatewayError> {
        let now = self.now();
        if let Some(known) = self.identities.login(id) {
            return Ok(known.caller_at(now));
        }
        let seen = self.identities.changes();
        let Some(login) = self.store.login(id).await? else { return Ok(None) };
        if login.ended_at.is_some() || login.expires_at <= now {
            return Ok(None);
        }
        let Some(user) = self.active_user(login.user).await? else { return Ok(None) };
        if let Some(token) = login.token {
            let rows = self.store.tokens().await?.items;
            let is_good = rows.iter().any(|row| {
                row.id == token && row.revoked_at.is_none() && row.expires_at.is_none_or(|end| now < end)
            });
            if !is_good {
                return Ok(None);
            }
        }
        let principal = PrincipalId::parse(&user.id.to_string()).map_err(|_| GatewayError::NoEntropy)?;
        let principal =
            Principal { id: principal, kind: PrincipalKind::User, roles: user.roles, owner: None };
        let caller =
            Caller { principal, token: login.token, proof: Some(Proof::Login { id }), attended: false };
        let known = Known::new(caller, Some(login.expires_at), Some(now));
        self.identities.remember_login(id, &known, seen);
        Ok(known.caller_at(now))
    }
}

fn check_roles(roles: &[Role]) -> Result<(), UserError> {
    let fit = roles.iter().all(|role| matches!(role, Role::Approver | Role::Admin));
    if fit { Ok(()) } else { Err(UserError::BadRole) }
}
