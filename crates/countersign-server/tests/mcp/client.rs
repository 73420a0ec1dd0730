//! A client by hand: JSON-RPC over HTTP as either era writes it, so that nothing but the wire is believed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use reqwest::{RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};

use crate::house::Key;

const META: &str = "io.modelcontextprotocol";
/// Nothing here takes longer, so that a test that hangs fails.
const LONGEST: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Era {
    June2025,
    November2025,
    July2026,
}

impl Era {
    pub(crate) const ALL: [Self; 3] = [Self::June2025, Self::November2025, Self::July2026];

    fn version(self) -> &'static str {
        match self {
            Self::June2025 => "2025-06-18",
            Self::November2025 => "2025-11-25",
            Self::July2026 => "2026-07-28",
        }
    }
}

pub(crate) struct Client {
    http: reqwest::Client,
    url: String,
    secret: String,
    pub(crate) era: Era,
    can: Value,
    /// What the server said that it can, where the era begins with that.
    server_can: Value,
    pub(crate) session: Option<String>,
    next: AtomicU64,
    /// What goes into `_meta` of every call.
    pub(crate) meta: Value,
}

/// A response that comes in pieces.
pub(crate) struct Stream {
    response: Response,
    buffer: String,
}

impl Client {
    pub(crate) async fn connect(url: &str, key: &Key, era: Era, can: Value) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut client = Self {
            http: reqwest::Client::new(),
            url: url.to_owned(),
            secret: key.secret.clone(),
            era,
            can,
            server_can: Value::Null,
            session: None,
            next: AtomicU64::new(1),
            meta: json!({}),
        };
        if era != Era::July2026 {
            client.initialize().await;
        }
        client
    }

    async fn initialize(&mut self) {
        let hello = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": self.era.version(), "capabilities": self.can,
            "clientInfo": { "name": "by hand", "version": "0" }
        } });
        let response = self.request(reqwest::Method::POST).json(&hello).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        self.session = Some(response.headers()["mcp-session-id"].to_str().unwrap().to_owned());
        let hello = Stream::of(response).answer().await;
        assert_eq!(hello["result"]["protocolVersion"], self.era.version(), "{hello}");
        self.server_can = hello["result"]["capabilities"].clone();
        let done = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        assert_eq!(self.send(&done).await.status(), StatusCode::ACCEPTED);
    }

    pub(crate) fn request(&self, method: reqwest::Method) -> RequestBuilder {
        let request = self
            .http
            .request(method, &self.url)
            .bearer_auth(&self.secret)
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", self.era.version());
        match &self.session {
            Some(session) => request.header("mcp-session-id", session),
            None => request,
        }
    }

    /// Sends one message as it is.
    pub(crate) async fn send(&self, message: &Value) -> Response {
        let mut request = self.request(reqwest::Method::POST);
        if self.era == Era::July2026 {
            request = request.header("mcp-method", message["method"].as_str().unwrap_or_default());
            let params = &message["params"];
            let name = ["name", "taskId", "uri"].iter().find_map(|field| params[*field].as_str());
            if let Some(name) = name {
                request = request.header("mcp-name", name);
            }
        }
        request.json(message).send().await.unwrap()
    }

    pub(crate) fn next_id(&self) -> u64 {
        self.next.fetch_add(1, Ordering::SeqCst)
    }

    pub(crate) fn message(&self, method: &str, mut params: Value) -> Value {
        if self.era == Era::July2026 {
            params["_meta"][format!("{META}/protocolVersion")] = self.era.version().into();
            params["_meta"][format!("{META}/clientCapabilities")] = self.can.clone();
            params["_meta"][format!("{META}/clientInfo")] = json!({ "name": "by hand", "version": "0" });
        }
        for (key, value) in self.meta.as_object().into_iter().flatten() {
            params["_meta"][key] = value.clone();
        }
        json!({ "jsonrpc": "2.0", "id": self.next_id(), "method": method, "params": params })
    }

    /// Asks, and gives back the whole answer.
    pub(crate) async fn ask(&self, method: &str, params: Value) -> Value {
        Stream::of(self.send(&self.message(method, params)).await).answer().await
    }

    /// What the server says that it can.
    pub(crate) async fn capabilities(&self) -> Value {
        match self.era {
            Era::July2026 => self.ask("server/discover", json!({})).await["result"]["capabilities"].clone(),
            Era::June2025 | Era::November2025 => self.server_can.clone(),
        }
    }

    /// Begins a call, and gives back its stream.
    pub(crate) async fn begin(&self, tool: &str, args: Value) -> Stream {
        let message = self.message("tools/call", json!({ "name": tool, "arguments": args }));
        Stream::of(self.send(&message).await)
    }

    /// Calls a tool, and gives back the result.
    pub(crate) async fn call(&self, tool: &str, args: Value) -> Value {
        let answer = self.ask("tools/call", json!({ "name": tool, "arguments": args })).await;
        assert!(answer["error"].is_null(), "{answer}");
        answer["result"].clone()
    }

    /// Answers a request of the server.
    pub(crate) async fn answer(&self, request: &Value, result: Value) {
        let answer = json!({ "jsonrpc": "2.0", "id": request["id"], "result": result });
        assert_eq!(self.send(&answer).await.status(), StatusCode::ACCEPTED);
    }

    /// Listens to what the server says by itself.
    pub(crate) async fn listen(&self) -> Stream {
        Stream::of(self.request(reqwest::Method::GET).send().await.unwrap())
    }

    /// Comes back with what was said to the only question of an `input_required` result.
    pub(crate) async fn retry(&self, tool: &str, args: Value, asked: &Value, said: Value) -> Value {
        let key = asked["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
        self.retry_with(tool, args, &asked["requestState"], json!({ key: said })).await
    }

    pub(crate) async fn retry_with(&self, tool: &str, args: Value, state: &Value, said: Value) -> Value {
        let params =
            json!({ "name": tool, "arguments": args, "requestState": state, "inputResponses": said });
        self.ask("tools/call", params).await
    }
}

impl Stream {
    pub(crate) fn of(response: Response) -> Self {
        Self { response, buffer: String::new() }
    }

    /// The next message; nothing where the response is over.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        tokio::time::timeout(LONGEST, self.read()).await.expect("the server says something")
    }

    async fn read(&mut self) -> Option<Value> {
        let is_json = self.response.headers()["content-type"].to_str().unwrap().contains("json");
        loop {
            if let Some(end) = self.buffer.find("\n\n").filter(|_| !is_json) {
                let event: String = self.buffer.drain(..end + 2).collect();
                let data = event.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim);
                match serde_json::from_str(&data.collect::<String>()) {
                    Ok(message) => return Some(message),
                    Err(_) => continue,
                }
            }
            match self.response.chunk().await.ok()? {
                Some(bytes) => self.buffer.push_str(std::str::from_utf8(&bytes).unwrap()),
                None if is_json && !self.buffer.is_empty() => {
                    return serde_json::from_str(&std::mem::take(&mut self.buffer)).ok();
                }
                None => return None,
            }
        }
    }

    /// The next message of this method.
    pub(crate) async fn until(&mut self, method: &str) -> Value {
        loop {
            let message = self.next().await.unwrap_or_else(|| panic!("no {method} comes"));
            if message["method"] == method {
                return message;
            }
        }
    }

    /// The answer, whatever comes before it.
    pub(crate) async fn answer(&mut self) -> Value {
        loop {
            let message = self.next().await.expect("an answer comes");
            if message.get("result").is_some() || message.get("error").is_some() {
                return message;
            }
        }
    }
}

/// What the user of a client says.
pub(crate) fn approve() -> Value {
    json!({ "action": "accept", "content": { "decision": "approve" } })
}

pub(crate) fn says(action: &str) -> Value {
    json!({ "action": action })
}

/// The text of a result.
pub(crate) fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("a text in {result}"))
}

/// The code of a failure.
pub(crate) fn code(result: &Value) -> &str {
    assert_eq!(result["isError"], true, "{result}");
    result["_meta"]["countersign/error"]["code"].as_str().unwrap()
}

/// The execution behind a result.
pub(crate) fn execution(result: &Value) -> String {
    result["_meta"]["countersign/executionId"]
        .as_str()
        .unwrap_or_else(|| panic!("an id in {result}"))
        .to_owned()
}
