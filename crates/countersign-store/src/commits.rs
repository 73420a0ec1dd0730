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
use crate::rows::{self, Blob, Stored as _, check_unchanged, checksum_seed};

const COMMIT: &str = "a journal's commit";

/// A whole journal; nothing where it is longer than `most`.
pub(crate) fn journal(db: &Connection, id: ExecutionId, most: u64) -> Result<Option<Vec<Event>>, Fault> {
    let mut select = db.prepare_cached(
        "SELECT x.version, j.first, j.body, j.sum FROM executions x JOIN journal j ON j.execution = x.no
         WHERE x.id = ?1 ORDER BY j.first",
    )?;
    let mut found = select.query([id.blob()])?;
    let (mut events, mut version) = (Vec::new(), 0);
    while let Some(row) = found.next()? {
        version = count(row.get(0)?)?;
        if version > most {
            return Ok(None);
        }
        follows(row, 1, id, events.len() as u64)?;
        commit(row, 1, id.blob())?.append_to(&mut events).map_err(|error| unreadable(&error))?;
    }
    if events.len() as u64 != version {
        let found = events.len();
        return Err(Fault::unreadable(format!("the journal of {id} has {found} of {version} events")));
    }
    Ok(Some(events))
}

/// A part of a journal.
pub(crate) fn journal_part(
    db: &Connection,
    id: ExecutionId,
    from: u64,
    limit: usize,
) -> Result<JournalPart, Fault> {
    let version =
        one(db, "SELECT version FROM executions WHERE id = ?1", [id.blob()], |row| count(row.get(0)?))?;
    let version = version.unwrap_or(0);
    let nearest = "SELECT max(j.first) FROM executions x JOIN journal j ON j.execution = x.no
                   WHERE x.id = ?1 AND j.first <= ?2";
    let from_column = i64::try_from(from).unwrap_or(i64::MAX);
    let nearest = one(db, nearest, params![id.blob(), from_column], |row| Ok(row.get::<_, Option<i64>>(0)?))?;
    let nearest = count(nearest.flatten().unwrap_or(0))?;
    let events = match events_from(db, id, nearest, from, limit, Some(ByteBudget::of_a_part()))? {
        Some(events) => events,
        // An event refers to an earlier commit.
        None => {
            events_from(db, id, 0, from, limit, Some(ByteBudget::of_a_part()))?.ok_or_else(|| dangling(id))?
        }
    };
    let next = from.saturating_add(events.len() as u64);
    if events.is_empty() && next < version && limit > 0 {
        return Err(Fault::unreadable(format!("the journal of {id} has {next} of {version} events")));
    }
    Ok(JournalPart { events, next: (next < version).then_some(next) })
}

/// The events from a number on, read from the commit that begins with the event `start`; nothing where one of them refers to an
/// earlier commit.
fn events_from(
    db: &Connection,
    id: ExecutionId,
    start: u64,
    from: u64,
    limit: usize,
    mut budget: Option<ByteBudget>,
) -> Result<Option<Vec<Event>>, Fault> {
    let mut select = db.prepare_cached(
        "SELECT j.first, j.body, j.sum FROM executions x JOIN journal j ON j.execution = x.no
         WHERE x.id = ?1 AND j.first >= ?2 ORDER BY j.first",
    )?;
    let mut found = select.query(params![id.blob(), i64::try_from(start).unwrap_or(i64::MAX)])?;
    let skipped = usize::try_from(from - start.min(from)).unwrap_or(usize::MAX);
    let mut events = Vec::new();
    'rows: while let Some(row) = found.next()? {
        follows(row, 0, id, start + events.len() as u64)?;
        let commit = commit(row, 0, id.blob())?;
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
fn commit<'r>(row: &'r Row<'_>, column: usize, execution: Blob) -> Result<Commit<'r>, Fault> {
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
        let mut select =
            self.db.prepare_cached("SELECT first, body, sum, execution FROM journal WHERE no = ?1")?;
        let mut found = select.query([no])?;
        let row =
            found.next()?.ok_or_else(|| Fault::unreadable(format!("the journal of {id} lacks a commit")))?;
        check_unchanged(row.get::<_, i64>(3)? == execution, COMMIT)?;
        let (commit, mut events) = (commit(row, 0, id.blob())?, Vec::new());
        match commit.append_to(&mut events) {
            Ok(()) => Ok(events),
            Err(CommitError::Dangling(_)) => {
                let (first, len) = (count(row.get(0)?)?, commit.len());
                events_from(self.db, id, 0, first, len, None)?.ok_or_else(|| dangling(id))
            }
            Err(error) => Err(unreadable(&error)),
        }
    }
}
