//! The list of sessions: for whoever decides, newest first, with what each may do without asking.

use serde_json::{Value, json};

use crate::house::{House, Who};

/// The agent destroys something in a session of its own naming, a millisecond after the one before.
async fn in_session(house: &House, who: Who, session: &str) -> Value {
    house.world.clock.jump(1);
    let call = json!({ "tool": "lab.destroy", "args": { "what": "a" }, "sessionId": session });
    house.post(who, "/api/executions", call).await.with(200)
}

async fn sessions(house: &House) -> Vec<Value> {
    let list = house.get(Who::Approver, "/api/sessions").await.with(200);
    assert_eq!(list["nextCursor"], Value::Null);
    list["items"].as_array().unwrap().clone()
}

#[tokio::test]
async fn sessions_are_listed_newest_first_with_their_owner_and_client() {
    let house = House::open().await;
    in_session(&house, Who::Agent, "ses_old").await;
    in_session(&house, Who::OtherAgent, "ses_new").await;
    let listed = sessions(&house).await;
    let ids: Vec<&str> = listed.iter().map(|session| session["sessionId"].as_str().unwrap()).collect();
    assert_eq!(ids, ["ses_new", "ses_old", "ses_test"], "the last is the world's own");
    let owner = house.key(Who::OtherAgent).caller.principal.id.to_string();
    assert_eq!((&listed[0]["owner"], &listed[0]["client"]), (&json!(owner), &json!("rest")));
    assert!(listed[0]["openedAt"].as_str().unwrap() > listed[1]["openedAt"].as_str().unwrap());
}

#[tokio::test]
async fn a_session_counts_the_approvals_that_still_count() {
    let house = House::open().await;
    in_session(&house, Who::Agent, "ses_a").await;
    let approvals = async |house: &House| sessions(house).await[0]["approvals"].clone();
    assert_eq!(approvals(&house).await, 0);
    for grant in [
        json!({ "toolPath": "lab.destroy", "uses": 1 }),
        json!({ "toolPath": "lab.read" }),
        json!({ "toolPath": "lab.read", "expiresInMs": 1_000 }),
    ] {
        house.post(Who::Approver, "/api/sessions/ses_a/approvals", grant).await.with(201);
    }
    assert_eq!(approvals(&house).await, 3);
    assert_eq!(in_session(&house, Who::Agent, "ses_a").await["status"], "succeeded");
    assert_eq!(approvals(&house).await, 2, "one was used up");
    house.world.clock.jump(1_000);
    assert_eq!(approvals(&house).await, 1, "one expired");
    house.delete(Who::Approver, "/api/sessions/ses_a/approvals").await;
    assert_eq!(approvals(&house).await, 0);
}

#[tokio::test]
async fn a_revoked_givers_approvals_do_not_count() {
    let house = House::open().await;
    in_session(&house, Who::Agent, "ses_a").await;
    let grant = json!({ "toolPath": "lab.destroy" });
    house.post(Who::Approver, "/api/sessions/ses_a/approvals", grant).await.with(201);
    assert_eq!(sessions(&house).await[0]["approvals"], 1);
    let token = house.key(Who::Approver).caller.token.unwrap();
    assert_eq!(house.delete(Who::Admin, &format!("/api/tokens/{token}")).await.status, 204);
    let list = house.get(Who::Admin, "/api/sessions").await.with(200);
    assert_eq!(list["items"][0]["approvals"], 0);
}

#[tokio::test]
async fn a_walk_over_sessions_meets_each_once_and_not_those_opened_meanwhile() {
    let house = House::open().await;
    for n in 0..5 {
        in_session(&house, Who::Agent, &format!("ses_{n}")).await;
    }
    let (mut found, mut cursor) = (Vec::new(), String::new());
    loop {
        let part = house.get(Who::Approver, &format!("/api/sessions?limit=2{cursor}")).await.with(200);
        found.extend(part["items"].as_array().unwrap().iter().map(|s| s["sessionId"].clone()));
        in_session(&house, Who::Agent, &format!("ses_later_{}", found.len())).await;
        let Some(next) = part["nextCursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(found, ["ses_4", "ses_3", "ses_2", "ses_1", "ses_0", "ses_test"]);
    house.get(Who::Approver, "/api/sessions?cursor=x1").await.refused(400, "bad_cursor");
    house.get(Who::Approver, "/api/sessions?limit=0").await.refused(400, "bad_request");
}
