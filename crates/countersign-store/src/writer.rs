//! The writer: one thread, one connection, one transaction for everything that waits.
//!
//! Promises: success is answered only when the transaction is on the medium, in a file that still has its name; if the transaction
//! fails, every change in it is answered so, and nothing of it remains; a refusal concerns only the change that is refused; changes
//! happen in the order that `group.rs` gives them. A change that was accepted without an answer is tried again until it is written,
//! and later reads find it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use countersign_kernel::ports::{Committed, StoreError, Write};
use rusqlite::{Connection, Statement};
use tokio::sync::oneshot;

use crate::apply::{Head, Statements, prepare_persistent};
use crate::fault::{Closed, Fault, StillFailing, TransactionFailed, damage, is_damage};
use crate::files::{Files, Lost};
use crate::group::{Change, Gathered, Queue, Refused, Wants};
use crate::staged::Staged;

/// Transactions committed, each one wait for the medium. The name is stable: dashboards rely on it.
const COMMITS: &str = "countersign_store_commits_total";
/// How often a medium that failed is tried again while no change arrives.
const RETRY: Duration = Duration::from_millis(500);
/// When the writer counts as idle, and gives its page cache back.
const IDLE: Duration = Duration::from_secs(1);

/// The handle to the writer thread.
#[derive(Debug)]
pub(crate) struct Writer {
    queue: Arc<Queue<Command>>,
    thread: Option<JoinHandle<()>>,
    shared: Arc<Shared>,
    bound: usize,
}

type Answer = oneshot::Sender<Result<Committed, StoreError>>;

/// A change in the queue, and the channel to its caller, if one waits.
#[derive(Debug)]
struct Command {
    staged: Staged,
    answer: Option<Answer>,
    wants: Wants,
}

impl Change for Command {
    fn wants(&self) -> Wants {
        self.wants
    }
}

/// The state that the handle and the thread share.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// Accepted without an answer, and not written yet.
    unawaited: AtomicUsize,
    failing: AtomicBool,
    pub(crate) commits: AtomicU64,
    pub(crate) commands: AtomicU64,
}

impl Writer {
    /// Starts the thread on the connection that writes.
    pub(crate) fn start(
        connection: Connection,
        head: Head,
        files: Arc<Files>,
        bound: usize,
    ) -> std::io::Result<Self> {
        let queue = Arc::new(Queue::new());
        let commands = Arc::clone(&queue);
        let shared = Arc::new(Shared::default());
        let seen = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("countersign-store".into())
            .spawn(move || run(&connection, head, &files, &commands, &seen))?;
        Ok(Self { queue, thread: Some(thread), shared, bound })
    }

    /// Queues a change and waits until it is on the medium.
    pub(crate) async fn commit(&self, staged: Staged) -> Result<Committed, StoreError> {
        self.answered(staged, Wants::ItsOwn).await
    }

    async fn answered(&self, staged: Staged, wants: Wants) -> Result<Committed, StoreError> {
        let (answer, answered) = oneshot::channel();
        self.send(Command { staged, answer: Some(answer), wants }, self.bound)?;
        answered.await.unwrap_or_else(|_| closed())
    }

    /// Queues a change for which no caller waits. It leaves a quarter of the queue to awaited changes.
    pub(crate) fn commit_soon(&self, staged: Staged) -> Result<(), StoreError> {
        if self.shared.failing.load(Ordering::Acquire) {
            return Err(StoreError::Unavailable(Box::new(StillFailing)));
        }
        self.shared.unawaited.fetch_add(1, Ordering::AcqRel);
        let sent =
            self.send(Command { staged, answer: None, wants: Wants::Nothing }, self.bound - self.bound / 4);
        if sent.is_err() {
            self.shared.unawaited.fetch_sub(1, Ordering::AcqRel);
        }
        sent
    }

    /// An error from a write that failed until one succeeds. While no change arrives, the thread tries it with a real write.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        if self.shared.failing.load(Ordering::Acquire) {
            return Err(StoreError::Unavailable(Box::new(StillFailing)));
        }
        let is_running = self.thread.as_ref().is_some_and(|thread| !thread.is_finished());
        if is_running { Ok(()) } else { closed() }
    }

    /// Waits until the changes that were accepted without an answer are written, so that readers find them. Where the medium fails, they
    /// find what there is.
    pub(crate) async fn write_unawaited(&self) {
        let is_clean = self.shared.unawaited.load(Ordering::Acquire) == 0;
        if is_clean || self.shared.failing.load(Ordering::Acquire) {
            return;
        }
        // A change without content: its answer comes when all that was queued before it is done.
        if let Ok(nothing) = Staged::of(Write::default()) {
            let _ = self.answered(nothing, Wants::EverythingBefore).await;
        }
    }

    /// The shared state.
    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    fn send(&self, command: Command, bound: usize) -> Result<(), StoreError> {
        self.queue.push(command, bound).or_else(|refused| match refused {
            Refused::Full => Err(StoreError::Overloaded),
            Refused::Closed => closed(),
        })
    }
}

impl Drop for Writer {
    /// Everything queued is written before the store is gone, and the file is closed before its lock is.
    fn drop(&mut self) {
        self.queue.close();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the store's writer ended in a panic");
        }
    }
}

fn closed<T>() -> Result<T, StoreError> {
    Err(StoreError::Unavailable(Box::new(Closed)))
}

fn run(connection: &Connection, head: Head, files: &Files, queue: &Queue<Command>, shared: &Shared) {
    // Also after a panic: then every sender hears that the store is unavailable.
    let _closes = ClosesAtTheEnd(queue);
    match Thread::new(connection, head, files, shared) {
        Ok(mut thread) => thread.serve(queue),
        Err(error) => tracing::error!(%error, "the store's statements do not fit its database"),
    }
}

/// Closes the queue when its reader ends, and drops what is in it, so that nobody waits for an answer that cannot come.
struct ClosesAtTheEnd<'q>(&'q Queue<Command>);

impl Drop for ClosesAtTheEnd<'_> {
    fn drop(&mut self) {
        self.0.close();
        while let Gathered::Group(dropped) = self.0.gather(None) {
            drop(dropped);
        }
    }
}

/// The state of the writer thread.
struct Thread<'c> {
    connection: &'c Connection,
    statements: Statements<'c>,
    begin: Statement<'c>,
    commit: Statement<'c>,
    files: &'c Files,
    shared: &'c Shared,
    /// Not known after a transaction failed.
    head: Option<Head>,
    /// Accepted, and not yet written because the medium failed.
    unwritten: Vec<Command>,
    /// Why nothing is written any more: the file is damaged.
    damaged: Option<String>,
}

/// How changes of one transaction are kept apart.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Isolation {
    /// By checking all of a change before its first write.
    Checks,
    /// By a savepoint each, where a change refused itself while it was being written.
    Savepoints,
}

/// Why a transaction did not happen.
enum Aborted {
    /// A change was refused after it had written: start again with savepoints.
    HalfWritten,
    Failed(rusqlite::Error),
}

type Outcome = Result<Committed, StoreError>;

impl<'c> Thread<'c> {
    fn new(
        connection: &'c Connection,
        head: Head,
        files: &'c Files,
        shared: &'c Shared,
    ) -> rusqlite::Result<Self> {
        Ok(Self {
            statements: Statements::prepare(connection)?,
            begin: prepare_persistent(connection, "BEGIN IMMEDIATE")?,
            commit: prepare_persistent(connection, "COMMIT")?,
            connection,
            files,
            shared,
            head: Some(head),
            unwritten: Vec::new(),
            damaged: None,
        })
    }

    /// Writes until the queue is closed and empty. While the medium fails, it is tried again also where nothing comes.
    fn serve(&mut self, queue: &Queue<Command>) {
        let mut has_worked = false;
        loop {
            let fails = self.shared.failing.load(Ordering::Acquire) && self.damaged.is_none();
            let longest = if fails { Some(RETRY) } else { has_worked.then_some(IDLE) };
            match queue.gather(longest) {
                Gathered::Group(batch) => {
                    self.process(batch);
                    has_worked = true;
                }
                Gathered::Nothing if fails => self.process(Vec::new()),
                Gathered::Nothing => {
                    self.give_back_memory();
                    has_worked = false;
                }
                Gathered::Closed => break,
            }
        }
        if !self.unwritten.is_empty() {
            self.process(Vec::new());
        }
        if !self.unwritten.is_empty() {
            tracing::error!(
                lost = self.unwritten.len(),
                "records of reads could not be written before the store closed"
            );
        }
    }

    /// SQLite keeps its page cache for good; the system has the pages too, so the next transactions find them there. What was written
    /// last is looked up again.
    fn give_back_memory(&mut self) {
        self.statements.forget();
        if let Err(error) = self.connection.execute_batch("PRAGMA shrink_memory") {
            tracing::debug!(%error, "the page cache was not given back");
        }
    }

    fn process(&mut self, fresh: Vec<Command>) {
        let mut batch = std::mem::take(&mut self.unwritten);
        batch.extend(fresh);
        if let Some(damage) = &self.damaged {
            return refuse_all(batch, damage);
        }
        if let Err(lost) = self.files.check() {
            return self.fail_lost_files(batch, &lost);
        }
        let attempt = match self.attempt(&batch, Isolation::Checks) {
            Err(Aborted::HalfWritten) => self.attempt(&batch, Isolation::Savepoints),
            done => done,
        };
        match attempt {
            // Looked at after the commit: what was removed before it has taken it along.
            Ok(outcomes) => match self.files.check() {
                Ok(()) => self.acknowledge(batch, outcomes),
                Err(lost) => self.fail_lost_files(batch, &lost),
            },
            Err(Aborted::Failed(error)) => self.fail(batch, error),
            // With savepoints this does not happen; if it did, a failure is the answer that promises nothing.
            Err(Aborted::HalfWritten) => self.fail(batch, rusqlite::Error::InvalidQuery),
        }
    }

    /// One transaction. Either it is on the medium when this returns, or nothing of it is anywhere.
    fn attempt(&mut self, batch: &[Command], isolation: Isolation) -> Result<Vec<Outcome>, Aborted> {
        let before = self.head;
        let attempt = self.transact(batch, isolation);
        if attempt.is_err() {
            self.roll_back();
            self.statements.forget();
            self.head = match attempt {
                Err(Aborted::HalfWritten) => before,
                _ => None,
            };
        }
        attempt
    }

    fn transact(&mut self, batch: &[Command], isolation: Isolation) -> Result<Vec<Outcome>, Aborted> {
        self.begin.execute([])?;
        self.statements.begin();
        let mut head = match self.head {
            Some(head) => head,
            None => Head::read(self.connection).map_err(Aborted::from)?,
        };
        let mut outcomes = Vec::with_capacity(batch.len());
        for command in batch {
            outcomes.push(match isolation {
                Isolation::Checks => self.apply(&command.staged, &mut head)?,
                Isolation::Savepoints => self.apply_in_savepoint(&command.staged, &mut head)?,
            });
        }
        if batch.is_empty() {
            // Only a real write shows that the medium is back.
            let version: i64 = self.connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
            self.connection.pragma_update(None, "user_version", version)?;
        }
        self.statements.names.flush()?;
        self.commit.execute([])?;
        self.head = Some(head);
        Ok(outcomes)
    }

    fn apply(&mut self, staged: &Staged, head: &mut Head) -> Result<Outcome, Aborted> {
        let existing = match self.statements.check(staged) {
            Ok(existing) => existing,
            Err(Fault::Refused(error)) => return Ok(Err(error)),
            Err(Fault::Medium(error)) => return Err(Aborted::Failed(error)),
        };
        self.statements.write(staged, existing.as_ref(), head)?;
        Ok(Ok(Committed { audit_seq: head.seq }))
    }

    fn apply_in_savepoint(&mut self, staged: &Staged, head: &mut Head) -> Result<Outcome, Aborted> {
        let before = *head;
        self.connection.execute_batch("SAVEPOINT one")?;
        let written = self.statements.check(staged).and_then(|existing| {
            self.statements.write(staged, existing.as_ref(), head)?;
            // Counts that are only in memory would outlive a neighbour's rollback.
            self.statements.names.flush()?;
            Ok(Committed { audit_seq: head.seq })
        });
        let outcome = match written {
            Ok(committed) => Ok(committed),
            Err(Fault::Refused(error)) => {
                *head = before;
                self.statements.forget();
                self.connection.execute_batch("ROLLBACK TO one")?;
                Err(error)
            }
            Err(Fault::Medium(error)) => return Err(Aborted::Failed(error)),
        };
        self.connection.execute_batch("RELEASE one")?;
        Ok(outcome)
    }

    fn acknowledge(&self, batch: Vec<Command>, outcomes: Vec<Outcome>) {
        let written = outcomes.iter().filter(|outcome| outcome.is_ok()).count() as u64;
        // A transaction in which everything was refused wrote nothing, and shows nothing of the medium.
        let is_proof = written > 0 || batch.is_empty();
        if is_proof && self.shared.failing.swap(false, Ordering::AcqRel) {
            tracing::info!("the store writes again");
        }
        self.shared.commits.fetch_add(u64::from(written > 0), Ordering::Relaxed);
        metrics::counter!(COMMITS).increment(u64::from(written > 0));
        self.shared.commands.fetch_add(written, Ordering::Relaxed);
        for (command, outcome) in batch.into_iter().zip(outcomes) {
            match (command.answer, outcome) {
                // A caller that stopped waiting reads the store itself.
                (Some(answer), outcome) => drop(answer.send(outcome)),
                (None, outcome) => {
                    self.shared.unawaited.fetch_sub(1, Ordering::AcqRel);
                    if let Err(error) = outcome {
                        tracing::warn!(%error, "a record of a read was refused");
                    }
                }
            }
        }
    }

    fn fail(&mut self, batch: Vec<Command>, error: rusqlite::Error) {
        if !self.shared.failing.swap(true, Ordering::AcqRel) {
            tracing::error!(%error, "the store cannot write; whoever waits is told, and nothing of it is kept");
        }
        if is_damage(&error) {
            let damage = damage(&error);
            refuse_all(batch, &damage);
            self.damaged = Some(damage);
            return;
        }
        let cause = TransactionFailed(Arc::new(error));
        for command in batch {
            match command.answer {
                Some(answer) => drop(answer.send(Err(StoreError::Unavailable(Box::new(cause.clone()))))),
                None => self.unwritten.push(command),
            }
        }
    }

    /// The files are gone for good. Unawaited changes are lost with them; the log says so.
    fn fail_lost_files(&self, batch: Vec<Command>, lost: &Lost) {
        self.shared.failing.store(true, Ordering::Release);
        for answer in batch.into_iter().filter_map(|command| command.answer) {
            drop(answer.send(Err(StoreError::Unavailable(Box::new(lost.clone())))));
        }
    }

    /// SQLite rolls some failures back itself.
    fn roll_back(&self) {
        if !self.connection.is_autocommit()
            && let Err(error) = self.connection.execute_batch("ROLLBACK")
        {
            tracing::error!(%error, "a failed transaction could not be rolled back");
        }
    }
}

fn refuse_all(batch: Vec<Command>, damage: &str) {
    for answer in batch.into_iter().filter_map(|command| command.answer) {
        drop(answer.send(Err(StoreError::Corrupt(damage.to_owned()))));
    }
}

impl From<rusqlite::Error> for Aborted {
    fn from(error: rusqlite::Error) -> Self {
        Self::Failed(error)
    }
}

impl From<Fault> for Aborted {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Refused(_) => Self::HalfWritten,
            Fault::Medium(error) => Self::Failed(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use countersign_core::audit::verify;
    use countersign_core::digest::Digest;
    use countersign_kernel::ports::{GrantWrite, Write};
    use countersign_testkit::conformance::subject::{Subject, create, grants, live, revoke, token};

    use super::*;
    use crate::open::{Opened, SqliteOptions, open};
    use crate::{executions, read};

    type Waiting = oneshot::Receiver<Outcome>;

    fn command(write: Write) -> (Command, Waiting) {
        let (answer, waiting) = oneshot::channel();
        (Command { staged: Staged::of(write).unwrap(), answer: Some(answer), wants: Wants::ItsOwn }, waiting)
    }

    fn batch(writes: Vec<Write>) -> (Vec<Command>, Vec<Waiting>) {
        writes.into_iter().map(command).unzip()
    }

    fn outcomes(waiting: Vec<Waiting>) -> Vec<Outcome> {
        waiting.into_iter().map(|mut waiting| waiting.try_recv().expect("an answer")).collect()
    }

    fn opened() -> (tempfile::TempDir, Opened) {
        let folder = tempfile::tempdir().unwrap();
        let opened = open(folder.path(), &SqliteOptions::default()).unwrap();
        (folder, opened)
    }

    #[test]
    fn what_is_refused_in_a_transaction_leaves_its_neighbours_alone() {
        let (_folder, Opened { connection, head, files, .. }) = opened();
        let shared = Shared::default();
        let mut thread = Thread::new(&connection, head, &files, &shared).unwrap();
        let (first, last) = (Subject::new(), Subject::new());
        let grant = first.grant();
        let twice = Write { grants: vec![GrantWrite::Give(grant.clone()); 2], ..Subject::new().start() };
        let writes =
            vec![first.start(), first.start(), twice, grants(vec![GrantWrite::Give(grant)]), last.start()];
        let (commands, waiting) = batch(writes);
        thread.process(commands);
        let outcomes = outcomes(waiting);
        assert!(matches!(outcomes[0], Ok(Committed { audit_seq: 1 })), "{outcomes:?}");
        assert!(matches!(outcomes[1], Err(StoreError::Conflict { expected: 0, actual: 1 })), "{outcomes:?}");
        assert!(matches!(outcomes[2], Err(StoreError::Corrupt(_))), "{outcomes:?}");
        assert!(matches!(outcomes[3], Ok(Committed { audit_seq: 1 })), "{outcomes:?}");
        assert!(matches!(outcomes[4], Ok(Committed { audit_seq: 2 })), "{outcomes:?}");
        assert_eq!(shared.commits.load(Ordering::Relaxed), 1, "one transaction for all");
        assert_eq!(shared.commands.load(Ordering::Relaxed), 3);
        verify((0, Digest::ZERO), &read::audit(&connection, 0, 9).unwrap()).unwrap();
        assert_eq!(Head::read(&connection).unwrap(), thread.head.unwrap());
    }

    #[test]
    fn a_token_that_is_revoked_in_a_transaction_counts_for_nothing_in_the_rest_of_it() {
        let (_folder, Opened { connection, head, files, .. }) = opened();
        let shared = Shared::default();
        let mut thread = Thread::new(&connection, head, &files, &shared).unwrap();
        let laptop = token(0);
        let relying = |subject: &Subject| Write { require: vec![live(&laptop)], ..subject.start() };
        let (before, after, refused, later) =
            (Subject::new(), Subject::new(), Subject::new(), Subject::new());
        let (commands, waiting) = batch(vec![
            relying(&before),
            create(&laptop),
            relying(&after),
            revoke(&laptop),
            relying(&refused),
        ]);
        thread.process(commands);
        let outcomes = outcomes(waiting);
        assert!(matches!(outcomes[0], Err(StoreError::TokenRevoked(_))), "not there yet: {outcomes:?}");
        assert!(outcomes[2].is_ok(), "{outcomes:?}");
        assert!(matches!(outcomes[4], Err(StoreError::TokenRevoked(_))), "{outcomes:?}");
        let (commands, waiting) = batch(vec![relying(&later)]);
        thread.process(commands);
        assert!(matches!(self::outcomes(waiting)[0], Err(StoreError::TokenRevoked(_))));
    }

    #[test]
    fn a_database_that_may_not_grow_fails_everybody_and_goes_on_when_it_may() {
        let (_folder, Opened { connection, head, files, .. }) = opened();
        let shared = Shared::default();
        let mut thread = Thread::new(&connection, head, &files, &shared).unwrap();
        let limit = |pages: i64| {
            connection.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(())).unwrap();
        };
        limit(1);
        let subjects: Vec<Subject> = (0..100).map(|_| Subject::new()).collect();
        let (mut commands, waiting) = batch(subjects.iter().map(Subject::start).collect());
        let soon = Subject::new();
        commands.push(Command {
            staged: Staged::of(soon.start()).unwrap(),
            answer: None,
            wants: Wants::Nothing,
        });
        thread.process(commands);
        for outcome in outcomes(waiting) {
            assert!(matches!(outcome, Err(StoreError::Unavailable(_))), "{outcome:?}");
        }
        assert_eq!(read::audit(&connection, 0, 9).unwrap(), []);
        assert_eq!(executions::execution(&connection, subjects[0].id).unwrap(), None);
        assert!(shared.failing.load(Ordering::Relaxed));

        limit(1_000_000);
        let (commands, waiting) = batch(vec![subjects[0].start()]);
        thread.process(commands);
        assert!(
            matches!(outcomes(waiting)[0], Ok(Committed { audit_seq: 2 })),
            "after what was accepted before it"
        );
        assert!(executions::execution(&connection, soon.id).unwrap().is_some());
        assert!(!shared.failing.load(Ordering::Relaxed));
        verify((0, Digest::ZERO), &read::audit(&connection, 0, 9).unwrap()).unwrap();
    }

    #[test]
    fn the_first_try_after_a_failure_needs_no_change_to_write() {
        let (_folder, Opened { connection, head, files, .. }) = opened();
        let shared = Shared::default();
        let mut thread = Thread::new(&connection, head, &files, &shared).unwrap();
        shared.failing.store(true, Ordering::Relaxed);
        thread.process(Vec::new());
        assert!(!shared.failing.load(Ordering::Relaxed));
    }
}
