//! The one fixture: tools that write down that they ran, people who write down what they were asked, and models that say what
//! they are told to.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use countersign_agent::model::{ScriptedModel, ScriptedTurn};
use countersign_agent::{
    Agent, AgentBuilder, AgentTool, ConfirmationProvider, ConfirmationRequest, Message, OutcomeKind,
    ProviderError, Reply, ToolCtx, ToolOutcome, ToolUse, Verdict, request_confirmation,
};
use countersign_sdk::ToolError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// How long a test waits for something that must happen.
pub(crate) const SOON: Duration = Duration::from_secs(60);

/// What happened, in order. Clones are one shop.
#[derive(Clone, Default)]
pub(crate) struct Shop {
    ran: Arc<Mutex<Vec<String>>>,
    asked: Arc<Mutex<Vec<ConfirmationRequest>>>,
    seen: Arc<Mutex<Vec<(ToolUse, OutcomeKind)>>>,
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Delete {
    pub(crate) table: String,
    #[serde(default = "all")]
    pub(crate) rows: String,
}

fn all() -> String {
    "all".to_owned()
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct ReadFile {
    pub(crate) path: String,
}

#[derive(Deserialize, Serialize, JsonSchema)]
pub(crate) struct Transfer {
    pub(crate) amount: u64,
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Nothing {}

impl Shop {
    /// What ran, in order.
    pub(crate) fn ran(&self) -> Vec<String> {
        self.ran.lock().unwrap().clone()
    }

    /// Writes down that something ran.
    pub(crate) fn note(&self, what: impl Into<String>) {
        self.ran.lock().unwrap().push(what.into());
    }

    /// What people were asked, in order.
    pub(crate) fn asked(&self) -> Vec<ConfirmationRequest> {
        self.asked.lock().unwrap().clone()
    }

    /// What post-hooks saw, in order.
    pub(crate) fn seen(&self) -> Vec<(ToolUse, OutcomeKind)> {
        self.seen.lock().unwrap().clone()
    }

    /// A destructive tool.
    pub(crate) fn delete(&self) -> AgentTool {
        self.destroyer("delete_records")
    }

    /// A destructive tool of this name.
    pub(crate) fn destroyer(&self, name: &str) -> AgentTool {
        let (shop, what) = (self.clone(), name.to_owned());
        AgentTool::new(name).describe("Deletes records.").destructive().handler(
            move |_: ToolCtx, input: Delete| {
                shop.note(format!("{what} {} {}", input.table, input.rows));
                async { Ok::<_, ToolError>("deleted") }
            },
        )
    }

    /// A tool that only reads.
    pub(crate) fn read(&self) -> AgentTool {
        let shop = self.clone();
        AgentTool::new("read_file").describe("Reads a file.").handler(move |_: ToolCtx, input: ReadFile| {
            shop.note(format!("read_file {}", input.path));
            async move { Ok::<_, ToolError>(format!("contents of {}", input.path)) }
        })
    }

    /// The seed's tool that asks from inside, above 10,000.
    pub(crate) fn transfer(&self) -> AgentTool {
        let shop = self.clone();
        AgentTool::new("transfer").describe("Transfers money.").handler(
            move |ctx: ToolCtx, input: Transfer| {
                let shop = shop.clone();
                async move {
                    if input.amount > 10_000 {
                        request_confirmation(&ctx, "Large transfer exceeding $10,000", &input).await?;
                    }
                    shop.note(format!("transfer {}", input.amount));
                    Ok::<_, ToolError>("Transfer complete")
                }
            },
        )
    }

    /// A tool that does as the closure says.
    pub(crate) fn tool<Fut>(name: &str, work: impl Fn(ToolCtx) -> Fut + Send + Sync + 'static) -> AgentTool
    where
        Fut: Future<Output = Result<String, ToolError>> + Send + 'static,
    {
        AgentTool::new(name).describe("For a test.").handler(move |ctx: ToolCtx, _: Nothing| work(ctx))
    }

    /// Somebody who always says the same.
    pub(crate) fn somebody(&self, verdict: Verdict) -> impl ConfirmationProvider + use<> {
        let shop = self.clone();
        move |request: ConfirmationRequest| {
            shop.asked.lock().unwrap().push(request);
            let verdict = verdict.clone();
            async move { Ok::<_, ProviderError>(verdict) }
        }
    }

    /// Somebody who never answers.
    pub(crate) fn nobody_answers(&self) -> impl ConfirmationProvider + use<> {
        let shop = self.clone();
        move |request: ConfirmationRequest| {
            shop.asked.lock().unwrap().push(request);
            std::future::pending::<Result<Verdict, ProviderError>>()
        }
    }

    /// A post-hook that writes down what it saw.
    pub(crate) fn watcher(&self) -> impl countersign_agent::PostToolHook + use<> {
        let shop = self.clone();
        move |call: ToolUse, outcome: ToolOutcome| {
            shop.seen.lock().unwrap().push((call, outcome.kind));
            async {}
        }
    }
}

/// A model that makes one call and then says "Done.".
pub(crate) fn calling(name: &str, input: &Value) -> ScriptedModel {
    ScriptedModel::new([ScriptedTurn::calls("call-1", name, input), ScriptedTurn::says("Done.")])
}

/// A model that deletes logs and then says "Done.".
pub(crate) fn deleting() -> ScriptedModel {
    calling("delete_records", &json!({ "table": "logs" }))
}

/// An agent with this model.
pub(crate) fn with(model: &ScriptedModel) -> AgentBuilder {
    Agent::builder().model(model.clone())
}

/// What the calls of a conversation came to, in the order in which the model was told.
pub(crate) fn results(reply: &Reply) -> Vec<String> {
    let results = reply.messages.iter().filter_map(|message| match message {
        Message::Tool(result) => Some(result.content.clone()),
        _ => None,
    });
    results.collect()
}

/// The one result of a conversation with one call, and whether it is an error.
pub(crate) fn only_result(reply: &Reply) -> (String, bool) {
    let mut results = reply.messages.iter().filter_map(|message| match message {
        Message::Tool(result) => Some((result.content.clone(), result.is_error)),
        _ => None,
    });
    let result = results.next().expect("the call has a result");
    assert!(results.next().is_none(), "one call, one result");
    result
}

/// Waits until something holds.
pub(crate) async fn until(what: &str, holds: impl Fn() -> bool) {
    let waited = tokio::time::timeout(SOON, async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
    assert!(waited.await.is_ok(), "{what}");
}
