//! `echo.say`: answers its input.

use countersign_sdk::{Ctx, Tool, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
struct Said {
    /// What to say.
    text: String,
}

pub(super) fn say() -> Tool {
    Tool::new("echo.say")
        .name("Echo")
        .describe("Answers what it is given.")
        .read_only()
        .handler(async |_: Ctx, input: Said| -> Result<Said, ToolError> { Ok(input) })
}
