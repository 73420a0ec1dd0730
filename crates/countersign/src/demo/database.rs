//! The demo's database: opened when it is first needed, every change on disk before it is answered.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use countersign_sdk::ToolError;
use rusqlite::Connection;

const TABLES: &str = "
CREATE TABLE IF NOT EXISTS notes (id INTEGER PRIMARY KEY AUTOINCREMENT, title TEXT NOT NULL, body TEXT) STRICT;
CREATE TABLE IF NOT EXISTS transfers (
    id INTEGER PRIMARY KEY AUTOINCREMENT, recipient TEXT NOT NULL, amount TEXT NOT NULL, execution TEXT NOT NULL
) STRICT;
";

/// `demo.db`.
pub(super) struct Database {
    file: PathBuf,
    connection: Mutex<Option<Connection>>,
}

impl Database {
    pub(super) fn in_folder(folder: &Path) -> Self {
        Self { file: folder.join("demo.db"), connection: Mutex::new(None) }
    }

    /// Does something with the database. What SQLite has against it is for the log.
    pub(super) fn with<T>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, ToolError> {
        let mut slot = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let unusable = |e: rusqlite::Error| {
            ToolError::new("The demo's database cannot be used; the log says why.").caused_by(e)
        };
        let connection = match slot.take() {
            Some(open) => open,
            None => self.open().map_err(unusable)?,
        };
        let result = work(&connection);
        *slot = Some(connection);
        result.map_err(unusable)
    }

    fn open(&self) -> rusqlite::Result<Connection> {
        let connection = Connection::open(&self.file)?;
        connection.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))?;
        connection.pragma_update(None, "synchronous", "full")?;
        connection.pragma_update(None, "fullfsync", true)?;
        connection.execute_batch(TABLES)?;
        Ok(connection)
    }
}
