//! Hooks: in order, before confirmation, and failing means no.

use countersign_agent::{HookError, HookVerdict, OutcomeKind, Recovery, ToolOutcome, ToolUse, Verdict};
use countersign_sdk::ToolError;
use serde_json::json;

use crate::shop::{Shop, calling, deleting, only_result, with};

#[tokio::test]
async fn hooks_chain_in_the_order_of_registration_and_the_person_sees_what_the_last_one_left() {
    let shop = Shop::default();
    let narrow = |to: &'static str| {
        move |call: ToolUse| async move {
            let rows = format!("{} {to}", call.input["rows"].as_str().unwrap());
            Ok::<_, HookError>(HookVerdict::Rewrite(json!({ "table": "logs", "rows": rows })))
        }
    };
    let agent = with(&deleting())
        .tool(shop.delete())
        .pre_hook(narrow("before 2020"))
        .pre_hook(narrow("in archive"))
        .confirmation(shop.somebody(Verdict::Approve))
        .build()
        .unwrap();
    agent.chat("Go").await.unwrap();
    assert_eq!(shop.asked()[0].input["rows"], "all before 2020 in archive");
    assert_eq!(shop.ran(), ["delete_records logs all before 2020 in archive"]);
}

#[tokio::test]
async fn the_first_denial_ends_it_and_later_hooks_do_not_run() {
    let shop = Shop::default();
    let later = shop.clone();
    let deny = |_: ToolUse| async { Ok::<_, HookError>(HookVerdict::Deny { reason: "too often".into() }) };
    let noting = move |_: ToolUse| {
        later.note("a later hook");
        async { Ok::<_, HookError>(HookVerdict::Continue) }
    };
    let agent =
        with(&deleting()).tool(shop.delete()).pre_hook(deny).pre_hook(noting).unattended().build().unwrap();
    let (told, _) = only_result(&agent.chat("Go").await.unwrap());
    assert_eq!(told, "Tool call denied: too often");
    assert_eq!(shop.ran().len(), 0);
}

#[tokio::test]
async fn a_pre_hook_that_fails_or_panics_denies() {
    let fails = |_: ToolUse| async { Err::<HookVerdict, _>(HookError("no database".into())) };
    let panics = |call: ToolUse| async move {
        assert!(call.tool_name.is_empty(), "boom");
        Ok::<_, HookError>(HookVerdict::Continue)
    };
    let shop = Shop::default();
    let failing = with(&deleting()).tool(shop.delete()).pre_hook(fails).unattended().build().unwrap();
    let panicking = with(&deleting()).tool(shop.delete()).pre_hook(panics).unattended().build().unwrap();
    for (agent, reason) in [(failing, "the hook failed: no database"), (panicking, "a hook panicked")] {
        let (told, is_error) = only_result(&agent.chat("Go").await.unwrap());
        assert_eq!((told, is_error), (format!("Tool call denied: {reason}"), true));
    }
    assert_eq!(shop.ran().len(), 0);
}

#[tokio::test]
async fn input_that_a_hook_rewrote_is_checked_again() {
    let shop = Shop::default();
    let spoil = |_: ToolUse| async { Ok::<_, HookError>(HookVerdict::Rewrite(json!({ "tabel": "logs" }))) };
    let agent = with(&deleting()).tool(shop.delete()).pre_hook(spoil).unattended().build().unwrap();
    let (told, is_error) = only_result(&agent.chat("Go").await.unwrap());
    assert!(is_error && told.starts_with("Invalid tool input: ") && told.contains("tabel"), "{told}");
    assert_eq!(shop.ran().len(), 0);
}

#[tokio::test]
async fn an_on_error_hook_may_have_the_model_told_something_else_of_a_tools_own_failure() {
    let shop = Shop::default();
    let fails = || Shop::tool("flaky", |_| async { Err(ToolError::new("no route")) });
    let keep = |_: ToolUse, _: ToolOutcome| async { Recovery::Keep };
    let replace = |_: ToolUse, failure: ToolOutcome| async move {
        Recovery::Replace(format!("cached, because: {}", failure.content))
    };
    let model = || calling("flaky", &json!({}));
    let kept = with(&model()).tool(fails()).on_error(keep).build().unwrap();
    assert_eq!(only_result(&kept.chat("Go").await.unwrap()), ("Tool failed: no route".into(), true));
    let replaced = with(&model())
        .tool(fails())
        .on_error(keep)
        .on_error(replace)
        .post_hook(shop.watcher())
        .build()
        .unwrap();
    let told = only_result(&replaced.chat("Go").await.unwrap());
    assert_eq!(told, ("cached, because: Tool failed: no route".into(), false));
    assert_eq!(shop.seen()[0].1, OutcomeKind::Succeeded, "post-hooks come after on-error hooks");
}

#[tokio::test]
async fn the_cause_of_a_tools_failure_never_reaches_the_model() {
    let leaks = Shop::tool("leaks", |_| async { Err(std::io::Error::other("token=hunter2").into()) });
    let agent = with(&calling("leaks", &json!({}))).tool(leaks).build().unwrap();
    let reply = agent.chat("Go").await.unwrap();
    assert!(!format!("{reply:?}").contains("hunter2"));
}

#[tokio::test]
async fn a_post_hook_that_panics_changes_nothing() {
    let shop = Shop::default();
    let panics = |call: ToolUse, _: ToolOutcome| async move { assert!(call.tool_name.is_empty(), "boom") };
    let agent = with(&deleting())
        .tool(shop.delete())
        .post_hook(panics)
        .post_hook(shop.watcher())
        .unattended()
        .build()
        .unwrap();
    assert_eq!(only_result(&agent.chat("Go").await.unwrap()), ("deleted".into(), false));
    assert_eq!(shop.seen().len(), 1, "the hook after it still saw the call");
}
