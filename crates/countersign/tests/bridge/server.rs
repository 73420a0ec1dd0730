//! A server that does what a test wants, and remembers what it was sent.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Method, Response};
use countersign_server::presence;
use futures_util::stream;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

/// The token that the client is given.
pub(crate) const TOKEN: &str = "tok_canary";

/// A request as it came in.
#[derive(Debug, Clone)]
pub(crate) struct Received {
    pub(crate) method: Method,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Value,
}

/// What to answer.
pub(crate) enum Reply {
    Json(Value),
    /// JSON, with a session id.
    Session(Value, &'static str),
    Status(u16),
    /// That it is to be found at another address.
    Moved(String),
    /// Events with their ids, and how the stream ends.
    Events(Vec<(&'static str, Value)>, End),
    /// The head of an answer, and then the connection breaks.
    Broken,
}

/// How a stream ends.
#[derive(Clone)]
pub(crate) enum End {
    /// As streams end.
    Close,
    /// The connection breaks.
    Break,
    /// It stays open; the flag says when the client hung up.
    Hold(Arc<AtomicBool>),
}

type Behaviour = Arc<dyn Fn(&Received, usize) -> Reply + Send + Sync>;

/// A listening server.
pub(crate) struct Server {
    pub(crate) url: String,
    received: Arc<Mutex<Vec<Received>>>,
    _runtime: Runtime,
}

#[derive(Clone)]
struct Desk {
    behaviour: Behaviour,
    received: Arc<Mutex<Vec<Received>>>,
}

/// By what a client on this machine knows this server for its folder's.
pub(crate) const KEY: [u8; 32] = [7; 32];

impl Server {
    /// A server that answers so; it is told how many requests of that method name came before.
    pub(crate) fn that(behaviour: impl Fn(&Received, usize) -> Reply + Send + Sync + 'static) -> Self {
        Self::at("127.0.0.1:0", behaviour)
    }

    /// The same at an address of the test's choice.
    pub(crate) fn at(
        address: &str,
        behaviour: impl Fn(&Received, usize) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let received = Arc::new(Mutex::default());
        let desk = Desk { behaviour: Arc::new(behaviour), received: Arc::clone(&received) };
        let listener = runtime.block_on(TcpListener::bind(address)).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = axum::Router::new().route("/mcp", axum::routing::any(answer)).with_state(desk);
        let port = listener.local_addr().unwrap().port();
        let alive = async move |headers: HeaderMap| {
            let challenge =
                headers.get(presence::CHALLENGE).and_then(|text| text.to_str().ok()).unwrap_or_default();
            [(presence::PROOF, presence::proof(&KEY, port, challenge).unwrap())]
        };
        let router = router.route("/healthz", axum::routing::get(alive));
        runtime.spawn(async move { axum::serve(listener, router).await });
        Self { url, received, _runtime: runtime }
    }

    /// Where it listens, without the scheme.
    pub(crate) fn address(&self) -> String {
        self.url.trim_start_matches("http://").to_owned()
    }

    /// What the client answered to questions.
    pub(crate) fn answers(&self) -> Vec<Received> {
        let posted = self.with_method(&Method::POST);
        posted.into_iter().filter(|request| request.body["method"].is_null()).collect()
    }

    /// Everything that came with this JSON-RPC method.
    pub(crate) fn received(&self, method: &str) -> Vec<Received> {
        let all = self.received.lock().unwrap();
        all.iter().filter(|request| request.body["method"] == method).cloned().collect()
    }

    /// Everything that came with this HTTP method.
    pub(crate) fn with_method(&self, method: &Method) -> Vec<Received> {
        self.received.lock().unwrap().iter().filter(|request| request.method == *method).cloned().collect()
    }
}

impl Received {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// A result for this request.
    pub(crate) fn result(&self, result: &Value) -> Value {
        json!({ "jsonrpc": "2.0", "id": self.body["id"], "result": result })
    }

    /// What a server of the 2025 era says to `initialize`.
    pub(crate) fn initialised(&self) -> Value {
        self.result(&json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": { "name": "f", "version": "1" } }))
    }

    pub(crate) fn asks(&self, method: &str) -> bool {
        self.body["method"] == method
    }
}

/// A flag that goes up when it is dropped.
struct Raise(Arc<AtomicBool>);

impl Drop for Raise {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

async fn answer(
    State(desk): State<Desk>,
    method: Method,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response<Body>, Infallible> {
    let headers =
        headers.iter().map(|(k, v)| (k.to_string(), v.to_str().unwrap_or_default().to_owned())).collect();
    let received = Received { method, headers, body: serde_json::from_slice(&body).unwrap_or_default() };
    let before = {
        let mut all = desk.received.lock().unwrap();
        let alike = |other: &&Received| {
            other.method == received.method && other.body["method"] == received.body["method"]
        };
        let before = all.iter().filter(alike).count();
        all.push(received.clone());
        before
    };
    Ok(response((desk.behaviour)(&received, before)))
}

fn response(reply: Reply) -> Response<Body> {
    let builder = Response::builder();
    let broken =
        || Body::from_stream(stream::iter([Ok(Bytes::from_static(b" ")), Err(io::Error::other("broken"))]));
    match reply {
        Reply::Json(value) => {
            builder.header("content-type", "application/json").body(Body::from(value.to_string()))
        }
        Reply::Session(value, id) => builder
            .header("content-type", "application/json")
            .header("mcp-session-id", id)
            .body(Body::from(value.to_string())),
        Reply::Moved(url) => builder.status(307).header("location", url).body(Body::empty()),
        Reply::Status(status) => builder.status(status).body(Body::empty()),
        Reply::Broken => builder.header("content-type", "application/json").body(broken()),
        Reply::Events(events, end) => {
            builder.header("content-type", "text/event-stream").body(events_then(events, end))
        }
    }
    .unwrap()
}

fn events_then(events: Vec<(&'static str, Value)>, end: End) -> Body {
    let said = events.into_iter().map(|(id, value)| Ok(Bytes::from(format!("id: {id}\ndata: {value}\n\n"))));
    let last = match end {
        End::Close => None,
        End::Break => Some(None),
        End::Hold(flag) => Some(Some(Raise(flag))),
    };
    let tail = stream::unfold(last, |last| async {
        match last? {
            None => {
                // What was said before is on the wire by now.
                tokio::time::sleep(Duration::from_millis(50)).await;
                Some((Err(io::Error::other("broken")), None))
            }
            Some(raise) => {
                std::future::pending::<()>().await;
                drop(raise);
                None
            }
        }
    });
    Body::from_stream(futures_util::StreamExt::chain(stream::iter(said), tail))
}
