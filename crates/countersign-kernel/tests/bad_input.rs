//! Bad input: whatever is malformed, too large, too deep or too much gets a clear error with a stable code, is never
//! answered with success, and disturbs nothing that was there before.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that meets the unexpected stops there")]

use std::sync::Arc;
use std::time::Duration;

use countersign_core::bounds::{
    MAX_ASKS_PER_CALL, MAX_STEPS_PER_CALL, MAX_TEXT_BYTES, MAX_VALUE_BYTES, MAX_VALUE_DEPTH,
};
use countersign_core::event::Settlement;
use countersign_core::execution::Status;
use countersign_core::ids::{CallNo, ElicitationId, ExecutionId, GrantId, TokenId};
use countersign_core::policy::PathPattern;
use countersign_core::visible::{Warning, visible};
use countersign_kernel::ports::{ElicitationFilter, ExecutionFilter, Page};
use countersign_kernel::{
    Answer, CallError, CallRequest, DecideError, ExecutionResult, Gateway, NewGrant, NewToken, Patience,
    SessionError, Target, TokenError,
};
use countersign_sdk::{Approval, Ctx, Plugin, Role, SessionId, Tool, ToolError};
use countersign_testkit::lab::{Done, What};
use countersign_testkit::world::{InTests, World, agent, ann, fill, request, says, session, yes};
use serde_json::{Value, json};

async fn refused(gateway: &Gateway, path: &str, args: Value) -> CallError {
    let error = gateway.ask(path, args).await.expect_err("it is refused");
    assert_eq!(gateway.live(), 0, "nothing of it is kept");
    let rows = gateway.executions(ExecutionFilter::default(), Page::first(10)).await.unwrap();
    assert_eq!(rows.items, [], "nothing of it is recorded");
    error
}

/// A gateway with one more tool, `own.tool`.
async fn with<F, Fut, O>(world: &World, handler: F) -> Gateway
where
    F: Fn(Ctx, What) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<O, ToolError>> + Send + 'static,
    O: serde::Serialize + schemars::JsonSchema + 'static,
{
    let tool = Tool::new("own.tool").name("Tool").describe("Does as it is told.").handler(handler);
    let plugin = Plugin::new("own", "Own", "Tools of this test.").tool(tool);
    world.start_with(world.builder(Arc::new(world.disk.clone())).plugin(plugin)).await
}

async fn call(gateway: &Gateway, what: &str) -> ExecutionResult {
    gateway.ask("own.tool", json!({ "what": what })).await.unwrap()
}

/// A list in a list in a list; made without recursion.
fn nested(levels: usize) -> Value {
    (0..levels).fold(json!(1), |inner, _| Value::Array(vec![inner]))
}

fn elicit_about(args: Value) -> Value {
    let mut call = json!({ "style": "method" });
    call["args"] = args;
    call
}

#[tokio::test(start_paused = true)]
async fn a_malformed_path_names_no_tool() {
    let gateway = World::new(1).start().await;
    let long = "a.".repeat(500_000);
    for path in [
        "",
        ".",
        "..",
        "lab",
        "lab.",
        ".lab.read",
        "lab..read",
        "Lab.Read",
        "lab.read ",
        "lab.read\0",
        "lab.\u{202e}read",
        "../../etc/passwd",
        "lab.read; rm",
        &long,
    ] {
        let error = refused(&gateway, path, json!({ "what": "x" })).await;
        assert_eq!(error.code(), "tool_not_found", "{path:.40?}");
        assert!(error.to_string().len() < 2_000, "a long path is not quoted whole");
    }
}

#[tokio::test(start_paused = true)]
async fn arguments_of_the_wrong_type_are_invalid_input() {
    let gateway = World::new(1).start().await;
    for args in [
        json!([]),
        json!("x"),
        json!(1),
        json!(true),
        json!(null),
        json!({}),
        json!({ "what": null }),
        json!({ "what": {} }),
        json!([{ "what": "x" }]),
    ] {
        for path in ["lab.read", "lab.destroy"] {
            assert_eq!(refused(&gateway, path, args.clone()).await.code(), "invalid_input", "{path} {args}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn properties_that_the_tool_does_not_know_are_invalid_input() {
    let gateway = World::new(1).start().await;
    let error =
        refused(&gateway, "lab.destroy", json!({ "what": "x", "really": true, "__proto__": {} })).await;
    assert_eq!(error.code(), "invalid_input");
    assert!(error.to_string().contains("really") && error.to_string().contains("__proto__"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn arguments_beyond_a_mebibyte_are_too_large_and_at_it_they_pass() {
    let gateway = World::new(1).start().await;
    let around = json!({ "what": "" }).to_string().len();
    let error = refused(&gateway, "lab.read", json!({ "what": "x".repeat(2 * MAX_VALUE_BYTES) })).await;
    assert_eq!(error.code(), "value_too_large");
    let error =
        refused(&gateway, "lab.read", json!({ "what": "x".repeat(MAX_VALUE_BYTES - around + 1) })).await;
    assert_eq!(error.code(), "value_too_large");
    let many: Vec<u8> = vec![1; MAX_VALUE_BYTES];
    assert_eq!(refused(&gateway, "lab.read", json!({ "what": many })).await.code(), "value_too_large");
    let most =
        gateway.ask("lab.read", json!({ "what": "x".repeat(MAX_VALUE_BYTES - around) })).await.unwrap();
    assert!(most.success());
}

#[tokio::test(start_paused = true)]
async fn arguments_nested_too_deeply_are_refused_however_deep() {
    let gateway = World::new(1).start().await;
    for levels in [MAX_VALUE_DEPTH, MAX_VALUE_DEPTH + 1, 1_000, 10_000] {
        assert_eq!(
            refused(&gateway, "lab.elicit", elicit_about(nested(levels))).await.code(),
            "value_too_deep",
            "{levels}"
        );
        assert_eq!(
            refused(&gateway, "lab.destroy", nested(levels + 1)).await.code(),
            "value_too_deep",
            "{levels}"
        );
    }
    // The object around it is the first level.
    let deepest = gateway.ask("lab.elicit", elicit_about(nested(MAX_VALUE_DEPTH - 1))).await.unwrap();
    assert_eq!(deepest.paused().unwrap().elicitation.args.to_value(), nested(MAX_VALUE_DEPTH - 1));
}

#[tokio::test(start_paused = true)]
async fn a_nul_is_refused_in_values_and_in_keys() {
    let gateway = World::new(1).start().await;
    for args in [json!({ "what": "a\0b" }), json!({ "what": "x", "\0": 1 }), json!({ "what": ["\0"] })] {
        let error = refused(&gateway, "lab.destroy", args).await;
        assert_eq!(error.code(), "invalid_input");
        assert!(error.to_string().contains("NUL"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn bidirectional_and_invisible_characters_are_kept_and_shown_as_what_they_are() {
    let world = World::new(1);
    let gateway = world.start().await;
    let tricky = "photo\u{202e}gpj.exe\u{200b}";
    let waiting = gateway.ask("lab.destroy", json!({ "what": tricky })).await.unwrap();
    let question = &waiting.paused().unwrap().elicitation;
    for text in [question.message.as_str(), question.args.as_str()] {
        let shown = visible(text);
        assert!(shown.text.contains("photo⟦U+202E⟧gpj.exe⟦U+200B⟧"), "{}", shown.text);
        assert!(!shown.text.contains(['\u{202e}', '\u{200b}']));
        assert_eq!(shown.warnings, [Warning::Bidirectional, Warning::Invisible]);
    }
    gateway.ann_says(&waiting, yes()).await.unwrap();
    assert!(gateway.end_of(&waiting).await.success());
    assert_eq!(world.ledger.effects()[0].what, tricky, "what runs is what was sent, to the byte");
}

#[tokio::test(start_paused = true)]
async fn integers_that_cannot_be_shown_exactly_are_refused_and_may_be_sent_as_text() {
    let gateway = World::new(1).start().await;
    let safe: i64 = (1 << 53) - 1;
    for number in [json!(safe + 1), json!(-safe - 1), json!(u64::MAX), json!(i64::MIN)] {
        for args in [json!({ "amount": number }), json!({ "amount": 1, "x": [number] })] {
            let error = refused(&gateway, "lab.transfer", args).await;
            assert_eq!(error.code(), "invalid_input");
            assert!(error.to_string().contains("send it as a string"), "{error}");
        }
    }
    let most = gateway.ask("lab.transfer", json!({ "amount": safe })).await.unwrap();
    assert_eq!(most.paused().unwrap().elicitation.args.to_value(), json!({ "amount": safe }));
    let text = gateway.ask("lab.read", json!({ "what": u64::MAX.to_string() })).await.unwrap();
    assert!(text.success());
}

#[tokio::test(start_paused = true)]
async fn ids_that_are_none_are_refused_and_ids_of_nothing_find_nothing() {
    for text in
        ["", "exec_", "exec_xyz", "eli_0123", "\0", "exec_0123456789abcdef0123456789abcdeF", "' OR 1=1 --"]
    {
        assert!(text.parse::<ExecutionId>().is_err() && text.parse::<ElicitationId>().is_err(), "{text:?}");
    }
    let gateway = World::new(1).start().await;
    let (execution, elicitation) = (ExecutionId::from_random([7; 16]), ElicitationId::from_random([7; 16]));
    for target in [Target::Execution(execution), Target::Elicitation(elicitation)] {
        for answer in [yes(), Answer::Deny, Answer::Cancel] {
            let error = gateway.decide(says(ann(), target, answer)).await.unwrap_err();
            assert_eq!(error.code(), "not_found");
        }
    }
    assert_eq!(gateway.result(execution).await.unwrap(), None);
    assert_eq!(gateway.wait(execution, Patience::Unlimited).await.unwrap(), None);
    assert_eq!(gateway.journal(execution).await.unwrap(), []);
    assert_eq!(gateway.elicitation(elicitation).await.unwrap(), None);
    gateway.revoke_grant(&ann(), GrantId::from_random([7; 16])).await.unwrap();
    gateway.revoke_token(TokenId::from_random([7; 16]), None).await.unwrap();
    let failed = Settlement::Failed { message: "x".into() };
    assert!(gateway.settle(execution, CallNo(0), failed, &ann()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_session_of_another_client_of_the_same_principal_is_not_there() {
    let gateway = World::new(1).start().await;
    let opened = gateway.open_session(&agent(), "mcp/one", None).await.unwrap();
    for client in ["mcp/two", "mcp", "rest", "MCP/one"] {
        let named = gateway.open_session(&agent(), client, Some(opened.clone())).await;
        assert!(matches!(named, Err(SessionError::Taken)), "{client}: {named:?}");
    }
    assert_eq!(gateway.open_session(&agent(), "mcp/one", Some(opened.clone())).await.unwrap(), opened);
    let owner = gateway.session_owner(&opened).await.unwrap().unwrap();
    assert_eq!((owner.principal, owner.client.as_str()), (agent().principal.id, "mcp/one"));
}

#[tokio::test(start_paused = true)]
async fn the_name_of_the_terminals_session_is_kept_for_people() {
    let gateway = World::new(1).start().await;
    let local = || Some(SessionId::parse("ses_local").unwrap());
    let squatted = gateway.open_session(&agent(), "rest", local()).await;
    assert!(matches!(squatted, Err(SessionError::Taken)), "{squatted:?}");
    assert_eq!(Some(gateway.open_session(&ann(), "rest", local()).await.unwrap()), local());
    let joined = gateway.open_session(&agent(), "rest", local()).await;
    assert!(matches!(joined, Err(SessionError::Taken)), "{joined:?}");
}

#[tokio::test(start_paused = true)]
async fn sessions_that_are_unknown_or_somebody_elses_do_not_exist() {
    let gateway = World::new(1).start().await;
    let unknown = CallRequest {
        session: SessionId::parse("ses_unknown").unwrap(),
        ..request("lab.read", json!({ "what": "x" }))
    };
    assert_eq!(gateway.call(unknown).await.unwrap_err().code(), "session_not_found");
    for client in ["", "a\nb", "\0", &"x".repeat(201)] {
        let error = gateway.open_session(&agent(), client, None).await.unwrap_err();
        assert!(matches!(error, SessionError::BadClient), "{error}");
    }
    for name in ["", "a\nb", &"x".repeat(101)] {
        let error = gateway.create_token(NewToken::new(name, Role::Agent), None).await.err().unwrap();
        assert!(matches!(error, TokenError::BadName), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_comment_beyond_its_bound_is_refused_and_the_question_stays_open() {
    let gateway = World::new(1).start().await;
    let waiting = gateway.ask("lab.destroy", json!({ "what": "x" })).await.unwrap();
    let with_comment = |bytes: usize| {
        let mut decide = says(ann(), Target::Execution(waiting.execution), Answer::Deny);
        decide.comment = Some("x".repeat(bytes));
        decide
    };
    let error = gateway.decide(with_comment(MAX_TEXT_BYTES + 1)).await.unwrap_err();
    assert_eq!(error.code(), "value_too_large");
    assert_eq!(gateway.open().await.len(), 1);
    assert!(gateway.decide(with_comment(MAX_TEXT_BYTES)).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn an_answer_beyond_its_bounds_is_refused_and_the_question_stays_open() {
    let gateway = World::new(1).start().await;
    let form = gateway.ask("lab.form", json!({})).await.unwrap();
    let approval = gateway.ask("lab.destroy", json!({ "what": "x" })).await.unwrap();
    for text in ["x".repeat(2 * MAX_VALUE_BYTES), "a\0b".to_owned()] {
        for waiting in [&form, &approval] {
            let error = gateway.ann_says(waiting, fill(json!({ "warehouse_id": text }))).await.unwrap_err();
            assert!(matches!(error, DecideError::OutOfBounds(_) | DecideError::InvalidData(_)), "{error}");
        }
    }
    let error = gateway.ann_says(&approval, fill(nested(10_000))).await.unwrap_err();
    assert!(matches!(error, DecideError::OutOfBounds(_)), "{error}");
    assert_eq!(gateway.open().await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn texts_that_end_an_execution_are_refused_or_cut_and_never_kept_whole() {
    let huge = "x".repeat(10 * MAX_TEXT_BYTES);
    let bounded =
        |end: &ExecutionResult| end.error.as_ref().is_none_or(|e| e.message.len() <= 2 * MAX_TEXT_BYTES);
    let gateway = with(&World::new(1), async |_: Ctx, i: What| -> Result<Done, ToolError> {
        Err(ToolError::new(i.what.repeat(10 * MAX_TEXT_BYTES)))
    })
    .await;
    let waiting = gateway.ask("lab.destroy", json!({ "what": "x" })).await.unwrap();
    if let Ok(end) = gateway.cancel(waiting.execution, &agent(), &huge).await {
        assert!(bounded(&end), "a reason to cancel");
    }
    assert!(bounded(&call(&gateway, "x").await), "a handler's message");
}

#[test]
fn what_a_person_says_of_a_doubt_is_refused_or_cut_and_never_kept_whole() {
    let world = World::new(1);
    let waiting = world.life(async |gateway| {
        let waiting = gateway.ask("lab.slow", json!({ "ms": 60_000 })).await.unwrap();
        gateway.ann_says(&waiting, yes()).await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        waiting
    });
    world.life(async |gateway| {
        let huge = Settlement::Failed { message: "x".repeat(10 * MAX_TEXT_BYTES) };
        match gateway.settle(waiting.execution, CallNo(0), huge, &ann()).await {
            Ok(end) => assert!(end.error.unwrap().message.len() <= 2 * MAX_TEXT_BYTES),
            Err(_) => assert_eq!(gateway.end_of(&waiting).await.status, Status::InDoubt),
        }
    });
}

#[tokio::test(start_paused = true)]
async fn a_session_has_at_most_so_many_open_questions() {
    let world = World::new(1).set(|s| s.max_pending_per_session = 3);
    let gateway = world.start().await;
    let mut waiting = Vec::new();
    for n in 0..3 {
        waiting.push(gateway.ask("lab.destroy_each", json!({ "what": n.to_string() })).await.unwrap());
    }
    let error = gateway.ask("lab.destroy_each", json!({ "what": "one more" })).await.unwrap_err();
    assert_eq!(error.code(), "too_many_pending");
    let rows = gateway.executions(ExecutionFilter::default(), Page::first(10)).await.unwrap();
    assert_eq!((rows.items.len(), gateway.open().await.len()), (3, 3), "the others are as they were");

    assert!(gateway.ask("lab.read", json!({ "what": "x" })).await.unwrap().success(), "reading goes on");
    let other = gateway.open_session(&agent(), "test", None).await.unwrap();
    let elsewhere = CallRequest { session: other, ..request("lab.destroy_each", json!({ "what": "x" })) };
    assert!(gateway.call(elsewhere).await.unwrap().paused().is_some(), "another session has room of its own");
    gateway.ann_says(&waiting[0], Answer::Deny).await.unwrap();
    assert!(gateway.ask("lab.destroy_each", json!({ "what": "now" })).await.unwrap().paused().is_some());
    assert_eq!(world.ledger.effects(), []);
}

#[tokio::test(start_paused = true)]
async fn a_requester_has_at_most_so_many_open_questions_in_all_of_its_sessions() {
    let world = World::new(1).set(|s| s.max_pending_per_requester = 3);
    let gateway = world.start().await;
    let ask = async || {
        let session = gateway.open_session(&agent(), "test", None).await.unwrap();
        gateway.call(CallRequest { session, ..request("lab.destroy_each", json!({ "what": "x" })) }).await
    };
    let mut waiting = Vec::new();
    for _ in 0..3 {
        waiting.push(ask().await.unwrap());
    }
    assert_eq!(ask().await.unwrap_err().code(), "too_many_pending");
    assert_eq!(gateway.open().await.len(), 3, "the others are as they were");
    gateway.ann_says(&waiting[0], Answer::Deny).await.unwrap();
    assert!(ask().await.unwrap().paused().is_some());
    assert_eq!(world.ledger.effects(), []);
}

#[tokio::test(start_paused = true)]
async fn a_principal_has_at_most_so_many_sessions() {
    // The world has opened one for the agent already.
    let world = World::new(1).set(|s| s.max_sessions_per_principal = 3);
    let gateway = world.start().await;
    let second = gateway.open_session(&agent(), "test", None).await.unwrap();
    gateway.open_session(&agent(), "test", None).await.unwrap();
    let error = gateway.open_session(&agent(), "test", None).await.unwrap_err();
    assert_eq!(error.code(), "too_many_sessions");
    let again = gateway.open_session(&agent(), "test", Some(second.clone())).await.unwrap();
    assert_eq!(again, second, "its own sessions stay open to it");
    gateway.open_session(&ann(), "test", None).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_requesters_open_questions_have_at_most_so_many_bytes() {
    let world = World::new(1).set(|s| s.max_pending_bytes_per_requester = 5_000);
    let gateway = world.start().await;
    let large = json!({ "what": "x".repeat(5_000) });
    let waiting = gateway.ask("lab.destroy_each", large).await.unwrap();
    let error = gateway.ask("lab.destroy_each", json!({ "what": "small" })).await.unwrap_err();
    assert_eq!(error.code(), "too_many_pending");
    gateway.ann_says(&waiting, Answer::Deny).await.unwrap();
    assert!(gateway.ask("lab.destroy_each", json!({ "what": "small" })).await.unwrap().paused().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_handlers_question_beyond_the_sessions_bound_fails_with_that_code() {
    let world = World::new(1).set(|s| s.max_pending_per_session = 1);
    let gateway = world.start().await;
    let waiting = gateway.ask("lab.two", json!({})).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(gateway.open().await.len(), 1);
    gateway.ann_says(&waiting, yes()).await.unwrap();
    let end = gateway.end_of(&waiting).await;
    assert_eq!(end.error.unwrap().code, "too_many_pending");
    assert_eq!(world.ledger.effects(), []);
}

#[tokio::test(start_paused = true)]
async fn a_call_records_at_most_so_many_steps() {
    let gateway = with(&World::new(1), async |ctx: Ctx, i: What| -> Result<Done, ToolError> {
        for n in 0..i.what.parse::<usize>()? {
            ctx.step(&format!("step {n}"), async || Ok(n)).await?;
        }
        Ok(Done { done: true })
    })
    .await;
    assert!(call(&gateway, &MAX_STEPS_PER_CALL.to_string()).await.success());
    let end = call(&gateway, &(MAX_STEPS_PER_CALL + 1).to_string()).await;
    assert_eq!(end.error.unwrap().code, "too_many_steps");
}

/// Answers each question with no, the last of them after it was parked.
async fn answers_all(gateway: &Gateway, asking: &ExecutionResult) {
    for n in 0..MAX_ASKS_PER_CALL {
        assert_eq!(gateway.open().await.len(), 1, "{n}");
        if n + 1 == MAX_ASKS_PER_CALL {
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
        gateway.ann_says(asking, Answer::Deny).await.unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_asks_at_most_so_many_questions() {
    let gateway = with(&World::new(1), async |ctx: Ctx, i: What| -> Result<Done, ToolError> {
        for n in 0..i.what.parse::<usize>()? {
            ctx.confirm(format!("Number {n}?")).await?;
        }
        Ok(Done { done: true })
    })
    .await;
    let most = call(&gateway, &MAX_ASKS_PER_CALL.to_string()).await;
    answers_all(&gateway, &most).await;
    assert!(gateway.end_of(&most).await.success());
    let one_more = call(&gateway, &(MAX_ASKS_PER_CALL + 1).to_string()).await;
    answers_all(&gateway, &one_more).await;
    assert_eq!(gateway.end_of(&one_more).await.error.unwrap().code, "too_many_questions");
    assert_eq!(gateway.open().await, []);
}

#[tokio::test(start_paused = true)]
async fn a_question_that_cannot_be_asked_is_invalid_params_and_does_not_stand_in_the_way_of_the_next() {
    let gateway = with(&World::new(1), async |ctx: Ctx, i: What| -> Result<Value, ToolError> {
        let bad = match i.what.as_str() {
            "empty" => Approval::new(" \n"),
            "long" => Approval::new("x".repeat(MAX_TEXT_BYTES + 1)),
            "path" => Approval::new("Sure?").tool_path("No Such Path"),
            "nul" => Approval::new("Sure?").args(json!({ "a": "\0" })),
            "large" => Approval::new("Sure?").args(json!("x".repeat(MAX_VALUE_BYTES))),
            _ => Approval::new("Sure?").args(json!(u64::MAX)),
        };
        let code = ctx.elicit(bad).await.err().map(|e| e.code().as_str().to_owned());
        let then = ctx.confirm("And now?").await?;
        Ok(json!({ "code": code, "then": then }))
    })
    .await;
    for what in ["empty", "long", "path", "nul", "large", "number"] {
        let waiting = call(&gateway, what).await;
        assert_eq!(waiting.error, None, "{what}");
        assert_eq!(waiting.paused().unwrap().elicitation.message, "And now?", "{what}");
        gateway.ann_says(&waiting, yes()).await.unwrap();
        assert_eq!(
            gateway.end_of(&waiting).await.value,
            Some(json!({ "code": "invalid_params", "then": true })),
            "{what}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_cannot_say_what_it_would_do_in_so_many_words_is_not_run() {
    let world = World::new(1);
    let gateway = world.start().await;
    let end = gateway.ask("lab.destroy", json!({ "what": "x".repeat(MAX_TEXT_BYTES) })).await.unwrap();
    assert_eq!(end.error.unwrap().code, "denied");
    assert_eq!((gateway.open().await, world.ledger.effects()), (vec![], vec![]));
}

#[tokio::test(start_paused = true)]
async fn a_result_beyond_its_bounds_is_a_failure_that_says_the_tool_ran() {
    let gateway = with(&World::new(1), async |_: Ctx, i: What| -> Result<Value, ToolError> {
        Ok(if i.what == "large" { json!("x".repeat(MAX_VALUE_BYTES)) } else { nested(MAX_VALUE_DEPTH + 1) })
    })
    .await;
    for (what, code) in [("large", "value_too_large"), ("deep", "value_too_deep")] {
        let end = call(&gateway, what).await;
        let error = end.error.unwrap();
        assert_eq!((end.status, error.code.as_str()), (Status::Failed, code));
        assert!(error.message.contains("The tool ran"), "{}", error.message);
    }
}

#[tokio::test(start_paused = true)]
async fn lists_are_bounded_and_foreign_cursors_are_refused() {
    let gateway = World::new(1).start().await;
    for n in 0..3 {
        gateway.ask("lab.destroy_each", json!({ "what": n.to_string() })).await.unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let first = gateway.elicitations(ElicitationFilter::default(), Page::first(2)).await.unwrap();
    let rest = Page { cursor: first.next.clone(), limit: usize::MAX };
    let rest = gateway.elicitations(ElicitationFilter::default(), rest).await.unwrap();
    assert_eq!((first.items.len(), rest.items.len(), rest.next), (2, 1, None));
    for cursor in ["", "x", "\0", "9999", "' OR 1=1 --"] {
        let page = Page { cursor: Some(cursor.into()), limit: 2 };
        let error = gateway.elicitations(ElicitationFilter::default(), page.clone()).await.unwrap_err();
        assert_eq!(error.code(), "bad_cursor", "{cursor:?}");
        assert_eq!(
            gateway.executions(ExecutionFilter::default(), page).await.unwrap_err().code(),
            "bad_cursor"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_cannot_be_used_covers_nothing() {
    let gateway = World::new(1).start().await;
    let pattern = PathPattern::parse("lab.destroy").unwrap();
    let past = Some(countersign_core::time::Timestamp::from_millis(1));
    let new = NewGrant::new(session(), pattern);
    gateway.give_grant(&ann(), NewGrant { uses: Some(0), ..new.clone() }).await.unwrap();
    gateway.give_grant(&ann(), NewGrant { expires_at: past, ..new }).await.unwrap();
    assert!(gateway.ask("lab.destroy", json!({ "what": "x" })).await.unwrap().paused().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_takes_nothing_takes_nothing() {
    let gateway = World::new(1).start().await;
    assert!(
        gateway.ask("lab.form", json!(null)).await.unwrap().paused().is_some(),
        "no arguments are no properties"
    );
    let error = gateway.ask("lab.form", json!({ "x": 1 })).await.unwrap_err();
    assert_eq!(error.code(), "invalid_input");
}

#[tokio::test(start_paused = true)]
async fn a_requester_records_at_most_so_much_in_a_day_and_deciding_goes_on() {
    let world = World::new(1).set(|s| s.max_stored_bytes_per_day = 40_000);
    let gateway = world.start().await;
    let large = || json!({ "what": "x".repeat(6_000) });
    let waiting = gateway.ask("lab.destroy_each", large()).await.unwrap();
    let keyed =
        || CallRequest { key: Some("key-1".into()), ..request("lab.read", json!({ "what": "room" })) };
    let before = gateway.call(keyed()).await.unwrap();
    for _ in 0..2 {
        gateway.ask("lab.read", large()).await.unwrap();
    }
    let refused = gateway.ask("lab.read", json!({ "what": "small" })).await.unwrap_err();
    assert_eq!(refused.code(), "storage_limit", "{refused}");
    assert_eq!(gateway.call(keyed()).await.unwrap().execution, before.execution, "a retry is no new call");
    gateway.ann_says(&waiting, yes()).await.unwrap();
    assert!(gateway.end_of(&waiting).await.success(), "what was accepted goes on");
    world.clock.jump(24 * 60 * 60 * 1_000);
    assert!(gateway.ask("lab.read", json!({ "what": "small" })).await.is_ok(), "a day later there is room");
}
