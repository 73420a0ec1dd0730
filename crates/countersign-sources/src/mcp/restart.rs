//! When a server that ended is started again: a pure decision; time and chance are arguments.

use std::collections::VecDeque;
use std::time::Duration;

/// The longest pause.
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// How often a process is started again within [`RESTART_WINDOW`].
pub const MAX_RESTARTS: usize = 5;
/// The time in which restarts are counted.
pub const RESTART_WINDOW: Duration = Duration::from_secs(600);

/// The restarts of one server so far.
#[derive(Debug, Clone)]
pub struct RestartPolicy {
    bound: RestartBound,
    first_pause: Duration,
    recent: VecDeque<Duration>,
}

/// Whether restarts are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestartBound {
    /// A process of ours that keeps ending is left off.
    Counted,
    /// A server elsewhere is tried for ever.
    Unbounded,
}

/// What to do about a server that ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restart {
    /// Start it again after this pause.
    After(Duration),
    /// Leave it off.
    Off,
}

impl RestartPolicy {
    /// No restarts so far.
    pub fn new(bound: RestartBound, first_pause: Duration) -> Self {
        Self { bound, first_pause, recent: VecDeque::new() }
    }

    /// Decides about the next restart and counts it. `now` is the time since any fixed moment; `jitter` is between 0 and
    /// 1 and shortens the pause by up to half of it, so that servers that ended together do not start together.
    pub fn next(&mut self, now: Duration, jitter: f64) -> Restart {
        while self.recent.front().is_some_and(|then| now.saturating_sub(*then) >= RESTART_WINDOW) {
            self.recent.pop_front();
        }
        if self.bound == RestartBound::Counted && self.recent.len() >= MAX_RESTARTS {
            return Restart::Off;
        }
        let doublings = u32::try_from(self.recent.len()).unwrap_or(u32::MAX).min(16);
        let pause = self.first_pause.saturating_mul(1 << doublings).min(LONGEST_PAUSE);
        self.recent.push_back(now);
        Restart::After(pause.mul_f64(1.0 - jitter.clamp(0.0, 1.0) / 2.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST_PAUSE: Duration = Duration::from_secs(1);

    #[test]
    fn pauses_double_and_the_sixth_restart_in_ten_minutes_is_refused() {
        let mut policy = RestartPolicy::new(RestartBound::Counted, FIRST_PAUSE);
        for seconds in [1, 2, 4, 8, 16] {
            assert_eq!(policy.next(Duration::ZERO, 0.0), Restart::After(Duration::from_secs(seconds)));
        }
        assert_eq!(policy.next(RESTART_WINDOW - Duration::from_millis(1), 0.0), Restart::Off);
        assert_eq!(policy.next(RESTART_WINDOW, 0.0), Restart::After(FIRST_PAUSE));
    }

    #[test]
    fn a_server_elsewhere_is_tried_for_ever_with_bounded_pauses() {
        let mut policy = RestartPolicy::new(RestartBound::Unbounded, FIRST_PAUSE);
        let pauses: Vec<_> = (0..40).map(|_| policy.next(Duration::ZERO, 0.0)).collect();
        assert!(pauses[6..].iter().all(|pause| *pause == Restart::After(LONGEST_PAUSE)), "{pauses:?}");
        assert_eq!(policy.next(Duration::ZERO, 1.0), Restart::After(LONGEST_PAUSE / 2));
    }
}
