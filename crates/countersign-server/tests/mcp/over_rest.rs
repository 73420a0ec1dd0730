//! One token used over MCP and over REST: two clients. Neither is in the other's session, and no answer in the one counts
//! for what the other called.

use countersign_core::policy::PathPattern;
use countersign_kernel::NewGrant;
use countersign_sdk::{Role, SessionId};
use countersign_server::{Links, Options, Server};
use countersign_testkit::world::ann;
use reqwest::Method;
use serde_json::{Value, json};

use crate::client::{Client, Era, Stream, approve};
use crate::house::{House, Key};

const KEY: [u8; 32] = [7; 32];

/// A server with all of its fronts, and the token of an attended agent.
struct Both {
    house: House,
    key: Key,
    base: String,
    _server: Server,
}

impl Both {
    async fn open() -> Self {
        // Its TLS is never used, but a client wants a provider to be made at all.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let house = House::open().await;
        let key = house.key(Role::Agent).await;
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let mut options = Options::at(Links::below(&base), KEY);
        options.mcp.hold = std::time::Duration::from_millis(50);
        let server = Server::start(listener, house.gateway.clone(), options, None).unwrap();
        Self { house, key, base, _server: server }
    }

    async fn client(&self, era: Era) -> Client {
        let can = json!({ "elicitation": {}, "extensions": { "io.modelcontextprotocol/tasks": {} } });
        Client::connect(&format!("{}/mcp", self.base), &self.key, era, can).await
    }

    /// A request to REST with the same token: the status and the body.
    async fn rest(&self, method: Method, path: &str, body: Value) -> (u16, Value) {
        let url = format!("{}/api{path}", self.base);
        let request = reqwest::Client::new().request(method, url).bearer_auth(&self.key.secret).json(&body);
        let response = request.send().await.unwrap();
        (response.status().as_u16(), response.json().await.unwrap_or_default())
    }

    /// The session that the gateway gave an MCP client, as its token reads it over REST.
    async fn session_of(&self, client: &Client) -> String {
        client.call("lab__read", json!({ "what": "x" })).await;
        loop {
            let (_, list) = self.rest(Method::GET, "/executions", json!(null)).await;
            if let Some(session) = list["items"][0]["sessionId"].as_str() {
                return session.to_owned();
            }
        }
    }
}

#[tokio::test]
async fn the_session_of_an_mcp_client_is_not_there_over_rest() {
    for era in [Era::June2025, Era::November2025, Era::July2026] {
        let both = Both::open().await;
        let client = both.client(era).await;
        let session = both.session_of(&client).await;
        let remembered =
            NewGrant::new(SessionId::parse(&session).unwrap(), PathPattern::parse("lab.destroy").unwrap());
        both.house.gateway.give_grant(&ann(), remembered).await.unwrap();

        let call = json!({ "tool": "lab.destroy", "args": { "what": "x" }, "sessionId": session });
        let script = json!({ "code": "return await tools.lab.destroy({ what: 'x' })", "sessionId": session });
        let explain = json!({ "tool": "lab.destroy", "args": { "what": "x" }, "sessionId": session });
        let approvals = format!("/sessions/{session}/approvals");
        for (method, path, body) in [
            (Method::POST, "/executions", call),
            (Method::POST, "/executions", script),
            (Method::POST, "/policy/explain", explain),
            (Method::GET, approvals.as_str(), json!(null)),
        ] {
            let (status, answer) = both.rest(method, path, body).await;
            assert_eq!(
                (status, &answer["code"]),
                (404, &json!("session_not_found")),
                "{era:?} {path}: {answer}"
            );
        }
        assert_eq!(both.house.effects(), [""; 0], "{era:?}");

        // The session's own client runs on what is remembered there.
        client.call("lab__destroy", json!({ "what": "x" })).await;
        assert_eq!(both.house.effects(), ["x"], "{era:?}");
    }
}

#[tokio::test]
async fn whoever_decides_reads_the_sessions_of_all_clients() {
    let both = Both::open().await;
    let session = both.session_of(&both.client(Era::November2025).await).await;
    let person = both.house.key(Role::Approver).await;
    let read = async |path: String| {
        let request = reqwest::Client::new().get(format!("{}/api{path}", both.base));
        let response = request.bearer_auth(&person.secret).send().await.unwrap();
        (response.status().as_u16(), response.json::<Value>().await.unwrap())
    };
    let (_, sessions) = read("/sessions".to_owned()).await;
    let listed: Vec<&str> =
        sessions["items"].as_array().unwrap().iter().filter_map(|it| it["sessionId"].as_str()).collect();
    assert!(listed.contains(&session.as_str()), "{sessions}");
    assert_eq!(read(format!("/sessions/{session}/approvals")).await.0, 200);
}

/// How an MCP client tries to answer what was begun over REST.
#[derive(Debug, Clone, Copy)]
enum Way {
    Update,
    Resume(Era),
}

#[tokio::test]
async fn no_answer_over_mcp_counts_for_what_was_begun_over_rest_in_whatever_session() {
    let eras = [Era::June2025, Era::November2025, Era::July2026].map(Way::Resume);
    for way in eras.into_iter().chain([Way::Update]) {
        for session in [None, Some("ses_named")] {
            let both = Both::open().await;
            let mut call = json!({ "tool": "lab.destroy", "args": { "what": "x" } });
            call["sessionId"] = session.into();
            let (status, begun) = both.rest(Method::POST, "/executions", call).await;
            assert_eq!((status, &begun["status"]), (200, &json!("paused")), "{begun}");
            let (execution, question) = (&begun["executionId"], &begun["paused"]["elicitationId"]);
            attempt(&both, way, execution, question.as_str().unwrap()).await;
            assert_eq!(both.house.open_questions().await.len(), 1, "{way:?} in {session:?}");
            assert_eq!(both.house.effects(), [""; 0], "{way:?} in {session:?}");
        }
    }
}

async fn attempt(both: &Both, way: Way, execution: &Value, question: &str) {
    match way {
        Way::Update => {
            let client = both.client(Era::July2026).await;
            let task = client.ask("tasks/get", json!({ "taskId": execution })).await;
            assert_eq!(task["result"]["status"], "working", "it is not put to this client: {task}");
            let said = json!({ "taskId": execution, "inputResponses": { question: approve() } });
            client.ask("tasks/update", said).await;
        }
        Way::Resume(era) => {
            let client = both.client(era).await;
            let mut answer = client.begin("resume", json!({ "execution_id": execution })).await;
            assert_eq!(prompt_or_end(&mut answer).await, None, "{era:?}: it is not put to this client");
        }
    }
}

/// The prompt that a client is shown before its answer, if it is shown one.
async fn prompt_or_end(answer: &mut Stream) -> Option<Value> {
    loop {
        let message = answer.next().await?;
        if message["method"] == "elicitation/create" || !message["result"]["inputRequests"].is_null() {
            return Some(message);
        }
        if message.get("result").is_some() || message.get("error").is_some() {
            return None;
        }
    }
}
