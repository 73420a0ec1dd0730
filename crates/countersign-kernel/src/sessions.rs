//! Sessions: whose a conversation is.
//!
//! Promise: a session belongs to a principal and to the client that opened it. To everybody else, and to another client of
//! the same principal, it does not exist.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use countersign_core::audit::AuditEntry;
use countersign_sdk::{PrincipalId, PrincipalKind, SessionId};

use crate::accept::Caller;
use crate::error::GatewayError;
use crate::kernel::Kernel;
use crate::ports::{Requirement, SessionRow, Store, StoreError, Write};

/// How many sessions are kept in memory; past this the cache starts anew.
const MAX_SESSIONS: usize = 100_000;
/// The longest client name.
const MAX_CLIENT_BYTES: usize = 200;
/// Names that people use for a session at their terminal. An agent that opened one first would keep them out of it.
const NAMES_OF_PEOPLE: [&str; 1] = ["ses_local"];

/// Why a session could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The client's name for itself is unusable.
    #[error("a client name has 1 to {MAX_CLIENT_BYTES} bytes and no control characters")]
    BadClient,
    /// The id is somebody else's, or another client's, or kept for people.
    #[error("the session belongs to another principal or client")]
    Taken,
    /// The principal has as many as it may.
    #[error(
        "this principal has {bound} sessions, and it may not have more; use one of them, or another token"
    )]
    TooMany {
        /// The bound.
        bound: usize,
    },
    /// An internal error.
    #[error("{0}")]
    Gateway(#[from] GatewayError),
}

impl SessionError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::BadClient => "bad_client",
            Self::Taken => "session_taken",
            Self::TooMany { .. } => "too_many_sessions",
            Self::Gateway(e) => e.code(),
        }
    }
}

/// The owner of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionOwner {
    /// The principal that opened it.
    pub principal: PrincipalId,
    /// The client through which it was opened.
    pub client: String,
}

/// The owners of the sessions that were read.
#[derive(Default)]
pub(crate) struct SessionCache {
    owners: RwLock<HashMap<SessionId, SessionOwner>>,
}

impl SessionCache {
    pub(crate) async fn owner(
        &self,
        store: &dyn Store,
        id: &SessionId,
    ) -> Result<Option<SessionOwner>, GatewayError> {
        if let Some(owner) = self.owners.read().unwrap_or_else(PoisonError::into_inner).get(id) {
            return Ok(Some(owner.clone()));
        }
        let owner = store.session(id).await?.map(SessionOwner::from);
        if let Some(owner) = &owner {
            self.remember(id, owner);
        }
        Ok(owner)
    }

    fn remember(&self, id: &SessionId, owner: &SessionOwner) {
        let mut owners = self.owners.write().unwrap_or_else(PoisonError::into_inner);
        if owners.len() >= MAX_SESSIONS {
            owners.clear();
        }
        owners.insert(id.clone(), owner.clone());
    }
}

impl From<SessionRow> for SessionOwner {
    fn from(row: SessionRow) -> Self {
        Self { principal: row.principal, client: row.client }
    }
}

impl Kernel {
    /// Opens a session, new or with an id of the caller's choice; a client that opens its own again changes nothing.
    pub(crate) async fn open_session(
        &self,
        by: &Caller,
        client: &str,
        id: Option<SessionId>,
    ) -> Result<SessionId, SessionError> {
        if client.is_empty() || client.len() > MAX_CLIENT_BYTES || client.chars().any(char::is_control) {
            return Err(SessionError::BadClient);
        }
        let id = match id {
            Some(id) => id,
            None => self.new_session_id()?,
        };
        if by.principal.kind != PrincipalKind::User && NAMES_OF_PEOPLE.contains(&id.as_str()) {
            return Err(SessionError::Taken);
        }
        let claimed = SessionOwner { principal: by.principal.id.clone(), client: client.to_owned() };
        match self.sessions.owner(&*self.store, &id).await? {
            Some(owner) if owner == claimed => return Ok(id),
            Some(_) => return Err(SessionError::Taken),
            None => {}
        }
        let opened_at = self.now();
        let principal = by.principal.id.clone();
        let audit = vec![AuditEntry::bare(
            opened_at,
            "SessionOpened",
            Some(principal.clone()),
            format!("{id} by {client}"),
        )];
        let bound = self.settings.max_sessions_per_principal;
        let require = vec![Requirement::SessionsBelow { principal: principal.clone(), bound }];
        let row = SessionRow { id: id.clone(), principal, client: claimed.client.clone(), opened_at };
        let write = Write { require, session: Some(row), audit, ..Write::default() };
        self.store.commit(write).await.map_err(|error| match error {
            StoreError::TooManySessions { bound } => SessionError::TooMany { bound },
            other => GatewayError::from(other).into(),
        })?;
        // Two callers may have opened the same id at once; the store kept the first.
        let kept = self.store.session(&id).await.map_err(GatewayError::from)?.map(SessionOwner::from);
        if kept.as_ref() != Some(&claimed) {
            return Err(SessionError::Taken);
        }
        self.sessions.remember(&id, &claimed);
        Ok(id)
    }

    fn new_session_id(&self) -> Result<SessionId, GatewayError> {
        let bits = u128::from_be_bytes(self.random()?);
        SessionId::parse(&format!("ses_{bits:032x}")).map_err(|_| GatewayError::NoEntropy)
    }
}
