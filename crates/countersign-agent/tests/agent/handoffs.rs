//! Hand-offs: another agent goes on, with its own model, tools, hooks and provider.

use countersign_agent::model::{ScriptedModel, ScriptedTurn};
use countersign_agent::{AgentEvent, HookError, HookVerdict, ToolUse, Verdict};
use futures_util::StreamExt;
use serde_json::json;

use crate::shop::{Shop, calling, deleting, results, with};

fn says(text: &str) -> ScriptedModel {
    ScriptedModel::new([ScriptedTurn::says(text)])
}

#[tokio::test]
async fn the_target_goes_on_with_the_conversation_its_own_instructions_and_its_own_tools() {
    let shop = Shop::default();
    let theirs = says("I am the expert.");
    let target = with(&theirs).name("expert").instructions("You know.").tool(shop.read()).build().unwrap();
    let ours = calling("transfer_to_expert", &json!({ "reason": "hard" }));
    let agent = with(&ours).handoff(&target).build().unwrap();
    let mut stream = agent.chat_stream("Help");
    let (mut handed, mut reply) = (None, None);
    while let Some(event) = stream.next().await {
        match event {
            AgentEvent::Handoff { from, to } => handed = Some((from, to)),
            AgentEvent::Complete(end) => reply = Some(end),
            _ => {}
        }
    }
    let reply = reply.unwrap();
    assert_eq!(handed, Some(("agent".into(), "expert".into())));
    assert_eq!((reply.text.as_str(), reply.agent.as_str()), ("I am the expert.", "expert"));
    let asked = &theirs.asked()[0];
    assert_eq!((asked.instructions.as_str(), asked.tools.join(" ")), ("You know.", "read_file".into()));
    assert_eq!(asked.messages.len(), 3, "the words, the transfer and its result");
    assert_eq!(ours.asked()[0].tools, ["transfer_to_expert"]);
}

#[tokio::test]
async fn a_target_with_destructive_tools_and_no_provider_does_not_build() {
    let shop = Shop::default();
    let error = with(&deleting()).name("cleaner").tool(shop.delete()).build().err().unwrap();
    assert_eq!(error.code(), "no_confirmation_provider");
}

#[tokio::test]
async fn a_target_that_was_built_unattended_runs_its_tools_without_confirmation() {
    let (ours, theirs) = (Shop::default(), Shop::default());
    let target = with(&deleting()).name("other").tool(theirs.delete()).unattended().build().unwrap();
    let model = calling("transfer_to_other", &json!({}));
    let agent = with(&model).confirmation(ours.nobody_answers()).handoff(&target).build().unwrap();
    agent.chat("Go").await.unwrap();
    assert_eq!((theirs.ran().len(), ours.asked().len()), (1, 0));
}

#[tokio::test]
async fn calls_beside_a_transfer_run_under_the_agent_that_made_them() {
    let (ours, theirs) = (Shop::default(), Shop::default());
    let target = with(&says("Here.")).name("other").tool(theirs.delete()).unattended().build().unwrap();
    let model = ScriptedModel::new([ScriptedTurn::calls("c1", "transfer_to_other", &json!({})).and_calls(
        "c2",
        "delete_records",
        &json!({ "table": "logs" }),
    )]);
    let agent = with(&model)
        .tool(ours.delete())
        .confirmation(ours.somebody(Verdict::Reject { reason: None }))
        .handoff(&target)
        .build()
        .unwrap();
    let reply = agent.chat("Go").await.unwrap();
    assert_eq!((ours.asked().len(), ours.ran().len(), theirs.ran().len()), (1, 0, 0));
    assert_eq!(results(&reply)[0], "Transferred to other.");
}

#[tokio::test]
async fn of_two_transfers_in_one_turn_the_first_counts() {
    let one = with(&says("one")).name("one").build().unwrap();
    let two = with(&says("two")).name("two").build().unwrap();
    let model = ScriptedModel::new([ScriptedTurn::calls("c1", "transfer_to_two", &json!({})).and_calls(
        "c2",
        "transfer_to_one",
        &json!({}),
    )]);
    let agent = with(&model).handoff(&one).handoff(&two).build().unwrap();
    let reply = agent.chat("Go").await.unwrap();
    assert_eq!(reply.text, "two");
    assert!(results(&reply)[1].starts_with("Only the first transfer"), "{:?}", results(&reply));
}

#[tokio::test]
async fn a_hook_can_deny_a_transfer() {
    let other = with(&says("other")).name("other").build().unwrap();
    let deny = |_: ToolUse| async { Ok::<_, HookError>(HookVerdict::Deny { reason: "stay".into() }) };
    let agent =
        with(&calling("transfer_to_other", &json!({}))).handoff(&other).pre_hook(deny).build().unwrap();
    let reply = agent.chat("Go").await.unwrap();
    assert_eq!((reply.agent.as_str(), results(&reply).join("")), ("agent", "Tool call denied: stay".into()));
}

#[tokio::test]
async fn the_bound_on_turns_holds_over_all_agents_together() {
    let shop = Shop::default();
    let endless =
        ScriptedModel::endless(|n| ScriptedTurn::calls(&n.to_string(), "read_file", &json!({ "path": "x" })));
    let target = with(&endless).name("other").tool(shop.read()).max_iterations(1_000).build().unwrap();
    let agent =
        with(&calling("transfer_to_other", &json!({}))).handoff(&target).max_iterations(5).build().unwrap();
    assert_eq!(agent.chat("Go").await.unwrap_err().code(), "too_many_iterations");
    assert_eq!(shop.ran().len(), 4);
}
