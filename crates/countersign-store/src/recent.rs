//! Executions and open elicitations as the writer wrote them last.
//!
//! An execution is asked about, decided and settled within moments more often than not, and each of these commits wants to know
//! where its row is. What was written lately is known without a look at the tables.
//!
//! Promise: nothing is known here that the open transaction or the medium does not have; a transaction that fails, and a change that is
//! rolled back, make the writer forget all of it.

use std::collections::HashMap;

use countersign_core::execution::Status;
use rusqlite::{Connection, Statement};

use crate::apply::prepare_persistent;
use crate::fault::Fault;
use crate::rows::{ElicitationFacts, TimedBlob};

/// Beyond this many executions or elicitations all are forgotten, and looked up again.
const MAX_KNOWN: usize = 4_096;

/// An execution that exists.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ExistingExecution {
    pub(crate) no: i64,
    /// How many events its journal has.
    pub(crate) version: i64,
    pub(crate) status: Status,
    pub(crate) session: i64,
    pub(crate) requester: i64,
    /// The journal's row of its newest commit.
    pub(crate) last: i64,
}

/// What the writer wrote lately.
pub(crate) struct Recent<'c> {
    executions: HashMap<TimedBlob, ExistingExecution>,
    open: HashMap<TimedBlob, (i64, ElicitationFacts)>,
    newest_commit: Option<i64>,
    find_newest_commit: Statement<'c>,
}

impl<'c> Recent<'c> {
    pub(crate) fn prepare(connection: &'c Connection) -> rusqlite::Result<Self> {
        Ok(Self {
            executions: HashMap::new(),
            open: HashMap::new(),
            newest_commit: None,
            find_newest_commit: prepare_persistent(connection, "SELECT ifnull(max(no), 0) FROM journal")?,
        })
    }

    /// An execution, if it is known.
    pub(crate) fn execution(&self, id: &TimedBlob) -> Option<ExistingExecution> {
        self.executions.get(id).copied()
    }

    /// The execution is now so. One that has ended is hardly asked for again.
    pub(crate) fn note_execution(&mut self, id: TimedBlob, execution: ExistingExecution) {
        if execution.status.is_final() {
            self.executions.remove(&id);
            return;
        }
        if self.executions.len() >= MAX_KNOWN {
            self.executions.clear();
        }
        self.executions.insert(id, execution);
    }

    /// An open elicitation with its number was written.
    pub(crate) fn note_open(&mut self, no: i64, facts: ElicitationFacts) {
        if self.open.len() >= MAX_KNOWN {
            self.open.clear();
        }
        self.open.insert(facts.id, (no, facts));
    }

    /// An open elicitation with its number, if it is known. It is about to be decided, and not known from here on.
    pub(crate) fn take_open(&mut self, id: &TimedBlob) -> Option<(i64, ElicitationFacts)> {
        self.open.remove(id)
    }

    /// The number for the next row of the journal.
    pub(crate) fn next_commit(&mut self) -> Result<i64, Fault> {
        let newest = match self.newest_commit {
            Some(newest) => newest,
            None => self.find_newest_commit.query_row([], |row| row.get(0))?,
        };
        let next = newest + 1;
        self.newest_commit = Some(next);
        Ok(next)
    }

    /// Forgets everything: what was written may have been rolled back, or it is long ago and its memory is worth more.
    pub(crate) fn forget(&mut self) {
        self.executions = HashMap::new();
        self.open = HashMap::new();
        self.newest_commit = None;
    }
}
