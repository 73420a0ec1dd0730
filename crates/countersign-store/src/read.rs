//! Queries, and the connections they run on.
//!
//! Promise: a read that begins after a commit was answered sees it, because every query takes a fresh look at the log
//! that the commit is in. A read never waits for the writer.
//!
//! A point read touches a few pages that the machine has in memory; it takes less time than handing it to another
//! thread would, so it happens where it is asked for. Lists and long journals go to the blocking pool.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use countersign_core::audit::AuditRecord;
use countersign_core::digest::Digest;
use countersign_core::event::Event;
use countersign_core::execution::Status;
use countersign_core::grant::Grant;
use countersign_core::ids::{ElicitationId, ExecutionId, LoginId};
use countersign_core::time::Timestamp;
use countersign_kernel::ports::{
    ByteBudget, DamagedRow, ElicitationFilter, ElicitationRow, ExecutionFilter, ExecutionRow, JournalPart,
    Listing, LoginRow, SessionRow, SessionSummary, Standing, StoreError, TokenRow, UserRow,
};
use countersign_sdk::{PrincipalId, SessionId};
use rusqlite::{Connection, OpenFlags, Params, Row, params};
use tokio::sync::Semaphore;

use crate::apply::usable_grant;
use crate::cursor::{Window, numbered};
use crate::fault::{Closed, Fault};
use crate::files::Files;
use crate::open;
use crate::rows::{self, Blob, ELICITATION_COLUMNS, EXECUTION_COLUMNS, Stored, TOKEN_COLUMNS, millis};

/// How many connections are kept open while nobody reads.
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

/// A whole journal; nothing where it is longer than `most`.
pub(crate) fn journal(db: &Connection, id: ExecutionId, most: u64) -> Result<Option<Vec<Event>>, Fault> {
    let mut select = db.prepare_cached(
        "SELECT x.version, j.seq, j.body, j.sum FROM executions x JOIN journal j ON j.execution = x.no
         WHERE x.id = ?1 ORDER BY j.seq",
    )?;
    let blob = id.blob();
    let mut found = select.query([blob])?;
    let (mut events, mut version) = (Vec::new(), 0);
    while let Some(row) = found.next()? {
        version = count(row.get(0)?)?;
        if version > most {
            return Ok(None);
        }
        if count(row.get(1)?)? != events.len() as u64 {
            return Err(Fault::unreadable(format!("the journal of {id} lacks event {}", events.len())));
        }
        let event = rows::event(row, 1, blob, events.last())?;
        events.push(event);
    }
    if events.len() as u64 != version {
        return Err(Fault::unreadable(format!(
            "the journal of {id} has {} of {version} events",
            events.len()
        )));
    }
    Ok(Some(events))
}

/// One execution.
pub(crate) fn execution(db: &Connection, id: ExecutionId) -> Result<Option<ExecutionRow>, Fault> {
    one(
        db,
        &format!("SELECT {EXECUTION_COLUMNS} FROM executions x WHERE id = ?1"),
        [id.blob()],
        rows::execution_row,
    )
}

/// Executions, newest first.
pub(crate) fn executions(
    db: &Connection,
    filter: &ExecutionFilter,
    window: &Window,
) -> Result<Listing<ExecutionRow>, Fault> {
    let mut items = Vec::new();
    for condition in execution_conditions(filter) {
        let sql = format!(
            "SELECT {EXECUTION_COLUMNS} FROM executions x WHERE (created_at, id) < (?1, ?2) AND {condition}
             ORDER BY created_at DESC, id DESC LIMIT ?3"
        );
        let requester = filter.requester.as_ref().map(PrincipalId::as_str);
        let session = filter.session.as_ref().map(SessionId::as_str);
        let params = params![window.start.at, window.start.id, window.rows(), requester, session];
        items.extend(all(db, &sql, params, |row| {
            let id: ExecutionId = rows::id(row, 0)?;
            Found::of(rows::execution_row(row), id, id, rows::moment(row, 5)?)
        })?);
    }
    items.sort_by_key(|found| std::cmp::Reverse((found.at, found.id)));
    Ok(listing(window, items))
}

/// What selects them: one condition, or one for each status where the index by status leads there fastest. The unary
/// plus keeps SQLite from choosing the other index.
fn execution_conditions(filter: &ExecutionFilter) -> Vec<String> {
    let requester = if filter.requester.is_some() { "requester = ?4" } else { "?4 IS NULL" };
    let session = if filter.session.is_some() { "session = ?5" } else { "?5 IS NULL" };
    // A session is one requester's, so that it leads to fewer.
    let (place, also) = if filter.session.is_some() { (session, requester) } else { (requester, session) };
    let everybodys = filter.requester.is_none() && filter.session.is_none();
    let mut statuses: Vec<&str> = filter.status.iter().map(|status| rows::status_letter(*status)).collect();
    statuses.sort_unstable();
    statuses.dedup();
    if statuses.is_empty() {
        return vec![format!("{place} AND +{also}")];
    }
    if everybodys || !filter.status.iter().copied().any(Status::is_final) {
        let of = |status: &&str| format!("status = '{status}' AND +{requester} AND +{session}");
        return statuses.iter().map(of).collect();
    }
    vec![format!("{place} AND +{also} AND +status IN ('{}')", statuses.join("', '"))]
}

/// The execution under a requester's key.
pub(crate) fn by_key(
    db: &Connection,
    requester: &PrincipalId,
    key: &str,
) -> Result<Option<ExecutionId>, Fault> {
    let sql = "SELECT id FROM executions WHERE requester = ?1 AND key = ?2";
    one(db, sql, [requester.as_str(), key], |row| rows::id(row, 0))
}

/// One elicitation.
pub(crate) fn elicitation(db: &Connection, id: ElicitationId) -> Result<Option<ElicitationRow>, Fault> {
    let sql = format!("SELECT {ELICITATION_COLUMNS} FROM {ELICITATIONS} WHERE e.id = ?1");
    one(db, &sql, [id.blob()], rows::elicitation_row)
}

/// Elicitations, oldest first.
pub(crate) fn elicitations(
    db: &Connection,
    filter: &ElicitationFilter,
    window: &Window,
) -> Result<Listing<ElicitationRow>, Fault> {
    let sql = elicitations_sql(filter);
    let (execution, digest) =
        (filter.execution.map(|id| id.blob()), filter.digest.map(|digest| *digest.as_bytes()));
    let requester = filter.requester.as_ref().map(PrincipalId::as_str);
    let (subject, owner) =
        (filter.subject.map(|it| *it.as_bytes()), filter.owner.as_ref().map(PrincipalId::as_str));
    let Window { start, .. } = window;
    let params = params![start.at, start.id, window.rows(), execution, digest, requester, subject, owner];
    let read = |row: &Row<'_>| {
        let (id, execution): (ElicitationId, ExecutionId) = (rows::id(row, 16)?, rows::id(row, 8)?);
        Found::of(rows::elicitation_row(row), id, execution, rows::moment(row, 4)?)
    };
    let name = |found: &Found<ElicitationRow>| (found.at, found.id);
    let part = match within_budget(db, &sql, params, rows::elicitation_bytes, read)? {
        Read::All(items) => window.listing(items, name),
        Read::CutShort(items) => window.cut_short(items, name),
    };
    Ok(told_apart(part))
}

/// A row of a list, whole or damaged, with its place in it.
struct Found<T> {
    at: Timestamp,
    id: Blob,
    row: Result<T, DamagedRow>,
}

impl<T> Found<T> {
    /// Keeps a row that cannot be read as such; only what is wrong with the medium fails the list.
    fn of(
        read: Result<T, Fault>,
        id: impl Stored,
        execution: ExecutionId,
        at: Timestamp,
    ) -> Result<Self, Fault> {
        let row = match read {
            Ok(row) => Ok(row),
            Err(Fault::Refused(error)) => {
                Err(DamagedRow { id: id.to_string(), execution, at, problem: error.to_string() })
            }
            Err(fault) => return Err(fault),
        };
        Ok(Self { at, id: id.blob(), row })
    }
}

fn listing<T>(window: &Window, items: Vec<Found<T>>) -> Listing<T> {
    told_apart(window.listing(items, |found| (found.at, found.id)))
}

/// The whole rows of a part, and the damaged ones beside them.
fn told_apart<T>(part: Listing<Found<T>>) -> Listing<T> {
    let Listing { items, next, .. } = part;
    let mut whole = Listing { items: Vec::with_capacity(items.len()), next, damaged: Vec::new() };
    for found in items {
        match found.row {
            Ok(row) => whole.items.push(row),
            Err(damaged) => whole.damaged.push(damaged),
        }
    }
    whole
}

const ELICITATIONS: &str = "elicitations e JOIN executions x ON x.no = e.execution
     LEFT JOIN decisions d ON d.elicitation = e.no
     LEFT JOIN open_elicitations o ON o.asked_at = e.asked_at AND o.id = e.id";
const OPEN_ELICITATIONS: &str = "open_elicitations o CROSS JOIN elicitations e ON e.no = o.no
     JOIN executions x ON x.no = e.execution LEFT JOIN decisions d ON d.elicitation = e.no";

/// Those that are open, whatever they are about, have a table of their own; otherwise the filter's index leads there.
fn elicitations_sql(filter: &ElicitationFilter) -> String {
    let execution = match filter.execution {
        Some(_) => "e.execution = (SELECT no FROM executions WHERE id = ?4)",
        None => "?4 IS NULL",
    };
    let digest = if filter.digest.is_some() { "e.digest = ?5" } else { "?5 IS NULL" };
    let requester = if filter.requester.is_some() { "+x.requester = ?6" } else { "?6 IS NULL" };
    let subject = if filter.subject.is_some() { "e.subject = ?7" } else { "?7 IS NULL" };
    let owner = if filter.owner.is_some() { "+x.owner = ?8" } else { "?8 IS NULL" };
    let (place, from, open) = match filter {
        ElicitationFilter { open_only: true, execution: None, digest: None, subject: None, .. } => {
            ("o", OPEN_ELICITATIONS, "TRUE")
        }
        ElicitationFilter { open_only: true, .. } => ("e", ELICITATIONS, "d.elicitation IS NULL"),
        ElicitationFilter { open_only: false, .. } => ("e", ELICITATIONS, "TRUE"),
    };
    format!(
        "SELECT {ELICITATION_COLUMNS} FROM {from}
         WHERE ({place}.asked_at, {place}.id) > (?1, ?2) AND {open} AND {execution} AND {digest} AND {requester}
         AND {subject} AND {owner} ORDER BY {place}.asked_at, {place}.id LIMIT ?3"
    )
}

/// Open elicitations whose time is up.
pub(crate) fn due(
    db: &Connection,
    now: Timestamp,
    limit: usize,
) -> Result<Vec<(ElicitationId, ExecutionId)>, Fault> {
    let sql = "SELECT e.id, x.id FROM open_elicitations o JOIN elicitations e ON e.no = o.no
               JOIN executions x ON x.no = e.execution WHERE o.expires_at <= ?1 ORDER BY o.expires_at LIMIT ?2";
    all(db, sql, [millis(now), most(limit)], |row| Ok((rows::id(row, 0)?, rows::id(row, 1)?)))
}

/// When the next open elicitation, or the next grant that still counts, expires.
pub(crate) fn next_expiry(db: &Connection) -> Result<Option<Timestamp>, Fault> {
    let of = |sql| one(db, sql, [], |row| rows::timestamp(row.get(0)?));
    let elicitation = of("SELECT expires_at FROM open_elicitations ORDER BY expires_at LIMIT 1")?;
    let grant = of("SELECT expires_at FROM grants
                    WHERE expires_at IS NOT NULL AND (uses_left IS NULL OR uses_left > 0)
                    ORDER BY expires_at LIMIT 1")?;
    Ok(elicitation.into_iter().chain(grant).min())
}

/// What everything open was last judged by.
pub(crate) fn rulebook(db: &Connection) -> Result<Option<Digest>, Fault> {
    one(db, "SELECT digest FROM rulebook", [], |row| rows::digest(row.get(0)?))
}

/// How much is unfinished. What is final is the most by far, and is not looked at.
pub(crate) fn standing(db: &Connection) -> Result<Standing, Fault> {
    let of = |status: Status| {
        let sql = "SELECT count(*) FROM executions WHERE status = ?1";
        one(db, sql, [rows::status_letter(status)], |row| count(row.get(0)?))
    };
    Ok(Standing {
        recorded: one(db, "SELECT ifnull(max(seq), 0) FROM audit", [], |row| count(row.get(0)?))?
            .unwrap_or(0),
        open: one(db, "SELECT count(*) FROM open_elicitations", [], |row| count(row.get(0)?))?.unwrap_or(0),
        waiting: of(Status::Waiting)?.unwrap_or(0),
        running: of(Status::Running)?.unwrap_or(0),
        in_doubt: of(Status::InDoubt)?.unwrap_or(0),
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

/// Sessions, newest first. Of those opened in the same millisecond the one that came last is the newest.
pub(crate) fn sessions(
    db: &Connection,
    now: Timestamp,
    window: &Window,
) -> Result<Listing<SessionSummary>, Fault> {
    let params = params![window.start.at, window.start.number(), window.rows(), millis(now)];
    let read = |row: &Row<'_>| {
        let summary = SessionSummary { row: rows::session(row)?, live_grants: count(row.get(6)?)? };
        Ok((row.get::<_, i64>(5)?, summary))
    };
    let items = all(db, SESSIONS, params, read)?;
    let Listing { items, next, damaged } =
        window.listing(items, |(no, of)| (of.row.opened_at, numbered(*no)));
    Ok(Listing { items: items.into_iter().map(|(_, summary)| summary).collect(), next, damaged })
}

const SESSIONS: &str = concat!(
    "SELECT id, principal, client, opened_at, sum, no,
         (SELECT count(*) FROM grants g WHERE g.session = s.id AND ",
    usable_grant!("?4"),
    ") FROM sessions s WHERE (opened_at, no) < (?1, ?2) ORDER BY opened_at DESC, no DESC LIMIT ?3"
);

/// The token with this hash.
pub(crate) fn token_by_hash(db: &Connection, hash: Digest) -> Result<Option<TokenRow>, Fault> {
    let sql = format!("SELECT {TOKEN_COLUMNS} FROM tokens WHERE hash = ?1");
    one(db, &sql, [hash.as_bytes()], rows::token)
}

/// All tokens, oldest first.
pub(crate) fn tokens(db: &Connection) -> Result<Vec<TokenRow>, Fault> {
    all(db, &format!("SELECT {TOKEN_COLUMNS} FROM tokens ORDER BY created_at, no"), [], rows::token)
}

/// All users, oldest first.
pub(crate) fn users(db: &Connection) -> Result<Vec<UserRow>, Fault> {
    all(db, "SELECT body, sum, disabled_at, may_decide FROM users ORDER BY created_at, no", [], rows::user)
}

/// One login.
pub(crate) fn login(db: &Connection, id: LoginId) -> Result<Option<LoginRow>, Fault> {
    let sql = "SELECT id, user, token, began_at, expires_at, ended_at FROM logins WHERE id = ?1";
    one(db, sql, [id.blob()], rows::login)
}

/// Audit records after a number.
pub(crate) fn audit(db: &Connection, after: u64, limit: usize) -> Result<Vec<AuditRecord>, Fault> {
    let after = i64::try_from(after).unwrap_or(i64::MAX);
    let sql = "SELECT seq, entry, prev, hash FROM audit WHERE seq > ?1 ORDER BY seq LIMIT ?2";
    let read =
        within_budget(db, sql, [after, most(limit)], |row| rows::text_bytes(row, 1), rows::audit_record)?;
    match read {
        Read::All(records) | Read::CutShort(records) => Ok(records),
    }
}

/// A part of a journal.
pub(crate) fn journal_part(
    db: &Connection,
    id: ExecutionId,
    from: u64,
    limit: usize,
) -> Result<JournalPart, Fault> {
    let blob = id.blob();
    let find = "SELECT version FROM executions WHERE id = ?1";
    let version = one(db, find, [blob], |row| count(row.get(0)?))?.unwrap_or(0);
    let sql = "SELECT j.seq, j.body, j.sum FROM executions x JOIN journal j ON j.execution = x.no
               WHERE x.id = ?1 AND j.seq >= ?2 ORDER BY j.seq LIMIT ?3";
    let params = params![blob, most(usize::try_from(from).unwrap_or(usize::MAX)), most(limit)];
    // The end of an execution may refer to the event before it.
    let earlier = match from.checked_sub(1) {
        Some(before) => {
            let sql = "SELECT j.seq, j.body, j.sum FROM executions x JOIN journal j ON j.execution = x.no
                       WHERE x.id = ?1 AND j.seq = ?2";
            let before = most(usize::try_from(before).unwrap_or(usize::MAX));
            one(db, sql, params![blob, before], |row| rows::event(row, 0, blob, None))?
        }
        None => None,
    };
    let mut select = db.prepare_cached(sql)?;
    let (mut rows, mut budget) = (select.query(params)?, ByteBudget::of_a_part());
    let mut found: Vec<(u64, Event)> = Vec::new();
    while let Some(row) = rows.next()? {
        if !budget.takes(rows::text_bytes(row, 1)?) {
            break;
        }
        let before = found.last().map(|(_, event)| event).or(earlier.as_ref());
        let event = rows::event(row, 0, blob, before)?;
        found.push((count(row.get(0)?)?, event));
    }
    if let Some((seq, n)) = found.iter().zip(from..).map(|((seq, _), n)| (*seq, n)).find(|(seq, n)| seq != n)
    {
        return Err(Fault::unreadable(format!(
            "the journal of {id} lacks event {n}, and goes on with {seq}"
        )));
    }
    let next = from.saturating_add(found.len() as u64);
    if found.is_empty() && next < version && limit > 0 {
        return Err(Fault::unreadable(format!("the journal of {id} has {next} of {version} events")));
    }
    let events = found.into_iter().map(|(_, event)| event).collect();
    Ok(JournalPart { events, next: (next < version).then_some(next) })
}

/// What a query gave within its budget.
enum Read<T> {
    /// Every row that it found.
    All(Vec<T>),
    /// Rows up to the one that would have been too much.
    CutShort(Vec<T>),
}

/// Reads rows one after the other, and no further than the budget of a part allows.
fn within_budget<T>(
    db: &Connection,
    sql: &str,
    params: impl Params,
    bytes: impl Fn(&Row<'_>) -> Result<usize, Fault>,
    read: impl Fn(&Row<'_>) -> Result<T, Fault>,
) -> Result<Read<T>, Fault> {
    let mut select = db.prepare_cached(sql)?;
    let mut found = select.query(params)?;
    let (mut budget, mut items) = (ByteBudget::of_a_part(), Vec::new());
    while let Some(row) = found.next()? {
        if !budget.takes(bytes(row)?) {
            return Ok(Read::CutShort(items));
        }
        items.push(read(row)?);
    }
    Ok(Read::All(items))
}

fn one<T>(
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

fn count(stored: i64) -> Result<u64, Fault> {
    u64::try_from(stored).map_err(|_| Fault::unreadable(format!("{stored} is no count")))
}

pub(crate) fn most(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(sql: &str, parameters: usize) -> String {
        let mut db = Connection::open_in_memory().unwrap();
        crate::schema::migrate(&mut db).unwrap();
        let mut explain = db.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let nulls = vec![None::<i64>; parameters];
        let steps =
            explain.query_map(rusqlite::params_from_iter(nulls), |row| row.get::<_, String>(3)).unwrap();
        steps.map(Result::unwrap).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn no_list_of_executions_reads_more_than_its_page() {
        let requester = Some(PrincipalId::parse("ann").unwrap());
        let live = vec![Status::Waiting, Status::Running];
        let ended = vec![Status::Failed];
        let session = Some(SessionId::parse("ses_1").unwrap());
        for (status, requester, session, index) in [
            (vec![], None, None, "executions_by_age"),
            (vec![], requester.clone(), None, "executions_by_requester"),
            (vec![], None, session.clone(), "executions_by_session"),
            (vec![], requester.clone(), session.clone(), "executions_by_session"),
            (live.clone(), None, None, "executions_by_status"),
            (live.clone(), requester.clone(), None, "executions_by_status"),
            (live, None, session.clone(), "executions_by_status"),
            (ended.clone(), requester, None, "executions_by_requester"),
            (ended.clone(), None, session, "executions_by_session"),
            (ended, None, None, "executions_by_status"),
        ] {
            for condition in execution_conditions(&ExecutionFilter { status, requester, session }) {
                let sql = format!(
                    "SELECT id FROM executions WHERE (created_at, id) < (?1, ?2) AND {condition}
                     ORDER BY created_at DESC, id DESC LIMIT ?3"
                );
                let plan = plan(&sql, 5);
                assert!(plan.contains(index) && !plan.contains("TEMP B-TREE"), "{condition}: {plan}");
            }
        }
    }

    #[test]
    fn a_list_of_sessions_reads_its_page_and_the_grants_of_those_on_it() {
        let plan = plan(SESSIONS, 4);
        assert!(plan.contains("sessions_by_age") && plan.contains("grants_by_session"), "{plan}");
        assert!(!plan.contains("SCAN") && !plan.contains("TEMP B-TREE"), "{plan}");
    }

    #[test]
    fn no_list_of_elicitations_reads_the_whole_table() {
        let (execution, digest) = (Some(ExecutionId::from_random([1; 16])), Some(Digest::ZERO));
        let requester = Some(PrincipalId::parse("ann").unwrap());
        for (filter, index) in [
            (ElicitationFilter::default(), "elicitations_by_age"),
            (ElicitationFilter { open_only: true, ..Default::default() }, "SEARCH o USING PRIMARY KEY"),
            (ElicitationFilter { requester: requester.clone(), ..Default::default() }, "elicitations_by_age"),
            (ElicitationFilter { execution, ..Default::default() }, "elicitations_by_execution"),
            (ElicitationFilter { digest, ..Default::default() }, "elicitations_by_digest"),
            (ElicitationFilter { digest, open_only: true, ..Default::default() }, "elicitations_by_digest"),
            (
                ElicitationFilter { subject: digest, owner: requester.clone(), ..Default::default() },
                "elicitations_by_subject",
            ),
        ] {
            let plan = plan(&elicitations_sql(&filter), 8);
            assert!(plan.contains(index) && !plan.contains("SCAN"), "{filter:?}: {plan}");
        }
    }
}
