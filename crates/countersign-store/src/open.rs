//! Opens the folder, its lock and the database, and reports their problems.
//!
//! Promises: one owner at a time, also across processes, and a killed owner is no owner; a database is made whole or not
//! at all, so that an empty file is always a damaged one; a file that is damaged, foreign or of another version is
//! reported with what to do next, and left as it is.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use countersign_core::audit::{self, AuditRecord};
use countersign_core::digest::Digest;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::apply::{Head, Statements};
use crate::fault::{Fault, is_damage};
use crate::files::Files;
use crate::read;
use crate::schema::{self, APPLICATION_ID, SchemaError};

const FILE: &str = "countersign.db";
const LOCK: &str = "countersign.lock";
/// Where a database is made before it gets its name.
const UNFINISHED: &str = "countersign.db.new";

/// Files up to this size are checked whole when they are opened; larger ones would delay the start, and damage in them is
/// found when it is read.
const CHECKED_WHOLE_BYTES: u64 = 16 * 1024 * 1024;
/// The log is folded into the file when it has this many pages: rarely enough to spare `fsync`s, often enough to keep
/// what a start has to read short.
const LOG_PAGES: u32 = 4_000;
/// The size to which a large log is cut back.
const LOG_BYTES: u32 = 64 * 1024 * 1024;
/// The page cache of a connection. More is not better: SQLite walks the whole table of cached pages at the end of every
/// transaction that split one, it never gives the memory back, and the system caches the file as well.
const CACHE_KIB: i32 = 2 * 1024;

/// How the store behaves.
#[derive(Debug, Clone)]
pub struct SqliteOptions {
    /// When a commit counts as done.
    pub synchronous: Synchronous,
    /// How many changes may wait to be written; the next one is refused as overloaded.
    pub queue_bound: usize,
}

/// When a commit counts as done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Synchronous {
    /// When the medium has it.
    #[default]
    Full,
    /// When the operating system has it: a power failure loses it. Only for benches that measure what `fsync` costs.
    Off,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self { synchronous: Synchronous::Full, queue_bound: 16_384 }
    }
}

/// Why a store could not be opened.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the names say it")]
pub enum OpenError {
    /// Another process has the folder open.
    #[error("the data folder {} is in use by {}; stop that process, or use another data folder", folder.display(), owner(*pid))]
    InUse {
        folder: PathBuf,
        /// The process that has it open, where that could be read.
        pid: Option<u32>,
    },
    /// The folder cannot be made, read or locked.
    #[error("the data folder {} cannot be used: {source}", folder.display())]
    Folder { folder: PathBuf, source: io::Error },
    #[error("{} cannot be written; give the user who runs countersign write access to it and to its folder", file.display())]
    ReadOnly { file: PathBuf },
    /// The file is not what countersign wrote.
    #[error(
        "{} is damaged or no countersign database: {problem}. It was left as it is. Copy the data folder, then restore a \
         backup or rescue what can be read with `sqlite3 {FILE} .recover`",
        file.display()
    )]
    Corrupt { file: PathBuf, problem: String },
    /// A newer version wrote the file.
    #[error(
        "{} was written by a newer version of countersign (its schema is {found}, this build knows {}); run that version",
        file.display(),
        schema::VERSION
    )]
    Newer { file: PathBuf, found: i64 },
    /// A version before the first release wrote the file.
    #[error(
        "{} was written by an early version of countersign whose database this one cannot read (its schema is {found}, this build \
         needs {}). It was left as it is. To start anew, move the data folder away; to finish what waits in it, run the version \
         that wrote it",
        file.display(),
        schema::VERSION
    )]
    Older { file: PathBuf, found: i64 },
    /// SQLite could not open it.
    #[error("{} cannot be opened: {source}", file.display())]
    Database { file: PathBuf, source: Box<dyn std::error::Error + Send + Sync> },
}

fn owner(pid: Option<u32>) -> String {
    pid.map_or_else(|| "another process".into(), |pid| format!("process {pid}"))
}

/// A folder that is ours, and its database, ready to be written.
pub(crate) struct Opened {
    pub(crate) connection: Connection,
    pub(crate) head: Head,
    pub(crate) file: PathBuf,
    pub(crate) lock: File,
    pub(crate) files: Arc<Files>,
}

/// Opens the database in a folder, making either if it is not there.
pub(crate) fn open(folder: &Path, options: &SqliteOptions) -> Result<Opened, OpenError> {
    let in_folder = |source| OpenError::Folder { folder: folder.to_owned(), source };
    make_folder(folder).map_err(in_folder)?;
    let lock = lock(folder)?;
    let file = folder.join(FILE);
    if !file.try_exists().map_err(in_folder)? {
        make_database(folder, &file)?;
    }
    let mut connection = connect(&file)?;
    check_identity(&connection, &file)?;
    let on_sqlite = |error| sqlite(&file, error);
    configure(&connection, options.synchronous).map_err(on_sqlite)?;
    schema::prepare(&mut connection).map_err(|error| schema_error(&file, error))?;
    check(&connection, &file)?;
    // A table that is other than this build expects is better found now than in the writer's thread.
    Statements::prepare(&connection)
        .map_err(|error| OpenError::Corrupt { file: file.clone(), problem: error.to_string() })?;
    let head = check_audit(&connection, &file)?;
    let files =
        Files::of((&folder.join(LOCK), &lock), &file, &with_suffix(&file, "-wal")).map_err(in_folder)?;
    Ok(Opened { connection, head, file, lock, files: Arc::new(files) })
}

fn make_folder(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(folder)
}

/// A new or existing file that only its owner may read.
fn private_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.read(true).write(true).create(true).truncate(false).open(path)
}

/// The operating system forgets the lock with the process, however that ends.
fn lock(folder: &Path) -> Result<File, OpenError> {
    let in_folder = |source| OpenError::Folder { folder: folder.to_owned(), source };
    let path = folder.join(LOCK);
    let mut file = private_file(&path).map_err(in_folder)?;
    match retry_while_locked(|| file.try_lock()) {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let pid = fs::read_to_string(&path).ok().and_then(|text| text.trim().parse().ok());
            return Err(OpenError::InUse { folder: folder.to_owned(), pid });
        }
        Err(TryLockError::Error(source)) => return Err(in_folder(source)),
    }
    // The number is only for the message above; the data must be readable on a full disk too.
    if let Err(error) = file.set_len(0).and_then(|()| write!(file, "{}", std::process::id())) {
        tracing::warn!(%error, "the process id could not be written into {}", path.display());
    }
    Ok(file)
}

/// A process that the last owner was just starting inherits its files, and so holds its lock for a moment longer.
fn retry_while_locked(lock: impl Fn() -> Result<(), TryLockError>) -> Result<(), TryLockError> {
    for _ in 0..5 {
        match lock() {
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(20)),
            done => return done,
        }
    }
    lock()
}

/// Makes a database under another name and renames it when it is whole: a crash in between leaves no half of one.
fn make_database(folder: &Path, file: &Path) -> Result<(), OpenError> {
    let in_folder = |source| OpenError::Folder { folder: folder.to_owned(), source };
    if with_suffix(file, "-wal").try_exists().map_err(in_folder)? {
        let problem = "the file is missing while its log is still there".to_owned();
        return Err(OpenError::Corrupt { file: file.to_owned(), problem });
    }
    let unfinished = folder.join(UNFINISHED);
    for leftover in ["", "-wal", "-shm", "-journal"] {
        match fs::remove_file(with_suffix(&unfinished, leftover)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(in_folder(error)),
            _ => {}
        }
    }
    private_file(&unfinished).map_err(in_folder)?;
    let on_sqlite = |error| sqlite(&unfinished, error);
    let mut connection = connect(&unfinished)?;
    connection.pragma_update(None, "application_id", APPLICATION_ID).map_err(on_sqlite)?;
    schema::prepare(&mut connection).map_err(|error| schema_error(&unfinished, error))?;
    connection.close().map_err(|(_, error)| on_sqlite(error))?;
    fs::rename(&unfinished, file).and_then(|()| sync_folder(folder)).map_err(in_folder)
}

fn with_suffix(file: &Path, suffix: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// A new name is durable only when its folder is.
fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

fn connect(file: &Path) -> Result<Connection, OpenError> {
    connect_with(file, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(|error| sqlite(file, error))
}

/// A connection as all of them are.
pub(crate) fn connect_with(file: &Path, access: OpenFlags) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(file, access | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    // Else SQLite looks at the values bound to a statement and plans it anew for each.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    // Notices more of a damaged page.
    connection.pragma_update(None, "cell_size_check", true)?;
    Ok(connection)
}

/// Whether it is ours to write. The first thing that reads the file.
fn check_identity(connection: &Connection, file: &Path) -> Result<(), OpenError> {
    let corrupt = |problem: &str| OpenError::Corrupt { file: file.to_owned(), problem: problem.to_owned() };
    let bytes = |file: &Path| fs::metadata(file).map_or(0, |facts| facts.len());
    if bytes(file) == 0 {
        return Err(corrupt("it is empty"));
    }
    let id: i32 = connection
        .pragma_query_value(None, "application_id", |row| row.get(0))
        .map_err(|error| sqlite(file, error))?;
    if id != APPLICATION_ID {
        return Err(corrupt("another program wrote it"));
    }
    let page: u32 = connection
        .pragma_query_value(None, "page_size", |row| row.get(0))
        .map_err(|error| sqlite(file, error))?;
    // With a log beside it, the end of the file may still be in there.
    if !bytes(file).is_multiple_of(page.into()) && bytes(&with_suffix(file, "-wal")) == 0 {
        return Err(corrupt("its end is missing"));
    }
    if connection.is_readonly("main").map_err(|error| sqlite(file, error))? {
        return Err(OpenError::ReadOnly { file: file.to_owned() });
    }
    Ok(())
}

fn configure(connection: &Connection, synchronous: Synchronous) -> rusqlite::Result<()> {
    connection.pragma_update_and_check(None, "journal_mode", "wal", |row| {
        let mode: String = row.get(0)?;
        if mode == "wal" { Ok(()) } else { Err(rusqlite::Error::InvalidQuery) }
    })?;
    let synchronous = match synchronous {
        Synchronous::Full => "full",
        Synchronous::Off => "off",
    };
    connection.pragma_update(None, "synchronous", synchronous)?;
    // On macOS an ordinary `fsync` leaves data in the drive's cache.
    connection.pragma_update(None, "fullfsync", true)?;
    connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
    connection.pragma_update_and_check(None, "wal_autocheckpoint", LOG_PAGES, |_| Ok(()))?;
    connection.pragma_update_and_check(None, "journal_size_limit", LOG_BYTES, |_| Ok(()))
}

fn check(connection: &Connection, file: &Path) -> Result<(), OpenError> {
    if fs::metadata(file).is_ok_and(|facts| facts.len() > CHECKED_WHOLE_BYTES) {
        return Ok(());
    }
    let found: String = connection
        .query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))
        .map_err(|error| sqlite(file, error))?;
    if found == "ok" { Ok(()) } else { Err(OpenError::Corrupt { file: file.to_owned(), problem: found }) }
}

/// New records are chained to the newest one, so that one and its link must be right.
fn check_audit(connection: &Connection, file: &Path) -> Result<Head, OpenError> {
    let corrupt = |problem: String| OpenError::Corrupt { file: file.to_owned(), problem };
    let end = || -> Result<(Head, Vec<AuditRecord>), Fault> {
        let newest = Head::read(connection)?;
        Ok((newest, read::audit(connection, newest.seq.saturating_sub(2), 2)?))
    };
    let (newest, records) = end().map_err(|fault| match fault {
        Fault::Medium(error) => sqlite(file, error),
        Fault::Refused(error) => corrupt(error.to_string()),
    })?;
    let before = match records.first() {
        Some(first) if newest.seq > 2 => (newest.seq - 2, first.prev),
        _ => (0, Digest::ZERO),
    };
    let (seq, hash) = audit::verify(before, &records).map_err(|broken| corrupt(broken.to_string()))?;
    Ok(Head { seq, hash })
}

fn schema_error(file: &Path, error: SchemaError) -> OpenError {
    let file_name = file.to_owned();
    match error {
        SchemaError::Version { found } if found > schema::VERSION => {
            OpenError::Newer { file: file_name, found }
        }
        SchemaError::Version { found } => OpenError::Older { file: file_name, found },
        SchemaError::Sqlite(error) => sqlite(file, error),
    }
}

fn sqlite(file: &Path, error: rusqlite::Error) -> OpenError {
    let file = file.to_owned();
    match error.sqlite_error_code() {
        _ if is_damage(&error) => OpenError::Corrupt { file, problem: error.to_string() },
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => OpenError::ReadOnly { file },
        _ => OpenError::Database { file, source: Box::new(error) },
    }
}
