//! A handler started without any permit.

use countersign_sdk::{Ctx, Tool};

fn run(tool: &Tool, ctx: Ctx) {
    drop(tool.run(ctx, serde_json::json!({})));
}

fn main() {
    let _ = run;
}
