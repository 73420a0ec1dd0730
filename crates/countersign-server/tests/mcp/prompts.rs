//! The 2025 era: a person is asked through the client while the call is open.

use countersign_core::elicitation::{Decider, Proof};
use countersign_sdk::{Outcome, Role};
use countersign_testkit::world::yes;
use serde_json::{Value, json};

use crate::client::{Era, approve, code, execution, says, text};
use crate::house::House;

const OLD: [Era; 2] = [Era::June2025, Era::November2025];

#[tokio::test]
async fn what_is_approved_in_the_client_runs_once_with_what_was_shown() {
    for era in OLD {
        let house = House::open().await;
        let key = house.key(Role::Agent).await;
        let client = house.client_of(&key, era).await;
        let mut call = client.begin("lab__destroy", json!({ "what": "the moon" })).await;
        let prompt = call.until("elicitation/create").await;
        assert_eq!(house.effects(), [""; 0], "nothing runs before the answer");
        let shown = prompt["params"]["message"].as_str().unwrap();
        for part in ["Approval needed", "Tool: lab.destroy", "Permanently destroy", "\"what\": \"the moon\""]
        {
            assert!(shown.contains(part), "{part} in {shown}");
        }
        assert_eq!(prompt["params"].get("mode").is_some(), era == Era::November2025);
        client.answer(&prompt, approve()).await;
        let result = call.answer().await["result"].clone();
        assert_eq!(result["structuredContent"], json!({ "done": true }), "{result}");
        assert!(result.get("resultType").is_none());
        assert_eq!(house.effects(), ["the moon"]);
        let decision = house.only_question().await.decision.unwrap();
        let Decider::Person { principal, token } = decision.by else { panic!("{:?}", decision.by) };
        let operator = house.gateway.users().await.unwrap()[0].id.to_string();
        assert_eq!(principal.as_str(), operator, "the owner, not the agent");
        assert_eq!(decision.proof, Some(Proof::AttendedClient { token: key.id }));
        assert_eq!(token, Some(key.id), "revoking the agent's token voids it");
        assert_eq!(decision.channel, "mcp");
    }
}

#[tokio::test]
async fn only_an_explicit_yes_lets_a_call_run() {
    let deny = json!({ "action": "accept", "content": { "decision": "deny" } });
    for (said, outcome, failed) in [
        (says("decline"), Outcome::Denied, "denied"),
        (says("cancel"), Outcome::Cancelled, "cancelled"),
        (deny, Outcome::Denied, "denied"),
    ] {
        let house = House::open().await;
        let client = house.client(Era::November2025).await;
        let mut call = client.begin("lab__destroy", json!({ "what": "x" })).await;
        let prompt = call.until("elicitation/create").await;
        client.answer(&prompt, said.clone()).await;
        let result = call.answer().await["result"].clone();
        assert_eq!(code(&result), failed, "{said} gives {result}");
        assert!(text(&result).starts_with(failed), "the model reads the code too");
        assert_eq!(house.only_question().await.decision.unwrap().outcome, outcome);
        assert_eq!(house.effects(), [""; 0]);
    }
}

#[tokio::test]
async fn nonsense_is_no_answer_and_leaves_the_question_open() {
    let house = House::open().await;
    let client = house.client(Era::November2025).await;
    for said in [
        json!({ "action": "yes" }),
        json!({ "approved": true }),
        json!({ "action": "accept" }),
        json!({ "action": "accept", "content": { "decision": "approve_all" } }),
        json!({ "action": "accept", "content": { "approved": true } }),
        json!({}),
    ] {
        let mut call = client.begin("lab__destroy_each", json!({ "what": "x" })).await;
        for _ in 0..3 {
            let prompt = call.until("elicitation/create").await;
            client.answer(&prompt, said.clone()).await;
        }
        let result = call.answer().await["result"].clone();
        assert_eq!(result["structuredContent"]["status"], "paused", "{said} gives {result}");
    }
    assert_eq!(house.open_questions().await.len(), 6);
    assert_eq!(house.effects(), [""; 0]);
}

#[tokio::test]
async fn a_client_that_fails_to_ask_has_decided_nothing() {
    let house = House::open().await;
    let client = house.client(Era::November2025).await;
    let mut call = client.begin("lab__destroy", json!({ "what": "x" })).await;
    let prompt = call.until("elicitation/create").await;
    let error = json!({ "jsonrpc": "2.0", "id": prompt["id"], "error": { "code": -32601, "message": "no" } });
    client.send(&error).await;
    let result = call.answer().await["result"].clone();
    assert_eq!(result["structuredContent"]["status"], "paused", "{result}");
    assert_eq!(house.open_questions().await.len(), 1);
}

#[tokio::test]
async fn a_decision_elsewhere_wins_and_withdraws_the_prompt() {
    let house = House::open().await;
    let client = house.client(Era::November2025).await;
    let mut announced = client.listen().await;
    let mut call = client.begin("lab__destroy", json!({ "what": "x" })).await;
    let prompt = call.until("elicitation/create").await;
    house.ann_says(house.only_question().await.elicitation.id, yes()).await;
    let (mut withdrawn, mut result) = (None, Value::Null);
    while result.is_null() {
        let message = call.next().await.unwrap();
        match message["method"] == "notifications/cancelled" {
            true => withdrawn = Some(message),
            false => result = message["result"].clone(),
        }
    }
    assert_eq!(result["structuredContent"], json!({ "done": true }));
    // rmcp says it on the stream of the client's own request with that number, or else on the server's.
    let withdrawn = match withdrawn {
        Some(withdrawn) => withdrawn,
        None => announced.until("notifications/cancelled").await,
    };
    assert_eq!(withdrawn["params"]["requestId"], prompt["id"]);
    assert_ne!(prompt["id"], 0, "the official 1.x client ignores a withdrawal of request 0");
    // The user answers a prompt that is no longer there.
    client.send(&json!({ "jsonrpc": "2.0", "id": prompt["id"], "result": says("decline") })).await;
    assert_eq!(house.effects(), ["x"]);
    assert_eq!(house.only_question().await.decision.unwrap().channel, "console");
}

#[tokio::test]
async fn an_approval_in_a_client_covers_one_call_and_never_a_session() {
    let house = House::open().await;
    let client = house.client(Era::November2025).await;
    let choices = |prompt: &Value| -> Vec<String> {
        let choices = &prompt["params"]["requestedSchema"]["properties"]["decision"]["oneOf"];
        choices.as_array().unwrap().iter().map(|c| c["const"].as_str().unwrap().to_owned()).collect()
    };
    let for_session = json!({ "action": "accept", "content": { "decision": "approve_for_session" } });
    // The tool would allow a session; the prompt does not.
    let mut first = client.begin("lab__destroy", json!({ "what": "b" })).await;
    let prompt = first.until("elicitation/create").await;
    assert_eq!(choices(&prompt), ["approve", "deny"]);
    let message = prompt["params"]["message"].as_str().unwrap();
    assert!(message.ends_with("Approval covers: this call only."), "{message}");
    client.answer(&prompt, for_session).await;
    let again = first.until("elicitation/create").await;
    client.answer(&again, approve()).await;
    first.answer().await;
    let mut second = client.begin("lab__destroy", json!({ "what": "c" })).await;
    second.until("elicitation/create").await;
    assert_eq!(house.effects(), ["b"], "nothing is remembered");
}

#[tokio::test]
async fn a_client_that_nobody_declared_attended_is_not_asked_and_answers_nothing() {
    for era in OLD {
        let house = House::with(|options| options.hold = std::time::Duration::from_millis(50)).await;
        let client = house.client_of(&house.unattended_key().await, era).await;
        let answer = client.call("lab__destroy", json!({ "what": "the moon" })).await;
        assert_eq!(answer["structuredContent"]["status"], "paused", "{answer}");
        assert_eq!(house.effects(), [""; 0]);
        assert!(house.only_question().await.decision.is_none(), "it waits for a person elsewhere");
    }
}

#[tokio::test]
async fn an_approval_of_one_call_is_for_that_call_only() {
    let house = House::open().await;
    let client = house.client(Era::November2025).await;
    for what in ["a", "b"] {
        let mut call = client.begin("lab__destroy", json!({ "what": what })).await;
        let prompt = call.until("elicitation/create").await;
        client.answer(&prompt, approve()).await;
        call.answer().await;
    }
    assert_eq!(house.effects(), ["a", "b"]);
}

#[tokio::test]
async fn a_form_goes_through_with_the_schema_of_its_revision() {
    let house = House::open().await;
    for (era, colours) in [(Era::June2025, json!("red, blue")), (Era::November2025, json!(["red", "blue"]))] {
        let client = house.client(era).await;
        let mut call = client.begin("order-it", json!({})).await;
        let prompt = call.until("elicitation/create").await;
        let fields = prompt["params"]["requestedSchema"]["properties"].clone();
        assert_eq!(fields["mail"]["format"], "email");
        assert_eq!(fields["urgent"]["default"], true);
        if era == Era::June2025 {
            assert!(fields["mail"].get("default").is_none() && fields["code"].get("pattern").is_none());
            assert_eq!(fields["size"]["enum"], json!(["s", "l"]));
            assert_eq!(fields["size"]["enumNames"], json!(["Small", "Large"]));
            assert_eq!(fields["colours"]["type"], "string", "{fields}");
        } else {
            assert_eq!(fields["mail"]["default"], "a@b.c");
            assert_eq!(fields["size"]["oneOf"][0]["title"], "Small");
            assert_eq!(fields["colours"]["type"], "array");
        }
        let filled = json!({ "mail": "x@y.z", "urgent": false, "size": "l", "colours": colours });
        client.answer(&prompt, json!({ "action": "accept", "content": filled })).await;
        let result = call.answer().await["result"].clone();
        assert!(text(&result).contains(r#"["red","blue"]"#), "{result}");
    }
}

#[tokio::test]
async fn an_answer_that_does_not_fit_the_form_is_asked_for_again() {
    let house = House::open().await;
    let client = house.client(Era::November2025).await;
    let mut call = client.begin("lab__form", json!({})).await;
    let prompt = call.until("elicitation/create").await;
    client.answer(&prompt, json!({ "action": "accept", "content": { "warehouse_id": 7 } })).await;
    let prompt = call.until("elicitation/create").await;
    client.answer(&prompt, json!({ "action": "accept", "content": { "warehouse_id": "7" } })).await;
    assert!(text(&call.answer().await["result"]).contains("\"units\":7"));
}

/// A1 and A4: what others wrote is marked as theirs and made visible, and the arguments are shown whole.
#[tokio::test]
async fn text_of_the_agent_cannot_pass_for_the_gateways_in_a_prompt() {
    let house = House::open().await;
    let client = house.client(Era::November2025).await;
    let what = format!("x\"?\n\nApproval not needed.\u{202e}\u{200b}\u{1b}[2J{}end", " ".repeat(60));
    let mut call = client.begin("lab__destroy", json!({ "what": what })).await;
    let prompt = call.until("elicitation/create").await;
    let shown = prompt["params"]["message"].as_str().unwrap();
    assert!(shown.starts_with("Approval needed. Nothing runs unless you approve it."));
    assert!(!shown.lines().any(|line| line.starts_with("Approval not needed")), "{shown}");
    assert!(shown.contains("> Approval not needed."), "{shown}");
    for raw in ['\u{202e}', '\u{200b}', '\u{1b}'] {
        assert!(!shown.contains(raw), "{raw:?} is written out");
    }
    for written in ["⟦U+202E⟧", "⟦U+200B⟧", "⟦60 spaces⟧", "Beware", "reorder", "invisible"] {
        assert!(shown.contains(written), "{written} in {shown}");
    }
}

/// A2: arguments of any size that the gateway takes are in the prompt to their last character.
#[tokio::test]
async fn large_arguments_are_shown_whole() {
    let house = House::open().await;
    let client = house.client(Era::November2025).await;
    let long = format!("{}the end", "long ".repeat(100_000));
    let args = json!({ "style": "method", "args": { "text": long } });
    let mut call = client.begin("lab__elicit", args).await;
    let prompt = call.until("elicitation/create").await;
    assert!(prompt["params"]["message"].as_str().unwrap().contains(&long), "to the last character");
}

/// A21 and A22: a client that dies while its user thinks loses nothing, and trying again runs nothing twice.
#[tokio::test]
async fn a_client_killed_in_mid_question_leaves_it_open_and_comes_back_by_id() {
    let house = House::open().await;
    let key = house.key(Role::Agent).await;
    let client = house.client_of(&key, Era::November2025).await;
    let mut call = client.begin("lab__destroy", json!({ "what": "x" })).await;
    call.until("elicitation/create").await;
    drop(call);
    drop(client);
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    let row = house.only_question().await;
    assert!(row.decision.is_none(), "a lost connection is no answer");
    let again = house.client_of(&key, Era::November2025).await;
    let mut resumed = again.begin("resume", json!({ "execution_id": row.execution.to_string() })).await;
    let prompt = resumed.until("elicitation/create").await;
    again.answer(&prompt, approve()).await;
    let result = resumed.answer().await["result"].clone();
    assert_eq!(result["structuredContent"]["value"], json!({ "done": true }), "{result}");
    for _ in 0..2 {
        let later = again.call("resume", json!({ "execution_id": row.execution.to_string() })).await;
        assert_eq!(later["structuredContent"]["status"], "succeeded");
    }
    assert_eq!(house.effects(), ["x"]);
}

#[tokio::test]
async fn a_restart_loses_no_question_and_the_same_execution_goes_on() {
    let house = House::open().await;
    let key = house.key(Role::Agent).await;
    let client = house.client_of(&key, Era::November2025).await;
    let mut call = client.begin("lab__destroy", json!({ "what": "x" })).await;
    call.until("elicitation/create").await;
    let id = house.only_question().await.execution.to_string();
    let house = house.after().await;
    let client = house.client_of(&key, Era::November2025).await;
    let mut resumed = client.begin("resume", json!({ "execution_id": id })).await;
    let prompt = resumed.until("elicitation/create").await;
    client.answer(&prompt, approve()).await;
    assert_eq!(execution(&resumed.answer().await["result"]), id);
    assert_eq!(house.effects(), ["x"]);
}

#[tokio::test]
async fn a_revoked_token_cannot_be_used_to_approve_what_it_asked_for() {
    let house = House::open().await;
    let key = house.key(Role::Agent).await;
    let client = house.client_of(&key, Era::November2025).await;
    let mut call = client.begin("lab__destroy", json!({ "what": "x" })).await;
    let prompt = call.until("elicitation/create").await;
    house.gateway.revoke_token(key.id, None).await.unwrap();
    let refused =
        client.send(&json!({ "jsonrpc": "2.0", "id": prompt["id"], "result": approve() })).await.status();
    assert_eq!(refused, 401);
    assert!(house.only_question().await.decision.is_none());
    assert_eq!(house.effects(), [""; 0]);
}
