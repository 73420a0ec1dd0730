//! A server with five thousand tools, from its acceptance to the page that shows it.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::ledger::{eventually, node};
use crate::server::{Home, INITIALIZE, INITIALIZED};
use crate::toolbox::node_folder;

const TOOLS: usize = 5_000;
/// No answer is larger than this, whatever a source offers.
const MAX_ANSWER_BYTES: usize = 4 << 20;
/// Nothing takes this long but on a machine that has no time for it: the program is not optimised here.
const LONGEST: Duration = Duration::from_secs(20);

/// Does something, and holds that it does not take for ever.
async fn in_time<T>(what: &str, work: impl Future<Output = T>) -> T {
    let begun = Instant::now();
    let done = work.await;
    let took = begun.elapsed();
    println!("{what}: {took:.1?}");
    assert!(took < LONGEST, "{what}: {took:?}");
    done
}

/// What a request of MCP comes to, in a session of its own.
async fn over_mcp(home: &Home, method: &str, params: Value) -> Value {
    let request = json!({ "jsonrpc": "2.0", "id": 2, "method": method, "params": params }).to_string();
    let said = home.client("agent").over_mcp(&[INITIALIZE, INITIALIZED, &request]).await;
    let answer = &said[2];
    assert!(answer.len() <= MAX_ANSWER_BYTES + (64 << 10), "{method}: {} bytes", answer.len());
    // As one JSON body, or as the last event of a stream.
    let text = answer.rsplit("data: ").next().and_then(|text| text.lines().next()).unwrap_or_default();
    let answer: Value = serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"));
    assert!(answer["error"].is_null(), "{method}: {answer}");
    answer["result"].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_thousand_tools_are_accepted_listed_found_called_and_shown() {
    let mut home = Home::served();
    let script = node_folder().join("hostile.mjs").display().to_string();
    let (node, count) = (node().display().to_string(), TOOLS.to_string());
    let begun = Instant::now();
    let flags = ["--protocol", "legacy", "--read-only", "tool_4711", "--"];
    let words = [&["mcp", "many"][..], &flags, &[&node, &script, "many", &count]].concat();
    assert_eq!(home.added(&words), TOOLS as u64);
    println!("added and accepted: {:.1?}", begun.elapsed());

    let admin = home.client("admin");
    let listed = in_time("the REST list", admin.list("/api/tools?")).await;
    let of_the_source = |path: &Value| path.as_str().is_some_and(|path| path.starts_with("many.tool_"));
    assert_eq!(listed.iter().filter(|tool| of_the_source(&tool["path"])).count(), TOOLS);
    let first = in_time("the first part", admin.status("/api/tools")).await.1;
    assert!(first.len() < MAX_ANSWER_BYTES, "{} bytes", first.len());

    let search = json!({ "name": "search_tools", "arguments": { "query": "tool 4711", "limit": 10 } });
    let found = in_time("search_tools", over_mcp(&home, "tools/call", search)).await;
    let text = found.to_string();
    assert!(text.contains("many.tool_4711") && text.len() < 64 << 10, "{} bytes: {text}", text.len());

    assert_eq!(
        listed_over_mcp(&home).await,
        0,
        "so many tools are found by search and are no part of the list"
    );
    let call = json!({ "name": "many__tool_4711", "arguments": {} });
    let said = in_time("a call over MCP", over_mcp(&home, "tools/call", call)).await;
    assert!(said["content"][0]["text"].as_str().unwrap().starts_with("call 1 of"), "{said}");

    let page = in_time("the source's page", home.page("/sources/many")).await;
    assert!(page.contains("many.tool_0") && page.len() < 2 * MAX_ANSWER_BYTES, "{} bytes", page.len());
    let page = in_time("the tools' page", home.page("/tools")).await;
    assert!(page.len() < MAX_ANSWER_BYTES, "{} bytes", page.len());
    let detail = in_time("the source over REST", admin.status("/api/sources/many")).await.1;
    assert!(detail.contains("many.tool_4999"));

    let end = home.approved("many.tool_4712", &json!({}));
    assert_eq!(end["status"], "succeeded", "{end:#}");

    assert!(home.terminate().success());
    home.started_by(|command| command.env("COUNTERSIGN_MCP_SURFACE", "tools").spawn().unwrap());
    eventually("the source is read again", || {
        home.said(&["source", "show", "many", "--json"])["health"] == "ready"
    });
    assert_eq!(in_time("the whole list over MCP", listed_over_mcp(&home)).await, TOOLS);
}

/// How many tools of the source are in the list that MCP clients are given, part by part.
async fn listed_over_mcp(home: &Home) -> usize {
    let (mut count, mut cursor, mut parts) = (0, Value::Null, 0);
    loop {
        let params = if cursor.is_null() { json!({}) } else { json!({ "cursor": cursor }) };
        let part = over_mcp(home, "tools/list", params).await;
        let names = part["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap());
        count += names.filter(|name| name.starts_with("many__tool_")).count();
        cursor = part["nextCursor"].clone();
        parts += 1;
        assert!(parts < TOOLS, "the list never ends");
        if cursor.is_null() {
            return count;
        }
    }
}
