//! Seed 004, "Tool Confirmation", paragraph by paragraph.

use std::sync::{Arc, Mutex};

use countersign_agent::providers::{AlwaysApprove, ByPredicate, ChannelConfirmation};
use countersign_agent::toolset::StaticToolset;
use countersign_agent::{
    Agent, AgentEvent, AgentTool, ConfirmationRequest, HookError, HookVerdict, ProviderError, ToolUse,
    Toolset, Verdict,
};
use futures_util::StreamExt;
use serde_json::json;

use crate::shop::{SOON, Shop, calling, deleting, only_result, with};

#[tokio::test]
async fn setup_a_provider_is_called_whenever_a_tool_requires_confirmation_and_true_approves() {
    let shop = Shop::default();
    let agent =
        with(&deleting()).tool(shop.delete()).confirmation(shop.somebody(true.into())).build().unwrap();
    let reply = agent.chat("Delete old records").await.unwrap();
    assert_eq!(reply.text, "Done.");
    assert_eq!(shop.asked().len(), 1);
    assert_eq!(shop.ran(), ["delete_records logs all"]);
    assert_eq!(only_result(&reply), ("deleted".to_owned(), false));
}

#[tokio::test]
async fn setup_false_rejects_and_the_model_is_told_so() {
    let shop = Shop::default();
    let agent =
        with(&deleting()).tool(shop.delete()).confirmation(shop.somebody(false.into())).build().unwrap();
    let reply = agent.chat("Delete old records").await.unwrap();
    assert_eq!(shop.ran(), [""; 0]);
    let told = "Tool call requires confirmation — rejected by user".to_owned();
    assert_eq!(only_result(&reply), (told, true));
}

#[tokio::test]
async fn setup_a_reason_reaches_the_model() {
    let shop = Shop::default();
    let no = shop.somebody(Verdict::reject("these are this year's"));
    let agent = with(&deleting()).tool(shop.delete()).confirmation(no).build().unwrap();
    let reply = agent.chat("Delete old records").await.unwrap();
    let told = "Tool call requires confirmation — rejected by user: these are this year's".to_owned();
    assert_eq!(only_result(&reply), (told, true));
}

#[tokio::test]
async fn setup_a_provider_that_fails_fails_the_call_with_its_error() {
    let shop = Shop::default();
    let broken = |_: ConfirmationRequest| async { Err::<Verdict, ProviderError>("the line is dead".into()) };
    let agent = with(&deleting()).tool(shop.delete()).confirmation(broken).build().unwrap();
    let reply = agent.chat("Delete old records").await.unwrap();
    assert_eq!(only_result(&reply), ("Confirmation error: the line is dead".to_owned(), true));
    assert_eq!(shop.ran(), [""; 0]);
}

#[tokio::test]
async fn declarative_confirmation_asks_before_run_also_where_the_tool_is_not_destructive() {
    let shop = Shop::default();
    let ran = shop.clone();
    let tool = AgentTool::new("publish").describe("Publishes.").require_confirmation().handler(
        move |_: countersign_agent::ToolCtx, _: crate::shop::Nothing| {
            ran.note("publish");
            async { Ok::<_, countersign_sdk::ToolError>("published") }
        },
    );
    let model = calling("publish", &json!({}));
    let agent = with(&model).tool(tool).confirmation(shop.somebody(Verdict::Approve)).build().unwrap();
    agent.chat("Publish").await.unwrap();
    assert_eq!((shop.asked().len(), shop.ran()), (1, vec!["publish".to_owned()]));
}

#[tokio::test]
async fn declarative_confirmation_without_a_provider_runs_only_where_the_program_says_unattended() {
    let shop = Shop::default();
    let error = with(&deleting()).tool(shop.delete()).build().err().unwrap();
    assert_eq!(error.code(), "no_confirmation_provider");
    let agent = with(&deleting()).tool(shop.delete()).unattended().build().unwrap();
    agent.chat("Delete old records").await.unwrap();
    assert_eq!(shop.ran(), ["delete_records logs all"]);
}

#[tokio::test]
async fn dynamic_confirmation_asks_from_inside_where_the_tool_finds_it_needs_to() {
    let shop = Shop::default();
    for (amount, asked) in [(10_000, 0), (10_001, 1)] {
        let model = calling("transfer", &json!({ "amount": amount }));
        let yes = shop.somebody(Verdict::Approve);
        let agent = with(&model).tool(shop.transfer()).confirmation(yes).build().unwrap();
        let reply = agent.chat("Transfer").await.unwrap();
        assert_eq!(only_result(&reply), ("Transfer complete".to_owned(), false));
        assert_eq!(shop.asked().len(), asked);
    }
    assert_eq!(shop.ran(), ["transfer 10000", "transfer 10001"]);
}

#[tokio::test]
async fn dynamic_confirmation_that_is_rejected_halts_the_tool() {
    let shop = Shop::default();
    let model = calling("transfer", &json!({ "amount": 20_000 }));
    for (verdict, told) in [
        (false.into(), "Tool execution halted — confirmation rejected by user"),
        (Verdict::reject("too much"), "Tool execution halted — confirmation rejected by user: too much"),
    ] {
        let agent = with(&calling("transfer", &json!({ "amount": 20_000 })))
            .tool(shop.transfer())
            .confirmation(shop.somebody(verdict))
            .build()
            .unwrap();
        let reply = agent.chat("Transfer").await.unwrap();
        assert_eq!(only_result(&reply), (told.to_owned(), true));
    }
    drop(model);
    assert_eq!(shop.ran(), [""; 0]);
}

#[tokio::test]
async fn dynamic_confirmation_is_a_no_op_where_the_program_says_unattended() {
    let shop = Shop::default();
    let model = calling("transfer", &json!({ "amount": 20_000 }));
    let agent = with(&model).tool(shop.transfer()).unattended().build().unwrap();
    agent.chat("Transfer").await.unwrap();
    assert_eq!(shop.ran(), ["transfer 20000"]);
}

#[tokio::test]
async fn a_declarative_request_has_neither_hint_nor_payload() {
    let shop = Shop::default();
    let agent =
        with(&deleting()).tool(shop.delete()).confirmation(shop.somebody(Verdict::Approve)).build().unwrap();
    agent.chat("Delete old records").await.unwrap();
    let asked = shop.asked();
    // The default is written out: the person sees what will run.
    let input = json!({ "table": "logs", "rows": "all" });
    let whole = ConfirmationRequest::new("call-1", "delete_records", input);
    assert_eq!(asked, [ConfirmationRequest { id: asked[0].id, ..whole }]);
}

#[tokio::test]
async fn a_dynamic_request_carries_what_the_tool_passed() {
    let shop = Shop::default();
    let model = calling("transfer", &json!({ "amount": 20_000 }));
    let agent =
        with(&model).tool(shop.transfer()).confirmation(shop.somebody(Verdict::Approve)).build().unwrap();
    agent.chat("Transfer").await.unwrap();
    let asked = shop.asked().remove(0);
    assert_eq!(asked.hint.as_deref(), Some("Large transfer exceeding $10,000"));
    assert_eq!(asked.payload, Some(json!({ "amount": 20_000 })));
    assert_eq!(asked.tool_call_id, "call-1");
}

#[tokio::test]
async fn toolset_level_confirmation_covers_every_tool_and_leaves_the_originals_alone() {
    let shop = Shop::default();
    let originals = Arc::new(StaticToolset::new("reading", [shop.read()]));
    let confirmed = Arc::clone(&originals).with_confirmation();
    let tools = originals.tools().await.unwrap();
    assert!(tools.iter().all(|tool| !tool.requires_confirmation()), "the originals are as they were");
    let model = calling("read_file", &json!({ "path": "a" }));
    let no = shop.somebody(Verdict::Reject { reason: None });
    let agent = with(&model).toolset(confirmed).confirmation(no).build().unwrap();
    agent.chat("Read").await.unwrap();
    assert_eq!((shop.asked().len(), shop.ran().len()), (1, 0));
}

#[tokio::test]
async fn streaming_tells_that_confirmation_is_required_before_the_provider_blocks() {
    let shop = Shop::default();
    let agent = with(&deleting()).tool(shop.delete()).confirmation(shop.nobody_answers()).build().unwrap();
    let mut stream = agent.chat_stream("Delete old records");
    let request = loop {
        let next =
            tokio::time::timeout(SOON, stream.next()).await.expect("it is told before anybody answers");
        match next.expect("the chat waits") {
            AgentEvent::ConfirmationRequired(request) => break request,
            AgentEvent::Complete(_) | AgentEvent::Error(_) => panic!("nobody answered"),
            _ => {}
        }
    };
    assert_eq!(
        (request.tool_name.as_str(), request.input["table"].as_str()),
        ("delete_records", Some("logs"))
    );
}

#[tokio::test]
async fn streaming_consumer_unblocks_a_channel_based_provider() {
    let shop = Shop::default();
    let (provider, confirmations) = ChannelConfirmation::new();
    let agent = with(&deleting()).tool(shop.delete()).confirmation(provider).build().unwrap();
    let mut stream = agent.chat_stream("Delete old records");
    let mut printed = String::new();
    while let Some(event) = tokio::time::timeout(SOON, stream.next()).await.expect("somebody answers") {
        match event {
            AgentEvent::ConfirmationRequired(request) => {
                printed.push_str(&format!("[{} {}]", request.tool_name, request.input["table"]));
                confirmations.respond(&request, Verdict::Approve).await.unwrap();
            }
            AgentEvent::ContentDelta { text } => printed.push_str(&text),
            AgentEvent::Complete(reply) => assert_eq!(reply.text, "Done."),
            _ => {}
        }
    }
    assert_eq!(printed, "[delete_records \"logs\"]Done.");
    assert_eq!(shop.ran().len(), 1);
}

#[tokio::test]
async fn hooks_run_before_confirmation_and_a_denial_never_reaches_the_provider() {
    let shop = Shop::default();
    let deny =
        |_: ToolUse| async { Ok::<_, HookError>(HookVerdict::Deny { reason: "blocklisted".to_owned() }) };
    let agent = with(&deleting())
        .tool(shop.delete())
        .pre_hook(deny)
        .confirmation(shop.somebody(Verdict::Approve))
        .build()
        .unwrap();
    let reply = agent.chat("Delete old records").await.unwrap();
    assert_eq!(only_result(&reply), ("Tool call denied: blocklisted".to_owned(), true));
    assert_eq!((shop.asked().len(), shop.ran().len()), (0, 0));
}

#[tokio::test]
async fn handoffs_use_the_new_agents_own_provider() {
    let (first, second) = (Shop::default(), Shop::default());
    let target = with(&deleting())
        .name("cleaner")
        .tool(second.delete())
        .confirmation(second.somebody(Verdict::Approve))
        .build()
        .unwrap();
    let agent = with(&calling("transfer_to_cleaner", &json!({})))
        .tool(first.delete())
        .confirmation(first.somebody(Verdict::Reject { reason: None }))
        .handoff(&target)
        .build()
        .unwrap();
    agent.chat("Delete old records").await.unwrap();
    assert_eq!((first.asked().len(), second.asked().len()), (0, 1));
    assert_eq!(second.ran(), ["delete_records logs all"]);
}

#[tokio::test]
async fn auto_approve_always() {
    let shop = Shop::default();
    let agent = with(&deleting()).tool(shop.delete()).confirmation(AlwaysApprove).build().unwrap();
    agent.chat("Delete old records").await.unwrap();
    assert_eq!(shop.ran().len(), 1);
}

#[tokio::test]
async fn auto_approve_from_a_database_of_pre_approved_tools() {
    let shop = Shop::default();
    let approved = Arc::new(Mutex::new(vec!["delete_records".to_owned()]));
    for expected in [1, 1] {
        let database = Arc::clone(&approved);
        let look_up = move |request: ConfirmationRequest| {
            let known = database.lock().unwrap().contains(&request.tool_name);
            async move { Ok::<_, ProviderError>(known.into()) }
        };
        let agent = with(&deleting()).tool(shop.delete()).confirmation(look_up).build().unwrap();
        agent.chat("Delete old records").await.unwrap();
        assert_eq!(shop.ran().len(), expected, "the second time nothing is pre-approved");
        approved.lock().unwrap().clear();
    }
}

#[tokio::test]
async fn auto_approve_safe_tools_and_prompt_for_dangerous_ones() {
    let shop = Shop::default();
    let safe = |request: &ConfirmationRequest| request.tool_name == "read_file";
    for (name, input, asked) in
        [("read_file", json!({ "path": "a" }), 0), ("delete_records", json!({ "table": "logs" }), 1)]
    {
        let provider = ByPredicate::new(safe, shop.somebody(Verdict::Approve));
        let tools = StaticToolset::new("all", [shop.read(), shop.delete()]).with_confirmation();
        let agent: Agent =
            with(&calling(name, &input)).toolset(tools).confirmation(provider).build().unwrap();
        agent.chat("Go").await.unwrap();
        assert_eq!(shop.asked().len(), asked);
    }
    assert_eq!(shop.ran(), ["read_file a", "delete_records logs all"]);
}
