//! A newcomer's home: no data folder, no configuration, no environment.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Mutex;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::terminal::Terminal;

const PROGRAM: &str = env!("CARGO_BIN_EXE_countersign");

/// Where commands are run.
pub(crate) struct Shell {
    home: TempDir,
    ran: Mutex<Vec<String>>,
}

impl Shell {
    pub(crate) fn new() -> Self {
        Self { home: tempfile::tempdir().unwrap(), ran: Mutex::default() }
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.home.path().to_owned()
    }

    /// A command that is about to run.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        self.ran.lock().unwrap().push(format!("countersign {}", words.join(" ")));
        let mut command = self.at_home(PROGRAM);
        command.args(words);
        command
    }

    /// Every command so far.
    pub(crate) fn ran(&self) -> Vec<String> {
        self.ran.lock().unwrap().clone()
    }

    /// The same, once a line was typed: what is typed together with that line is there before the program begins.
    pub(crate) fn command_after_a_line(&self, words: &[&str]) -> Command {
        let mut command = self.at_home("/bin/sh");
        command.args(["-c", "read -r line; exec \"$0\" \"$@\"", PROGRAM]).args(words).env("TERM", "xterm");
        command
    }

    /// A program with a port of its own: tests run at the same time, and a newcomer is alone. Without colours, a screen reads
    /// as it looks.
    fn at_home(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.home()).env_clear().stdin(Stdio::null());
        command.env("HOME", self.home()).env("COUNTERSIGN_LISTEN", "127.0.0.1:0").env("NO_COLOR", "1");
        command
    }

    /// What a command shows at a terminal that nobody types at.
    #[track_caller]
    pub(crate) fn shows(&self, words: &[&str]) -> String {
        Terminal::of(self, words).ends_with(0)
    }

    /// What waits, as a program reads it.
    pub(crate) fn waiting(&self) -> Vec<Value> {
        let output = self.command(&["inbox", "--json"]).output().unwrap();
        let listed: Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"));
        listed["items"].as_array().unwrap().clone()
    }

    /// The id of the one question that waits.
    #[track_caller]
    pub(crate) fn only_question(&self) -> String {
        let waiting = self.waiting();
        assert_eq!(waiting.len(), 1, "{waiting:#?}");
        waiting[0]["elicitationId"].as_str().unwrap().to_owned()
    }
}

/// Ctrl-C: what the terminal makes of the key.
#[track_caller]
pub(crate) fn interrupt(mut terminal: Terminal) {
    kill_process(Pid::from_child(&terminal.child), Signal::INT).unwrap();
    terminal.read_until("Stopping. What waits for a person is kept.");
    terminal.ends_with(0);
}
