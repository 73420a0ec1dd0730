//! The known failures of other systems, A1 to A28 of `reference/safety.md`, as far as REST can commit them. A18 is in
//! `reading.rs`, A19 in `places.rs`, A23 in `storage.rs`, A26 in `secrets.rs`.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::house::{House, Waiting, Who, until};
use crate::stream::Stream;

/// Nothing was decided, granted or run.
async fn nothing_happened(house: &House, waiting: &Waiting) {
    let one = house.get(Who::Approver, &format!("/api/elicitation/{}", waiting.elicitation)).await.with(200);
    assert_eq!((&one["status"], house.effects().len()), (&json!("pending"), 0));
    let session = one["sessionId"].as_str().unwrap();
    let grants = house.get(Who::Approver, &format!("/api/sessions/{session}/approvals")).await.with(200);
    assert_eq!(grants["items"], json!([]));
}

#[tokio::test]
async fn a2_a_mebibyte_of_arguments_is_given_whole_to_whoever_decides() {
    let house = House::open().await;
    let what = format!("{}rm -rf /", "x".repeat(1_000_000));
    let waiting = house.asks("lab.elicit", json!({ "style": "method", "args": { "what": what } })).await;
    let one = house.get(Who::Approver, &format!("/api/elicitation/{}", waiting.elicitation)).await.with(200);
    assert_eq!(one["args"], json!({ "what": what }));
    let list = house.get(Who::Approver, "/api/elicitation?status=pending").await.with(200);
    assert_eq!(list["items"][0]["args"], json!({ "what": what }));
    let too_much = "x".repeat(1024 * 1024);
    house.call("lab.destroy_each", json!({ "what": too_much })).await.refused(422, "value_too_large");
    // What a tool cannot put into words is denied, not shown in part.
    let end = house.call("lab.destroy_each", json!({ "what": what })).await.with(200);
    assert_eq!((&end["status"], &end["error"]["code"]), (&json!("failed"), &json!("denied")));
    assert_eq!((house.open_questions().await.len(), house.effects().len()), (1, 0));
}

#[tokio::test]
async fn a3_the_handler_gets_exactly_what_was_shown_over_http() {
    let house = House::open().await;
    for what in [
        " x",
        "x ",
        "x\n",
        "\u{feff}x",
        "x\u{200b}",
        "e\u{301}",
        "\u{e9}",
        "\u{202e}gpj.exe",
        "\\u0078",
        "</script>",
        "1e2",
        "",
    ] {
        let waiting = house.wants_to_destroy(what).await;
        let one =
            house.get(Who::Approver, &format!("/api/elicitation/{}", waiting.elicitation)).await.with(200);
        assert_eq!(one["args"], json!({ "what": what }));
        house.resolve(Who::Approver, &waiting.elicitation, true).await.with(200);
        house.end_of(&waiting.execution).await;
        assert_eq!(house.effects().pop().unwrap(), what);
    }
}

#[tokio::test]
async fn a3_of_two_fields_with_one_name_the_one_that_runs_is_the_one_that_is_shown() {
    let house = House::open().await;
    let body = r#"{"tool":"lab.destroy_each","args":{"what":"harmless","what":"everything"}}"#;
    let (status, text) = house.raw_as(Who::Agent, "POST /api/executions", "", body).await;
    assert_eq!(status, 200, "{text}");
    let [only] = &house.open_questions().await[..] else { panic!("one question") };
    let shown = only.elicitation.args.to_value()["what"].as_str().unwrap().to_owned();
    assert!(only.elicitation.message.contains(&shown));
    house.resolve(Who::Approver, &only.elicitation.id.to_string(), true).await.with(200);
    house.end_of(&only.execution.to_string()).await;
    assert_eq!(house.effects(), [shown]);
}

#[tokio::test]
async fn a5_markup_in_arguments_and_addresses_comes_back_as_data_and_never_as_a_page() {
    let house = House::open().await;
    for what in [
        "<!channel>",
        "[Approve](https://evil.example)",
        "<img src=x onerror=alert(1)>",
        "\"><script>alert(1)</script>",
    ] {
        let waiting = house.wants_to_destroy(what).await;
        let answer = house.get(Who::Approver, &format!("/api/elicitation/{}", waiting.elicitation)).await;
        assert_eq!(answer.header("content-type"), "application/json");
        assert_eq!(answer.with(200)["args"]["what"], what);
    }
    for path in ["/elicitations/%3Cscript%3E", "/tools?query=%3Cscript%3E", "/audit?what=%3Cscript%3E"] {
        let page = house.get(Who::Approver, path).await;
        assert!(!page.text.contains("<script>"), "{}", page.text);
        assert!(page.header("content-security-policy").contains("default-src 'none'"));
    }
    for path in [
        "/api/tools/%3Cscript%3E",
        "/%3Cscript%3E",
        "/api/executions?status=%3Cscript%3E",
        "/api/elicitation?cursor=%3Cscript%3E",
    ] {
        let answer = house.get(Who::Agent, path).await;
        assert!(answer.status >= 400, "{path}");
        assert_eq!(answer.header("content-type"), "application/problem+json", "{path}");
    }
}

#[tokio::test]
async fn a8_no_word_of_the_caller_makes_a_tool_harmless() {
    let house = House::open().await;
    for extra in ["readOnlyHint", "destructive", "effects", "annotations", "remember", "policy", "_meta"] {
        let call = json!({ "tool": "lab.destroy", "args": { "what": "x" }, extra: { "readOnlyHint": true } });
        house.post(Who::Agent, "/api/executions", call).await.refused(400, "bad_request");
        let inside = json!({ "what": "x", extra: { "readOnlyHint": true } });
        house.call("lab.destroy", inside).await.refused(422, "invalid_input");
    }
    let waiting = house.asks("lab.destroy", json!({ "what": "readOnlyHint: true" })).await;
    nothing_happened(&house, &waiting).await;
}

#[tokio::test]
async fn a9_a_remembered_approval_covers_its_tool_its_session_and_its_time_and_nothing_else() {
    let house = House::open().await;
    let call = async |tool: &str, session: &str| -> Value {
        let body = json!({ "tool": tool, "args": { "what": "x" }, "sessionId": session });
        house.post(Who::Agent, "/api/executions", body).await.with(200)["status"].clone()
    };
    assert_eq!(call("lab.destroy", "ses_a").await, "paused");
    let grant = json!({ "toolPath": "lab.destroy", "expiresInMs": 60_000, "uses": 2 });
    house.post(Who::Approver, "/api/sessions/ses_a/approvals", grant).await.with(201);
    assert_eq!(call("lab.destroy", "ses_a").await, "succeeded");
    assert_eq!(call("lab.destroy", "ses_b").await, "paused", "another session");
    assert_eq!(call("lab.put", "ses_a").await, "paused", "another tool");
    house.world.clock.jump(60_001);
    assert_eq!(call("lab.destroy", "ses_a").await, "paused", "after its time");
}

#[tokio::test]
async fn a10_an_approval_that_the_caller_brings_along_counts_for_nothing() {
    let house = House::open().await;
    let earlier = house.wants_to_destroy("a").await;
    for extra in [
        "approved",
        "approval",
        "elicitationId",
        "grant",
        "principal",
        "roles",
        "requestState",
        "inputResponses",
        "history",
        "pending",
    ] {
        let forged = json!({ "approved": true, "elicitationId": earlier.elicitation, "roles": ["admin"] });
        let beside = json!({ "tool": "lab.destroy", "args": { "what": "x" }, extra: forged });
        house.post(Who::Agent, "/api/executions", beside).await.refused(400, "bad_request");
        house.call("lab.destroy", json!({ "what": "x", extra: forged })).await.refused(422, "invalid_input");
    }
    for header in [
        "x-approved: true",
        "x-role: admin",
        "x-forwarded-user: admin",
        "x-csrf-token: x",
        "x-original-url: /api/tokens",
        "forwarded: by=admin",
    ] {
        let body = r#"{"tool":"lab.destroy_each","args":{"what":"x"}}"#;
        let (status, text) =
            house.raw_as(Who::Agent, "POST /api/executions", &format!("{header}\r\n"), body).await;
        assert!(status == 200 && text.contains("\"status\":\"paused\""), "{header}: {text}");
    }
    let keyed =
        json!({ "tool": "lab.destroy_each", "args": { "what": "a" }, "idempotencyKey": earlier.elicitation });
    assert_eq!(house.post(Who::Agent, "/api/executions", keyed).await.with(200)["status"], "paused");
    nothing_happened(&house, &earlier).await;
}

#[tokio::test]
async fn a11_an_agent_cannot_approve_itself_on_any_route() {
    let house = House::open().await;
    let waiting = house.wants_to_destroy("a").await;
    let tokens = house.gateway.tokens().await.unwrap();
    let (yes, grant) = (r#"{"approved":true}"#, r#"{"toolPath":"lab.**"}"#);
    let session = format!("/api/sessions/ses_of_{}/approvals", house.key(Who::Agent).caller.token.unwrap());
    let (execution, elicitation) = (&waiting.execution, &waiting.elicitation);
    for (path, body) in [
        (format!("/api/elicitation/{elicitation}/resolve"), yes),
        (format!("/api/elicitation/{execution}/resolve"), yes),
        (format!("/api/executions/{execution}/resume"), yes),
        (format!("/api/executions/{execution}/settle"), r#"{"call":0,"as":"done","value":{"done":true}}"#),
        (session, grant),
        ("/api/tokens".to_owned(), r#"{"name":"x","role":"admin"}"#),
        ("/api/login-links".to_owned(), ""),
    ] {
        for who in [Who::Agent, Who::OtherAgent, Who::Service] {
            for line in ways_to_write(&path) {
                for headers in [
                    "",
                    "x-http-method-override: POST\r\nx-method-override: POST\r\n",
                    "x-original-url: /api/whoami\r\nx-rewrite-url: /api/whoami\r\n",
                ] {
                    let (status, text) = house.raw_as(who, &line, headers, body).await;
                    let reads = line.starts_with("GET") || line.starts_with("HEAD");
                    assert!(
                        (400..500).contains(&status) || (reads && status == 200),
                        "{who:?} {line}: {text}"
                    );
                }
            }
            let (status, text) = house.raw_as(who, &format!("POST {path}"), "", body).await;
            assert!(status == 403 && text.contains("not_allowed"), "{who:?} POST {path}: {text}");
        }
    }
    nothing_happened(&house, &waiting).await;
    assert_eq!(house.gateway.tokens().await.unwrap(), tokens);
}

/// One address in every spelling that some router somewhere takes for the same.
fn ways_to_write(path: &str) -> Vec<String> {
    let (head, last) = path.rsplit_once('/').unwrap();
    let encoded: String = last.bytes().map(|b| format!("%{b:02x}")).collect();
    let mut ways: Vec<String> =
        ["POST", "PUT", "PATCH", "GET", "HEAD", "DELETE", "post", "OPTIONS", "PROPFIND"]
            .iter()
            .map(|method| format!("{method} {path}"))
            .collect();
    for spelling in [
        format!("{path}/"),
        format!("{path}//"),
        format!("/{path}"),
        format!("{head}//{last}"),
        format!("{head}/./{last}"),
        format!("{head}/x/../{last}"),
        format!("/api/tools/..{}", &path[4..]),
        format!("{head}/{encoded}"),
        format!("{head}%2f{last}"),
        format!("{head}/{}", last.to_uppercase()),
        path.to_uppercase(),
        format!("{path};x=y"),
        format!("{path}?_method=GET"),
        format!("{path}#x"),
        format!("{path}%00"),
        format!("{path}.json"),
        format!("http://127.0.0.1{path}"),
    ] {
        ways.push(format!("POST {spelling}"));
    }
    ways
}

#[tokio::test]
async fn a12_who_has_no_role_gets_in_nowhere() {
    let house = House::open().await;
    // A person whose token has lost every role is known, and may do nothing at all.
    let id = countersign_core::ids::TokenId::from_random([9; 16]);
    let principal = countersign_sdk::Principal {
        roles: Vec::new(),
        ..countersign_sdk::Principal::approver("nobody").unwrap()
    };
    let row = countersign_kernel::ports::TokenRow {
        id,
        hash: countersign_core::digest::Digest::of(b"cs_norole"),
        name: "no role".to_owned(),
        principal,
        attended: false,
        created_at: house.gateway.now(),
        expires_at: None,
        last_used_at: None,
        revoked_at: None,
    };
    let write = countersign_kernel::ports::Write {
        tokens: vec![countersign_kernel::ports::TokenWrite::Create(row)],
        ..countersign_kernel::ports::Write::default()
    };
    countersign_kernel::ports::Store::commit(&house.world.disk, write).await.unwrap();
    for (method, path, let_in) in crate::roles::requests() {
        if let_in.contains(&Who::Nobody) {
            continue;
        }
        let mut request =
            house.request(Who::Nobody, method.clone(), &crate::roles::address(path)).bearer_auth("cs_norole");
        if let Some(body) = crate::roles::body(&method, path) {
            request = request.json(&body);
        }
        let answer = crate::answer::Answer::of(request.send().await.unwrap()).await;
        answer.refused_as(crate::roles::is_page(path), 403, "not_allowed");
    }
}

#[tokio::test]
async fn a13_a_new_token_under_an_old_name_is_somebody_else() {
    let house = House::open().await;
    let waiting = house.wants_to_destroy("a").await;
    let old = house.key(Who::Agent).caller.token.unwrap();
    assert_eq!(house.delete(Who::Admin, &format!("/api/tokens/{old}")).await.status, 204);
    let made =
        house.post(Who::Admin, "/api/tokens", json!({ "name": "agent", "role": "agent" })).await.with(201);
    let secret = made["secret"].as_str().unwrap();
    for path in [
        format!("/api/executions/{}", waiting.execution),
        format!("/api/elicitation/{}", waiting.elicitation),
        format!("/api/sessions/ses_of_{old}/approvals"),
    ] {
        let answer =
            house.http.get(format!("{}{path}", house.base)).bearer_auth(secret).send().await.unwrap();
        assert_eq!(answer.status(), 404, "{path}");
    }
    let list: Value = house
        .http
        .get(format!("{}/api/executions", house.base))
        .bearer_auth(secret)
        .send()
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    assert_eq!(list["items"], json!([]));
}

#[tokio::test]
async fn a14_what_nobody_decides_expires_and_never_runs() {
    let house = House::open().await;
    let waiting = house.wants_to_destroy("a").await;
    house.world.clock.jump(24 * 60 * 60 * 1000);
    house.resolve(Who::Approver, &waiting.elicitation, true).await.refused(410, "expired");
    let end = house.end_of(&waiting.execution).await;
    assert_eq!(end["success"], false, "{end}");
    let one = house.get(Who::Approver, &format!("/api/elicitation/{}", waiting.elicitation)).await.with(200);
    assert_eq!((&one["status"], &one["decision"]["by"]), (&json!("expired"), &json!("clock")));
    house.world.clock.jump(-24 * 60 * 60 * 1000);
    assert!(
        house.resolve(Who::Approver, &waiting.elicitation, true).await.status >= 409,
        "turning the clock back revives nothing"
    );
    assert_eq!(house.effects(), [""; 0]);
}

#[tokio::test]
async fn a15_a_denied_call_asked_for_again_is_a_fresh_question_and_the_denial_is_found() {
    let house = House::open().await;
    let first = house.wants_to_destroy("a").await;
    house.resolve(Who::Approver, &first.elicitation, false).await.with(200);
    let again = house.wants_to_destroy("a").await;
    assert_ne!(first.elicitation, again.elicitation);
    let earlier = format!("/api/elicitation?sameAs={}", again.elicitation);
    let earlier = house.get(Who::Approver, &earlier).await.with(200);
    assert_eq!(earlier["items"][0]["decision"]["outcome"], "denied");
    assert_eq!(house.effects(), [""; 0]);
}

#[tokio::test]
async fn a16_no_route_changes_policy_or_configuration() {
    let house = House::open().await;
    for path in [
        "/api/policy",
        "/api/policy/",
        "/api/rules",
        "/api/config",
        "/api/settings",
        "/api/tools/lab.destroy",
        "/api/whoami",
    ] {
        for method in ["POST", "PUT", "PATCH", "DELETE"] {
            let (status, text) =
                house.raw_as(Who::Admin, &format!("{method} {path}"), "", r#"{"effect":"allow"}"#).await;
            assert!(matches!(status, 404 | 405), "{method} {path}: {text}");
        }
    }
    let changing: BTreeSet<&str> = countersign_server::routes()
        .into_iter()
        .filter(|(method, _)| !matches!(*method, "GET" | "*"))
        .map(|(_, path)| path)
        .collect();
    assert!(
        changing.iter().all(|path| !path.contains("policy") || path.ends_with("/explain")),
        "{changing:?}"
    );
    let before = house.recorded().await;
    house
        .post(Who::Agent, "/api/policy/explain", json!({ "tool": "lab.destroy", "sessionId": "ses_mine" }))
        .await
        .with(200);
    assert_eq!(house.recorded().await, before);
    let waiting = house.wants_to_destroy("a").await;
    nothing_happened(&house, &waiting).await;
}

#[tokio::test]
async fn a17_what_is_past_a_bound_is_refused_and_never_let_through() {
    let house = House::open().await;
    let deep = (0..100).fold(json!(1), |inner, _| json!([inner]));
    for (args, code) in [
        (json!({ "what": "x".repeat(1024 * 1024) }), "value_too_large"),
        (json!({ "what": "x", "more": deep }), "value_too_deep"),
        (json!({ "what": "x\0" }), "invalid_input"),
        (json!({ "what": "x", "n": 9_007_199_254_740_993_u64 }), "invalid_input"),
    ] {
        house.call("lab.destroy", args).await.refused(422, code);
    }
    assert!(house.open_questions().await.is_empty() && house.effects().is_empty());
}

#[tokio::test]
async fn a20_a_revoked_token_is_refused_at_once_on_every_route() {
    let house = House::open().await;
    let waiting = house.wants_to_destroy("a").await;
    // It was used just now, so that whoever remembers credentials remembers this one.
    house.get(Who::Approver, "/api/whoami").await.with(200);
    let id = house.key(Who::Approver).caller.token.unwrap();
    assert_eq!(house.delete(Who::Admin, &format!("/api/tokens/{id}")).await.status, 204);
    for (method, path, let_in) in crate::roles::requests() {
        if let_in.contains(&Who::Nobody) {
            continue;
        }
        let mut request = house.request(Who::Approver, method.clone(), &crate::roles::address(path));
        if let Some(body) = crate::roles::body(&method, path) {
            request = request.json(&body);
        }
        let answer = crate::answer::Answer::of(request.send().await.unwrap()).await;
        // Wrong credentials are slowed down as well; either way nobody gets in.
        assert!(matches!(answer.status, 401 | 429), "{method} {path}: {}", answer.text);
    }
    nothing_happened_but(&house, &waiting, Who::Admin).await;
}

async fn nothing_happened_but(house: &House, waiting: &Waiting, who: Who) {
    let one = house.get(who, &format!("/api/elicitation/{}", waiting.elicitation)).await.with(200);
    assert_eq!((&one["status"], house.effects().len()), (&json!("pending"), 0));
}

#[tokio::test]
async fn a20_a_decision_sent_again_counts_once_and_for_another_question_never() {
    let house = House::open().await;
    let (one, other) = (house.wants_to_destroy("a").await, house.wants_to_destroy("b").await);
    let body = json!({ "executionId": one.execution, "approved": true });
    let path = format!("/api/elicitation/{}/resolve", one.elicitation);
    let first = house.post(Who::Approver, &path, body.clone()).await.with(200);
    for _ in 0..5 {
        assert_eq!(house.post(Who::Approver, &path, body.clone()).await.with(200), first);
    }
    let elsewhere = format!("/api/elicitation/{}/resolve", other.elicitation);
    house.post(Who::Approver, &elsewhere, body).await.refused(404, "not_found");
    house.end_of(&one.execution).await;
    assert_eq!(house.effects(), ["a"]);
}

#[tokio::test]
async fn a20_the_event_stream_of_a_token_ends_when_it_is_revoked() {
    let house = House::open().await;
    let mut stream = Stream::open(&house, Who::Approver, None).await;
    let id = house.key(Who::Approver).caller.token.unwrap();
    assert_eq!(house.delete(Who::Admin, &format!("/api/tokens/{id}")).await.status, 204);
    house.wants_to_destroy("secret").await;
    assert_eq!(stream.next().await, None, "somebody who was shown the door is told nothing more");
}

#[tokio::test]
async fn a21_what_waits_survives_a_crash_and_a_restart_and_its_old_id_still_decides() {
    let house = House::open().await;
    let waiting = house.wants_to_destroy("a").await;
    let house = house.after_a_crash().await;
    let house = house.after().await;
    let list = house.get(Who::Agent, "/api/elicitation?status=pending").await.with(200);
    assert_eq!(list["items"][0]["elicitationId"], waiting.elicitation);
    house.resolve(Who::Approver, &waiting.elicitation, true).await.with(200);
    assert_eq!(house.end_of(&waiting.execution).await["status"], "succeeded");
    assert_eq!(house.effects(), ["a"]);
}

#[tokio::test]
async fn a22_of_many_deciders_at_once_one_wins_the_others_are_shown_who_and_it_runs_once() {
    let house = House::open().await;
    for round in 0..5 {
        let waiting = house.wants_to_destroy(&round.to_string()).await;
        let says = |n: usize| {
            let who = [Who::Approver, Who::OtherApprover, Who::Admin][n % 3];
            let (house, id) = (&house, &waiting.elicitation);
            async move { (who, n.is_multiple_of(2), house.resolve(who, id, n.is_multiple_of(2)).await) }
        };
        let answers = futures_util::future::join_all((0..64).map(says)).await;
        let won: BTreeSet<String> =
            answers.iter().filter(|(_, _, a)| a.status == 200).map(|(_, _, a)| a.text.clone()).collect();
        assert_eq!(won.len(), 1, "one decision: {won:?}");
        let won: Value = serde_json::from_str(won.first().unwrap()).unwrap();
        for (who, approved, answer) in answers {
            if answer.status == 200 {
                assert_eq!(won["approved"], approved, "{who:?} was told that the opposite was done");
                continue;
            }
            let problem = answer.refused(409, "already_decided");
            assert_eq!(problem["decision"]["outcome"], won["outcome"]);
        }
        house.end_of(&waiting.execution).await;
        let ran = house.world.ledger.of(&waiting.execution).len();
        assert_eq!(ran, usize::from(won["approved"] == true));
    }
}

#[tokio::test]
async fn a28_the_things_of_another_are_not_found_by_id_on_any_route() {
    let house = House::open().await;
    let waiting = house.wants_to_destroy("a").await;
    let session = format!("ses_of_{}", house.key(Who::Agent).caller.token.unwrap());
    for (kind, id) in [("exec_", &waiting.execution), ("eli_", &waiting.elicitation)] {
        assert!(id.strip_prefix(kind).is_some_and(|bits| bits.len() >= 32), "128 bits in {id}");
    }
    for who in [Who::OtherAgent, Who::Service] {
        for path in [
            format!("/api/executions/{}", waiting.execution),
            format!("/api/executions/{}?waitMs=10", waiting.execution),
            format!("/api/executions/{}/journal", waiting.execution),
            format!("/api/elicitation/{}", waiting.elicitation),
            format!("/api/elicitation/{}", waiting.execution),
            format!("/api/sessions/{session}/approvals"),
        ] {
            let answer = house.get(who, &path).await;
            assert_eq!(answer.status, 404, "{who:?} {path}: {}", answer.text);
            assert!(!answer.text.contains(&waiting.elicitation), "{}", answer.text);
        }
        house
            .post(who, &format!("/api/executions/{}/cancel", waiting.execution), json!(null))
            .await
            .refused(404, "not_found");
    }
    let squat = json!({ "tool": "lab.read", "args": { "what": "x" }, "sessionId": session });
    house.post(Who::OtherAgent, "/api/executions", squat).await.refused(404, "session_not_found");
    nothing_happened(&house, &waiting).await;
    until("nothing was stopped", async || house.open_questions().await.len() == 1).await;
}
