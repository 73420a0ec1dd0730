//! All that a tool's author can do with a tool: look at it, check input and output, and read the question.

use countersign_sdk::{Ctx, Tool, ToolError};
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
struct Note {
    id: u64,
}

fn main() {
    let tool = Tool::new("notes.read")
        .name("Read")
        .describe("Reads.")
        .handler(async |_: Ctx, input: Note| -> Result<u64, ToolError> { Ok(input.id) });
    assert!(tool.path().is_ok() && tool.input_schema().is_ok() && tool.output_schema().is_ok());
    let admitted = tool.admit(serde_json::json!({ "id": 1 })).unwrap();
    assert!(tool.message(&admitted).is_none());
    assert!(tool.check_output(&serde_json::json!(1)).is_ok());
    assert_eq!(tool.definition().path, "notes.read");
}
