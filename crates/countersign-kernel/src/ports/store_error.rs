//! Why the store refused or failed. Unless the medium failed, a refusal means that nothing was changed.

use countersign_core::ids::{ExecutionId, GrantId, LoginId, TokenId, UserId};

/// Why the store did not do it.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the names say it")]
pub enum StoreError {
    /// The journal is not where the writer thought; nothing was changed.
    #[error("the journal has {actual} events, the writer expected {expected}")]
    Conflict {
        /// The length that the writer expected.
        expected: u64,
        /// The length in the store.
        actual: u64,
    },
    /// The requester has another execution under this key; nothing was changed.
    #[error("the key belongs to {0}")]
    KeyTaken(ExecutionId),
    /// The grant cannot be used; nothing was changed.
    #[error("the grant {0} is gone, used up or expired")]
    GrantGone(GrantId),
    /// A token that the change relies on is unknown, revoked or expired, or its user is disabled; nothing was changed.
    #[error("the token {0} is revoked or expired")]
    TokenRevoked(TokenId),
    /// A user that the change relies on is unknown, disabled, or may not do this; nothing was changed.
    #[error("the user {0} is disabled or may not do this")]
    UserInactive(UserId),
    /// A login that the change relies on has ended; nothing was changed.
    #[error("the login {0} has ended")]
    LoginEnded(LoginId),
    /// Another user has this name; nothing was changed.
    #[error("there is a user of this name already")]
    NameTaken,
    /// The session has as many open elicitations as it may; nothing was changed.
    #[error("the session has {bound} open elicitations, which is the bound")]
    TooManyPending { bound: usize },
    /// The requester has as many open elicitations, or as many bytes of them, as it may; nothing was changed.
    #[error(
        "this requester has as many open elicitations as it may ({open}, or {bytes} bytes); some must be decided first"
    )]
    RequesterFull {
        /// The bound on how many are open.
        open: usize,
        /// The bound on their bytes.
        bytes: usize,
    },
    /// The principal has as many sessions as it may; nothing was changed.
    #[error("the principal has {bound} sessions, which is the bound")]
    TooManySessions { bound: usize },
    /// The cursor is not one of ours.
    #[error("the cursor is not from an earlier page")]
    BadCursor,
    /// The queue of writes is full; nothing was changed.
    #[error("the store has more to write than it can; try again shortly")]
    Overloaded,
    /// The data is not what this build wrote.
    #[error("stored data is unreadable: {0}")]
    Corrupt(String),
    /// The medium failed. Whether the change happened is unknown until it is looked at.
    #[error("the store is unavailable")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl StoreError {
    /// Whether somebody that the change relies on no longer counts.
    pub fn is_lost_authority(&self) -> bool {
        matches!(self, Self::TokenRevoked(_) | Self::UserInactive(_) | Self::LoginEnded(_))
    }
}
