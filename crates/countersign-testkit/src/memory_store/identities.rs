//! Users, tokens and logins of the store in memory: who counts, and how changes to them come out.

use countersign_core::ids::{LoginId, TokenId, UserId};
use countersign_core::time::Timestamp;
use countersign_kernel::ports::{
    LoginRow, LoginWrite, Requirement, StoreError, TokenRow, TokenWrite, UserMay, UserRow, UserWrite,
};
use countersign_sdk::Role;

use super::{State, contradiction};

impl State {
    pub(super) fn check_authority(&self, require: &[Requirement]) -> Result<(), StoreError> {
        for requirement in require {
            match *requirement {
                Requirement::TokenLive { id, now } if !self.is_live(id, now) => {
                    return Err(StoreError::TokenRevoked(id));
                }
                Requirement::User { id, may } if !self.user_may(id, may) => {
                    return Err(StoreError::UserInactive(id));
                }
                Requirement::LoginLive { id, now } if !self.is_logged_in(id, now) => {
                    return Err(StoreError::LoginEnded(id));
                }
                _ => {}
            }
        }
        Ok(())
    }

    pub(super) fn is_live(&self, id: TokenId, now: Timestamp) -> bool {
        self.tokens.iter().any(|token| {
            let owner = token.principal.user().and_then(|user| user.as_str().parse().ok());
            token.id == id
                && token.revoked_at.is_none()
                && token.expires_at.is_none_or(|end| now < end)
                && owner.is_none_or(|user| self.user_may(user, UserMay::Act))
        })
    }

    pub(super) fn user_may(&self, id: UserId, may: UserMay) -> bool {
        let decides =
            |user: &UserRow| user.roles.iter().any(|role| matches!(role, Role::Approver | Role::Admin));
        let active = |user: &&UserRow| user.id == id && user.disabled_at.is_none();
        self.users.iter().find(active).is_some_and(|user| may == UserMay::Act || decides(user))
    }

    pub(super) fn is_logged_in(&self, id: LoginId, now: Timestamp) -> bool {
        self.logins.iter().any(|login| {
            login.id == id
                && login.ended_at.is_none()
                && now < login.expires_at
                && self.user_may(login.user, UserMay::Act)
                && login.token.is_none_or(|token| self.is_live(token, now))
        })
    }

    pub(super) fn users_after(&self, writes: &[UserWrite]) -> Result<Vec<UserRow>, StoreError> {
        let mut users = self.users.clone();
        for write in writes {
            match write {
                UserWrite::Create(row) if users.iter().any(|user| user.name == row.name) => {
                    return Err(StoreError::NameTaken);
                }
                UserWrite::Create(row) if users.iter().any(|user| user.id == row.id) => {
                    return contradiction(&format!("{} exists already", row.id));
                }
                UserWrite::Create(row) => users.push(row.clone()),
                UserWrite::Change { id, roles, disabled_at } => {
                    let user = users.iter_mut().find(|user| user.id == *id);
                    let user = user.ok_or(StoreError::UserInactive(*id))?;
                    (user.roles, user.disabled_at) = (roles.clone(), *disabled_at);
                }
            }
        }
        Ok(users)
    }

    pub(super) fn write_login(&mut self, write: LoginWrite) {
        match write {
            LoginWrite::Begin(row) => {
                self.logins.retain(|login| login.expires_at > row.began_at);
                self.logins.push(row);
            }
            LoginWrite::End { id, at } => {
                self.logins.iter_mut().filter(|login| login.id == id).for_each(|login| end(login, at));
            }
        }
    }

    pub(super) fn tokens_after(&self, writes: &[TokenWrite]) -> Result<Vec<TokenRow>, StoreError> {
        let mut tokens = self.tokens.clone();
        for write in writes {
            match write {
                TokenWrite::Create(row) if tokens.iter().any(|t| t.id == row.id || t.hash == row.hash) => {
                    return contradiction(&format!("{} or its secret exists already", row.id));
                }
                TokenWrite::Create(row) => tokens.push(row.clone()),
                TokenWrite::Revoke { id, at } => {
                    let live = tokens.iter_mut().find(|token| token.id == *id && token.revoked_at.is_none());
                    if let Some(token) = live {
                        token.revoked_at = Some(*at);
                    }
                }
                TokenWrite::Adopt { id, principal } => {
                    let token = tokens.iter_mut().find(|token| token.id == *id);
                    token.into_iter().for_each(|token| token.principal = principal.clone());
                }
                TokenWrite::Used { id, at } => {
                    let token = tokens.iter_mut().find(|token| token.id == *id);
                    token.into_iter().for_each(|token| token.last_used_at = Some(*at));
                }
            }
        }
        Ok(tokens)
    }
}

pub(super) fn end(login: &mut LoginRow, at: Timestamp) {
    login.ended_at = login.ended_at.or(Some(at));
}
