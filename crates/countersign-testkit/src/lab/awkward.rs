//! Tools that behave as they should not: one asks after it acted, two bring the process down.

use countersign_sdk::{Approval, Approved, Ctx, Plugin, Tool, ToolError};
use serde_json::json;

use super::{Done, What, enter, happen};
use crate::ledger::Ledger;

/// The question that `awkward.act_then_ask` asks after it has acted.
pub const SECOND_QUESTION: &str = "And the rest?";

/// The plugin of these tools.
pub fn plugin(ledger: &Ledger) -> Plugin {
    Plugin::new("awkward", "Awkward", "Tools that behave as they should not.")
        .tool(act_then_ask(ledger))
        .tool(fatal(ledger))
        .tool(fatal_put(ledger))
}

/// Acts, then asks whether to go on. Entered from the top, it would act twice.
fn act_then_ask(ledger: &Ledger) -> Tool {
    let ledger = ledger.clone();
    Tool::new("awkward.act_then_ask")
        .name("Act, then ask")
        .describe("Destroys something, and then asks whether to destroy the rest.")
        .destructive(|i: &What| format!("Destroy \"{}\", and perhaps the rest?", i.what))
        .handler(move |ctx: Ctx, input: Approved<What>| {
            let ledger = ledger.clone();
            async move {
                enter(&ctx, &ledger);
                happen(&ctx, &ledger, &input.what).await;
                let rest = Approval::new(SECOND_QUESTION).args(json!({ "rest": input.what }));
                let yes = ctx.elicit(rest).await?.approved;
                if yes {
                    happen(&ctx, &ledger, SECOND_QUESTION).await;
                }
                Ok::<_, ToolError>(Done { done: yes })
            }
        })
}

/// Reads, and brings the process down.
fn fatal(ledger: &Ledger) -> Tool {
    let ledger = ledger.clone();
    Tool::new("awkward.fatal").name("Fatal").describe("Brings the process down.").read_only().handler(
        move |ctx: Ctx, input: What| {
            let ledger = ledger.clone();
            async move {
                enter(&ctx, &ledger);
                ledger.bring_down().await;
                Ok::<_, ToolError>(input)
            }
        },
    )
}

/// Puts something in its place, and brings the process down.
fn fatal_put(ledger: &Ledger) -> Tool {
    let ledger = ledger.clone();
    Tool::new("awkward.fatal_put")
        .name("Fatal put")
        .describe("Puts something in its place, which may be repeated, and brings the process down.")
        .idempotent()
        .destructive(|i: &What| format!("Put \"{}\"?", i.what))
        .handler(move |ctx: Ctx, input: Approved<What>| {
            let ledger = ledger.clone();
            async move {
                enter(&ctx, &ledger);
                happen(&ctx, &ledger, &input.what).await;
                ledger.bring_down().await;
                Ok::<_, ToolError>(Done { done: true })
            }
        })
}
