//! Agents and strangers open as many connections as they get, at the bounds that ship, on a system that gives programs 1,024
//! open files unless they ask for more: people who decide still get in.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::server::Home;

/// What a login shell or a systemd unit gives a program at first.
const USUAL_OPEN_FILES: &str = "ulimit -Sn 1024";
/// What a system may give at most.
const FEW_OPEN_FILES: &str = "ulimit -n 512";
/// As many as the server takes in all.
const CONNECTIONS: usize = 4_096;
/// As many as one principal may have; none of them gives way while it is read.
const STREAMS: usize = 64;
/// So many agents would have every one of 1,024 open files with their streams alone.
const AGENTS: usize = 16;
/// How long an answer is waited for that a server without open files never gives; on a busy machine others take their time.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_the_bounds_that_ship_agents_and_strangers_keep_no_approver_out() {
    raise_open_files_of_this_test();
    let mut home = Home::new();
    home.started_by(|command| after(USUAL_OPEN_FILES, command));
    let agents = agents(&home, AGENTS).await;
    let question = asked(&home).await;

    let (first, mut held) = (&agents[0], Vec::new());
    held.extend(streams(&home, first, CONNECTIONS).await);
    assert_eq!(held.len(), STREAMS, "the event streams of one agent");
    for secret in &agents[1..] {
        held.extend(streams(&home, secret, STREAMS).await);
    }
    let silent = silent_connections(&home).await;

    decides(&home, &question).await;
    assert_eq!(held.len(), AGENTS * STREAMS, "every agent has its streams");
    drop((held, silent));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_the_system_gives_few_open_files_there_are_fewer_connections_and_people_get_in() {
    let mut home = Home::new();
    home.started_by(|command| after(FEW_OPEN_FILES, command));
    let agents = agents(&home, AGENTS).await;
    let question = asked(&home).await;
    let mut held = Vec::new();
    for secret in &agents {
        held.extend(streams(&home, secret, STREAMS).await);
    }
    assert!(held.len() < 256, "{} connections of programs leave too few open files", held.len());
    let silent = silent_connections(&home).await;
    decides(&home, &question).await;
    drop((held, silent));
}

/// A payment that waits for a person.
async fn asked(home: &Home) -> String {
    let call = json!({ "tool": "bank.pay", "args": { "to": "ann", "amount": 5 } });
    let paused = home.client("agent").post("/api/executions", &call).await;
    paused["paused"]["elicitationId"].as_str().unwrap().to_owned()
}

/// A person lists what waits, gets a link to the console, approves, and runs a script.
async fn decides(home: &Home, question: &str) {
    let admin = home.client("admin");
    let waiting = admin.get("/api/elicitation?status=pending").await;
    assert_eq!(waiting["items"].as_array().unwrap().len(), 1, "{waiting}");
    let login = admin.post("/api/login-links", &json!(null)).await;
    assert!(login["url"].as_str().unwrap().contains("/login?code="), "{login}");
    let path = format!("/api/elicitation/{question}/resolve");
    let decided = admin.post(&path, &json!({ "approved": true })).await;
    assert_eq!(decided["outcome"], "approved", "{decided}");
    // A script has a child, and a child needs open files.
    let script = admin.post("/api/executions", &json!({ "code": "return 1;" })).await;
    assert_eq!(script["value"], 1, "{script}");
    assert_eq!(admin.ledger().await.len(), 1, "what was approved ran");
}

/// Starts the command in a shell that has set a bound before.
fn after(bound: &str, command: &mut Command) -> Child {
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(format!("{bound} && exec \"$@\"")).arg("sh");
    shell.arg(command.get_program()).args(command.get_args()).env_clear();
    shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell.current_dir(command.get_current_dir().unwrap());
    shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

/// The other end of every connection is in this process.
fn raise_open_files_of_this_test() {
    let bounds = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: bounds.maximum, ..bounds }).unwrap();
    let most = bounds.maximum.unwrap_or(u64::MAX);
    assert!(
        most >= 3 * CONNECTIONS as u64,
        "this test needs a hard bound of 12,288 open files; it is {most}"
    );
}

/// The secrets of so many agents.
async fn agents(home: &Home, count: usize) -> Vec<String> {
    let admin = home.client("admin");
    let mut secrets = Vec::new();
    for n in 0..count {
        let made = admin.post("/api/tokens", &json!({ "name": format!("agent {n}"), "role": "agent" })).await;
        secrets.push(made["secret"].as_str().unwrap().to_owned());
    }
    secrets
}

/// The event streams that an agent gets when it asks for so many, one after the other. A server that refuses says so; one that does
/// not answer has no open files left.
async fn streams(home: &Home, secret: &str, count: usize) -> Vec<TcpStream> {
    let host = home.url.strip_prefix("http://").unwrap();
    let request =
        format!("GET /api/events HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {secret}\r\n\r\n");
    let mut open = Vec::new();
    for _ in 0..count {
        let answered = async {
            let mut stream = TcpStream::connect(host).await.ok()?;
            stream.write_all(request.as_bytes()).await.ok()?;
            let mut status = [0; "HTTP/1.1 200".len()];
            stream.read_exact(&mut status).await.ok()?;
            (&status == b"HTTP/1.1 200").then_some(stream)
        };
        let answered = tokio::time::timeout(PATIENCE, answered).await;
        assert!(answered.is_ok(), "a server that does not answer has no open files left");
        open.extend(answered.ok().flatten());
    }
    open
}

/// Connections that never say anything.
async fn silent_connections(home: &Home) -> Vec<TcpStream> {
    let host = home.url.strip_prefix("http://").unwrap();
    let mut silent = Vec::new();
    for _ in 0..CONNECTIONS {
        let connected = tokio::time::timeout(PATIENCE, TcpStream::connect(host)).await;
        assert!(connected.is_ok(), "the server takes connections, and lets go of as many");
        silent.extend(connected.ok().and_then(Result::ok));
    }
    silent
}
