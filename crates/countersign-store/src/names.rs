//! Names as the writer knows them: their numbers, and how many elicitations are open under them.
//!
//! Promise: a count is written in the transaction that changes it. Within one transaction the counts are kept here and written once
//! at its end, because a session asks many times in it; a transaction that fails takes them along.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension as _, Statement, params};

use crate::apply::prepare_persistent;
use crate::fault::Fault;

/// Beyond this many names all are forgotten, and looked up again.
const MAX_CACHED_NAMES: usize = 10_000;

/// How many elicitations are open under a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Open {
    pub(crate) in_session: i64,
    pub(crate) of_requester: i64,
    pub(crate) bytes_of_requester: i64,
}

struct Counted {
    open: Open,
    is_changed: bool,
}

/// The writer's names.
pub(crate) struct Names<'c> {
    numbers: HashMap<String, i64>,
    counted: HashMap<i64, Counted>,
    /// The numbers of the counts that are not written yet.
    changed: Vec<i64>,
    find: Statement<'c>,
    insert: Statement<'c>,
    find_open: Statement<'c>,
    set_open: Statement<'c>,
}

impl<'c> Names<'c> {
    pub(crate) fn prepare(connection: &'c Connection) -> rusqlite::Result<Self> {
        Ok(Self {
            numbers: HashMap::new(),
            counted: HashMap::new(),
            changed: Vec::new(),
            find: prepare_persistent(connection, "SELECT no FROM names WHERE name = ?1")?,
            insert: prepare_persistent(connection, "INSERT INTO names (name) VALUES (?1)")?,
            find_open: prepare_persistent(
                connection,
                "SELECT open_in_session, open_of_requester, bytes_of_requester FROM names WHERE no = ?1",
            )?,
            set_open: prepare_persistent(
                connection,
                "UPDATE names SET open_in_session = ?2, open_of_requester = ?3, bytes_of_requester = ?4 WHERE no = ?1",
            )?,
        })
    }

    /// The number of a name, if it has one.
    pub(crate) fn find(&mut self, name: &str) -> Result<Option<i64>, Fault> {
        if let Some(no) = self.numbers.get(name) {
            return Ok(Some(*no));
        }
        let found: Option<i64> = self.find.query_row([name], |row| row.get(0)).optional()?;
        if let Some(no) = found {
            self.numbers.insert(name.to_owned(), no);
        }
        Ok(found)
    }

    /// The number of a name, which gets one if it has none.
    pub(crate) fn number(&mut self, name: &str) -> Result<i64, Fault> {
        if let Some(no) = self.find(name)? {
            return Ok(no);
        }
        let no = self.insert.insert([name])?;
        self.numbers.insert(name.to_owned(), no);
        Ok(no)
    }

    /// The counts of open elicitations under a name.
    pub(crate) fn open(&mut self, name: &str) -> Result<Open, Fault> {
        match self.find(name)? {
            Some(no) => Ok(self.counted(no)?.open),
            None => Ok(Open::default()),
        }
    }

    /// Counts elicitations that were opened and decided.
    pub(crate) fn count(&mut self, session: i64, requester: i64, open: i64, bytes: i64) -> Result<(), Fault> {
        self.change(session, |of| of.in_session += open)?;
        self.change(requester, |of| {
            of.of_requester += open;
            of.bytes_of_requester += bytes;
        })
    }

    /// Writes the counts that changed.
    pub(crate) fn flush(&mut self) -> rusqlite::Result<()> {
        for no in self.changed.drain(..) {
            if let Some(counted) = self.counted.get_mut(&no) {
                let Open { in_session, of_requester, bytes_of_requester } = counted.open;
                self.set_open.execute(params![no, in_session, of_requester, bytes_of_requester])?;
                counted.is_changed = false;
            }
        }
        if self.numbers.len() > MAX_CACHED_NAMES || self.counted.len() > MAX_CACHED_NAMES {
            self.forget();
        }
        Ok(())
    }

    /// Forgets everything: what was written may have been rolled back.
    pub(crate) fn forget(&mut self) {
        self.numbers.clear();
        self.counted.clear();
        self.changed.clear();
    }

    fn change(&mut self, no: i64, change: impl FnOnce(&mut Open)) -> Result<(), Fault> {
        let counted = self.counted(no)?;
        change(&mut counted.open);
        if !std::mem::replace(&mut counted.is_changed, true) {
            self.changed.push(no);
        }
        Ok(())
    }

    fn counted(&mut self, no: i64) -> Result<&mut Counted, Fault> {
        use std::collections::hash_map::Entry;
        Ok(match self.counted.entry(no) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => {
                let open = self.find_open.query_row([no], |row| {
                    Ok(Open {
                        in_session: row.get(0)?,
                        of_requester: row.get(1)?,
                        bytes_of_requester: row.get(2)?,
                    })
                });
                unknown.insert(Counted { open: open?, is_changed: false })
            }
        })
    }
}
