//! What a script's calls come to: values, errors it can catch, several at once, and what it leaves behind at its end.

use std::time::Duration;

use countersign_core::event::EventBody;
use countersign_core::execution::Status;
use countersign_kernel::{
    Answer, CallError, HookCall, HookError, HookVerdict, NewToken, Patience, PreHook, RunRequest,
};
use countersign_sdk::ExposeSecret as _;
use countersign_testkit::faulty_store::{Fault, Faults};
use countersign_testkit::world::{InTests as _, World, agent, ann, script, session, yes};
use serde_json::{Value, json};

use crate::fixture::{by_call, started, through, world};

async fn value_of(gateway: &countersign_kernel::Gateway, source: &str) -> Value {
    let result = gateway.runs(source).await;
    assert_eq!(result.status, Status::Succeeded, "{:?}", result.error);
    result.value.unwrap()
}

#[test]
fn a_script_of_safe_calls_writes_nothing_before_it_ends() {
    let faults = Faults::none();
    world(1).life_on(
        &faults,
        |builder| builder,
        async |gateway| {
            let before = faults.commits();
            let source = r#"
            const seen = [];
            for (let i = 0; i < 20; i++) seen.push((await tools.lab.read({ what: String(i) })).what);
            await sleep(5);
            return seen.length;"#;
            let running = gateway.run(script(source));
            assert_eq!(running.await.unwrap().value, Some(json!(20)));
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert_eq!(faults.commits() - before, 1, "one write, at the end");
        },
    );
}

#[test]
fn a_denied_call_throws_an_error_that_the_script_may_catch_and_go_on_from() {
    let world = world(1);
    world.life(async |gateway| {
        let source = r#"
            try { await tools.lab.destroy({ what: "x" }); }
            catch (e) {
                const next = await tools.lab.read({ what: "after" });
                return { code: e.code, name: e.name, message: e.message, after: next.what };
            }"#;
        let result = through(&gateway, source, &Answer::Deny).await;
        let value = result.value.unwrap();
        assert_eq!(
            (&value["code"], &value["name"], &value["after"]),
            (&json!("denied"), &json!("ToolError"), &json!("after"))
        );
        assert!(world.ledger.effects().is_empty());
    });
}

#[test]
fn a_denial_that_nobody_catches_ends_the_script_as_denied() {
    world(1).life(async |gateway| {
        let result = through(&gateway, "await tools.lab.destroy({ what: 'x' });", &Answer::Deny).await;
        assert_eq!(result.status, Status::Failed);
        assert_eq!(result.error.unwrap().code, "denied");
    });
}

#[test]
fn a_script_cannot_pass_off_its_own_error_as_a_denial() {
    world(1).life(async |gateway| {
        let result = gateway.runs(r#"throw Object.assign(new Error("no"), { code: "denied" });"#).await;
        assert_eq!(result.error.unwrap().code, "script_error");
    });
}

#[test]
fn calling_a_namespace_says_so_and_lists_what_is_inside() {
    world(1).life(async |gateway| {
        let value = value_of(&gateway, "try { await tools.lab({}); } catch (e) { return e.message; }").await;
        let text = value.as_str().unwrap();
        assert!(text.contains(r#""lab" is a namespace, not a tool"#), "{text}");
        assert!(text.contains("lab.read") && text.contains("lab.destroy"), "{text}");
    });
}

#[test]
fn an_unknown_path_suggests_near_misses() {
    world(1).life(async |gateway| {
        let source = "try { await tools.lab.reed({}); } catch (e) { return [e.code, e.message]; }";
        let value = value_of(&gateway, source).await;
        assert_eq!(value[0], "tool_not_found");
        assert!(value[1].as_str().unwrap().contains("lab.read"), "{value}");
    });
}

#[test]
fn bad_arguments_are_all_named_and_nothing_is_asked() {
    world(1).life(async |gateway| {
        let source = "try { await tools.lab.destroy({ wat: 1 }); } catch (e) { return [e.code, e.message]; }";
        let value = value_of(&gateway, source).await;
        assert_eq!(value[0], "invalid_input");
        assert!(value[1].as_str().unwrap().contains("what"), "{value}");
        assert!(gateway.open().await.is_empty());
    });
}

#[test]
fn several_calls_wait_at_once_and_are_decided_in_any_order() {
    let world = world(1);
    world.life(async |gateway| {
        let source = r#"
            const names = ["a", "b", "c"];
            const all = await Promise.allSettled(names.map((what) => tools.lab.destroy_each({ what })));
            return all.map((one) => one.status === "fulfilled" ? "done" : one.reason.code);"#;
        let result = gateway.runs(source).await;
        let open = loop {
            let open = by_call(gateway.open().await);
            if open.len() == 3 {
                break open;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        };
        let still = gateway.result(result.execution).await.unwrap().unwrap();
        assert_eq!(still.pending.len(), 3);
        assert_eq!(still.paused().map(|p| p.elicitation.id), Some(open[0].elicitation.id), "the oldest");
        for (row, answer) in open.iter().rev().zip([yes(), Answer::Deny, yes()]) {
            let target = countersign_kernel::Target::Elicitation(row.elicitation.id);
            gateway.decide(countersign_testkit::world::says(ann(), target, answer)).await.unwrap();
        }
        let end = gateway.end_of(&result).await;
        assert_eq!(end.value, Some(json!(["done", "denied", "done"])));
        assert_eq!(world.ledger.effects().len(), 2);
    });
}

#[test]
fn what_was_approved_is_byte_for_byte_what_the_handler_gets() {
    let world = world(1);
    world.life(async |gateway| {
        let source = r#"
            let reads = 0;
            const args = { get what() { return reads++ === 0 ? "shown" : "hidden"; } };
            await tools.lab.destroy(args);
            return reads;"#;
        let paused = gateway.runs(source).await;
        assert_eq!(paused.paused().unwrap().elicitation.args.as_str(), r#"{"what":"shown"}"#);
        gateway.ann_says(&paused, yes()).await.unwrap();
        assert_eq!(gateway.end_of(&paused).await.value, Some(json!(1)), "the arguments were taken once");
        assert_eq!(world.ledger.effects()[0].what, "shown");
    });
}

#[test]
fn a_question_nobody_waits_for_is_withdrawn_and_its_call_never_runs() {
    let world = world(1);
    world.life(async |gateway| {
        let source = r#"
            const first = await Promise.race([
                tools.lab.destroy({ what: "x" }).then(() => "destroyed"),
                sleep(1000).then(() => "slept"),
            ]);
            return first;"#;
        let paused = gateway.runs(source).await;
        let result = gateway.end_of(&paused).await;
        assert_eq!(result.value, Some(json!("slept")), "{:?}", result.error);
        assert!(gateway.open().await.is_empty());
        assert!(gateway.ann_says(&paused, yes()).await.is_err(), "it is too late to approve");
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert!(world.ledger.effects().is_empty());
    });
}

#[test]
fn the_end_of_a_script_waits_for_a_handler_that_may_have_acted() {
    let world = world(1);
    world.life(async |gateway| {
        let source = r#"
            const slow = tools.lab.slow({ ms: 2000 });
            await tools.lab.destroy({ what: "x" });
            return "done";"#;
        let result = through(&gateway, source, &yes()).await;
        assert_eq!(result.value, Some(json!("done")));
        let effects: Vec<String> = world.ledger.effects().into_iter().map(|e| e.what).collect();
        assert!(effects.contains(&"slow".to_owned()), "its outcome was waited for and recorded: {effects:?}");
        assert_eq!(result.calls.iter().map(|c| c.status).collect::<Vec<_>>(), ["succeeded", "succeeded"]);
    });
}

#[test]
fn sleep_takes_time_and_date_follows_the_journal() {
    world(1).life(async |gateway| {
        let source = r#"
            const before = Date.now();
            const still = Date.now() === before;
            await sleep(1500);
            return { still, passed: Date.now() - before };"#;
        let value = value_of(&gateway, source).await;
        assert_eq!(value["still"], true);
        assert!(value["passed"].as_u64().unwrap() >= 1500, "{value}");
    });
}

#[test]
fn a_promise_that_nothing_will_settle_is_an_error_and_not_a_wait_for_ever() {
    world(1).life(async |gateway| {
        let result = gateway.runs("await new Promise(() => {});").await;
        assert_eq!((result.status, result.error.unwrap().code), (Status::Failed, "script_stuck".to_owned()));
    });
}

#[test]
fn what_a_script_logs_is_kept_with_its_result() {
    let world = world(1);
    let done = world.life(async |gateway| {
        let source =
            r#"console.log("one", { a: 1 }); await tools.lab.destroy({ what: "x" }); console.error("two");"#;
        let result = through(&gateway, source, &yes()).await;
        let lines: Vec<String> = result.logs.iter().map(|l| format!("{:?} {}", l.level, l.message)).collect();
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines[0].starts_with("Info one") && lines[1] == "Error two", "{lines:?}");
        result
    });
    world.life(async |gateway| {
        let later = gateway.result(done.execution).await.unwrap().unwrap();
        assert_eq!(later.logs, done.logs, "also in the next process");
    });
}

#[test]
fn a_script_that_does_not_parse_is_refused_with_its_line_and_column() {
    world(1).life(async |gateway| {
        let error = gateway.run(script("const a: number = 1;\nreturn a +;")).await.unwrap_err();
        assert_eq!(error.code(), "script_invalid");
        assert!(error.to_string().contains("line 2"), "{error}");
    });
}

#[test]
fn an_error_says_where_in_the_typescript_it_happened() {
    world(1).life(async |gateway| {
        let source = "interface A { x: number }\n\nconst a = undefined as unknown as A;\nreturn a.x;";
        let error = gateway.runs(source).await.error.unwrap();
        assert_eq!(error.code, "script_error");
        assert!(error.message.contains("line 4"), "{}", error.message);
    });
}

#[test]
fn the_same_key_is_the_same_script() {
    let world = world(1);
    world.life(async |gateway| {
        let request = || RunRequest {
            key: Some("k1".into()),
            ..script("return await tools.lab.destroy({ what: 'x' });")
        };
        let first = gateway.run(request()).await.unwrap();
        let second = gateway.run(request()).await.unwrap();
        assert_eq!(first.execution, second.execution);
        let other = RunRequest { source: "return 2;".into(), ..request() };
        assert!(matches!(gateway.run(other).await, Err(CallError::KeyMismatch(id)) if id == first.execution));
        gateway.ann_says(&first, yes()).await.unwrap();
        assert!(gateway.end_of(&first).await.success());
        assert_eq!(gateway.run(request()).await.unwrap().status, Status::Succeeded);
        assert_eq!(world.ledger.effects().len(), 1);
    });
}

#[test]
fn a_gateway_without_a_script_host_refuses_scripts_and_takes_calls() {
    World::new(1).life(async |gateway| {
        assert_eq!(gateway.run(script("return 1;")).await.unwrap_err().code(), "scripts_not_available");
        assert!(gateway.ask("lab.read", json!({ "what": "x" })).await.unwrap().success());
    });
}

#[test]
fn what_a_caller_was_told_of_outlives_the_process_though_nothing_needed_writing() {
    let world = world(1);
    let told = world.life(async |gateway| {
        let patience = Patience::AtMost(Duration::from_millis(100));
        let request = RunRequest { patience, ..script("await sleep(60000); return 7;") };
        gateway.run(request).await.unwrap()
    });
    assert_eq!(told.status, Status::Running);
    world.life(async |gateway| {
        assert_eq!(gateway.end_of(&told).await.value, Some(json!(7)));
    });
}

struct Rewrites;

#[async_trait::async_trait]
impl PreHook for Rewrites {
    async fn before(&self, call: HookCall<'_>) -> Result<HookVerdict, HookError> {
        match call.args["what"].as_str() {
            Some("forbidden") => Ok(HookVerdict::Deny { reason: "not this".into() }),
            Some("secret") => Ok(HookVerdict::Rewrite(json!({ "what": "cleaned" }))),
            _ => Ok(HookVerdict::Continue),
        }
    }
}

#[test]
fn hooks_rewrite_and_deny_a_scripts_calls_and_are_not_asked_again_on_replay() {
    let world = world(1);
    let source = r#"
        let why; try { await tools.lab.read({ what: "forbidden" }); } catch (e) { why = e.code; }
        await tools.lab.destroy({ what: "secret" });
        return why;"#;
    let paused = world.life_with(|b| b.pre_hook(Rewrites), async |gateway| gateway.runs(source).await);
    assert_eq!(paused.paused().unwrap().elicitation.args.to_value(), json!({ "what": "cleaned" }));
    world.life(async |gateway| {
        gateway.ann_says(&paused, yes()).await.unwrap();
        assert_eq!(gateway.end_of(&paused).await.value, Some(json!("denied")));
        assert_eq!(world.ledger.effects()[0].what, "cleaned");
    });
}

#[test]
fn policy_judges_every_call_of_a_script() {
    let rules = "[[rule]]\nmatch = \"lab.read\"\nwhen = 'args.what == \"no\"'\neffect = \"deny\"\nreason = \"not that\"\n";
    world(1).under(rules).life(async |gateway| {
        let source = r#"
            const ok = await tools.lab.read({ what: "yes" });
            try { await tools.lab.read({ what: "no" }); } catch (e) { return [ok.what, e.code, e.message]; }"#;
        let value = value_of(&gateway, source).await;
        assert_eq!((&value[0], &value[1]), (&json!("yes"), &json!("denied")));
        assert!(value[2].as_str().unwrap().contains("not that"), "{value}");
    });
}

#[test]
fn a_script_is_cancelled_while_it_waits_and_nothing_runs_after() {
    let world = world(1);
    world.life(async |gateway| {
        let paused = gateway.runs("await tools.lab.destroy({ what: 'x' }); return 1;").await;
        let result = gateway.cancel(paused.execution, &agent(), "no longer wanted").await.unwrap();
        assert_eq!(result.status, Status::Cancelled);
        assert!(gateway.ann_says(&paused, yes()).await.is_err());
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(world.ledger.effects().is_empty());
        assert_eq!(gateway.live(), 0);
    });
}

#[test]
fn a_script_is_cancelled_while_it_sleeps_or_computes_nothing() {
    world(1).life(async |gateway| {
        let patience = Patience::AtMost(Duration::from_millis(10));
        let told = gateway.run(RunRequest { patience, ..script("await sleep(1e6);") }).await.unwrap();
        assert_eq!(
            gateway.cancel(told.execution, &agent(), "enough").await.unwrap().status,
            Status::Cancelled
        );
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(gateway.live(), 0);
    });
}

#[test]
fn more_calls_than_may_run_at_once_wait_their_turn_and_all_come_back() {
    let world = world(1).set(|settings| settings.max_calls_at_once = 3);
    world.life(async |gateway| {
        let source = r#"
            const all = await Promise.all(Array.from({ length: 50 }, (_, i) => tools.lab.read({ what: String(i) })));
            return all.map((one) => one.what).join();"#;
        let expected = (0..50).map(|i| i.to_string()).collect::<Vec<_>>().join(",");
        assert_eq!(value_of(&gateway, source).await, json!(expected));
    });
}

#[test]
fn a_tool_that_asks_by_itself_asks_from_a_script_too() {
    let world = world(1);
    world.life(async |gateway| {
        let source = r#"
            await tools.lab.transfer({ amount: 20000 });
            const place = await tools.lab.form({});
            return place;"#;
        let first = gateway.runs(source).await;
        gateway.ann_says(&first, yes()).await.unwrap();
        let second = gateway.wait(first.execution, Patience::UntilPaused).await.unwrap().unwrap();
        let fill = countersign_testkit::world::fill(json!({ "warehouse_id": "WH-7" }));
        gateway.ann_says(&second, fill).await.unwrap();
        let end = gateway.end_of(&first).await;
        assert!(end.success(), "{:?}", end.error);
        assert_eq!(world.ledger.effects().len(), 1);
        let journal = gateway.journal(end.execution).await.unwrap();
        assert_eq!(started(&journal), [0, 0, 1, 1], "let in, let past its question, each once");
    });
}

#[test]
fn another_principals_session_is_not_a_scripts_to_run_in() {
    world(1).life(async |gateway| {
        let stranger = countersign_sdk::Principal::agent("eve").unwrap().into();
        let request = RunRequest { caller: stranger, session: session(), ..script("return 1;") };
        assert_eq!(gateway.run(request).await.unwrap_err().code(), "session_not_found");
    });
}

#[test]
fn the_journal_holds_the_stripped_code_with_its_digest() {
    world(1).life(async |gateway| {
        let result =
            gateway.runs("const a: number = 1; return await tools.lab.read({ what: String(a) });").await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let journal = gateway.journal(result.execution).await.unwrap();
        let EventBody::Started(started) = &journal[0].body else { panic!("a journal begins with Started") };
        let kept = started.script.as_ref().unwrap();
        assert!(kept.source.contains(": number") && !kept.code.contains(": number"));
        assert_eq!(kept.digest, countersign_core::digest::Digest::of(kept.code.as_bytes()));
    });
}

#[test]
fn a_script_that_acts_without_pause_is_stopped_when_its_call_has_ended() {
    let world = world(1);
    let rules = "[[rule]]\nmatch = \"lab.slow\"\neffect = \"allow\"\n";
    world.clone().under(rules).life(async |gateway| {
        let patience = Patience::AtMost(Duration::from_millis(100));
        let source = "for (;;) await tools.lab.slow({ ms: 500 });";
        let told = gateway.run(RunRequest { patience, ..script(source) }).await.unwrap();
        let refused = gateway.cancel(told.execution, &agent(), "enough").await;
        assert!(matches!(refused, Err(countersign_kernel::CancelError::Stopping)), "{refused:?}");
        let end = gateway.end_of(&told).await;
        assert_eq!(end.status, Status::Cancelled);
        assert_eq!(world.ledger.effects().len(), 1, "what ran came to its end, and nothing more started");
    });
}

#[test]
fn a_revoked_token_stops_a_scripts_next_call_and_leaves_the_one_that_runs_alone() {
    let world = world(1);
    let rules = "[[rule]]\nmatch = \"lab.*\"\neffect = \"allow\"\n";
    world.clone().under(rules).life(async |gateway| {
        let minted =
            gateway.create_token(NewToken::new("agent", countersign_sdk::Role::Agent), None).await.unwrap();
        let caller = gateway.authenticate(minted.secret.expose_secret()).await.unwrap().unwrap();
        let session = gateway.open_session(&caller, "test", None).await.unwrap();
        let source = r#"
            const slow = tools.lab.slow({ ms: 2000 });
            await sleep(500);
            const next = await tools.lab.destroy({ what: "x" }).catch((e) => e.code);
            return [(await slow).done, next];"#;
        let patience = Patience::AtMost(Duration::from_millis(100));
        let request = RunRequest { caller: caller.clone(), session, patience, ..script(source) };
        let told = gateway.run(request).await.unwrap();
        gateway.revoke_token(minted.row.id, None).await.unwrap();
        let end = gateway.end_of(&told).await;
        assert_eq!(end.value, Some(json!([true, "token_revoked"])), "{:?}", end.error);
        assert_eq!(world.ledger.effects().len(), 1);
    });
}

#[test]
fn a_finished_script_is_kept_though_the_store_refused_it_at_first() {
    let faults = Faults::none();
    let world = world(1);
    let done = world.life_on(
        &faults,
        |builder| builder,
        async |gateway| {
            drop(faults.clone().and_at(faults.commits() + 1, Fault::Refuse));
            let done = gateway.runs("return (await tools.lab.read({ what: 'x' })).what;").await;
            tokio::time::sleep(Duration::from_secs(10)).await;
            done
        },
    );
    assert_eq!(done.value, Some(json!("x")));
    world.life(async |gateway| {
        let kept = gateway.result(done.execution).await.unwrap();
        assert_eq!(
            kept.and_then(|kept| kept.value),
            Some(json!("x")),
            "what a caller was told is in the store"
        );
    });
}

#[test]
fn a_stored_script_in_a_session_without_room_to_ask_gets_an_error_and_not_an_endless_loop() {
    let world = world(1).set(|settings| settings.max_pending_per_session = 1);
    world.life(async |gateway| {
        gateway.asks("lab.destroy_each", json!({ "what": "in the way" })).await;
        let source = "return await tools.lab.destroy_each({ what: 'x' }).catch((e) => e.code);";
        let result = gateway.run(RunRequest { key: Some("k".into()), ..script(source) }).await.unwrap();
        assert_eq!(result.value, Some(json!("too_many_pending")), "{result:?}");
    });
}

#[test]
fn a_script_that_sleeps_long_gives_its_vm_back_and_goes_on_when_it_wakes() {
    let world = world(1).set(|settings| settings.park_after = Duration::from_secs(5));
    world.life(async |gateway| {
        let source = "console.log('once'); const a = Math.random(); await sleep(3600000); return a === Math.random() ? 0 : 1;";
        let result = gateway.run(RunRequest { patience: Patience::Unlimited, ..script(source) }).await.unwrap();
        assert_eq!(result.value, Some(json!(1)), "{:?}", result.error);
        assert_eq!(result.logs.len(), 1, "{:?}", result.logs);
    });
}
