//! Approving what was seen: once an execution has asked more than once, its id alone approves nothing.

use serde_json::{Value, json};

use crate::answer::Answer;
use crate::house::{House, Waiting, Who};

/// An execution whose first question was approved by its id alone, and the second question, which waits.
async fn asked_twice(house: &House) -> (Waiting, Value) {
    let first = house.asks("lab.steps", json!({ "what": "a" })).await;
    let result = resume(house, &first, json!({ "approved": true })).await.with(200);
    assert_eq!(
        result["status"], "paused",
        "the first question may be approved by its execution's id: {result}"
    );
    let second = result["paused"].clone();
    assert_ne!(second["elicitationId"], first.elicitation.as_str());
    assert_eq!(house.effects(), ["first"]);
    (first, second)
}

async fn resume(house: &House, waiting: &Waiting, answer: Value) -> Answer {
    house.post(Who::Approver, &format!("/api/executions/{}/resume", waiting.execution), answer).await
}

/// The second question waits still, and nothing more took effect.
async fn nothing_was_decided(house: &House, second: &Value) {
    let open = house.open_questions().await;
    let open: Vec<String> = open.iter().map(|row| row.elicitation.id.to_string()).collect();
    assert_eq!(json!(open), json!([second["elicitationId"]]));
    assert_eq!(house.effects(), ["first"]);
}

#[tokio::test]
async fn a_second_question_is_not_approved_by_the_executions_id_alone() {
    let house = House::open().await;
    let (execution, second) = asked_twice(&house).await;
    let problem = resume(&house, &execution, json!({ "approved": true })).await;
    let problem = problem.refused(409, "not_what_was_shown");
    let pending = problem["pending"].as_array().unwrap();
    assert_eq!(pending.len(), 1, "{problem}");
    assert_eq!(pending[0]["elicitationId"], second["elicitationId"], "it says what to look at: {problem}");
    assert_eq!(pending[0]["digest"], second["digest"], "{problem}");
    nothing_was_decided(&house, &second).await;
}

#[tokio::test]
async fn the_digest_or_the_id_of_the_question_that_was_shown_approves_it() {
    for name in ["digest", "elicitationId"] {
        let house = House::open().await;
        let (execution, second) = asked_twice(&house).await;
        let answer = json!({ "approved": true, name: second[name] });
        let result = resume(&house, &execution, answer).await.with(200);
        assert_eq!(result["status"], "succeeded", "{name}: {result}");
        assert_eq!(house.effects(), ["first", "second"], "{name}");
    }
}

#[tokio::test]
async fn a_wrong_digest_decides_nothing() {
    let house = House::open().await;
    let (execution, second) = asked_twice(&house).await;
    let wrong = "0".repeat(64);
    for answer in [
        json!({ "approved": true, "digest": wrong }),
        json!({ "approved": true, "digest": wrong, "elicitationId": second["elicitationId"] }),
    ] {
        resume(&house, &execution, answer).await.refused(409, "not_what_was_shown");
        nothing_was_decided(&house, &second).await;
    }
}

#[tokio::test]
async fn an_approval_that_is_sent_again_does_not_approve_the_next_question() {
    let house = House::open().await;
    let (execution, second) = asked_twice(&house).await;
    let path = format!("/api/elicitation/{}", execution.elicitation);
    let first = house.get(Who::Approver, &path).await.with(200);
    let again = json!({ "approved": true, "digest": first["digest"] });
    resume(&house, &execution, again).await.with(200);
    nothing_was_decided(&house, &second).await;
}

#[tokio::test]
async fn a_question_of_another_execution_is_not_decided_in_its_name() {
    let house = House::open().await;
    let (execution, second) = asked_twice(&house).await;
    let other = house.wants_to_destroy("b").await;
    let answer = json!({ "approved": true, "elicitationId": other.elicitation });
    resume(&house, &execution, answer).await.refused(404, "not_found");
    resume(&house, &other, json!({ "approved": false })).await.with(200);
    nothing_was_decided(&house, &second).await;
}

#[tokio::test]
async fn a_denial_needs_no_digest() {
    let house = House::open().await;
    let (execution, _) = asked_twice(&house).await;
    let result = resume(&house, &execution, json!({ "approved": false })).await.with(200);
    assert_eq!(
        (&result["status"], &result["value"]["done"]),
        (&json!("succeeded"), &json!(false)),
        "{result}"
    );
    assert_eq!(house.effects(), ["first"]);
}
