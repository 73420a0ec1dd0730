//! Lists in parts: nothing missed and nothing twice, whatever is added meanwhile.

use std::collections::BTreeSet;

use countersign_kernel::NewToken;
use countersign_sdk::{ExposeSecret as _, Role};
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::house::{House, Who};

/// Asks so many times; gives the questions.
async fn asks(house: &House, count: usize) -> Vec<String> {
    let mut asked = Vec::new();
    for n in 0..count {
        asked.push(house.wants_to_destroy(&n.to_string()).await.elicitation);
    }
    asked
}

/// Walks a list to its end, doing something between its parts; gives the ids in order.
async fn walk(house: &House, list: &str, id: &str, mut between: impl AsyncFnMut(&Value)) -> Vec<String> {
    let (mut found, mut cursor) = (Vec::new(), String::new());
    loop {
        let part: Value = house.get(Who::Approver, &format!("{list}{cursor}")).await.with(200);
        let items = part["items"].as_array().unwrap();
        found.extend(items.iter().map(|item| item[id].to_string()));
        let Some(next) = part["nextCursor"].as_str() else { return found };
        assert!(!items.is_empty(), "a part with a next one is not empty");
        cursor = format!("&cursor={next}");
        between(&part).await;
    }
}

fn each_once(found: &[String]) {
    let once: BTreeSet<&String> = found.iter().collect();
    assert_eq!(once.len(), found.len(), "{found:?}");
}

#[tokio::test]
async fn a_walk_over_what_waits_meets_every_question_once_also_those_asked_meanwhile() {
    let house = House::open().await;
    let mut asked = asks(&house, 7).await;
    let mut later = Vec::new();
    let found = walk(&house, "/api/elicitation?status=pending&limit=3", "elicitationId", async |_| {
        if later.len() < 2 {
            later.extend(asks(&house, 1).await);
        }
    })
    .await;
    each_once(&found);
    asked.extend(later);
    let asked: Vec<String> = asked.iter().map(|id| json!(id).to_string()).collect();
    assert_eq!(found, asked, "oldest first");
}

#[tokio::test]
async fn a_walk_over_what_waits_goes_on_where_it_was_though_questions_are_decided_meanwhile() {
    let house = House::open().await;
    asks(&house, 6).await;
    let found = walk(&house, "/api/elicitation?status=pending&limit=2", "elicitationId", async |part| {
        // The last one of the part just read: the cursor stands on a row that is not in the list any more.
        let last = part["items"].as_array().unwrap().last().unwrap();
        house.resolve(Who::Approver, last["elicitationId"].as_str().unwrap(), false).await.with(200);
    })
    .await;
    each_once(&found);
    assert_eq!(found.len(), 6);
}

#[tokio::test]
async fn a_walk_over_executions_is_newest_first_and_not_disturbed_by_new_ones() {
    let house = House::open().await;
    asks(&house, 7).await;
    let found = walk(&house, "/api/executions?limit=2", "executionId", async |_| {
        asks(&house, 1).await;
    })
    .await;
    each_once(&found);
    assert_eq!(found.len(), 7, "what began after the walk is ahead of it");
}

#[tokio::test]
async fn a_walk_over_the_audit_is_without_gaps() {
    let house = House::open().await;
    asks(&house, 5).await;
    let found = walk(&house, "/api/audit?limit=3", "seq", async |_| {}).await;
    let numbers: Vec<u64> = found.iter().map(|seq| seq.parse().unwrap()).collect();
    assert_eq!(numbers, (1..=house.recorded().await).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_full_last_part_has_no_next_one() {
    let house = House::open().await;
    asks(&house, 4).await;
    for list in ["/api/elicitation?limit=4", "/api/executions?limit=4"] {
        let part = house.get(Who::Approver, list).await.with(200);
        assert_eq!(part["items"].as_array().unwrap().len(), 4);
        let next = walk(&house, list, "executionId", async |_| {}).await;
        assert_eq!(next.len(), 4, "{list}");
    }
}

#[tokio::test]
async fn executions_are_found_by_session_requester_and_status_together() {
    let house = House::open().await;
    let mut expected = Vec::new();
    for (who, session) in
        [(Who::Agent, "ses_a"), (Who::Agent, "ses_b"), (Who::OtherAgent, "ses_c"), (Who::Agent, "ses_a")]
    {
        house.world.clock.jump(1);
        let call = json!({ "tool": "lab.destroy_each", "args": { "what": "x" }, "sessionId": session });
        let begun = house.post(who, "/api/executions", call).await.with(200);
        if session == "ses_a" {
            expected.push(begun["executionId"].to_string());
        }
    }
    expected.reverse();
    let agent = house.key(Who::Agent).caller.principal.id.to_string();
    for filter in [
        "sessionId=ses_a".to_owned(),
        format!("sessionId=ses_a&requester={agent}"),
        format!("sessionId=ses_a&requester={agent}&status=paused,failed"),
    ] {
        let found =
            walk(&house, &format!("/api/executions?limit=1&{filter}"), "executionId", async |_| {}).await;
        assert_eq!(found, expected, "{filter}");
    }
    let by_agent =
        walk(&house, &format!("/api/executions?requester={agent}"), "executionId", async |_| {}).await;
    assert_eq!(by_agent.len(), 3);
    for none in ["sessionId=ses_nobodys", "requester=nobody", "sessionId=ses_a&status=succeeded"] {
        let list = house.get(Who::Approver, &format!("/api/executions?{none}")).await.with(200);
        assert_eq!(list, json!({ "items": [], "nextCursor": null }), "{none}");
    }
    for bad in ["sessionId=", "sessionId=a%20b", "requester="] {
        house.get(Who::Approver, &format!("/api/executions?{bad}")).await.refused(400, "bad_request");
    }
}

#[tokio::test]
async fn whoever_may_not_decide_is_listed_their_own_and_nothing_else() {
    let house = House::open().await;
    let mine = house.wants_to_destroy("mine").await;
    let call = json!({ "tool": "lab.destroy_each", "args": { "what": "theirs" } });
    let theirs = house.post(Who::OtherAgent, "/api/executions", call).await.with(200);
    let theirs = theirs["executionId"].as_str().unwrap();
    for list in ["/api/executions", "/api/elicitation", "/api/elicitation?status=pending"] {
        let own = house.get(Who::Agent, list).await;
        assert!(own.text.contains(&mine.execution) && !own.text.contains(theirs), "{list}: {}", own.text);
        let none = house.get(Who::Service, list).await.with(200);
        assert_eq!(none["items"], json!([]), "{list}");
        let all = house.get(Who::Approver, list).await;
        assert!(all.text.contains(&mine.execution) && all.text.contains(theirs), "{list}: {}", all.text);
    }
    let other = house.key(Who::OtherAgent).caller.principal.id.to_string();
    let session = format!("ses_of_{}", house.key(Who::OtherAgent).caller.token.unwrap());
    for filter in [format!("requester={other}"), format!("sessionId={session}")] {
        let list = format!("/api/executions?{filter}");
        assert_eq!(house.get(Who::Agent, &list).await.with(200)["items"], json!([]), "{filter}");
        let seen = house.get(Who::Approver, &list).await.with(200);
        assert_eq!(seen["items"].as_array().unwrap().len(), 1, "{filter}");
        assert_eq!(seen["items"][0]["executionId"], json!(theirs), "{filter}");
    }
    let theirs_by_id = format!("/api/elicitation?executionId={theirs}");
    assert_eq!(house.get(Who::Agent, &theirs_by_id).await.with(200)["items"], json!([]));
}

#[tokio::test]
async fn a_part_of_large_questions_has_at_most_4_mib_and_a_walk_meets_every_one_once() {
    const EACH: usize = 900_000;
    let house = House::open().await;
    let mut asked = Vec::new();
    for n in 0..10 {
        let args = json!({ "style": "method", "args": { "n": n, "what": "x".repeat(EACH) } });
        asked.push(json!(house.asks("lab.elicit", args).await.elicitation).to_string());
    }
    let list = "/api/elicitation?status=pending&limit=1000";
    let part = house.get(Who::Approver, list).await;
    assert!(part.text.len() < 5 * 1024 * 1024, "{} bytes", part.text.len());
    assert_eq!(part.with(200)["items"].as_array().unwrap().len(), 4);
    let found = walk(&house, list, "elicitationId", async |_| {}).await;
    assert_eq!(found, asked);
}

#[tokio::test]
async fn a_journal_is_read_in_parts_and_a_foreign_cursor_is_refused() {
    let house = House::open().await;
    let waiting = house.wants_to_destroy("a").await;
    house.resolve(Who::Approver, &waiting.elicitation, true).await.with(200);
    house.end_of(&waiting.execution).await;
    let journal = format!("/api/executions/{}/journal", waiting.execution);
    let whole = house.get(Who::Agent, &journal).await.with(200);
    assert_eq!(whole["nextCursor"], json!(null));
    let (mut found, mut cursor) = (Vec::new(), "0".to_owned());
    loop {
        let part = house.get(Who::Agent, &format!("{journal}?limit=2&cursor={cursor}")).await.with(200);
        found.extend(part["items"].as_array().unwrap().iter().cloned());
        let Some(next) = part["nextCursor"].as_str() else { break };
        cursor = next.to_owned();
    }
    assert_eq!(json!(found), whole["items"]);
    for bad in ["cursor=x", "cursor=-1", "cursor="] {
        house.get(Who::Agent, &format!("{journal}?{bad}")).await.refused(400, "bad_cursor");
    }
    house.get(Who::Agent, &format!("{journal}?limit=0")).await.refused(400, "bad_request");
}

#[tokio::test]
async fn what_was_denied_before_is_found_across_sessions_and_clients_of_one_owner_and_of_no_other() {
    let house = House::open().await;
    let ann = house.gateway.create_user("ann", vec![], None).await.unwrap().id;
    let of_ann = house.gateway.create_token(NewToken::new("ann's", Role::Agent).of(ann), None).await.unwrap();
    let anns = of_ann.secret.expose_secret();
    // Whose token, in which session: two clients of the operator, one of them in two sessions, and one of somebody else.
    let (one, other) = (house.secret(Who::Agent).unwrap(), house.secret(Who::OtherAgent).unwrap());
    let mut asked = Vec::new();
    for (secret, session) in [(one, "ses_a"), (one, "ses_b"), (other, "ses_c"), (anns, "ses_d")] {
        house.world.clock.jump(1);
        let call = json!({ "tool": "lab.destroy", "args": { "what": "it" }, "sessionId": session });
        let request = house.http.post(format!("{}/api/executions", house.base)).bearer_auth(secret);
        let paused = Answer::of(request.json(&call).send().await.unwrap()).await.with(200);
        let id = paused["paused"]["elicitationId"].as_str().unwrap().to_owned();
        house.resolve(Who::Approver, &id, false).await.with(200);
        asked.push(id);
    }
    house.world.clock.jump(1);
    house.asks("lab.destroy", json!({ "what": "something else" })).await;
    let again = house.asks("lab.destroy", json!({ "what": "it" })).await.elicitation;

    let denied = async |who: Who, id: &str| -> Vec<String> {
        let list = house.get(who, &format!("/api/elicitation?sameAs={id}")).await.with(200);
        let denied = |item: &&Value| item["decision"]["outcome"] == "denied";
        let items = list["items"].as_array().unwrap().iter().filter(denied);
        items.map(|item| item["elicitationId"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(denied(Who::Approver, &again).await, asked[..3], "of both clients, in every session");
    assert_eq!(denied(Who::Approver, &asked[3]).await, asked[3..], "another owner's are apart");
    assert_eq!(denied(Who::Agent, &again).await, asked[..2], "an agent sees its own only");
}
