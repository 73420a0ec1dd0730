//! A circuit breaker: a source that keeps failing is left alone for a while. A pure state machine; time is an argument.
//!
//! Promise: after [`FAILURES_TO_OPEN`] failures in a row no call is admitted until a pause has passed; then one call is
//! admitted as a probe. Its success closes the breaker, its failure doubles the pause.

use std::time::Duration;

/// How many failures in a row open the breaker.
pub const FAILURES_TO_OPEN: u32 = 5;
/// The first pause.
pub const FIRST_PAUSE: Duration = Duration::from_secs(5);
/// The longest pause.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(120);

/// The breaker of one source. Times are durations since any fixed moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Breaker {
    state: State,
    pause: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    Closed { failures: u32 },
    Open { until: Duration },
    Probing,
}

/// What one admitted call came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Report {
    /// The source answered.
    Worked,
    /// The source could not be reached, gave no whole answer, or said that it is down.
    Failed,
    /// The call was given up before it came to anything.
    Abandoned,
}

/// The breaker is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Open {
    /// How long until a call may be admitted. Zero while a probe is on its way.
    pub retry_in: Duration,
}

impl Default for Breaker {
    fn default() -> Self {
        Self { state: State::Closed { failures: 0 }, pause: FIRST_PAUSE }
    }
}

impl Breaker {
    /// Asks whether a call may be made now. Whoever is admitted must [`report`](Self::report).
    pub fn admit(&mut self, now: Duration) -> Result<(), Open> {
        match self.state {
            State::Closed { .. } => Ok(()),
            State::Open { until } if now < until => Err(Open { retry_in: until - now }),
            State::Open { .. } => {
                self.state = State::Probing;
                Ok(())
            }
            State::Probing => Err(Open { retry_in: Duration::ZERO }),
        }
    }

    /// Records what an admitted call came to.
    pub fn report(&mut self, now: Duration, report: Report) {
        self.state = match (&self.state, report) {
            (_, Report::Worked) => {
                self.pause = FIRST_PAUSE;
                State::Closed { failures: 0 }
            }
            (State::Closed { failures }, Report::Failed) if failures + 1 < FAILURES_TO_OPEN => {
                State::Closed { failures: failures + 1 }
            }
            (State::Closed { .. }, Report::Failed) => State::Open { until: now + self.pause },
            (State::Probing, Report::Failed) => {
                self.pause = (self.pause * 2).min(LONGEST_PAUSE);
                State::Open { until: now + self.pause }
            }
            // Nothing was learned: the next call is the probe.
            (State::Probing, Report::Abandoned) => State::Open { until: now },
            (State::Closed { failures }, Report::Abandoned) => State::Closed { failures: *failures },
            // A call that began before the breaker opened.
            (State::Open { until }, Report::Failed | Report::Abandoned) => State::Open { until: *until },
        };
    }

    /// How long until a call may be admitted; nothing while every call is.
    pub fn pause(&self, now: Duration) -> Option<Duration> {
        match self.state {
            State::Closed { .. } => None,
            State::Open { until } => Some(until.saturating_sub(now)),
            State::Probing => Some(Duration::ZERO),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Duration = Duration::from_secs(1_000);

    fn opened() -> Breaker {
        let mut breaker = Breaker::default();
        for _ in 0..FAILURES_TO_OPEN {
            breaker.admit(START).unwrap();
            breaker.report(START, Report::Failed);
        }
        breaker
    }

    #[test]
    fn it_says_for_how_long_it_stays_open() {
        let second = Duration::from_secs(1);
        assert_eq!(Breaker::default().pause(START), None);
        assert_eq!(opened().pause(START + second), Some(FIRST_PAUSE - second));
        assert_eq!(opened().pause(START + FIRST_PAUSE + second), Some(Duration::ZERO));
    }

    #[test]
    fn it_opens_at_the_fifth_failure_in_a_row_and_not_before() {
        let mut breaker = Breaker::default();
        for _ in 0..FAILURES_TO_OPEN - 1 {
            breaker.report(START, Report::Failed);
        }
        assert_eq!(breaker.admit(START), Ok(()));
        breaker.report(START, Report::Worked);
        for _ in 0..FAILURES_TO_OPEN - 1 {
            breaker.report(START, Report::Failed);
        }
        assert_eq!(breaker.admit(START), Ok(()));
        breaker.report(START, Report::Failed);
        assert_eq!(breaker.admit(START), Err(Open { retry_in: FIRST_PAUSE }));
    }

    #[test]
    fn after_the_pause_one_call_probes_and_the_others_wait_for_it() {
        let mut breaker = opened();
        assert!(breaker.admit(START + FIRST_PAUSE - Duration::from_millis(1)).is_err());
        assert_eq!(breaker.admit(START + FIRST_PAUSE), Ok(()));
        assert!(breaker.admit(START + FIRST_PAUSE).is_err());
        assert_eq!(breaker.pause(START + FIRST_PAUSE), Some(Duration::ZERO));
        breaker.report(START + FIRST_PAUSE, Report::Worked);
        assert_eq!(breaker.pause(START + FIRST_PAUSE), None);
    }

    #[test]
    fn a_failed_probe_doubles_the_pause_up_to_a_bound() {
        let mut breaker = opened();
        let mut now = START;
        let mut pause = FIRST_PAUSE;
        for _ in 0..10 {
            now += pause;
            assert_eq!(breaker.admit(now), Ok(()));
            breaker.report(now, Report::Failed);
            pause = (pause * 2).min(LONGEST_PAUSE);
            assert_eq!(breaker.admit(now), Err(Open { retry_in: pause }));
        }
        assert_eq!(pause, LONGEST_PAUSE);
    }

    #[test]
    fn a_probe_that_was_given_up_makes_room_for_the_next() {
        let mut breaker = opened();
        breaker.admit(START + FIRST_PAUSE).unwrap();
        breaker.report(START + FIRST_PAUSE, Report::Abandoned);
        assert_eq!(breaker.admit(START + FIRST_PAUSE), Ok(()));
    }
}
