//! What a client cancels over REST is cancelled at the upstream.

use serde_json::json;

use crate::changing::{Changing, Era, Transport, eventually, tool};
use crate::ledger::node;
use crate::server::Home;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_that_is_cancelled_over_rest_is_cancelled_at_the_upstream() {
    let server = Changing::start(Era::Legacy, Transport::Stdio, &json!([tool("wait", &json!({}))])).await;
    let (home, node, command) = (Home::served(), node().display().to_string(), server.command());
    let flags = ["mcp", "upstream", "--protocol", "legacy", "--read-only", "wait", "--", &node];
    let words: Vec<&str> = flags.into_iter().chain(command[1..].iter().map(String::as_str)).collect();
    home.added(&words);
    let agent = home.client("agent");
    let call = json!({ "tool": "upstream.wait", "args": {}, "waitMs": 1 });
    let begun = agent.post("/api/executions", &call).await;
    eventually(|| server.ledger() == ["wait"]).await;
    let route = format!("/api/executions/{}/cancel", begun["executionId"].as_str().unwrap());
    let end = agent.post(&route, &json!({})).await;
    assert_eq!(end["status"], "cancelled", "{end:#}");
    eventually(|| server.ledger() == ["wait", "cancelled"]).await;
}
