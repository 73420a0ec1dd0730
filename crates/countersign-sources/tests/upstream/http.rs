//! The everything server over streamable HTTP: the same as over stdio, and sessions that end.

use std::sync::Arc;

use countersign_sources::http::{AddressPolicy, Credential, Intent, PrivateAddresses};
use countersign_sources::mcp::{
    CallFailure, Endpoint, Era, HttpEndpoint, Upstream, UpstreamConfig, UpstreamEvent,
};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::fixture::{Person, call, connect, no_arguments, text};
use crate::toolbox::node_folder;

/// The everything server on a port.
struct Everything {
    process: Child,
    port: u16,
}

impl Everything {
    async fn start() -> Self {
        let port = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
        Self::start_on(port).await
    }

    async fn start_on(port: u16) -> Self {
        let mut process = Command::new("node")
            .arg(node_folder().join("node_modules/@modelcontextprotocol/server-everything/dist/index.js"))
            .arg("streamableHttp")
            .env("PORT", port.to_string())
            .stderr(std::process::Stdio::piped())
            .stdout(std::process::Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        while let Some(line) = lines.next_line().await.unwrap() {
            if line.contains("listening") {
                tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
                return Self { process, port };
            }
        }
        panic!("the server ended at once");
    }

    fn config(&self) -> UpstreamConfig {
        http(&format!("http://127.0.0.1:{}/mcp", self.port))
    }

    async fn restart(&mut self) {
        self.process.kill().await.unwrap();
        *self = Self::start_on(self.port).await;
    }
}

/// A server at a URL that may be on the loopback address.
pub(crate) fn http(url: &str) -> UpstreamConfig {
    let addresses = AddressPolicy { private: PrivateAddresses::Permit, ..AddressPolicy::default() };
    let endpoint = HttpEndpoint { url: url.into(), credentials: vec![], addresses, proxy: None };
    UpstreamConfig::new("upstream", Endpoint::Http(endpoint))
}

#[tokio::test]
async fn the_everything_server_offers_and_answers_over_http() {
    let server = Everything::start().await;
    let everything = connect(server.config()).await;
    assert_eq!(everything.era().await, Ok(Era::Legacy));
    assert!(everything.offer().await.unwrap().tools.len() > 10);
    let outcome = everything.read("echo", json!({ "message": "hi" })).await.unwrap();
    assert_eq!(text(&outcome), "Echo: hi");
    assert!(!everything.resources().await.unwrap().is_empty());
    everything.close().await;
}

#[tokio::test]
async fn two_questions_at_once_over_http_each_reach_their_own_call() {
    let server = Everything::start().await;
    let everything = connect(server.config()).await;
    let asked = async |name: &str| {
        let person = Person::who_accepts(json!({ "name": name, "check": true }));
        let mut asking = call("trigger-elicitation-request", no_arguments(), Intent::Write);
        asking.asker = person.clone();
        let outcome = everything.call(asking).await.unwrap();
        (person.messages().len(), serde_json::to_string(&outcome.content).unwrap().contains(name))
    };
    let both = tokio::join!(asked("Ada Lovelace"), asked("Bob Marley"));
    assert_eq!(both, ((1, true), (1, true)));
}

#[tokio::test]
async fn progress_over_http_is_passed_on() {
    let server = Everything::start().await;
    let everything = connect(server.config()).await;
    let heard = Arc::new(std::sync::Mutex::new(0));
    let mut long = call("trigger-long-running-operation", json!({ "duration": 1, "steps": 3 }), Intent::Read);
    let told = heard.clone();
    long.progress = Arc::new(move |_| *told.lock().unwrap() += 1);
    everything.call(long).await.unwrap();
    assert_eq!(*heard.lock().unwrap(), 3);
}

#[tokio::test]
async fn after_the_server_forgot_the_session_a_read_works_and_a_write_was_not_sent() {
    let mut server = Everything::start().await;
    let everything = connect(server.config()).await;
    everything.read("echo", json!({ "message": "before" })).await.unwrap();
    server.restart().await;
    let outcome = everything.read("echo", json!({ "message": "after" })).await.unwrap();
    assert_eq!(text(&outcome), "Echo: after");
    everything.event(|event| *event == UpstreamEvent::Connected).await;
    server.restart().await;
    let failure = everything.write("echo", json!({ "message": "once" })).await.unwrap_err();
    assert!(matches!(failure, CallFailure::NotSent(_)), "{failure:?}");
    everything.event(|event| *event == UpstreamEvent::Connected).await;
    assert_eq!(text(&everything.write("echo", json!({ "message": "again" })).await.unwrap()), "Echo: again");
}

#[tokio::test]
async fn a_server_killed_during_a_call_over_http_leaves_a_write_in_doubt() {
    let mut server = Everything::start().await;
    let everything = connect(server.config()).await;
    let mut long =
        call("trigger-long-running-operation", json!({ "duration": 600, "steps": 1200 }), Intent::Write);
    let (begun, has_begun) = tokio::sync::oneshot::channel();
    let begun = std::sync::Mutex::new(Some(begun));
    long.progress = Arc::new(move |_| {
        begun.lock().unwrap().take().map(|begun| begun.send(()));
    });
    let (failure, ()) = tokio::join!(everything.call(long), async {
        has_begun.await.unwrap();
        server.process.kill().await.unwrap();
    });
    assert!(failure.clone().unwrap_err().is_in_doubt(Intent::Write), "{failure:?}");
    let failure = everything.write("echo", json!({ "message": "x" })).await.unwrap_err();
    assert!(matches!(failure, CallFailure::NotSent(_)), "{failure:?}");
}

#[tokio::test]
async fn a_server_at_a_private_address_is_refused_unless_the_operator_allows_it() {
    let mut config = http("http://localhost:9/mcp");
    if let Endpoint::Http(endpoint) = &mut config.endpoint {
        endpoint.addresses = AddressPolicy::default();
        endpoint.credentials = vec![Credential::Bearer("canary-1234".into())];
    }
    let error = Upstream::connect(config, Arc::new(|_| ())).await.err().unwrap().to_string();
    assert!(error.contains("allow_private"), "{error}");
}

#[tokio::test]
async fn a_source_may_be_started_before_its_server_is_there() {
    let port = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let mut config = http(&format!("http://127.0.0.1:{port}/mcp"));
    config.limits.restart_pause = std::time::Duration::from_millis(50);
    config.limits.restart_wait = std::time::Duration::from_secs(60);
    let (connected, mut has_connected) = tokio::sync::mpsc::unbounded_channel();
    let upstream = Upstream::start(config, Arc::new(move |event| drop(connected.send(event))));
    let _server = Everything::start_on(port).await;
    let outcome = upstream.call(call("echo", json!({ "message": "late" }), Intent::Write)).await.unwrap();
    assert_eq!(text(&outcome), "Echo: late");
    assert_eq!(has_connected.recv().await, Some(UpstreamEvent::Connected));
}
