//! JSON from the command line, a file or standard input.

use std::fs::File;
use std::io::{self, Read};

use serde_json::{Value, json};

use crate::exit::Problem;

/// More than any value may have, so that the kernel's bound speaks and memory is bounded all the same.
const MOST_BYTES: u64 = 8 * 1024 * 1024;

/// Where a value was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// On the command line or in a file: standard input is free.
    Elsewhere,
    /// On standard input, which is used up by it.
    StandardInput,
}

/// Where an argument says that its value is.
pub(super) fn place(argument: Option<&str>) -> Place {
    if argument == Some("-") { Place::StandardInput } else { Place::Elsewhere }
}

/// Reads the value of an argument: JSON, `@FILE`, or `-`; `{}` where nothing is said.
pub(super) fn json(argument: Option<&str>, what: &str) -> Result<Value, Problem> {
    let (text, source) = match argument {
        None => return Ok(json!({})),
        Some("-") => (read(io::stdin().lock(), "standard input")?, "standard input".to_owned()),
        Some(given) => match given.strip_prefix('@') {
            Some(path) => {
                let file = File::open(path)
                    .map_err(|e| Problem::usage(format!("{what}: {path} cannot be opened: {e}")))?;
                (read(file, path)?, path.to_owned())
            }
            None => (given.to_owned(), "the command line".to_owned()),
        },
    };
    serde_json::from_str(&text).map_err(|e| {
        let mut hint =
            "Write JSON in single quotes, such as '{\"id\": 1}', or @FILE, or - for standard input."
                .to_owned();
        if std::path::Path::new(&text).exists() {
            hint = format!("Did you mean the file? Write @{text}.");
        }
        let verb = if what.starts_with("--") { "is" } else { "are" };
        Problem::usage(format!("{what} {verb} not valid JSON ({source}): {e}")).hint(hint)
    })
}

/// Reads a text: a file, or `-`.
pub(super) fn text(argument: &str) -> Result<String, Problem> {
    if argument == "-" {
        return read(io::stdin().lock(), "standard input");
    }
    let file =
        File::open(argument).map_err(|e| Problem::usage(format!("{argument} cannot be opened: {e}")))?;
    read(file, argument)
}

fn read(source: impl Read, name: &str) -> Result<String, Problem> {
    let mut text = String::new();
    match source.take(MOST_BYTES + 1).read_to_string(&mut text) {
        Err(e) => Err(Problem::usage(format!("{name} cannot be read: {e}"))),
        Ok(length) if length as u64 > MOST_BYTES => {
            Err(Problem::usage(format!("{name} has more than {MOST_BYTES} bytes")))
        }
        Ok(_) => Ok(text),
    }
}
