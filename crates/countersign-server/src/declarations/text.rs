//! Foreign text in TypeScript: comments, literals and names.
//!
//! Promises: no text of a tool's author ends the comment or literal it stands in, steers a terminal, reorders letters,
//! hides, or goes on without end.

use countersign_core::visible::{has_shape, visible};

/// The widest line that is written where the text allows it.
pub(super) const WIDTH: usize = 110;
/// A comment is wrapped at no fewer columns than this, however deep it stands.
const NARROWEST: usize = 40;
/// The longest text that is written as a literal or a property's name.
pub(super) const MAX_LITERAL_CHARS: usize = 120;
const MAX_NAME_CHARS: usize = 64;

/// Names that mean something to TypeScript already; a type of that name would hide it.
const TAKEN: &[&str] = &[
    "Any",
    "Array",
    "BigInt",
    "Boolean",
    "Date",
    "Error",
    "Function",
    "Infinity",
    "Iterator",
    "JSON",
    "Map",
    "Math",
    "NaN",
    "Never",
    "Null",
    "Number",
    "Object",
    "Partial",
    "Pick",
    "Promise",
    "Proxy",
    "Record",
    "Reflect",
    "RegExp",
    "Required",
    "Set",
    "String",
    "Symbol",
    "Undefined",
    "Unknown",
    "Void",
    "WeakMap",
    "WeakSet",
];

/// A text no longer than so many characters; where it was cut, it says so.
pub(super) fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default().trim_end()),
        None => text.to_owned(),
    }
}

/// A comment in one line, for a text that has only one.
pub(super) fn short_comment(doc: &str) -> Option<String> {
    let lines = lines(doc);
    match lines.as_slice() {
        [line] => Some(format!("/** {line} */")),
        _ => None,
    }
}

/// A comment above what it speaks of, indented and with its line breaks; nothing where there is nothing to say.
pub(super) fn comment(doc: &str, indent: usize) -> String {
    let pad = " ".repeat(indent);
    if let Some(short) = short_comment(doc).filter(|c| indent + c.chars().count() <= WIDTH) {
        return format!("{pad}{short}\n");
    }
    let room = WIDTH.saturating_sub(indent + 3).max(NARROWEST);
    let wrapped: Vec<String> = lines(doc).iter().flat_map(|line| wrap(line, room)).collect();
    if wrapped.is_empty() {
        return String::new();
    }
    let body: String = wrapped.iter().map(|line| format!("{pad} * {line}\n")).collect();
    format!("{pad}/**\n{body}{pad} */\n")
}

/// The lines of a text that may stand in a comment.
fn lines(doc: &str) -> Vec<String> {
    let seen = visible(&doc.replace("\r\n", "\n")).text.replace("*/", "*\\/");
    seen.split('\n').map(str::trim_end).filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

/// Breaks a line between words, and within a word only where it has no end.
fn wrap(line: &str, room: usize) -> Vec<String> {
    let mut rows = vec![String::new()];
    let mut used = 0;
    for word in line.split_inclusive(' ') {
        let long = word.trim_end().chars().count();
        if used > 0 && used + long > room {
            rows.push(String::new());
            used = 0;
        }
        for c in word.chars() {
            if used == room && c != ' ' {
                rows.push(String::new());
                used = 0;
            }
            if let Some(row) = rows.last_mut().filter(|_| used < room) {
                row.push(c);
                used += 1;
            }
        }
    }
    rows.into_iter().map(|row| row.trim_end().to_owned()).filter(|row| !row.is_empty()).collect()
}

/// A string literal. What cannot be seen is escaped, so that it is still the same string.
pub(super) fn literal(text: &str) -> String {
    let mut out = String::from("\"");
    let mut before = ' ';
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            // A run of blanks pushes what follows out of sight.
            ' ' if before == ' ' => out.push_str("\\x20"),
            // A literal that holds the end of a comment would end the comment that somebody puts around it.
            '/' if before == '*' => out.push_str("\\/"),
            c if has_shape(c) => out.push(c),
            c => out.push_str(&format!("\\u{{{:x}}}", c as u32)),
        }
        before = c;
    }
    out.push('"');
    out
}

/// A property's name, quoted where it is no identifier.
pub(super) fn property(name: &str) -> String {
    let mut chars = name.chars();
    let starts = |c: char| c.is_ascii_alphabetic() || matches!(c, '_' | '$');
    let identifier = chars.next().is_some_and(starts) && chars.all(|c| starts(c) || c.is_ascii_digit());
    if identifier { name.to_owned() } else { literal(name) }
}

/// A method's name. Every segment of a path is an identifier, and reserved words may name methods; only `new(…)` would
/// be read as a constructor.
pub(super) fn method(segment: &str) -> String {
    if segment == "new" { literal(segment) } else { segment.to_owned() }
}

/// The name of a type, made from whatever its author called it.
pub(super) fn type_name(raw: &str) -> String {
    let words = raw.split(|c: char| !c.is_ascii_alphanumeric()).filter(|w| !w.is_empty());
    let mut name: String = words.map(capitalised).collect();
    name.truncate(MAX_NAME_CHARS);
    if name.is_empty() || TAKEN.contains(&name.as_str()) {
        name.push_str("Type");
    }
    if name.starts_with(|c: char| c.is_ascii_digit()) { format!("T{name}") } else { name }
}

fn capitalised(word: &str) -> String {
    let mut chars = word.chars();
    chars.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(chars).collect()
}
