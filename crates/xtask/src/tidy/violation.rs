//! One broken rule, and where.

use std::fmt;

/// Ordered by place, so that a report reads file by file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Violation {
    /// Relative to the repository root, with `/` between its parts.
    pub(super) file: String,
    /// The first line is 1.
    pub(super) line: usize,
    pub(super) rule: &'static str,
    pub(super) message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {}", self.file, self.line, self.rule, self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_violation_is_printed_so_that_editors_can_follow_it() {
        let violation =
            Violation { file: "crates/a/src/lib.rs".into(), line: 7, rule: "names", message: "no".into() };
        assert_eq!(violation.to_string(), "crates/a/src/lib.rs:7: names: no");
    }
}
