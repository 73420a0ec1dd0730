//! The façade over users, tokens and logins.

use std::sync::Arc;
use std::time::Duration;

use countersign_core::ids::{LoginId, TokenId, UserId};
use countersign_sdk::Role;
use tokio::sync::watch;

use super::{Gateway, run_detached};
use crate::accept::Caller;
use crate::error::GatewayError;
use crate::ports::{Listing, LoginRow, TokenRow, UserRow};
use crate::tokens::{Minted, NewToken, TokenError};
use crate::users::{UserChange, UserError};

impl Gateway {
    /// Makes a token.
    pub async fn create_token(&self, new: NewToken, by: Option<&Caller>) -> Result<Minted, TokenError> {
        let (kernel, by) = (Arc::clone(&self.kernel), by.cloned());
        run_detached(async move { kernel.create_token(new, by.as_ref()).await }).await
    }

    /// Revokes a token.
    pub async fn revoke_token(&self, id: TokenId, by: Option<&Caller>) -> Result<(), GatewayError> {
        let (kernel, by) = (Arc::clone(&self.kernel), by.cloned());
        run_detached(async move { kernel.revoke_token(id, by.as_ref()).await }).await
    }

    /// All tokens whose records are whole, oldest first.
    pub async fn tokens(&self) -> Result<Vec<TokenRow>, GatewayError> {
        Ok(self.list_tokens().await?.items)
    }

    /// All tokens, and those whose records are damaged: they are good for nothing.
    pub async fn list_tokens(&self) -> Result<Listing<TokenRow>, GatewayError> {
        Ok(self.kernel.store.tokens().await?)
    }

    /// The caller that a secret belongs to.
    pub async fn authenticate(&self, secret: &str) -> Result<Option<Caller>, GatewayError> {
        self.kernel.authenticate(secret).await
    }

    /// Whether a caller's credential still counts, for whoever has been streaming to them.
    pub async fn still_counts(&self, caller: &Caller) -> Result<bool, GatewayError> {
        self.kernel.still_counts(caller).await
    }

    /// Changes whenever a token is revoked, a login ends or a user changes: [`Gateway::still_counts`] may answer otherwise.
    pub fn identity_changes(&self) -> watch::Receiver<u64> {
        self.kernel.identities.watch()
    }

    /// All users whose records are whole, oldest first.
    pub async fn users(&self) -> Result<Vec<UserRow>, GatewayError> {
        Ok(self.list_users().await?.items)
    }

    /// All users, oldest first, and those whose records are damaged: they may do nothing. The first one is the operator.
    pub async fn list_users(&self) -> Result<Listing<UserRow>, GatewayError> {
        Ok(self.kernel.store.users().await?)
    }

    /// The operator: the first user there is, made under this name if there is none. Where that user's record is damaged
    /// nobody takes their place ([`UserError::OperatorDamaged`]).
    pub async fn ensure_operator(&self, name: &str) -> Result<UserRow, UserError> {
        let (kernel, name) = (Arc::clone(&self.kernel), name.to_owned());
        run_detached(async move { kernel.ensure_operator(&name).await }).await
    }

    /// Adds a user.
    pub async fn create_user(
        &self,
        name: &str,
        roles: Vec<Role>,
        by: Option<&Caller>,
    ) -> Result<UserRow, UserError> {
        let (kernel, name, by) = (Arc::clone(&self.kernel), name.to_owned(), by.cloned());
        run_detached(async move { kernel.create_user(&name, roles, by.as_ref()).await }).await
    }

    /// Changes a user's roles, or disables or enables them.
    pub async fn change_user(
        &self,
        id: UserId,
        change: UserChange,
        by: Option<&Caller>,
    ) -> Result<UserRow, UserError> {
        let (kernel, by) = (Arc::clone(&self.kernel), by.cloned());
        run_detached(async move { kernel.change_user(id, change, by.as_ref()).await }).await
    }

    /// Begins a login to the console; nothing where the user may not decide, or the token is not good.
    pub async fn begin_login(
        &self,
        user: UserId,
        token: Option<TokenId>,
        life: Duration,
    ) -> Result<Option<LoginRow>, GatewayError> {
        let kernel = Arc::clone(&self.kernel);
        run_detached(async move { kernel.begin_login(user, token, life).await }).await
    }

    /// Ends a login, at once and for good.
    pub async fn end_login(&self, id: LoginId, by: &Caller) -> Result<(), GatewayError> {
        let (kernel, by) = (Arc::clone(&self.kernel), by.clone());
        run_detached(async move { kernel.end_login(id, &by).await }).await
    }

    /// The caller of a login; none where the login has ended or its user is disabled.
    pub async fn login_caller(&self, id: LoginId) -> Result<Option<Caller>, GatewayError> {
        self.kernel.login_caller(id).await
    }
}
