//! A handler started with a permit made by hand: where the door is open, its field is still not for others.

use countersign_sdk::permit::Permit;
use countersign_sdk::{Authority, Ctx, Tool};

fn run(tool: &Tool, ctx: Ctx) {
    let permit = Permit { authority: Some(Authority::Rule { rule: "my own".into() }) };
    drop(tool.run(ctx, permit, serde_json::json!({})));
}

fn main() {
    let _ = run;
}
