//! Our program, run as a Unix user of a test's own.

use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::unix_user::{UnixUser, program};

impl UnixUser {
    /// Where this user's server keeps its data by default.
    pub(crate) fn data(&self) -> PathBuf {
        self.home().join(".local/share/countersign")
    }

    /// Our program as this user, with nothing in its environment.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(program());
        command.args(words).env_clear().current_dir(self.home()).stdin(Stdio::null());
        command.uid(self.uid).gid(self.gid);
        command
    }
}
