//! The one door to the machine: processes, the environment and the stopwatch.
//!
//! `clippy.toml` bans all three elsewhere, so that the product takes them from ports; a chore has no ports to take
//! them from.

#![expect(clippy::disallowed_methods, reason = "xtask is not the product: it runs tools and measures them")]

use std::fmt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;

/// The kernel counts processor time in hundredths of a second.
const TICKS_PER_SECOND: f64 = 100.0;

/// The processor time that ended children of this process, and theirs, have used.
pub(crate) fn cpu_of_children() -> anyhow::Result<Duration> {
    let stat =
        std::fs::read_to_string("/proc/self/stat").context("this system does not say what processes use")?;
    // The fields follow the name in parentheses; the name itself may have blanks.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok()).unwrap_or_default();
    Ok(Duration::from_secs_f64((ticks(13) + ticks(14)) / TICKS_PER_SECOND))
}

/// A command line as a person would type it in the repository root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Invocation {
    variables: Vec<(&'static str, String)>,
    program: &'static str,
    arguments: Vec<String>,
}

impl Invocation {
    /// Splits at white space; there is no quoting because no chore needs it.
    pub(crate) fn new(command_line: &'static str) -> Invocation {
        let mut words = command_line.split_whitespace();
        let program = words.next().unwrap_or_default();
        Invocation { variables: Vec::new(), program, arguments: words.map(str::to_owned).collect() }
    }

    pub(crate) fn with_variable(mut self, name: &'static str, value: &str) -> Invocation {
        self.variables.push((name, value.to_owned()));
        self
    }

    /// One more argument, which may have white space in it.
    pub(crate) fn with_argument(mut self, argument: &str) -> Invocation {
        self.arguments.push(argument.to_owned());
        self
    }

    /// Runs to the end with our own standard streams, so that no output of the tool is lost.
    pub(crate) fn run(&self, directory: &Path) -> anyhow::Result<ExitStatus> {
        self.command(directory).status().with_context(|| format!("could not start `{self}`"))
    }

    /// Whether the command exists and succeeds; what it prints is not shown.
    pub(crate) fn succeeds(&self, directory: &Path) -> bool {
        self.silent(directory).status().is_ok_and(|status| status.success())
    }

    /// The output of the command, if it exists and succeeds.
    pub(crate) fn output(&self, directory: &Path) -> Option<String> {
        let output = self.command(directory).stderr(Stdio::null()).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// The exit status and the standard error, where cargo and nextest report.
    pub(crate) fn report(&self, directory: &Path) -> anyhow::Result<(ExitStatus, String)> {
        let output = self.command(directory).stdin(Stdio::null()).stdout(Stdio::null()).output();
        let output = output.with_context(|| format!("could not start `{self}`"))?;
        Ok((output.status, String::from_utf8_lossy(&output.stderr).into_owned()))
    }

    /// Like [`Invocation::succeeds`], but gives up, and ends the process, after `limit`.
    pub(crate) fn succeeds_within(&self, directory: &Path, limit: Duration) -> bool {
        self.silent(directory).spawn().is_ok_and(|child| succeeded_within(child, limit))
    }

    fn silent(&self, directory: &Path) -> Command {
        let mut command = self.command(directory);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    fn command(&self, directory: &Path) -> Command {
        let mut command = Command::new(self.program);
        command.args(&self.arguments).current_dir(directory);
        forget_own_package(&mut command);
        for (name, value) in ci_variables() {
            command.env(name, value);
        }
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }
}

impl fmt::Display for Invocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in &self.variables {
            write!(f, "{name}=\"{value}\" ")?;
        }
        write!(f, "{}", self.program)?;
        self.arguments.iter().try_for_each(|argument| write!(f, " {argument}"))
    }
}

/// Measures from its creation.
#[derive(Debug)]
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    pub(crate) fn start() -> Stopwatch {
        Stopwatch(Instant::now())
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

/// The settings of cargo in CI: incremental artefacts are not reused and cost time and disk, and escape codes
/// would hide nextest's closing line from readers of the log. A colour that was asked for is left alone.
fn ci_variables() -> Vec<(&'static str, &'static str)> {
    if !std::env::var("CI").is_ok_and(|value| value == "true") {
        return Vec::new();
    }
    let mut variables = vec![("CARGO_INCREMENTAL", "0")];
    if std::env::var_os("CARGO_TERM_COLOR").is_none() {
        variables.push(("CARGO_TERM_COLOR", "never"));
    }
    variables
}

/// `cargo run` describes xtask's package in the environment. Build scripts that watch these variables (ring's does)
/// would be run again each time a build inside `cargo xtask` follows one outside of it.
fn forget_own_package(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
}

fn succeeded_within(mut child: Child, limit: Duration) -> bool {
    const POLL: Duration = Duration::from_millis(100);
    let stopwatch = Stopwatch::start();
    while stopwatch.elapsed() < limit {
        match child.try_wait() {
            Ok(Some(status)) => return status.success(),
            Ok(None) => thread::sleep(POLL),
            Err(_) => break,
        }
    }
    // It may have ended in the meantime: then there is nothing to kill, and `wait` still reaps it.
    let _ = child.kill();
    let _ = child.wait();
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invocation_reads_as_it_is_typed() {
        let docs = Invocation::new("cargo doc --no-deps").with_variable("RUSTDOCFLAGS", "-D warnings");
        assert_eq!(docs.to_string(), "RUSTDOCFLAGS=\"-D warnings\" cargo doc --no-deps");
    }

    #[test]
    fn a_program_that_does_not_exist_does_not_succeed() {
        let missing = Invocation::new("countersign-no-such-program");
        assert!(!missing.succeeds(Path::new(".")));
        assert_eq!(missing.output(Path::new(".")), None);
        assert!(missing.run(Path::new(".")).is_err());
    }

    #[test]
    fn output_is_trimmed() {
        assert_eq!(Invocation::new("echo hello").output(Path::new(".")), Some("hello".to_owned()));
    }

    #[test]
    fn a_program_that_hangs_is_given_up() {
        let stopwatch = Stopwatch::start();
        assert!(!Invocation::new("sleep 60").succeeds_within(Path::new("."), Duration::from_millis(150)));
        assert!(stopwatch.elapsed() < Duration::from_secs(30));
    }
}
