//! The tasks extension: executions as something to poll.

use countersign_sdk::Role;
use serde_json::{Value, json};

use crate::client::{Client, Era, approve};
use crate::house::{House, Key};

fn able() -> Value {
    json!({ "elicitation": {}, "extensions": { "io.modelcontextprotocol/tasks": {} } })
}

async fn client(house: &House, key: &Key) -> Client {
    house.client_that(key, Era::July2026, able()).await
}

async fn task(client: &Client, args: Value) -> String {
    let created = client.call("lab__destroy", args).await;
    assert_eq!(created["resultType"], "task", "{created}");
    created["taskId"].as_str().unwrap().to_owned()
}

async fn until(client: &Client, id: &str, status: &str) -> Value {
    for _ in 0..6_000 {
        let task = client.ask("tasks/get", json!({ "taskId": id })).await["result"].clone();
        if task["status"] == status {
            return task;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("{id} is never {status}");
}

#[tokio::test]
async fn a_call_that_pauses_is_a_task_whose_questions_are_answered_by_update() {
    let house = House::open().await;
    let key = house.key(Role::Agent).await;
    let client = client(&house, &key).await;
    let id = task(&client, json!({ "what": "x" })).await;
    assert!(id.starts_with("exec_"), "the task is the execution");
    let waiting = until(&client, &id, "input_required").await;
    let question = waiting["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    let nonsense = json!({ "taskId": id, "inputResponses": { question.clone(): { "action": "sure" }, "other": approve() } });
    client.ask("tasks/update", nonsense).await;
    until(&client, &id, "input_required").await;
    let said = json!({ "taskId": id, "inputResponses": { question: approve() } });
    let taken = client.ask("tasks/update", said).await;
    assert!(taken["error"].is_null(), "{taken}");
    let done = until(&client, &id, "completed").await;
    assert_eq!(done["result"]["structuredContent"], json!({ "done": true }), "{done}");
    assert_eq!(house.effects(), ["x"]);
}

#[tokio::test]
async fn a_task_outlives_the_process() {
    let house = House::open().await;
    let key = house.key(Role::Agent).await;
    let id = task(&client(&house, &key).await, json!({ "what": "x" })).await;
    let house = house.after().await;
    until(&client(&house, &key).await, &id, "input_required").await;
}

#[tokio::test]
async fn a_task_is_its_requesters_and_can_be_cancelled() {
    let house = House::open().await;
    let (mine, theirs) = (house.key(Role::Agent).await, house.key(Role::Agent).await);
    let (owner, stranger) = (client(&house, &mine).await, client(&house, &theirs).await);
    let id = task(&owner, json!({ "what": "x" })).await;
    for (method, more) in [
        ("tasks/get", json!({})),
        ("tasks/cancel", json!({})),
        ("tasks/update", json!({ "inputResponses": {} })),
    ] {
        let mut params = more;
        params["taskId"] = id.clone().into();
        let refused = stranger.ask(method, params).await;
        assert_eq!(refused["error"]["data"]["code"], "not_found", "{method}: {refused}");
    }
    assert_eq!(house.open_questions().await.len(), 1);
    owner.ask("tasks/cancel", json!({ "taskId": id })).await;
    until(&owner, &id, "cancelled").await;
    assert!(house.open_questions().await.is_empty());
}

#[tokio::test]
async fn what_is_done_at_once_is_no_task_and_who_declares_none_gets_none() {
    let house = House::open().await;
    let key = house.key(Role::Agent).await;
    let read = client(&house, &key).await.call("lab__read", json!({ "what": "x" })).await;
    assert_eq!(read["structuredContent"], json!({ "what": "x" }));
    let plain = house.client_of(&key, Era::July2026).await;
    assert_eq!(plain.call("lab__destroy", json!({ "what": "x" })).await["resultType"], "input_required");
    let refused = plain.ask("tasks/get", json!({ "taskId": "exec_0" })).await;
    assert_eq!(refused["error"]["code"], -32021, "{refused}");
}
