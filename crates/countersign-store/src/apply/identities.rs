//! Grants, people, tokens, logins and sources.

use countersign_core::ids::UserId;
use countersign_kernel::ports::{StoreError, TokenRow, UserRow};
use rusqlite::params;

use super::{Statements, refuse};
use crate::fault::Fault;
use crate::rows::{self, Body, Stored as _};
use crate::staged::{StagedGrant, StagedLogin, StagedSource, StagedToken, StagedUser};

impl Statements<'_> {
    pub(super) fn write_grant(&mut self, grant: &StagedGrant) -> Result<(), Fault> {
        match grant {
            StagedGrant::Give { id, session, token, user, expires_at, uses_left, body } => {
                let (session, Body { text, sum }) = (session.as_str(), body);
                let row = params![id, session, token, expires_at, uses_left, text, sum, user];
                self.give_grant.execute(row)?;
            }
            StagedGrant::Use { blob, .. } => {
                self.check_grant(grant)?;
                self.use_grant.execute([blob])?;
            }
            StagedGrant::Expire(id) => {
                self.expire_grant.execute([id])?;
            }
            StagedGrant::Revoke(id) => {
                self.revoke_grant.execute([id])?;
            }
            StagedGrant::Clear(session) => {
                self.clear_grants.execute([session.as_str()])?;
            }
        }
        Ok(())
    }

    pub(super) fn write_token(&mut self, token: &StagedToken) -> Result<(), Fault> {
        match token {
            StagedToken::Create { id, hash, created_at, revoked_at, owner, expires_at, body } => {
                let Body { text, sum } = body;
                let row = params![id, hash, created_at, revoked_at, text, sum, owner, expires_at];
                self.create_token.execute(row)?;
            }
            StagedToken::Revoke { id, at } => {
                self.revoke_token.execute(params![id, at])?;
            }
            StagedToken::Adopt { id, principal, owner } => {
                let mut found = self.find_token.query([id])?;
                let Some(row) = found.next()? else { return Ok(()) };
                let adopted = TokenRow { principal: principal.clone(), ..rows::token(row)? };
                let body = Body::of(&adopted, 0).map_err(Fault::Refused)?;
                self.adopt_token.execute(params![id, body.text, body.sum, owner])?;
            }
            StagedToken::Used { id, at } => {
                self.use_token.execute(params![id, at])?;
            }
        }
        Ok(())
    }

    pub(super) fn write_user(&mut self, user: &StagedUser) -> Result<(), Fault> {
        match user {
            StagedUser::Create { id, name, created_at, may_decide, disabled_at, body } => {
                if self.find_user_by_name.exists([name])? {
                    return refuse(StoreError::NameTaken);
                }
                let row = params![id, name, created_at, may_decide, disabled_at, body.text, body.sum];
                self.create_user.execute(row)?;
            }
            StagedUser::Change { id, roles, may_decide, disabled_at } => {
                let mut found = self.find_user.query([id])?;
                let Some(row) = found.next()? else {
                    return refuse(StoreError::UserInactive(UserId::of_blob(*id)));
                };
                let changed = UserRow { roles: roles.clone(), ..rows::user(row)? };
                let body = Body::of(&changed, 0).map_err(Fault::Refused)?;
                self.change_user.execute(params![id, may_decide, disabled_at, body.text, body.sum])?;
                if let Some(at) = disabled_at {
                    self.end_logins_of.execute(params![id, at])?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn write_source(&mut self, source: &StagedSource) -> Result<(), Fault> {
        match source {
            StagedSource::Put { name, body } => {
                self.put_source.execute(params![name, body.text, body.sum])?;
            }
            StagedSource::Remove { name } => {
                self.remove_source.execute([name])?;
                self.forget_source_tools.execute([name])?;
            }
            StagedSource::Accept { source, origin, body } => {
                self.accept_source_tool.execute(params![source, origin, body.text, body.sum])?;
            }
            StagedSource::Forget { source, origin } => {
                self.forget_source_tool.execute([source, origin])?;
            }
        }
        Ok(())
    }

    pub(super) fn write_login(&mut self, login: &StagedLogin) -> Result<(), Fault> {
        match login {
            StagedLogin::Begin { id, user, token, began_at, expires_at } => {
                self.forget_logins.execute([began_at])?;
                self.begin_login.execute(params![id, user, token, began_at, expires_at])?;
            }
            StagedLogin::End { id, at } => {
                self.end_login.execute(params![id, at])?;
            }
        }
        Ok(())
    }
}
