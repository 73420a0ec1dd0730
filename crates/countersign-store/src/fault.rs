//! Errors below the port: some concern one change, others its whole transaction.
//!
//! Promise: a refusal concerns one change and the medium is fine; every other error fails all changes that
//! shared the transaction.

use std::sync::Arc;

use countersign_kernel::ports::StoreError;
use rusqlite::ErrorCode;

/// The reason for a failed change or query.
#[derive(Debug)]
pub(crate) enum Fault {
    /// This one change or query cannot be: a requirement does not hold, or a row is not what this build wrote.
    Refused(StoreError),
    /// The medium or the file failed.
    Medium(rusqlite::Error),
}

/// The error that failed a whole transaction, shared by all of its changes.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the transaction failed and was rolled back")]
pub(crate) struct TransactionFailed(#[source] pub(crate) Arc<rusqlite::Error>);

/// The writer's thread is gone, which only happens while the store is being dropped.
#[derive(Debug, thiserror::Error)]
#[error("the store is closed")]
pub(crate) struct Closed;

/// An accepted record could not be written yet.
#[derive(Debug, thiserror::Error)]
#[error("an earlier write failed and none has succeeded since")]
pub(crate) struct StillFailing;

impl Fault {
    /// Something stored does not read as what this build writes.
    pub(crate) fn unreadable(what: impl Into<String>) -> Self {
        Self::Refused(StoreError::Corrupt(what.into()))
    }
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::ConstraintViolation) => {
                Self::unreadable(format!("the change contradicts what is stored: {error}"))
            }
            Some(ErrorCode::TooBig) => Self::unreadable(format!("the change is too large to store: {error}")),
            Some(_) => Self::Medium(error),
            None => Self::unreadable(error.to_string()),
        }
    }
}

impl From<Fault> for StoreError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Refused(error) => error,
            Fault::Medium(error) if is_damage(&error) => Self::Corrupt(damage(&error)),
            Fault::Medium(error) => Self::Unavailable(Box::new(error)),
        }
    }
}

/// Whether the file itself is no longer what SQLite wrote.
pub(crate) fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}

/// The message about a damaged file.
pub(crate) fn damage(error: &rusqlite::Error) -> String {
    format!(
        "the database is damaged ({error}); stop countersign, copy the data folder, then restore a backup or rescue \
         what can be read with `sqlite3 countersign.db .recover`"
    )
}
