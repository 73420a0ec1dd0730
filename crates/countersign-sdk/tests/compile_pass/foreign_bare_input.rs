//! The twin of the foreign tool with a bare input: its handler takes what only the gateway makes.

use countersign_sdk::{Ctx, Effects, ForeignInput, Tool, ToolError};
use serde_json::{Value, json};

fn main() {
    let effects = Effects { destructive: true, ..Effects::default() };
    let Ok(tool) = Tool::foreign("files.delete", json!({}), None, effects) else { return };
    let _ = tool
        .handler(async |_: Ctx, input: ForeignInput| -> Result<Value, ToolError> { Ok(input.into_inner()) });
}
