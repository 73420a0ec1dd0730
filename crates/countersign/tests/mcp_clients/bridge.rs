//! The same clients over standard input and output: `countersign mcp` starts the server, shares it, and finds it again.
//! Linux only: processes are looked up in `/proc` and waited for by their descriptor.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde_json::json;

use crate::client::{Client, Elicitation, Era, accept, in_every_era};
use crate::server::{self, until};
use crate::unix_user::UnixUser;

in_every_era!(
    a_client_on_stdio_starts_the_server_and_asks_its_user,
    a_server_killed_under_a_client_on_stdio_is_found_again,
    a_call_cancelled_on_stdio_is_withdrawn,
    a_client_killed_while_its_call_is_open_on_stdio_leaves_its_question,
);

/// The client that the operator installed, and how it starts its bridge.
const CLIENT: &str = "claude-code";
const BRIDGE: &[&str] = &["--demo", "mcp", "--client", CLIENT];

/// The home of a user of its own, because a bridge starts a server only for its user's own folder. The server goes with it.
struct Home(UnixUser);

impl Home {
    /// Nothing where no user can be made; see there.
    fn new() -> Option<Self> {
        let user = UnixUser::made()?;
        user.configure("data_dir = \"../../data\"\n");
        let home = Self(user);
        home.install();
        Some(home)
    }

    fn path(&self) -> &Path {
        self.0.home()
    }

    /// Has the operator install a client whose prompts reach a person.
    fn install(&self) {
        let (uid, gid) = (format!("--reuid={}", self.0.uid), format!("--regid={}", self.0.gid));
        let output = Command::new("setpriv")
            .args([&uid, &gid, "--clear-groups"])
            .arg(crate::unix_user::program())
            .args(["--demo", "mcp", "install", CLIENT, "--attended"])
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.path())
            .current_dir(self.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    fn client(&self, era: Era) -> Client {
        Client::over_stdio(era, Elicitation::Declared, &self.0, BRIDGE)
    }

    /// A client that cannot ask.
    fn silent_client(&self, era: Era) -> Client {
        Client::over_stdio(era, Elicitation::Absent, &self.0, BRIDGE)
    }

    fn url(&self) -> String {
        server::ready(self.path())
    }

    fn ledger(&self) -> Vec<serde_json::Value> {
        server::ledger(&self.url(), &server::token(self.path(), "agent"))
    }

    fn pending(&self) -> Vec<String> {
        server::pending(&self.url(), &server::token(self.path(), "admin"))
    }

    /// Some, once the server is there and so many questions wait.
    fn is_ready_with(&self, questions: usize) -> Option<()> {
        (server::try_process(self.path()).is_some() && self.pending().len() == questions).then_some(())
    }

    /// What became of an execution, and of its question.
    fn ended(&self, execution: &str) -> (String, String) {
        let (url, token) = (self.url(), server::token(self.path(), "admin"));
        let result = server::asked("GET", &format!("{url}/api/executions/{execution}"), &token, None);
        let asked = server::asked("GET", &format!("{url}/api/elicitation"), &token, None);
        let asked =
            asked["items"].as_array().into_iter().flatten().find(|item| item["executionId"] == execution);
        let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        (text(&result["status"]), asked.map(|item| text(&item["status"])).unwrap_or_default())
    }

    /// How many bridges run for this home: its environment is theirs, and `mcp` is their last word.
    fn bridges(&self) -> usize {
        let is_ours = |process: &Path| {
            let environment = fs::read(process.join("environ")).unwrap_or_default();
            let words = fs::read(process.join("cmdline")).unwrap_or_default();
            let home = self.path().as_os_str().as_encoded_bytes();
            environment.windows(home.len()).any(|part| part == home)
                && words.ends_with(b"\0mcp\0--client\0claude-code\0")
        };
        let processes = fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
        processes.filter(|process| is_ours(&process.path())).count()
    }

    /// Kills the server and waits until it is dead: a signal is only on its way when `kill` returns, and a request that
    /// reaches a dying server is lost instead of sent to the next one.
    fn kill_server(&self) {
        let pid = i32::try_from(server::process(self.path())).unwrap();
        let pid = Pid::from_raw(pid).unwrap();
        let handle = pidfd_open(pid, PidfdFlags::empty()).unwrap();
        pidfd_send_signal(&handle, Signal::KILL).unwrap();
        poll(&mut [PollFd::new(&handle, PollFlags::IN)], None).unwrap();
    }
}

fn a_client_on_stdio_starts_the_server_and_asks_its_user(era: Era) {
    let Some(home) = Home::new() else { return };
    let mut client = home.client(era);
    assert!(client.tools().iter().any(|tool| tool["name"] == "bank__pay"));
    let call = client.begin("bank__pay", &json!({ "to": "ann", "amount": 12 }));
    let question = client.asked();
    client.answer(&question, &accept(&json!({ "decision": "approve" })));
    let result = client.result(call);
    assert_ne!(result["isError"], true, "{result}");
    assert_eq!(home.ledger().len(), 1);
}

fn a_server_killed_under_a_client_on_stdio_is_found_again(era: Era) {
    let Some(home) = Home::new() else { return };
    let mut client = home.client(era);
    let call = client.begin("bank__pay", &json!({ "to": "ann", "amount": 7 }));
    let question = client.asked();
    let execution = home.pending().remove(0);
    home.kill_server();
    match era {
        Era::June2025 | Era::November2025 => {
            // The call was under way, so the client is told, and the question of a session that is gone is withdrawn.
            let outcome = client.outcome(call);
            assert_eq!(outcome["data"]["code"], "connection_lost", "{outcome}");
            let call = client.begin("resume", &json!({ "execution_id": execution }));
            let question = client.asked();
            client.answer(&question, &accept(&json!({ "decision": "approve" })));
            let result = client.result(call);
            assert_eq!(result["structuredContent"]["status"], "succeeded", "{result}");
        }
        Era::July2026 => {
            // Nothing was under way: the answer finds the new server as it would have found the old one.
            client.answer(&question, &accept(&json!({ "decision": "approve" })));
            let result = client.result(call);
            assert_ne!(result["isError"], true, "{result}");
        }
    }
    let ledger = home.ledger();
    assert_eq!(ledger.len(), 1, "{ledger:?}");
    assert_eq!(ledger[0]["executionId"], execution.as_str(), "{ledger:?}");
}

#[test]
fn a_client_killed_on_stdio_takes_its_bridge_with_it_and_leaves_its_question() {
    let Some(home) = Home::new() else { return };
    let mut client = home.client(Era::November2025);
    client.begin("bank__pay", &json!({ "to": "ann", "amount": 7 }));
    client.asked();
    let execution = home.pending().remove(0);
    assert_eq!(home.bridges(), 1);
    client.kill();
    until("the bridge ends", || (home.bridges() == 0).then_some(()));
    assert_eq!(home.pending(), [execution.as_str()], "the server is still there, and so is the question");
    let mut next = home.client(Era::July2026);
    let call = next.begin("resume", &json!({ "execution_id": execution }));
    let question = next.asked();
    next.answer(&question, &accept(&json!({ "decision": "approve" })));
    assert_eq!(next.result(call)["structuredContent"]["status"], "succeeded");
    assert_eq!(home.ledger().len(), 1);
}

fn a_call_cancelled_on_stdio_is_withdrawn(era: Era) {
    let Some(home) = Home::new() else { return };
    let mut client = home.silent_client(era);
    let call = client.begin("bank__pay", &json!({ "to": "ann", "amount": 7 }));
    until("the question is there", || home.is_ready_with(1));
    let execution = home.pending().remove(0);
    client.abort(call);
    assert_eq!(client.outcome(call)["ok"], false);
    until("the question is withdrawn", || home.is_ready_with(0));
    let (status, question) = home.ended(&execution);
    assert_eq!((status.as_str(), question.as_str()), ("cancelled", "cancelled"));
    let said = client.call("echo__say", &json!({ "text": "still here" }));
    assert_eq!(said["structuredContent"]["text"], "still here", "{said}");
    assert!(home.ledger().is_empty());
}

fn a_client_killed_while_its_call_is_open_on_stdio_leaves_its_question(era: Era) {
    let Some(home) = Home::new() else { return };
    let mut client = home.silent_client(era);
    client.begin("bank__pay", &json!({ "to": "ann", "amount": 7 }));
    until("the question is there", || home.is_ready_with(1));
    let execution = home.pending().remove(0);
    client.kill();
    until("the bridge ends", || (home.bridges() == 0).then_some(()));
    assert_eq!(home.pending(), [execution.as_str()]);
    let url = home.url();
    server::approve(&url, &server::token(home.path(), "admin"), &execution);
    until("it is paid", || (home.ledger().len() == 1).then_some(()));
}

/// The same without anybody's client: a line cancels, the end of the lines does not.
#[test]
fn a_line_that_cancels_a_call_of_2026_07_28_withdraws_it_and_the_end_of_the_lines_does_not() {
    let Some(home) = Home::new() else { return };
    let (uid, gid) = (format!("--reuid={}", home.0.uid), format!("--regid={}", home.0.gid));
    let mut bridge = Command::new("setpriv")
        .args([&uid, &gid, "--clear-groups"])
        .arg(crate::unix_user::program())
        .args(BRIDGE)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", home.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = bridge.stdin.take().unwrap();
    let call = |id: u64| {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let arguments = json!({ "to": "ann", "amount": id });
        let params = json!({ "name": "bank__pay", "arguments": arguments, "_meta": meta });
        json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
    };
    writeln!(input, "{}", call(1)).unwrap();
    until("the first question is there", || home.is_ready_with(1));
    let cancelled = home.pending().remove(0);
    writeln!(input, "{}", call(2)).unwrap();
    until("both questions are there", || home.is_ready_with(2));
    let why = json!({ "requestId": 1, "reason": "changed my mind" });
    writeln!(input, "{}", json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": why }))
        .unwrap();
    until("one is withdrawn", || home.is_ready_with(1));
    assert_eq!(home.ended(&cancelled), ("cancelled".to_owned(), "cancelled".to_owned()));
    let left = home.pending();
    assert_ne!(left, [cancelled.as_str()], "the other call is another");
    drop(input);
    bridge.wait().unwrap();
    assert_eq!(home.pending(), left, "whoever merely leaves cancels nothing");
}

#[test]
fn a_stranger_at_the_old_address_is_not_taken_for_the_server() {
    let Some(home) = Home::new() else { return };
    let mut client = home.client(Era::July2026);
    client.call("notes__add", &json!({ "title": "Milk" }));
    let address = home.url().trim_start_matches("http://").to_owned();
    home.kill_server();
    let stranger = Stranger::at(&address);
    let notes = client.call("notes__list", &json!({}));
    assert_eq!(notes["structuredContent"]["notes"][0]["title"], "Milk", "{notes}");
    assert_ne!(home.url(), format!("http://{address}"));
    let heard = stranger.heard.lock().unwrap().to_lowercase();
    assert!(!heard.contains("authorization") && !heard.contains("notes"), "{heard}");
}

/// Somebody who says yes to everything, and remembers what they were told.
struct Stranger {
    heard: Arc<Mutex<String>>,
}

impl Stranger {
    fn at(address: &str) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let heard = Arc::new(Mutex::new(String::new()));
        let remembers = Arc::clone(&heard);
        std::thread::spawn(move || {
            for mut connection in listener.incoming().map_while(Result::ok) {
                let mut bytes = [0; 4096];
                let count = connection.read(&mut bytes).unwrap_or_default();
                remembers.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..count]));
                let yes = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}";
                let _ = connection.write_all(yes.as_bytes());
            }
        });
        Self { heard }
    }
}

#[test]
fn two_clients_started_at_once_share_one_server() {
    let Some(home) = Home::new() else { return };
    let (mut first, mut second) = std::thread::scope(|scope| {
        let first = scope.spawn(|| home.client(Era::November2025));
        let second = scope.spawn(|| home.client(Era::July2026));
        (first.join().unwrap(), second.join().unwrap())
    });
    first.call("notes__add", &json!({ "title": "Milk" }));
    let notes = second.call("notes__list", &json!({}));
    assert_eq!(notes["structuredContent"]["notes"][0]["title"], "Milk", "{notes}");
    let call = first.begin("bank__pay", &json!({ "to": "ann", "amount": 1 }));
    first.asked();
    until("both share one inbox", || (home.pending().len() == 1).then_some(()));
    server::approve(&home.url(), &server::token(home.path(), "admin"), &home.pending()[0]);
    assert_ne!(first.result(call)["isError"], true);
}
