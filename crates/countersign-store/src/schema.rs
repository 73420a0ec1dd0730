//! The tables, and which versions of them this build opens.
//!
//! Promises: the tables are made whole or not at all; a database of another version is refused and left as it is.

use rusqlite::{Connection, TransactionBehavior};

/// Marks a file as ours: `CSGN` in ASCII.
pub(crate) const APPLICATION_ID: i32 = 0x4353_474e;

/// The version of the tables, in the database's `user_version`. Versions 1 to 9 kept one row for each event; ids had no moment until 10.
pub(crate) const VERSION: i64 = 11;

/// Why a database cannot be used.
#[derive(Debug)]
pub(crate) enum SchemaError {
    /// Another build wrote it: an older or a newer one.
    Version {
        found: i64,
    },
    Sqlite(rusqlite::Error),
}

/// Rows are found by number (`no`), given in order of arrival: new rows lie together, lists need no index by age, and one
/// transaction touches few pages. Random ids only lead to numbers. Rows that are written once (commits, audit records) are only
/// appended; rows that change are small and keep their size.
///
/// Each index costs a write for every call, so there is one only where a list or a lookup would otherwise read the whole table.
/// A key that is random, such as a digest, dirties a page of its own with each new row, and writing pages is most of what a commit
/// costs. So ids begin with their moment, and digests (their first eight bytes; the rest is compared when the row is read) are
/// indexed in blocks of neighbouring rows: a new row's entry lies near those of the rows before it, and a lookup looks into each block.
const TABLES: &str = "
-- Sessions, requesters, owners and tools, each text once. A name counts the open elicitations in the session of that name, and
-- those of the requester of that name with their bytes: counting the rows would cost more with each that waits.
CREATE TABLE names (
    no INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    open_in_session INTEGER NOT NULL DEFAULT 0,
    open_of_requester INTEGER NOT NULL DEFAULT 0,
    bytes_of_requester INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE executions (
    no INTEGER PRIMARY KEY,
    id BLOB NOT NULL,
    version INTEGER NOT NULL, -- how many events its journal has
    kind TEXT NOT NULL, -- one letter: call, gate, script
    status TEXT NOT NULL, -- one letter: running, waiting, (in) doubt, succeeded, failed, cancelled
    session INTEGER NOT NULL, -- a name, like the next three
    requester INTEGER NOT NULL,
    owner INTEGER,
    tool INTEGER,
    key TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    last INTEGER NOT NULL, -- the journal's row of its newest commit; 0 before the first
    sum INTEGER NOT NULL -- over id, kind, session, requester, owner, key, created_at, which never change
) STRICT;
CREATE UNIQUE INDEX executions_by_id ON executions (id);
CREATE UNIQUE INDEX executions_by_key ON executions (requester, key) WHERE key IS NOT NULL;
-- Not `IN`: for that, SQLite makes a table in memory each time a status changes.
CREATE INDEX executions_unfinished ON executions (status) WHERE status = 'r' OR status = 'w' OR status = 'd';
CREATE INDEX executions_by_requester ON executions (requester);
CREATE INDEX executions_by_session ON executions (session);

-- One row for each commit, with all its events. A journal is found from its end: each row names the one before.
CREATE TABLE journal (
    no INTEGER PRIMARY KEY,
    execution INTEGER NOT NULL,
    first INTEGER NOT NULL, -- the number of its first event
    previous INTEGER NOT NULL, -- the row of the execution's commit before; 0 where it is the first
    body TEXT NOT NULL,
    sum INTEGER NOT NULL
) STRICT;

-- What a question says, and how it was decided, is in the journal's rows `asked` and `decided`.
CREATE TABLE elicitations (
    no INTEGER PRIMARY KEY,
    id BLOB NOT NULL,
    execution INTEGER NOT NULL,
    asked INTEGER NOT NULL,
    decided INTEGER, -- NULL while it is open
    expires_at INTEGER NOT NULL,
    subject INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    sum INTEGER NOT NULL -- over all of the above
) STRICT;
CREATE UNIQUE INDEX elicitations_by_id ON elicitations (id);
CREATE INDEX elicitations_by_execution ON elicitations (execution);
CREATE INDEX elicitations_by_subject ON elicitations (no >> 10, subject); -- BLOCK_BITS
CREATE INDEX elicitations_open ON elicitations (decided) WHERE decided IS NULL;
CREATE INDEX elicitations_expiring ON elicitations (expires_at) WHERE decided IS NULL;

CREATE TABLE grants (
    no INTEGER PRIMARY KEY,
    id BLOB NOT NULL,
    session TEXT NOT NULL,
    token BLOB,
    user BLOB,
    expires_at INTEGER,
    uses_left INTEGER,
    body TEXT NOT NULL,
    sum INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX grants_by_id ON grants (id);
CREATE INDEX grants_by_session ON grants (session);
CREATE INDEX grants_by_expiry ON grants (expires_at)
    WHERE expires_at IS NOT NULL AND (uses_left IS NULL OR uses_left > 0);

CREATE TABLE sessions (
    no INTEGER PRIMARY KEY,
    id TEXT NOT NULL,
    principal TEXT NOT NULL,
    client TEXT NOT NULL,
    opened_at INTEGER NOT NULL,
    sum INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX sessions_by_id ON sessions (id);

-- How many sessions a principal has: counting them would cost the more the closer the bound is.
CREATE TABLE sessions_of_principal (
    principal TEXT PRIMARY KEY,
    sessions INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE users (
    no INTEGER PRIMARY KEY,
    id BLOB NOT NULL,
    name TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    may_decide INTEGER NOT NULL,
    disabled_at INTEGER,
    body TEXT NOT NULL,
    sum INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX users_by_id ON users (id);
CREATE UNIQUE INDEX users_by_name ON users (name);

CREATE TABLE tokens (
    no INTEGER PRIMARY KEY,
    id BLOB NOT NULL,
    hash BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    revoked_at INTEGER,
    owner BLOB,
    expires_at INTEGER,
    last_used_at INTEGER,
    body TEXT NOT NULL,
    sum INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX tokens_by_id ON tokens (id);
CREATE UNIQUE INDEX tokens_by_hash ON tokens (hash);

CREATE TABLE logins (
    id BLOB PRIMARY KEY,
    user BLOB NOT NULL,
    token BLOB,
    began_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    ended_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX logins_by_user ON logins (user);
CREATE INDEX logins_by_expiry ON logins (expires_at);

CREATE TABLE sources (
    no INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    body TEXT NOT NULL,
    sum INTEGER NOT NULL
) STRICT;

-- The definitions of a source's tools that were accepted.
CREATE TABLE source_tools (
    no INTEGER PRIMARY KEY,
    source TEXT NOT NULL,
    origin TEXT NOT NULL,
    body TEXT NOT NULL,
    sum INTEGER NOT NULL,
    UNIQUE (source, origin)
) STRICT;

-- The rules and tools that everything open was last judged by: one row, or none in a database that was never started with it.
CREATE TABLE rulebook (
    no INTEGER PRIMARY KEY CHECK (no = 1),
    digest BLOB NOT NULL
) STRICT;

-- One record for each commit. The hash of the record before is in that record.
CREATE TABLE audit (
    seq INTEGER PRIMARY KEY,
    entry TEXT NOT NULL,
    hash BLOB NOT NULL
) STRICT;
";

/// How many low bits of an elicitation's number tell the rows of one block of `elicitations_by_subject` apart.
pub(crate) const BLOCK_BITS: u32 = 10;

/// Makes the tables in a new database; refuses one of another version.
pub(crate) fn prepare(connection: &mut Connection) -> Result<(), SchemaError> {
    let found: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    match found {
        VERSION => Ok(()),
        0 => {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            transaction.execute_batch(TABLES)?;
            transaction.pragma_update(None, "user_version", VERSION)?;
            Ok(transaction.commit()?)
        }
        found => Err(SchemaError::Version { found }),
    }
}

impl From<rusqlite::Error> for SchemaError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(connection: &Connection) -> i64 {
        connection.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap()
    }

    #[test]
    fn an_empty_database_gets_its_tables_once() {
        let mut db = Connection::open_in_memory().unwrap();
        prepare(&mut db).unwrap();
        assert_eq!(version(&db), VERSION);
        prepare(&mut db).unwrap();
    }

    #[test]
    fn tables_that_cannot_all_be_made_are_not_made_at_all() {
        let mut db = Connection::open_in_memory().unwrap();
        db.execute_batch("CREATE TABLE audit (x)").unwrap();
        assert!(prepare(&mut db).is_err());
        assert_eq!(version(&db), 0);
        let tables: i64 = db.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).unwrap();
        assert_eq!(tables, 1);
    }

    #[test]
    fn an_older_and_a_newer_database_are_refused_as_they_are() {
        for other in [1, 9, VERSION + 1] {
            let mut db = Connection::open_in_memory().unwrap();
            db.pragma_update(None, "user_version", other).unwrap();
            assert!(matches!(prepare(&mut db), Err(SchemaError::Version { found }) if found == other));
            assert_eq!(version(&db), other);
        }
    }
}
