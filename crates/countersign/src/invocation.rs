//! How this program was started, so that hints can be copied and pasted.
//!
//! Promise: a command that a hint names reaches the same data folder, configuration and tools as the one that hints.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use crate::args::Shared;

/// The program's name, the shared flags it was given, and everything else.
#[derive(Debug, Clone)]
pub(crate) struct Invocation {
    words: Vec<String>,
    whole: Vec<String>,
    quiet: bool,
}

impl Invocation {
    pub(crate) fn of(line: &[OsString], shared: &Shared) -> Self {
        let name = line.first().map(Path::new).and_then(Path::file_name).map(OsStr::to_string_lossy);
        let name = name.map_or_else(|| "countersign".into(), |name| quoted(&name));
        let rest = line.iter().skip(1).map(|word| quoted(&word.to_string_lossy()));
        let whole = std::iter::once(name.clone()).chain(rest).collect();
        let mut words = vec![name];
        if shared.demo {
            words.push("--demo".into());
        }
        for (flag, value) in [("--config", &shared.config), ("--data-dir", &shared.data_dir)] {
            if let Some(value) = value {
                words.extend([flag.to_owned(), quoted(&value.to_string_lossy())]);
            }
        }
        Self { words, whole, quiet: shared.quiet }
    }

    /// Whether the demo tools were asked for.
    pub(crate) fn has_demo(&self) -> bool {
        self.words.iter().any(|word| word == "--demo")
    }

    /// Whether to leave out which server was asked.
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// A command line of this program.
    pub(crate) fn command(&self, rest: &str) -> String {
        format!("{} {rest}", self.words.join(" "))
    }

    /// The same, with the demo tools.
    pub(crate) fn command_with_demo(&self, rest: &str) -> String {
        format!("{} {rest}", with_demo(&self.words))
    }

    /// This very command line, with the demo tools.
    pub(crate) fn again_with_demo(&self) -> String {
        with_demo(&self.whole)
    }
}

fn with_demo(words: &[String]) -> String {
    let mut words = words.to_vec();
    if !words.iter().any(|word| word == "--demo") {
        words.insert(1, "--demo".into());
    }
    words.join(" ")
}

/// A word as a POSIX shell would take it back.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| {
        c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | ':' | '=' | '@' | '+' | ',')
    };
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_carry_the_flags_that_were_given() {
        let shared = Shared { data_dir: Some("/tmp/my data".into()), demo: true, ..Shared::default() };
        let line = ["/usr/bin/gate", "call", "a.b", "{}"].map(OsString::from);
        let invocation = Invocation::of(&line, &shared);
        assert_eq!(invocation.command("inbox"), "gate --demo --data-dir '/tmp/my data' inbox");
        assert_eq!(invocation.command_with_demo("inbox"), invocation.command("inbox"));
        assert_eq!(invocation.again_with_demo(), "gate --demo call a.b '{}'");
        let bare = Invocation::of(&[], &Shared::default());
        assert_eq!(bare.command_with_demo("inbox"), "countersign --demo inbox");
    }

    #[test]
    fn quotes_survive_the_shell() {
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
