//! Where a command writes: standard output for what was asked for, standard error for everything said beside it.
//!
//! Promises: with `--json` exactly one document goes to standard output; colours only where a terminal reads them; a
//! reader that hangs up (`| head`) is no error.

use std::io::{self, IsTerminal as _, Write as _};

use serde_json::Value;

use crate::config::Environment;

/// How results are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// For people.
    Text,
    /// One JSON document.
    Json,
}

/// Whether text is coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Paint {
    /// As it is.
    Plain,
    /// With ANSI colours.
    Ansi,
}

/// Who reads standard output, and who can answer questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Audience {
    /// A person at a terminal who can be asked.
    Person,
    /// A person who reads, and cannot be asked: standard input is something else.
    Reader,
    /// A program, or a file.
    Program,
}

/// Whether somebody reads standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reader {
    There,
    /// It hung up, as `head` does.
    Gone,
}

/// The two streams of a command.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Screen {
    pub(crate) format: Format,
    pub(crate) audience: Audience,
    /// For standard output.
    pub(crate) out: Paint,
    /// For standard error.
    pub(crate) err: Paint,
}

impl Screen {
    pub(crate) fn of_process(format: Format, environment: &Environment) -> Self {
        let dull = environment.text("NO_COLOR").is_some()
            || environment.text("TERM").is_some_and(|term| term == "dumb");
        let paint = |terminal: bool| if terminal && !dull { Paint::Ansi } else { Paint::Plain };
        let audience = match (io::stdout().is_terminal(), io::stdin().is_terminal()) {
            (true, true) => Audience::Person,
            (true, false) => Audience::Reader,
            (false, _) => Audience::Program,
        };
        Self {
            format,
            audience,
            out: paint(io::stdout().is_terminal()),
            err: paint(io::stderr().is_terminal()),
        }
    }

    /// Whether a person can be asked here.
    pub(crate) fn can_ask(&self) -> bool {
        self.format == Format::Text && self.audience == Audience::Person
    }

    /// Writes lines to standard output.
    pub(crate) fn print(&self, text: &str) -> anyhow::Result<()> {
        self.print_to(text).map(drop)
    }

    /// Writes lines to standard output, and says whether somebody still reads there.
    pub(crate) fn print_to(&self, text: &str) -> anyhow::Result<Reader> {
        let mut out = io::stdout().lock();
        let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        match out
            .write_all(text.as_bytes())
            .and_then(|()| out.write_all(end.as_bytes()))
            .and_then(|()| out.flush())
        {
            Ok(()) => Ok(Reader::There),
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(Reader::Gone),
            Err(e) => Err(e.into()),
        }
    }

    /// Writes the one JSON document.
    pub(crate) fn print_json(&self, value: &Value) -> anyhow::Result<()> {
        self.print(&format!("{value:#}"))
    }

    /// Writes a line to standard error. Nobody can be told that it failed.
    pub(crate) fn note(&self, text: &str) {
        if cfg!(test) {
            // Only the macro is captured with its test.
            eprintln!("{text}");
        } else {
            let _ = writeln!(io::stderr().lock(), "{text}");
        }
    }

    /// Writes a question to standard error, without ending the line.
    pub(crate) fn ask(&self, text: &str) {
        if cfg!(test) {
            eprint!("{text}");
        } else {
            let mut err = io::stderr().lock();
            let _ = write!(err, "{text}").and_then(|()| err.flush());
        }
    }
}

impl Paint {
    pub(crate) fn bold(self, text: &str) -> String {
        self.with("1", text)
    }

    pub(crate) fn dim(self, text: &str) -> String {
        self.with("2", text)
    }

    pub(crate) fn red(self, text: &str) -> String {
        self.with("31", text)
    }

    pub(crate) fn green(self, text: &str) -> String {
        self.with("32", text)
    }

    pub(crate) fn yellow(self, text: &str) -> String {
        self.with("33", text)
    }

    fn with(self, code: &str, text: &str) -> String {
        match self {
            Self::Plain => text.to_owned(),
            Self::Ansi => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
        }
    }
}
