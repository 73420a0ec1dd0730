//! Waiting over HTTP: woken by a decision, by a new question, by the end; and told how it stands when the time is up.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::house::{House, Who};

/// Long enough to see that nobody came back early, short beside how long they would have waited.
const A_WHILE: Duration = Duration::from_millis(150);
/// Whoever is answered within this did not wait for the 50 s they asked for.
const SOONER: Duration = Duration::from_secs(45);

/// Waits in one task while something happens in another; gives the answer and how long it took from there.
async fn meanwhile(
    house: &House,
    wait: impl Future<Output = Value>,
    happens: impl AsyncFnOnce(&House),
) -> (Value, Duration) {
    let (answer, happened) = tokio::join!(wait, async {
        tokio::time::sleep(A_WHILE).await;
        let now = Instant::now();
        happens(house).await;
        now
    });
    (answer, Instant::now().saturating_duration_since(happened))
}

async fn waits(house: &House, execution: &str, ms: u64) -> Value {
    house.get(Who::Agent, &format!("/api/executions/{execution}?waitMs={ms}")).await.with(200)
}

#[tokio::test]
async fn a_long_poll_is_answered_when_the_execution_ends() {
    let house = House::open().await;
    let waiting = house.wants_to_destroy("a").await;
    let (answer, took) = meanwhile(&house, waits(&house, &waiting.execution, 50_000), async |house| {
        house.resolve(Who::Approver, &waiting.elicitation, true).await.with(200);
    })
    .await;
    assert_eq!(answer["status"], "succeeded");
    assert!(took < SOONER, "{took:?}");
}

#[tokio::test]
async fn a_long_poll_is_answered_when_something_new_is_asked() {
    let house = House::open().await;
    let result = house.call("lab.steps", json!({ "what": "a" })).await.with(200);
    let (execution, first) =
        (result["executionId"].as_str().unwrap(), result["paused"]["elicitationId"].as_str().unwrap());
    let (answer, took) = meanwhile(&house, waits(&house, execution, 50_000), async |house| {
        house.resolve(Who::Approver, first, true).await.with(200);
    })
    .await;
    assert_eq!(answer["status"], "paused");
    assert_eq!(answer["paused"]["message"], "Go on to the second step?");
    assert!(took < SOONER, "{took:?}");
}

#[tokio::test]
async fn a_long_poll_whose_time_is_up_is_answered_with_how_it_stands() {
    let house = House::open().await;
    let waiting = house.wants_to_destroy("a").await;
    let begun = Instant::now();
    let answer = waits(&house, &waiting.execution, 200).await;
    assert!(begun.elapsed() >= Duration::from_millis(200));
    assert_eq!(
        (&answer["status"], &answer["paused"]["elicitationId"]),
        (&json!("paused"), &json!(waiting.elicitation))
    );
}

#[tokio::test]
async fn a_long_poll_on_what_has_ended_does_not_wait() {
    let house = House::open().await;
    let done = house.call("lab.read", json!({ "what": "x" })).await.with(200);
    let begun = Instant::now();
    let answer = waits(&house, done["executionId"].as_str().unwrap(), 50_000).await;
    assert_eq!(answer["status"], "succeeded");
    assert!(begun.elapsed() < SOONER);
}

#[tokio::test]
async fn a_call_with_wait_ms_is_answered_with_the_end_when_a_person_decides_meanwhile() {
    let house = House::open().await;
    let call = async {
        let body = json!({ "tool": "lab.destroy_each", "args": { "what": "a" }, "waitMs": 50_000 });
        house.post(Who::Agent, "/api/executions", body).await.with(200)
    };
    let (answer, took) = meanwhile(&house, call, async |house| {
        let open = house.open_questions().await;
        house.resolve(Who::Approver, &open[0].elicitation.id.to_string(), true).await.with(200);
    })
    .await;
    assert_eq!((&answer["status"], &answer["paused"]), (&json!("succeeded"), &json!(null)));
    assert!(took < SOONER, "{took:?}");
    assert_eq!(house.effects(), ["a"]);
}

#[tokio::test]
async fn a_call_whose_wait_is_over_is_answered_with_the_question_and_goes_on() {
    let house = House::open().await;
    let body = json!({ "tool": "lab.destroy_each", "args": { "what": "a" }, "waitMs": 50 });
    let answer = house.post(Who::Agent, "/api/executions", body).await.with(200);
    assert_eq!(answer["status"], "paused");
    house.resolve(Who::Approver, answer["executionId"].as_str().unwrap(), true).await.with(200);
    assert_eq!(house.end_of(answer["executionId"].as_str().unwrap()).await["status"], "succeeded");
}

#[tokio::test]
async fn a_caller_that_hangs_up_while_it_waits_stops_nothing() {
    let house = House::open().await;
    let body = json!({ "tool": "lab.destroy_each", "args": { "what": "a" }, "waitMs": 50_000, "idempotencyKey": "k" });
    let call =
        house.request(Who::Agent, reqwest::Method::POST, "/api/executions").json(&body).timeout(A_WHILE);
    assert!(call.send().await.is_err());
    let open = house.open_questions().await;
    house.resolve(Who::Approver, &open[0].elicitation.id.to_string(), true).await.with(200);
    let again = house.post(Who::Agent, "/api/executions", body).await.with(200);
    assert_eq!(again["executionId"], open[0].execution.to_string());
    assert_eq!((&again["status"], house.effects()), (&json!("succeeded"), vec!["a".to_owned()]));
}

#[tokio::test]
async fn many_wait_for_one_execution_and_all_are_answered() {
    let house = House::open().await;
    let waiting = house.wants_to_destroy("a").await;
    let all = futures_util::future::join_all((0..50).map(|_| waits(&house, &waiting.execution, 50_000)));
    let decided = async {
        tokio::time::sleep(A_WHILE).await;
        house.resolve(Who::Approver, &waiting.elicitation, true).await.with(200);
    };
    let (answers, ()) = tokio::join!(all, decided);
    assert!(answers.iter().all(|answer| answer["status"] == "succeeded"));
}
