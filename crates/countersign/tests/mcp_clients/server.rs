//! The built program, serving: on a free port, with a data folder of its own, killed without warning.

use std::cell::OnceCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::client::{Client, Elicitation, Era};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_countersign");
/// Nothing on this machine takes this long unless it never happens.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long calls are held for clients that cannot ask; the tests have no time for more.
const HOLD: &str = "1s";

/// A running server and its home.
pub(crate) struct Server {
    home: TempDir,
    program: PathBuf,
    child: Child,
    url: String,
    /// The token of an attended client, made when it is first needed.
    attended: OnceCell<String>,
}

impl Server {
    /// `countersign serve --demo`.
    pub(crate) fn start() -> Self {
        Self::of(Path::new(PROGRAM), &["--demo"])
    }

    /// Another program of the same kind.
    pub(crate) fn of(program: &Path, words: &[&str]) -> Self {
        Self::at("127.0.0.1:0", program, words)
    }

    /// At an address of the test's choice.
    pub(crate) fn at(address: &str, program: &Path, words: &[&str]) -> Self {
        let home = tempfile::tempdir().unwrap();
        let mut child = spawn(program, home.path(), address, words);
        let url = ready_or_ended(home.path(), &mut child);
        Self { home, program: program.to_owned(), child, url, attended: OnceCell::new() }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// A client whose prompts a person declared to reach a person, connected.
    pub(crate) fn client(&self, era: Era, elicitation: Elicitation) -> Client {
        Client::over_http(era, elicitation, &self.url, self.attended())
    }

    /// The same, with roots and a model of its own.
    pub(crate) fn rich_client(&self, era: Era) -> Client {
        Client::rich_over_http(era, &self.url, self.attended())
    }

    /// The same, on standard input and output, through a bridge.
    pub(crate) fn rich_bridged_client(&self, era: Era) -> Client {
        Client::rich_over_bridge(era, &self.url, self.attended())
    }

    /// The same, told when lists change.
    pub(crate) fn watching_client(&self, era: Era) -> Client {
        Client::watching_over_http(era, &self.url, self.attended())
    }

    /// The token of an attended client. The suite's own server has one from its start.
    fn attended(&self) -> &str {
        self.attended.get_or_init(|| {
            if !self.home.path().join("data").join("admin.token").exists() {
                return self.token("agent");
            }
            let new = json!({ "name": "client", "role": "agent", "attended": true });
            let made = asked("POST", &format!("{}/api/tokens", self.url), &self.token("admin"), Some(&new));
            made["secret"].as_str().unwrap_or_else(|| panic!("{made}")).to_owned()
        })
    }

    /// `countersign source add mcp`, with these flags and the words that start the server; everything it offers is accepted.
    pub(crate) fn add_mcp_source(&self, name: &str, flags: &[&str], words: &[String]) {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        self.accept_all(name, &[&["add", "mcp", name], flags, &["--json", "--"], &words].concat());
    }

    /// The same, for a server that is at a URL of this machine.
    pub(crate) fn add_mcp_source_at(&self, name: &str, flags: &[&str], url: &str) {
        self.accept_all(name, &[&["add", "mcp", name, url, "--allow-private", "--json"], flags].concat());
    }

    fn accept_all(&self, name: &str, words: &[&str]) {
        let added = self.source(words);
        let digest = added["digest"].as_str().unwrap_or_else(|| panic!("{added}"));
        let accepted = self.source(&["accept", name, "--yes", "--digest", digest, "--json"]);
        assert_eq!(accepted["callable"], added["new"], "{accepted}");
    }

    /// `countersign source remove`.
    pub(crate) fn remove_source(&self, name: &str) {
        self.source(&["remove", name, "--json"]);
    }

    fn source(&self, words: &[&str]) -> Value {
        let mut command = Command::new(&self.program);
        command.arg("source").args(words).current_dir(self.home.path()).env_clear();
        command.env("HOME", self.home.path()).env("COUNTERSIGN_DATA_DIR", self.home.path().join("data"));
        let output = command.stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// SIGKILL, and the same again on the same port.
    pub(crate) fn kill_and_restart(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        fs::remove_file(record(self.home.path())).expect("a killed server leaves its record behind");
        let address = self.url.trim_start_matches("http://").to_owned();
        self.child = spawn(&self.program, self.home.path(), &address, &["--demo"]);
        assert_eq!(ready_or_ended(self.home.path(), &mut self.child), self.url);
    }

    /// The token that the first start wrote.
    pub(crate) fn token(&self, role: &str) -> String {
        token(self.home.path(), role)
    }

    /// The executions that wait for a person.
    pub(crate) fn pending(&self) -> Vec<String> {
        pending(&self.url, &self.token("admin"))
    }

    /// The one execution that waits for a person.
    pub(crate) fn only_pending(&self) -> String {
        self.until("something waits", |server| !server.pending().is_empty());
        let mut pending = self.pending();
        assert_eq!(pending.len(), 1, "{pending:?}");
        pending.remove(0)
    }

    /// A person says yes, over REST.
    pub(crate) fn approve(&self, execution: &str) {
        approve(&self.url, &self.token("admin"), execution);
    }

    /// Every transfer that took effect.
    pub(crate) fn ledger(&self) -> Vec<Value> {
        ledger(&self.url, &self.token("agent"))
    }

    /// Waits until something is so.
    pub(crate) fn until(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        until(what, || is_so(self).then_some(()));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where the server of a home listens, once it answers there.
pub(crate) fn ready(home: &Path) -> String {
    until("the server is ready", || answering(home))
}

fn ready_or_ended(home: &Path, child: &mut Child) -> String {
    until("the server is ready", || {
        let ended = child.try_wait().unwrap();
        assert!(ended.is_none(), "the server does not start: {ended:?}");
        answering(home)
    })
}

/// What `server.json` of a home says about the server's address, if it answers.
fn answering(home: &Path) -> Option<String> {
    let record: Value = serde_json::from_str(&fs::read_to_string(record(home)).ok()?).ok()?;
    let url = record["url"].as_str()?.to_owned();
    let answers = http("GET", &format!("{url}/readyz"), "", None).is_some_and(|(status, _)| status == 200);
    answers.then_some(url)
}

/// The process that serves a home.
pub(crate) fn process(home: &Path) -> u32 {
    try_process(home).expect("server.json names a process")
}

/// The same, if there is one.
pub(crate) fn try_process(home: &Path) -> Option<u32> {
    let record: Value = serde_json::from_str(&fs::read_to_string(record(home)).ok()?).ok()?;
    record["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok())
}

pub(crate) fn token(home: &Path, role: &str) -> String {
    fs::read_to_string(home.join("data").join(format!("{role}.token"))).unwrap().trim().to_owned()
}

pub(crate) fn pending(url: &str, token: &str) -> Vec<String> {
    let list = asked("GET", &format!("{url}/api/elicitation?status=pending"), token, None);
    let items = list["items"].as_array().unwrap_or_else(|| panic!("{list}"));
    items.iter().map(|item| item["executionId"].as_str().unwrap().to_owned()).collect()
}

pub(crate) fn approve(url: &str, token: &str, execution: &str) {
    let body = json!({ "executionId": execution, "approved": true });
    let answer = asked("POST", &format!("{url}/api/elicitation/{execution}/resolve"), token, Some(&body));
    assert_eq!(answer["outcome"], "approved", "{answer}");
}

pub(crate) fn ledger(url: &str, token: &str) -> Vec<Value> {
    let body = json!({ "tool": "bank.ledger", "args": {} });
    let result = asked("POST", &format!("{url}/api/executions"), token, Some(&body));
    result["value"]["transfers"].as_array().unwrap_or_else(|| panic!("{result}")).clone()
}

pub(crate) fn until<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn record(home: &Path) -> PathBuf {
    home.join("data").join("server.json")
}

fn spawn(program: &Path, home: &Path, address: &str, words: &[&str]) -> Child {
    let mut command = Command::new(program);
    command
        .args(words)
        .args(["serve", "--listen", address])
        .current_dir(home)
        .env_clear()
        .env("HOME", home)
        .env("COUNTERSIGN_DATA_DIR", home.join("data"))
        .env("COUNTERSIGN_MCP_HOLD", HOLD)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    command.spawn().unwrap()
}

pub(crate) fn asked(method: &str, url: &str, token: &str, body: Option<&Value>) -> Value {
    let (status, answer) = http(method, url, token, body).unwrap_or_else(|| panic!("{url} does not answer"));
    assert!((200..300).contains(&status), "{method} {url}: {status} {answer}");
    answer
}

fn http(method: &str, url: &str, token: &str, body: Option<&Value>) -> Option<(u16, Value)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _ = rustls::crypto::ring::default_provider().install_default();
    runtime.block_on(async {
        let client = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build().unwrap();
        let mut request = client.request(method.parse().unwrap(), url);
        if !token.is_empty() {
            request = request.bearer_auth(token);
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        let response = request.send().await.ok()?;
        let status = response.status().as_u16();
        Some((status, response.json().await.unwrap_or_default()))
    })
}
