//! What does not build, and what it says.

use std::sync::Arc;

use countersign_agent::providers::AlwaysApprove;
use countersign_agent::toolset::{CompositeToolset, StaticToolset};
use countersign_agent::{Agent, BuildError, ToolCtx, Toolset};
use countersign_agent::{AgentBuilder, AgentTool};
use countersign_sdk::ToolError;

use crate::shop::{Shop, deleting, with};

fn refusal(builder: AgentBuilder) -> BuildError {
    builder.build().err().expect("it does not build")
}

#[test]
fn a_destructive_tool_without_anybody_to_ask_says_what_to_do() {
    let shop = Shop::default();
    let error = refusal(with(&deleting()).tool(shop.delete()).tool(shop.read()));
    insta::assert_snapshot!(error, @"delete_records needs confirmation and the agent has nobody to ask; give it .confirmation(provider), or call .unattended() to run everything without asking");
}

#[test]
fn toolsets_are_looked_into_however_they_are_wrapped() {
    let shop = Shop::default();
    let reading = || StaticToolset::new("reading", [shop.read()]);
    let deleting_too = || StaticToolset::new("both", [shop.read(), shop.delete()]);
    assert!(with(&deleting()).toolset(reading()).build().is_ok());
    for error in [
        refusal(with(&deleting()).toolset(reading().with_confirmation())),
        refusal(with(&deleting()).toolset(deleting_too())),
        refusal(with(&deleting()).toolset(deleting_too().filtered(|tool| tool.is_destructive()))),
        refusal(with(&deleting()).toolset(CompositeToolset::new(
            "all",
            [Arc::new(deleting_too().filtered(|tool| tool.name() != "x")) as Arc<dyn Toolset>],
        ))),
    ] {
        assert_eq!(error.code(), "no_confirmation_provider");
    }
    assert!(
        with(&deleting()).toolset(deleting_too().filtered(|tool| !tool.is_destructive())).build().is_ok()
    );
}

#[test]
fn a_provider_and_unattended_contradict_each_other() {
    let error = refusal(with(&deleting()).confirmation(AlwaysApprove).unattended());
    assert_eq!(error.code(), "contradiction");
}

#[test]
fn names_that_no_model_can_call_are_refused() {
    let shop = Shop::default();
    let long = "x".repeat(65);
    for name in ["", "delete records", "lösche", "a.b", long.as_str()] {
        assert_eq!(
            refusal(with(&deleting()).tool(shop.destroyer(name)).unattended()).code(),
            "bad_name",
            "{name}"
        );
        assert_eq!(refusal(with(&deleting()).name(name)).code(), "bad_name", "{name}");
    }
    assert!(with(&deleting()).tool(shop.destroyer(&"x".repeat(64))).unattended().build().is_ok());
}

#[test]
fn everything_else_that_is_missing_or_makes_no_sense_is_refused() {
    let shop = Shop::default();
    assert_eq!(refusal(Agent::builder()).code(), "no_model");
    let twice = with(&deleting()).tool(shop.read()).toolset(StaticToolset::new("more", [shop.read()]));
    assert_eq!(refusal(twice).code(), "duplicate_tool");
    assert_eq!(refusal(with(&deleting()).max_iterations(0)).code(), "zero_limit");
    assert_eq!(refusal(with(&deleting()).max_parallel_tools(0)).code(), "zero_limit");
    let no_object =
        AgentTool::new("text").handler(|_: ToolCtx, text: String| async move { Ok::<_, ToolError>(text) });
    assert_eq!(refusal(with(&deleting()).tool(no_object)).code(), "bad_schema");
}
