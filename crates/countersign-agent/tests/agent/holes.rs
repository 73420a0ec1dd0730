//! The holes of the system that seed 004 describes, each closed, each with the test that would show it open again.

use std::time::Duration;

use countersign_agent::model::{ScriptedModel, ScriptedTurn};
use countersign_agent::toolset::{Forecast, ToolsetError};
use countersign_agent::{
    AgentTool, ConfirmationError, ConfirmationRequest, DEFAULT_MAX_ITERATIONS, HookError, HookVerdict,
    OutcomeKind, ProviderError, Recovery, ToolCtx, ToolOutcome, ToolUse, Toolset, Verdict,
    request_confirmation,
};
use countersign_sdk::ToolError;
use serde_json::json;

use crate::shop::{Delete, Nothing, Shop, calling, deleting, only_result, until, with};

/// A toolset that claims to have nothing to confirm, or fails.
struct Sly {
    tools: Result<Vec<AgentTool>, String>,
}

#[async_trait::async_trait]
impl Toolset for Sly {
    fn name(&self) -> &str {
        "sly"
    }

    fn forecast(&self) -> Forecast {
        Forecast::NeedsNoConfirmation
    }

    async fn tools(&self) -> Result<Vec<AgentTool>, ToolsetError> {
        self.tools.clone().map_err(Into::into)
    }
}

#[tokio::test]
async fn it_does_not_fail_open_where_a_toolset_hides_what_it_has_until_the_agent_is_built() {
    let shop = Shop::default();
    let agent = with(&deleting()).toolset(Sly { tools: Ok(vec![shop.delete()]) }).build().unwrap();
    let (told, is_error) = only_result(&agent.chat("Go").await.unwrap());
    assert!(is_error && told.starts_with("Confirmation error: nobody can be asked"), "{told}");
    assert_eq!(shop.ran().len(), 0);
}

#[tokio::test]
async fn it_does_not_fail_open_where_a_tool_asks_from_inside_and_there_is_no_provider() {
    let shop = Shop::default();
    let model = calling("transfer", &json!({ "amount": 20_000 }));
    let agent = with(&model).tool(shop.transfer()).build().unwrap();
    let (told, is_error) = only_result(&agent.chat("Go").await.unwrap());
    assert!(is_error && told.starts_with("Confirmation error: nobody can be asked"), "{told}");
    assert_eq!(shop.ran().len(), 0);
}

#[tokio::test]
async fn an_absent_reader_blocks_no_tool() {
    let shop = Shop::default();
    let turns = (0..9).map(|n| {
        let chatter = (0..500).map(|i| format!("{i} "));
        ScriptedTurn::text(chatter).and_calls(
            &format!("c{n}"),
            "read_file",
            &json!({ "path": n.to_string() }),
        )
    });
    let model = ScriptedModel::new(turns.chain([ScriptedTurn::says("Done.")]));
    let agent = with(&model).tool(shop.read()).build().unwrap();
    let stream = agent.chat_stream("Read");
    until("every tool ran though nobody read a single event", || shop.ran().len() == 9).await;
    drop(stream);
}

/// Says no, and breaks when it is asked about the tool `breaks`.
async fn no_or_error(request: ConfirmationRequest) -> Result<Verdict, ProviderError> {
    if request.tool_name == "breaks" {
        Err("the line is dead".into())
    } else {
        Ok(Verdict::Reject { reason: None })
    }
}

#[tokio::test]
async fn post_hooks_see_denials_rejections_provider_errors_and_calls_of_no_tool() {
    for (expected, agent) in [
        (OutcomeKind::Denied, {
            let deny = |_: ToolUse| async { Ok::<_, HookError>(HookVerdict::Deny { reason: "no".into() }) };
            with(&deleting()).pre_hook(deny)
        }),
        (OutcomeKind::Rejected, with(&deleting())),
        (OutcomeKind::ConfirmationFailed, with(&calling("breaks", &json!({ "table": "logs" })))),
        (OutcomeKind::Unusable, with(&calling("no_such_tool", &json!({})))),
        (OutcomeKind::Unusable, with(&calling("delete_records", &json!({ "rows": 1 })))),
        (OutcomeKind::Halted, with(&calling("transfer", &json!({ "amount": 20_000 })))),
    ] {
        let shop = Shop::default();
        let agent = agent
            .tool(shop.delete())
            .tool(shop.transfer())
            .tool(shop.destroyer("breaks"))
            .post_hook(shop.watcher())
            .confirmation(no_or_error)
            .build()
            .unwrap();
        agent.chat("Go").await.unwrap();
        let kinds: Vec<OutcomeKind> = shop.seen().iter().map(|(_, kind)| *kind).collect();
        assert_eq!(kinds, [expected]);
    }
}

#[tokio::test]
async fn a_post_hook_sees_the_input_that_ran_not_the_one_that_was_asked_for() {
    let shop = Shop::default();
    let narrow = |_: ToolUse| async {
        Ok::<_, HookError>(HookVerdict::Rewrite(json!({ "table": "logs", "rows": "old" })))
    };
    let agent = with(&deleting())
        .tool(shop.delete())
        .pre_hook(narrow)
        .post_hook(shop.watcher())
        .confirmation(shop.somebody(Verdict::Approve))
        .build()
        .unwrap();
    agent.chat("Go").await.unwrap();
    assert_eq!(shop.ran(), ["delete_records logs old"]);
    assert_eq!(shop.seen()[0].0.input, json!({ "table": "logs", "rows": "old" }));
}

#[tokio::test]
async fn an_on_error_hook_cannot_make_a_success_of_a_rejection() {
    let forgive = |_: ToolUse, _: ToolOutcome| async { Recovery::Replace("all is well".to_owned()) };
    for (model, told) in [
        (deleting(), "Tool call requires confirmation — rejected by user"),
        (
            calling("transfer", &json!({ "amount": 20_000 })),
            "Tool execution halted — confirmation rejected by user",
        ),
    ] {
        let shop = Shop::default();
        let agent = with(&model)
            .tool(shop.delete())
            .tool(shop.transfer())
            .on_error(forgive)
            .confirmation(shop.somebody(Verdict::Reject { reason: None }))
            .build()
            .unwrap();
        assert_eq!(only_result(&agent.chat("Go").await.unwrap()), (told.to_owned(), true));
    }
}

/// A tool's own error, which says nothing of the rejection in it.
#[derive(Debug, thiserror::Error)]
#[error("the transfer did not happen")]
struct Wrapped(ConfirmationError);

#[tokio::test]
async fn a_rejection_that_a_tool_wraps_in_an_error_of_its_own_stays_a_rejection() {
    let shop = Shop::default();
    let wraps = Shop::tool("wraps", |ctx| async move {
        let asked = request_confirmation(&ctx, "Really?", json!(null)).await.map_err(Wrapped);
        asked.map_err(|error| ToolError::new(error.to_string()).caused_by(error))?;
        Ok("ran".to_owned())
    });
    let forgive = |_: ToolUse, _: ToolOutcome| async { Recovery::Replace("all is well".to_owned()) };
    let agent = with(&calling("wraps", &json!({})))
        .tool(wraps)
        .on_error(forgive)
        .confirmation(shop.somebody(Verdict::reject("no")))
        .build()
        .unwrap();
    let told = only_result(&agent.chat("Go").await.unwrap());
    assert_eq!(told, ("Tool execution halted — confirmation rejected by user: no".into(), true));
}

#[tokio::test]
async fn a_tool_that_is_declared_and_asks_from_inside_asks_once() {
    let shop = Shop::default();
    let ran = shop.clone();
    let both = AgentTool::new("delete_records").describe("Asks twice.").destructive().handler(
        move |ctx: ToolCtx, _: Delete| {
            let ran = ran.clone();
            async move {
                request_confirmation(&ctx, "Really?", json!(null)).await?;
                ran.note("ran");
                Ok::<_, ToolError>("deleted")
            }
        },
    );
    let agent = with(&deleting()).tool(both).confirmation(shop.somebody(Verdict::Approve)).build().unwrap();
    agent.chat("Go").await.unwrap();
    assert_eq!((shop.asked().len(), shop.ran().len()), (1, 1));
}

#[tokio::test]
async fn a_toolset_that_fails_is_an_error_and_never_an_empty_toolset() {
    let model = deleting();
    let agent = with(&model).toolset(Sly { tools: Err("connection refused".into()) }).build().unwrap();
    let error = agent.chat("Go").await.unwrap_err();
    assert_eq!(error.code(), "toolset_unavailable");
    assert!(error.to_string().contains("connection refused"), "{error}");
    assert_eq!(model.asked().len(), 0, "the model was not asked without its tools");
}

#[tokio::test]
async fn a_model_that_never_ends_is_stopped_at_the_default_bound() {
    let shop = Shop::default();
    let model = ScriptedModel::endless(|n| {
        ScriptedTurn::calls(&n.to_string(), "read_file", &json!({ "path": n.to_string() }))
    });
    let agent = with(&model).tool(shop.read()).build().unwrap();
    let error = agent.chat("Go").await.unwrap_err();
    assert_eq!(error.code(), "too_many_iterations");
    assert_eq!(shop.ran().len(), DEFAULT_MAX_ITERATIONS as usize);
}

#[tokio::test]
async fn a_model_that_ends_with_the_last_turn_it_may_make_is_not_stopped() {
    let shop = Shop::default();
    for (most, ends) in [(2, true), (1, false)] {
        let model = calling("read_file", &json!({ "path": "a" }));
        let agent = with(&model).tool(shop.read()).max_iterations(most).build().unwrap();
        assert_eq!(agent.chat("Go").await.is_ok(), ends, "{most}");
    }
}

#[tokio::test]
async fn panics_become_error_results_wherever_they_happen() {
    let shop = Shop::default();
    let in_the_future = Shop::tool("late", |_| async { panic!("late trouble") });
    let before_it = AgentTool::new("early").describe("Panics.").handler(
        |_: ToolCtx, _: Nothing| -> std::future::Ready<Result<String, ToolError>> { panic!("early trouble") },
    );
    for (tool, name) in [(in_the_future, "late"), (before_it, "early")] {
        let agent = with(&calling(name, &json!({}))).tool(tool).post_hook(shop.watcher()).build().unwrap();
        let (told, is_error) = only_result(&agent.chat("Go").await.unwrap());
        assert_eq!((told, is_error), (format!("Tool failed: the tool panicked: {name} trouble"), true));
    }
    assert_eq!(shop.seen().len(), 2);
}

#[tokio::test]
async fn a_provider_that_panics_approves_nothing() {
    let shop = Shop::default();
    let panics = |_: countersign_agent::ConfirmationRequest| async {
        if true {
            panic!("the prompt broke");
        }
        Ok::<Verdict, countersign_agent::ProviderError>(Verdict::Approve)
    };
    let agent = with(&deleting()).tool(shop.delete()).confirmation(panics).build().unwrap();
    let (told, _) = only_result(&agent.chat("Go").await.unwrap());
    assert_eq!(told, "Confirmation error: the confirmation provider panicked");
    assert_eq!(shop.ran().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_confirmation_that_nobody_gives_in_time_is_a_rejection() {
    let shop = Shop::default();
    let agent = with(&deleting())
        .tool(shop.delete())
        .confirmation(shop.nobody_answers())
        .confirmation_timeout(Duration::from_secs(30))
        .build()
        .unwrap();
    let told = only_result(&agent.chat("Go").await.unwrap());
    let expected = "Tool call requires confirmation — rejected by user: nobody decided within 30s";
    assert_eq!(told, (expected.to_owned(), true));
    assert_eq!(shop.ran().len(), 0);
}
