//! Executions and elicitations, one and in lists.
//!
//! Promise: a row that is not what was written is listed as damaged in its place, and the rows around it are listed as ever.

use countersign_core::elicitation::Decision;
use countersign_core::execution::Status;
use countersign_core::ids::{ElicitationId, ExecutionId};
use countersign_core::time::Timestamp;
use countersign_kernel::ports::{
    ByteBudget, DamagedRow, ElicitationFilter, ElicitationRow, ExecutionFilter, ExecutionRow, Listing,
};
use countersign_sdk::{PrincipalId, SessionId};
use rusqlite::{Connection, Row, params};

use crate::commits::Commits;
use crate::cursor::Window;
use crate::fault::Fault;
use crate::read::{all, most, one};
use crate::rows::{
    self, ELICITATION_FACTS, EXECUTION_COLUMNS, EXECUTION_TABLES, ElicitationFacts, Stored, check_unchanged,
    millis, short_digest,
};
use crate::schema::BLOCK_BITS;

/// One execution.
pub(crate) fn execution(db: &Connection, id: ExecutionId) -> Result<Option<ExecutionRow>, Fault> {
    let sql = format!("SELECT {EXECUTION_COLUMNS} FROM {EXECUTION_TABLES} WHERE x.id = ?1");
    one(db, &sql, [id.blob()], rows::execution_row)
}

/// The execution under a requester's key.
pub(crate) fn by_key(
    db: &Connection,
    requester: &PrincipalId,
    key: &str,
) -> Result<Option<ExecutionId>, Fault> {
    let sql =
        "SELECT id FROM executions WHERE requester = (SELECT no FROM names WHERE name = ?1) AND key = ?2";
    one(db, sql, [requester.as_str(), key], |row| rows::id(row, 0))
}

/// Executions, newest first.
pub(crate) fn executions(
    db: &Connection,
    filter: &ExecutionFilter,
    window: &Window,
) -> Result<Listing<ExecutionRow>, Fault> {
    let requester = filter.requester.as_ref().map(PrincipalId::as_str);
    let session = filter.session.as_ref().map(SessionId::as_str);
    let mut items = Vec::new();
    for condition in execution_conditions(filter) {
        let params = params![window.start, window.rows(), requester, session];
        items.extend(all(db, &executions_sql(&condition), params, |row| {
            let id: ExecutionId = rows::id(row, 0)?;
            Found::of(
                rows::execution_row(row),
                row.get(11)?,
                id.to_string(),
                Some(id),
                rows::row_time(row, 5)?,
            )
        })?);
    }
    items.sort_by_key(|found| std::cmp::Reverse(found.no));
    Ok(split_damaged(window.listing(items, |found| found.no)))
}

fn executions_sql(condition: &str) -> String {
    format!(
        "SELECT {EXECUTION_COLUMNS}, x.no FROM {EXECUTION_TABLES} WHERE x.no < ?1 AND {condition}
         ORDER BY x.no DESC LIMIT ?2"
    )
}

/// The conditions that select executions: one, or one for each status where the index of unfinished ones leads there fastest. The
/// unary plus keeps SQLite from choosing another index.
fn execution_conditions(filter: &ExecutionFilter) -> Vec<String> {
    let requester = match filter.requester {
        Some(_) => "x.requester = (SELECT no FROM names WHERE name = ?3)",
        None => "?3 IS NULL",
    };
    let session = match filter.session {
        Some(_) => "x.session = (SELECT no FROM names WHERE name = ?4)",
        None => "?4 IS NULL",
    };
    // A session is one requester's, so that it leads to fewer.
    let (index, also) = if filter.session.is_some() { (session, requester) } else { (requester, session) };
    let mut statuses: Vec<&str> = filter.status.iter().map(|status| rows::status_letter(*status)).collect();
    statuses.sort_unstable();
    statuses.dedup();
    if statuses.is_empty() {
        return vec![format!("{index} AND +{also}")];
    }
    if !filter.status.iter().copied().any(Status::is_final) {
        // The index's own condition is repeated, so that SQLite sees that the index applies.
        let of = |status: &&str| {
            format!(
                "x.status = '{status}' AND (x.status = 'r' OR x.status = 'w' OR x.status = 'd') AND +{requester} AND +{session}"
            )
        };
        return statuses.iter().map(of).collect();
    }
    vec![format!("{index} AND +{also} AND +x.status IN ('{}')", statuses.join("', '"))]
}

/// Elicitations with their executions' facts.
const ELICITATIONS: &str =
    concat!("elicitations e JOIN executions x ON x.no = e.execution", rows::execution_names_sql!());
/// The column of an execution's facts.
const FACTS: usize = 8;
/// The column of the elicitation's number.
const NUMBER: usize = FACTS + 8;

fn elicitation_columns() -> String {
    format!("{ELICITATION_FACTS}, {}, e.no", rows::execution_facts_sql!())
}

/// One elicitation.
pub(crate) fn elicitation(db: &Connection, id: ElicitationId) -> Result<Option<ElicitationRow>, Fault> {
    let sql = format!("SELECT {} FROM {ELICITATIONS} WHERE e.id = ?1", elicitation_columns());
    one(db, &sql, [id.blob()], |row| ElicitationReader::of(db).row(row))
}

/// Elicitations, oldest first.
pub(crate) fn elicitations(
    db: &Connection,
    filter: &ElicitationFilter,
    window: &Window,
) -> Result<Listing<ElicitationRow>, Fault> {
    let execution = filter.execution.map(|id| id.blob());
    let requester = filter.requester.as_ref().map(PrincipalId::as_str);
    let (subject, owner) = (filter.subject.map(short_digest), filter.owner.as_ref().map(PrincipalId::as_str));
    let mut select = db.prepare_cached(&elicitations_sql(filter))?;
    let mut reader = ElicitationReader::of(db);
    let (mut budget, mut items) = (ByteBudget::of_a_part(), Vec::new());
    for block in blocks(db, filter, window)? {
        let params = params![window.start, window.rows(), execution, block, requester, subject, owner];
        let mut found = select.query(params)?;
        while let Some(row) = found.next()? {
            let (id, execution): (ElicitationId, ExecutionId) = (rows::id(row, 0)?, rows::id(row, FACTS)?);
            let (no, at) = (row.get(NUMBER)?, rows::row_time(row, FACTS + 5)?);
            let found = Found::of(reader.row(row), no, id.to_string(), Some(execution), at)?;
            if let Ok(row) = &found.row
                && !fits(filter, row)
            {
                continue;
            }
            let question_bytes = usize::try_from(row.get::<_, i64>(6)?).unwrap_or(0);
            if !budget.takes(question_bytes + found.row.as_ref().map_or(0, decision_bytes)) {
                return Ok(split_damaged(window.cut_short(items, |found: &Found<_>| found.no)));
            }
            items.push(found);
        }
        if items.len() > window.limit {
            break;
        }
    }
    Ok(split_damaged(window.listing(items, |found| found.no)))
}

/// The blocks of the index by subject to look into, where it is looked into at all; else one that stands for everything.
fn blocks(
    db: &Connection,
    filter: &ElicitationFilter,
    window: &Window,
) -> Result<std::ops::RangeInclusive<i64>, Fault> {
    if filter.subject.is_none() {
        return Ok(0..=0);
    }
    let newest = one(db, "SELECT max(no) FROM elicitations", [], |row| Ok(row.get::<_, Option<i64>>(0)?))?;
    Ok(window.start >> BLOCK_BITS..=newest.flatten().unwrap_or(0) >> BLOCK_BITS)
}

/// Whether the whole digest is the one that is looked for: only a part of it is indexed.
fn fits(filter: &ElicitationFilter, row: &ElicitationRow) -> bool {
    filter.subject.is_none_or(|subject| row.elicitation.subject() == subject)
}

/// How many bytes a decision adds to its question.
fn decision_bytes(row: &ElicitationRow) -> usize {
    let Some(Decision { comment, data, .. }) = &row.decision else { return 0 };
    comment.as_ref().map_or(0, String::len) + data.as_ref().map_or(0, |data| data.as_str().len())
}

fn elicitations_sql(filter: &ElicitationFilter) -> String {
    let execution = match filter.execution {
        Some(_) => "e.execution = (SELECT no FROM executions WHERE id = ?3)",
        None => "?3 IS NULL",
    };
    let requester = match filter.requester {
        Some(_) => "+x.requester = (SELECT no FROM names WHERE name = ?5)",
        None => "?5 IS NULL",
    };
    let subject = match filter.subject {
        Some(_) => format!("(e.no >> {BLOCK_BITS}) = ?4 AND e.subject = ?6"),
        None => "?4 = 0 AND ?6 IS NULL".to_owned(),
    };
    let owner = match filter.owner {
        Some(_) => "+x.owner = (SELECT no FROM names WHERE name = ?7)",
        None => "?7 IS NULL",
    };
    let open = match filter {
        ElicitationFilter { open_only: true, execution: None, subject: None, .. } => "e.decided IS NULL",
        ElicitationFilter { open_only: true, .. } => "+e.decided IS NULL",
        ElicitationFilter { open_only: false, .. } => "TRUE",
    };
    format!(
        "SELECT {} FROM {ELICITATIONS} WHERE e.no > ?1 AND {open} AND {execution} AND {subject} AND {requester}
         AND {owner} ORDER BY e.no LIMIT ?2",
        elicitation_columns()
    )
}

/// Open elicitations whose time is up.
pub(crate) fn due(
    db: &Connection,
    now: Timestamp,
    limit: usize,
) -> Result<Vec<(ElicitationId, ExecutionId)>, Fault> {
    all(db, DUE, [millis(now), most(limit)], |row| Ok((rows::id(row, 0)?, rows::id(row, 1)?)))
}

const DUE: &str = "SELECT e.id, x.id FROM elicitations e INDEXED BY elicitations_expiring JOIN executions x ON x.no = e.execution
    WHERE e.decided IS NULL AND e.expires_at <= ?1 ORDER BY e.expires_at LIMIT ?2";

/// Reads elicitations: their rows, and the commits that the rows refer to.
struct ElicitationReader<'c> {
    questions: Commits<'c>,
    decisions: Commits<'c>,
}

impl<'c> ElicitationReader<'c> {
    fn of(db: &'c Connection) -> Self {
        Self { questions: Commits::of(db), decisions: Commits::of(db) }
    }

    /// An elicitation, from [`elicitation_columns`].
    fn row(&mut self, row: &Row<'_>) -> Result<ElicitationRow, Fault> {
        let facts = ElicitationFacts::read(row, 0)?;
        let ExecutionRow { id: execution, session, requester, owner, .. } =
            rows::execution_facts(row, FACTS)?;
        let (id, owner_execution) = (ElicitationId::of_blob(facts.id), (facts.execution, execution));
        let (elicitation, asked_at) = self.questions.asked(facts.asked, owner_execution, id)?;
        check_unchanged(facts.expires_at == millis(elicitation.expires_at), "an elicitation")?;
        let decision =
            facts.decided.map(|decided| self.decisions.decision(decided, owner_execution, id)).transpose()?;
        Ok(ElicitationRow { elicitation, execution, session, requester, owner, asked_at, decision })
    }
}

/// A row of a list, whole or damaged, with its number.
pub(crate) struct Found<T> {
    pub(crate) no: i64,
    row: Result<T, DamagedRow>,
}

impl<T> Found<T> {
    /// Keeps a row that cannot be read as such; only a failing medium fails the list.
    pub(crate) fn of(
        read: Result<T, Fault>,
        no: i64,
        id: String,
        execution: Option<ExecutionId>,
        at: Timestamp,
    ) -> Result<Self, Fault> {
        let row = match read {
            Ok(row) => Ok(row),
            Err(Fault::Refused(error)) => Err(DamagedRow { id, execution, at, problem: error.to_string() }),
            Err(fault) => return Err(fault),
        };
        Ok(Self { no, row })
    }
}

/// The whole rows of a part, and the damaged ones beside them.
pub(crate) fn split_damaged<T>(part: Listing<Found<T>>) -> Listing<T> {
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

#[cfg(test)]
mod tests {
    use countersign_core::digest::Digest;

    use super::*;
    use crate::read::tests::plan;

    #[test]
    fn no_list_of_executions_sorts_and_each_has_its_index() {
        let requester = Some(PrincipalId::parse("ann").unwrap());
        let live = vec![Status::Waiting, Status::Running];
        let ended = vec![Status::Failed];
        let session = Some(SessionId::parse("ses_1").unwrap());
        for (status, requester, session, index) in [
            (vec![], None, None, "INTEGER PRIMARY KEY"),
            (vec![], requester.clone(), None, "executions_by_requester"),
            (vec![], None, session.clone(), "executions_by_session"),
            (vec![], requester.clone(), session.clone(), "executions_by_session"),
            (live.clone(), None, None, "executions_unfinished"),
            (live.clone(), requester.clone(), None, "executions_unfinished"),
            (live, None, session.clone(), "executions_unfinished"),
            (ended.clone(), requester, None, "executions_by_requester"),
            (ended.clone(), None, session, "executions_by_session"),
            (ended, None, None, "INTEGER PRIMARY KEY"),
        ] {
            for condition in execution_conditions(&ExecutionFilter { status, requester, session }) {
                let plan = plan(&executions_sql(&condition), 4);
                assert!(
                    plan.contains(&format!("SEARCH x USING {index}"))
                        || plan.contains(&format!("SEARCH x USING INDEX {index}")),
                    "{condition}: {plan}"
                );
                assert!(!plan.contains("TEMP B-TREE") && !plan.contains("SCAN"), "{condition}: {plan}");
            }
        }
    }

    #[test]
    fn no_list_of_elicitations_sorts_or_reads_the_whole_table() {
        let (execution, subject) = (Some(ExecutionId::from_random([1; 16])), Some(Digest::ZERO));
        let requester = Some(PrincipalId::parse("ann").unwrap());
        for (filter, index) in [
            (ElicitationFilter::default(), "INTEGER PRIMARY KEY"),
            (ElicitationFilter { open_only: true, ..Default::default() }, "elicitations_open"),
            (ElicitationFilter { requester: requester.clone(), ..Default::default() }, "INTEGER PRIMARY KEY"),
            (ElicitationFilter { execution, ..Default::default() }, "elicitations_by_execution"),
            (ElicitationFilter { subject, open_only: true, ..Default::default() }, "elicitations_by_subject"),
            (
                ElicitationFilter { subject, owner: requester.clone(), ..Default::default() },
                "elicitations_by_subject",
            ),
        ] {
            let plan = plan(&elicitations_sql(&filter), 7);
            assert!(plan.contains(index) && !plan.contains("SCAN"), "{filter:?}: {plan}");
            assert!(!plan.contains("TEMP B-TREE"), "{filter:?}: {plan}");
        }
    }

    #[test]
    fn expired_elicitations_are_found_by_their_index() {
        let plan = plan(DUE, 2);
        assert!(plan.contains("elicitations_expiring") && !plan.contains("TEMP B-TREE"), "{plan}");
    }
}
