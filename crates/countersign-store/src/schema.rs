//! The tables, and how a database of an earlier version becomes one of this version.
//!
//! Promises: a migration happens whole or not at all; a database of a newer version is refused and left as it is.
//! A migration that has been released is never edited; a change is a new one at the end.

use rusqlite::{Connection, TransactionBehavior};

/// Marks a file as ours: `CSGN` in ASCII.
pub(crate) const APPLICATION_ID: i32 = 0x4353_474e;

/// In order; a database's `user_version` says how many of them it has seen.
pub(crate) const MIGRATIONS: &[&str] = &[
    FIRST,
    SESSIONS_BY_AGE,
    EXECUTIONS_BY_SESSION,
    USERS,
    PENDING_OF_REQUESTER,
    RULEBOOK,
    SESSIONS_OF_PRINCIPAL,
    GRANTS_BY_EXPIRY,
    SOURCES,
];

/// Why a database could not be brought to this version.
#[derive(Debug)]
pub(crate) enum MigrationError {
    /// A newer build wrote it.
    Newer {
        /// Its version.
        found: i64,
    },
    /// SQLite failed.
    Sqlite(rusqlite::Error),
}

/// Rows are found by number (`no`), given in order of arrival, so that what is new lies together and one transaction
/// touches few pages; the random ids only lead there. For the same reason what is written once (events, questions,
/// decisions, audit records) is only ever appended, and what changes (where an execution stands, which questions are open)
/// is small and keeps its size. An elicitation's session and requester are its execution's.
const FIRST: &str = "
CREATE TABLE executions (
    no INTEGER PRIMARY KEY,
    id BLOB NOT NULL,
    version INTEGER NOT NULL,
    kind TEXT NOT NULL,
    status TEXT NOT NULL, -- one letter: running, waiting, (in) doubt, succeeded, failed, cancelled
    session TEXT NOT NULL,
    requester TEXT NOT NULL,
    tool TEXT,
    key TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    sum INTEGER NOT NULL -- over what never changes: id, kind, session, requester, key, created_at
) STRICT;
CREATE UNIQUE INDEX executions_by_id ON executions (id);
CREATE UNIQUE INDEX executions_by_key ON executions (requester, key) WHERE key IS NOT NULL;
CREATE INDEX executions_by_age ON executions (created_at, id);
CREATE INDEX executions_by_status ON executions (status, created_at, id);
CREATE INDEX executions_by_requester ON executions (requester, created_at, id);

CREATE TABLE journal (
    no INTEGER PRIMARY KEY,
    execution INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    body TEXT NOT NULL,
    sum INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX journal_by_execution ON journal (execution, seq);

CREATE TABLE elicitations (
    no INTEGER PRIMARY KEY,
    id BLOB NOT NULL,
    execution INTEGER NOT NULL,
    asked_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    digest BLOB NOT NULL,
    body TEXT NOT NULL,
    sum INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX elicitations_by_id ON elicitations (id);
CREATE INDEX elicitations_by_execution ON elicitations (execution);
CREATE INDEX elicitations_by_digest ON elicitations (digest);
CREATE INDEX elicitations_by_age ON elicitations (asked_at, id);

-- Those without a decision, which have no row in `decisions`.
CREATE TABLE open_elicitations (
    asked_at INTEGER NOT NULL,
    id BLOB NOT NULL,
    no INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (asked_at, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX open_by_expiry ON open_elicitations (expires_at);

CREATE TABLE decisions (
    elicitation INTEGER PRIMARY KEY,
    body TEXT NOT NULL,
    sum INTEGER NOT NULL
) STRICT;

-- How many elicitations of a session are open: counting them would cost more with each that waits.
CREATE TABLE pending (
    session TEXT PRIMARY KEY,
    open INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE grants (
    no INTEGER PRIMARY KEY,
    id BLOB NOT NULL,
    session TEXT NOT NULL,
    token BLOB,
    expires_at INTEGER,
    uses_left INTEGER,
    body TEXT NOT NULL,
    sum INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX grants_by_id ON grants (id);
CREATE INDEX grants_by_session ON grants (session);

CREATE TABLE sessions (
    no INTEGER PRIMARY KEY,
    id TEXT NOT NULL,
    principal TEXT NOT NULL,
    client TEXT NOT NULL,
    opened_at INTEGER NOT NULL,
    sum INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX sessions_by_id ON sessions (id);

CREATE TABLE tokens (
    no INTEGER PRIMARY KEY,
    id BLOB NOT NULL,
    hash BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    revoked_at INTEGER,
    body TEXT NOT NULL,
    sum INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX tokens_by_id ON tokens (id);
CREATE UNIQUE INDEX tokens_by_hash ON tokens (hash);

CREATE TABLE audit (
    seq INTEGER PRIMARY KEY,
    entry TEXT NOT NULL,
    prev BLOB NOT NULL,
    hash BLOB NOT NULL
) STRICT;
";

/// For lists of sessions, newest first.
const SESSIONS_BY_AGE: &str = "CREATE INDEX sessions_by_age ON sessions (opened_at);";

/// For what happened in one session.
const EXECUTIONS_BY_SESSION: &str =
    "CREATE INDEX executions_by_session ON executions (session, created_at, id);";

/// People, the tokens and logins that are theirs, and for whom an execution was requested. A question's subject (tool and
/// arguments) leads to earlier decisions on the same, whoever asked.
const USERS: &str = "
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

ALTER TABLE tokens ADD COLUMN owner BLOB;
ALTER TABLE tokens ADD COLUMN expires_at INTEGER;
ALTER TABLE tokens ADD COLUMN last_used_at INTEGER;
ALTER TABLE grants ADD COLUMN user BLOB;
ALTER TABLE executions ADD COLUMN owner TEXT;
ALTER TABLE elicitations ADD COLUMN subject BLOB;
CREATE INDEX elicitations_by_subject ON elicitations (subject) WHERE subject IS NOT NULL;
";

/// How many elicitations of a requester are open, and how many bytes they have.
const PENDING_OF_REQUESTER: &str = "
CREATE TABLE pending_of_requester (
    requester TEXT PRIMARY KEY,
    open INTEGER NOT NULL,
    bytes INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO pending_of_requester
    SELECT x.requester, count(*), sum(octet_length(e.body)) FROM open_elicitations o
    JOIN elicitations e ON e.no = o.no JOIN executions x ON x.no = e.execution GROUP BY x.requester;
";

/// What everything open was last judged by: one row, or none in a database that was never started with it.
const RULEBOOK: &str = "
CREATE TABLE rulebook (
    no INTEGER PRIMARY KEY CHECK (no = 1),
    digest BLOB NOT NULL
) STRICT;
";

/// How many sessions a principal has: counted, because looking through them would cost the more the closer the bound is.
const SESSIONS_OF_PRINCIPAL: &str = "
CREATE TABLE sessions_of_principal (
    principal TEXT PRIMARY KEY,
    sessions INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO sessions_of_principal SELECT principal, count(*) FROM sessions GROUP BY principal;
";

/// Finds the grants whose time is up.
const GRANTS_BY_EXPIRY: &str = "
CREATE INDEX grants_by_expiry ON grants (expires_at)
    WHERE expires_at IS NOT NULL AND (uses_left IS NULL OR uses_left > 0);
";

/// Sources, and the definitions of their tools that were accepted.
const SOURCES: &str = "
CREATE TABLE sources (
    no INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    body TEXT NOT NULL,
    sum INTEGER NOT NULL
) STRICT;

CREATE TABLE source_tools (
    no INTEGER PRIMARY KEY,
    source TEXT NOT NULL,
    origin TEXT NOT NULL,
    body TEXT NOT NULL,
    sum INTEGER NOT NULL,
    UNIQUE (source, origin)
) STRICT;
";

/// Brings a database to the version of this build.
pub(crate) fn migrate(connection: &mut Connection) -> Result<(), MigrationError> {
    run(connection, MIGRATIONS)
}

fn run(connection: &mut Connection, migrations: &[&str]) -> Result<(), MigrationError> {
    let known = i64::try_from(migrations.len()).unwrap_or(i64::MAX);
    let found: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if found > known {
        return Err(MigrationError::Newer { found });
    }
    for (version, sql) in (1_i64..).zip(migrations) {
        if version > found {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            transaction.execute_batch(sql)?;
            transaction.pragma_update(None, "user_version", version)?;
            transaction.commit()?;
        }
    }
    Ok(())
}

impl From<rusqlite::Error> for MigrationError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &[&str] = &["CREATE TABLE a (x INTEGER) STRICT;"];
    const NEW: &[&str] = &[
        "CREATE TABLE a (x INTEGER) STRICT;",
        "ALTER TABLE a ADD COLUMN y TEXT; UPDATE a SET y = 'old' || x;",
        "CREATE TABLE b (z INTEGER) STRICT;",
    ];

    fn version(connection: &Connection) -> i64 {
        connection.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap()
    }

    #[test]
    fn an_empty_database_gets_every_migration() {
        let mut db = Connection::open_in_memory().unwrap();
        migrate(&mut db).unwrap();
        assert_eq!(version(&db), i64::try_from(MIGRATIONS.len()).unwrap());
        migrate(&mut db).unwrap();
    }

    #[test]
    fn an_old_database_keeps_its_rows_and_gets_what_it_lacks() {
        let mut db = Connection::open_in_memory().unwrap();
        run(&mut db, OLD).unwrap();
        db.execute("INSERT INTO a VALUES (7)", []).unwrap();
        run(&mut db, NEW).unwrap();
        assert_eq!(version(&db), 3);
        let y: String = db.query_row("SELECT y FROM a", [], |row| row.get(0)).unwrap();
        assert_eq!(y, "old7");
    }

    #[test]
    fn a_migration_that_fails_leaves_the_version_before_it() {
        let mut db = Connection::open_in_memory().unwrap();
        let broken = [
            "CREATE TABLE a (x INTEGER) STRICT;",
            "CREATE TABLE b (x INTEGER) STRICT; CREATE TABLE a (y TEXT);",
        ];
        assert!(run(&mut db, &broken).is_err());
        assert_eq!(version(&db), 1);
        let tables: i64 = db.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).unwrap();
        assert_eq!(tables, 1);
    }

    #[test]
    fn what_waits_in_an_older_database_is_counted_for_its_requesters() {
        let mut db = Connection::open_in_memory().unwrap();
        run(&mut db, &MIGRATIONS[..3]).unwrap();
        db.execute_batch(
            "INSERT INTO executions VALUES (1, x'01', 1, 'call', 'w', 's', 'ann', NULL, NULL, 1, 1, 0),
                 (2, x'02', 1, 'call', 'w', 's', 'bob', NULL, NULL, 1, 1, 0);
             INSERT INTO elicitations VALUES (1, x'01', 1, 1, 9, x'00', 'häuser', 0), (2, x'02', 1, 2, 9, x'00', 'abc', 0),
                 (3, x'03', 2, 3, 9, x'00', 'decided', 0);
             INSERT INTO open_elicitations VALUES (1, x'01', 1, 9), (2, x'02', 2, 9);",
        )
        .unwrap();
        migrate(&mut db).unwrap();
        let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
        let mut select = db.prepare("SELECT requester, open, bytes FROM pending_of_requester").unwrap();
        let counted: Vec<(String, i64, i64)> =
            select.query_map([], read).unwrap().map(Result::unwrap).collect();
        assert_eq!(counted, [("ann".to_owned(), 2, 10)]);
    }

    #[test]
    fn the_sessions_of_an_older_database_are_counted_for_their_principals() {
        let mut db = Connection::open_in_memory().unwrap();
        run(&mut db, &MIGRATIONS[..6]).unwrap();
        db.execute_batch(
            "INSERT INTO sessions (id, principal, client, opened_at, sum)
                 VALUES ('a', 'ann', 'c', 1, 0), ('b', 'ann', 'c', 2, 0), ('c', 'bob', 'c', 3, 0);",
        )
        .unwrap();
        migrate(&mut db).unwrap();
        let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
        let mut select = db.prepare("SELECT principal, sessions FROM sessions_of_principal").unwrap();
        let counted: Vec<(String, i64)> = select.query_map([], read).unwrap().map(Result::unwrap).collect();
        assert_eq!(counted, [("ann".to_owned(), 2), ("bob".to_owned(), 1)]);
    }

    #[test]
    fn a_newer_database_is_refused() {
        let mut db = Connection::open_in_memory().unwrap();
        run(&mut db, NEW).unwrap();
        assert!(matches!(run(&mut db, OLD), Err(MigrationError::Newer { found: 3 })));
        assert_eq!(version(&db), 3);
    }
}
