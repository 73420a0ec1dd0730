//! The outside world as tests see it: what took effect, kept outside everything that can crash.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

/// One effect that a handler had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effect {
    /// The execution it belongs to.
    pub execution: String,
    /// The tool that had it.
    pub tool: String,
    /// Which of the tool's effects.
    pub what: String,
    /// The idempotency key the handler used.
    pub key: String,
}

/// One time that a handler was entered, whether or not it had an effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The tool that was entered.
    pub tool: String,
    /// The idempotency key the handler was given.
    pub key: String,
}

/// Where an effect is to be interrupted by a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrashAt {
    /// Nowhere.
    Never,
    /// Just before the n-th effect, from 0.
    BeforeEffect(u64),
    /// Just after the n-th effect, from 0: it happened and was not recorded.
    AfterEffect(u64),
}

/// The effects so far. Clones are one ledger.
#[derive(Clone, Default)]
pub struct Ledger {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    effects: Mutex<Vec<Effect>>,
    entries: Mutex<Vec<Entry>>,
    seen: AtomicU64,
    crash_at: Mutex<Option<CrashAt>>,
    crashed: Notify,
}

impl Ledger {
    /// Has an effect. If the plan says that the process dies here, this never returns.
    pub async fn effect(&self, effect: Effect) {
        let n = self.inner.seen.fetch_add(1, Ordering::SeqCst);
        let plan = *lock(&self.inner.crash_at);
        if plan == Some(CrashAt::BeforeEffect(n)) {
            self.die().await;
        }
        lock(&self.inner.effects).push(effect);
        if plan == Some(CrashAt::AfterEffect(n)) {
            self.die().await;
        }
    }

    /// Notes that a handler was entered.
    pub fn entry(&self, entry: Entry) {
        lock(&self.inner.entries).push(entry);
    }

    /// All entries, in order.
    pub fn entries(&self) -> Vec<Entry> {
        lock(&self.inner.entries).clone()
    }

    /// The process dies here, as a handler can make it die. This never returns.
    pub async fn bring_down(&self) {
        self.die().await;
    }

    /// All effects, in order.
    pub fn effects(&self) -> Vec<Effect> {
        lock(&self.inner.effects).clone()
    }

    /// The effects of one execution.
    pub fn of(&self, execution: &str) -> Vec<Effect> {
        self.effects().into_iter().filter(|e| e.execution == execution).collect()
    }

    /// How many effects were begun, also those that a crash prevented.
    pub fn begun(&self) -> u64 {
        self.inner.seen.load(Ordering::SeqCst)
    }

    /// Plans a crash.
    pub fn crash_at(&self, at: CrashAt) {
        *lock(&self.inner.crash_at) = Some(at);
    }

    /// Completes when a planned crash was reached, or a handler brought the process down.
    pub async fn crashed(&self) {
        self.inner.crashed.notified().await;
    }

    async fn die(&self) {
        *lock(&self.inner.crash_at) = None;
        self.inner.crashed.notify_one();
        std::future::pending::<()>().await;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
