//! Commits, read back: whole journals, parts of them, and the one commit that a row of another table refers to.

use std::sync::Arc;

use countersign_core::commit::{Commit, CommitError};
use countersign_core::elicitation::{Decision, Elicitation};
use countersign_core::event::{Event, EventBody};
use countersign_core::ids::{ElicitationId, ExecutionId};
use countersign_core::time::Timestamp;
use countersign_kernel::ports::{ByteBudget, JournalPart};
use rusqlite::{Connection, Row, params};

use crate::fault::Fault;
use crate::read::{count, one};
use crate::rows::{self, Stored as _, check_unchanged, checksum_seed};

const COMMIT: &str = "a journal's commit";

/// A whole journal; nothing where it is longer than `most`.
pub(crate) fn journal(db: &Connection, id: ExecutionId, most: u64) -> Result<Option<Vec<Event>>, Fault> {
    let version = "SELECT version FROM executions WHERE id = ?1";
    if one(db, version, [id.blob()], |row| count(row.get(0)?))?.is_some_and(|version| version > most) {
        return Ok(None);
    }
    let Rows { version, numbers } = Rows::since(db, id, 0)?;
    let mut events = Vec::new();
    let mut select = db.prepare_cached(COMMIT_ROW)?;
    for no in numbers {
        let mut found = select.query([no])?;
        let row = found.next()?.ok_or_else(|| lacks_commit(id))?;
        follows(row, 0, id, events.len() as u64)?;
        commit(row, 0, id)?.append_to(&mut events).map_err(|error| unreadable(&error))?;
    }
    if events.len() as u64 != version {
        let found = events.len();
        return Err(Fault::unreadable(format!("the journal of {id} has {found} of {version} events")));
    }
    Ok(Some(events))
}

/// Where the commits of a journal are, at one moment. Rows that are there never change.
#[derive(Default)]
struct Rows {
    /// How many events the journal has.
    version: u64,
    /// The rows, oldest first.
    numbers: Vec<i64>,
}

impl Rows {
    /// The rows from the one on that holds an event of this number.
    fn since(db: &Connection, id: ExecutionId, from: u64) -> Result<Self, Fault> {
        let from = i64::try_from(from).unwrap_or(i64::MAX);
        let mut select = db.prepare_cached(ROWS)?;
        let mut found = select.query(params![id.blob(), from])?;
        let mut rows = Self::default();
        while let Some(row) = found.next()? {
            rows.version = count(row.get(0)?)?;
            rows.numbers.push(row.get(1)?);
        }
        rows.numbers.reverse();
        Ok(rows)
    }
}

/// From the newest commit back. Each must begin before the one after it, so that a damaged row leads nowhere but to an end.
const ROWS: &str = "WITH RECURSIVE chain (version, no, execution, first, previous) AS (
        SELECT x.version, j.no, j.execution, j.first, j.previous
        FROM executions x JOIN journal j ON j.no = x.last AND j.execution = x.no
        WHERE x.id = ?1
        UNION ALL
        SELECT c.version, j.no, j.execution, j.first, j.previous
        FROM chain c JOIN journal j ON j.no = c.previous AND j.execution = c.execution AND j.first < c.first
        WHERE c.first > ?2
    ) SELECT version, no FROM chain";

const COMMIT_ROW: &str = "SELECT first, body, sum, execution FROM journal WHERE no = ?1";

/// A part of a journal.
pub(crate) fn journal_part(
    db: &Connection,
    id: ExecutionId,
    from: u64,
    limit: usize,
) -> Result<JournalPart, Fault> {
    let Rows { version, numbers } = Rows::since(db, id, from)?;
    let budget = || Some(ByteBudget::of_a_part());
    let events = match events_from(db, id, &numbers, from, limit, budget())? {
        Some(events) => events,
        // An event refers to an earlier commit.
        None => {
            let all = Rows::since(db, id, 0)?.numbers;
            events_from(db, id, &all, from, limit, budget())?.ok_or_else(|| dangling(id))?
        }
    };
    let next = from.saturating_add(events.len() as u64);
    if events.is_empty() && next < version && limit > 0 {
        return Err(Fault::unreadable(format!("the journal of {id} has {next} of {version} events")));
    }
    Ok(JournalPart { events, next: (next < version).then_some(next) })
}

/// The events from a number on, read from these rows of the journal; nothing where one of them refers to an earlier row.
fn events_from(
    db: &Connection,
    id: ExecutionId,
    rows: &[i64],
    from: u64,
    limit: usize,
    mut budget: Option<ByteBudget>,
) -> Result<Option<Vec<Event>>, Fault> {
    let mut select = db.prepare_cached(COMMIT_ROW)?;
    let (mut events, mut start, mut skipped) = (Vec::new(), None, 0);
    'rows: for no in rows {
        let mut found = select.query([no])?;
        let row = found.next()?.ok_or_else(|| lacks_commit(id))?;
        match start {
            None => {
                let first = count(row.get(0)?)?;
                start = Some(first);
                skipped = usize::try_from(from.saturating_sub(first)).unwrap_or(usize::MAX);
            }
            Some(start) => follows(row, 0, id, start + events.len() as u64)?,
        }
        let commit = commit(row, 0, id)?;
        for n in 0..commit.len() {
            if events.len() >= skipped.saturating_add(limit) {
                break 'rows;
            }
            let (event, bytes) = match commit.event(n, &events) {
                Ok(Some(event)) => event,
                Ok(None) => break,
                Err(CommitError::Dangling(_)) => return Ok(None),
                Err(error) => return Err(unreadable(&error)),
            };
            let is_wanted = events.len() >= skipped;
            if budget.as_mut().is_some_and(|budget| is_wanted && !budget.takes(bytes)) {
                break 'rows;
            }
            events.push(event);
        }
    }
    Ok(Some(events.split_off(skipped.min(events.len()))))
}

/// The commit from `first, body, sum`, beginning with a column.
fn commit<'r>(row: &'r Row<'_>, column: usize, execution: ExecutionId) -> Result<Commit<'r>, Fault> {
    let seed = checksum_seed(execution, row.get(column)?);
    Commit::parse(rows::body_text(row, column + 1, seed, COMMIT)?).map_err(|error| unreadable(&error))
}

/// Whether a row begins with this event.
fn follows(row: &Row<'_>, column: usize, id: ExecutionId, expected: u64) -> Result<(), Fault> {
    let first = count(row.get(column)?)?;
    if first == expected {
        return Ok(());
    }
    Err(Fault::unreadable(format!("the journal of {id} lacks event {expected}, and goes on with {first}")))
}

fn lacks_commit(id: ExecutionId) -> Fault {
    Fault::unreadable(format!("the journal of {id} lacks a commit"))
}

fn dangling(id: ExecutionId) -> Fault {
    Fault::unreadable(format!("the journal of {id} refers to a call that is not in it"))
}

fn unreadable(error: &CommitError) -> Fault {
    Fault::unreadable(format!("{COMMIT}: {error}"))
}

/// The commits that rows of another table refer to. Neighbours often refer to the same one, so the last one is kept.
pub(crate) struct Commits<'c> {
    db: &'c Connection,
    last: Option<(i64, Vec<Event>)>,
}

impl<'c> Commits<'c> {
    pub(crate) fn of(db: &'c Connection) -> Self {
        Self { db, last: None }
    }

    /// The question with this id in a commit, and when it was asked.
    pub(crate) fn asked(
        &mut self,
        no: i64,
        execution: (i64, ExecutionId),
        id: ElicitationId,
    ) -> Result<(Arc<Elicitation>, Timestamp), Fault> {
        let asked = self.events(no, execution)?.iter().find_map(|event| match &event.body {
            EventBody::Asked(asked) if asked.id == id => Some((Arc::clone(asked), event.at)),
            _ => None,
        });
        asked.ok_or_else(|| Fault::unreadable(format!("{id} is not in its commit")))
    }

    /// The decision on a question in a commit.
    pub(crate) fn decision(
        &mut self,
        no: i64,
        execution: (i64, ExecutionId),
        id: ElicitationId,
    ) -> Result<Decision, Fault> {
        let decided = self.events(no, execution)?.iter().find_map(|event| match &event.body {
            EventBody::Decided { elicitation, decision } if *elicitation == id => Some(decision.clone()),
            _ => None,
        });
        decided.ok_or_else(|| Fault::unreadable(format!("the decision on {id} is not in its commit")))
    }

    fn events(&mut self, no: i64, execution: (i64, ExecutionId)) -> Result<&[Event], Fault> {
        if self.last.as_ref().is_none_or(|(last, _)| *last != no) {
            self.last = None;
            self.last = Some((no, self.read(no, execution)?));
        }
        Ok(self.last.as_ref().map_or(&[], |(_, events)| events))
    }

    fn read(&self, no: i64, (execution, id): (i64, ExecutionId)) -> Result<Vec<Event>, Fault> {
        let mut select = self.db.prepare_cached(COMMIT_ROW)?;
        let mut found = select.query([no])?;
        let row = found.next()?.ok_or_else(|| lacks_commit(id))?;
        check_unchanged(row.get::<_, i64>(3)? == execution, COMMIT)?;
        let (commit, mut events) = (commit(row, 0, id)?, Vec::new());
        match commit.append_to(&mut events) {
            Ok(()) => Ok(events),
            Err(CommitError::Dangling(_)) => {
                let (first, len) = (count(row.get(0)?)?, commit.len());
                let all = Rows::since(self.db, id, 0)?.numbers;
                events_from(self.db, id, &all, first, len, None)?.ok_or_else(|| dangling(id))
            }
            Err(error) => Err(unreadable(&error)),
        }
    }
}
