//! What an agent can never do through MCP: decide, or see what is another's.

use countersign_core::elicitation::Decider;
use countersign_sdk::{Outcome, Role};
use countersign_testkit::world::yes;
use serde_json::json;

use crate::client::{Era, approve, code, execution, text};
use crate::house::House;

/// A10 and A11: an agent's own word is no approval, in any era, whatever it sends along.
#[tokio::test]
async fn an_agent_cannot_decide_with_resume() {
    let house = House::open().await;
    for era in Era::ALL {
        let key = house.key(Role::Agent).await;
        let client = house.client_that(&key, era, json!({})).await;
        let paused = client.call("lab__destroy", json!({ "what": "x" })).await;
        let id = execution(&paused);
        for approved in [true, false] {
            let args = json!({ "execution_id": id, "approved": approved, "data": { "decision": "approve" } });
            let refused = client.call("resume", args).await;
            assert_eq!(code(&refused), "not_allowed", "{era:?}");
            assert!(text(&refused).contains("A person can decide at http://"), "{refused}");
        }
        let open = house.open_questions().await;
        assert!(open.iter().any(|row| row.execution.to_string() == id), "nothing was changed");
    }
    assert_eq!(house.effects(), [""; 0]);
}

#[tokio::test]
async fn where_the_operator_lets_agents_decide_the_record_says_that_one_did() {
    let house = House::with(|options| options.agent_may_decide = true).await;
    let key = house.key(Role::Agent).await;
    let client = house.client_that(&key, Era::July2026, json!({})).await;
    let paused = client.call("lab__destroy", json!({ "what": "x" })).await;
    let done = client.call("resume", json!({ "execution_id": execution(&paused), "approved": true })).await;
    assert_eq!(done["structuredContent"]["status"], "succeeded", "{done}");
    let decision = house.only_question().await.decision.unwrap();
    let Decider::Person { principal, .. } = decision.by else { panic!("{:?}", decision.by) };
    assert_eq!(principal.as_str(), format!("mcp-agent:{}", key.id));
    assert_eq!(decision.channel, "mcp-resume");
    let paused = client.call("lab__destroy", json!({ "what": "y" })).await;
    let denied =
        client.call("resume", json!({ "execution_id": execution(&paused), "approved": false })).await;
    assert_eq!(code(&denied), "denied");
    assert_eq!(house.effects(), ["x"]);
}

/// A28: another's execution is not there, in the same words as one that never was.
#[tokio::test]
async fn the_execution_of_another_is_not_found() {
    let house = House::open().await;
    let (owner, stranger) = (house.key(Role::Agent).await, house.key(Role::Agent).await);
    let owner = house.client_that(&owner, Era::July2026, json!({})).await;
    let paused = owner.call("lab__destroy", json!({ "what": "x" })).await;
    let foreign = execution(&paused);
    let unknown = format!("exec_{}", "0".repeat(32));
    for era in Era::ALL {
        let stranger = house.client_of(&stranger, era).await;
        let mut words = Vec::new();
        for id in [&foreign, &unknown, &"nonsense".to_owned()] {
            for args in [json!({ "execution_id": id }), json!({ "execution_id": id, "approved": true })] {
                let refused = stranger.call("resume", args).await;
                assert_eq!(code(&refused), "not_found");
                words.push(text(&refused).to_owned());
            }
        }
        words.dedup();
        assert_eq!(words.len(), 1, "{words:?}");
    }
    assert_eq!(house.open_questions().await.len(), 1);
}

#[tokio::test]
async fn without_client_elicitation_nobody_is_asked_through_the_client() {
    let house =
        House::with(|options| options.client_elicitation = countersign_server::mcp::ClientElicitation::Never)
            .await;
    for era in Era::ALL {
        let paused = house.client(era).await.call("lab__destroy", json!({ "what": "x" })).await;
        assert_eq!(paused["structuredContent"]["status"], "paused", "{era:?}");
    }
    assert_eq!(house.open_questions().await.len(), 3);
}

/// A service account has no user: a client of one that says it can ask would answer for itself.
#[tokio::test]
async fn nobody_is_asked_through_the_client_of_a_service_account() {
    let house = House::open().await;
    let key = house.key(Role::Service).await;
    for era in Era::ALL {
        let client = house.client_of(&key, era).await;
        let paused = client.call("shop__sweep", json!({})).await;
        assert_eq!(paused["structuredContent"]["status"], "paused", "{era:?}: {paused}");
        let resumed = client.call("resume", json!({ "execution_id": execution(&paused) })).await;
        assert_eq!(resumed["structuredContent"]["status"], "paused", "{era:?}: {resumed}");
    }
    let can = json!({ "elicitation": {}, "extensions": { "io.modelcontextprotocol/tasks": {} } });
    let client = house.client_that(&key, Era::July2026, can).await;
    let task = client.call("shop__sweep", json!({})).await;
    let id = task["taskId"].as_str().unwrap_or_else(|| panic!("a task in {task}")).to_owned();
    let open = house.open_questions().await;
    let question =
        open.iter().find(|row| row.execution.to_string() == id).unwrap().elicitation.id.to_string();
    let said = json!({ "taskId": id, "inputResponses": { question: approve() } });
    client.ask("tasks/update", said).await;
    assert_eq!(client.ask("tasks/get", json!({ "taskId": id })).await["result"]["status"], "working");
    assert_eq!(house.open_questions().await.len(), 4, "all of it waits for a person elsewhere");
}

#[tokio::test]
async fn a_decision_of_a_person_elsewhere_counts_for_an_agent_that_waits() {
    let house = House::open().await;
    let key = house.key(Role::Agent).await;
    let client = house.client_that(&key, Era::July2026, json!({})).await;
    let paused = client.call("lab__destroy", json!({ "what": "x" })).await;
    assert!(text(&paused).contains("call resume to wait for the decision"), "{paused}");
    assert!(text(&paused).contains("/elicitations/eli_"), "{paused}");
    let resuming = client.call("resume", json!({ "execution_id": execution(&paused) }));
    let deciding = async {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        house.ann_says(house.only_question().await.elicitation.id, yes()).await
    };
    let (done, receipt) = tokio::join!(resuming, deciding);
    assert_eq!(receipt.decision.outcome, Outcome::Approved);
    assert_eq!(done["structuredContent"]["value"], json!({ "done": true }));
}
