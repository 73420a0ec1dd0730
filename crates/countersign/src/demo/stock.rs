//! `stock.check`: asks a person for something that it cannot know.

use countersign_sdk::{Ctx, Form, Tool, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Nothing;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Warehouse {
    /// The warehouse's id, such as WH-7.
    warehouse_id: String,
}

/// Either the warehouse with its units, or that the person did not want to say.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Stock {
    #[serde(skip_serializing_if = "Option::is_none")]
    warehouse_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    units: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cancelled: Option<bool>,
}

pub(super) fn check() -> Tool {
    Tool::new("stock.check")
        .name("Check Stock")
        .describe("Says how many units a warehouse has; asks a person which.")
        .read_only()
        .handler(async |ctx: Ctx, _: Nothing| -> Result<Stock, ToolError> {
            let answer = ctx.elicit(Form::<Warehouse>::new("Which warehouse should I check?")).await?;
            Ok(match answer {
                Some(Warehouse { warehouse_id }) => Stock {
                    units: Some(units(&warehouse_id)),
                    warehouse_id: Some(warehouse_id),
                    cancelled: None,
                },
                None => Stock { cancelled: Some(true), ..Stock::default() },
            })
        })
}

/// Every warehouse has some stock, and always the same.
fn units(warehouse: &str) -> u32 {
    warehouse.bytes().fold(7, |sum: u32, byte| (sum * 31 + u32::from(byte)) % 500)
}
