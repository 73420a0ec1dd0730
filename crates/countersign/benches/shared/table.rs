//! How every bench prints its figures: what was measured, what was seen, what it should reach.

use std::time::Duration;

/// The heading of the table.
pub(crate) fn heading() {
    row("what", "median", "reach");
}

/// One line of the table.
pub(crate) fn row(what: &str, seen: &str, reach: &str) {
    println!("{what:<70} {seen:>22}   {reach}");
}

/// The median of some times; zero where there are none.
pub(crate) fn median(mut samples: Vec<Duration>) -> Duration {
    samples.sort_unstable();
    samples.get(samples.len() / 2).copied().unwrap_or_default()
}
