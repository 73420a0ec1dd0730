//! What the agent costs, as a table with medians. Run by `cargo xtask bench`; nothing here is asserted.
#![expect(clippy::disallowed_methods, reason = "a bench measures with the real clock")]

use std::time::{Duration, Instant};

use countersign_agent::model::{ScriptedModel, ScriptedTurn};
use countersign_agent::providers::AlwaysApprove;
use countersign_agent::{
    Agent, AgentBuilder, AgentTool, HookError, HookVerdict, ToolCtx, ToolOutcome, ToolUse,
};
use countersign_sdk::ToolError;
use futures_util::StreamExt;
use serde_json::json;

/// How many turns a sample has, and how many calls a turn.
const TURNS: usize = 1_000;
const CALLS: usize = 4;
const SAMPLES: usize = 9;

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Number {
    n: usize,
}

fn main() -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    println!("{:<66} {:>16}   reach", "what", "median");
    runtime.block_on(async { tokio::spawn(all()).await? })
}

async fn all() -> Result<(), Failure> {
    let bare = |builder: AgentBuilder| builder.unattended();
    measured("a call of 4 parallel ones, 1,000 scripted turns, chat", bare, Told::ToNobody).await?;
    measured("the same, streamed", bare, Told::ToAReader).await?;
    let whole = |builder: AgentBuilder| {
        builder
            .pre_hook(|_: ToolUse| async { Ok::<_, HookError>(HookVerdict::Continue) })
            .post_hook(|_: ToolUse, _: ToolOutcome| async {})
            .confirmation(AlwaysApprove)
    };
    measured("the same, with hooks and a confirmation each", whole, Told::ToAReader).await
}

/// Whether anybody reads the events.
#[derive(Clone, Copy)]
enum Told {
    ToNobody,
    ToAReader,
}

async fn measured(
    what: &str,
    build: impl Fn(AgentBuilder) -> AgentBuilder,
    told: Told,
) -> Result<(), Failure> {
    let mut samples = Vec::new();
    for _ in 0..SAMPLES {
        let agent = build(agent()).build()?;
        let begun = Instant::now();
        match told {
            Told::ToNobody => drop(agent.chat("Go").await?),
            Told::ToAReader => drop(agent.chat_stream("Go").count().await),
        }
        samples.push(begun.elapsed() / (TURNS * CALLS) as u32);
    }
    samples.sort_unstable();
    let median: Duration = samples.get(SAMPLES / 2).copied().unwrap_or_default();
    println!("{what:<66} {:>16}   ≤ 20 µs", format!("{median:?}"));
    Ok(())
}

fn agent() -> AgentBuilder {
    let tool = AgentTool::new("double")
        .describe("Doubles a number.")
        .destructive()
        .handler(async |_: ToolCtx, input: Number| -> Result<usize, ToolError> { Ok(input.n * 2) });
    let model = ScriptedModel::endless(|number| {
        if number >= TURNS {
            return ScriptedTurn::says("Done.");
        }
        (0..CALLS).fold(ScriptedTurn::default(), |turn, n| {
            turn.and_calls(&format!("call-{number}-{n}"), "double", &json!({ "n": n }))
        })
    });
    Agent::builder().model(model).tool(tool).max_iterations(TURNS as u32 + 1)
}
