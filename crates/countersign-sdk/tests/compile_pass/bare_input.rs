//! The same tool with approved input; and a safe tool with the bare one.

use countersign_sdk::{Approved, Ctx, Tool, ToolError};
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
struct Note {
    id: u64,
}

fn main() {
    let _ = Tool::new("notes.delete")
        .destructive(|i: &Note| format!("Delete note {}?", i.id))
        .handler(async |_: Ctx, input: Approved<Note>| -> Result<u64, ToolError> { Ok(input.id) });
    let _ = Tool::new("notes.read").handler(async |_: Ctx, input: Note| -> Result<u64, ToolError> { Ok(input.id) });
}
