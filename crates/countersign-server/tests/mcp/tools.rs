//! Tools beside those of the lab: one that tells how far it is, and forms of every kind.

use countersign_sdk::{Ctx, Form, Plugin, Tool, ToolError};
use countersign_testkit::lab::{Nothing, happen};
use countersign_testkit::ledger::Ledger;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

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
        .tool(Tool::new("shop.wait").name("Wait").describe("Waits until it is cancelled.").handler(
            move |ctx: Ctx, _: Nothing| {
                let ledger = ledger.clone();
                async move {
                    ctx.cancelled().await;
                    happen(&ctx, &ledger, "heard of it").await;
                    Ok::<_, ToolError>("stopped".to_owned())
                }
            },
        ))
}
