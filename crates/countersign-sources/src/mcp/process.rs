//! A server as a child process, with everything it starts.
//!
//! Promises: the child has a process group of its own and exactly the environment it was given. The whole group ends
//! when the [`ServerProcess`] is ended or dropped, and also when this process is killed with SIGKILL.
//!
//! The last needs help from outside this process: a guardian, a shell that reads from a pipe which only we hold open, and
//! that kills its group when the pipe closes. The server joins the guardian's group. Unlike a parent-death signal this
//! reaches grandchildren (`npx` starts `node`), does not depend on which thread started the child, and needs no unsafe code.

use std::io;
use std::process::Stdio;
use std::time::Duration;

use countersign_core::visible::visible;
use countersign_sdk::{ExposeSecret, SecretString};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::mcp::config::{CommandConfig, DEFAULT_VARIABLES};
use crate::secrets::Secrets;

/// How long a server may take to end by itself once its standard input is closed.
const GRACE: Duration = Duration::from_secs(2);
/// The longest line of standard error that is kept; the rest of it is dropped.
const MAX_STDERR_LINE_BYTES: usize = 2 * 1024;
/// How many lines of standard error are logged; a server that prints without end must not fill the disk.
const MAX_STDERR_LINES: usize = 10_000;

/// A running server.
pub(super) struct ServerProcess {
    server: Child,
    /// Collected after the group was killed: until then nobody else can get its process group's number.
    guardian: Option<Child>,
    group: Pid,
}

/// Its ends of the pipes.
pub(super) struct ServerPipes {
    pub(super) input: ChildStdin,
    pub(super) output: ChildStdout,
}

impl ServerProcess {
    /// Starts the server; what it prints on standard error goes to the log.
    pub(super) fn start(source: &str, config: &CommandConfig) -> io::Result<(Self, ServerPipes)> {
        let guardian = start_guardian();
        let leader = guardian.as_ref().and_then(Child::id).and_then(|id| i32::try_from(id).ok());
        let mut server = command(config, leader.unwrap_or(0)).spawn()?;
        let own = server.id().and_then(|id| i32::try_from(id).ok());
        let group = leader.or(own).ok_or_else(|| io::Error::other("the server ended at once"))?;
        let pipes = server.stdin.take().zip(server.stdout.take());
        let (input, output) = pipes.ok_or_else(|| io::Error::other("the server has no pipes"))?;
        if let Some(stderr) = server.stderr.take() {
            tokio::spawn(log_lines(source.to_owned(), stderr, secrets(config)));
        }
        Ok((Self { server, guardian, group: Pid::from_raw(group) }, ServerPipes { input, output }))
    }

    /// Waits until the server has ended by itself.
    pub(super) async fn ended(&mut self) -> String {
        match self.server.wait().await {
            Ok(status) => format!("the server ended: {status}"),
            Err(error) => format!("the server cannot be observed: {error}"),
        }
    }

    /// Lets the server end by itself for a moment, then ends whatever is left of its group. Its standard input must have
    /// been closed.
    pub(super) async fn end(mut self) {
        let _ = tokio::time::timeout(GRACE, self.server.wait()).await;
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // It fails only if nobody of the group is left.
        let _ = killpg(self.group, Signal::SIGKILL);
        drop(self.guardian.take());
    }
}

/// What a server was given that must not come back: the values of all variables that are not of the default ones.
pub(super) fn secrets(config: &CommandConfig) -> Secrets {
    let given = config.variables.iter().filter(|(name, _)| !DEFAULT_VARIABLES.contains(&name.as_str()));
    Secrets::new(given.map(|(_, value)| value))
}

/// Without a shell there is no guardian: the server then leads its own group, and outlives a SIGKILL of ours unless it
/// ends when its standard input closes, as the protocol asks.
fn start_guardian() -> Option<Child> {
    let started = Command::new("/bin/sh")
        .args(["-c", "read -r line; kill -KILL 0"])
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn();
    match started {
        Ok(guardian) => Some(guardian),
        Err(error) => {
            tracing::warn!(%error, "no shell to guard a server; it may outlive this process if that is killed");
            None
        }
    }
}

fn command(config: &CommandConfig, group: i32) -> Command {
    let mut command = Command::new(&config.program);
    command
        .args(&config.arguments)
        .env_clear()
        .envs(
            config
                .variables
                .iter()
                .map(|(name, value): &(String, SecretString)| (name, value.expose_secret())),
        )
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(group);
    if let Some(folder) = &config.folder {
        command.current_dir(folder);
    }
    command
}

/// Logs what a server prints, line by line, without secrets and within bounds, with everything that steers a terminal or
/// reorders text written out: a person reads the log. Reads on when the bound is reached: a full
/// pipe would stop the server.
async fn log_lines(source: String, mut pipe: impl AsyncRead + Unpin, secrets: Secrets) {
    let mut lines = StderrLines::default();
    let mut chunk = [0; 4096];
    while let Ok(read) = pipe.read(&mut chunk).await {
        if read == 0 {
            break;
        }
        for line in lines.push(&chunk[..read]) {
            tracing::info!(source, line = %secrets.redact(&line), "standard error of an MCP server");
        }
    }
}

/// Cuts a stream into lines within bounds.
#[derive(Default)]
struct StderrLines {
    line: Vec<u8>,
    logged: usize,
}

impl StderrLines {
    fn push(&mut self, bytes: &[u8]) -> Vec<String> {
        let mut complete = Vec::new();
        for byte in bytes {
            if *byte != b'\n' {
                if self.line.len() < MAX_STDERR_LINE_BYTES {
                    self.line.push(*byte);
                }
                continue;
            }
            let line = std::mem::take(&mut self.line);
            self.logged += 1;
            if self.logged <= MAX_STDERR_LINES {
                let text = String::from_utf8_lossy(&line);
                complete.push(visible(text.trim_end_matches('\r')).text);
            } else if self.logged == MAX_STDERR_LINES + 1 {
                complete.push(format!("more than {MAX_STDERR_LINES} lines; the rest is not logged"));
            }
        }
        complete
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_bounded_in_length_and_number_and_what_misleads_is_written_out() {
        let mut lines = StderrLines::default();
        assert_eq!(lines.push(b"a\x1b[31mb"), [] as [String; 0]);
        assert_eq!(lines.push(b"c\r\nnext"), ["a⟦U+001B⟧[31mbc"]);
        assert_eq!(lines.push("\u{202e}evil\u{200b}\n".as_bytes()), ["next⟦U+202E⟧evil⟦U+200B⟧"]);
        let mut lines = StderrLines::default();
        let long = [vec![b'x'; MAX_STDERR_LINE_BYTES + 1], vec![b'\n']].concat();
        assert_eq!(lines.push(&long)[0].len(), MAX_STDERR_LINE_BYTES);
        let more = lines.push(&b"y\n".repeat(MAX_STDERR_LINES + 5));
        assert_eq!(more.len(), MAX_STDERR_LINES);
        assert!(more.last().unwrap().contains("the rest is not logged"));
    }
}
