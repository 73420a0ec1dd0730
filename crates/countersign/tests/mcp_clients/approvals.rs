//! A person in the client decides, or one elsewhere does.

use serde_json::{Value, json};

use crate::client::{Client, Elicitation, Era, accept, in_every_era, text};
use crate::server::Server;

in_every_era!(
    an_accept_lets_the_call_run_once,
    a_decline_stops_it,
    a_cancel_stops_it,
    an_accept_that_says_deny_stops_it,
    a_form_brings_what_the_person_filled_in,
    a_decision_elsewhere_is_enough,
    a_client_that_cannot_ask_waits_with_resume,
    the_agent_cannot_decide,
);

fn an_accept_lets_the_call_run_once(era: Era) {
    let (server, mut client) = connected(era, Elicitation::Declared);
    let call = client.begin("bank__pay", &json!({ "to": "ann", "amount": 12 }));
    let question = client.asked();
    for shown in ["bank.pay", "ann", "12"] {
        assert!(question.message.contains(shown), "{shown} is not shown: {}", question.message);
    }
    assert!(server.ledger().is_empty(), "nothing runs before the answer");
    client.answer(&question, &accept(&json!({ "decision": "approve" })));
    let result = client.result(call);
    assert_ne!(result["isError"], true, "{result}");
    let ledger = server.ledger();
    assert_eq!(ledger.len(), 1, "{ledger:?}");
    assert_eq!((&ledger[0]["to"], &ledger[0]["amount"]), (&json!("ann"), &json!(12)));
}

fn a_decline_stops_it(era: Era) {
    refused(era, &json!({ "action": "decline" }), "denied");
}

fn a_cancel_stops_it(era: Era) {
    refused(era, &json!({ "action": "cancel" }), "cancelled");
}

fn an_accept_that_says_deny_stops_it(era: Era) {
    refused(era, &accept(&json!({ "decision": "deny" })), "denied");
}

fn a_form_brings_what_the_person_filled_in(era: Era) {
    let (_server, mut client) = connected(era, Elicitation::Declared);
    let call = client.begin("stock__check", &json!({}));
    let question = client.asked();
    assert!(question.message.contains("Which warehouse should I check?"), "{}", question.message);
    assert_eq!(question.schema["properties"]["warehouseId"]["type"], "string", "{}", question.schema);
    client.answer(&question, &accept(&json!({ "warehouseId": "WH-7" })));
    let result = client.result(call);
    assert_eq!(result["structuredContent"]["warehouseId"], "WH-7", "{result}");
    assert!(result["structuredContent"]["units"].is_u64(), "{result}");
}

fn a_decision_elsewhere_is_enough(era: Era) {
    let (server, mut client) = connected(era, Elicitation::Declared);
    let call = client.begin("bank__pay", &json!({ "to": "ann", "amount": 3 }));
    let question = client.asked();
    server.approve(&server.only_pending());
    // In the newer era the client learns of it when it comes back with the user's answer, whatever that is.
    match era {
        Era::June2025 | Era::November2025 => client.sees_withdrawn(&question),
        Era::July2026 => client.answer(&question, &json!({ "action": "decline" })),
    }
    let result = client.result(call);
    assert_ne!(result["isError"], true, "the first decision counts: {result}");
    assert_eq!(server.ledger().len(), 1);
}

fn a_client_that_cannot_ask_waits_with_resume(era: Era) {
    let (server, mut client) = connected(era, Elicitation::Absent);
    let paused = client.call("bank__pay", &json!({ "to": "ann", "amount": 5 }));
    assert_eq!(paused["structuredContent"]["status"], "paused", "{paused}");
    assert!(text(&paused).contains("call resume to wait for the decision"), "{paused}");
    let execution = paused["structuredContent"]["executionId"].as_str().unwrap().to_owned();
    let call = client.begin("resume", &json!({ "execution_id": execution }));
    server.approve(&execution);
    let result = client.result(call);
    assert_eq!(result["structuredContent"]["status"], "succeeded", "{result}");
    assert_eq!(server.ledger().len(), 1);
}

fn the_agent_cannot_decide(era: Era) {
    let (server, mut client) = connected(era, Elicitation::Absent);
    let paused = client.call("bank__pay", &json!({ "to": "eve", "amount": 5 }));
    let execution = paused["structuredContent"]["executionId"].as_str().unwrap().to_owned();
    let outcome = client.call("resume", &json!({ "execution_id": execution, "approved": true }));
    assert!(!text(&outcome).contains("succeeded"), "{outcome}");
    assert_eq!(server.only_pending(), execution, "it still waits for a person");
    assert!(server.ledger().is_empty());
}

#[test]
fn a_call_that_the_client_gives_up_never_runs() {
    let (server, mut client) = connected(Era::November2025, Elicitation::Declared);
    let call = client.begin("bank__pay", &json!({ "to": "ann", "amount": 8 }));
    client.asked();
    client.abort(call);
    assert_eq!(client.outcome(call)["ok"], false);
    server.until("the question is gone", |server| server.pending().is_empty());
    assert!(server.ledger().is_empty());
}

fn refused(era: Era, reply: &Value, code: &str) {
    let (server, mut client) = connected(era, Elicitation::Declared);
    let call = client.begin("bank__pay", &json!({ "to": "ann", "amount": 12 }));
    let question = client.asked();
    client.answer(&question, reply);
    let result = client.result(call);
    assert_eq!(result["isError"], true, "{result}");
    assert_eq!(result["_meta"]["countersign/error"]["code"], code, "{result}");
    assert!(server.ledger().is_empty(), "it ran although nobody said yes");
    assert!(server.pending().is_empty(), "it is decided");
}

fn connected(era: Era, elicitation: Elicitation) -> (Server, Client) {
    let server = Server::start();
    let client = server.client(era, elicitation);
    (server, client)
}
