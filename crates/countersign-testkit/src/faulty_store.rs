//! A store that fails where a test wants it to: crashes, refusals, lost answers, and delays that shake schedules.
//!
//! Promise: the same plan and the same order of commits give the same faults. A crash is the death of a process: from
//! there on everything answers [`Crashed`], also what was on its way, and a test goes on with a fresh wrapper around
//! the same inner store.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
use tokio::sync::watch;

use crate::chance::Chance;

/// What goes wrong with a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The process dies before the change is made.
    CrashBefore,
    /// The process dies after the change is made and before anybody hears of it.
    CrashAfter,
    /// The change is not made, and the answer says that it is unknown.
    Refuse,
    /// The change is made, and the answer says that it is unknown.
    LoseAnswer,
}

/// The answer of a store whose process is dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crashed;

/// The answer of a store whose medium failed once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Planned;

impl fmt::Display for Crashed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("crashed")
    }
}

impl fmt::Display for Planned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the medium failed, as planned")
    }
}

impl std::error::Error for Crashed {}
impl std::error::Error for Planned {}

/// The plan of what fails, shared with the store that follows it. Clones are one plan.
#[derive(Debug, Clone)]
pub struct Faults {
    plan: Arc<Mutex<Plan>>,
    crashed: Arc<watch::Sender<bool>>,
    audit_reads: Arc<AtomicU64>,
    standing_reads: Arc<AtomicU64>,
}

#[derive(Debug, Default)]
struct Plan {
    full: bool,
    commits: u64,
    at: BTreeMap<u64, Fault>,
    random: Option<(Chance, u64)>,
    shaking: Option<(Chance, u64)>,
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            plan: Arc::default(),
            crashed: Arc::new(watch::Sender::new(false)),
            audit_reads: Arc::default(),
            standing_reads: Arc::default(),
        }
    }
}

impl Faults {
    /// Nothing fails.
    pub fn none() -> Self {
        Self::default()
    }

    /// Something fails once, at the n-th commit, counted from 1.
    pub fn at(nth: u64, fault: Fault) -> Self {
        let faults = Self::default();
        faults.plan().at.insert(nth, fault);
        faults
    }

    /// Something else fails as well.
    #[must_use]
    pub fn and_at(self, nth: u64, fault: Fault) -> Self {
        self.plan().at.insert(nth, fault);
        self
    }

    /// About one in `n` commits is refused or loses its answer, as the seed has it.
    #[must_use]
    pub fn failing_one_in(self, n: u64, seed: u64) -> Self {
        self.plan().random = Some((Chance::new(seed), n));
        self
    }

    /// Before and after each commit the caller's task lets others run, up to so many times, as the seed has it.
    #[must_use]
    pub fn shaken(self, most: u64, seed: u64) -> Self {
        self.plan().shaking = Some((Chance::new(seed), most));
        self
    }

    /// How many commits were seen, of both kinds, also failed ones: a driver tries every number up to this.
    pub fn commits(&self) -> u64 {
        self.plan().commits
    }

    /// How often the audit was read.
    pub fn audit_reads(&self) -> u64 {
        self.audit_reads.load(Ordering::Relaxed)
    }

    /// How often it was counted how much is unfinished.
    pub fn standing_reads(&self) -> u64 {
        self.standing_reads.load(Ordering::Relaxed)
    }

    /// The medium is full from now on: every commit is refused, and reads go on.
    pub fn fill_disk(&self) {
        self.plan().full = true;
    }

    /// There is room on the medium again.
    pub fn free_disk(&self) {
        self.plan().full = false;
    }

    /// Kills the process now.
    pub fn crash(&self) {
        self.crashed.send_replace(true);
    }

    /// Whether the process is dead.
    pub fn is_crashed(&self) -> bool {
        *self.crashed.borrow()
    }

    /// Waits for the process to die.
    pub async fn until_crashed(&self) {
        // The sender lives in `self`, so that waiting cannot fail.
        let _ = self.crashed.subscribe().wait_for(|crashed| *crashed).await;
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn alive(&self) -> Result<(), StoreError> {
        if self.is_crashed() { Err(StoreError::Unavailable(Box::new(Crashed))) } else { Ok(()) }
    }

    /// Counts a commit; says what befalls it.
    fn befalls(&self) -> Result<Option<Fault>, StoreError> {
        self.alive()?;
        let mut plan = self.plan();
        plan.commits += 1;
        if plan.full {
            return Ok(Some(Fault::Refuse));
        }
        let nth = plan.commits;
        let planned = plan.at.remove(&nth);
        let random = plan.random.as_mut().and_then(|(chance, n)| {
            let fault = if chance.one_in(2) { Fault::Refuse } else { Fault::LoseAnswer };
            chance.one_in(*n).then_some(fault)
        });
        Ok(planned.or(random))
    }

    async fn shake(&self) {
        let times = self.plan().shaking.as_mut().map_or(0, |(chance, most)| chance.below(*most + 1));
        for _ in 0..times {
            tokio::task::yield_now().await;
        }
    }

    fn die<T>(&self) -> Result<T, StoreError> {
        self.crash();
        Err(StoreError::Unavailable(Box::new(Crashed)))
    }
}

/// A store that follows a plan of faults.
#[derive(Debug)]
pub struct FaultyStore<S: ?Sized> {
    inner: Arc<S>,
    faults: Faults,
}

impl<S: Store + ?Sized> FaultyStore<S> {
    /// Wraps a store. The test keeps the inner one, to look at it and to restart on it.
    pub fn new(inner: Arc<S>, faults: Faults) -> Self {
        Self { inner, faults }
    }

    /// The inner store, while the process lives.
    fn alive(&self) -> Result<&S, StoreError> {
        self.faults.alive().map(|()| &*self.inner)
    }
}

fn planned<T>() -> Result<T, StoreError> {
    Err(StoreError::Unavailable(Box::new(Planned)))
}

#[async_trait]
impl<S: Store + ?Sized> Store for FaultyStore<S> {
    async fn commit(&self, write: Write) -> Result<Committed, StoreError> {
        self.faults.shake().await;
        let fault = self.faults.befalls()?;
        match fault {
            Some(Fault::CrashBefore) => return self.faults.die(),
            Some(Fault::Refuse) => return planned(),
            _ => {}
        }
        let result = self.inner.commit(write).await;
        match fault {
            Some(Fault::CrashAfter) => return self.faults.die(),
            Some(Fault::LoseAnswer) => return planned(),
            _ => {}
        }
        self.faults.shake().await;
        self.faults.alive()?;
        result
    }

    fn commit_soon(&self, write: Write) -> Result<(), StoreError> {
        let fault = self.faults.befalls()?;
        match fault {
            Some(Fault::CrashBefore) => return self.faults.die(),
            Some(Fault::Refuse) => return planned(),
            _ => {}
        }
        let result = self.inner.commit_soon(write);
        match fault {
            Some(Fault::CrashAfter) => self.faults.die(),
            Some(Fault::LoseAnswer) => planned(),
            _ => result,
        }
    }

    async fn journal(&self, id: ExecutionId) -> Result<Vec<Event>, StoreError> {
        self.alive()?.journal(id).await
    }

    async fn journal_part(
        &self,
        id: ExecutionId,
        from: u64,
        limit: usize,
    ) -> Result<JournalPart, StoreError> {
        self.alive()?.journal_part(id, from, limit).await
    }

    async fn execution(&self, id: ExecutionId) -> Result<Option<ExecutionRow>, StoreError> {
        self.alive()?.execution(id).await
    }

    async fn executions(
        &self,
        filter: ExecutionFilter,
        page: Page,
    ) -> Result<Listing<ExecutionRow>, StoreError> {
        self.alive()?.executions(filter, page).await
    }

    async fn by_key(&self, requester: &PrincipalId, key: &str) -> Result<Option<ExecutionId>, StoreError> {
        self.alive()?.by_key(requester, key).await
    }

    async fn elicitation(&self, id: ElicitationId) -> Result<Option<ElicitationRow>, StoreError> {
        self.alive()?.elicitation(id).await
    }

    async fn elicitations(
        &self,
        filter: ElicitationFilter,
        page: Page,
    ) -> Result<Listing<ElicitationRow>, StoreError> {
        self.alive()?.elicitations(filter, page).await
    }

    async fn due(
        &self,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<(ElicitationId, ExecutionId)>, StoreError> {
        self.alive()?.due(now, limit).await
    }

    async fn due_grants(
        &self,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<(GrantId, SessionId)>, StoreError> {
        self.alive()?.due_grants(now, limit).await
    }

    async fn next_expiry(&self) -> Result<Option<Timestamp>, StoreError> {
        self.alive()?.next_expiry().await
    }

    async fn standing(&self) -> Result<Standing, StoreError> {
        self.faults.standing_reads.fetch_add(1, Ordering::Relaxed);
        self.alive()?.standing().await
    }

    async fn rulebook(&self) -> Result<Option<Digest>, StoreError> {
        self.alive()?.rulebook().await
    }

    async fn grants(&self, session: &SessionId) -> Result<Vec<Grant>, StoreError> {
        self.alive()?.grants(session).await
    }

    async fn session(&self, id: &SessionId) -> Result<Option<SessionRow>, StoreError> {
        self.alive()?.session(id).await
    }

    async fn sessions(&self, now: Timestamp, page: Page) -> Result<Listing<SessionSummary>, StoreError> {
        self.alive()?.sessions(now, page).await
    }

    async fn token_by_hash(&self, hash: Digest) -> Result<Option<TokenRow>, StoreError> {
        self.alive()?.token_by_hash(hash).await
    }

    async fn tokens(&self) -> Result<Vec<TokenRow>, StoreError> {
        self.alive()?.tokens().await
    }

    async fn users(&self) -> Result<Vec<UserRow>, StoreError> {
        self.alive()?.users().await
    }

    async fn sources(&self) -> Result<Vec<SourceRow>, StoreError> {
        self.alive()?.sources().await
    }

    async fn source_tools(&self, source: &str) -> Result<Vec<SourceToolRow>, StoreError> {
        self.alive()?.source_tools(source).await
    }

    async fn login(&self, id: LoginId) -> Result<Option<LoginRow>, StoreError> {
        self.alive()?.login(id).await
    }

    async fn audit(&self, after: u64, limit: usize) -> Result<Vec<AuditRecord>, StoreError> {
        self.faults.audit_reads.fetch_add(1, Ordering::Relaxed);
        self.alive()?.audit(after, limit).await
    }

    fn check_writable(&self) -> Result<(), StoreError> {
        if self.faults.plan().full {
            return planned();
        }
        self.alive()?.check_writable()
    }
}
