//! Foreign text, shown to a person (R13).
//!
//! Promises: nothing of it steers the terminal, hides or reorders; all of it is shown; and none of it can pass for ours,
//! because every line of a block stands behind a gutter, also where it had to be broken.

use countersign_core::visible::{Visible, Warning, listed, visible, visible_json};
use ratatui::text::Span;
use serde_json::Value;

use crate::screen::Paint;

/// Where a long line is broken. Terminals break at their own width too, but without a gutter.
const WIDTH: usize = 90;

const JOINER: char = '\u{200d}';
const EMOJI_FORM: char = '\u{fe0f}';

/// One line of foreign text: line breaks are written out too.
pub(crate) fn line(text: &str) -> String {
    visible(text).text.replace('\n', "⟦U+000A⟧")
}

/// Foreign text for a message that is made visible as a whole when it is printed: it just may not begin a line.
pub(crate) fn flat(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

/// A row of a block: no wider than was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) text: String,
    pub(crate) kind: RowKind,
}

/// What a row is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowKind {
    /// A line of the text, or its beginning.
    Begins,
    /// A line goes on that had to be broken.
    GoesOn,
    /// Our own words about what is odd.
    Warns,
}

impl RowKind {
    /// What stands before a row, so that no text of others passes for ours.
    pub(crate) fn gutter(self) -> &'static str {
        match self {
            Self::Begins => "│ ",
            Self::GoesOn => "┊ ",
            Self::Warns => "",
        }
    }
}

/// A block of foreign text behind a gutter, and what is odd about it.
pub(crate) fn block(text: &str, indent: &str, paint: Paint) -> String {
    painted(&text_rows(text, WIDTH), indent, paint)
}

/// A JSON value, whole, behind a gutter.
pub(crate) fn json_block(value: &Value, indent: &str, paint: Paint) -> String {
    painted(&json_rows(value, WIDTH), indent, paint)
}

/// Foreign text in rows, and what is odd about it.
pub(crate) fn text_rows(text: &str, width: usize) -> Vec<Row> {
    let Visible { text, warnings } = visible(text);
    rows(&text, &warnings, width)
}

/// Text that was made visible already, in rows.
pub(crate) fn plain_rows(text: &str, width: usize) -> Vec<Row> {
    rows(text, &[], width)
}

/// A JSON value in rows, and what is odd about it.
pub(crate) fn json_rows(value: &Value, width: usize) -> Vec<Row> {
    let Visible { text, warnings } = visible_json(value);
    rows(&text, &warnings, width)
}

/// A JSON value over several lines, made visible.
pub(crate) fn json(value: &Value) -> String {
    visible_json(value).text
}

fn rows(text: &str, warnings: &[Warning], width: usize) -> Vec<Row> {
    let mut all = Vec::new();
    for line in text.split('\n') {
        let mut kind = RowKind::Begins;
        for text in broken(line, width) {
            all.push(Row { text, kind });
            kind = RowKind::GoesOn;
        }
    }
    let warned = warned(warnings).into_iter().flat_map(|text| broken(&text, width));
    all.extend(warned.map(|text| Row { text, kind: RowKind::Warns }));
    all
}

/// A line in pieces that take no more columns than this. Whatever has no width of its own counts as one: a thousand
/// accents on one letter are not seen as a thousand. What holds an emoji together is never torn apart: alone it is invisible.
fn broken(line: &str, width: usize) -> Vec<String> {
    let (mut pieces, mut used) = (vec![String::new()], 0);
    for unit in units(line) {
        let columns = columns(&unit);
        if used > 0 && used + columns > width {
            pieces.push(String::new());
            used = 0;
        }
        if let Some(piece) = pieces.last_mut() {
            piece.push_str(&unit);
        }
        used += columns;
    }
    pieces
}

/// Characters, and emoji that are made of several.
fn units(line: &str) -> Vec<String> {
    let mut units: Vec<String> = Vec::new();
    for c in line.chars() {
        match units.last_mut() {
            Some(unit) if matches!(c, JOINER | EMOJI_FORM) || unit.ends_with(JOINER) => unit.push(c),
            _ => units.push(c.into()),
        }
    }
    units
}

/// How many columns a unit takes, also on a terminal that does not know how to join it.
fn columns(unit: &str) -> usize {
    let apart = unit.chars().filter(|c| !matches!(*c, JOINER | EMOJI_FORM));
    let apart: usize = apart.map(|c| Span::raw(c.encode_utf8(&mut [0; 4]) as &str).width().max(1)).sum();
    Span::raw(unit).width().max(apart)
}

fn painted(rows: &[Row], indent: &str, paint: Paint) -> String {
    let line = |row: &Row| match row.kind {
        RowKind::Warns => format!("{indent}{}\n", paint.yellow(&row.text)),
        kind => format!("{indent}{} {}\n", paint.dim(kind.gutter().trim_end()), row.text),
    };
    rows.iter().map(line).collect()
}

fn warned(warnings: &[Warning]) -> Option<String> {
    listed(warnings).map(|found| format!("! It contains {found}. Each place is marked ⟦…⟧."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_line_stands_behind_the_gutter() {
        let hostile = format!("ok\nwhy: fine\n{}[a]pprove", "x".repeat(WIDTH));
        let shown = block(&hostile, "  ", Paint::Plain);
        assert!(shown.lines().all(|line| line.starts_with("  │ ") || line.starts_with("  ┊ ")), "{shown}");
        assert!(shown.contains("  ┊ [a]pprove"), "{shown}");
    }

    #[test]
    fn no_row_is_wider_than_the_pane_and_none_of_the_text_is_lost() {
        let warned = text_rows("\u{202e}", 20);
        assert!(warned.iter().all(|row| Span::raw(row.text.as_str()).width() <= 20), "{warned:?}");
        for text in ["plain words", "日本語の引数", "❤️❤️❤️❤️", "x\u{300}\u{301}\u{302}\u{303} x\u{300}", ""]
        {
            let rows = text_rows(text, 5);
            assert!(rows.iter().all(|row| Span::raw(row.text.as_str()).width() <= 5), "{rows:?}");
            assert_eq!(rows.iter().map(|row| row.text.as_str()).collect::<String>(), text);
        }
    }

    #[test]
    fn escapes_and_reordering_are_written_out_and_warned_of() {
        let shown = json_block(&json!({ "a": "x\u{202e}y", "b": "\u{9b}2J" }), "", Paint::Plain);
        assert!(shown.contains("⟦U+202E⟧") && shown.contains("⟦U+009B⟧"), "{shown}");
        assert!(shown.contains("reorder") && shown.contains("steer"), "{shown}");
        assert!(!shown.contains('\u{202e}') && !shown.contains('\u{9b}'));
        assert_eq!(line("a\nb"), "a⟦U+000A⟧b");
    }

    #[test]
    fn an_emoji_is_never_torn_apart_at_the_edge() {
        for width in 1..12 {
            let rows = text_rows("ab👩🏽‍🚀❤️👩🏽‍🚀", width);
            for row in rows {
                assert!(
                    !row.text.starts_with([JOINER, EMOJI_FORM]) && !row.text.ends_with(JOINER),
                    "{width}: {row:?}"
                );
            }
        }
    }

    #[test]
    fn look_alikes_and_numbers_are_marked_in_arguments() {
        let shown = json_block(&json!({ "to": "pаypal", "amount": 100_000_000 }), "", Paint::Plain);
        assert!(
            shown.contains("p⟦U+0430 Cyrillic⟧ypal") && shown.contains("100000000⟦= 100 000 000⟧"),
            "{shown}"
        );
        assert!(
            shown.contains("! It contains letters or digits that look like those of another alphabet."),
            "{shown}"
        );
    }

    #[test]
    fn deep_values_are_indented_and_not_called_padded() {
        let mut deep = json!(1);
        for _ in 0..12 {
            deep = json!({ "x": deep });
        }
        assert!(!json_block(&deep, "", Paint::Plain).contains("spaces"));
    }
}
