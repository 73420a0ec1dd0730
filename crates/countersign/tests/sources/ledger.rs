//! An upstream MCP server that writes lines into a file, and that can be stopped right before and right after it does.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::server::PATIENCE;

/// How the gateway reaches the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    /// The gateway starts it.
    Stdio,
    /// It runs by itself.
    Http,
}

/// Where a call can be stopped.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Hold {
    BeforeTheEffect,
    AfterTheEffect,
}

impl Hold {
    fn name(self) -> &'static str {
        match self {
            Self::BeforeTheEffect => "before",
            Self::AfterTheEffect => "after",
        }
    }
}

/// The server, its folder and, over HTTP, its process.
pub(crate) struct Ledger {
    transport: Transport,
    folder: TempDir,
    process: Option<Child>,
}

impl Ledger {
    pub(crate) fn new(transport: Transport) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("ledger.mjs"), include_str!("ledger.mjs")).unwrap();
        let mut ledger = Self { transport, folder, process: None };
        ledger.start();
        ledger
    }

    /// The words after `source add mcp ledger`.
    pub(crate) fn place(&self) -> Vec<String> {
        match self.transport {
            Transport::Stdio => [vec!["--".to_owned()], self.command()].concat(),
            Transport::Http => {
                vec![format!("http://127.0.0.1:{}/mcp", self.read("port")), "--allow-private".to_owned()]
            }
        }
    }

    /// The command that starts it over stdio.
    pub(crate) fn command(&self) -> Vec<String> {
        let script = self.file("ledger.mjs").display().to_string();
        vec![node().display().to_string(), script, self.folder.path().display().to_string()]
    }

    /// Starts it, where the gateway does not: the first time on any free port, then on the same one.
    fn start(&mut self) {
        if self.transport == Transport::Stdio {
            return;
        }
        let port = std::fs::read_to_string(self.file("port")).unwrap_or_else(|_| "0".to_owned());
        let _ = std::fs::remove_file(self.file("pid"));
        let [node, script, folder] = <[String; 3]>::try_from(self.command()).unwrap();
        let command = Command::new(node).args([script, folder, port]).stdin(Stdio::null()).spawn();
        self.process = Some(command.unwrap());
        eventually("the server listens", || self.file("pid").exists());
    }

    /// SIGKILL. Over HTTP it is then started again, as an operator's supervisor would; else that is up to the gateway.
    pub(crate) fn kill(&mut self) {
        match self.process.take() {
            Some(mut process) => {
                process.kill().unwrap();
                process.wait().unwrap();
            }
            None => {
                let pid = Pid::from_raw(self.read("pid").parse().unwrap()).unwrap();
                kill_process(pid, Signal::KILL).unwrap();
            }
        }
        self.start();
    }

    /// Stops the next call there.
    pub(crate) fn hold(&self, at: Hold) {
        let _ = std::fs::remove_file(self.file(&format!("reached-{}", at.name())));
        std::fs::write(self.file(&format!("hold-{}", at.name())), "").unwrap();
    }

    /// Waits until a call is stopped there.
    pub(crate) fn until_reached(&self, at: Hold) {
        let reached = self.file(&format!("reached-{}", at.name()));
        eventually("the call gets there", || reached.exists());
    }

    /// Lets whatever is stopped go on.
    pub(crate) fn release(&self) {
        for at in [Hold::BeforeTheEffect, Hold::AfterTheEffect] {
            let _ = std::fs::remove_file(self.file(&format!("hold-{}", at.name())));
        }
    }

    /// How often a line was written.
    pub(crate) fn count(&self, line: &str) -> usize {
        let text = std::fs::read_to_string(self.file("ledger")).unwrap_or_default();
        text.lines().filter(|written| *written == line).count()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.file(name)).unwrap()
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill().and_then(|()| process.wait());
        }
    }
}

/// Node, by its whole path: servers of sources are started without our environment.
pub(crate) fn node() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap();
    let found = std::env::split_paths(&path).map(|folder| folder.join("node")).find(|node| node.is_file());
    found.expect("node is installed; any version from 18")
}

/// Waits until something is so. The bound only ends a test that would wait for ever.
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "it never came that {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
