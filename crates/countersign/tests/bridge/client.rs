//! The client's end: lines in, lines out, and the process between.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::server::{Server, TOKEN};

const PATIENCE: Duration = Duration::from_secs(60);

/// A bridge, with a hand on both its ends.
pub(crate) struct Client {
    child: Child,
    input: Option<ChildStdin>,
    output: Receiver<Value>,
}

/// How the bridge ended.
pub(crate) struct Ended {
    pub(crate) status: i32,
    pub(crate) err: String,
    pub(crate) after: Duration,
}

impl Client {
    pub(crate) fn of(server: &Server) -> Self {
        Self::with(&["mcp", "--connect", &server.url])
    }

    /// A bridge with this command line.
    pub(crate) fn with(words: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_countersign"));
        command.args(words).env_clear().env("HOME", "/nonexistent").env("COUNTERSIGN_TOKEN", TOKEN);
        Self::started(command.env("COUNTERSIGN_LOG", "countersign=debug"))
    }

    /// A bridge that this command starts.
    pub(crate) fn started(command: &mut Command) -> Self {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let input = child.stdin.take();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (sender, output) = channel();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let message = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}"));
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        Self { child, input, output }
    }

    /// A client of the 2025 era that has its session.
    pub(crate) fn initialised(server: &Server) -> Self {
        let mut client = Self::of(server);
        client.initialise();
        client
    }

    /// Begins a session of the 2025 era.
    pub(crate) fn initialise(&mut self) {
        self.send(&json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": { "elicitation": {} }, "clientInfo": { "name": "t", "version": "1" },
        } }));
        assert_eq!(self.next()["result"]["protocolVersion"], "2025-11-25");
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    }

    pub(crate) fn send(&mut self, message: &Value) {
        self.write(format!("{message}\n").as_bytes());
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.input.as_mut().unwrap().write_all(bytes).unwrap();
    }

    /// The next message.
    pub(crate) fn next(&mut self) -> Value {
        self.output.recv_timeout(PATIENCE).expect("a message")
    }

    /// That nothing comes for a while.
    pub(crate) fn hears_nothing(&mut self) {
        let heard = self.output.recv_timeout(Duration::from_millis(300));
        assert!(matches!(heard, Err(RecvTimeoutError::Timeout)), "{heard:?}");
    }

    /// Stops writing, and sees the bridge end.
    pub(crate) fn hang_up(mut self) -> Ended {
        let begun = Instant::now();
        drop(self.input.take());
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status.code().unwrap_or(-1);
            }
            assert!(begun.elapsed() < PATIENCE, "the bridge does not end");
            std::thread::sleep(Duration::from_millis(10));
        };
        let mut err = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        Ended { status, err, after: begun.elapsed() }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A request of the 2026-07-28 era.
pub(crate) fn modern(id: u64, method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

/// A request of the 2025 era.
pub(crate) fn legacy(id: u64, method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

/// Waits until something is so.
pub(crate) fn until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
