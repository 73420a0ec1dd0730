//! One question as rows of a pane: everything that a person decides by, and nothing that is not in it.

use std::time::Duration;

use countersign_server::wire::Pending;

use crate::coverage;
use crate::report;
use crate::shown::{self, Row, RowKind};

/// A row of the page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PageRow {
    /// Our own word for what follows.
    Heading(&'static str),
    /// Our own words.
    Own(String),
    /// Somebody else's text.
    Foreign(Row),
}

/// The page of a question for a pane of this width.
pub(super) fn page(
    pending: &Pending,
    denials: &[String],
    remember_for: Option<Duration>,
    width: usize,
) -> Vec<PageRow> {
    let inside = width.saturating_sub(RowKind::Begins.gutter().chars().count()).max(1);
    let mut rows = Vec::new();
    let mut section = |heading, body: Vec<Row>| {
        rows.push(PageRow::Heading(heading));
        rows.extend(body.into_iter().map(PageRow::Foreign));
    };
    if !denials.is_empty() {
        // They were made visible where they were put together; the gutter keeps their comments from passing for ours.
        let rows = denials.iter().flat_map(|denial| shown::plain_rows(denial, inside));
        section("the very same was denied before", rows.collect());
    }
    section("message, in the tool's words", shown::text_rows(&pending.message, inside));
    section("why it asks", shown::text_rows(&pending.because, inside));
    if let Some(schema) = pending.schema.as_ref().filter(|_| !report::authorises(pending)) {
        section("form", shown::json_rows(&schema["properties"], inside));
    }
    section("arguments, exactly as they will run", shown::json_rows(&pending.args, inside));
    if let Some(covers) = coverage::words(pending, coverage::of_plain_yes(pending), remember_for) {
        rows.push(PageRow::Heading("what an approval covers"));
        rows.extend(shown::plain_rows(&covers, width).into_iter().map(|row| PageRow::Own(row.text)));
    }
    rows
}
