//! A shell with a data folder and nothing else: no configuration and no environment of whoever runs the tests.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_countersign");

/// Where commands are run.
pub(crate) struct Shell {
    // First to go: it works in the folder.
    server: Option<Process>,
    url: String,
    folder: TempDir,
}

/// A process that is killed with its test, however that ends.
pub(crate) struct Process(pub(crate) Child);

impl Process {
    pub(crate) fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

/// Makes each scenario a test of its own twice: with nothing running, and with a server that runs for the data folder.
macro_rules! with_and_without_a_server {
    ($($scenario:ident),* $(,)?) => {
        mod without_a_server {
            $(#[test] fn $scenario() { super::$scenario(&crate::shell::Shell::new()); })*
        }
        mod with_a_server {
            $(#[test] fn $scenario() { super::$scenario(&crate::shell::Shell::served()); })*
        }
    };
}
pub(crate) use with_and_without_a_server;

/// What a command did.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) status: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Shell {
    pub(crate) fn new() -> Self {
        Self { server: None, url: String::new(), folder: tempfile::tempdir().unwrap() }
    }

    /// A shell for whose data folder a server with the demo tools runs.
    pub(crate) fn served() -> Self {
        let mut shell = Self::new();
        shell.serve();
        shell
    }

    /// Where its server listens.
    pub(crate) fn url(&self) -> String {
        self.url.clone()
    }

    /// Starts a server and waits until it answers. A second one takes the place of the first.
    pub(crate) fn serve(&mut self) {
        let listen = self.url.strip_prefix("http://").unwrap_or("127.0.0.1:0").to_owned();
        let mut command = self.command(&["--demo", "serve", "--listen", &listen]);
        // Nobody reads its log; a full pipe would stop it.
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut said = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut said)
            .unwrap();
        let url = said.split_whitespace().find(|word| word.starts_with("http://127.0.0.1:"));
        self.url = url.unwrap_or_else(|| panic!("no address in {said:?}")).to_owned();
        self.server = Some(Process(child));
    }

    /// Kills the server without warning.
    pub(crate) fn kill_server(&mut self) {
        self.server.take().unwrap().kill();
    }

    /// Where commands are run; it is the operator's home too.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.folder().join("data")
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.folder().join(name), text).unwrap();
    }

    /// Makes the data folder: a command that only looks makes none.
    pub(crate) fn make_data(&self) {
        self.run(&["token", "create", "--role", "agent", "--name", "first"]).failed(0, &["Created"]);
    }

    /// Writes the operator's configuration.
    pub(crate) fn configure(&self, text: &str) {
        let folder = match cfg!(target_os = "macos") {
            true => self.folder().join("Library/Application Support/countersign"),
            false => self.folder().join(".config/countersign"),
        };
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("countersign.toml"), text).unwrap();
    }

    /// A command that is about to run.
    #[expect(clippy::disallowed_methods, reason = "these tests start the built program")]
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command.args(words).current_dir(self.folder()).env_clear().stdin(Stdio::null());
        command.env("HOME", self.folder()).env("COUNTERSIGN_DATA_DIR", self.data());
        command
    }

    /// Runs a command to its end.
    pub(crate) fn run(&self, words: &[&str]) -> Ran {
        Ran::of(&mut self.command(words))
    }

    /// Runs a command that prints JSON, and makes sure that nothing else is printed.
    pub(crate) fn json(&self, words: &[&str]) -> Value {
        let ran = self.run(&[words, &["--json"]].concat());
        serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{words:?}: {e}\n{ran:?}"))
    }

    /// Starts a command and leaves it running.
    pub(crate) fn start(&self, words: &[&str]) -> Child {
        self.command(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Approves what waits under an id, as a script does that has seen it; what does not wait is merely named.
    pub(crate) fn approve(&self, id: &str, more: &[&str]) -> Ran {
        self.run(&self.approval(id, more).iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// The same, and what came of it as JSON.
    pub(crate) fn approved(&self, id: &str) -> Value {
        let words = self.approval(id, &[]);
        self.json(&words.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// The words of a command that approves.
    pub(crate) fn approval(&self, id: &str, more: &[&str]) -> Vec<String> {
        let inbox = self.json(&["inbox"]);
        let is_meant = |item: &&Value| item["elicitationId"] == id || item["executionId"] == id;
        let waiting: Vec<&Value> = inbox["items"].as_array().into_iter().flatten().filter(is_meant).collect();
        let mut words = vec!["--demo".to_owned(), "approve".to_owned(), id.to_owned()];
        if let [only] = waiting[..] {
            words.extend(["--yes", "--digest", only["digest"].as_str().unwrap()].map(str::to_owned));
        }
        words.extend(more.iter().map(|word| (*word).to_owned()));
        words
    }

    /// Calls a tool that asks, and gives the ids of its execution and of the question.
    pub(crate) fn paused(&self, tool: &str, args: &str) -> (String, String) {
        let result = self.json(&["--demo", "call", tool, args]);
        assert_eq!(result["status"], "paused", "{result:#}");
        let id = |field: &str| result["paused"][field].as_str().unwrap().to_owned();
        (id("executionId"), id("elicitationId"))
    }
}

impl Ran {
    pub(crate) fn of(command: &mut Command) -> Self {
        let output = command.output().unwrap();
        Self {
            status: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// It ended like this and said all of these on standard error.
    #[track_caller]
    pub(crate) fn failed(&self, status: i32, words: &[&str]) {
        assert_eq!(self.status, status, "{self:?}");
        for word in words {
            assert!(self.err.contains(word), "{word:?} is not in\n{}", self.err);
        }
    }

    /// It succeeded and printed all of these on standard output.
    #[track_caller]
    pub(crate) fn printed(&self, words: &[&str]) {
        assert_eq!(self.status, 0, "{self:?}");
        for word in words {
            assert!(self.out.contains(word), "{word:?} is not in\n{}", self.out);
        }
    }
}
