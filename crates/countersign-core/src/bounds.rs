//! The named bounds on values from outside, checked in one walk.
//!
//! Promise: a value that passes has a canonical form that says exactly what it says. Integers that a double cannot
//! hold would be shown and digested as their neighbour, so they are refused here.

use std::time::Duration;

use serde_json::Value;

/// The largest argument, answer or result, in bytes of JSON.
pub const MAX_VALUE_BYTES: usize = 1024 * 1024;
/// The deepest nesting.
pub const MAX_VALUE_DEPTH: usize = 64;
/// The longest message, comment or reason, in bytes.
pub const MAX_TEXT_BYTES: usize = 16 * 1024;
/// The largest details of a failure, in bytes of JSON.
pub const MAX_FAILURE_DETAILS_BYTES: usize = 64 * 1024;
/// The most calls one execution may issue; a script's sleeps count too.
pub const MAX_CALLS: u32 = 10_000;
/// The longest script, in bytes of source.
pub const MAX_SCRIPT_BYTES: usize = 256 * 1024;
/// The longest sleep of a script, in milliseconds.
pub const MAX_SLEEP_MS: u64 = 24 * 60 * 60 * 1000;
/// The most bytes of arguments and results that one script's journal may hold.
pub const MAX_SCRIPT_JOURNAL_BYTES: usize = 64 * 1024 * 1024;
/// The most questions one call may ask.
pub const MAX_ASKS_PER_CALL: usize = 100;
/// The most steps one call may record.
pub const MAX_STEPS_PER_CALL: usize = 1_000;
/// How often a handler is entered without getting any further before it is taken to be what brings the process down.
pub const MAX_ENTRIES: u32 = 3;
/// How long after a person settled a call as "run it again" it may still start.
pub const RETRY_VALID_FOR: Duration = Duration::from_secs(24 * 60 * 60);
/// The longest journal.
pub const MAX_JOURNAL_EVENTS: u64 = 100_000;
/// Room at the end of a journal that is kept for ending what has begun: no step and no question goes there.
pub const RESERVED_EVENTS: u64 = 5_000;
/// The most open questions of one requester, in all of its sessions.
pub const MAX_PENDING_PER_REQUESTER: usize = 5_000;
/// The most bytes that the open questions of one requester have together. A question of ordinary size has some hundred.
pub const MAX_PENDING_BYTES_PER_REQUESTER: usize = 256 * 1024 * 1024;
/// The most sessions of one principal. Sessions are kept for good, so that no other principal can take their ids.
pub const MAX_SESSIONS_PER_PRINCIPAL: usize = 100_000;
/// The most bytes recorded for one requester in a day.
pub const MAX_STORED_BYTES_PER_DAY: u64 = 2 * 1024 * 1024 * 1024;
/// The most audit records that are looked at for one page of those that a filter lets through.
pub const MAX_AUDIT_SCAN: u64 = 10_000;
/// Integers beyond this are not exact in JSON's number type.
pub const MAX_SAFE_INTEGER: u64 = (1 << 53) - 1;

/// Why a value is out of bounds.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the names say it")]
pub enum BoundsError {
    #[error("the value is larger than {MAX_VALUE_BYTES} bytes")]
    TooLarge,
    #[error("the value is nested deeper than {MAX_VALUE_DEPTH} levels")]
    TooDeep,
    /// A NUL character, where many systems cut a text short.
    #[error("a text contains a NUL character, at which many systems cut it short")]
    Nul,
    /// An integer that would be rounded.
    #[error("the number {0} cannot be shown exactly; send it as a string")]
    InexactNumber(String),
}

impl BoundsError {
    /// The error code that callers rely on.
    pub fn code(&self) -> &'static str {
        match self {
            Self::TooLarge => "value_too_large",
            Self::TooDeep => "value_too_deep",
            Self::Nul | Self::InexactNumber(_) => "invalid_input",
        }
    }
}

/// Checks a value that a person will be shown: size, depth, and that its canonical form says what it says.
pub fn check(value: &Value) -> Result<(), BoundsError> {
    measure(value).map(|_| ())
}

/// The same, and about how many bytes it has.
pub fn measure(value: &Value) -> Result<usize, BoundsError> {
    let mut walk = Walk { left: MAX_VALUE_BYTES, content: Content::Shown };
    walk.visit(value, 0)?;
    Ok(MAX_VALUE_BYTES - walk.left)
}

/// Checks only size and depth, for values that are bound to no digest.
pub fn check_size(value: &Value) -> Result<(), BoundsError> {
    Walk { left: MAX_VALUE_BYTES, content: Content::Kept }.visit(value, 0)
}

#[derive(PartialEq)]
enum Content {
    Shown,
    Kept,
}

struct Walk {
    left: usize,
    content: Content,
}

impl Walk {
    fn visit(&mut self, value: &Value, depth: usize) -> Result<(), BoundsError> {
        if depth > MAX_VALUE_DEPTH {
            return Err(BoundsError::TooDeep);
        }
        match value {
            Value::Null | Value::Bool(_) => self.spend(4),
            Value::Number(number) if self.content == Content::Shown && inexact(number) => {
                Err(BoundsError::InexactNumber(number.to_string()))
            }
            Value::Number(_) => self.spend(1),
            Value::String(text) => self.spend_text(text),
            Value::Array(items) => {
                self.spend(2 + items.len().saturating_sub(1))?;
                items.iter().try_for_each(|item| self.visit(item, depth + 1))
            }
            Value::Object(map) => {
                self.spend(2 + map.len().saturating_sub(1))?;
                map.iter().try_for_each(|(key, item)| {
                    self.spend_text(key)?;
                    self.spend(1)?;
                    self.visit(item, depth + 1)
                })
            }
        }
    }

    fn spend_text(&mut self, text: &str) -> Result<(), BoundsError> {
        if self.content == Content::Shown && text.as_bytes().contains(&0) {
            return Err(BoundsError::Nul);
        }
        self.spend(text.len() + 2)
    }

    fn spend(&mut self, bytes: usize) -> Result<(), BoundsError> {
        self.left = self.left.checked_sub(bytes).ok_or(BoundsError::TooLarge)?;
        Ok(())
    }
}

/// Beyond 2^53 not every integer is a double, and below 1e21 a double is written as an integer: in between, what is
/// written is not what was meant.
fn inexact(number: &serde_json::Number) -> bool {
    const WRITTEN_WITH_EXPONENT: f64 = 1e21;
    number.as_f64().is_none_or(|f| f.abs() > MAX_SAFE_INTEGER as f64 && f.abs() < WRITTEN_WITH_EXPONENT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn nested(levels: usize) -> Value {
        (0..levels).fold(json!(1), |inner, _| json!([inner]))
    }

    #[test]
    fn every_bound_holds_at_its_edge() {
        let text = |n: usize| json!("x".repeat(n));
        assert_eq!(check(&text(MAX_VALUE_BYTES - 2)), Ok(()));
        assert_eq!(check(&text(MAX_VALUE_BYTES - 1)), Err(BoundsError::TooLarge));
        assert_eq!(check(&nested(MAX_VALUE_DEPTH)), Ok(()));
        assert_eq!(check(&nested(MAX_VALUE_DEPTH + 1)), Err(BoundsError::TooDeep));
        assert_eq!(check(&json!(MAX_SAFE_INTEGER)), Ok(()));
        assert!(matches!(check(&json!(MAX_SAFE_INTEGER + 1)), Err(BoundsError::InexactNumber(_))));
        assert!(matches!(check(&json!(-9_007_199_254_740_992_i64)), Err(BoundsError::InexactNumber(_))));
        assert!(
            matches!(check(&json!(-6.335_990_842_063_692e16)), Err(BoundsError::InexactNumber(_))),
            "found by proptest"
        );
        assert_eq!(check(&json!(1e21)), Ok(()));
    }

    #[test]
    fn nul_is_refused_in_values_and_keys_and_bidirectional_text_is_let_through() {
        assert_eq!(check(&json!({ "a": "x\0y" })), Err(BoundsError::Nul));
        assert_eq!(check(&json!({ "a\0": 1 })), Err(BoundsError::Nul));
        assert_eq!(check(&json!({ "a": "\u{202e}abc\u{2066}" })), Ok(()), "shown escaped, never dropped");
    }
}
