//! The watchdog: finds children that compute too long without their engine noticing, and children that do nothing.
//!
//! Promise: waiting is free, because it watches only while a reply is owed. It measures the child's CPU time, not the
//! clock, so that no child is killed because the machine is busy; and it counts its own looks, so that no child is blamed
//! for the time in which the host itself was stopped.

use std::time::Duration;

use crate::limits::Limits;

/// The time between two looks.
pub(crate) const WATCH_EVERY: Duration = Duration::from_millis(25);

/// How much longer a child may compute than its script, so that the engine's own limit answers first.
pub(crate) const CPU_GRACE: Duration = Duration::from_millis(100);

/// How long a child may owe a reply without computing.
pub(crate) const STALL_BOUND: Duration = Duration::from_secs(30);

/// A child that computes less than this in [`STALL_BOUND`] has stalled.
const STALL_PROGRESS: Duration = Duration::from_millis(5);

/// Watches one child.
pub(crate) struct Watchdog {
    pid: u32,
    bound: Duration,
    /// The CPU time that the child had used before it got its script.
    before: Duration,
    /// The CPU time at the last progress.
    seen: Duration,
    idle: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Fine,
    /// It computed for too long.
    Overdue,
    /// It owes a reply and does not compute.
    Stalled,
}

impl Watchdog {
    /// Starts to count a child's CPU time.
    pub(crate) fn new(pid: u32, limits: &Limits) -> Self {
        let before = cpu_time(pid).unwrap_or_default();
        let bound = limits.cpu.saturating_add(CPU_GRACE);
        Self { pid, bound, before, seen: before, idle: Duration::ZERO }
    }

    /// An order was sent.
    pub(crate) fn expect_reply(&mut self) {
        self.idle = Duration::ZERO;
    }

    /// Judges a child that still owes its reply; to be called every [`WATCH_EVERY`].
    pub(crate) fn look(&mut self) -> Verdict {
        // Where the clock cannot be read, only stalling is found; the kernel's own CPU limit still holds.
        let used = cpu_time(self.pid).unwrap_or(self.seen);
        self.judge(used)
    }

    fn judge(&mut self, used: Duration) -> Verdict {
        if used.saturating_sub(self.before) > self.bound {
            return Verdict::Overdue;
        }
        if used.saturating_sub(self.seen) >= STALL_PROGRESS {
            self.seen = used;
            self.idle = Duration::ZERO;
            return Verdict::Fine;
        }
        self.idle += WATCH_EVERY;
        if self.idle > STALL_BOUND { Verdict::Stalled } else { Verdict::Fine }
    }
}

/// The CPU time of a process.
#[cfg(target_os = "linux")]
fn cpu_time(pid: u32) -> Option<Duration> {
    use nix::time::ClockId;
    let pid = nix::unistd::Pid::from_raw(i32::try_from(pid).ok()?);
    ClockId::pid_cpu_clock_id(pid).and_then(ClockId::now).ok().map(Duration::from)
}

#[cfg(not(target_os = "linux"))]
fn cpu_time(_pid: u32) -> Option<Duration> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watchdog() -> Watchdog {
        let limits = Limits { cpu: Duration::from_millis(300), ..Limits::default() };
        let before = Duration::from_millis(50);
        Watchdog { before, seen: before, ..Watchdog::new(0, &limits) }
    }

    #[test]
    fn computing_up_to_the_limit_and_its_grace_is_fine_and_more_is_not() {
        let mut watchdog = watchdog();
        assert_eq!(watchdog.judge(Duration::from_millis(450)), Verdict::Fine);
        assert_eq!(watchdog.judge(Duration::from_millis(451)), Verdict::Overdue);
    }

    #[test]
    fn a_child_that_does_nothing_has_the_stall_bound_and_not_a_tick_more() {
        let mut watchdog = watchdog();
        let ticks = STALL_BOUND.as_millis() / WATCH_EVERY.as_millis();
        for _ in 0..ticks {
            assert_eq!(watchdog.judge(Duration::from_millis(51)), Verdict::Fine);
        }
        assert_eq!(watchdog.judge(Duration::from_millis(51)), Verdict::Stalled);
    }

    #[test]
    fn a_starved_child_is_not_stalled_as_long_as_it_gets_on() {
        let mut watchdog = watchdog();
        for tick in 0..40_000_u64 {
            let used = Duration::from_millis(50) + Duration::from_micros(tick * 10);
            assert_eq!(watchdog.judge(used), Verdict::Fine, "tick {tick}");
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn computing_time_is_that_of_the_process() {
        let mine = std::process::id();
        let before = cpu_time(mine).unwrap();
        let mut sum = 0_u64;
        while cpu_time(mine).unwrap() < before + Duration::from_millis(20) {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert_eq!(cpu_time(u32::MAX), None);
    }
}
