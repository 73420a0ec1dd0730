//! A handler started with a permit: where the door is shut, a tool's author cannot even name one.

use countersign_sdk::permit::Permit;
use countersign_sdk::{Ctx, Tool};

fn run(tool: &Tool, ctx: Ctx, permit: Permit) {
    drop(tool.run(ctx, permit, serde_json::json!({})));
}

fn main() {
    let _ = run;
}
