//! A store that fails where a test wants it to: crashes, refusals, lost answers, failed reads, and random yields between tasks.
//!
//! Promise: the same plan and the same order of commits and reads give the same faults. A crash is the death of a process: from
//! there on everything answers [`Crashed`], also what was on its way, and a test goes on with a fresh wrapper around
//! the same inner store.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
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

/// A failure of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The process dies before the change is made.
    CrashBefore,
    /// The process dies after the change is made and before it is answered.
    CrashAfter,
    /// The change is not made, and the answer leaves that open.
    Refuse,
    /// The change is made, and the answer leaves that open.
    LoseAnswer,
}

/// The reads of a store; the two reads of journals count as one.
#[expect(missing_docs, reason = "each is the method of the store that has its name")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Read {
    Journal,
    Execution,
    Executions,
    ByKey,
    Elicitation,
    Elicitations,
    Due,
    DueGrants,
    NextExpiry,
    Standing,
    Rulebook,
    Grants,
    Session,
    Sessions,
    TokenByHash,
    Tokens,
    Users,
    Sources,
    SourceTools,
    Login,
    Audit,
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
}

#[derive(Debug, Default)]
struct Plan {
    full: bool,
    commits: u64,
    at: BTreeMap<u64, Fault>,
    random: Option<(Chance, u64)>,
    random_yields: Option<(Chance, u64)>,
    reads: BTreeMap<Read, u64>,
    reads_at: BTreeSet<(Read, u64)>,
    random_reads: Option<(Chance, u64)>,
    unreadable: BTreeSet<Read>,
}

impl Default for Faults {
    fn default() -> Self {
        Self { plan: Arc::default(), crashed: Arc::new(watch::Sender::new(false)) }
    }
}

#[expect(missing_docs, reason = "the names say it")]
impl Faults {
    pub fn none() -> Self {
        Self::default()
    }

    /// Something fails once, at the n-th commit, counted from 1.
    pub fn at(nth: u64, fault: Fault) -> Self {
        let faults = Self::default();
        faults.plan().at.insert(nth, fault);
        faults
    }

    /// Plans another failure.
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

    /// The n-th read of a kind fails, counted from 1.
    #[must_use]
    pub fn and_read_at(self, read: Read, nth: u64) -> Self {
        self.plan().reads_at.insert((read, nth));
        self
    }

    /// About one in `n` reads fails, as the seed has it.
    #[must_use]
    pub fn failing_reads_one_in(self, n: u64, seed: u64) -> Self {
        self.plan().random_reads = Some((Chance::new(seed), n));
        self
    }

    /// From now on every read of a kind fails, until the store is healed.
    pub fn fail_reads_of(&self, read: Read) {
        self.plan().unreadable.insert(read);
    }

    /// Nothing fails from now on. A process that died stays dead.
    pub fn heal(&self) {
        let mut plan = self.plan();
        *plan = Plan {
            commits: plan.commits,
            reads: std::mem::take(&mut plan.reads),
            random_yields: plan.random_yields.take(),
            ..Plan::default()
        };
    }

    /// Before and after each commit the task yields to others, up to `most` times, as the seed has it.
    #[must_use]
    pub fn yielding_at_random(self, most: u64, seed: u64) -> Self {
        self.plan().random_yields = Some((Chance::new(seed), most));
        self
    }

    /// How many commits were seen, of both kinds, also failed ones: a driver tries every number up to this.
    pub fn commits(&self) -> u64 {
        self.plan().commits
    }

    /// How many reads of a kind were seen, also failed ones.
    pub fn reads(&self, read: Read) -> u64 {
        self.plan().reads.get(&read).copied().unwrap_or_default()
    }

    /// How often the audit was read.
    pub fn audit_reads(&self) -> u64 {
        self.reads(Read::Audit)
    }

    /// How often it was counted how much is unfinished.
    pub fn standing_reads(&self) -> u64 {
        self.reads(Read::Standing)
    }

    /// The medium is full from now on: every commit is refused, and reads go on.
    pub fn fill_disk(&self) {
        self.plan().full = true;
    }

    /// There is room on the medium again.
    pub fn free_disk(&self) {
        self.plan().full = false;
    }

    pub fn crash(&self) {
        self.crashed.send_replace(true);
    }

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

    /// Counts a commit and returns its fault, if the plan has one.
    fn next_commit_fault(&self) -> Result<Option<Fault>, StoreError> {
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

    /// Counts a read; fails where the plan says so.
    fn check_read(&self, read: Read) -> Result<(), StoreError> {
        self.alive()?;
        let mut plan = self.plan();
        let nth = plan.reads.entry(read).or_default();
        *nth += 1;
        let nth = *nth;
        let is_planned = plan.reads_at.remove(&(read, nth)) || plan.unreadable.contains(&read);
        let is_random = plan.random_reads.as_mut().is_some_and(|(chance, n)| chance.one_in(*n));
        if is_planned || is_random { planned_failure() } else { Ok(()) }
    }

    async fn yield_at_random(&self) {
        let times = self.plan().random_yields.as_mut().map_or(0, |(chance, most)| chance.below(*most + 1));
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

    /// The inner store, unless this read of it fails.
    fn read(&self, read: Read) -> Result<&S, StoreError> {
        self.faults.check_read(read).map(|()| &*self.inner)
    }
}

fn planned_failure<T>() -> Result<T, StoreError> {
    Err(StoreError::Unavailable(Box::new(Planned)))
}

#[async_trait]
impl<S: Store + ?Sized> Store for FaultyStore<S> {
    async fn commit(&self, write: Write) -> Result<Committed, StoreError> {
        self.faults.yield_at_random().await;
        let fault = self.faults.next_commit_fault()?;
        match fault {
            Some(Fault::CrashBefore) => return self.faults.die(),
            Some(Fault::Refuse) => return planned_failure(),
            _ => {}
        }
        let result = self.inner.commit(write).await;
        match fault {
            Some(Fault::CrashAfter) => return self.faults.die(),
            Some(Fault::LoseAnswer) => return planned_failure(),
            _ => {}
        }
        self.faults.yield_at_random().await;
        self.faults.alive()?;
        result
    }

    fn commit_soon(&self, write: Write) -> Result<(), StoreError> {
        let fault = self.faults.next_commit_fault()?;
        match fault {
            Some(Fault::CrashBefore) => return self.faults.die(),
            Some(Fault::Refuse) => return planned_failure(),
            _ => {}
        }
        let result = self.inner.commit_soon(write);
        match fault {
            Some(Fault::CrashAfter) => self.faults.die(),
            Some(Fault::LoseAnswer) => planned_failure(),
            _ => result,
        }
    }

    async fn journal(&self, id: ExecutionId) -> Result<Vec<Event>, StoreError> {
        self.read(Read::Journal)?.journal(id).await
    }

    async fn journal_part(
        &self,
        id: ExecutionId,
        from: u64,
        limit: usize,
    ) -> Result<JournalPart, StoreError> {
        self.read(Read::Journal)?.journal_part(id, from, limit).await
    }

    async fn execution(&self, id: ExecutionId) -> Result<Option<ExecutionRow>, StoreError> {
        self.read(Read::Execution)?.execution(id).await
    }

    async fn executions(
        &self,
        filter: ExecutionFilter,
        page: Page,
    ) -> Result<Listing<ExecutionRow>, StoreError> {
        self.read(Read::Executions)?.executions(filter, page).await
    }

    async fn by_key(&self, requester: &PrincipalId, key: &str) -> Result<Option<ExecutionId>, StoreError> {
        self.read(Read::ByKey)?.by_key(requester, key).await
    }

    async fn elicitation(&self, id: ElicitationId) -> Result<Option<ElicitationRow>, StoreError> {
        self.read(Read::Elicitation)?.elicitation(id).await
    }

    async fn elicitations(
        &self,
        filter: ElicitationFilter,
        page: Page,
    ) -> Result<Listing<ElicitationRow>, StoreError> {
        self.read(Read::Elicitations)?.elicitations(filter, page).await
    }

    async fn due(
        &self,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<(ElicitationId, ExecutionId)>, StoreError> {
        self.read(Read::Due)?.due(now, limit).await
    }

    async fn due_grants(
        &self,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<(GrantId, SessionId)>, StoreError> {
        self.read(Read::DueGrants)?.due_grants(now, limit).await
    }

    async fn next_expiry(&self) -> Result<Option<Timestamp>, StoreError> {
        self.read(Read::NextExpiry)?.next_expiry().await
    }

    async fn standing(&self) -> Result<Standing, StoreError> {
        self.read(Read::Standing)?.standing().await
    }

    async fn rulebook(&self) -> Result<Option<Digest>, StoreError> {
        self.read(Read::Rulebook)?.rulebook().await
    }

    async fn grants(&self, session: &SessionId) -> Result<Vec<Grant>, StoreError> {
        self.read(Read::Grants)?.grants(session).await
    }

    async fn session(&self, id: &SessionId) -> Result<Option<SessionRow>, StoreError> {
        self.read(Read::Session)?.session(id).await
    }

    async fn sessions(&self, now: Timestamp, page: Page) -> Result<Listing<SessionSummary>, StoreError> {
        self.read(Read::Sessions)?.sessions(now, page).await
    }

    async fn token_by_hash(&self, hash: Digest) -> Result<Option<TokenRow>, StoreError> {
        self.read(Read::TokenByHash)?.token_by_hash(hash).await
    }

    async fn tokens(&self) -> Result<Listing<TokenRow>, StoreError> {
        self.read(Read::Tokens)?.tokens().await
    }

    async fn users(&self) -> Result<Listing<UserRow>, StoreError> {
        self.read(Read::Users)?.users().await
    }

    async fn sources(&self) -> Result<Vec<SourceRow>, StoreError> {
        self.read(Read::Sources)?.sources().await
    }

    async fn source_tools(&self, source: &str) -> Result<Vec<SourceToolRow>, StoreError> {
        self.read(Read::SourceTools)?.source_tools(source).await
    }

    async fn login(&self, id: LoginId) -> Result<Option<LoginRow>, StoreError> {
        self.read(Read::Login)?.login(id).await
    }

    async fn audit(&self, after: u64, limit: usize) -> Result<Vec<AuditRecord>, StoreError> {
        self.read(Read::Audit)?.audit(after, limit).await
    }

    fn check_writable(&self) -> Result<(), StoreError> {
        if self.faults.plan().full {
            return planned_failure();
        }
        self.faults.alive()?;
        self.inner.check_writable()
    }
}
