//! A foreign tool whose handler takes the bare arguments: its effects are known only at run time, so no foreign handler may.

use countersign_sdk::{Ctx, Effects, Tool, ToolError};
use serde_json::{Value, json};

fn main() {
    let effects = Effects { destructive: true, ..Effects::default() };
    let Ok(tool) = Tool::foreign("files.delete", json!({}), None, effects) else { return };
    let _ = tool.handler(async |_: Ctx, input: Value| -> Result<Value, ToolError> { Ok(input) });
}
