//! Short lists that are read whole: sources, what was accepted of them, and grants whose time is up.

use countersign_core::ids::GrantId;
use countersign_core::time::Timestamp;
use countersign_kernel::ports::{SourceRow, SourceToolRow};
use countersign_sdk::SessionId;
use rusqlite::Connection;

use crate::fault::Fault;
use crate::read::{all, most};
use crate::rows::{self, millis};

/// All sources, by name.
pub(crate) fn sources(db: &Connection) -> Result<Vec<SourceRow>, Fault> {
    all(db, "SELECT body, sum FROM sources ORDER BY name", [], |row| rows::body(row, 0, 0, "a source"))
}

/// The accepted definitions of a source's tools, by origin.
pub(crate) fn source_tools(db: &Connection, source: &str) -> Result<Vec<SourceToolRow>, Fault> {
    let sql = "SELECT body, sum FROM source_tools WHERE source = ?1 ORDER BY origin";
    all(db, sql, [source], |row| rows::body(row, 0, 0, "an accepted tool"))
}

/// Grants whose time is up and that still count as far as the database knows.
pub(crate) fn due_grants(
    db: &Connection,
    now: Timestamp,
    limit: usize,
) -> Result<Vec<(GrantId, SessionId)>, Fault> {
    let sql = "SELECT id, session FROM grants
               WHERE expires_at <= ?1 AND (uses_left IS NULL OR uses_left > 0) ORDER BY expires_at LIMIT ?2";
    all(db, sql, [millis(now), most(limit)], |row| Ok((rows::id(row, 0)?, rows::session_id(row, 1)?)))
}
