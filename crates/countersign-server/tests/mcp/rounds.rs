//! The 2026-07-28 era: the answer says what is to be asked, and the client comes back with what was said.

use countersign_sdk::Role;
use countersign_testkit::world::yes;
use serde_json::{Value, json};

use crate::client::{Client, Era, approve, code, execution, says, text};
use crate::house::House;

async fn asked(client: &Client, tool: &str, args: &Value) -> Value {
    let asked = client.call(tool, args.clone()).await;
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    asked
}

fn what(thing: &str) -> Value {
    json!({ "what": thing })
}

fn refused(answer: &Value) -> &str {
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    answer["error"]["data"]["code"].as_str().unwrap()
}

#[tokio::test]
async fn what_is_approved_in_a_round_runs_once() {
    let house = House::open().await;
    let client = house.client(Era::July2026).await;
    let asked = asked(&client, "lab__destroy", &what("x")).await;
    let (_, request) = asked["inputRequests"].as_object().unwrap().iter().next().unwrap();
    assert_eq!(request["method"], "elicitation/create");
    assert!(request["params"]["message"].as_str().unwrap().contains("\"what\": \"x\""), "{request}");
    assert_eq!(request["params"]["requestedSchema"]["required"], json!(["decision"]));
    assert_eq!(house.effects(), [""; 0]);
    let done = client.retry("lab__destroy", what("x"), &asked, approve()).await;
    assert_eq!(done["result"]["structuredContent"], json!({ "done": true }), "{done}");
    assert_eq!(execution(&done["result"]), execution(&asked), "one call, one execution");
    assert_eq!(house.effects(), ["x"]);
}

#[tokio::test]
async fn a_refusal_in_a_round_runs_nothing() {
    let house = House::open().await;
    let client = house.client(Era::July2026).await;
    for (said, failed) in [(says("decline"), "denied"), (says("cancel"), "cancelled")] {
        let asked = asked(&client, "lab__destroy", &what("x")).await;
        let done = client.retry("lab__destroy", what("x"), &asked, said).await;
        assert_eq!(code(&done["result"]), failed);
    }
    assert_eq!(house.effects(), [""; 0]);
}

#[tokio::test]
async fn a_state_counts_once() {
    let house = House::open().await;
    let client = house.client(Era::July2026).await;
    let asked = asked(&client, "lab__destroy_each", &what("x")).await;
    client.retry("lab__destroy_each", what("x"), &asked, approve()).await;
    for said in [approve(), says("decline")] {
        let again = client.retry("lab__destroy_each", what("x"), &asked, said).await;
        assert_eq!(refused(&again), "request_state_used");
        assert_eq!(again["error"]["data"]["executionId"], execution(&asked));
    }
    assert_eq!(house.effects(), ["x"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_retries_at_once_one_counts() {
    let house = House::open().await;
    let client = house.client(Era::July2026).await;
    let asked = asked(&client, "lab__destroy_each", &what("x")).await;
    let retries = futures_util::future::join_all(
        (0..16).map(|_| client.retry("lab__destroy_each", what("x"), &asked, approve())),
    );
    let answers = retries.await;
    let done = answers.iter().filter(|answer| answer["result"]["structuredContent"]["done"] == true).count();
    assert_eq!(done, 1, "{answers:?}");
    assert!(answers.iter().filter(|a| a["error"].is_object()).all(|a| refused(a) == "request_state_used"));
    assert_eq!(house.effects(), ["x"]);
}

/// A10: nothing that a caller makes up counts as an approval.
#[tokio::test]
async fn a_state_that_is_forged_altered_foreign_or_for_something_else_is_refused() {
    let house = House::open().await;
    let client = house.client(Era::July2026).await;
    let asked = asked(&client, "lab__destroy", &what("x")).await;
    let key = asked["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    let said = json!({ key: approve() });
    let state = asked["requestState"].as_str().unwrap().to_owned();
    let mut altered = state.clone().into_bytes();
    altered[20] = if altered[20] == b'A' { b'B' } else { b'A' };
    let altered = String::from_utf8(altered).unwrap();
    for forged in ["", "x", "rs1.AAAA.BBBB", &altered, &state[..state.len() - 1]] {
        let answer = client.retry_with("lab__destroy", what("x"), &json!(forged), said.clone()).await;
        assert_eq!(refused(&answer), "request_state_invalid", "{forged}");
    }
    let other_args = client.retry_with("lab__destroy", what("y"), &json!(state), said.clone()).await;
    assert_eq!(refused(&other_args), "request_state_invalid");
    let other_tool = client.retry_with("lab__destroy_each", what("x"), &json!(state), said.clone()).await;
    assert_eq!(refused(&other_tool), "request_state_invalid");
    let stranger = house.client(Era::July2026).await;
    let stolen = stranger.retry_with("lab__destroy", what("x"), &json!(state), said).await;
    assert_eq!(refused(&stolen), "request_state_invalid");
    assert_eq!(house.open_questions().await.len(), 1);
    assert_eq!(house.effects(), [""; 0]);
}

/// A10: answers to questions that nobody put to this call are not looked at.
#[tokio::test]
async fn answers_without_a_state_and_approvals_among_the_arguments_are_ignored() {
    let house = House::open().await;
    let client = house.client(Era::July2026).await;
    let first = asked(&client, "lab__destroy", &what("x")).await;
    let key = first["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    let params =
        json!({ "name": "lab__destroy", "arguments": what("x"), "inputResponses": { key: approve() } });
    let again = client.ask("tools/call", params).await;
    assert_eq!(again["result"]["resultType"], "input_required", "{again}");
    assert_ne!(execution(&again["result"]), execution(&first), "it is a new call");
    let smuggled = client.call("lab__destroy", json!({ "what": "x", "approved": true })).await;
    assert_eq!(code(&smuggled), "invalid_input");
    assert_eq!(house.open_questions().await.len(), 2);
    assert_eq!(house.effects(), [""; 0]);
}

#[tokio::test]
async fn several_rounds_lead_through_a_handler_that_asks_again() {
    let house = House::open().await;
    let client = house.client(Era::July2026).await;
    let first = asked(&client, "lab__steps", &what("x")).await;
    let second = client.retry("lab__steps", what("x"), &first, approve()).await["result"].clone();
    assert_eq!(second["resultType"], "input_required", "{second}");
    let done = client.retry("lab__steps", what("x"), &second, approve()).await;
    assert_eq!(done["result"]["structuredContent"], json!({ "done": true }), "{done}");
    assert_eq!(house.effects(), ["first", "second"]);
}

#[tokio::test]
async fn what_cannot_be_read_is_asked_again_and_in_the_end_left_open() {
    let house = House::open().await;
    let client = house.client(Era::July2026).await;
    let mut asked = asked(&client, "lab__destroy", &what("x")).await;
    for _ in 0..2 {
        asked = client.retry("lab__destroy", what("x"), &asked, json!({ "action": "maybe" })).await["result"]
            .clone();
        assert_eq!(asked["resultType"], "input_required", "{asked}");
    }
    let left = client.retry("lab__destroy", what("x"), &asked, json!({ "action": "maybe" })).await;
    assert_eq!(left["result"]["structuredContent"]["status"], "paused", "{left}");
    assert_eq!(house.open_questions().await.len(), 1);
}

#[tokio::test]
async fn what_was_decided_elsewhere_is_gone_on_with() {
    let house = House::open().await;
    let client = house.client(Era::July2026).await;
    let asked = asked(&client, "lab__destroy", &what("x")).await;
    house.ann_says(house.only_question().await.elicitation.id, yes()).await;
    let done = client.retry("lab__destroy", what("x"), &asked, says("decline")).await;
    assert_eq!(done["result"]["structuredContent"], json!({ "done": true }), "the first decision won");
    let only_state = client.retry_with("lab__destroy", what("x"), &asked["requestState"], json!({})).await;
    assert_eq!(only_state["result"]["structuredContent"], json!({ "done": true }));
    assert_eq!(house.effects(), ["x"]);
}

#[tokio::test]
async fn a_state_outlives_a_restart() {
    let house = House::open().await;
    let key = house.key(Role::Agent).await;
    let client = house.client_of(&key, Era::July2026).await;
    let asked = asked(&client, "lab__destroy", &what("x")).await;
    let house = house.after().await;
    let client = house.client_of(&key, Era::July2026).await;
    let done = client.retry("lab__destroy", what("x"), &asked, approve()).await;
    assert_eq!(done["result"]["structuredContent"], json!({ "done": true }), "{done}");
    assert_eq!(house.effects(), ["x"]);
}

#[tokio::test]
async fn a_client_that_cannot_ask_is_never_told_to() {
    let house = House::open().await;
    let key = house.key(Role::Agent).await;
    for can in [json!({}), json!({ "elicitation": { "url": {} } }), json!({ "sampling": {} })] {
        let client = house.client_that(&key, Era::July2026, can.clone()).await;
        let paused = client.call("lab__destroy", what("x")).await;
        assert_eq!(paused["structuredContent"]["status"], "paused", "{can}");
        assert!(paused.get("inputRequests").is_none());
    }
    // A state it once had when it could does not make it able to.
    let able = house.client_of(&key, Era::July2026).await;
    let asked = asked(&able, "lab__destroy", &what("y")).await;
    let unable = house.client_that(&key, Era::July2026, json!({})).await;
    let answer = unable.retry("lab__destroy", what("y"), &asked, approve()).await;
    assert_eq!(answer["result"]["structuredContent"]["status"], "paused", "{answer}");
    assert_eq!(house.effects(), [""; 0]);
}

#[tokio::test]
async fn a_form_is_filled_in_a_round() {
    let house = House::open().await;
    let client = house.client(Era::July2026).await;
    let asked = asked(&client, "order-it", &json!({})).await;
    let (_, request) = asked["inputRequests"].as_object().unwrap().iter().next().unwrap();
    let fields = &request["params"]["requestedSchema"]["properties"];
    assert_eq!(fields["size"]["oneOf"][1]["const"], "l", "{fields}");
    assert!(fields["code"].get("pattern").is_none(), "this revision knows no patterns");
    let filled = json!({ "mail": "x@y.z", "urgent": true, "size": "s", "colours": ["red"] });
    let done =
        client.retry("order-it", json!({}), &asked, json!({ "action": "accept", "content": filled })).await;
    assert!(text(&done["result"]).contains("x@y.z"), "{done}");
}

/// Closing the stream is the only way to cancel here, and cannot be told from a lost connection: nothing is cancelled.
#[tokio::test]
async fn a_connection_that_goes_away_cancels_nothing_and_approves_nothing() {
    let house = House::with(|options| options.hold = std::time::Duration::from_secs(60)).await;
    let key = house.key(Role::Agent).await;
    let client = house.client_that(&key, Era::July2026, json!({})).await;
    let call = client.call("lab__destroy", what("x"));
    assert!(tokio::time::timeout(std::time::Duration::from_millis(300), call).await.is_err());
    // Long enough for the server to see that nobody reads any more.
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    let row = house.only_question().await;
    assert!(row.decision.is_none());
    house.ann_says(row.elicitation.id, yes()).await;
    let done = client.call("resume", json!({ "execution_id": row.execution.to_string() })).await;
    assert_eq!(done["structuredContent"]["status"], "succeeded");
    assert_eq!(house.effects(), ["x"]);
}
