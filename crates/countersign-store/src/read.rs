//! Queries, and the connections they run on.
//!
//! Promise: a read that begins after a commit was answered sees it, because every query takes a fresh look at the log
//! that the commit is in. A read never waits for the writer.
//!
//! A point read touches a few pages that the machine has in memory; it takes less time than handing it to another
//! thread would, so it happens on the calling thread. Lists and long journals go to the blocking pool.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use countersign_core::audit::AuditRecord;
use countersign_core::digest::Digest;
use countersign_core::execution::Status;
use countersign_core::grant::Grant;
use countersign_core::ids::{GrantId, LoginId, TokenId, UserId};
use countersign_core::time::Timestamp;
use countersign_kernel::ports::{
    ByteBudget, Listing, LoginRow, SessionRow, SessionSummary, SourceRow, SourceToolRow, Standing,
    StoreError, TokenRow, UserRow,
};
use countersign_sdk::SessionId;
use rusqlite::{Connection, OpenFlags, Params, Row, params};
use tokio::sync::Semaphore;

use crate::apply::usable_grant;
use crate::cursor::Window;
use crate::executions::{Found, split_damaged};
use crate::fault::{Closed, Fault};
use crate::files::Files;
use crate::open;
use crate::rows::{self, Stored as _, TOKEN_COLUMNS, millis};

/// The number of idle connections that are kept open.
const IDLE: usize = 8;
/// How many lists are read at once.
const LISTS: usize = 4;
/// Journals up to this length are read where they are asked for.
pub(crate) const SHORT: u64 = 64;

/// The connections that only read.
#[derive(Debug)]
pub(crate) struct Readers {
    file: PathBuf,
    files: Arc<Files>,
    idle: Mutex<Vec<Connection>>,
    lists: Arc<Semaphore>,
}

impl Readers {
    /// Connections to this file, opened when they are needed.
    pub(crate) fn new(file: PathBuf, files: Arc<Files>) -> Self {
        Self { file, files, idle: Mutex::new(Vec::new()), lists: Arc::new(Semaphore::new(LISTS)) }
    }

    /// Runs a point read here and now.
    pub(crate) fn point<T>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        self.files.check().map_err(|lost| StoreError::Unavailable(Box::new(lost)))?;
        let connection = match self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop() {
            Some(connection) => connection,
            None => self.connect().map_err(|e| StoreError::from(Fault::from(e)))?,
        };
        let result = read(&connection);
        if !matches!(result, Err(Fault::Medium(_))) {
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            if idle.len() < IDLE {
                idle.push(connection);
            }
        }
        result.map_err(StoreError::from)
    }

    /// Runs a longer read on the blocking pool.
    pub(crate) async fn list<T: Send + 'static>(
        self: &Arc<Self>,
        read: impl FnOnce(&Connection) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, StoreError> {
        let turn = Arc::clone(&self.lists).acquire_owned().await;
        let turn = turn.map_err(|_| StoreError::Unavailable(Box::new(Closed)))?;
        let readers = Arc::clone(self);
        let task = tokio::task::spawn_blocking(move || {
            // Given up when the read ends, which may be after its caller stopped waiting.
            let _turn = turn;
            readers.point(read)
        });
        task.await.unwrap_or_else(|error| Err(StoreError::Unavailable(Box::new(error))))
    }

    fn connect(&self) -> rusqlite::Result<Connection> {
        let connection = open::connect_with(&self.file, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        connection.set_prepared_statement_cache_capacity(64);
        Ok(connection)
    }
}

/// When the next open elicitation, or the next grant that still counts, expires.
pub(crate) fn next_expiry(db: &Connection) -> Result<Option<Timestamp>, Fault> {
    let of = |sql| one(db, sql, [], |row| rows::timestamp(row.get(0)?));
    let elicitation =
        of("SELECT expires_at FROM elicitations INDEXED BY elicitations_expiring WHERE decided IS NULL
                          ORDER BY expires_at LIMIT 1")?;
    let grant = of("SELECT expires_at FROM grants
                    WHERE expires_at IS NOT NULL AND (uses_left IS NULL OR uses_left > 0)
                    ORDER BY expires_at LIMIT 1")?;
    Ok(elicitation.into_iter().chain(grant).min())
}

/// The digest of the rules that judged all open questions last.
pub(crate) fn rulebook(db: &Connection) -> Result<Option<Digest>, Fault> {
    one(db, "SELECT digest FROM rulebook", [], |row| rows::digest(row.get(0)?))
}

/// How much is unfinished. Finished executions are the most by far, and are not looked at.
pub(crate) fn standing(db: &Connection) -> Result<Standing, Fault> {
    let number = |sql: &str| one(db, sql, [], |row| count(row.get(0)?)).map(Option::unwrap_or_default);
    let of = |status: Status| {
        let letter = rows::status_letter(status);
        number(&format!(
            "SELECT count(*) FROM executions WHERE status = '{letter}' AND (status = 'r' OR status = 'w' OR status = 'd')"
        ))
    };
    Ok(Standing {
        recorded: number("SELECT ifnull(max(seq), 0) FROM audit")?,
        open: number("SELECT count(*) FROM elicitations WHERE decided IS NULL")?,
        waiting: of(Status::Waiting)?,
        running: of(Status::Running)?,
        in_doubt: of(Status::InDoubt)?,
    })
}

/// A session's grants, oldest first.
pub(crate) fn grants(db: &Connection, session: &SessionId) -> Result<Vec<Grant>, Fault> {
    let sql = "SELECT body, sum, uses_left, expires_at, session FROM grants WHERE session = ?1 ORDER BY no";
    all(db, sql, [session.as_str()], rows::grant)
}

/// One session.
pub(crate) fn session(db: &Connection, id: &SessionId) -> Result<Option<SessionRow>, Fault> {
    one(
        db,
        "SELECT id, principal, client, opened_at, sum FROM sessions WHERE id = ?1",
        [id.as_str()],
        rows::session,
    )
}

/// Sessions, newest first.
pub(crate) fn sessions(
    db: &Connection,
    now: Timestamp,
    window: &Window,
) -> Result<Listing<SessionSummary>, Fault> {
    let params = params![window.start, window.rows(), millis(now)];
    let found = all(db, SESSIONS, params, |row| {
        let summary = || Ok(SessionSummary { row: rows::session(row)?, live_grants: count(row.get(6)?)? });
        let id = rows::session_id(row, 0).map_or_else(|_| "ses_…".to_owned(), |id| id.to_string());
        Found::of(summary(), row.get(5)?, id, None, rows::row_time(row, 3)?)
    });
    Ok(split_damaged(window.listing(found?, |found| found.no)))
}

const SESSIONS: &str = concat!(
    "SELECT id, principal, client, opened_at, sum, no,
         (SELECT count(*) FROM grants g WHERE g.session = s.id AND ",
    usable_grant!("?3"),
    ") FROM sessions s WHERE no < ?1 ORDER BY no DESC LIMIT ?2"
);

/// The token with this hash.
pub(crate) fn token_by_hash(db: &Connection, hash: Digest) -> Result<Option<TokenRow>, Fault> {
    let sql = format!("SELECT {TOKEN_COLUMNS} FROM tokens WHERE hash = ?1");
    one(db, &sql, [hash.as_bytes()], rows::token)
}

/// All tokens, oldest first.
pub(crate) fn tokens(db: &Connection) -> Result<Listing<TokenRow>, Fault> {
    let sql = format!("SELECT {TOKEN_COLUMNS}, id, created_at, no FROM tokens ORDER BY created_at, no");
    let found = all(db, &sql, [], |row| {
        let id = rows::id(row, 7).map_or_else(|_| "tok_…".to_owned(), |id: TokenId| id.to_string());
        Found::of(rows::token(row), row.get(9)?, id, None, rows::row_time(row, 8)?)
    });
    Ok(split_damaged(Listing::whole(found?)))
}

/// All users, oldest first.
pub(crate) fn users(db: &Connection) -> Result<Listing<UserRow>, Fault> {
    let sql =
        "SELECT body, sum, disabled_at, may_decide, id, created_at, no FROM users ORDER BY created_at, no";
    let found = all(db, sql, [], |row| {
        let id = rows::id(row, 4).map_or_else(|_| "usr_…".to_owned(), |id: UserId| id.to_string());
        Found::of(rows::user(row), row.get(6)?, id, None, rows::row_time(row, 5)?)
    });
    Ok(split_damaged(Listing::whole(found?)))
}

/// One login.
pub(crate) fn login(db: &Connection, id: LoginId) -> Result<Option<LoginRow>, Fault> {
    let sql = "SELECT id, user, token, began_at, expires_at, ended_at FROM logins WHERE id = ?1";
    one(db, sql, [id.blob()], rows::login)
}

/// Audit records after a number.
pub(crate) fn audit(db: &Connection, after: u64, limit: usize) -> Result<Vec<AuditRecord>, Fault> {
    let after = i64::try_from(after).unwrap_or(i64::MAX);
    let mut before = db.prepare_cached("SELECT hash FROM audit WHERE seq = ?1")?;
    let mut before = before.query([after])?;
    let mut prev = before.next()?.map_or(Ok(Digest::ZERO), |row| rows::digest(row.get(0)?))?;
    let mut select =
        db.prepare_cached("SELECT seq, entry, hash FROM audit WHERE seq > ?1 ORDER BY seq LIMIT ?2")?;
    let mut found = select.query([after, most(limit)])?;
    let (mut budget, mut records) = (ByteBudget::of_a_part(), Vec::new());
    while let Some(row) = found.next()? {
        if !budget.takes(rows::text_bytes(row, 1)?) {
            break;
        }
        let record = rows::audit_record(row, prev)?;
        prev = record.hash;
        records.push(record);
    }
    Ok(records)
}

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

pub(crate) fn one<T>(
    db: &Connection,
    sql: &str,
    params: impl Params,
    read: impl FnOnce(&Row<'_>) -> Result<T, Fault>,
) -> Result<Option<T>, Fault> {
    let mut select = db.prepare_cached(sql)?;
    let mut found = select.query(params)?;
    found.next()?.map(read).transpose()
}

pub(crate) fn all<T>(
    db: &Connection,
    sql: &str,
    params: impl Params,
    read: impl FnMut(&Row<'_>) -> Result<T, Fault>,
) -> Result<Vec<T>, Fault> {
    db.prepare_cached(sql)?.query_and_then(params, read)?.collect()
}

pub(crate) fn count(stored: i64) -> Result<u64, Fault> {
    u64::try_from(stored).map_err(|_| Fault::unreadable(format!("{stored} is no count")))
}

pub(crate) fn most(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// How SQLite goes about a query.
    pub(crate) fn plan(sql: &str, parameters: usize) -> String {
        let mut db = Connection::open_in_memory().unwrap();
        crate::schema::prepare(&mut db).unwrap();
        let mut explain = db.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let nulls = vec![None::<i64>; parameters];
        let steps =
            explain.query_map(rusqlite::params_from_iter(nulls), |row| row.get::<_, String>(3)).unwrap();
        steps.map(Result::unwrap).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn a_list_of_sessions_reads_its_page_and_the_grants_of_those_on_it() {
        let plan = plan(SESSIONS, 3);
        assert!(
            plan.contains("SEARCH s USING INTEGER PRIMARY KEY") && plan.contains("grants_by_session"),
            "{plan}"
        );
        assert!(!plan.contains("SCAN") && !plan.contains("TEMP B-TREE"), "{plan}");
    }
}
