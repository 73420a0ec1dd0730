//! How a command ends: its exit status, and errors that say what to do next.

use std::borrow::Cow;
use std::fmt;
use std::process::ExitCode;

use serde_json::{Map, Value, json};

/// The exit status, as CONTRACT.md promises it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// 0: done, or waiting for a person without anybody to ask here.
    Done,
    /// 1: failed.
    Failed,
    /// 2: the command line is wrong.
    Usage,
    /// 3: denied, cancelled or expired.
    Refused,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Refused => 3,
        })
    }
}

/// What a command could not do: a stable code, what happened, and what to do next.
#[derive(Debug)]
pub(crate) struct Problem {
    pub(crate) code: Cow<'static, str>,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
    pub(crate) exit: Exit,
    /// What else a server said of it: `decision`, `violations`, `pending`, …
    pub(crate) more: Map<String, Value>,
}

impl Problem {
    /// Something failed.
    pub(crate) fn new(code: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        let (code, message) = (code.into(), message.into());
        Self { code, message, hint: None, exit: Exit::Failed, more: Map::new() }
    }

    /// The command line is wrong.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { exit: Exit::Usage, ..Self::new("usage", message) }
    }

    /// Says what to do next.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Says it in other words.
    #[must_use]
    pub(crate) fn saying(mut self, message: impl Into<String>) -> Self {
        self.message = message.into();
        self
    }

    /// The JSON that `--json` prints of it.
    pub(crate) fn to_json(&self) -> Value {
        let Self { code, message, hint, .. } = self;
        json!({ "error": { "code": code, "message": message, "hint": hint } })
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Problem {}
