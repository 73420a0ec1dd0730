//! Foreign text, shown to a person (R13).
//!
//! Promises: nothing of it steers the terminal, hides or reorders; all of it is shown; and none of it can pass for ours,
//! because every line of a block stands behind a gutter, also where it had to be broken.

use countersign_core::visible::{Visible, Warning, visible};
use serde_json::Value;

use crate::screen::Paint;

/// Where a long line is broken. Terminals break at their own width too, but without a gutter.
const WIDTH: usize = 90;

/// One line of foreign text: line breaks are written out too.
pub(crate) fn line(text: &str) -> String {
    visible(text).text.replace('\n', "⟦U+000A⟧")
}

/// Foreign text for a message that is made visible as a whole when it is printed: it just may not begin a line.
pub(crate) fn flat(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

/// A block of foreign text behind a gutter, and what is odd about it.
pub(crate) fn block(text: &str, indent: &str, paint: Paint) -> String {
    let Visible { text, warnings } = visible(text);
    let mut out = String::new();
    for line in text.split('\n') {
        gutter(&mut out, line, indent, paint);
    }
    out + &warned(&warnings, indent, paint)
}

/// A JSON value, whole, behind a gutter.
pub(crate) fn json_block(value: &Value, indent: &str, paint: Paint) -> String {
    let (text, warnings) = json_text(value);
    let mut out = String::new();
    for line in text.split('\n') {
        gutter(&mut out, line, indent, paint);
    }
    out + &warned(&warnings, indent, paint)
}

/// A JSON value over several lines, made visible.
pub(crate) fn json(value: &Value) -> String {
    json_text(value).0
}

fn json_text(value: &Value) -> (String, Vec<Warning>) {
    let mut warnings = Vec::new();
    let pretty = format!("{value:#}");
    let lines: Vec<String> = pretty
        .split('\n')
        .map(|line| {
            // The indentation is ours; made visible, it would be called padding.
            let (indent, rest) = line.split_at(line.len() - line.trim_start_matches(' ').len());
            let shown = visible(rest);
            warnings.extend(shown.warnings);
            format!("{indent}{}", shown.text)
        })
        .collect();
    (lines.join("\n"), warnings)
}

fn gutter(out: &mut String, line: &str, indent: &str, paint: Paint) {
    let chars: Vec<char> = line.chars().collect();
    let mut rows = chars.chunks(WIDTH).map(|row| row.iter().collect::<String>());
    let first = rows.next().unwrap_or_default();
    out.push_str(&format!("{indent}{} {first}\n", paint.dim("│")));
    for row in rows {
        out.push_str(&format!("{indent}{} {row}\n", paint.dim("┊")));
    }
}

fn warned(warnings: &[Warning], indent: &str, paint: Paint) -> String {
    let kinds = [
        (Warning::Control, "control characters, which can steer a terminal"),
        (Warning::Bidirectional, "characters that reorder text"),
        (Warning::Invisible, "invisible characters"),
        (Warning::Padding, "padding that can push text out of sight"),
    ];
    let found: Vec<&str> =
        kinds.iter().filter(|(kind, _)| warnings.contains(kind)).map(|(_, words)| *words).collect();
    if found.is_empty() {
        return String::new();
    }
    format!(
        "{indent}{}\n",
        paint.yellow(&format!("! It contains {}; they are written as ⟦…⟧.", found.join(", ")))
    )
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
    fn escapes_and_reordering_are_written_out_and_warned_of() {
        let shown = json_block(&json!({ "a": "x\u{202e}y", "b": "\u{9b}2J" }), "", Paint::Plain);
        assert!(shown.contains("⟦U+202E⟧") && shown.contains("⟦U+009B⟧"), "{shown}");
        assert!(shown.contains("reorder") && shown.contains("steer"), "{shown}");
        assert!(!shown.contains('\u{202e}') && !shown.contains('\u{9b}'));
        assert_eq!(line("a\nb"), "a⟦U+000A⟧b");
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
