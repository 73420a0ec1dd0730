//! Cursors: where a page ended, as an opaque text.
//!
//! Promise: pages follow one another without gaps or repeats while rows are added, because a cursor names the last row
//! itself by its number, and not how many rows came before it.

use countersign_kernel::ports::{Listing, Page, StoreError};

/// The most rows of one page.
const MAX_PAGE_ROWS: usize = 1_000;
const DIGITS: usize = 16;

/// Which list a cursor belongs to; it is foreign to the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum List {
    /// Newest first.
    Executions,
    /// Oldest first.
    Elicitations,
    /// Newest first.
    Sessions,
}

/// A page as a query needs it.
#[derive(Debug)]
pub(crate) struct Window {
    /// The number of the row that it begins after.
    pub(crate) start: i64,
    /// How many rows it may hold.
    pub(crate) limit: usize,
    list: List,
}

impl Window {
    /// Reads the page that the caller asks for.
    pub(crate) fn of(list: List, page: &Page) -> Result<Self, StoreError> {
        let start = match &page.cursor {
            Some(text) => parse(list, text).ok_or(StoreError::BadCursor)?,
            None => list.before_first(),
        };
        Ok(Self { start, limit: page.limit.min(MAX_PAGE_ROWS), list })
    }

    /// The number of rows to query: one more than fits shows whether there is a next page.
    pub(crate) fn rows(&self) -> i64 {
        i64::try_from(self.limit + 1).unwrap_or(i64::MAX)
    }

    /// The page, given up to [`Self::rows`] rows and the number of each.
    pub(crate) fn listing<T>(&self, mut items: Vec<T>, number: impl Fn(&T) -> i64) -> Listing<T> {
        let more = items.len() > self.limit;
        items.truncate(self.limit);
        let next = items.last().filter(|_| more).map(|last| text(self.list, number(last)));
        Listing { items, next, damaged: Vec::new() }
    }

    /// A page that ended before there were enough rows, because they are large.
    pub(crate) fn cut_short<T>(&self, mut items: Vec<T>, number: impl Fn(&T) -> i64) -> Listing<T> {
        items.truncate(self.limit);
        let next = items.last().map(|last| text(self.list, number(last)));
        Listing { items, next, damaged: Vec::new() }
    }
}

impl List {
    fn letter(self) -> char {
        match self {
            Self::Executions => 'x',
            Self::Elicitations => 'e',
            Self::Sessions => 's',
        }
    }

    /// Before the first row.
    fn before_first(self) -> i64 {
        match self {
            Self::Executions | Self::Sessions => i64::MAX,
            Self::Elicitations => 0,
        }
    }
}

fn text(list: List, number: i64) -> String {
    format!("{}{number:016x}", list.letter())
}

fn parse(list: List, text: &str) -> Option<i64> {
    let digits = text.strip_prefix(list.letter()).filter(|d| d.len() == DIGITS)?;
    if !digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
        return None;
    }
    i64::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_survives_its_text() {
        for no in [1, 7, 1_700_000_000_123, i64::MAX - 1] {
            assert_eq!(parse(List::Executions, &text(List::Executions, no)), Some(no));
        }
    }

    #[test]
    fn a_text_that_is_no_cursor_of_the_list_is_refused() {
        let good = text(List::Executions, 1);
        assert_eq!(parse(List::Elicitations, &good), None, "of another list");
        for bad in [
            "",
            "x",
            &good[1..],
            &good[..16],
            &format!("{good}0"),
            &good.replace('0', "+"),
            &good.replace('0', "é"),
        ] {
            assert_eq!(parse(List::Executions, bad), None, "{bad}");
        }
        assert_eq!(parse(List::Executions, &format!("x{}", "f".repeat(16))), None, "beyond every row");
    }
}
