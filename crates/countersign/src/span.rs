//! Lengths of time and sizes as people read them, and moments as servers write them.

use std::time::Duration;

use countersign_core::time::Timestamp;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// `14 ms`, `3.2 s`, `2 min 5 s`, `3 h 10 min`, `2 d 4 h`: two units at most.
pub(crate) fn span(length: Duration) -> String {
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

/// `310 bytes`, `12.4 kB`, `2.1 MB`.
pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} bytes"),
        1_000..1_000_000 => format!("{}.{} kB", bytes / 1_000, bytes % 1_000 / 100),
        _ => format!("{}.{} MB", bytes / 1_000_000, bytes % 1_000_000 / 100_000),
    }
}

/// A moment as RFC 3339 has it; nothing where it is none.
pub(crate) fn moment(text: &str) -> Option<Timestamp> {
    let moment: jiff::Timestamp = text.parse().ok()?;
    u64::try_from(moment.as_millisecond()).ok().map(Timestamp::from_millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_read_as_it_was_written() {
        let then = Timestamp::from_millis(1_700_000_000_123);
        assert_eq!(moment(&then.to_string()), Some(then));
        assert_eq!(moment("yesterday"), None);
    }

    #[test]
    fn a_size_has_the_unit_that_fits_it() {
        for (bytes, text) in [
            (0, "0 bytes"),
            (999, "999 bytes"),
            (1_000, "1.0 kB"),
            (12_480, "12.4 kB"),
            (2_100_000, "2.1 MB"),
        ] {
            assert_eq!(size(bytes), text);
        }
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
