//! How much of its CPU time a script has used, and whether it must stop.
//!
//! CPU time is that of the thread, not of the clock: a busy machine must not end a script, and waiting is free. Once the
//! meter says stop it never says anything else.
//!
//! Reading a thread's CPU time costs a system call, reading the clock does not. A thread never computes longer than the
//! clock advances, so the CPU time is read again only when the rest of it could be used up by the clock.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use countersign_kernel::ports::ScriptFault;
use rustix::time::{ClockId, clock_gettime};

use crate::limits::Limits;

pub(super) struct Meter {
    limits: Limits,
    /// The thread's CPU time when the script started, if it did.
    started_at: Cell<Option<Duration>>,
    /// By the clock: before this, the script cannot have used up its CPU time.
    enough_until: Cell<Duration>,
    fault: RefCell<Option<ScriptFault>>,
}

impl Meter {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            limits: limits.clone(),
            started_at: Cell::default(),
            enough_until: Cell::default(),
            fault: RefCell::default(),
        }
    }

    /// The script starts. Its thread runs nothing else from here on.
    pub(super) fn start(&self) {
        self.started_at.set(Some(thread_time()));
    }

    /// Ends the script. The first reason stays.
    pub(super) fn stop(&self, fault: ScriptFault) {
        self.fault.borrow_mut().get_or_insert(fault);
    }

    /// Whether the script must stop. The engine asks while it runs script code, which cannot change the answer.
    pub(super) fn must_stop(&self) -> bool {
        if self.fault.borrow().is_some() {
            return true;
        }
        let (Some(started_at), now) = (self.started_at.get(), clock()) else { return false };
        if now < self.enough_until.get() {
            return false;
        }
        let spent = thread_time().saturating_sub(started_at);
        self.enough_until.set(now.saturating_add(self.limits.cpu.saturating_sub(spent)));
        let over = spent > self.limits.cpu;
        if over {
            self.stop(self.limits.cpu_exceeded());
        }
        over
    }

    /// Why the script was ended.
    pub(super) fn fault(&self) -> Option<ScriptFault> {
        self.fault.borrow().clone()
    }
}

/// The CPU time of this thread.
pub(super) fn thread_time() -> Duration {
    read(ClockId::ThreadCPUTime)
}

/// A clock that nothing sets back.
fn clock() -> Duration {
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

    fn of_20_ms() -> Meter {
        let meter = Meter::new(&Limits { cpu: Duration::from_millis(20), ..Limits::default() });
        meter.start();
        meter
    }

    #[test]
    fn it_says_stop_once_the_time_is_used_up_and_not_before() {
        let meter = of_20_ms();
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
        let meter = of_20_ms();
        for _ in 0..2 {
            let begun = thread_time();
            while thread_time().saturating_sub(begun) < Duration::from_millis(6) {}
            assert!(!meter.must_stop());
            std::thread::sleep(Duration::from_millis(30));
        }
        let begun = thread_time();
        while !meter.must_stop() {}
        assert!(thread_time().saturating_sub(begun) < Duration::from_millis(15));
    }
}
