//! Lengths of time as people read them, and moments as servers write them.

use countersign_core::time::Timestamp;
pub(crate) use countersign_core::time::span;

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
}
