//! A23: a store that fails is an error on every route, never a success.

use countersign_testkit::faulty_store::Fault;
use reqwest::Method;
use serde_json::json;

use crate::answer::Answer;
use crate::house::{House, Who};
use crate::roles::{address, body, is_page, requests};

/// The next commit goes wrong.
fn next(house: &House, fault: Fault) {
    drop(house.faults.clone().and_at(house.faults.commits() + 1, fault));
}

#[tokio::test]
async fn a23_no_route_succeeds_on_a_dead_store() {
    let house = House::open().await;
    let waiting = house.wants_to_destroy("a").await;
    house.faults.crash();
    // What is served out of memory, and says nothing that the store would have to confirm.
    let from_memory = [
        "/assets/{name}",
        "/healthz",
        "/openapi.json",
        "/login",
        "/logout",
        "/api/whoami",
        "/api/tools",
        "/api/tools/{path}",
        "/api/configuration",
        "/api/declarations",
        "/api/login-links",
        "/api/policy/explain",
        // This server has no sources: it lists none, and refuses the rest before any store is asked.
        "/api/sources",
        "/api/sources/{name}",
        "/api/sources/{name}/refresh",
        "/api/sources/{name}/accept",
        "/api/sources/{name}/effects",
    ];
    for (method, path, _) in requests() {
        if from_memory.contains(&path) || path == "/mcp" || path == "/metrics" {
            continue;
        }
        let address = address(path)
            .replace(&format!("exec_{:032x}", 1), &waiting.execution)
            .replace(&format!("eli_{:032x}", 1), &waiting.elicitation);
        let mut request = house.request(Who::Admin, method.clone(), &address);
        if let Some(body) = body(&method, path) {
            request = request.json(&body);
        }
        let answer = Answer::of(request.send().await.unwrap()).await;
        answer.refused_as(is_page(path), 503, "unavailable");
        assert!(!answer.text.contains("crashed"), "the cause is for the log: {}", answer.text);
    }
    assert_eq!(house.effects(), [""; 0]);
}

#[tokio::test]
async fn a23_a_decision_that_was_not_written_is_not_answered_with_200_and_can_be_made_again() {
    let house = House::open().await;
    let waiting = house.wants_to_destroy("a").await;
    next(&house, Fault::Refuse);
    house.resolve(Who::Approver, &waiting.elicitation, true).await.refused(503, "unavailable");
    assert_eq!((house.open_questions().await.len(), house.effects().len()), (1, 0));
    house.resolve(Who::Approver, &waiting.elicitation, true).await.with(200);
    assert_eq!(house.end_of(&waiting.execution).await["status"], "succeeded");
    assert_eq!(house.effects(), ["a"]);
}

#[tokio::test]
async fn a23_a_decision_whose_answer_was_lost_is_the_same_success_when_it_is_sent_again() {
    let house = House::open().await;
    let waiting = house.wants_to_destroy("a").await;
    next(&house, Fault::LoseAnswer);
    house.resolve(Who::Approver, &waiting.elicitation, true).await.refused(503, "unavailable");
    let response = house.resolve(Who::Approver, &waiting.elicitation, true).await.with(200);
    assert_eq!(response["outcome"], "approved");
    assert_eq!(house.end_of(&waiting.execution).await["status"], "succeeded");
    assert_eq!(house.effects(), ["a"], "once");
}

#[tokio::test]
async fn a23_a_question_that_was_not_written_is_not_said_to_wait() {
    let house = House::open().await;
    house.call("lab.read", json!({ "what": "opens the session" })).await.with(200);
    next(&house, Fault::Refuse);
    let answer = house.call("lab.destroy", json!({ "what": "a" })).await;
    answer.refused(503, "unavailable");
    assert!(house.open_questions().await.is_empty());
}

#[tokio::test]
async fn a23_a_token_or_a_revocation_that_was_not_written_is_not_confirmed() {
    let house = House::open().await;
    let before = house.gateway.tokens().await.unwrap().len();
    next(&house, Fault::Refuse);
    house
        .post(Who::Admin, "/api/tokens", json!({ "name": "x", "role": "admin" }))
        .await
        .refused(503, "unavailable");
    assert_eq!(house.gateway.tokens().await.unwrap().len(), before);
    next(&house, Fault::Refuse);
    let path = format!("/api/tokens/{}", house.key(Who::Agent).caller.token.unwrap());
    house.delete(Who::Admin, &path).await.refused(503, "unavailable");
    house.get(Who::Agent, "/api/whoami").await.with(200);
}

#[tokio::test]
async fn a23_what_cannot_be_looked_up_is_a_no() {
    let house = House::open().await;
    house.faults.crash();
    // A token that was never seen before must be looked up, and nobody gets in on a maybe.
    let answer = house.get(Who::OtherAgent, "/api/whoami").await;
    answer.refused(503, "unavailable");
    assert_eq!(house.request(Who::Nobody, Method::GET, "/readyz").send().await.unwrap().status(), 503);
    assert_eq!(house.get(Who::Nobody, "/healthz").await.status, 200, "alive it is");
}
