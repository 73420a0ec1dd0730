//! The GitHub example against a stand-in for GitHub, on a real store: what reaches it, when, and what does not leak.

#![expect(clippy::unwrap_used, reason = "a test that meets the unexpected stops there")]

#[expect(
    dead_code,
    unreachable_pub,
    reason = "the example's own `main` is not run here, and it is a program of its own"
)]
#[path = "../examples/github.rs"]
mod github;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::IntoResponse;
use countersign_core::policy::Policy;
use countersign_kernel::ports::{Credentials, CredentialsError};
use countersign_kernel::{
    Answer, CallRequest, Caller, Decide, ExecutionResult, Gateway, Patience, Settings, Target,
};
use countersign_sdk::{AuthProvider, Principal, Remember, SecretString, SessionId};
use countersign_store::SqliteStore;
use serde_json::{Value, json};
use tempfile::TempDir;

const TOKEN: &str = "ghp_canary0123456789";

/// A request as the stand-in saw it.
#[derive(Debug, Clone)]
struct Seen {
    method: Method,
    uri: String,
    authorization: String,
    body: Value,
}

/// Something that answers like GitHub.
#[derive(Clone, Default)]
struct StandIn {
    seen: Arc<Mutex<Vec<Seen>>>,
    broken: Arc<Mutex<bool>>,
}

impl StandIn {
    async fn start(&self) -> SocketAddr {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let app = Router::new().fallback(answer).with_state(self.clone());
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        address
    }

    fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    fn posts(&self) -> Vec<Seen> {
        self.seen().into_iter().filter(|seen| seen.method == Method::POST).collect()
    }
}

async fn answer(
    State(stand_in): State<StandIn>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> axum::response::Response {
    let authorization =
        headers.get("authorization").and_then(|v| v.to_str().ok()).unwrap_or_default().to_owned();
    let seen = Seen {
        method: method.clone(),
        uri: uri.to_string(),
        authorization: authorization.clone(),
        body: serde_json::from_slice(&body).unwrap_or_default(),
    };
    let number = {
        let mut all = stand_in.seen.lock().unwrap();
        all.push(seen);
        all.len()
    };
    if *stand_in.broken.lock().unwrap() {
        return (StatusCode::INTERNAL_SERVER_ERROR, format!("oops, you sent {authorization}"))
            .into_response();
    }
    if authorization != format!("Bearer {TOKEN}") {
        return (StatusCode::UNAUTHORIZED, "{}").into_response();
    }
    let issue = json!({
        "number": number, "title": "One", "state": "open", "labels": [{ "name": "bug" }],
        "created_at": "2026-01-01T00:00:00Z", "html_url": format!("https://example.org/{number}"),
    });
    let found = json!({ "total_count": 1, "items": [
        { "full_name": "o/r", "description": null, "stargazers_count": 5, "html_url": "https://example.org/o/r" },
    ] });
    let (status, body) = match (method, uri.path()) {
        (Method::GET, "/search/repositories") => (StatusCode::OK, found),
        (Method::GET, _) => (StatusCode::OK, json!([issue])),
        _ => (StatusCode::CREATED, issue),
    };
    (status, body.to_string()).into_response()
}

/// Everybody has the same token.
struct OneToken;

#[async_trait]
impl Credentials for OneToken {
    async fn token(&self, _: &AuthProvider, _: &Principal) -> Result<Option<SecretString>, CredentialsError> {
        Ok(Some(SecretString::from(TOKEN)))
    }
}

/// A gateway with the plugin, on a store in a folder of its own.
struct Bench {
    gateway: Gateway,
    stand_in: StandIn,
    agent: Caller,
    session: SessionId,
    folder: TempDir,
}

impl Bench {
    async fn with_rules(rules: &str) -> Self {
        Self::with(Settings::default(), rules).await
    }

    async fn with(settings: Settings, rules: &str) -> Self {
        let stand_in = StandIn::default();
        let address = stand_in.start().await;
        let folder = tempfile::tempdir().unwrap();
        let gateway = Gateway::builder(SqliteStore::open(folder.path()).unwrap())
            .policy(Policy::from_toml(rules).unwrap())
            .settings(settings)
            .credentials(OneToken)
            .plugin(github::plugin(&format!("http://{address}/")))
            .start()
            .await
            .unwrap();
        let agent = Caller::from(Principal::agent("agent-1").unwrap());
        let session = gateway.open_session(&agent, "test", None).await.unwrap();
        Self { gateway, stand_in, agent, session, folder }
    }

    async fn call(&self, path: &str, args: Value) -> ExecutionResult {
        let request = CallRequest {
            path: path.into(),
            args,
            caller: self.agent.clone(),
            session: self.session.clone(),
            key: None,
            patience: Patience::UntilPaused,
        };
        self.gateway.call(request).await.unwrap()
    }

    async fn decide(&self, result: &ExecutionResult, answer: Answer) -> ExecutionResult {
        let decide = Decide {
            target: Target::Elicitation(result.paused().unwrap().elicitation.id),
            by: Principal::approver("ann").unwrap().into(),
            channel: "test".into(),
            answer,
            comment: None,
        };
        self.gateway.decide(decide).await.unwrap();
        self.gateway.wait(result.execution, Patience::UntilPaused).await.unwrap().unwrap()
    }

    async fn approve(&self, result: &ExecutionResult) -> ExecutionResult {
        self.decide(result, Answer::Approve { covers: None, data: None }).await
    }
}

fn issue() -> Value {
    json!({ "owner": "o", "repo": "r", "title": "T", "body": "B", "labels": ["bug"], "assignees": ["ann"] })
}

#[tokio::test]
async fn reading_flows_through_with_its_defaults() {
    let bench = Bench::with_rules("").await;
    let result = bench.call("github.issues.list", json!({ "owner": "rust-lang", "repo": "cargo" })).await;
    let listed = json!({ "issues": [{
        "number": 1, "title": "One", "state": "open", "labels": ["bug"],
        "created_at": "2026-01-01T00:00:00Z", "url": "https://example.org/1",
    }] });
    assert_eq!((result.value, result.error), (Some(listed), None));
    let seen = &bench.stand_in.seen()[0];
    assert_eq!(seen.uri, "/repos/rust-lang/cargo/issues?state=open&per_page=30");
    assert_eq!(seen.authorization, format!("Bearer {TOKEN}"));
    let filtered = json!({ "owner": "o", "repo": "r", "state": "all", "limit": 5, "labels": ["a b", "c&d"] });
    bench.call("github.issues.list", filtered).await;
    assert_eq!(bench.stand_in.seen()[1].uri, "/repos/o/r/issues?state=all&per_page=5&labels=a+b%2Cc%26d");
    let found = bench.call("github.repos.search", json!({ "query": "gateway language:rust" })).await;
    assert_eq!(found.value.unwrap()["repositories"][0]["name"], "o/r");
    assert_eq!(bench.stand_in.seen()[2].uri, "/search/repositories?q=gateway+language%3Arust&per_page=30");
}

#[tokio::test]
async fn nothing_is_created_before_a_yes_nor_after_a_no() {
    let bench = Bench::with_rules("").await;
    let paused = bench.call("github.issues.create", issue()).await;
    let question = &paused.paused().unwrap().elicitation;
    assert_eq!(question.message, "Create issue \"T\" in o/r?");
    assert_eq!(question.args.to_value(), issue());
    assert_eq!(bench.stand_in.seen().len(), 0);
    let denied = bench.decide(&paused, Answer::Deny).await;
    assert_eq!(denied.error.unwrap().code, "denied");
    assert_eq!(bench.stand_in.seen().len(), 0);
}

#[tokio::test]
async fn a_yes_creates_once_exactly_what_was_shown() {
    let bench = Bench::with_rules("").await;
    let paused = bench.call("github.issues.create", issue()).await;
    let shown = paused.paused().unwrap().elicitation.args.to_value();
    let done = bench.approve(&paused).await;
    assert_eq!(done.value, Some(json!({ "number": 1, "url": "https://example.org/1" })));
    let posts = bench.stand_in.posts();
    assert_eq!(posts.len(), 1);
    assert_eq!(posts[0].uri, "/repos/o/r/issues");
    let mut sent = posts[0].body.clone();
    sent["owner"] = json!("o");
    sent["repo"] = json!("r");
    assert_eq!(sent, shown);
}

#[tokio::test]
async fn once_per_session_and_tool_unless_a_rule_says_each_call() {
    // The seeds' way, one setting away from ours.
    let seeds = Settings { remember: Remember::Session, ..Settings::default() };
    let bench = Bench::with(seeds, "").await;
    let paused = bench.call("github.issues.create", issue()).await;
    bench.approve(&paused).await;
    let again = bench.call("github.issues.create", issue()).await;
    assert!(again.success(), "{again:?}");
    assert_eq!(bench.stand_in.posts().len(), 2);

    let rule = "[[rule]]\nmatch = \"github.issues.create\"\neffect = \"ask\"\nremember = \"call\"\n";
    let strict = Bench::with_rules(rule).await;
    let paused = strict.call("github.issues.create", issue()).await;
    strict.approve(&paused).await;
    let again = strict.call("github.issues.create", issue()).await;
    assert!(again.paused().is_some(), "{again:?}");
    assert_eq!(strict.stand_in.posts().len(), 1);
}

#[tokio::test]
async fn paths_that_would_leave_the_repository_are_refused() {
    let bench = Bench::with_rules("").await;
    for (owner, repo) in
        [("..", "r"), ("o", ".."), ("o/x", "r"), ("o", "r/../../user"), ("o", "r?x"), ("o", "")]
    {
        let request = CallRequest {
            path: "github.issues.list".into(),
            args: json!({ "owner": owner, "repo": repo }),
            caller: bench.agent.clone(),
            session: bench.session.clone(),
            key: None,
            patience: Patience::UntilPaused,
        };
        assert_eq!(bench.gateway.call(request).await.unwrap_err().code(), "invalid_input", "{owner}/{repo}");
    }
    assert_eq!(bench.stand_in.seen().len(), 0);
}

#[tokio::test]
async fn a_broken_upstream_is_a_clear_error_and_the_token_appears_nowhere() {
    let bench = Bench::with_rules("").await;
    let paused = bench.call("github.issues.create", issue()).await;
    *bench.stand_in.broken.lock().unwrap() = true;
    let failed = bench.approve(&paused).await;
    let error = failed.error.clone().unwrap();
    assert_eq!(error.code, "upstream_error");
    assert!(error.message.contains("500") && error.message.contains("look before you try again"), "{error}");
    *bench.stand_in.broken.lock().unwrap() = false;
    bench.call("github.issues.create", issue()).await;

    let mut recorded = format!("{failed:?}");
    let page = countersign_kernel::ports::Page::first(100);
    for row in bench.gateway.executions(Default::default(), page).await.unwrap().items {
        let journal = bench.gateway.journal(row.id).await.unwrap();
        recorded.push_str(&serde_json::to_string(&journal).unwrap());
    }
    for record in bench.gateway.audit(0, 1_000).await.unwrap() {
        recorded.push_str(&record.entry);
    }
    assert!(recorded.len() > 1_000);
    assert!(!recorded.contains(TOKEN), "{recorded}");
    for file in std::fs::read_dir(bench.folder.path()).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        assert!(!bytes.windows(TOKEN.len()).any(|window| window == TOKEN.as_bytes()));
    }
}

#[tokio::test]
async fn nobody_there_is_a_clear_error() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = Gateway::builder(SqliteStore::open(folder.path()).unwrap())
        .credentials(OneToken)
        .plugin(github::plugin("http://127.0.0.1:1"))
        .start()
        .await
        .unwrap();
    let agent = Caller::from(Principal::agent("agent-1").unwrap());
    let session = gateway.open_session(&agent, "test", None).await.unwrap();
    let request = CallRequest {
        path: "github.repos.search".into(),
        args: json!({ "query": "x" }),
        caller: agent,
        session,
        key: None,
        patience: Patience::UntilPaused,
    };
    let error = gateway.call(request).await.unwrap().error.unwrap();
    assert_eq!(error.code, "upstream_unreachable");
    assert!(error.message.contains("nothing was sent"), "{error}");
}
