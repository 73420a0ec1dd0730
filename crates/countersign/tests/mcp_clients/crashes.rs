//! Killed mid-wait, client or server: the question stays, the same execution goes on, and it runs once.

use serde_json::json;

use crate::client::{Elicitation, Era, accept, in_every_era};
use crate::server::Server;

in_every_era!(
    a_client_killed_while_a_person_thinks_loses_nothing,
    a_server_killed_while_a_person_thinks_loses_nothing,
);

fn a_client_killed_while_a_person_thinks_loses_nothing(era: Era) {
    let server = Server::start();
    let mut client = server.client(era, Elicitation::Declared);
    client.begin("bank__pay", &json!({ "to": "ann", "amount": 7 }));
    client.asked();
    let execution = server.only_pending();
    client.kill();
    assert_eq!(server.only_pending(), execution, "a client that is gone is neither a yes nor a no");
    assert!(server.ledger().is_empty());
    let mut next = server.client(era, Elicitation::Declared);
    let call = next.begin("resume", &json!({ "execution_id": execution }));
    let question = next.asked();
    next.answer(&question, &accept(&json!({ "decision": "approve" })));
    let result = next.result(call);
    assert_eq!(result["structuredContent"]["status"], "succeeded", "{result}");
    ran_once(&server, &execution);
}

fn a_server_killed_while_a_person_thinks_loses_nothing(era: Era) {
    let mut server = Server::start();
    let mut client = server.client(era, Elicitation::Declared);
    client.begin("bank__pay", &json!({ "to": "ann", "amount": 7 }));
    client.asked();
    let execution = server.only_pending();
    server.kill_and_restart();
    assert_eq!(server.only_pending(), execution, "the same question waits");
    let mut next = server.client(era, Elicitation::Declared);
    let call = next.begin("resume", &json!({ "execution_id": execution }));
    let question = next.asked();
    next.answer(&question, &accept(&json!({ "decision": "approve" })));
    let result = next.result(call);
    assert_eq!(result["structuredContent"]["status"], "succeeded", "{result}");
    ran_once(&server, &execution);
}

/// The newer era has no session, so the answer reaches the restarted server as if nothing had happened.
#[test]
fn an_answer_given_before_the_kill_is_taken_after_it() {
    let mut server = Server::start();
    let mut client = server.client(Era::July2026, Elicitation::Declared);
    let call = client.begin("bank__pay", &json!({ "to": "ann", "amount": 7 }));
    let question = client.asked();
    let execution = server.only_pending();
    server.kill_and_restart();
    client.answer(&question, &accept(&json!({ "decision": "approve" })));
    let result = client.result(call);
    assert_ne!(result["isError"], true, "{result}");
    ran_once(&server, &execution);
}

fn ran_once(server: &Server, execution: &str) {
    let ledger = server.ledger();
    assert_eq!(ledger.len(), 1, "{ledger:?}");
    assert_eq!(ledger[0]["executionId"], execution, "{ledger:?}");
}
