//! Tools beside those of the lab: one that tells how far it is, and forms of every kind; and a hook that takes its time.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use countersign_kernel::{HookCall, HookError, HookVerdict, PreHook};
use countersign_sdk::{Approved, Ctx, Form, Plugin, Tool, ToolError};
use countersign_testkit::lab::{Nothing, happen};
use countersign_testkit::ledger::Ledger;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

/// What is to be destroyed for the hook to take its time over it.
pub(crate) const SLOWLY: &str = "slowly";
/// How long the hook takes. A front that stops is not waited for much longer.
const ITS_TIME: Duration = Duration::from_millis(400);

/// A hook that takes its time. Clones are one.
#[derive(Clone)]
pub(crate) struct SlowHook {
    calls: Arc<Semaphore>,
}

impl SlowHook {
    pub(crate) fn new() -> Self {
        Self { calls: Arc::new(Semaphore::new(0)) }
    }

    /// Waits for the next call that it takes its time over.
    pub(crate) async fn until_called(&self) {
        self.calls.acquire().await.unwrap().forget();
    }
}

#[async_trait]
impl PreHook for SlowHook {
    async fn before(&self, call: HookCall<'_>) -> Result<HookVerdict, HookError> {
        if call.args["what"] == SLOWLY {
            self.calls.add_permits(1);
            tokio::time::sleep(ITS_TIME).await;
        }
        Ok(HookVerdict::Continue)
    }
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Fields {
    /// Who.
    #[schemars(extend("format" = "email", "default" = "a@b.c"))]
    mail: String,
    #[schemars(extend("pattern" = "^x"))]
    code: Option<String>,
    #[schemars(extend("default" = true))]
    urgent: bool,
    #[schemars(schema_with = "size")]
    size: String,
    #[schemars(schema_with = "colours")]
    colours: Vec<String>,
}

fn size(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "type": "string", "oneOf": [
        { "const": "s", "title": "Small" }, { "const": "l", "title": "Large" }
    ] })
}

fn colours(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "type": "array", "minItems": 1, "items": { "type": "string", "enum": ["red", "blue"] } })
}

pub(crate) fn plugin(ledger: &Ledger) -> Plugin {
    let ledger = ledger.clone();
    Plugin::new("shop", "Shop", "More tools for tests.")
        .tool(
            Tool::new("shop.order")
                .mcp_name("order-it")
                .name("Order")
                .describe("Asks for an order.")
                .handler(async |ctx: Ctx, _: Nothing| -> Result<Value, ToolError> {
                    let filled = ctx.elicit(Form::<Fields>::new("What shall it be?")).await?;
                    Ok(json!({ "order": filled }))
                }),
        )
        .tool(
            Tool::new("shop.look")
                .name("Look")
                .describe("Only looks.")
                .read_only()
                .handler(async |_: Ctx, _: Nothing| -> Result<String, ToolError> { Ok("seen".to_owned()) }),
        )
        .tool(Tool::new("shop.work").name("Work").describe("Tells how far it is.").handler(
            async |ctx: Ctx, _: Nothing| -> Result<String, ToolError> {
                ctx.logger().debug("a detail", Value::Null);
                ctx.logger().info("begun", json!({ "n": 1 }));
                ctx.progress(1.0, Some(2.0), "half");
                ctx.progress(1.0, Some(2.0), "still half");
                ctx.progress(2.0, Some(2.0), "");
                ctx.logger().warn("nearly", Value::Null);
                Ok("worked".into())
            },
        ))
        .tool(
            Tool::new("shop.sweep")
                .name("Sweep")
                .describe("Destroys what a background job wants destroyed.")
                .service_account_allowed()
                .destructive(|_: &Nothing| "Sweep?".to_owned())
                .handler(async |_: Ctx, _: Approved<Nothing>| Ok::<_, ToolError>("swept".to_owned())),
        )
        .tool(Tool::new("shop.wait").name("Wait").describe("Waits until it is cancelled.").handler(
            move |ctx: Ctx, _: Nothing| {
                let ledger = ledger.clone();
                async move {
                    ctx.progress(5.0, Some(10.0), "half");
                    ctx.cancelled().await;
                    happen(&ctx, &ledger, "heard of it").await;
                    Ok::<_, ToolError>("stopped".to_owned())
                }
            },
        ))
}
