//! [`SqliteStore`]: the port, put together from the writer and the readers.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use async_trait::async_trait;
use countersign_core::audit::AuditRecord;
use countersign_core::digest::Digest;
use countersign_core::event::Event;
use countersign_core::grant::Grant;
use countersign_core::ids::{ElicitationId, ExecutionId, GrantId, LoginId};
use countersign_core::time::Timestamp;
use countersign_kernel::ports::{
    Committed, ElicitationFilter, ElicitationRow, ExecutionFilter, ExecutionRow, JournalPart, Listing,
    LoginRow, Page, SessionRow, SessionSummary, SourceRow, SourceToolRow, Standing, Store, StoreError,
    TokenRow, UserRow, Write,
};
use countersign_sdk::{PrincipalId, SessionId};

use crate::commits;
use crate::cursor::{List, Window};
use crate::executions;
use crate::open::{self, OpenError, SqliteOptions};
use crate::read::{self, Readers, SHORT};
use crate::staged::Staged;
use crate::writer::Writer;

/// The store in a data folder. It owns the folder until it is dropped; dropping it writes what is queued.
#[derive(Debug)]
pub struct SqliteStore {
    // In this order: the last connection to close tidies the log away, and must be able to write; the lock goes last.
    readers: Arc<Readers>,
    writer: Writer,
    _lock: File,
}

/// The writer's counters since the store was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stats {
    /// Transactions committed; each is one `fsync`.
    pub commits: u64,
    /// Changes made in them.
    pub commands: u64,
}

impl SqliteStore {
    /// Opens the store in this folder, which is made if it is not there.
    pub fn open(folder: &Path) -> Result<Self, OpenError> {
        Self::open_with(folder, &SqliteOptions::default())
    }

    /// Opens it with other than the usual options.
    pub fn open_with(folder: &Path, options: &SqliteOptions) -> Result<Self, OpenError> {
        let opened = open::open(folder, options)?;
        let bound = options.queue_bound.max(1);
        let writer = Writer::start(opened.connection, opened.head, Arc::clone(&opened.files), bound)
            .map_err(|source| OpenError::Folder { folder: folder.to_owned(), source })?;
        let readers = Arc::new(Readers::new(opened.file, opened.files));
        Ok(Self { readers, writer, _lock: opened.lock })
    }

    /// The writer's counters.
    pub fn stats(&self) -> Stats {
        let shared = self.writer.shared();
        Stats {
            commits: shared.commits.load(Ordering::Relaxed),
            commands: shared.commands.load(Ordering::Relaxed),
        }
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn commit(&self, write: Write) -> Result<Committed, StoreError> {
        self.writer.commit(Staged::of(write)?).await
    }

    fn commit_soon(&self, write: Write) -> Result<(), StoreError> {
        self.writer.commit_soon(Staged::of(write)?)
    }

    async fn journal(&self, id: ExecutionId) -> Result<Vec<Event>, StoreError> {
        self.writer.write_unawaited().await;
        match self.readers.point(|db| commits::journal(db, id, SHORT))? {
            Some(events) => Ok(events),
            None => self
                .readers
                .list(move |db| commits::journal(db, id, u64::MAX))
                .await
                .map(Option::unwrap_or_default),
        }
    }

    async fn journal_part(
        &self,
        id: ExecutionId,
        from: u64,
        limit: usize,
    ) -> Result<JournalPart, StoreError> {
        self.writer.write_unawaited().await;
        self.readers.list(move |db| commits::journal_part(db, id, from, limit)).await
    }

    async fn execution(&self, id: ExecutionId) -> Result<Option<ExecutionRow>, StoreError> {
        self.writer.write_unawaited().await;
        self.readers.point(|db| executions::execution(db, id))
    }

    async fn executions(
        &self,
        filter: ExecutionFilter,
        page: Page,
    ) -> Result<Listing<ExecutionRow>, StoreError> {
        self.writer.write_unawaited().await;
        let window = Window::of(List::Executions, &page)?;
        self.readers.list(move |db| executions::executions(db, &filter, &window)).await
    }

    async fn by_key(&self, requester: &PrincipalId, key: &str) -> Result<Option<ExecutionId>, StoreError> {
        self.writer.write_unawaited().await;
        self.readers.point(|db| executions::by_key(db, requester, key))
    }

    async fn elicitation(&self, id: ElicitationId) -> Result<Option<ElicitationRow>, StoreError> {
        self.readers.point(|db| executions::elicitation(db, id))
    }

    async fn elicitations(
        &self,
        filter: ElicitationFilter,
        page: Page,
    ) -> Result<Listing<ElicitationRow>, StoreError> {
        self.writer.write_unawaited().await;
        let window = Window::of(List::Elicitations, &page)?;
        self.readers.list(move |db| executions::elicitations(db, &filter, &window)).await
    }

    async fn due(
        &self,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<(ElicitationId, ExecutionId)>, StoreError> {
        self.readers.list(move |db| executions::due(db, now, limit)).await
    }

    async fn due_grants(
        &self,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<(GrantId, SessionId)>, StoreError> {
        self.readers.list(move |db| read::due_grants(db, now, limit)).await
    }

    async fn next_expiry(&self) -> Result<Option<Timestamp>, StoreError> {
        self.readers.point(read::next_expiry)
    }

    async fn standing(&self) -> Result<Standing, StoreError> {
        self.writer.write_unawaited().await;
        self.readers.list(read::standing).await
    }

    async fn rulebook(&self) -> Result<Option<Digest>, StoreError> {
        self.readers.point(read::rulebook)
    }

    async fn grants(&self, session: &SessionId) -> Result<Vec<Grant>, StoreError> {
        self.readers.point(|db| read::grants(db, session))
    }

    async fn session(&self, id: &SessionId) -> Result<Option<SessionRow>, StoreError> {
        self.readers.point(|db| read::session(db, id))
    }

    async fn sessions(&self, now: Timestamp, page: Page) -> Result<Listing<SessionSummary>, StoreError> {
        let window = Window::of(List::Sessions, &page)?;
        self.readers.list(move |db| read::sessions(db, now, &window)).await
    }

    async fn token_by_hash(&self, hash: Digest) -> Result<Option<TokenRow>, StoreError> {
        self.readers.point(|db| read::token_by_hash(db, hash))
    }

    async fn tokens(&self) -> Result<Listing<TokenRow>, StoreError> {
        self.writer.write_unawaited().await;
        self.readers.list(read::tokens).await
    }

    async fn users(&self) -> Result<Listing<UserRow>, StoreError> {
        self.readers.list(read::users).await
    }

    async fn sources(&self) -> Result<Vec<SourceRow>, StoreError> {
        self.readers.list(read::sources).await
    }

    async fn source_tools(&self, source: &str) -> Result<Vec<SourceToolRow>, StoreError> {
        let source = source.to_owned();
        self.readers.list(move |db| read::source_tools(db, &source)).await
    }

    async fn login(&self, id: LoginId) -> Result<Option<LoginRow>, StoreError> {
        self.readers.point(|db| read::login(db, id))
    }

    async fn audit(&self, after: u64, limit: usize) -> Result<Vec<AuditRecord>, StoreError> {
        self.writer.write_unawaited().await;
        self.readers.list(move |db| read::audit(db, after, limit)).await
    }

    fn check_writable(&self) -> Result<(), StoreError> {
        self.writer.check()
    }
}
