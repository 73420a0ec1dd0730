//! `countersign serve --demo`, on a data folder that outlives it, and clients that talk to it.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Nothing on this machine takes this long unless it never happens.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The first words of an MCP client of the 2025 era.
pub(crate) const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
pub(crate) const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// A folder, and the server that runs on it.
pub(crate) struct Home {
    child: Option<Child>,
    pub(crate) url: String,
    folder: TempDir,
}

/// Somebody with a token. Clones are the same one.
#[derive(Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    url: Arc<str>,
    token: Arc<str>,
}

impl Home {
    /// A new folder with a server on it.
    pub(crate) fn served() -> Self {
        let mut home = Self::new();
        home.start();
        home
    }

    /// Starts a server and waits until it says that it listens; gives how long that took.
    pub(crate) fn start(&mut self) -> Duration {
        let begun = Instant::now();
        self.started_by(|command| command.spawn().unwrap());
        begun.elapsed()
    }

    /// A folder without a server.
    pub(crate) fn new() -> Self {
        Self { child: None, url: String::new(), folder: tempfile::tempdir().unwrap() }
    }

    /// The same, with the command changed or started in another way.
    pub(crate) fn started_by(&mut self, spawn: impl FnOnce(&mut Command) -> Child) {
        let mut command = self.command(&["--demo", "serve", "--listen", "127.0.0.1:0"]);
        let mut child = spawn(command.stdout(Stdio::piped()).stderr(Stdio::null()));
        let mut said = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut said).unwrap();
        let url = said.split_whitespace().find(|word| word.starts_with("http://"));
        self.url = url.unwrap_or_else(|| panic!("no address in {said:?}")).to_owned();
        self.child = Some(child);
    }

    /// SIGKILL: no goodbye.
    pub(crate) fn kill(&mut self) {
        let mut child = self.child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// SIGTERM, and how it ended.
    pub(crate) fn terminate(&mut self) -> ExitStatus {
        let mut child = self.child.take().unwrap();
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        let begun = Instant::now();
        loop {
            if let Some(status) = child.try_wait().unwrap() {
                return status;
            }
            assert!(begun.elapsed() < PATIENCE, "it does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// A command in this folder, and in no other environment.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_countersign"));
        command.args(words).current_dir(self.folder.path()).env_clear().stdin(Stdio::null());
        command.env("HOME", self.folder.path()).env("COUNTERSIGN_DATA_DIR", self.data());
        command
    }

    pub(crate) fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    /// Whoever holds one of the tokens that the first start wrote.
    pub(crate) fn client(&self, name: &str) -> Client {
        Client::new(&self.url, &read_token(&self.data(), name))
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill().and_then(|()| child.wait());
        }
    }
}

pub(crate) fn read_token(data: &Path, name: &str) -> String {
    std::fs::read_to_string(data.join(format!("{name}.token"))).unwrap().trim().to_owned()
}

impl Client {
    pub(crate) fn new(url: &str, token: &str) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build().unwrap();
        Self { http, url: url.into(), token: token.into() }
    }

    /// The same one, at another address.
    pub(crate) fn at(&self, url: &str) -> Self {
        Self { url: url.into(), ..self.clone() }
    }

    /// Sends; gives the whole answer.
    pub(crate) async fn raw(&self, path: &str, body: &Value) -> reqwest::Response {
        let request = self.http.post(format!("{}{path}", self.url)).bearer_auth(&self.token).json(body);
        request.send().await.unwrap()
    }

    /// Sends these to the MCP endpoint, one after the other in one session; gives the answers.
    pub(crate) async fn over_mcp(&self, messages: &[&str]) -> Vec<String> {
        let (mut answers, mut session) = (Vec::new(), None);
        for message in messages {
            let mut request = self.http.post(format!("{}/mcp", self.url)).bearer_auth(&self.token);
            request = request.header("content-type", "application/json").body((*message).to_owned());
            request = request.header("accept", "application/json, text/event-stream");
            if let Some(session) = &session {
                request = request.header("mcp-session-id", session);
            }
            let answer = request.send().await.unwrap();
            session = session.or_else(|| answer.headers().get("mcp-session-id").cloned());
            answers.push(answer.text().await.unwrap());
        }
        answers
    }

    /// Sends a request of the 2026-07-28 era, which needs no session.
    pub(crate) async fn over_later_mcp(&self, method: &str, name: &str, message: &str) -> Value {
        let request = self.http.post(format!("{}/mcp", self.url)).bearer_auth(&self.token);
        let request = request.header("mcp-protocol-version", "2026-07-28").header("mcp-method", method);
        let request = request.header("mcp-name", name).header("content-type", "application/json");
        let request = request.header("accept", "application/json, text/event-stream");
        request.body(message.to_owned()).send().await.unwrap().json().await.unwrap()
    }

    /// Sends; gives status and body, or nothing where the server went away meanwhile.
    pub(crate) async fn try_post(&self, path: &str, body: &Value) -> Option<(u16, Value)> {
        let request = self.http.post(format!("{}{path}", self.url)).bearer_auth(&self.token).json(body);
        let answer = request.send().await.ok()?;
        let status = answer.status().as_u16();
        Some((status, answer.json().await.ok()?))
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Value {
        let (status, answer) =
            self.try_post(path, body).await.unwrap_or_else(|| panic!("{path} is not answered"));
        assert!((200..300).contains(&status), "{path}: {status} {answer}");
        answer
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        let answer =
            self.http.get(format!("{}{path}", self.url)).bearer_auth(&self.token).send().await.unwrap();
        let (status, answer) = (answer.status(), answer.json::<Value>().await.unwrap());
        assert!(status.is_success(), "{path}: {status} {answer}");
        answer
    }

    /// The status of an answer, and its text.
    pub(crate) async fn status(&self, path: &str) -> (u16, String) {
        let answer =
            self.http.get(format!("{}{path}", self.url)).bearer_auth(&self.token).send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    }

    /// A page of the console, after logging in with the token.
    pub(crate) async fn page(&self, path: &str) -> String {
        let login = self.http.post(format!("{}/login", self.url));
        let login = login.header("content-type", "application/x-www-form-urlencoded");
        let welcome = login.body(format!("token={}", self.token)).send().await.unwrap();
        let cookie = welcome.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
        let text = welcome.text().await.unwrap();
        let key = text.split("data-csrf=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
        let page = self.http.get(format!("{}{path}", self.url)).header("cookie", cookie);
        page.header("x-csrf-token", key).send().await.unwrap().text().await.unwrap()
    }

    /// Every item of a list, part by part.
    pub(crate) async fn list(&self, path: &str) -> Vec<Value> {
        let (mut all, mut cursor) = (Vec::new(), String::new());
        loop {
            let part = self.get(&format!("{path}limit=300{cursor}")).await;
            all.extend(part["items"].as_array().unwrap().iter().cloned());
            match part["nextCursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return all,
            }
        }
    }

    /// Says yes or no; nothing where the server went away meanwhile.
    pub(crate) async fn decide(&self, execution: &str, approved: bool) -> Option<(u16, Value)> {
        let body = json!({ "executionId": execution, "approved": approved });
        self.try_post(&format!("/api/elicitation/{execution}/resolve"), &body).await
    }

    /// The executions of the bank's ledger, one for each time a payment took effect.
    pub(crate) async fn ledger(&self) -> Vec<String> {
        let result = self.post("/api/executions", &json!({ "tool": "bank.ledger" })).await;
        let transfers = result["value"]["transfers"].as_array().unwrap_or_else(|| panic!("{result}"));
        transfers.iter().map(|row| row["executionId"].as_str().unwrap().to_owned()).collect()
    }

    /// Waits until no execution is running or waiting.
    pub(crate) async fn until_at_rest(&self) {
        let begun = Instant::now();
        loop {
            let part = self.get("/api/executions?status=running,paused&limit=1").await;
            if part["items"].as_array().unwrap().is_empty() {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "never at rest: {part}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Does something for each item, so many at a time; gives what came of it, in any order.
pub(crate) async fn at_once<I: Send + 'static, T: Send + 'static, F>(
    items: Vec<I>,
    workers: usize,
    work: impl Fn(I) -> F + Clone + Send + 'static,
) -> Vec<T>
where
    F: Future<Output = T> + Send,
{
    let queue = Arc::new(tokio::sync::Mutex::new(items.into_iter()));
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..workers {
        let (queue, work) = (Arc::clone(&queue), work.clone());
        tasks.spawn(async move {
            let mut done = Vec::new();
            loop {
                let next = queue.lock().await.next();
                let Some(item) = next else { return done };
                done.push(work(item).await);
            }
        });
    }
    tasks.join_all().await.into_iter().flatten().collect()
}
