//! A clock for tests: it follows tokio's, which tests pause, and it can be made to jump.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use countersign_core::time::Timestamp;
use countersign_kernel::ports::Clock;
use tokio::time::Instant;

/// The start of time in every test.
pub const BEGIN_MS: u64 = 1_700_000_000_000;

/// A clock that outlives the runtimes of the processes it is lent to.
#[derive(Clone)]
pub struct TestClock {
    inner: Arc<Inner>,
}

struct Inner {
    life: Mutex<Life>,
    jump_ms: AtomicI64,
}

/// One process's stretch of time.
struct Life {
    base_ms: u64,
    since: Option<Instant>,
}

impl Default for TestClock {
    fn default() -> Self {
        let life = Mutex::new(Life { base_ms: BEGIN_MS, since: None });
        Self { inner: Arc::new(Inner { life, jump_ms: AtomicI64::new(0) }) }
    }
}

impl TestClock {
    /// Binds the clock to the runtime it is called in. Time goes on from where the last process left it.
    pub fn begin_life(&self) {
        let mut life = self.inner.life.lock().unwrap_or_else(PoisonError::into_inner);
        life.since = Some(Instant::now());
    }

    /// Ends a process's stretch. To be called inside its runtime: outside, its time means nothing.
    pub fn end_life(&self) {
        let mut life = self.inner.life.lock().unwrap_or_else(PoisonError::into_inner);
        life.base_ms += life.since.take().map_or(0, elapsed_ms);
    }

    /// Time passes while no process runs.
    pub fn pass(&self, ms: u64) {
        self.inner.life.lock().unwrap_or_else(PoisonError::into_inner).base_ms += ms;
    }

    /// Makes the clock jump, forwards or back.
    pub fn jump(&self, by_ms: i64) {
        self.inner.jump_ms.fetch_add(by_ms, Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        let life = self.inner.life.lock().unwrap_or_else(PoisonError::into_inner);
        let ms = life.base_ms + life.since.map_or(0, elapsed_ms);
        Timestamp::from_millis(ms.saturating_add_signed(self.inner.jump_ms.load(Ordering::SeqCst)))
    }
}

fn elapsed_ms(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}
