//! The wire is whole: what goes over it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::http::Method;
use serde_json::json;

use crate::client::{Client, legacy, modern, until};
use crate::server::{End, Received, Reply, Server, TOKEN};

/// A server of the 2025 era: a session, an answer to everything, and no stream of its own.
pub(crate) fn polite(request: &Received) -> Reply {
    match () {
        () if request.method != Method::POST => Reply::Status(405),
        () if request.asks("initialize") => Reply::Session(request.initialised(), "s-1"),
        () if request.body["id"].is_null() => Reply::Status(202),
        () => Reply::Json(request.result(&json!({ "content": [] }))),
    }
}

#[test]
fn a_request_of_2026_07_28_carries_what_it_is_about_in_its_headers() {
    let server = Server::that(|request, _| polite(request));
    let mut client = Client::of(&server);
    client.send(&modern(1, "tools/call", json!({ "name": "grüße", "arguments": {} })));
    assert_eq!(client.next(), json!({ "jsonrpc": "2.0", "id": 1, "result": { "content": [] } }));
    let request = &server.received("tools/call")[0];
    for (name, value) in [
        ("authorization", format!("Bearer {TOKEN}").as_str()),
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "=?base64?Z3LDvMOfZQ==?="),
        ("accept", "application/json, text/event-stream"),
        ("content-type", "application/json"),
    ] {
        assert_eq!(request.header(name), Some(value), "{name}");
    }
    assert_eq!(request.header("mcp-session-id"), None);
}

#[test]
fn arguments_that_a_tool_wants_in_headers_are_put_there() {
    let server = Server::that(|request, _| match () {
        () if request.asks("tools/list") => {
            let region = json!({ "type": "string", "x-mcp-header": "Region" });
            let schema = json!({ "type": "object", "properties": { "where": { "properties": { "region": region } } } });
            Reply::Json(request.result(&json!({ "tools": [{ "name": "deploy", "inputSchema": schema }] })))
        }
        () => polite(request),
    });
    let mut client = Client::of(&server);
    client.send(&modern(1, "tools/list", json!({})));
    client.next();
    client.send(&modern(
        2,
        "tools/call",
        json!({ "name": "deploy", "arguments": { "where": { "region": "eu" } } }),
    ));
    client.next();
    assert_eq!(server.received("tools/call")[0].header("mcp-param-region"), Some("eu"));
}

#[test]
fn a_client_of_2025_keeps_its_session_and_ends_it() {
    let server = Server::that(|request, _| polite(request));
    let mut client = Client::initialised(&server);
    client.send(&legacy(1, "tools/list", &json!({})));
    client.next();
    let request = &server.received("tools/list")[0];
    assert_eq!(request.header("mcp-session-id"), Some("s-1"));
    assert_eq!(request.header("mcp-protocol-version"), Some("2025-11-25"));
    assert_eq!(request.header("mcp-method"), None, "headers of the newer era are the newer era's");
    assert_eq!(server.received("initialize")[0].header("mcp-session-id"), None);
    let ended = client.hang_up();
    assert_eq!(ended.status, 0);
    assert!(!ended.err.contains(TOKEN), "R12: the token is in the log");
    assert_eq!(server.with_method(&Method::DELETE)[0].header("mcp-session-id"), Some("s-1"));
}

#[test]
fn events_come_as_lines_and_answers_to_questions_go_back() {
    let server = Server::that(|request, _| match () {
        () if request.asks("tools/call") => {
            let question = json!({ "jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": { "message": "a\nb" } });
            Reply::Events(vec![("1", question), ("2", request.result(&json!({ "content": [] })))], End::Close)
        }
        () => polite(request),
    });
    let mut client = Client::initialised(&server);
    client.send(&legacy(1, "tools/call", &json!({ "name": "x" })));
    let question = client.next();
    assert_eq!(question["params"]["message"], "a\nb");
    assert_eq!(client.next()["id"], 1);
    let mut answer = json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "action": "accept" } });
    client.send(&answer);
    client.send(&json!({ "jsonrpc": "2.0", "id": "never asked", "result": {} }));
    client.send(&legacy(2, "ping", &json!({})));
    assert_eq!(client.next()["id"], 2);
    until("the answer is there", || !server.answers().is_empty());
    answer["id"] = json!("q");
    let answers: Vec<_> = server.answers().into_iter().map(|request| request.body).collect();
    assert_eq!(answers, [answer], "under the server's own id, and nothing that nobody asked");
}

#[test]
fn many_requests_are_under_way_at_once() {
    let server = Server::that(|request, _| match request.body["params"]["name"].as_str() {
        Some("slow") => Reply::Events(Vec::new(), End::Hold(Arc::default())),
        _ => polite(request),
    });
    let mut client = Client::of(&server);
    client.send(&modern(1, "tools/call", json!({ "name": "slow" })));
    client.send(&modern(2, "tools/call", json!({ "name": "quick" })));
    assert_eq!(client.next()["id"], 2, "a person's thinking time stops nobody else");
}

#[test]
fn an_id_is_the_same_however_it_is_written() {
    let server = Server::that(|request, _| polite(request));
    let mut client = Client::of(&server);
    // The server writes the letter itself.
    let call = modern(1, "tools/call", json!({ "name": "x", "arguments": {} })).to_string();
    let call = call.replace("\"id\":1", "\"id\":\"\\u00e9\"");
    client.write(format!("{call}\n").as_bytes());
    assert_eq!(client.next(), json!({ "jsonrpc": "2.0", "id": "é", "result": { "content": [] } }));
    client.hears_nothing();
}

#[test]
fn an_id_that_is_waited_for_is_not_taken_a_second_time() {
    let held: Arc<AtomicBool> = Arc::default();
    let hold = Arc::clone(&held);
    let server = Server::that(move |request, _| match () {
        () if request.asks("tools/call") => Reply::Events(Vec::new(), End::Hold(Arc::clone(&hold))),
        () => polite(request),
    });
    let mut client = Client::of(&server);
    let call = modern(1, "tools/call", json!({ "name": "x", "arguments": {} }));
    client.send(&call);
    until("it is there", || server.received("tools/call").len() == 1);
    client.send(&call);
    let answer = client.next();
    assert_eq!(
        (&answer["id"], &answer["error"]["data"]["code"]),
        (&json!(1), &json!("id_in_use")),
        "{answer}"
    );
    assert_eq!(server.received("tools/call").len(), 1);
}

#[test]
fn giving_up_a_call_of_2026_07_28_is_passed_on_under_its_name_and_closes_its_stream() {
    let hung_up = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&hung_up);
    let server = Server::that(move |request, before| match () {
        () if request.asks("tools/call") => Reply::Events(Vec::new(), End::Hold(Arc::clone(&flag))),
        // The first one overtook the call, as far as this server knows.
        () if before == 0 => Reply::Status(404),
        () => Reply::Status(202),
    });
    let mut client = Client::of(&server);
    client.send(&modern(1, "tools/call", json!({ "name": "x" })));
    client.send(&modern(2, "tools/call", json!({ "name": "y" })));
    until("the requests are there", || server.received("tools/call").len() == 2);
    client.send(
        &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } }),
    );
    until("the stream is closed", || hung_up.load(Ordering::SeqCst));
    let named = |method: &str| -> Vec<Option<String>> {
        let requests = server.received(method);
        requests.iter().map(|request| request.header("countersign-call").map(str::to_owned)).collect()
    };
    let calls = server.received("tools/call");
    let given_up = calls.iter().find(|call| call.body["id"] == 1).unwrap().header("countersign-call");
    assert!(given_up.is_some_and(|name| name.len() == 32), "{given_up:?}");
    assert_eq!(named("notifications/cancelled"), vec![given_up.map(str::to_owned); 2]);
    assert_ne!(named("tools/call")[0], named("tools/call")[1], "each call has a name of its own");
    client.hears_nothing();
}

#[test]
fn giving_up_a_request_of_2025_is_passed_on() {
    let server = Server::that(|request, _| match () {
        () if request.asks("tools/call") => Reply::Events(Vec::new(), End::Hold(Arc::default())),
        () => polite(request),
    });
    let mut client = Client::initialised(&server);
    client.send(&legacy(7, "tools/call", &json!({ "name": "x" })));
    until("the request is there", || server.received("tools/call").len() == 1);
    client.send(
        &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 7 } }),
    );
    until("it is passed on", || server.received("notifications/cancelled").len() == 1);
}

#[test]
fn a_request_given_up_before_it_was_sent_is_never_sent() {
    let gone = Server::that(|request, _| polite(request));
    let mut client = Client::initialised(&gone);
    until("it has its session", || gone.received("notifications/initialized").len() == 1);
    let address = gone.address();
    drop(gone);
    client.send(&legacy(7, "tools/call", &json!({ "name": "unwanted" })));
    client.send(&legacy(8, "tools/call", &json!({ "name": "wanted" })));
    client.hears_nothing();
    client.send(
        &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 7 } }),
    );
    client.hears_nothing();
    let server = Server::at(&address, |request, _| polite(request));
    assert_eq!(client.next()["id"], 8);
    client.hears_nothing();
    let ids: Vec<_> = server.received("tools/call").into_iter().map(|call| call.body["id"].clone()).collect();
    assert_eq!(ids, [8], "a call that nobody wants any more");
    assert!(server.received("notifications/cancelled").is_empty(), "of a request that was never there");
}

#[test]
fn nothing_goes_where_a_redirect_points() {
    let elsewhere = Server::that(|request, _| polite(request));
    let target = format!("{}/mcp", elsewhere.url);
    let server = Server::that(move |_, _| Reply::Moved(target.clone()));
    let mut client = Client::of(&server);
    client.send(&modern(1, "tools/call", json!({ "name": "x" })));
    let answer = client.next();
    assert_eq!(answer["error"]["data"]["code"], "server_refused", "{answer}");
    assert!(elsewhere.with_method(&Method::POST).is_empty());
}

#[test]
fn the_server_speaks_on_its_own_stream() {
    let server = Server::that(|request, _| match () {
        () if request.method == Method::GET => {
            let changed = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" });
            Reply::Events(vec![("1", changed)], End::Hold(Arc::default()))
        }
        () => polite(request),
    });
    let mut client = Client::initialised(&server);
    assert_eq!(client.next()["method"], "notifications/tools/list_changed");
    assert_eq!(server.with_method(&Method::GET)[0].header("mcp-session-id"), Some("s-1"));
}

#[test]
fn what_is_no_message_is_answered_and_the_next_one_is_taken() {
    let server = Server::that(|request, _| polite(request));
    let mut client = Client::of(&server);
    client.write(b"{not json\n");
    assert_eq!(client.next()["error"]["code"], -32700);
    client.write(b"[]\n");
    assert_eq!(client.next()["error"]["code"], -32600);
    let mut long = vec![b'x'; 5 * 1024 * 1024];
    long.push(b'\n');
    client.write(&long);
    assert_eq!(client.next()["error"]["data"]["code"], "message_too_long");
    client.send(&modern(3, "tools/list", json!({})));
    assert_eq!(client.next()["id"], 3);
}

#[test]
fn the_bridge_goes_with_its_client() {
    let server = Server::that(|_, _| Reply::Events(Vec::new(), End::Hold(Arc::default())));
    let mut client = Client::of(&server);
    client.send(&modern(1, "tools/call", json!({ "name": "x" })));
    until("the request is there", || server.received("tools/call").len() == 1);
    let ended = client.hang_up();
    assert_eq!(ended.status, 0, "{}", ended.err);
    // The server never answers, so that a bridge that waited for it would not end at all.
    assert!(ended.after < Duration::from_secs(30), "{:?}", ended.after);
}

#[test]
fn a_token_that_is_not_taken_is_said_with_what_to_do() {
    let server = Server::that(|_, _| Reply::Status(401));
    let mut client = Client::of(&server);
    client.send(&modern(1, "tools/list", json!({})));
    let answer = client.next();
    assert_eq!(answer["error"]["data"]["code"], "unauthorised");
    assert!(answer["error"]["message"].as_str().unwrap().contains("countersign token create"), "{answer}");
    assert!(!answer.to_string().contains(TOKEN), "R12: {answer}");
}
