//! Lengths of time and sizes as people read them, and moments as servers write them.

use countersign_core::time::Timestamp;
pub(crate) use countersign_core::time::span;

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
}
