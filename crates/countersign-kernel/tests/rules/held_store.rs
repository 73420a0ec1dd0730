//! A store whose commits can be held back, to let others come in between, and whose reads can be held back or fail.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

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
use countersign_testkit::memory_store::MemoryStore;
use tokio::sync::watch;

/// What becomes of commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Pass,
    Hold,
    HoldJournals,
    HoldAnswers,
    RefuseOne,
    PassOneRefuseOne,
}

/// The reads that can be held back or fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Read {
    Journal,
    Due,
    NextExpiry,
}

/// A store whose commits wait while it is held. Clones are one.
#[derive(Clone)]
pub(crate) struct HeldStore {
    inner: MemoryStore,
    mode: watch::Sender<Mode>,
    failing: Arc<Mutex<BTreeMap<Read, u32>>>,
    good: Arc<Mutex<BTreeMap<Read, u32>>>,
    held_read: watch::Sender<Option<Read>>,
}

impl HeldStore {
    pub(crate) fn new(inner: MemoryStore) -> Self {
        Self {
            inner,
            mode: watch::Sender::new(Mode::Pass),
            failing: Arc::default(),
            good: Arc::default(),
            held_read: watch::Sender::new(None),
        }
    }

    /// The next so many reads of a kind fail.
    pub(crate) fn fail_reads(&self, read: Read, times: u32) {
        self.failing.lock().unwrap_or_else(PoisonError::into_inner).insert(read, times);
    }

    /// How many of the reads that are to fail did not come yet.
    pub(crate) fn reads_to_fail(&self, read: Read) -> u32 {
        self.failing.lock().unwrap_or_else(PoisonError::into_inner).get(&read).copied().unwrap_or_default()
    }

    /// From here on reads of a kind are made, and their answers wait.
    pub(crate) fn hold_read(&self, read: Read) {
        self.held_read.send_replace(Some(read));
    }

    /// Lets them go.
    pub(crate) fn release_reads(&self) {
        self.held_read.send_replace(None);
    }

    /// Lets them go; the second of them is refused.
    pub(crate) fn refuse_second_and_go_on(&self) {
        self.mode.send_replace(Mode::PassOneRefuseOne);
    }

    /// After so many reads of a kind, the next so many fail.
    pub(crate) fn fail_reads_after(&self, read: Read, good: u32, times: u32) {
        self.good.lock().unwrap_or_else(PoisonError::into_inner).insert(read, good);
        self.fail_reads(read, times);
    }

    async fn befalls(&self, read: Read) -> Result<(), StoreError> {
        // The sender lives in `self`, so that waiting cannot fail.
        let _ = self.held_read.subscribe().wait_for(|held| *held != Some(read)).await;
        if let Some(good) = self.good.lock().unwrap_or_else(PoisonError::into_inner).get_mut(&read)
            && *good > 0
        {
            *good -= 1;
            return Ok(());
        }
        let mut failing = self.failing.lock().unwrap_or_else(PoisonError::into_inner);
        match failing.get_mut(&read) {
            Some(times) if *times > 0 => {
                *times -= 1;
                Err(StoreError::Unavailable("unread, as planned".into()))
            }
            _ => Ok(()),
        }
    }

    /// From here on commits wait.
    pub(crate) fn hold(&self) {
        self.mode.send_replace(Mode::Hold);
    }

    /// From here on commits of journals wait; others are made.
    pub(crate) fn hold_journals(&self) {
        self.mode.send_replace(Mode::HoldJournals);
    }

    /// From here on commits are made, and their answers wait.
    pub(crate) fn hold_answers(&self) {
        self.mode.send_replace(Mode::HoldAnswers);
    }

    /// Lets them go.
    pub(crate) fn go_on(&self) {
        self.mode.send_replace(Mode::Pass);
    }

    /// Lets them go; the first of them is refused, as by a medium that failed.
    pub(crate) fn refuse_one_and_go_on(&self) {
        self.mode.send_replace(Mode::RefuseOne);
    }
}

#[async_trait]
impl Store for HeldStore {
    async fn commit(&self, write: Write) -> Result<Committed, StoreError> {
        let mut mode = self.mode.subscribe();
        let passes = |mode: &Mode| match mode {
            Mode::Hold => false,
            Mode::HoldJournals => write.journal.is_none(),
            Mode::Pass | Mode::HoldAnswers | Mode::RefuseOne | Mode::PassOneRefuseOne => true,
        };
        let now = mode.wait_for(passes).await.map_or(Mode::Pass, |mode| *mode);
        if now == Mode::PassOneRefuseOne {
            self.mode.send_replace(Mode::RefuseOne);
        }
        if now == Mode::RefuseOne {
            self.mode.send_replace(Mode::Pass);
            return Err(StoreError::Unavailable("refused, as planned".into()));
        }
        let committed = self.inner.commit(write).await;
        // The sender lives in `self`, so that waiting cannot fail.
        let _ = mode.wait_for(|mode| *mode != Mode::HoldAnswers).await;
        committed
    }

    fn commit_soon(&self, write: Write) -> Result<(), StoreError> {
        self.inner.commit_soon(write)
    }

    async fn journal(&self, id: ExecutionId) -> Result<Vec<Event>, StoreError> {
        let answer = self.inner.journal(id).await;
        self.befalls(Read::Journal).await?;
        answer
    }

    async fn execution(&self, id: ExecutionId) -> Result<Option<ExecutionRow>, StoreError> {
        self.inner.execution(id).await
    }

    async fn executions(
        &self,
        filter: ExecutionFilter,
        page: Page,
    ) -> Result<Listing<ExecutionRow>, StoreError> {
        self.inner.executions(filter, page).await
    }

    async fn by_key(&self, requester: &PrincipalId, key: &str) -> Result<Option<ExecutionId>, StoreError> {
        self.inner.by_key(requester, key).await
    }

    async fn elicitation(&self, id: ElicitationId) -> Result<Option<ElicitationRow>, StoreError> {
        self.inner.elicitation(id).await
    }

    async fn elicitations(
        &self,
        filter: ElicitationFilter,
        page: Page,
    ) -> Result<Listing<ElicitationRow>, StoreError> {
        self.inner.elicitations(filter, page).await
    }

    async fn due(
        &self,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<(ElicitationId, ExecutionId)>, StoreError> {
        let answer = self.inner.due(now, limit).await;
        self.befalls(Read::Due).await?;
        answer
    }

    async fn due_grants(
        &self,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<(GrantId, SessionId)>, StoreError> {
        self.inner.due_grants(now, limit).await
    }

    async fn next_expiry(&self) -> Result<Option<Timestamp>, StoreError> {
        let answer = self.inner.next_expiry().await;
        self.befalls(Read::NextExpiry).await?;
        answer
    }

    async fn standing(&self) -> Result<Standing, StoreError> {
        self.inner.standing().await
    }

    async fn rulebook(&self) -> Result<Option<Digest>, StoreError> {
        self.inner.rulebook().await
    }

    async fn grants(&self, session: &SessionId) -> Result<Vec<Grant>, StoreError> {
        self.inner.grants(session).await
    }

    async fn session(&self, id: &SessionId) -> Result<Option<SessionRow>, StoreError> {
        self.inner.session(id).await
    }

    async fn sessions(&self, now: Timestamp, page: Page) -> Result<Listing<SessionSummary>, StoreError> {
        self.inner.sessions(now, page).await
    }

    async fn token_by_hash(&self, hash: Digest) -> Result<Option<TokenRow>, StoreError> {
        self.inner.token_by_hash(hash).await
    }

    async fn tokens(&self) -> Result<Listing<TokenRow>, StoreError> {
        self.inner.tokens().await
    }

    async fn users(&self) -> Result<Listing<UserRow>, StoreError> {
        self.inner.users().await
    }

    async fn sources(&self) -> Result<Vec<SourceRow>, StoreError> {
        self.inner.sources().await
    }

    async fn source_tools(&self, source: &str) -> Result<Vec<SourceToolRow>, StoreError> {
        self.inner.source_tools(source).await
    }

    async fn login(&self, id: LoginId) -> Result<Option<LoginRow>, StoreError> {
        self.inner.login(id).await
    }

    async fn journal_part(
        &self,
        id: ExecutionId,
        from: u64,
        limit: usize,
    ) -> Result<JournalPart, StoreError> {
        self.inner.journal_part(id, from, limit).await
    }

    fn check_writable(&self) -> Result<(), StoreError> {
        self.inner.check_writable()
    }

    async fn audit(&self, after: u64, limit: usize) -> Result<Vec<AuditRecord>, StoreError> {
        self.inner.audit(after, limit).await
    }
}
