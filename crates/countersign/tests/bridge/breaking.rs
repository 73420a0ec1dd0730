//! The wire breaks: nothing is done twice, and the client is told.

use std::sync::Arc;

use axum::http::Method;
use serde_json::json;

use crate::client::{Client, legacy, modern, until};
use crate::server::{End, Received, Reply, Server};

#[test]
fn a_call_whose_connection_breaks_is_never_sent_again() {
    for broken in
        [|| Reply::Broken, || Reply::Events(Vec::new(), End::Break), || Reply::Events(Vec::new(), End::Close)]
    {
        let server = Server::that(move |request, _| match () {
            () if request.asks("tools/call") => broken(),
            () => Reply::Json(request.result(&json!({}))),
        });
        let mut client = Client::of(&server);
        client.send(&modern(1, "tools/call", json!({ "name": "bank__pay" })));
        let answer = client.next();
        assert_eq!(answer["error"]["data"]["code"], "connection_lost", "{answer}");
        let words = answer["error"]["message"].as_str().unwrap();
        assert!(words.contains("resume") && words.contains("inbox"), "it says what to do: {words}");
        client.send(&modern(2, "tools/list", json!({})));
        client.next();
        assert_eq!(
            server.received("tools/call").len(),
            1,
            "A22: a repeated call would be a second execution"
        );
    }
}

#[test]
fn a_call_over_which_the_server_failed_may_have_run_and_is_not_sent_again() {
    for status in [500, 502, 503, 504] {
        let server = Server::that(move |_, _| Reply::Status(status));
        let mut client = Client::of(&server);
        client.send(&modern(1, "tools/call", json!({ "name": "bank__pay" })));
        let answer = client.next();
        assert_eq!(answer["error"]["data"]["code"], "connection_lost", "{status}: {answer}");
        client.hears_nothing();
        assert_eq!(server.received("tools/call").len(), 1);
    }
}

#[test]
fn a_server_that_forgets_every_session_is_not_asked_as_fast_as_it_forgets() {
    let server = Server::that(|request, _| match () {
        () if request.method == Method::GET => Reply::Status(405),
        () if request.asks("initialize") => Reply::Session(request.initialised(), "s-1"),
        () if request.body["id"].is_null() => Reply::Status(202),
        () => Reply::Status(404),
    });
    let mut client = Client::initialised(&server);
    client.send(&legacy(1, "tools/list", &json!({})));
    client.hears_nothing();
    client.hears_nothing();
    let begun = server.received("initialize").len();
    assert!((2..8).contains(&begun), "begun {begun} times");
}

#[test]
fn the_execution_is_named_where_the_server_had_named_it() {
    let server = Server::that(|_, _| {
        let progress = json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": {
            "progressToken": 1, "progress": 1, "_meta": { "countersign/executionId": "exec_7" },
        } });
        Reply::Events(vec![("1", progress)], End::Break)
    });
    let mut client = Client::of(&server);
    client.send(&modern(1, "tools/call", json!({ "name": "bank__pay" })));
    assert_eq!(client.next()["method"], "notifications/progress");
    assert_eq!(client.next()["error"]["data"]["executionId"], "exec_7");
}

#[test]
fn a_list_whose_connection_breaks_is_asked_for_again() {
    let server = Server::that(|request, before| match before {
        0 => Reply::Broken,
        1 => Reply::Events(Vec::new(), End::Break),
        _ => Reply::Json(request.result(&json!({ "tools": [] }))),
    });
    let mut client = Client::of(&server);
    client.send(&modern(1, "tools/list", json!({})));
    assert_eq!(client.next()["result"]["tools"], json!([]));
    assert_eq!(server.received("tools/list").len(), 3);
}

/// A server that was restarted once: the first session is unknown to it.
pub(crate) fn forgetful(request: &Received, before: usize) -> Reply {
    let is_old = request.header("mcp-session-id") == Some("s-1");
    match () {
        () if request.asks("initialize") => {
            Reply::Session(request.initialised(), ["s-1", "s-2"][before.min(1)])
        }
        () if request.asks("notifications/initialized") => Reply::Status(202),
        () if is_old => Reply::Status(404),
        () if request.method == Method::GET => Reply::Events(Vec::new(), End::Hold(Arc::default())),
        () if request.body["id"].is_null() => Reply::Status(202),
        () => Reply::Json(request.result(&json!({ "content": [] }))),
    }
}

#[test]
fn a_session_that_the_server_forgot_is_begun_anew_and_the_client_does_not_notice() {
    let server = Server::that(forgetful);
    let mut client = Client::initialised(&server);
    client.send(&legacy(1, "tools/call", &json!({ "name": "x" })));
    assert_eq!(client.next(), json!({ "jsonrpc": "2.0", "id": 1, "result": { "content": [] } }));
    let (first, second) = (&server.received("initialize")[0], &server.received("initialize")[1]);
    assert_eq!(first.body, second.body, "in the client's own words");
    assert_eq!(server.received("notifications/initialized").len(), 2);
    let calls: Vec<_> = server
        .received("tools/call")
        .iter()
        .map(|r| r.header("mcp-session-id").unwrap().to_owned())
        .collect();
    assert_eq!(calls.last().unwrap(), "s-2");
    client.hears_nothing();
}

#[test]
fn questions_of_a_session_that_is_gone_are_withdrawn() {
    let server = Server::that(|request, before| match () {
        () if request.method == Method::GET => Reply::Status(405),
        () if request.asks("tools/call") && before == 0 => {
            let question = json!({ "jsonrpc": "2.0", "id": 5, "method": "elicitation/create", "params": {} });
            Reply::Events(vec![("1", question)], End::Hold(Arc::default()))
        }
        () => forgetful(request, before),
    });
    let mut client = Client::initialised(&server);
    client.send(&legacy(1, "tools/call", &json!({ "name": "x" })));
    let question = client.next();
    assert_eq!(question["method"], "elicitation/create");
    client.send(&legacy(2, "tools/list", &json!({})));
    let withdrawn = client.next();
    assert_eq!(
        (&withdrawn["method"], &withdrawn["params"]["requestId"]),
        (&json!("notifications/cancelled"), &question["id"])
    );
    assert_eq!(client.next()["id"], 2);
    client.send(&json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "action": "accept" } }));
    client.send(&legacy(3, "ping", &json!({})));
    client.next();
    client.hears_nothing();
    assert_eq!(server.answers().len(), 0, "a late yes belongs to no question of the new session");
}

#[test]
fn a_stream_that_breaks_is_taken_up_where_it_was() {
    let server = Server::that(|request, before| match () {
        () if request.method == Method::GET && request.header("last-event-id") == Some("e-1") => {
            Reply::Events(
                vec![("e-2", json!({ "jsonrpc": "2.0", "id": 1, "result": { "content": [] } }))],
                End::Close,
            )
        }
        () if request.method == Method::GET => Reply::Status(405),
        () if request.asks("tools/call") => {
            let progress = json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": { "progressToken": 1, "progress": 1 } });
            Reply::Events(vec![("e-1", progress)], End::Break)
        }
        () if request.asks("initialize") => Reply::Session(request.initialised(), "s-9"),
        () => forgetful(request, before),
    });
    let mut client = Client::initialised(&server);
    client.send(&legacy(1, "tools/call", &json!({ "name": "x" })));
    assert_eq!(client.next()["method"], "notifications/progress");
    assert_eq!(client.next()["result"], json!({ "content": [] }));
    assert_eq!(server.received("tools/call").len(), 1);
}

#[test]
fn a_server_that_is_not_there_yet_is_waited_for() {
    let gone = Server::that(|_, _| Reply::Status(500));
    let address = gone.url.trim_start_matches("http://").to_owned();
    let mut client = Client::of(&gone);
    drop(gone);
    client.send(&modern(1, "tools/call", json!({ "name": "x" })));
    client.hears_nothing();
    let listener = std::net::TcpListener::bind(&address).unwrap();
    let answering = std::thread::spawn(move || {
        use std::io::{Read as _, Write as _};
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = vec![0; 64 * 1024];
        let read = stream.read(&mut request).unwrap();
        let body = r#"{"jsonrpc":"2.0","id":1,"result":{"content":[]}}"#;
        write!(
            stream,
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        String::from_utf8_lossy(&request[..read]).into_owned()
    });
    assert_eq!(client.next()["id"], 1, "a call that never got in can still be brought");
    assert!(answering.join().unwrap().starts_with("POST /mcp"));
    until("everything is said", || true);
}
