//! The REST table of CONTRACT.md, row by row, with the shapes that clients were promised.

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::answer::redacted;
use crate::house::{House, Who, until};

#[tokio::test]
async fn a_call_that_only_reads_is_answered_with_its_value() {
    let house = House::open().await;
    let answer = house.call("lab.read", json!({ "what": "x" })).await;
    assert!(answer.header("x-request-id").starts_with("req_"));
    assert_snapshot!(redacted(&answer.with(200)));
}

#[tokio::test]
async fn a_call_that_asks_is_answered_with_the_question() {
    let house = House::open().await;
    let result = house.call("lab.destroy", json!({ "what": "note 7" })).await.with(200);
    assert_snapshot!(redacted(&result));
    assert_eq!(result["paused"], result["pending"][0]);
    let (id, url) =
        (result["paused"]["elicitationId"].as_str().unwrap(), result["paused"]["url"].as_str().unwrap());
    assert_eq!(url, format!("{}/elicitations/{id}", house.base));
}

#[tokio::test]
async fn the_link_of_a_question_leads_to_its_page_and_tells_strangers_nothing() {
    let house = House::open().await;
    let waiting = house.wants_to_destroy("note 7").await;
    let link = format!("/elicitations/{}", waiting.elicitation);
    let page = house.get(Who::Approver, &link).await;
    assert!(page.status == 200 && page.text.contains("note 7"), "{}", page.text);
    for path in [link, format!("/elicitations/eli_{:032x}", 1)] {
        let page = house.get(Who::Nobody, &path).await;
        page.turned_away(401, "unauthenticated");
        assert!(page.text.contains("countersign login"), "{}", page.text);
        assert!(!page.text.contains("note 7") && !page.text.contains("lab."), "{}", page.text);
    }
}

#[tokio::test]
async fn a_form_is_shown_with_its_schema_and_filled_over_rest() {
    let house = House::open().await;
    let result = house.call("lab.form", json!({})).await.with(200);
    assert_snapshot!(redacted(&result["paused"]));
    let id = result["paused"]["elicitationId"].as_str().unwrap();
    let filled = json!({ "approved": true, "data": { "warehouse_id": "north" } });
    let response =
        house.post(Who::Approver, &format!("/api/elicitation/{id}/resolve"), filled).await.with(200);
    assert_eq!(response["data"], json!({ "warehouse_id": "north" }));
    let end = house.end_of(result["executionId"].as_str().unwrap()).await;
    assert_eq!(end["value"], json!({ "warehouseId": "north", "units": 7 }));
}

#[tokio::test]
async fn a_decision_is_answered_with_the_elicitation_response_and_the_call_runs_once() {
    let house = House::open().await;
    let waiting = house.wants_to_destroy("note 7").await;
    let body =
        json!({ "executionId": waiting.execution, "approved": true, "remember": "call", "comment": "seen" });
    let path = format!("/api/elicitation/{}/resolve", waiting.elicitation);
    let response = house.post(Who::Approver, &path, body.clone()).await.with(200);
    assert_eq!(
        response,
        json!({ "executionId": waiting.execution, "elicitationId": waiting.elicitation, "approved": true, "outcome": "approved" })
    );
    let end = house.end_of(&waiting.execution).await;
    assert_snapshot!(redacted(&end));
    assert_eq!(
        house.post(Who::Approver, &path, body).await.with(200),
        response,
        "the same again is the same"
    );
    assert_eq!(house.effects(), ["note 7"]);
}

#[tokio::test]
async fn a_denied_call_fails_with_the_persons_reason_and_never_runs() {
    let house = House::open().await;
    let waiting = house.wants_to_destroy("note 7").await;
    let body = json!({ "approved": false, "comment": "not on a Friday" });
    let path = format!("/api/elicitation/{}/resolve", waiting.elicitation);
    let response = house.post(Who::Approver, &path, body).await.with(200);
    assert_eq!((&response["approved"], &response["outcome"]), (&json!(false), &json!("denied")));
    assert_snapshot!(redacted(&house.end_of(&waiting.execution).await));
    assert_eq!(house.effects(), [""; 0]);
}

#[tokio::test]
async fn the_execution_is_taken_for_its_only_question() {
    let house = House::open().await;
    let waiting = house.wants_to_destroy("a").await;
    let one = house.get(Who::Agent, &format!("/api/elicitation/{}", waiting.execution)).await.with(200);
    assert_eq!(one["elicitationId"], waiting.elicitation);
    let response = house.resolve(Who::Approver, &waiting.execution, true).await.with(200);
    assert_eq!(response["elicitationId"], waiting.elicitation);
}

#[tokio::test]
async fn resume_decides_and_answers_with_what_came_of_it() {
    let house = House::open().await;
    let waiting = house.wants_to_destroy("a").await;
    let path = format!("/api/executions/{}/resume", waiting.execution);
    let result = house.post(Who::Approver, &path, json!({ "approved": true })).await.with(200);
    assert_eq!((&result["status"], &result["success"]), (&json!("succeeded"), &json!(true)));
    assert_eq!(house.effects(), ["a"]);
}

#[tokio::test]
async fn a_resume_that_names_its_question_and_is_sent_twice_decides_nothing_else() {
    let house = House::open().await;
    let waiting = house.asks("lab.steps", json!({ "what": "a" })).await;
    let path = format!("/api/executions/{}/resume", waiting.execution);
    let body = json!({ "approved": true, "elicitationId": waiting.elicitation });
    for _ in 0..2 {
        let result = house.post(Who::Approver, &path, body.clone()).await.with(200);
        assert_eq!(result["paused"]["message"], "Go on to the second step?");
    }
    assert_eq!(house.effects(), ["first"]);
    let other = house.wants_to_destroy("b").await;
    let mixed = json!({ "approved": true, "elicitationId": other.elicitation });
    house.post(Who::Approver, &path, mixed).await.refused(404, "not_found");
    assert_eq!(house.open_questions().await.len(), 2);
}

#[tokio::test]
async fn one_execution_its_list_and_its_timeline_are_there_to_read() {
    let house = House::open().await;
    let waiting = house.wants_to_destroy("a").await;
    house.resolve(Who::Approver, &waiting.execution, true).await.with(200);
    house.end_of(&waiting.execution).await;
    let list = house.get(Who::Agent, "/api/executions?status=succeeded").await.with(200);
    assert_snapshot!("list_of_executions", redacted(&list));
    let journal =
        house.get(Who::Agent, &format!("/api/executions/{}/journal", waiting.execution)).await.with(200);
    let names: Vec<&String> = journal["items"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|event| event["event"].as_object().unwrap().keys())
        .collect();
    assert_snapshot!("names_of_a_journal", format!("{names:?}"));
}

#[tokio::test]
async fn what_waits_is_listed_with_whose_it_is_and_what_it_is_bound_to() {
    let house = House::open().await;
    let waiting = house.wants_to_destroy("a").await;
    let list = house.get(Who::Approver, "/api/elicitation?status=pending").await.with(200);
    assert_snapshot!("list_of_elicitations", redacted(&list));
    house.resolve(Who::Approver, &waiting.elicitation, false).await.with(200);
    let empty = house.get(Who::Approver, "/api/elicitation?status=pending").await.with(200);
    assert_eq!(empty, json!({ "items": [], "nextCursor": null }));
    let one = house.get(Who::Approver, &format!("/api/elicitation/{}", waiting.elicitation)).await.with(200);
    assert_snapshot!("a_decided_elicitation", redacted(&one));
}

#[tokio::test]
async fn elicitations_are_found_by_execution_and_by_what_they_are_about() {
    let house = House::open().await;
    let (first, second) = (house.wants_to_destroy("a").await, house.wants_to_destroy("a").await);
    let other = house.wants_to_destroy("b").await;
    let by = async |query: &str| -> Vec<String> {
        let list = house.get(Who::Approver, &format!("/api/elicitation?{query}")).await.with(200);
        let items = list["items"].as_array().unwrap().iter();
        items.map(|item| item["elicitationId"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(
        by(&format!("executionId={}", other.execution)).await,
        std::slice::from_ref(&other.elicitation)
    );
    let same = by(&format!("sameAs={}", first.elicitation)).await;
    assert_eq!(same, [first.elicitation, second.elicitation]);
}

#[tokio::test]
async fn a_waiting_execution_is_stopped_by_its_caller_and_asks_nobody_any_more() {
    let house = House::open().await;
    let waiting = house.wants_to_destroy("a").await;
    let path = format!("/api/executions/{}/cancel", waiting.execution);
    let result = house.post(Who::Agent, &path, json!(null)).await.with(200);
    assert_eq!((&result["status"], &result["success"]), (&json!("cancelled"), &json!(false)));
    assert!(house.open_questions().await.is_empty());
    house.post(Who::Agent, &path, json!(null)).await.refused(409, "already_ended");
    house.resolve(Who::Approver, &waiting.elicitation, true).await.refused(409, "already_decided");
    assert_eq!(house.effects(), [""; 0]);
}

/// The paths of the tools in a list.
fn paths(list: &Value) -> Vec<String> {
    let tools = list["items"].as_array().unwrap();
    tools.iter().map(|tool| tool["path"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn tools_are_listed_searched_and_read() {
    let house = House::open().await;
    let all = paths(&house.get(Who::Agent, "/api/tools").await.with(200));
    assert!(all.is_sorted() && all.contains(&"lab.destroy".to_owned()), "{all:?}");
    let found = paths(&house.get(Who::Agent, "/api/tools?query=warehouse").await.with(200));
    assert_eq!(found[0], "lab.form");
    let few = paths(&house.get(Who::Agent, "/api/tools?limit=2").await.with(200));
    assert_eq!(few, all[..2]);
    assert_snapshot!("one_tool", redacted(&house.get(Who::Agent, "/api/tools/lab.destroy").await.with(200)));
    let text = house.get(Who::Agent, "/api/declarations?path=lab.read,lab.destroy").await;
    assert!(
        text.status == 200 && text.text.contains("destroy") && !text.text.contains("warehouse"),
        "{}",
        text.text
    );
}

#[tokio::test]
async fn policy_is_explained_without_anything_running() {
    let house = House::open().await;
    let body = json!({ "tool": "lab.destroy", "args": { "what": "x" } });
    let explained = house.post(Who::Agent, "/api/policy/explain", body).await.with(200);
    assert_eq!((&explained["effect"], &explained["violations"]), (&json!("ask"), &json!([])));
    let unfit =
        house.post(Who::Agent, "/api/policy/explain", json!({ "tool": "lab.destroy" })).await.with(200);
    assert_eq!(unfit["violations"].as_array().unwrap().len(), 1, "{unfit}");
    assert!(house.open_questions().await.is_empty());
}

#[tokio::test]
async fn whoever_decides_may_ask_what_policy_says_and_nothing_is_recorded_of_it() {
    let house = House::open().await;
    let before = house.recorded().await;
    for who in [Who::Approver, Who::Admin, Who::Agent, Who::Service] {
        let body = json!({ "tool": "lab.destroy", "args": { "what": "a" } });
        let explained = house.post(who, "/api/policy/explain", body).await.with(200);
        assert_eq!(explained["effect"], "ask", "{who:?}");
    }
    assert_eq!(house.recorded().await, before, "no session was opened for it");
}

#[tokio::test]
async fn the_catalog_is_read_in_parts_by_path() {
    let house = House::open().await;
    let all = house.get(Who::Approver, "/api/tools").await.with(200);
    assert_eq!(all["nextCursor"], Value::Null);
    let whole = paths(&all);
    for limit in [1, 3, whole.len() - 1] {
        let (mut found, mut cursor) = (Vec::new(), String::new());
        loop {
            let part = house.get(Who::Approver, &format!("/api/tools?limit={limit}{cursor}")).await.with(200);
            found.extend(paths(&part));
            let Some(next) = part["nextCursor"].as_str() else { break };
            cursor = format!("&cursor={next}");
        }
        assert_eq!(found, whole, "{limit}");
    }
    let exact = house.get(Who::Approver, &format!("/api/tools?limit={}", whole.len())).await.with(200);
    assert_eq!(exact["nextCursor"], Value::Null, "a full last part has no next one");
    let gone = house.get(Who::Approver, "/api/tools?cursor=lab.a_tool_that_is_gone").await.with(200);
    let later: Vec<String> =
        whole.iter().filter(|path| path.as_str() > "lab.a_tool_that_is_gone").cloned().collect();
    assert_eq!(paths(&gone), later, "a cursor stands also where its tool is gone");

    house.get(Who::Approver, "/api/tools?cursor=Lab").await.refused(400, "bad_cursor");
    house.get(Who::Approver, "/api/tools?query=lab&cursor=lab.read").await.refused(400, "bad_cursor");
    for limit in ["0", "1001"] {
        house.get(Who::Approver, &format!("/api/tools?limit={limit}")).await.refused(400, "bad_request");
    }
}

#[tokio::test]
async fn approvals_of_a_session_are_given_listed_used_up_and_forgotten() {
    let house = House::open().await;
    let call = json!({ "tool": "lab.destroy", "args": { "what": "a" }, "sessionId": "ses_mine" });
    assert_eq!(house.post(Who::Agent, "/api/executions", call.clone()).await.with(200)["status"], "paused");
    let approvals = "/api/sessions/ses_mine/approvals";
    let given =
        house.post(Who::Approver, approvals, json!({ "toolPath": "lab.destroy", "uses": 1 })).await.with(201);
    assert_snapshot!("a_grant", redacted(&given));
    let list = house.get(Who::Agent, approvals).await.with(200);
    assert_eq!(list["items"][0], given);
    assert_eq!(
        house.post(Who::Agent, "/api/executions", call.clone()).await.with(200)["status"],
        "succeeded"
    );
    assert_eq!(house.post(Who::Agent, "/api/executions", call.clone()).await.with(200)["status"], "paused");
    house.get(Who::OtherAgent, approvals).await.refused(404, "session_not_found");

    let again = house.post(Who::Approver, approvals, json!({ "toolPath": "lab.**" })).await.with(201);
    let one = format!("{approvals}/{}", again["grantId"].as_str().unwrap());
    assert_eq!(house.delete(Who::Approver, &one).await.status, 204);
    house.delete(Who::Approver, &one).await.refused(404, "not_found");
    house.post(Who::Approver, approvals, json!({ "toolPath": "lab.destroy" })).await.with(201);
    assert_eq!(house.delete(Who::Approver, approvals).await.status, 204);
    assert_eq!(house.get(Who::Agent, approvals).await.with(200)["items"], json!([]));
    assert_eq!(house.post(Who::Agent, "/api/executions", call).await.with(200)["status"], "paused");
}

#[tokio::test]
async fn the_audit_is_read_in_order_and_its_chain_holds() {
    let house = House::open().await;
    let waiting = house.wants_to_destroy("a").await;
    house.resolve(Who::Approver, &waiting.elicitation, true).await.with(200);
    house.end_of(&waiting.execution).await;
    let audit = house.get(Who::Approver, "/api/audit?limit=1000").await.with(200);
    let items = audit["items"].as_array().unwrap();
    for (before, after) in items.iter().zip(&items[1..]) {
        assert_eq!(before["hash"], after["prev"], "{after}");
        assert_eq!(before["seq"].as_u64().unwrap() + 1, after["seq"].as_u64().unwrap());
    }
    let decided =
        items.iter().filter(|record| record["entry"].as_str().unwrap().contains("\"Decided\"")).count();
    assert_eq!(decided, 1);
}

#[tokio::test]
async fn a_doubt_is_settled_over_rest() {
    let house = House::open().await;
    let waiting = house.asks("lab.slow", json!({ "ms": 60_000 })).await;
    house.resolve(Who::Approver, &waiting.elicitation, true).await.with(200);
    until("the handler runs", async || {
        house.get(Who::Agent, &format!("/api/executions/{}", waiting.execution)).await.with(200)["status"]
            == "running"
    })
    .await;
    // The process dies: whoever comes after it finds a call that started and has no outcome.
    house.faults.crash();
    let house = house.after_a_crash().await;
    let path = format!("/api/executions/{}", waiting.execution);
    assert_eq!(house.get(Who::Agent, &path).await.with(200)["status"], "in_doubt");
    let settle = format!("{path}/settle");
    let misfit = json!({ "call": 0, "as": "done", "value": { "done": "perhaps" } });
    house.post(Who::Approver, &settle, misfit).await.refused(422, "invalid_output");
    house.post(Who::Approver, &settle, json!({ "call": 7, "as": "failed" })).await.refused(404, "not_found");
    let done = json!({ "call": 0, "as": "done", "value": { "done": true } });
    let result = house.post(Who::Approver, &settle, done.clone()).await.with(200);
    assert_eq!((&result["status"], &result["value"]), (&json!("succeeded"), &json!({ "done": true })));
    house.post(Who::Approver, &settle, done).await.refused(409, "not_in_doubt");
    assert_eq!(house.effects(), [""; 0], "nothing was run on suspicion");
}

#[tokio::test]
async fn tokens_are_made_listed_without_their_secret_and_revoked() {
    let house = House::open().await;
    let made =
        house.post(Who::Admin, "/api/tokens", json!({ "name": "ci", "role": "agent" })).await.with(201);
    let (id, secret) = (made["tokenId"].as_str().unwrap(), made["secret"].as_str().unwrap());
    let list = house.get(Who::Admin, "/api/tokens").await;
    assert!(list.text.contains(id) && !list.text.contains(secret));
    let whoami = || house.http.get(format!("{}/api/whoami", house.base)).bearer_auth(secret).send();
    let me: Value = whoami().await.unwrap().json().await.unwrap();
    assert_eq!(
        (&me["principal"], &me["kind"], &me["roles"], &me["userName"]),
        (&json!(id), &json!("agent"), &json!(["agent"]), &json!("admin")),
        "an agent acts for the user who made its token"
    );
    assert_eq!(house.delete(Who::Admin, &format!("/api/tokens/{id}")).await.status, 204);
    assert_eq!(whoami().await.unwrap().status(), 401);
    house.delete(Who::Admin, &format!("/api/tokens/tok_{:032x}", 3)).await.refused(404, "not_found");
}

#[tokio::test]
async fn a_tokens_use_is_noted_to_the_minute() {
    let house = House::open().await;
    let made =
        house.post(Who::Admin, "/api/tokens", json!({ "name": "ci", "role": "agent" })).await.with(201);
    let (id, secret) = (made["tokenId"].as_str().unwrap(), made["secret"].as_str().unwrap());
    let last_used = async || {
        let list = house.get(Who::Admin, "/api/tokens").await.with(200);
        list["items"].as_array().unwrap().iter().find(|token| token["tokenId"] == id).unwrap()["lastUsedAt"]
            .clone()
    };
    let uses = async || {
        let request = house.http.get(format!("{}/api/whoami", house.base)).bearer_auth(secret);
        assert_eq!(request.send().await.unwrap().status(), 200);
    };
    assert_eq!(last_used().await, Value::Null, "it was never used");
    // The world's clock goes on by itself, so that no moment is known to the millisecond.
    uses().await;
    let first = last_used().await;
    assert!(first.is_string(), "{first}");
    uses().await;
    assert_eq!(last_used().await, first, "a use within the minute is not written again");
    house.world.clock.jump(60_000);
    uses().await;
    let second = last_used().await;
    assert!(second.as_str() > first.as_str(), "{first} {second}");
}

#[tokio::test]
async fn alive_and_ready_are_said_to_everybody() {
    let house = House::open().await;
    assert_eq!(house.get(Who::Nobody, "/healthz").await.text, "ok\n");
    assert_eq!(house.get(Who::Nobody, "/readyz").await.text, "ready\n");
}
