//! The closing table: every step, how it ended and how long it took.

use std::fmt;
use std::time::Duration;

#[derive(Debug, Default)]
pub(super) struct Summary(Vec<Row>);

#[derive(Debug)]
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) outcome: Outcome,
    pub(super) duration: Duration,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Passed,
    Failed,
    Skipped(&'static str),
    NotReached,
}

impl Summary {
    pub(super) fn add(&mut self, row: Row) {
        self.0.push(row);
    }
}

impl Outcome {
    pub(super) fn from_success(success: bool) -> Outcome {
        if success { Outcome::Passed } else { Outcome::Failed }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.0.iter().map(|row| row.name.len()).max().unwrap_or_default();
        for row in &self.0 {
            writeln!(f, "{:width$}  {:>8}  {}", row.name, seconds(row.duration), row.outcome)?;
        }
        Ok(())
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Passed => f.write_str("passed"),
            Outcome::Failed => f.write_str("FAILED"),
            Outcome::Skipped(why) => write!(f, "skipped: {why}"),
            Outcome::NotReached => f.write_str("not reached"),
        }
    }
}

pub(super) fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_aligned_and_says_why_a_step_was_skipped() {
        let mut summary = Summary::default();
        let (passed, skipped) = (Outcome::Passed, Outcome::Skipped("no network"));
        summary.add(Row { name: "doc tests", outcome: passed, duration: Duration::from_millis(61_250) });
        summary.add(Row { name: "wasm32", outcome: skipped, duration: Duration::ZERO });
        let expected = "doc tests    61.2 s  passed\nwasm32        0.0 s  skipped: no network\n";
        assert_eq!(summary.to_string(), expected);
    }
}
