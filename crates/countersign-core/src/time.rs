//! Points in time, as data. This crate reads no clock.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// Milliseconds since 1970 in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(u64);

impl Timestamp {
    /// From milliseconds since 1970.
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms)
    }

    /// Milliseconds since 1970.
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// That much later; never overflows.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)))
    }

    /// How long until `later`; zero if it has passed.
    pub fn until(self, later: Self) -> Duration {
        Duration::from_millis(later.0.saturating_sub(self.0))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(i64::try_from(self.0).unwrap_or(i64::MAX)) {
            Ok(instant) => write!(f, "{instant:.3}"),
            Err(_) => write!(f, "{} ms", self.0),
        }
    }
}

/// A length of time as people read it: `14 ms`, `3.2 s`, `2 min 5 s`, `3 h 10 min`, `2 d 4 h`: two units at most.
pub fn span(length: Duration) -> String {
    let seconds = length.as_secs();
    let two = |large: u64, large_name: &str, small: u64, small_name: &str| match small {
        0 => format!("{large} {large_name}"),
        _ => format!("{large} {large_name} {small} {small_name}"),
    };
    match seconds {
        0 => format!("{} ms", length.as_millis()),
        1..10 => format!("{:.1} s", length.as_secs_f64()),
        10..MINUTE => format!("{seconds} s"),
        MINUTE..HOUR => two(seconds / MINUTE, "min", seconds % MINUTE, "s"),
        HOUR..DAY => two(seconds / HOUR, "h", seconds % HOUR / MINUTE, "min"),
        _ => two(seconds / DAY, "d", seconds % DAY / HOUR, "h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_prints_as_rfc_3339_and_never_overflows() {
        assert_eq!(Timestamp::from_millis(1_700_000_000_123).to_string(), "2023-11-14T22:13:20.123Z");
        assert_eq!(Timestamp::from_millis(u64::MAX).after(Duration::MAX).as_millis(), u64::MAX);
        assert!(Timestamp::from_millis(u64::MAX).to_string().ends_with("ms"));
    }

    #[test]
    fn two_units_at_most() {
        for (ms, text) in [
            (0, "0 ms"),
            (14, "14 ms"),
            (3_249, "3.2 s"),
            (59_999, "59 s"),
            (60_000, "1 min"),
            (125_000, "2 min 5 s"),
            (11_400_000, "3 h 10 min"),
            (86_400_000, "1 d"),
            (187_200_000, "2 d 4 h"),
        ] {
            assert_eq!(span(Duration::from_millis(ms)), text);
        }
    }
}
