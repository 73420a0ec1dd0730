//! Commits of a journal, and the rows that are derived from them.

use countersign_core::ids::{ElicitationId, ExecutionId};
use countersign_kernel::ports::{ExecutionRow, StoreError};
use rusqlite::{OptionalExtension as _, Row, params};

use super::{Statements, first, integer, refuse};
use crate::fault::Fault;
use crate::rows::{Blob, ElicitationFacts, Stored as _, kind_letter, millis, status_letter};
use crate::staged::{StagedElicitation, StagedJournal};

/// An execution that exists, as the check found it.
#[derive(Debug)]
pub(crate) struct ExistingExecution {
    no: i64,
    status: String,
    session: i64,
    requester: i64,
}

impl Statements<'_> {
    /// Whether the journal is as long as the change expects, and its key is free; where its execution is, if it exists.
    pub(super) fn check_journal(
        &mut self,
        journal: &StagedJournal,
    ) -> Result<Option<ExistingExecution>, Fault> {
        let read = |row: &Row<'_>| {
            let existing = ExistingExecution {
                no: row.get(1)?,
                status: row.get(2)?,
                session: row.get(3)?,
                requester: row.get(4)?,
            };
            Ok((row.get::<_, i64>(0)?, existing))
        };
        let found = self.find_execution.query_row([journal.execution], read).optional()?;
        let version = found.as_ref().map_or(0, |(version, _)| *version);
        if version != integer(journal.expected) {
            let actual = u64::try_from(version).map_err(|_| Fault::unreadable("a journal's length"))?;
            return refuse(StoreError::Conflict { expected: journal.expected, actual });
        }
        if let (None, ExecutionRow { key: Some(key), requester, .. }) = (&found, &journal.row)
            && let Some(requester) = self.names.find(requester.as_str())?
        {
            let holder: Option<Blob> = self.find_key.query_row(params![requester, key], first).optional()?;
            if let Some(holder) = holder {
                return refuse(StoreError::KeyTaken(ExecutionId::of_blob(holder)));
            }
        }
        Ok(found.map(|(_, existing)| existing))
    }

    pub(super) fn write_journal(
        &mut self,
        journal: &StagedJournal,
        existing: Option<&ExistingExecution>,
    ) -> Result<(), Fault> {
        let version = integer(journal.expected.saturating_add(journal.events));
        let (no, session, requester) = match existing {
            Some(existing) => {
                self.update_execution(existing, version, &journal.row)?;
                (existing.no, existing.session, existing.requester)
            }
            None => self.insert_execution(journal, version)?,
        };
        if journal.events == 0 {
            return Ok(());
        }
        let row = params![no, integer(journal.expected), journal.body.text, journal.body.sum];
        let commit = self.insert_commit.insert(row)?;
        let (mut open, mut bytes) = (0, 0);
        for elicitation in &journal.opened {
            self.insert_elicitation(no, commit, elicitation)?;
            if !elicitation.is_decided {
                open += 1;
                bytes += elicitation.bytes;
            }
        }
        for id in &journal.decided {
            let Some(freed) = self.decide(no, commit, id)? else {
                let id = ElicitationId::of_blob(*id);
                return refuse(StoreError::Corrupt(format!("{id} is not open in {}", journal.row.id)));
            };
            open -= 1;
            bytes -= freed;
        }
        if open != 0 || bytes != 0 {
            self.names.count(session, requester, open, bytes)?;
        }
        Ok(())
    }

    /// Gives its number, and those of its session and requester.
    fn insert_execution(&mut self, journal: &StagedJournal, version: i64) -> Result<(i64, i64, i64), Fault> {
        let row = &journal.row;
        let session = self.names.number(row.session.as_str())?;
        let requester = self.names.number(row.requester.as_str())?;
        let owner = self.optional_name(row.owner.as_ref().map(|owner| owner.as_str()))?;
        let tool = self.optional_name(row.tool.as_ref().map(|tool| tool.as_str()))?;
        let no = self.insert_execution.insert(params![
            journal.execution,
            version,
            kind_letter(row.kind),
            status_letter(row.status),
            session,
            requester,
            owner,
            tool,
            row.key,
            millis(row.created_at),
            millis(row.updated_at),
            journal.sum,
        ])?;
        Ok((no, session, requester))
    }

    /// Kind, session, requester, key and age of an execution never change; how far it got does.
    fn update_execution(
        &mut self,
        existing: &ExistingExecution,
        version: i64,
        row: &ExecutionRow,
    ) -> Result<(), Fault> {
        let (no, updated_at, status) = (existing.no, millis(row.updated_at), status_letter(row.status));
        let tool = self.optional_name(row.tool.as_ref().map(|tool| tool.as_str()))?;
        if status == existing.status {
            self.advance_execution.execute(params![no, version, tool, updated_at])?;
        } else {
            self.move_execution.execute(params![no, version, tool, updated_at, status])?;
        }
        Ok(())
    }

    fn optional_name(&mut self, name: Option<&str>) -> Result<Option<i64>, Fault> {
        name.map(|name| self.names.number(name)).transpose()
    }

    fn insert_elicitation(
        &mut self,
        execution: i64,
        commit: i64,
        staged: &StagedElicitation,
    ) -> Result<(), Fault> {
        let facts = ElicitationFacts {
            id: staged.id,
            execution,
            asked: commit,
            decided: staged.is_decided.then_some(commit),
            expires_at: staged.expires_at,
            digest: staged.digest,
            subject: staged.subject,
            bytes: staged.bytes,
        };
        let ElicitationFacts { id, asked, decided, expires_at, digest, subject, bytes, .. } = facts;
        let row =
            params![id, execution, asked, decided, expires_at, digest, subject, bytes, facts.checksum()];
        self.insert_elicitation.execute(row)?;
        Ok(())
    }

    /// Gives how many bytes it has; nothing where it was not open.
    fn decide(&mut self, execution: i64, commit: i64, id: &Blob) -> Result<Option<i64>, Fault> {
        let mut found = self.find_elicitation.query([id])?;
        let Some(row) = found.next()? else { return Ok(None) };
        let (no, facts): (i64, _) = (row.get(0)?, ElicitationFacts::read(row, 1)?);
        if facts.execution != execution || facts.decided.is_some() {
            return Ok(None);
        }
        let decided = ElicitationFacts { decided: Some(commit), ..facts };
        self.decide_elicitation.execute(params![no, commit, decided.checksum()])?;
        Ok(Some(decided.bytes))
    }
}
