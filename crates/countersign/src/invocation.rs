//! How this program was started, so that hints can be copied and pasted.
//!
//! Promise: a command that a hint names reaches the same data folder, configuration and tools as the one that hints.

use std::ffi::OsStr;
use std::path::Path;

use crate::args::Shared;

/// The program's name and the shared flags it was given.
#[derive(Debug, Clone)]
pub(crate) struct Invocation {
    words: Vec<String>,
}

impl Invocation {
    pub(crate) fn of(program: Option<&OsStr>, shared: &Shared) -> Self {
        let name = program.map(Path::new).and_then(Path::file_name).map(OsStr::to_string_lossy);
        let mut words = vec![name.map_or_else(|| "countersign".into(), |name| quoted(&name))];
        if shared.demo {
            words.push("--demo".into());
        }
        for (flag, value) in [("--config", &shared.config), ("--data-dir", &shared.data_dir)] {
            if let Some(value) = value {
                words.extend([flag.to_owned(), quoted(&value.to_string_lossy())]);
            }
        }
        Self { words }
    }

    /// A command line of this program.
    pub(crate) fn command(&self, rest: &str) -> String {
        format!("{} {rest}", self.words.join(" "))
    }

    /// The same, with the demo tools.
    pub(crate) fn command_with_demo(&self, rest: &str) -> String {
        let mut words = self.words.clone();
        if !words.iter().any(|word| word == "--demo") {
            words.insert(1, "--demo".into());
        }
        format!("{} {rest}", words.join(" "))
    }
}

/// A word as a POSIX shell would take it back.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | ':' | '=' | '@' | '+' | ',');
    if !word.is_empty() && word.chars().all(plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_carry_the_flags_that_were_given() {
        let shared = Shared { data_dir: Some("/tmp/my data".into()), demo: true, ..Shared::default() };
        let invocation = Invocation::of(Some(OsStr::new("/usr/bin/gate")), &shared);
        assert_eq!(invocation.command("inbox"), "gate --demo --data-dir '/tmp/my data' inbox");
        assert_eq!(invocation.command_with_demo("inbox"), invocation.command("inbox"));
        let bare = Invocation::of(None, &Shared::default());
        assert_eq!(bare.command_with_demo("inbox"), "countersign --demo inbox");
    }

    #[test]
    fn quotes_survive_the_shell() {
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
