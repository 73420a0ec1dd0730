//! Everybody who is no browser: agents that call, and people who use REST.

use std::time::{Duration, Instant};

use countersign_server::CONSOLE_HOST;
use reqwest::Method;
use serde_json::{Value, json};

/// Nothing on this machine takes this long unless it never happens.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Who acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    Agent,
    Approver,
    Admin,
}

/// The secrets of everybody's tokens.
#[derive(Clone)]
pub(crate) struct Secrets {
    pub(crate) agent: String,
    pub(crate) approver: String,
    pub(crate) admin: String,
}

/// A server, and everybody's way to it.
#[derive(Clone)]
pub(crate) struct Desk {
    pub(crate) url: String,
    /// Where browsers find the same server: links for people have a host of their own.
    pub(crate) console: String,
    pub(crate) http: reqwest::Client,
    secrets: Secrets,
}

/// A call that waits for a person.
#[derive(Debug, Clone)]
pub(crate) struct Waiting {
    pub(crate) execution: String,
    pub(crate) elicitation: String,
}

impl Desk {
    pub(crate) fn new(url: &str, secrets: Secrets) -> Self {
        Self { url: url.to_owned(), console: console_at(url), http: client(), secrets }
    }

    /// Asks; gives status and body.
    pub(crate) async fn ask(
        &self,
        who: Who,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> (u16, Value) {
        let request = self.http.request(method, format!("{}{path}", self.url)).bearer_auth(self.secret(who));
        let request = match body {
            Some(body) => request.json(body),
            None => request,
        };
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.json().await.unwrap_or_default())
    }

    pub(crate) async fn get(&self, who: Who, path: &str) -> Value {
        let (status, answer) = self.ask(who, Method::GET, path, None).await;
        assert_eq!(status, 200, "{path}: {answer}");
        answer
    }

    pub(crate) async fn post(&self, who: Who, path: &str, body: &Value) -> Value {
        let (status, answer) = self.ask(who, Method::POST, path, Some(body)).await;
        assert!((200..300).contains(&status), "{path}: {status} {answer}");
        answer
    }

    /// The agent calls a tool.
    pub(crate) async fn call(&self, tool: &str, args: Value) -> Value {
        self.post(Who::Agent, "/api/executions", &json!({ "tool": tool, "args": args })).await
    }

    /// The agent calls what must come to wait for a person.
    pub(crate) async fn asks(&self, tool: &str, args: Value) -> Waiting {
        Waiting::of(&self.call(tool, args).await)
    }

    /// The agent runs a script that must come to wait for a person.
    pub(crate) async fn runs(&self, script: &str) -> Waiting {
        Waiting::of(&self.post(Who::Agent, "/api/executions", &json!({ "code": script })).await)
    }

    /// How an execution ends.
    pub(crate) async fn end_of(&self, waiting: &Waiting) -> Value {
        self.get(Who::Agent, &format!("/api/executions/{}?waitMs=10000", waiting.execution)).await
    }

    /// Somebody decides over REST.
    pub(crate) async fn resolve(&self, who: Who, waiting: &Waiting, approved: bool) -> Value {
        let path = format!("/api/elicitation/{}/resolve", waiting.elicitation);
        self.post(who, &path, &json!({ "approved": approved })).await
    }

    /// A question as it stands.
    pub(crate) async fn question(&self, waiting: &Waiting) -> Value {
        self.get(Who::Admin, &format!("/api/elicitation/{}", waiting.elicitation)).await
    }

    pub(crate) async fn is_pending(&self, waiting: &Waiting) -> bool {
        self.question(waiting).await["status"] == "pending"
    }

    /// How many audit records there are.
    pub(crate) async fn recorded(&self) -> u64 {
        self.get(Who::Admin, "/api/standing").await["recorded"].as_u64().unwrap()
    }

    /// The secret of somebody's token.
    pub(crate) fn secret(&self, who: Who) -> &str {
        match who {
            Who::Agent => &self.secrets.agent,
            Who::Approver => &self.secrets.approver,
            Who::Admin => &self.secrets.admin,
        }
    }

    /// A link that logs somebody in.
    pub(crate) async fn login_link(&self, who: Who) -> String {
        self.post(who, "/api/login-links", &json!({})).await["url"].as_str().unwrap().to_owned()
    }
}

impl Waiting {
    fn of(result: &Value) -> Self {
        assert_eq!(result["status"], "paused", "{result}");
        let id = |field: &str| result["paused"][field].as_str().unwrap().to_owned();
        Self { execution: id("executionId"), elicitation: id("elicitationId") }
    }

    /// The request's page.
    pub(crate) fn page(&self) -> String {
        format!("/elicitations/{}", self.elicitation)
    }

    /// The page of its execution.
    pub(crate) fn execution_page(&self) -> String {
        format!("/executions/{}", self.execution)
    }

    /// Finds its card in the inbox.
    pub(crate) fn card(&self) -> String {
        format!(".card[data-id=\"{}\"]", self.elicitation)
    }
}

/// What a server on this machine calls itself to browsers.
pub(crate) fn console_at(url: &str) -> String {
    url.replace("127.0.0.1", CONSOLE_HOST)
}

fn client() -> reqwest::Client {
    // Its TLS is never used, but it wants a provider to be made at all.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .timeout(PATIENCE)
        .build()
        .unwrap()
}

/// Waits until something is so.
pub(crate) async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !is_so().await {
        assert!(begun.elapsed() < PATIENCE, "in vain: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
