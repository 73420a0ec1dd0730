//! What clients see of the tools, and what calling them gives.

use countersign_server::mcp::Surface;
use serde_json::{Value, json};

use crate::client::{Era, code, execution, text};
use crate::house::House;

async fn names(house: &House) -> Vec<String> {
    let client = house.client(Era::July2026).await;
    let list = client.ask("tools/list", json!({})).await;
    let tools = list["result"]["tools"].as_array().unwrap();
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn every_tool_is_listed_with_its_hints_and_a_schema_that_admits_a_pause() {
    let house = House::open().await;
    for era in Era::ALL {
        let client = house.client(era).await;
        let list = client.ask("tools/list", json!({})).await["result"].clone();
        let named = |name: &str| -> Value {
            let tools = list["tools"].as_array().unwrap();
            tools.iter().find(|tool| tool["name"] == name).unwrap_or_else(|| panic!("{name}")).clone()
        };
        let destroy = named("lab__destroy");
        assert_eq!(destroy["title"], "Destroy");
        assert_eq!(destroy["inputSchema"]["type"], "object");
        assert_eq!(destroy["annotations"]["destructiveHint"], true);
        for name in ["lab__read", "lab__destroy", "lab__put", "shop__work"] {
            let hints = named(name)["annotations"].clone();
            assert!(hints.get("readOnlyHint").is_none(), "{name} does not say that it only reads: {hints}");
            for hint in ["destructiveHint", "idempotentHint", "openWorldHint"] {
                assert!(hints[hint].is_boolean(), "{name} {hint}: {hints}");
            }
        }
        assert_eq!(named("lab__read")["annotations"]["destructiveHint"], false);
        assert_eq!(named("shop__look")["annotations"]["readOnlyHint"], true);
        assert_eq!(named("lab__put")["annotations"]["idempotentHint"], true);
        assert_eq!(destroy["outputSchema"]["type"], "object");
        let either = destroy["outputSchema"]["anyOf"].as_array().unwrap();
        assert!(
            either[0]["properties"]["done"].is_object() && either[1]["properties"]["pending"].is_object()
        );
        assert!(
            either[0].get("$schema").is_none(),
            "a client that has not loaded the dialect refuses the tool"
        );
        assert!(named("shop__work").get("outputSchema").is_none(), "a text is no object");
        named("order-it");
        assert_eq!(list["cacheScope"] == "private", era == Era::July2026, "{era:?}");
    }
}

#[tokio::test]
async fn the_surface_chooses_what_is_listed() {
    let has = |names: &[String], name: &str| names.iter().any(|n| n == name);
    let both = names(&House::open().await).await;
    let tools = names(&House::with(|o| o.surface = Surface::Tools).await).await;
    let script = names(&House::with(|o| o.surface = Surface::Script).await).await;
    assert!(has(&both, "run") && has(&both, "lab__read"));
    assert!(!has(&tools, "run") && has(&tools, "lab__read") && has(&tools, "resume"));
    assert_eq!(script, ["run", "resume", "search_tools", "read_tool"]);
    let house = House::with(|o| o.surface = Surface::Script).await;
    let refused = house.client(Era::July2026).await;
    let refused = refused.ask("tools/call", json!({ "name": "lab__read", "arguments": {} })).await;
    assert_eq!(refused["error"]["data"]["code"], "tool_not_found", "what is not listed cannot be called");
}

#[tokio::test]
async fn a_cursor_that_is_not_of_the_list_is_refused() {
    let client = House::open().await.client(Era::July2026).await;
    let refused = client.ask("tools/list", json!({ "cursor": "9999999" })).await;
    assert_eq!(refused["error"]["code"], -32602);
    assert_eq!(refused["error"]["data"]["code"], "bad_cursor");
}

#[tokio::test]
async fn a_call_that_only_reads_answers_with_its_output_and_its_execution() {
    let house = House::open().await;
    for era in Era::ALL {
        let result = house.client(era).await.call("lab__read", json!({ "what": "x" })).await;
        assert_eq!(result["structuredContent"], json!({ "what": "x" }), "{era:?}");
        assert_eq!(text(&result), r#"{"what":"x"}"#);
        assert!(execution(&result).starts_with("exec_"));
        assert_eq!(result["resultType"] == "complete", era == Era::July2026);
    }
}

#[tokio::test]
async fn an_unknown_tool_is_the_protocols_failure() {
    let client = House::open().await.client(Era::November2025).await;
    let refused = client.ask("tools/call", json!({ "name": "lab.read", "arguments": {} })).await;
    assert_eq!(refused["error"]["code"], -32602);
    assert_eq!(refused["error"]["data"]["code"], "tool_not_found");
}

#[tokio::test]
async fn arguments_that_do_not_fit_are_the_models_to_mend_with_all_violations() {
    let client = House::open().await.client(Era::July2026).await;
    let refused = client.call("lab__slow", json!({ "ms": "x", "more": 1 })).await;
    assert_eq!(code(&refused), "invalid_input");
    assert!(text(&refused).contains("ms") && text(&refused).contains("more"), "{refused}");
    assert!(refused.get("structuredContent").is_none(), "clients hold it against the tool's schema");
}

#[tokio::test]
async fn tools_are_found_and_read() {
    let client = House::open().await.client(Era::July2026).await;
    let found = client.call("search_tools", json!({ "query": "destroy", "limit": 1 })).await;
    let hits = found["structuredContent"]["tools"].as_array().unwrap();
    assert_eq!(hits.len(), 1);
    assert_eq!(hits[0]["mcpName"], "lab__destroy");
    let read = client.call("read_tool", json!({ "path": "lab.destroy" })).await;
    assert_eq!(read["structuredContent"]["effects"]["destructive"], true);
    assert!(read["structuredContent"]["declaration"].as_str().unwrap().contains("destroy"));
    let missed = client.call("read_tool", json!({ "path": "lab.destroi" })).await;
    assert_eq!(code(&missed), "tool_not_found");
    assert!(text(&missed).contains("lab.destroy"), "{missed}");
}

#[tokio::test]
async fn a_client_learns_who_serves_and_how_waiting_works() {
    let client = House::open().await.client(Era::July2026).await;
    let found = client.ask("server/discover", json!({})).await["result"].clone();
    assert_eq!(found["supportedVersions"], json!(["2025-06-18", "2025-11-25", "2026-07-28"]), "{found}");
    assert_eq!(found["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "countersign", "{found}");
    assert!(found["instructions"].as_str().unwrap().contains("resume"));
    assert_eq!(found["capabilities"]["tools"]["listChanged"], true);
}
