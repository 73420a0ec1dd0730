//! A destructive tool whose handler takes the bare input: nobody would have approved it.

use countersign_sdk::{Ctx, Tool, ToolError};
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
struct Note {
    id: u64,
}

fn main() {
    let _ = Tool::new("notes.delete")
        .destructive(|i: &Note| format!("Delete note {}?", i.id))
        .handler(async |_: Ctx, input: Note| -> Result<u64, ToolError> { Ok(input.id) });
}
