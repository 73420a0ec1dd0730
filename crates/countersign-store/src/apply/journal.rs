//! Commits of a journal, and the rows that are derived from them.

use countersign_core::ids::{ElicitationId, ExecutionId};
use countersign_kernel::ports::{ExecutionRow, StoreError};
use rusqlite::{OptionalExtension as _, Row, params};

use super::{Statements, first, integer, refuse};
use crate::fault::Fault;
use crate::recent::ExistingExecution;
use crate::rows::{self, ElicitationFacts, Stored as _, TimedBlob, kind_letter, millis, status_letter};
use crate::staged::{StagedElicitation, StagedJournal};

impl Statements<'_> {
    /// Whether the journal is as long as the change expects, and its key is free; where its execution is, if it exists.
    pub(super) fn check_journal(
        &mut self,
        journal: &StagedJournal,
    ) -> Result<Option<ExistingExecution>, Fault> {
        let found = self.find(&journal.execution)?;
        let version = found.map_or(0, |found| found.version);
        if version != integer(journal.expected) {
            let actual = u64::try_from(version).map_err(|_| Fault::unreadable("a journal's length"))?;
            return refuse(StoreError::Conflict { expected: journal.expected, actual });
        }
        if let (None, ExecutionRow { key: Some(key), requester, .. }) = (&found, &journal.row)
            && let Some(requester) = self.names.find(requester.as_str())?
        {
            let holder: Option<TimedBlob> =
                self.find_key.query_row(params![requester, key], first).optional()?;
            if let Some(holder) = holder {
                return refuse(StoreError::KeyTaken(ExecutionId::of_blob(holder)));
            }
        }
        Ok(found)
    }

    fn find(&mut self, id: &TimedBlob) -> Result<Option<ExistingExecution>, Fault> {
        if let Some(known) = self.recent.execution(id) {
            return Ok(Some(known));
        }
        let mut found = self.find_execution.query([id])?;
        found.next()?.map(existing).transpose()
    }

    pub(super) fn write_journal(
        &mut self,
        journal: &StagedJournal,
        existing: Option<&ExistingExecution>,
    ) -> Result<(), Fault> {
        let previous = existing.map_or(0, |existing| existing.last);
        let last = if journal.events == 0 { previous } else { self.recent.next_commit()? };
        let execution = match existing {
            Some(existing) => self.update_execution(existing, journal, last)?,
            None => self.insert_execution(journal, last)?,
        };
        self.recent.note_execution(journal.execution, execution);
        if journal.events == 0 {
            return Ok(());
        }
        let body = &journal.body;
        let row = params![last, execution.no, integer(journal.expected), previous, body.text, body.sum];
        self.insert_commit.execute(row)?;
        let (mut open, mut bytes) = (0, 0);
        for elicitation in &journal.opened {
            self.insert_elicitation(&execution, elicitation)?;
            if !elicitation.is_decided {
                open += 1;
                bytes += elicitation.bytes;
            }
        }
        for id in &journal.decided {
            let Some(freed) = self.decide(&execution, id)? else {
                let id = ElicitationId::of_blob(*id);
                return refuse(StoreError::Corrupt(format!("{id} is not open in {}", journal.row.id)));
            };
            open -= 1;
            bytes -= freed;
        }
        if open != 0 || bytes != 0 {
            self.names.count(execution.session, execution.requester, open, bytes)?;
        }
        Ok(())
    }

    fn insert_execution(&mut self, journal: &StagedJournal, last: i64) -> Result<ExistingExecution, Fault> {
        let row = &journal.row;
        let session = self.names.number(row.session.as_str())?;
        let requester = self.names.number(row.requester.as_str())?;
        let owner = self.optional_name(row.owner.as_ref().map(|owner| owner.as_str()))?;
        let tool = self.optional_name(row.tool.as_ref().map(|tool| tool.as_str()))?;
        let version = journal.version();
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
            last,
            journal.sum,
        ])?;
        Ok(ExistingExecution { no, version, status: row.status, session, requester, last })
    }

    /// Kind, session, requester, key and age of an execution never change; how far it got does.
    fn update_execution(
        &mut self,
        existing: &ExistingExecution,
        journal: &StagedJournal,
        last: i64,
    ) -> Result<ExistingExecution, Fault> {
        let row = &journal.row;
        let (no, version, updated_at) = (existing.no, journal.version(), millis(row.updated_at));
        let tool = self.optional_name(row.tool.as_ref().map(|tool| tool.as_str()))?;
        if row.status == existing.status {
            self.advance_execution.execute(params![no, version, tool, updated_at, last])?;
        } else {
            let status = status_letter(row.status);
            self.move_execution.execute(params![no, version, tool, updated_at, last, status])?;
        }
        Ok(ExistingExecution { version, status: row.status, last, ..*existing })
    }

    fn optional_name(&mut self, name: Option<&str>) -> Result<Option<i64>, Fault> {
        name.map(|name| self.names.number(name)).transpose()
    }

    /// Writes a question that the execution's newest commit asked.
    fn insert_elicitation(
        &mut self,
        execution: &ExistingExecution,
        staged: &StagedElicitation,
    ) -> Result<(), Fault> {
        let facts = ElicitationFacts {
            id: staged.id,
            execution: execution.no,
            asked: execution.last,
            decided: staged.is_decided.then_some(execution.last),
            expires_at: staged.expires_at,
            subject: staged.subject,
            bytes: staged.bytes,
        };
        let ElicitationFacts { id, execution, asked, decided, expires_at, subject, bytes } = facts;
        let row = params![id, execution, asked, decided, expires_at, subject, bytes, facts.checksum()];
        let no = self.insert_elicitation.insert(row)?;
        if facts.decided.is_none() {
            self.recent.note_open(no, facts);
        }
        Ok(())
    }

    /// The execution's newest commit decided a question. Gives how many bytes it has; nothing where it was not open.
    fn decide(&mut self, execution: &ExistingExecution, id: &TimedBlob) -> Result<Option<i64>, Fault> {
        let Some((no, facts)) = self.find_open(id)? else { return Ok(None) };
        if facts.execution != execution.no || facts.decided.is_some() {
            return Ok(None);
        }
        let decided = ElicitationFacts { decided: Some(execution.last), ..facts };
        self.decide_elicitation.execute(params![no, execution.last, decided.checksum()])?;
        Ok(Some(decided.bytes))
    }

    fn find_open(&mut self, id: &TimedBlob) -> Result<Option<(i64, ElicitationFacts)>, Fault> {
        if let Some(known) = self.recent.take_open(id) {
            return Ok(Some(known));
        }
        let mut found = self.find_elicitation.query([id])?;
        let Some(row) = found.next()? else { return Ok(None) };
        Ok(Some((row.get(0)?, ElicitationFacts::read(row, 1)?)))
    }
}

/// An execution, from [`Statements::find_execution`].
fn existing(row: &Row<'_>) -> Result<ExistingExecution, Fault> {
    Ok(ExistingExecution {
        no: row.get(0)?,
        version: row.get(1)?,
        status: rows::status(row.get_ref(2)?.as_str().map_err(rusqlite::Error::from)?)?,
        session: row.get(3)?,
        requester: row.get(4)?,
        last: row.get(5)?,
    })
}
