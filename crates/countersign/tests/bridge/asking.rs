//! The server asks, a person answers: the answer reaches the question that the person saw, or none.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::http::Method;
use serde_json::{Value, json};

use crate::breaking::forgetful;
use crate::carrying::polite;
use crate::client::{Client, legacy, until};
use crate::server::{End, Reply, Server};

fn question(id: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": { "message": "Pay?" } })
}

fn yes(question: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "action": "accept" } })
}

/// A server that answers every call with this question, and takes answers as it is told.
fn asking(id: Value, answered: impl Fn(usize) -> Reply + Send + Sync + 'static) -> Server {
    Server::that(move |request, before| match () {
        () if request.asks("tools/call") => {
            Reply::Events(vec![("1", question(&id))], End::Hold(Arc::default()))
        }
        () if request.method == Method::POST && request.body["method"].is_null() => answered(before),
        () => polite(request),
    })
}

#[test]
fn a_late_yes_is_never_the_yes_to_another_question_of_a_server_that_was_restarted() {
    let calls = Arc::new(AtomicUsize::new(0));
    let server = Server::that(move |request, before| match () {
        () if request.method == Method::GET => Reply::Status(405),
        // Every session counts its questions from one again.
        () if request.asks("tools/call")
            && [(0, "s-1"), (1, "s-2")].contains(&(
                calls.load(Ordering::SeqCst),
                request.header("mcp-session-id").unwrap_or_default(),
            )) =>
        {
            calls.fetch_add(1, Ordering::SeqCst);
            Reply::Events(vec![("1", question(&json!(1)))], End::Hold(Arc::default()))
        }
        () => forgetful(request, before),
    });
    let mut client = Client::initialised(&server);
    client.send(&legacy(1, "tools/call", &json!({ "name": "x" })));
    let old = client.next();
    client.send(&legacy(2, "tools/call", &json!({ "name": "y" })));
    let withdrawn = client.next();
    assert_eq!(withdrawn["params"]["requestId"], old["id"], "{withdrawn}");
    let new = client.next();
    assert_eq!(new["method"], "elicitation/create", "{new}");
    assert_ne!(old["id"], new["id"]);
    client.send(&yes(&old));
    client.send(&legacy(3, "ping", &json!({})));
    client.next();
    client.send(&yes(&new));
    until("the answer is there", || !server.answers().is_empty());
    let answers = server.answers();
    assert_eq!(answers.len(), 1, "a person saw one of them only: {answers:?}");
    assert_eq!(answers[0].body["id"], 1, "under the id that the server knows");
    assert_eq!(answers[0].header("mcp-session-id"), Some("s-2"));
}

#[test]
fn a_question_that_the_server_withdraws_is_withdrawn_under_the_name_it_was_shown_by() {
    let server = Server::that(|request, _| match () {
        () if request.asks("tools/call") => {
            let withdrawal = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 4, "reason": "decided" } });
            Reply::Events(vec![("1", question(&json!(4))), ("2", withdrawal)], End::Hold(Arc::default()))
        }
        () => polite(request),
    });
    let mut client = Client::initialised(&server);
    client.send(&legacy(1, "tools/call", &json!({ "name": "x" })));
    let (question, withdrawal) = (client.next(), client.next());
    assert_eq!(withdrawal["params"], json!({ "requestId": question["id"], "reason": "decided" }));
    client.send(&yes(&question));
    client.send(&legacy(2, "ping", &json!({})));
    client.next();
    client.hears_nothing();
    assert!(server.answers().is_empty(), "nobody waits for it");
}

#[test]
fn an_answer_that_the_server_cannot_take_now_is_brought_again_and_holds_nobody_up() {
    for not_now in [429, 503] {
        let server = asking(json!("q"), move |before| Reply::Status(if before < 2 { not_now } else { 202 }));
        let mut client = Client::initialised(&server);
        client.send(&legacy(1, "tools/call", &json!({ "name": "x" })));
        let question = client.next();
        client.send(&yes(&question));
        client.send(&legacy(2, "ping", &json!({})));
        assert_eq!(client.next()["id"], 2);
        until("the answer is taken", || server.answers().len() == 3);
        assert!(server.answers().iter().all(|answer| answer.body["id"] == "q"));
        client.hears_nothing();
        assert_eq!(server.answers().len(), 3, "once it is taken, it is not brought again");
    }
}

#[test]
fn an_answer_that_the_server_refuses_is_brought_once() {
    let server = asking(json!(1), |_| Reply::Status(400));
    let mut client = Client::initialised(&server);
    client.send(&legacy(1, "tools/call", &json!({ "name": "x" })));
    let question = client.next();
    client.send(&yes(&question));
    until("the answer is there", || !server.answers().is_empty());
    client.hears_nothing();
    assert_eq!(server.answers().len(), 1);
}

#[test]
fn the_last_answer_arrives_though_the_client_is_gone_and_nothing_else_is_under_way() {
    let server = Server::that(|request, before| match () {
        () if request.asks("tools/call") => {
            let result = request.result(&json!({ "content": [] }));
            Reply::Events(vec![("1", question(&json!(1))), ("2", result)], End::Close)
        }
        () if request.method == Method::POST && request.body["method"].is_null() => {
            Reply::Status(if before == 0 { 503 } else { 202 })
        }
        () => polite(request),
    });
    let mut client = Client::initialised(&server);
    client.send(&legacy(1, "tools/call", &json!({ "name": "x" })));
    let question = client.next();
    assert_eq!(client.next()["id"], 1);
    client.send(&yes(&question));
    client.hang_up();
    assert_eq!(server.answers().len(), 2, "and is tried again meanwhile");
}
