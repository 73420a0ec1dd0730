//! Durations as people write them: a whole number and one unit.
//!
//! Promise: one way to write each length, so that a reader never has to add up; nothing is zero and nothing is longer
//! than a year.

use std::time::Duration;

/// The longest duration, in days.
pub const MAX_DURATION_DAYS: u64 = 365;

const SECONDS_PER_DAY: u64 = 24 * 60 * 60;

/// Why a string is no duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// Not a number and a unit.
    #[error(
        "{0:?} is no duration; write a whole number and one of s, m, h, d, such as \"90s\", \"15m\", \"24h\" or \"7d\""
    )]
    Unreadable(String),
    /// No time at all.
    #[error("{0:?} is no time at all; the shortest duration is \"1s\"")]
    Zero(String),
    /// More than a year.
    #[error("{0:?} is too long; the longest duration is \"{MAX_DURATION_DAYS}d\"")]
    TooLong(String),
}

/// Reads `90s`, `15m`, `24h` or `7d`.
pub fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    let unreadable = || DurationError::Unreadable(text.chars().take(40).collect());
    let unit = text.chars().next_back().ok_or_else(unreadable)?;
    let seconds_per_unit = match unit {
        's' => 1,
        'm' => 60,
        'h' => 60 * 60,
        'd' => SECONDS_PER_DAY,
        _ => return Err(unreadable()),
    };
    let number = &text[..text.len() - unit.len_utf8()];
    if number.is_empty() || !number.bytes().all(|b| b.is_ascii_digit()) {
        return Err(unreadable());
    }
    let too_long = || DurationError::TooLong(text.chars().take(40).collect());
    // Only a number too large for 64 bits is left to fail here.
    let number: u64 = number.parse().map_err(|_| too_long())?;
    match number.checked_mul(seconds_per_unit) {
        Some(0) => Err(DurationError::Zero(text.to_owned())),
        Some(seconds) if seconds <= MAX_DURATION_DAYS * SECONDS_PER_DAY => Ok(Duration::from_secs(seconds)),
        _ => Err(too_long()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_number_and_a_unit_make_a_duration() {
        for (text, seconds) in
            [("90s", 90), ("1s", 1), ("15m", 900), ("24h", 86_400), ("7d", 604_800), ("365d", 31_536_000)]
        {
            assert_eq!(parse_duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused_with_what_to_write() {
        for text in
            ["", "h", "24", "1.5h", "1h30m", "-1h", "+1h", " 1h", "1 h", "24H", "1w", "1ä", "١h", "forever"]
        {
            let error = parse_duration(text).unwrap_err();
            assert!(matches!(error, DurationError::Unreadable(_)), "{text:?}: {error}");
            assert!(error.to_string().contains("\"15m\""), "{text:?}: {error}");
        }
    }

    #[test]
    fn zero_and_more_than_a_year_are_refused() {
        for text in ["0s", "0d", "000h"] {
            assert!(matches!(parse_duration(text).unwrap_err(), DurationError::Zero(_)), "{text}");
        }
        for text in ["366d", "31536001s", "99999999999999999999999d", "18446744073709551615d"] {
            let error = parse_duration(text).unwrap_err();
            assert!(error.to_string().ends_with("is too long; the longest duration is \"365d\""), "{error}");
        }
    }
}
