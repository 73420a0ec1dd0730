//! Every way a request can be wrong has a status, a code that stays, and a word on what to do.

use countersign_testkit::world::World;
use reqwest::Method;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::house::{House, Who};

async fn execute(house: &House, body: Value) -> Answer {
    house.post(Who::Agent, "/api/executions", body).await
}

/// A body as it stands, under any content type.
async fn sends(house: &House, kind: &str, body: impl Into<reqwest::Body>) -> Answer {
    let request = house.request(Who::Agent, Method::POST, "/api/executions").header("content-type", kind);
    Answer::of(request.body(body).send().await.unwrap()).await
}

#[tokio::test]
async fn an_unknown_tool_is_named_with_what_was_perhaps_meant() {
    let house = House::open().await;
    let problem = house.call("lab.destory", json!({})).await.refused(404, "tool_not_found");
    assert_eq!(problem["near"][0], "lab.destroy");
    let problem = house.get(Who::Agent, "/api/tools/lab.destory").await.refused(404, "tool_not_found");
    assert_eq!(problem["near"][0], "lab.destroy");
    house.get(Who::Agent, "/api/declarations?path=lab.read,no.such").await.refused(404, "tool_not_found");
}

#[tokio::test]
async fn a_namespace_is_not_a_tool_and_what_is_in_it_is_listed() {
    let house = House::open().await;
    for problem in [
        house.call("github.issues", json!({})).await.refused(404, "tool_not_found"),
        house.get(Who::Agent, "/api/tools/github.issues").await.refused(404, "tool_not_found"),
    ] {
        assert!(problem["detail"].as_str().unwrap().contains("is a namespace, not a tool"), "{problem}");
        assert_eq!(problem["inside"].as_array().unwrap().len(), 2, "{problem}");
    }
}

#[tokio::test]
async fn arguments_that_do_not_fit_are_refused_with_every_violation() {
    let house = House::open().await;
    let problem =
        house.call("lab.destroy", json!({ "what": 7, "more": true })).await.refused(422, "invalid_input");
    assert!(!problem["violations"].as_array().unwrap().is_empty(), "{problem}");
    assert!(house.open_questions().await.is_empty());
}

#[tokio::test]
async fn a_body_that_is_no_json_or_not_the_promised_json_is_refused() {
    let house = House::open().await;
    for body in [
        "",
        "{",
        "nonsense",
        "[]",
        "null",
        "7",
        "{\"tool\":7}",
        "{\"tool\":\"lab.read\",\"tool\":\"lab.read\"}",
    ] {
        sends(&house, "application/json", body).await.refused(400, "bad_request");
    }
    let problem =
        execute(&house, json!({ "tool": "lab.read", "approved": true })).await.refused(400, "bad_request");
    assert!(problem["detail"].as_str().unwrap().contains("approved"), "{problem}");
    for (path, body) in [
        ("resolve", json!({ "approved": "true" })),
        ("resolve", json!({})),
        ("resolve", json!({ "approved": true, "by": "ann" })),
    ] {
        let path = format!("/api/elicitation/eli_{:032x}/{path}", 1);
        house.post(Who::Approver, &path, body).await.refused(400, "bad_request");
    }
}

#[tokio::test]
async fn it_is_either_code_or_a_tool() {
    let house = House::open().await;
    for body in [
        json!({}),
        json!({ "args": {} }),
        json!({ "code": "1", "tool": "lab.read" }),
        json!({ "code": "1", "args": {} }),
    ] {
        execute(&house, body).await.refused(400, "bad_request");
    }
    execute(&house, json!({ "code": "return 1" })).await.refused(501, "scripts_not_available");
}

#[tokio::test]
async fn only_json_is_read() {
    let house = House::open().await;
    let body = r#"{"tool":"lab.read","args":{"what":"x"}}"#;
    for kind in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "text/json",
        "",
        "application/jsonp",
        "text/plain; application/json",
    ] {
        sends(&house, kind, body).await.refused(403, "not_json");
    }
    for kind in ["application/json", "Application/JSON; charset=utf-8"] {
        sends(&house, kind, body).await.with(200);
    }
}

#[tokio::test]
async fn a_body_is_taken_up_to_its_bound_and_not_a_byte_more() {
    const BOUND: usize = 1_000;
    let house = House::with(|options| options.limits.body_bytes = BOUND).await;
    let body = |length: usize| {
        let frame = r#"{"tool":"lab.read","args":{"what":""}}"#;
        frame.replace("\"\"", &format!("\"{}\"", "x".repeat(length - frame.len())))
    };
    sends(&house, "application/json", body(BOUND)).await.with(200);
    sends(&house, "application/json", body(BOUND + 1)).await.refused(413, "body_too_large");
    let chunks = futures_util::stream::iter([Ok::<_, std::io::Error>(body(BOUND + 1))]);
    let streamed = reqwest::Body::wrap_stream(chunks);
    sends(&house, "application/json", streamed).await.refused(413, "body_too_large");
}

#[tokio::test]
async fn arguments_are_taken_up_to_their_bounds_and_no_further() {
    let house = House::open().await;
    let text = |length: usize| json!({ "style": "method", "args": { "t": "x".repeat(length) } });
    house.call("lab.elicit", text(1_000_000)).await.with(200);
    house.call("lab.elicit", text(1024 * 1024)).await.refused(422, "value_too_large");
    let deep = |levels: usize| {
        let nested = (0..levels).fold(json!(1), |inner, _| json!([inner]));
        json!({ "style": "method", "args": { "a": nested } })
    };
    // Two levels are the objects around it.
    house.call("lab.elicit", deep(62)).await.with(200);
    house.call("lab.elicit", deep(63)).await.refused(422, "value_too_deep");
    house.call("lab.elicit", deep(1_000)).await.refused(400, "bad_request");
    house.call("lab.read", json!({ "what": "x\0y" })).await.refused(422, "invalid_input");
}

#[tokio::test]
async fn unknown_ids_of_every_kind_are_not_found() {
    let house = House::open().await;
    let hex = format!("{:032x}", 1);
    for id in [
        format!("exec_{hex}"),
        format!("eli_{hex}"),
        "exec_".into(),
        "nonsense".into(),
        "%00".into(),
        "%ff".into(),
        "..%2f..".into(),
    ] {
        for path in [
            format!("/api/executions/{id}"),
            format!("/api/executions/{id}/journal"),
            format!("/api/elicitation/{id}"),
        ] {
            house.get(Who::Approver, &path).await.refused(404, "not_found");
        }
        for action in ["executions/ID/resume", "elicitation/ID/resolve"] {
            let path = format!("/api/{}", action.replace("ID", &id));
            house.post(Who::Approver, &path, json!({ "approved": true })).await.refused(404, "not_found");
        }
        let path = format!("/api/executions/{id}/cancel");
        house.post(Who::Agent, &path, json!(null)).await.refused(404, "not_found");
        let path = format!("/api/executions/{id}/settle");
        house
            .post(Who::Approver, &path, json!({ "call": 0, "as": "failed" }))
            .await
            .refused(404, "not_found");
        house.delete(Who::Admin, &format!("/api/tokens/{id}")).await.refused(404, "not_found");
        assert_eq!(house.get(Who::Approver, &format!("/api/sessions/{id}/approvals")).await.status, 404);
    }
}

#[tokio::test]
async fn what_was_decided_otherwise_is_a_conflict_that_shows_the_decision() {
    let house = House::open().await;
    let waiting = house.wants_to_destroy("a").await;
    house.resolve(Who::Approver, &waiting.elicitation, false).await.with(200);
    for (who, approved) in [(Who::OtherApprover, true), (Who::Approver, true), (Who::Admin, true)] {
        let problem =
            house.resolve(who, &waiting.elicitation, approved).await.refused(409, "already_decided");
        assert_eq!(problem["decision"]["outcome"], "denied", "{problem}");
        assert_eq!(problem["decision"]["by"], house.key(Who::Approver).caller.principal.id.as_str());
        assert_eq!(problem["decision"]["byName"], "approver");
        assert_eq!(problem["decision"]["channel"], "rest");
    }
    assert_eq!(house.effects(), [""; 0]);
}

#[tokio::test]
async fn of_several_questions_one_must_be_named() {
    let house = House::open().await;
    let result = house.call("lab.two", json!({})).await.with(200);
    let execution = result["executionId"].as_str().unwrap().to_owned();
    crate::house::until("both are asked", async || house.open_questions().await.len() == 2).await;
    let problem = house.resolve(Who::Approver, &execution, true).await.refused(409, "several_pending");
    let open = problem["pending"].as_array().unwrap().clone();
    assert_eq!(open.len(), 2);
    let resume = format!("/api/executions/{execution}/resume");
    house.post(Who::Approver, &resume, json!({ "approved": true })).await.refused(409, "several_pending");
    house.get(Who::Agent, &format!("/api/elicitation/{execution}")).await.refused(409, "several_pending");
    for id in open {
        house.resolve(Who::Approver, id.as_str().unwrap(), true).await.with(200);
    }
    assert_eq!(house.end_of(&execution).await["value"], json!({ "done": true }));
}

#[tokio::test]
async fn what_has_expired_is_gone_and_never_runs() {
    let house = House::open().await;
    let waiting = house.wants_to_destroy("a").await;
    house.world.clock.jump(25 * 60 * 60 * 1000);
    house.resolve(Who::Approver, &waiting.elicitation, true).await.refused(410, "expired");
    assert_eq!(house.effects(), [""; 0]);
}

#[tokio::test]
async fn answers_that_do_not_fit_the_form_leave_it_open() {
    let house = House::open().await;
    let waiting = house.asks("lab.form", json!({})).await;
    let path = format!("/api/elicitation/{}/resolve", waiting.elicitation);
    for data in [json!({}), json!({ "warehouse_id": 7 }), json!("north"), json!(null)] {
        let body = json!({ "approved": true, "data": data });
        let problem = house.post(Who::Approver, &path, body).await.refused(422, "invalid_data");
        assert!(!problem["violations"].as_array().unwrap().is_empty(), "{problem}");
    }
    assert_eq!(house.open_questions().await.len(), 1);
}

#[tokio::test]
async fn a_decision_must_mean_what_the_question_allows() {
    let house = House::open().await;
    let (one, other) = (house.wants_to_destroy("a").await, house.wants_to_destroy("b").await);
    let path = format!("/api/elicitation/{}/resolve", one.elicitation);
    let mixed = json!({ "executionId": other.execution, "approved": true });
    house.post(Who::Approver, &path, mixed).await.refused(404, "not_found");
    let remember = json!({ "approved": true, "remember": "session" });
    house.post(Who::Approver, &path, remember).await.refused(422, "remember_not_allowed");
    let forever = json!({ "approved": true, "remember": "forever" });
    house.post(Who::Approver, &path, forever).await.refused(422, "bad_request");
    let novel = json!({ "approved": true, "comment": "x".repeat(20_000) });
    house.post(Who::Approver, &path, novel).await.refused(422, "value_too_large");
    assert_eq!((house.open_questions().await.len(), house.effects().len()), (2, 0));
}

#[tokio::test]
async fn the_same_key_is_the_same_execution_and_never_another_call() {
    let house = House::open().await;
    let call =
        |what: &str| json!({ "tool": "lab.destroy_each", "args": { "what": what }, "idempotencyKey": "k1" });
    let first = execute(&house, call("a")).await.with(200);
    let again = execute(&house, call("a")).await.with(200);
    assert_eq!(first["executionId"], again["executionId"]);
    let problem = execute(&house, call("b")).await.refused(409, "idempotency_mismatch");
    assert_eq!(problem["executionId"], first["executionId"]);
    let theirs = house.post(Who::OtherAgent, "/api/executions", call("b")).await.with(200);
    assert_ne!(theirs["executionId"], first["executionId"], "a key is its caller's own");
    assert_eq!(house.open_questions().await.len(), 2);
}

#[tokio::test]
async fn cursors_limits_and_waits_are_held_to_their_bounds() {
    let house =
        House::of(World::new(1), |options| options.limits.wait = std::time::Duration::from_secs(2)).await;
    let waiting = house.wants_to_destroy("a").await;
    for list in ["/api/executions", "/api/elicitation", "/api/audit"] {
        for (limit, status) in
            [("0", 400), ("1", 200), ("1000", 200), ("1001", 400), ("-1", 400), ("x", 400), ("", 400)]
        {
            let answer = house.get(Who::Approver, &format!("{list}?limit={limit}")).await;
            assert_eq!(answer.status, status, "{list} {limit}: {}", answer.text);
            if status == 400 {
                answer.refused(400, "bad_request");
            }
        }
        house.get(Who::Approver, &format!("{list}?cursor=nonsense")).await.refused(400, "bad_cursor");
    }
    for status in ["nonsense", "waiting", ""] {
        house.get(Who::Agent, &format!("/api/executions?status={status}")).await.refused(400, "bad_request");
    }
    house.get(Who::Agent, "/api/executions?status=paused,running,in_doubt").await.with(200);
    house.get(Who::Agent, "/api/elicitation?status=decided").await.refused(400, "bad_request");
    house.get(Who::Agent, "/api/elicitation?executionId=x").await.refused(400, "bad_request");
    let one = format!("/api/executions/{}", waiting.execution);
    house.get(Who::Agent, &format!("{one}?waitMs=2001")).await.refused(400, "wait_too_long");
    house.get(Who::Agent, &format!("{one}?waitMs=-1")).await.refused(400, "bad_request");
    house.get(Who::Agent, &format!("{one}?waitMs=0")).await.with(200);
    house.get(Who::Agent, &format!("{one}?waitMs=2000")).await.with(200);
    execute(&house, json!({ "tool": "lab.form", "waitMs": 2_001 })).await.refused(400, "wait_too_long");
    let events = house.request(Who::Agent, Method::GET, "/api/events").header("last-event-id", "x");
    Answer::of(events.send().await.unwrap()).await.refused(400, "bad_event_id");
}

#[tokio::test]
async fn sessions_tokens_and_grants_are_held_to_their_forms() {
    let house = House::open().await;
    for session in ["", "a b", &"x".repeat(201)] {
        let body = json!({ "tool": "lab.read", "args": { "what": "x" }, "sessionId": session });
        execute(&house, body).await.refused(422, "bad_session");
    }
    let body = json!({ "tool": "lab.read", "args": { "what": "x" }, "sessionId": "ses_mine" });
    execute(&house, body.clone()).await.with(200);
    house.post(Who::OtherAgent, "/api/executions", body).await.refused(404, "session_not_found");
    house
        .post(Who::Admin, "/api/tokens", json!({ "name": "x", "role": "king" }))
        .await
        .refused(422, "bad_role");
    house
        .post(Who::Admin, "/api/tokens", json!({ "name": "", "role": "agent" }))
        .await
        .refused(422, "bad_name");
    let approvals = "/api/sessions/ses_mine/approvals";
    house.post(Who::Approver, approvals, json!({ "toolPath": "Lab" })).await.refused(422, "bad_pattern");
    let never = json!({ "toolPath": "lab.destroy", "uses": 0 });
    house.post(Who::Approver, approvals, never).await.refused(422, "bad_request");
    assert_eq!(house.post(Who::Approver, approvals, json!({ "toolPath": "no.such.tool" })).await.status, 404);
    house.post(Who::Approver, approvals, json!({ "toolPath": "lab.destroy_each" })).await.with(201);
    let each = json!({ "tool": "lab.destroy_each", "args": { "what": "x" }, "sessionId": "ses_mine" });
    assert_eq!(
        execute(&house, each).await.with(200)["status"],
        "paused",
        "what asks each time asks each time"
    );
}

#[tokio::test]
async fn a_service_calls_only_what_allows_service_accounts() {
    let house = House::open().await;
    let call = |tool: &str| json!({ "tool": tool, "args": {} });
    house.post(Who::Service, "/api/executions", call("lab.form")).await.refused(403, "not_allowed");
    house.post(Who::Service, "/api/executions", call("github.logs.export")).await.with(200);
}
