//! A server that means harm, over streamable HTTP.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use countersign_sources::MASK;
use countersign_sources::http::{Credential, Intent};
use countersign_sources::mcp::{CallFailure, Endpoint, Era, Protocol, UpstreamConfig};
use serde_json::{Value, json};

use crate::fixture::{Connected, connect, eventually, no_arguments, text};
use crate::http::http;

/// What the server does with a call.
type Behaviour = fn(&Value, &HeaderMap) -> Response;

#[derive(Clone)]
struct Hostile {
    behaviour: Behaviour,
    calls: Arc<AtomicUsize>,
}

/// Starts a legacy server whose calls behave so; answers its configuration and the number of calls it got.
async fn start(behaviour: Behaviour) -> (UpstreamConfig, Arc<AtomicUsize>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let app =
        Router::new().route("/mcp", any(serve)).with_state(Hostile { behaviour, calls: Arc::clone(&calls) });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    let mut config = http(&format!("http://127.0.0.1:{port}/mcp"));
    config.protocol = Protocol::Legacy;
    (config, calls)
}

async fn serve(State(hostile): State<Hostile>, headers: HeaderMap, body: Bytes) -> Response {
    let Ok(message) = serde_json::from_slice::<Value>(&body) else {
        return StatusCode::METHOD_NOT_ALLOWED.into_response();
    };
    match message["method"].as_str() {
        Some("initialize") => {
            let result = json!({ "protocolVersion": "2025-11-25", "capabilities": { "tools": {} },
                "serverInfo": { "name": "hostile", "version": "1" } });
            let mut response = answer(&message, &result);
            response.headers_mut().insert("mcp-session-id", "s-1".parse().unwrap());
            response
        }
        Some("tools/call") => {
            hostile.calls.fetch_add(1, Ordering::SeqCst);
            (hostile.behaviour)(&message, &headers)
        }
        Some("tools/list") => answer(&message, &json!({ "tools": [] })),
        _ => StatusCode::ACCEPTED.into_response(),
    }
}

fn answer(message: &Value, result: &Value) -> Response {
    let body = json!({ "jsonrpc": "2.0", "id": message["id"], "result": result });
    axum::Json(body).into_response()
}

fn said(message: &Value, text: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": message["id"], "result": { "content": [{ "type": "text", "text": text }] } })
}

fn response(status: u16, kind: &str, body: impl Into<Body>) -> Response {
    Response::builder().status(status).header("content-type", kind).body(body.into()).unwrap()
}

fn events(text: String) -> Response {
    response(200, "text/event-stream", text)
}

async fn write(behaviour: Behaviour) -> (Result<String, CallFailure>, usize) {
    let (mut config, calls) = start(behaviour).await;
    config.limits.call_silence = Duration::from_secs(2);
    let server: Connected = connect(config).await;
    let outcome = server.write("act", no_arguments()).await.map(|outcome| text(&outcome).to_owned());
    (outcome, calls.load(Ordering::SeqCst))
}

#[tokio::test]
async fn a_write_whose_answer_is_lost_is_in_doubt_and_was_sent_once() {
    let behaviours: [(&str, Behaviour); 9] = [
        ("502", |_, _| response(502, "text/html", "bad gateway")),
        ("504", |_, _| response(504, "text/html", "timeout")),
        ("no JSON", |_, _| response(200, "application/json", "{")),
        ("HTML", |_, _| response(200, "text/html", "<p>hello")),
        ("accepted", |_, _| StatusCode::ACCEPTED.into_response()),
        ("stream without an answer", |_, _| events(": nothing\n\n".into())),
        ("stream with another's answer", |_, _| {
            events("data: {\"jsonrpc\":\"2.0\",\"id\":99,\"result\":{}}\n\n".into())
        }),
        ("stream that never ends", |_, _| {
            response(
                200,
                "text/event-stream",
                Body::from_stream(futures_util::stream::pending::<Result<Bytes, std::io::Error>>()),
            )
        }),
        ("body that never ends", |_, _| {
            response(
                200,
                "application/json",
                Body::from_stream(futures_util::stream::pending::<Result<Bytes, std::io::Error>>()),
            )
        }),
    ];
    for (what, behaviour) in behaviours {
        let (outcome, calls) = write(behaviour).await;
        let failure = outcome.unwrap_err();
        assert!(failure.is_in_doubt(Intent::Write), "{what}: {failure:?}");
        assert_eq!(calls, 1, "{what}");
    }
}

#[tokio::test]
async fn a_gigabyte_is_not_read_as_a_body_or_as_an_event() {
    for behaviour in
        [(|_: &Value, _: &HeaderMap| response(200, "application/json", gigabyte())) as Behaviour, |_, _| {
            response(200, "text/event-stream", gigabyte())
        }]
    {
        let failure = write(behaviour).await.0.unwrap_err();
        assert!(failure.is_in_doubt(Intent::Write), "{failure:?}");
        assert!(failure.to_string().contains("larger than 8388608 bytes"), "{failure}");
    }
}

fn gigabyte() -> Body {
    let chunk = Bytes::from(vec![b'0'; 1 << 20]);
    Body::from_stream(futures_util::stream::iter(
        (0..1024).map(move |_| Ok::<_, std::io::Error>(chunk.clone())),
    ))
}

#[tokio::test]
async fn a_refusal_is_no_doubt_and_is_told_with_its_status() {
    let behaviours: [(Behaviour, i64); 4] = [
        (|_, _| response(401, "text/plain", "who are you?"), 401),
        (|_, _| response(500, "text/plain", "broken"), 500),
        (
            |message, _| {
                let body = json!({ "jsonrpc": "2.0", "id": message["id"], "error": { "code": -32602, "message": "no" } });
                response(400, "application/json", body.to_string())
            },
            -32602,
        ),
        (
            |_, _| {
                // An error that names no request answers the one it came for.
                let body =
                    json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -32000, "message": "no" } });
                response(200, "application/json", body.to_string())
            },
            -32000,
        ),
    ];
    for (behaviour, expected) in behaviours {
        let (outcome, calls) = write(behaviour).await;
        assert!(matches!(outcome, Err(CallFailure::Refused { code, .. }) if code == expected), "{outcome:?}");
        assert_eq!(calls, 1);
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed_wherever_it_leads() {
    for target in ["http://169.254.169.254/latest/meta-data/", "/elsewhere"] {
        let behaviour: Behaviour = if target.starts_with('/') {
            |_, _| (StatusCode::TEMPORARY_REDIRECT, [("location", "/mcp")]).into_response()
        } else {
            |_, _| {
                (StatusCode::TEMPORARY_REDIRECT, [("location", "http://169.254.169.254/latest/meta-data/")])
                    .into_response()
            }
        };
        let (outcome, calls) = write(behaviour).await;
        assert!(matches!(outcome, Err(CallFailure::Refused { code: 307, .. })), "{outcome:?}");
        assert_eq!(calls, 1);
    }
}

#[tokio::test]
async fn of_two_answers_in_a_stream_the_first_counts() {
    let (outcome, _) = write(|message, _| {
        events(format!("data: {}\n\ndata: {}\n\n", said(message, "first"), said(message, "second")))
    })
    .await;
    assert_eq!(outcome, Ok("first".into()));
}

#[tokio::test]
async fn an_echoed_credential_is_cut_out() {
    let (mut config, _) = start(|message, headers| {
        let key = headers["authorization"].to_str().unwrap().to_owned();
        axum::Json(said(message, &format!("you sent {key}"))).into_response()
    })
    .await;
    if let Endpoint::Http(endpoint) = &mut config.endpoint {
        endpoint.credentials = vec![Credential::Bearer("canary-9876".into())];
    }
    let outcome = connect(config).await.read("act", no_arguments()).await.unwrap();
    assert_eq!(text(&outcome), format!("you sent Bearer {MASK}"));
}

#[tokio::test]
async fn a_stream_that_broke_is_taken_up_again_where_the_server_offers_it() {
    async fn serve(State(calls): State<Arc<AtomicUsize>>, headers: HeaderMap, body: Bytes) -> Response {
        let Ok(message) = serde_json::from_slice::<Value>(&body) else {
            // A GET. The answer to the only call, whose number is part of the event's id.
            let Some(last) = headers.get("last-event-id") else {
                return StatusCode::METHOD_NOT_ALLOWED.into_response();
            };
            let id: i64 = last.to_str().unwrap().trim_start_matches("call-").parse().unwrap();
            return events(format!("data: {}\n\n", said(&json!({ "id": id }), "resumed")));
        };
        if message["method"] == "tools/call" {
            calls.fetch_add(1, Ordering::SeqCst);
            return events(format!("id: call-{}\nretry: 10\ndata:\n\n", message["id"]));
        }
        let result = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": { "name": "h", "version": "1" } });
        if message["method"] == "initialize" {
            answer(&message, &result)
        } else {
            StatusCode::ACCEPTED.into_response()
        }
    }
    let calls = Arc::new(AtomicUsize::new(0));
    let app = Router::new().route("/mcp", any(serve)).with_state(Arc::clone(&calls));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    let mut config = http(&url);
    config.protocol = Protocol::Legacy;
    let server = connect(config).await;
    assert_eq!(text(&server.write("act", no_arguments()).await.unwrap()), "resumed");
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_modern_server_over_http_is_told_method_and_name_in_headers() {
    async fn serve(headers: HeaderMap, body: Bytes) -> Response {
        let Ok(message) = serde_json::from_slice::<Value>(&body) else {
            return StatusCode::METHOD_NOT_ALLOWED.into_response();
        };
        let header = |name: &str| {
            headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
        };
        match message["method"].as_str() {
            Some("server/discover") => answer(
                &message,
                &json!({ "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": { "tools": {} },
                    "ttlMs": 0, "cacheScope": "private" }),
            ),
            Some("tools/call") => {
                let told = ["mcp-protocol-version", "mcp-method", "mcp-name", "mcp-session-id"].map(header).join("|");
                axum::Json(said(&message, &told)).into_response()
            }
            _ => response(404, "application/json", json!({ "jsonrpc": "2.0", "id": message["id"], "error": { "code": -32601, "message": "no" } }).to_string()),
        }
    }
    let app = Router::new().route("/mcp", any(serve));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    let server = connect(http(&url)).await;
    assert_eq!(server.era().await, Ok(Era::Modern));
    let outcome = server.write("act", no_arguments()).await.unwrap();
    assert_eq!(text(&outcome), "2026-07-28|tools/call|act|");
}

#[tokio::test]
async fn a_cancelled_read_ends_its_request_and_a_write_goes_on() {
    static ENDED: AtomicUsize = AtomicUsize::new(0);
    struct CountsItsEnd;
    impl Drop for CountsItsEnd {
        fn drop(&mut self) {
            ENDED.fetch_add(1, Ordering::SeqCst);
        }
    }
    let (mut config, calls) = start(|_, _| {
        let counts = CountsItsEnd;
        let endless = futures_util::stream::once(async move {
            std::future::pending::<()>().await;
            drop(counts);
            Ok::<_, std::io::Error>(Bytes::new())
        });
        response(200, "text/event-stream", Body::from_stream(endless))
    })
    .await;
    config.limits.call_silence = Duration::from_secs(600);
    let server = Arc::new(connect(config).await);
    for (number, intent) in [Intent::Write, Intent::Read].into_iter().enumerate() {
        let call = crate::fixture::call("act", no_arguments(), intent);
        let calling = {
            let server = Arc::clone(&server);
            tokio::spawn(async move { server.call(call).await })
        };
        eventually(|| calls.load(Ordering::SeqCst) == number + 1).await;
        calling.abort();
    }
    eventually(|| ENDED.load(Ordering::SeqCst) == 1).await;
    // The write was cancelled first; had that ended its request, two would have ended.
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(ENDED.load(Ordering::SeqCst), 1);
}
