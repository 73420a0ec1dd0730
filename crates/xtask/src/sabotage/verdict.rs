//! The verdict of the tests on a fault, read from nextest's exit code and report.

use std::fmt;

/// The exit codes of nextest, which are part of its contract.
const ALL_PASSED: i32 = 0;
const A_TEST_FAILED: i32 = 100;
const BUILD_FAILED: i32 = 101;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// This test went red first.
    Caught { test: String },
    /// Everything stayed green.
    NotCaught,
    /// The fault does not compile, so that there is no program to test.
    DoesNotCompile,
}

impl Verdict {
    /// Nothing where nextest ended in another way, such as without finding a test.
    pub(super) fn of(exit_code: Option<i32>, report: &str) -> Option<Verdict> {
        match exit_code? {
            ALL_PASSED => Some(Verdict::NotCaught),
            A_TEST_FAILED => first_red(report).map(|test| Verdict::Caught { test }),
            BUILD_FAILED => Some(Verdict::DoesNotCompile),
            _ => None,
        }
    }

    pub(super) fn is_caught(&self) -> bool {
        matches!(self, Verdict::Caught { .. })
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Caught { test } => f.write_str(test),
            Verdict::NotCaught => f.write_str("NOT CAUGHT"),
            Verdict::DoesNotCompile => f.write_str("does not compile"),
        }
    }
}

/// The program and name of the first test that failed, hung or crashed.
fn first_red(report: &str) -> Option<String> {
    report.lines().find_map(|line| {
        let (status, rest) = line.trim_start().split_once(" [")?;
        let red = ["FAIL", "TIMEOUT", "ABORT"].contains(&status) || status.starts_with("SIG");
        let (_, named) = rest.split_once(']').filter(|_| red)?;
        // nextest counts the tests in parentheses before it names them.
        let named = named.rsplit_once(") ").map_or(named, |(_, named)| named);
        Some(named.trim().to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const RED: &str = "   Compiling countersign-core v0.1.0\n\
        \x20       FAIL [   0.012s] (  3/120) countersign-core::execution starts::a_yes_is_used_once\n\
        \x20 stderr ───\n    thread panicked\n\
        \x20    SIGABRT [   0.100s] (  4/120) countersign-core::execution starts::another\n";

    #[test]
    fn the_first_red_test_catches_the_fault() {
        let test = "countersign-core::execution starts::a_yes_is_used_once".to_owned();
        assert_eq!(Verdict::of(Some(100), RED), Some(Verdict::Caught { test }));
        let hung = "     TIMEOUT [ 300.001s] ( 1/10) countersign::cli calls::one\n";
        assert_eq!(first_red(hung), Some("countersign::cli calls::one".to_owned()));
    }

    #[test]
    fn green_tests_have_not_caught_it_and_a_failed_build_says_nothing() {
        assert_eq!(Verdict::of(Some(0), ""), Some(Verdict::NotCaught));
        assert_eq!(Verdict::of(Some(101), "error[E0308]"), Some(Verdict::DoesNotCompile));
        assert!(!Verdict::NotCaught.is_caught() && !Verdict::DoesNotCompile.is_caught());
    }

    #[test]
    fn a_run_without_tests_is_no_verdict() {
        assert_eq!(Verdict::of(Some(4), "error: no tests to run"), None);
        assert_eq!(Verdict::of(None, RED), None, "killed by somebody");
    }
}
