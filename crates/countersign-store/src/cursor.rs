//! Cursors: where a page ended, as an opaque text.
//!
//! Promise: pages follow one another without gaps or repeats while rows are added, because a cursor names the last row
//! itself (its time and id) and not how many rows came before it.

use countersign_core::time::Timestamp;
use countersign_kernel::ports::{Listing, Page, StoreError};

use crate::rows::{Blob, millis};

/// The most one page holds.
const MOST: usize = 1_000;
const DIGITS: usize = 48;

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

/// Where a page begins: strictly after this row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Start {
    /// The row's time.
    pub(crate) at: i64,
    /// The row's id. The edge of the whole list is no id, but compares as one.
    pub(crate) id: Vec<u8>,
}

impl Start {
    /// The row's number, where rows of the list are named by number and not by id.
    pub(crate) fn number(&self) -> i64 {
        let id = Blob::try_from(self.id.as_slice()).ok().map(u128::from_be_bytes);
        id.and_then(|number| i64::try_from(number).ok()).unwrap_or(i64::MAX)
    }
}

/// What names a row by its number.
pub(crate) fn numbered(no: i64) -> Blob {
    u128::from(no.unsigned_abs()).to_be_bytes()
}

/// A page as a query needs it.
#[derive(Debug)]
pub(crate) struct Window {
    /// Where it begins.
    pub(crate) start: Start,
    /// How many rows it may hold.
    pub(crate) limit: usize,
    list: List,
}

impl Window {
    /// Reads what the caller asks for.
    pub(crate) fn of(list: List, page: &Page) -> Result<Self, StoreError> {
        let start = match &page.cursor {
            Some(text) => parse(list, text).ok_or(StoreError::BadCursor)?,
            None => edge(list),
        };
        Ok(Self { start, limit: page.limit.min(MOST), list })
    }

    /// How many rows to query: one more than fit says whether there is a next page.
    pub(crate) fn rows(&self) -> i64 {
        i64::try_from(self.limit + 1).unwrap_or(i64::MAX)
    }

    /// The page, given up to [`Self::rows`] rows and what names a row.
    pub(crate) fn listing<T>(&self, mut items: Vec<T>, name: impl Fn(&T) -> (Timestamp, Blob)) -> Listing<T> {
        let more = items.len() > self.limit;
        items.truncate(self.limit);
        let next = items.last().filter(|_| more).map(|last| text(self.list, name(last)));
        Listing { items, next, damaged: Vec::new() }
    }
}

impl Window {
    /// A page that ended before there were enough rows, because they are large.
    pub(crate) fn cut_short<T>(&self, items: Vec<T>, name: impl Fn(&T) -> (Timestamp, Blob)) -> Listing<T> {
        let next = items.last().map(|last| text(self.list, name(last)));
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
}

/// Before the first row, whatever its time and id.
fn edge(list: List) -> Start {
    match list {
        List::Executions | List::Sessions => Start { at: i64::MAX, id: vec![0xff; 17] },
        List::Elicitations => Start { at: i64::MIN, id: Vec::new() },
    }
}

fn text(list: List, (at, id): (Timestamp, Blob)) -> String {
    format!("{}{:016x}{:032x}", list.letter(), millis(at), u128::from_be_bytes(id))
}

fn parse(list: List, text: &str) -> Option<Start> {
    let digits = text.strip_prefix(list.letter()).filter(|d| d.len() == DIGITS)?;
    if !digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
        return None;
    }
    let (at, id) = digits.split_at(16);
    let at = i64::from_str_radix(at, 16).ok()?;
    let id = u128::from_str_radix(id, 16).ok()?;
    Some(Start { at, id: id.to_be_bytes().to_vec() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_survives_its_text() {
        let id = [0xab; 16];
        let text = text(List::Executions, (Timestamp::from_millis(1_700_000_000_123), id));
        assert_eq!(parse(List::Executions, &text), Some(Start { at: 1_700_000_000_123, id: id.to_vec() }));
    }

    #[test]
    fn a_row_that_is_named_by_its_number_is_found_again() {
        for no in [1, 7, i64::MAX - 1] {
            let text = text(List::Sessions, (Timestamp::from_millis(5), numbered(no)));
            let start = parse(List::Sessions, &text).unwrap();
            assert_eq!((start.at, start.number()), (5, no));
        }
        assert_eq!(edge(List::Sessions).number(), i64::MAX, "before the first row");
    }

    #[test]
    fn whatever_is_not_one_of_ours_is_refused() {
        let good = text(List::Executions, (Timestamp::from_millis(1), [1; 16]));
        assert_eq!(parse(List::Elicitations, &good), None, "of another list");
        for bad in [
            "",
            "x",
            &good[1..],
            &good[..48],
            &format!("{good}0"),
            &good.replace('0', "+"),
            &good.replace('0', "é"),
        ] {
            assert_eq!(parse(List::Executions, bad), None, "{bad}");
        }
        assert_eq!(
            parse(List::Executions, &format!("x{}", "f".repeat(48))),
            None,
            "a time that no row can have"
        );
    }
}
