//! How often a source is read anew by itself.
//!
//! Promise: what is written is either a length of time within bounds or `never`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use countersign_core::policy::{DurationError, parse_duration};
use serde::{Deserialize, Serialize};

/// How often it is looked whether a source offers something else, for those that do not tell it by themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum RefreshInterval {
    /// About so often.
    Every(Duration),
    /// Only when somebody asks for it, or the source says that it changed.
    Never,
}

/// Why a text is no interval.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadRefreshInterval {
    /// It is neither a duration nor `never`.
    #[error("refresh: {0}, or \"never\"")]
    Unreadable(#[from] DurationError),
    /// It would keep the source busy.
    #[error("refresh: {0:?} is too short; the shortest is \"{shortest}\"", shortest = RefreshInterval::Every(RefreshInterval::SHORTEST))]
    TooShort(String),
}

impl RefreshInterval {
    /// Where nothing is said.
    pub const DEFAULT: Duration = Duration::from_mins(15);
    /// The shortest that can be written.
    pub const SHORTEST: Duration = Duration::from_secs(10);
}

impl Default for RefreshInterval {
    fn default() -> Self {
        Self::Every(Self::DEFAULT)
    }
}

impl FromStr for RefreshInterval {
    type Err = BadRefreshInterval;

    fn from_str(text: &str) -> Result<Self, BadRefreshInterval> {
        if text == "never" {
            return Ok(Self::Never);
        }
        match parse_duration(text)? {
            short if short < Self::SHORTEST => Err(BadRefreshInterval::TooShort(text.to_owned())),
            length => Ok(Self::Every(length)),
        }
    }
}

impl fmt::Display for RefreshInterval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Every(length) = self else { return f.write_str("never") };
        // Only tests use shorter intervals, and the text must parse back to them.
        let seconds = length.as_secs().max(Self::SHORTEST.as_secs());
        let (number, unit) = match seconds {
            hours if hours % 3600 == 0 => (hours / 3600, 'h'),
            minutes if minutes % 60 == 0 => (minutes / 60, 'm'),
            seconds => (seconds, 's'),
        };
        write!(f, "{number}{unit}")
    }
}

impl TryFrom<String> for RefreshInterval {
    type Error = BadRefreshInterval;

    fn try_from(text: String) -> Result<Self, BadRefreshInterval> {
        text.parse()
    }
}

impl From<RefreshInterval> for String {
    fn from(interval: RefreshInterval) -> Self {
        interval.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_written_as_it_is_read() {
        for text in ["10s", "90s", "15m", "24h", "never"] {
            assert_eq!(text.parse::<RefreshInterval>().unwrap().to_string(), text);
        }
        assert_eq!(RefreshInterval::default().to_string(), "15m");
        assert_eq!("1d".parse::<RefreshInterval>().unwrap().to_string(), "24h");
    }

    #[test]
    fn what_is_no_interval_is_refused_with_what_to_write() {
        for (text, said) in [("often", "or \"never\""), ("9s", "the shortest is \"10s\""), ("0s", "no time")]
        {
            let refused = text.parse::<RefreshInterval>().unwrap_err().to_string();
            assert!(refused.contains(said), "{text}: {refused}");
        }
    }
}
