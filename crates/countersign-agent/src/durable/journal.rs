//! Where a durable conversation is written down: the port, and a file.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;

/// How large a journal may become: past this nothing more begins, and only what is under way is brought to its end.
pub const MAX_JOURNAL_BYTES: u64 = 256 << 20;
/// The largest journal that is read: room for a turn and all of its results on top of the bound.
const MAX_READ_BYTES: u64 = 2 * MAX_JOURNAL_BYTES;
/// How every line begins.
const MARK: &[u8] = b"{\"v\":";

/// Keeps the lines of one conversation. An implementation must see to it that nobody else writes to them meanwhile.
#[async_trait]
pub trait Journal: Send + Sync + 'static {
    /// Every line that was appended, in order.
    async fn load(&self) -> Result<Vec<String>, JournalError>;
    /// Appends a line. When this returns, the line survives a crash of the machine; when it fails, nothing may be assumed.
    async fn append(&self, line: String) -> Result<(), JournalError>;
}

/// Why a conversation could not be read or recorded.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The file did not do it.
    #[error("the journal {path} cannot be used: {cause}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// Another process runs this conversation.
    #[error("the journal {0} is in use by another process; one conversation runs in one place")]
    InUse(PathBuf),
    /// The journal is past its bound.
    #[error("the journal has met its bound of {MAX_JOURNAL_BYTES} bytes; begin a new conversation")]
    TooLarge,
    /// The file is something else.
    #[error("{0} is no journal of a conversation, and was left as it is; name another file")]
    NotAJournal(PathBuf),
    /// No conversation began in it.
    #[error("no conversation began in this journal; begin one")]
    NotBegun,
    /// The system has no random bits to give.
    #[error("the system has no entropy for a new conversation")]
    NoEntropy,
    /// A line is damaged.
    #[error("line {line} of the journal is damaged: {problem}")]
    Corrupt {
        /// Which line, from 1.
        line: usize,
        /// What is wrong with it.
        problem: String,
    },
    /// A newer build wrote it.
    #[error("the journal is of version {0}, which this build does not know; use the build that wrote it")]
    UnknownVersion(u32),
    /// A record contradicts what is there.
    #[error("the conversation does not allow it: {0}")]
    DoesNotFit(String),
    /// The journal is another conversation's, or began otherwise.
    #[error("the journal holds another conversation: {0}; use a journal of its own for each")]
    OtherConversation(String),
    /// An earlier write failed, so that nobody knows what is on the disk.
    #[error("an earlier write to the journal failed; open it again to see what is on the disk")]
    Poisoned,
}

impl JournalError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Io { .. } | Self::Poisoned | Self::NoEntropy => "journal_unavailable",
            Self::NotAJournal(_) => "not_a_journal",
            Self::NotBegun => "journal_empty",
            Self::InUse(_) => "journal_in_use",
            Self::TooLarge => "journal_full",
            Self::Corrupt { .. } => "journal_damaged",
            Self::UnknownVersion(_) => "journal_version",
            Self::DoesNotFit(_) => "journal_conflict",
            Self::OtherConversation(_) => "other_conversation",
        }
    }
}

/// One conversation in one file: a line a record, synced before anything follows from it. The file is locked for as long as
/// this lives, and readable by its owner only.
pub struct FileJournal {
    file: Arc<Mutex<Open>>,
}

struct Open {
    path: PathBuf,
    file: File,
}

impl FileJournal {
    /// Opens a journal, or begins one. A last line without an end was never acknowledged and is cut off.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, JournalError> {
        let path = path.as_ref();
        let failed = |cause| JournalError::Io { path: path.to_owned(), cause };
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(std::fs::TryLockError::WouldBlock) => return Err(JournalError::InUse(path.to_owned())),
            Err(std::fs::TryLockError::Error(cause)) => return Err(failed(cause)),
        }
        if !is_ours(&mut file).map_err(failed)? {
            return Err(JournalError::NotAJournal(path.to_owned()));
        }
        cut_torn_line(&mut file).map_err(failed)?;
        // The name must survive too, not only what is in the file.
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new("."))).and_then(|folder| folder.sync_all()).map_err(failed)?;
        Ok(Self { file: Arc::new(Mutex::new(Open { path: path.to_owned(), file })) })
    }

    async fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Open) -> Result<T, JournalError> + Send + 'static,
    ) -> Result<T, JournalError> {
        let file = Arc::clone(&self.file);
        let worked = tokio::task::spawn_blocking(move || {
            work(&mut file.lock().unwrap_or_else(PoisonError::into_inner))
        });
        worked.await.unwrap_or(Err(JournalError::Poisoned))
    }
}

#[async_trait]
impl Journal for FileJournal {
    async fn load(&self) -> Result<Vec<String>, JournalError> {
        self.with(|open| {
            let read = open.read();
            read.map_err(|cause| JournalError::Io { path: open.path.clone(), cause })?
                .ok_or(JournalError::TooLarge)
        })
        .await
    }

    async fn append(&self, line: String) -> Result<(), JournalError> {
        self.with(move |open| {
            open.write(line).map_err(|cause| JournalError::Io { path: open.path.clone(), cause })
        })
        .await
    }
}

impl Open {
    /// The lines; nothing where there are too many.
    fn read(&mut self) -> io::Result<Option<Vec<String>>> {
        if self.file.metadata()?.len() > MAX_READ_BYTES {
            return Ok(None);
        }
        self.file.seek(SeekFrom::Start(0))?;
        let mut text = String::new();
        self.file.read_to_string(&mut text)?;
        Ok(Some(text.lines().map(str::to_owned).collect()))
    }

    fn write(&mut self, mut line: String) -> io::Result<()> {
        line.push('\n');
        self.file.write_all(line.as_bytes())?;
        self.file.sync_data()
    }
}

/// Whether a file is empty, or begins as a journal does.
fn is_ours(file: &mut File) -> io::Result<bool> {
    let mut beginning = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    Read::by_ref(file).take(MARK.len() as u64).read_to_end(&mut beginning)?;
    Ok(MARK.starts_with(&beginning))
}

/// Removes what follows the last end of a line.
fn cut_torn_line(file: &mut File) -> io::Result<()> {
    let length = file.metadata()?.len();
    let mut keep = length;
    let mut block = [0; 4096];
    while keep > 0 {
        let size = keep.min(block.len() as u64);
        file.seek(SeekFrom::Start(keep - size))?;
        let part = &mut block[..size as usize];
        file.read_exact(part)?;
        if let Some(end) = part.iter().rposition(|byte| *byte == b'\n') {
            keep = keep - size + end as u64 + 1;
            break;
        }
        keep -= size;
    }
    if keep < length {
        file.set_len(keep)?;
        file.sync_data()?;
    }
    Ok(())
}
