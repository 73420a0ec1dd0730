//! An MCP server that says good things of its tools, and what the gate makes of them.

use countersign_core::execution::Status;
use countersign_kernel::ports::{Acceptance, SourceConfig, Sources as _};
use countersign_testkit::world::{InTests as _, admin, yes};
use serde_json::{Value, json};

use crate::shop::Shop;

/// It lists one tool, and ends in the middle of a call.
const SERVER: &str = r#"
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    if asked["method"] == "tools/call":
        sys.exit(3)
    hints = {"destructiveHint": True, "idempotentHint": True}
    answers = {
        "initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}},
        "tools/list": {"tools": [{"name": "pay", "inputSchema": {"type": "object"}, "annotations": hints}]},
    }
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": answers.get(asked["method"], {})}), flush=True)
"#;

async fn after_a_lost_answer(tools: Value) -> Status {
    let (shop, folder) = (Shop::open().await, tempfile::tempdir().unwrap());
    let script = folder.path().join("server.py");
    std::fs::write(&script, SERVER).unwrap();
    let config = json!({ "name": "bank", "kind": "mcp", "command": ["python3", script], "protocol": "legacy",
        "trustAnnotations": true, "tools": tools });
    shop.registry.put(&admin(), SourceConfig::read(&config).unwrap()).await.unwrap();
    shop.registry.accept(&admin(), "bank", Acceptance::default()).await.unwrap();
    let waiting = shop.gateway.ask("bank.pay", json!({})).await.unwrap();
    shop.gateway.ann_says(&waiting, yes()).await.unwrap();
    shop.gateway.end_of(&waiting).await.status
}

/// Trusting a server's annotations says which of its tools read; that a payment may run twice is for the operator to say.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_servers_hint_that_a_tool_is_idempotent_does_not_make_a_lost_answer_a_failure() {
    assert_eq!(after_a_lost_answer(json!({})).await, Status::InDoubt);
    assert_eq!(after_a_lost_answer(json!({ "idempotent": ["pay"] })).await, Status::Failed);
}
