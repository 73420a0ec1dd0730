//! A JSON value for a person: whole, over several lines.

use serde_json::{Map, Value};

use super::{Visible, Warning, visible, visible_number};

const INDENT: &str = "  ";

/// A JSON value in indented form, with its texts made visible and its numbers remarked on. Line breaks and tabs inside of
/// texts are written as JSON writes them, so that every line that comes out begins with our own indentation.
pub fn visible_json(value: &Value) -> Visible {
    let mut out = Visible::default();
    write(value, 0, &mut out);
    out
}

fn write(value: &Value, depth: usize, out: &mut Visible) {
    match value {
        Value::String(text) => quoted(text, out),
        Value::Number(number) => out.append(&visible_number(number)),
        Value::Array(items) if !items.is_empty() => list(items, depth, out),
        Value::Object(entries) if !entries.is_empty() => map(entries, depth, out),
        plain => out.text.push_str(&plain.to_string()),
    }
}

fn list(items: &[Value], depth: usize, out: &mut Visible) {
    out.text.push('[');
    for (nth, item) in items.iter().enumerate() {
        begin(nth, depth, out);
        write(item, depth + 1, out);
    }
    end(']', depth, out);
}

fn map(entries: &Map<String, Value>, depth: usize, out: &mut Visible) {
    out.text.push('{');
    for (nth, (key, item)) in entries.iter().enumerate() {
        begin(nth, depth, out);
        quoted(key, out);
        out.text.push_str(": ");
        write(item, depth + 1, out);
    }
    end('}', depth, out);
}

fn begin(nth: usize, depth: usize, out: &mut Visible) {
    out.text.push_str(if nth > 0 { ",\n" } else { "\n" });
    out.text.push_str(&INDENT.repeat(depth + 1));
}

fn end(bracket: char, depth: usize, out: &mut Visible) {
    out.text.push('\n');
    out.text.push_str(&INDENT.repeat(depth));
    out.text.push(bracket);
}

fn quoted(text: &str, out: &mut Visible) {
    out.text.push('"');
    for piece in text.split_inclusive(['\n', '\t', '\r']) {
        let (piece, ending) = match piece.chars().last() {
            Some('\n') => (piece.trim_end_matches('\n'), "\\n"),
            Some('\t') => (piece.trim_end_matches('\t'), "\\t"),
            Some('\r') => (piece.trim_end_matches('\r'), "\\r"),
            _ => (piece, ""),
        };
        let mut shown = visible(piece);
        shown.text = shown.text.replace('\\', "\\\\").replace('"', "\\\"");
        out.append(&shown);
        out.text.push_str(ending);
        if ending == "\\r" {
            out.warn(Warning::Control);
        }
    }
    out.text.push('"');
}
