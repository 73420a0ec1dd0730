//! A yes is a yes to what was shown, and covers what was said before it was given.

use countersign_kernel::Settings;
use countersign_testkit::world::World;
use serde_json::{Value, json};

use crate::house::{House, Who};

async fn digest_of(house: &House, elicitation: &str) -> Value {
    house.get(Who::Approver, &format!("/api/elicitation/{elicitation}")).await.with(200)["digest"].clone()
}

#[tokio::test]
async fn an_execution_that_has_asked_again_is_not_approved_by_its_id_alone() {
    let house = House::open().await;
    let first = house.asks("lab.steps", json!({ "what": "a" })).await;
    let shown = digest_of(&house, &first.elicitation).await;
    let path = format!("/api/executions/{}/resume", first.execution);
    let paused = house.post(Who::Approver, &path, json!({ "approved": true })).await.with(200);
    let second = paused["paused"]["elicitationId"].as_str().unwrap();
    assert_ne!(second, first.elicitation);

    let refused = house.resolve(Who::Approver, &first.execution, true).await;
    let told = refused.refused(409, "not_what_was_shown");
    assert_eq!(told["pending"][0]["elicitationId"], json!(second), "it is shown what waits: {told}");
    house.post(Who::Approver, &path, json!({ "approved": true })).await.refused(409, "not_what_was_shown");
    let resolve = format!("/api/elicitation/{}/resolve", first.execution);
    house.post(Who::Approver, &resolve, json!({ "approved": true, "digest": shown })).await.with(200);
    assert_eq!(house.open_questions().await.len(), 1, "the digest of the first names the first");
    assert_eq!(house.effects(), ["first"]);

    let seen = digest_of(&house, second).await;
    house.post(Who::Approver, &resolve, json!({ "approved": true, "digest": seen })).await.with(200);
    assert_eq!(house.end_of(&first.execution).await["status"], "succeeded");
    assert_eq!(house.effects(), ["first", "second"]);
}

#[tokio::test]
async fn a_digest_that_is_not_the_questions_decides_nothing() {
    let house = House::open().await;
    let (small, large) = (house.wants_to_destroy("small").await, house.wants_to_destroy("large").await);
    let shown = digest_of(&house, &small.elicitation).await;
    for id in [&large.elicitation, &large.execution] {
        let body = json!({ "approved": true, "digest": shown });
        let answer = house.post(Who::Approver, &format!("/api/elicitation/{id}/resolve"), body).await;
        answer.refused(409, "not_what_was_shown");
    }
    assert_eq!((house.effects().len(), house.open_questions().await.len()), (0, 2));
}

#[tokio::test]
async fn a_yes_without_a_word_covers_one_call_and_leaves_nothing_remembered() {
    let world = World::new(1).set(|settings| settings.remember = Settings::default().remember);
    let house = House::of(world, |_| {}).await;
    // This tool says nothing of what a yes covers.
    let waiting = house.asks("lab.put", json!({ "what": "a" })).await;
    house.resolve(Who::Approver, &waiting.elicitation, true).await.with(200);
    house.end_of(&waiting.execution).await;
    house.asks("lab.put", json!({ "what": "a" })).await;
    assert_eq!(house.effects(), ["a"]);
}

#[tokio::test]
async fn a_yes_without_a_word_covers_what_the_question_says_and_one_with_a_word_what_that_says() {
    let house = House::open().await;
    for (word, then) in [(json!({ "remember": "call" }), "paused"), (json!({}), "succeeded")] {
        let waiting = house.asks("lab.destroy", json!({ "what": "a" })).await;
        let path = format!("/api/elicitation/{}", waiting.elicitation);
        // The tool says it, and so does the question before anybody answers it.
        assert_eq!(house.get(Who::Approver, &path).await.with(200)["remember"], "session");
        let mut body = json!({ "approved": true });
        body.as_object_mut().unwrap().extend(word.as_object().unwrap().clone());
        house.post(Who::Approver, &format!("{path}/resolve"), body).await.with(200);
        house.end_of(&waiting.execution).await;
        assert_eq!(
            house.call("lab.destroy", json!({ "what": "b" })).await.with(200)["status"],
            then,
            "{word}"
        );
        if then == "paused" {
            let open = house.open_questions().await;
            house.resolve(Who::Approver, &open[0].elicitation.id.to_string(), false).await.with(200);
        }
    }
}

#[tokio::test]
async fn a_yes_for_the_session_can_be_narrowed_to_its_arguments_and_to_a_number_of_calls() {
    let house = House::open().await;
    let approve = async |narrowed: Value| {
        let waiting = house.asks("lab.destroy", json!({ "what": "a" })).await;
        let mut body = json!({ "approved": true, "remember": "session" });
        body.as_object_mut().unwrap().extend(narrowed.as_object().unwrap().clone());
        let path = format!("/api/elicitation/{}/resolve", waiting.elicitation);
        house.post(Who::Approver, &path, body).await.with(200);
        house.end_of(&waiting.execution).await;
    };
    let call = async |what: &str| house.call("lab.destroy", json!({ "what": what })).await.with(200);
    approve(json!({ "rememberArgs": "same", "rememberUses": 1 })).await;
    assert_eq!(call("b").await["status"], "paused", "other arguments ask");
    assert_eq!(call("a").await["status"], "succeeded", "the same arguments once more");
    assert_eq!(call("a").await["status"], "paused", "and then no more");
    assert_eq!(house.effects(), ["a", "a"]);
}

#[tokio::test]
async fn an_agent_cannot_run_on_what_was_approved_for_its_operators_session() {
    let house = House::open().await;
    let body = json!({ "tool": "lab.destroy", "args": { "what": "a" } });
    let paused = house.post(Who::Admin, "/api/executions", body.clone()).await.with(200);
    let elicitation = paused["paused"]["elicitationId"].as_str().unwrap();
    let for_session = json!({ "approved": true, "remember": "session" });
    let path = format!("/api/elicitation/{elicitation}/resolve");
    house.post(Who::Admin, &path, for_session).await.with(200);
    house.post(Who::Admin, "/api/executions", body.clone()).await.with(200);
    let asked = house.get(Who::Admin, &format!("/api/elicitation/{elicitation}")).await.with(200);

    let mut named = body;
    named["sessionId"] = asked["sessionId"].clone();
    house.post(Who::Agent, "/api/executions", named).await.refused(404, "session_not_found");
    house.asks("lab.destroy", json!({ "what": "a" })).await;
    assert_eq!(house.open_questions().await.len(), 1, "the agent is asked about in its own session");
}
