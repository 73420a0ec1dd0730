//! What a script has used of its computing time, and whether it must stop.
//!
//! Time is that of the thread, not of the wall: a busy machine must not end a script, and waiting is free. Once the
//! meter says stop it never says anything else.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use countersign_kernel::ports::ScriptFault;
use rustix::time::{ClockId, clock_gettime};

pub(super) struct Meter {
    bound: Duration,
    used: Cell<Duration>,
    running_since: Cell<Option<Duration>>,
    fault: RefCell<Option<ScriptFault>>,
}

impl Meter {
    pub(super) fn new(bound: Duration) -> Self {
        Self { bound, used: Cell::default(), running_since: Cell::default(), fault: RefCell::default() }
    }

    /// The script begins to compute.
    pub(super) fn run(&self) {
        self.running_since.set(Some(thread_time()));
    }

    /// The script only waits.
    pub(super) fn rest(&self) {
        self.used.set(self.spent());
        self.running_since.set(None);
    }

    /// Ends the script. The first reason stays.
    pub(super) fn stop(&self, fault: ScriptFault) {
        self.fault.borrow_mut().get_or_insert(fault);
    }

    /// Whether the script must stop. The engine asks while it runs script, and cannot be talked out of the answer.
    pub(super) fn must_stop(&self) -> bool {
        if self.fault.borrow().is_some() {
            return true;
        }
        let over = self.spent() > self.bound;
        if over {
            let bound_ms = u64::try_from(self.bound.as_millis()).unwrap_or(u64::MAX);
            self.stop(ScriptFault::CpuLimit { bound_ms });
        }
        over
    }

    /// Why the script was ended.
    pub(super) fn fault(&self) -> Option<ScriptFault> {
        self.fault.borrow().clone()
    }

    fn spent(&self) -> Duration {
        let now =
            self.running_since.get().map_or(Duration::ZERO, |since| thread_time().saturating_sub(since));
        self.used.get().saturating_add(now)
    }
}

/// The computing time of this thread so far.
pub(super) fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    let nanoseconds = u32::try_from(time.tv_nsec).unwrap_or_default();
    Duration::new(seconds, nanoseconds)
}
