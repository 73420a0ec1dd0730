//! What a script has used of its computing time, and whether it must stop.
//!
//! Time is that of the thread, not of the wall: a busy machine must not end a script, and waiting is free. Once the
//! meter says stop it never says anything else.
//!
//! The time of a thread costs a system call, the wall's only a look. A thread never computes for longer than passes on
//! the wall, so after a look that leaves so much there is nothing to ask until so much has passed there.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use countersign_kernel::ports::ScriptFault;
use rustix::time::{ClockId, clock_gettime};

pub(super) struct Meter {
    bound: Duration,
    used: Cell<Duration>,
    running_since: Cell<Option<Duration>>,
    /// By the wall: before this, the script cannot have used up its time.
    enough_until: Cell<Duration>,
    fault: RefCell<Option<ScriptFault>>,
}

impl Meter {
    pub(super) fn new(bound: Duration) -> Self {
        Self {
            bound,
            used: Cell::default(),
            running_since: Cell::default(),
            enough_until: Cell::default(),
            fault: RefCell::default(),
        }
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
        let wall = wall_time();
        if wall < self.enough_until.get() {
            return false;
        }
        let spent = self.spent();
        let over = spent > self.bound;
        self.enough_until.set(wall.saturating_add(self.bound.saturating_sub(spent)));
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
    read(ClockId::ThreadCPUTime)
}

/// The wall's time, from some moment on, which nothing sets back.
fn wall_time() -> Duration {
    read(ClockId::Monotonic)
}

fn read(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    let nanoseconds = u32::try_from(time.tv_nsec).unwrap_or_default();
    Duration::new(seconds, nanoseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_stop_once_the_time_is_used_up_and_not_before() {
        let meter = Meter::new(Duration::from_millis(20));
        meter.run();
        let begun = thread_time();
        let mut looks = 0_u32;
        while !meter.must_stop() {
            looks += 1;
        }
        let used = thread_time().saturating_sub(begun);
        assert!(used >= Duration::from_millis(19), "{used:?}");
        assert!(used < Duration::from_millis(200), "{used:?}");
        assert!(looks > 1);
        assert!(meter.must_stop(), "and nothing else from then on");
    }

    #[test]
    fn waiting_is_free_and_computing_before_it_is_not() {
        let meter = Meter::new(Duration::from_millis(20));
        for _ in 0..2 {
            meter.run();
            let begun = thread_time();
            while thread_time().saturating_sub(begun) < Duration::from_millis(6) {}
            assert!(!meter.must_stop());
            meter.rest();
            std::thread::sleep(Duration::from_millis(30));
        }
        meter.run();
        let begun = thread_time();
        while !meter.must_stop() {}
        assert!(thread_time().saturating_sub(begun) < Duration::from_millis(15));
    }
}
