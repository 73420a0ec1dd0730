//! Whether the files that are open are still those that the data folder names.
//!
//! Promise: once the database, its log or the lock was removed, replaced or moved away, no change is answered with success
//! and nothing is read any more. A file that is open outlives its name: without this, everything would seem to go well
//! until the process ends and takes the only copy with it. Putting the files back does not help a process that saw them
//! gone, because another one may have had the folder in between; it has to be started again.
//!
//! A gap remains between the last check and the answer: the removal of a file in that moment is noticed by the next
//! change or read.

use std::fs::{self, File, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The files of an open store.
#[derive(Debug)]
pub(crate) struct Files {
    watched: Vec<Watched>,
    lost: OnceLock<Lost>,
}

/// A file that is not there any more.
#[derive(Debug, Clone, thiserror::Error)]
#[error(
    "{} was removed, replaced or moved while countersign used it; stop countersign, put the data folder back or restore a \
     backup, and start it again",
    file.display()
)]
pub(crate) struct Lost {
    file: PathBuf,
}

#[derive(Debug)]
struct Watched {
    path: PathBuf,
    identity: Identity,
}

/// The device and inode of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity(u64, u64);

impl Files {
    /// The files as they are now: the lock that is held, the database that is open, and its log.
    pub(crate) fn of(lock: (&Path, &File), database: &Path, log: &Path) -> io::Result<Self> {
        let lock = Watched { path: lock.0.to_owned(), identity: identity(&lock.1.metadata()?) };
        let by_name = |path: &Path| -> io::Result<Watched> {
            Ok(Watched { path: path.to_owned(), identity: identity(&fs::metadata(path)?) })
        };
        Ok(Self { watched: vec![lock, by_name(database)?, by_name(log)?], lost: OnceLock::new() })
    }

    /// Whether they are all there still. Three looks at names that the operating system has in memory.
    pub(crate) fn check(&self) -> Result<(), Lost> {
        if let Some(lost) = self.lost.get() {
            return Err(lost.clone());
        }
        let gone = self.watched.iter().find(|watched| !watched.is_there());
        let Some(gone) = gone else { return Ok(()) };
        let lost = self.lost.get_or_init(|| {
            let lost = Lost { file: gone.path.clone() };
            tracing::error!("{lost}. Nothing is read or written until then");
            lost
        });
        Err(lost.clone())
    }
}

impl Watched {
    fn is_there(&self) -> bool {
        // Another error than absence does not mean that the file is gone.
        match fs::metadata(&self.path) {
            Ok(facts) => identity(&facts) == self.identity,
            Err(error) => !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory),
        }
    }
}

#[cfg(unix)]
fn identity(facts: &Metadata) -> Identity {
    use std::os::unix::fs::MetadataExt as _;
    Identity(facts.dev(), facts.ino())
}

/// Elsewhere an open file cannot be removed, so that being there is enough.
#[cfg(not(unix))]
fn identity(_: &Metadata) -> Identity {
    Identity(0, 0)
}
