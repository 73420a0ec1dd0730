//! How a source may be reached, as its configuration says it: addresses, a proxy, a provider; and what a started program gets.

use countersign_kernel::ports::{
    Acceptance, ElicitationFilter, McpQuestions, Page, SourceConfig, SourceKind, Sources as _, ToolSettings,
};
use countersign_testkit::world::{InTests as _, admin};
use serde_json::{Value, json};

use crate::shop::Shop;

const LIST: &str = "shop.orders.list";

/// Adds a source, accepts what it offers and calls its read.
async fn listed(shop: &Shop, config: SourceConfig) -> Result<Value, String> {
    shop.registry.put(&admin(), config).await.unwrap();
    shop.registry.accept(&admin(), "shop", Acceptance::default()).await.unwrap();
    let read = shop.gateway.ask(LIST, json!({})).await.unwrap();
    read.value.ok_or_else(|| read.error.unwrap().code)
}

#[tokio::test]
async fn a_private_address_is_reached_where_its_host_or_its_network_is_named() {
    for (hosts, networks, is_reached) in [
        (vec!["127.0.0.1"], vec![], true),
        (vec![], vec!["127.0.0.0/8"], true),
        (vec!["other.example"], vec!["10.0.0.0/8"], false),
    ] {
        let shop = Shop::open().await;
        let owned = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect();
        let config = SourceConfig {
            allow_private: false,
            allow_hosts: owned(&hosts),
            allow_networks: owned(&networks),
            ..shop.config()
        };
        let read = listed(&shop, config).await;
        assert_eq!(read.is_ok(), is_reached, "{hosts:?} {networks:?}: {read:?}");
        assert_eq!(shop.service.asked().len(), usize::from(is_reached));
    }
}

/// The service stands for the proxy: the name in the document leads nowhere.
#[tokio::test]
async fn a_source_with_a_proxy_is_called_through_it() {
    let shop = Shop::open().await;
    shop.write_server("http://shop.example.invalid");
    let config = SourceConfig { proxy: Some(shop.service.url.clone()), ..shop.config() };
    assert_eq!(listed(&shop, config).await.unwrap()["orders"], json!(["a"]));
    assert_eq!(shop.service.asked(), ["GET /orders"]);
}

#[tokio::test]
async fn a_source_that_names_a_provider_is_configured_and_its_calls_say_that_there_are_no_connections() {
    let shop = Shop::open().await;
    let config = SourceConfig { provider: Some("github".into()), credentials: vec![], ..shop.config() };
    assert_eq!(listed(&shop, config).await.unwrap_err(), "auth_not_available");
    assert_eq!(shop.service.asked(), [""; 0], "nothing was sent");
    let detail = shop.registry.show("shop").await.unwrap();
    assert!(detail.warnings.iter().any(|warning| warning.contains("auth_not_available")), "{detail:?}");
}

#[tokio::test]
async fn a_destructive_call_of_a_source_without_its_credential_fails_before_anybody_is_asked() {
    let shop = Shop::open().await;
    let config = SourceConfig { provider: Some("github".into()), credentials: vec![], ..shop.config() };
    shop.registry.put(&admin(), config).await.unwrap();
    shop.registry.accept(&admin(), "shop", Acceptance::default()).await.unwrap();
    let end = shop.gateway.ask("shop.orders.create", json!({ "body": { "what": "tea" } })).await.unwrap();
    let error = end.error.clone().unwrap_or_else(|| panic!("it asks: {end:?}"));
    assert_eq!(error.code, "auth_not_available");
    assert!(error.message.contains("bearer_env"), "it says how to set it up: {}", error.message);
    let asked = shop.gateway.elicitations(ElicitationFilter::default(), Page::first(10)).await.unwrap();
    assert!(asked.items.is_empty(), "nobody was asked: {asked:?}");
    assert_eq!(shop.service.asked(), [""; 0], "nothing was sent");
}

#[tokio::test]
async fn a_proxy_or_network_that_makes_no_sense_is_refused_when_the_source_is_added() {
    let shop = Shop::open().await;
    for config in [
        SourceConfig { proxy: Some("proxy:3128".into()), ..shop.config() },
        SourceConfig { allow_networks: vec!["10.1".into()], ..shop.config() },
        SourceConfig { allow_hosts: vec!["http://x".into()], ..shop.config() },
    ] {
        assert_eq!(shop.registry.put(&admin(), config).await.unwrap_err().code(), "invalid_source");
    }
    assert!(shop.registry.list().await.is_empty());
}

/// `roots` asks its client for its roots during a call. `pair` answers a call when there are two of them.
const SERVER: &str = r#"
import json, sys
waiting = []
client = {}
def answer(id, result):
    print(json.dumps({"jsonrpc": "2.0", "id": id, "result": result}), flush=True)
def text(id, value):
    answer(id, {"content": [{"type": "text", "text": json.dumps(value)}]})
for line in sys.stdin:
    said = json.loads(line)
    if said.get("id") == "asked":
        text(waiting.pop(), said["result"]["roots"])
    elif said.get("method") == "initialize":
        client = said["params"]["capabilities"]
        answer(said["id"], {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}})
    elif said.get("method") == "tools/list":
        answer(said["id"], {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ["roots", "pair"]]})
    elif said.get("method") == "tools/call":
        waiting.append(said["id"])
        if said["params"]["name"] == "roots":
            print(json.dumps({"jsonrpc": "2.0", "id": "asked", "method": "roots/list"}), flush=True)
        elif len(waiting) == 2:
            while waiting:
                text(waiting.pop(), sorted(client))
    elif "id" in said:
        answer(said["id"], {})
"#;

async fn with_server(change: impl FnOnce(&mut McpQuestions, &mut Vec<std::path::PathBuf>)) -> Shop {
    let shop = Shop::open().await;
    let script = shop.document().with_file_name("server.py");
    std::fs::write(&script, SERVER).unwrap();
    let config =
        json!({ "name": "shop", "kind": "mcp", "command": ["python3", script], "protocol": "legacy" });
    let mut config = SourceConfig::read(&config).unwrap();
    config.tools = ToolSettings { read_only: vec!["**".to_owned()], ..ToolSettings::default() };
    let SourceKind::Mcp { questions, roots, .. } = &mut config.kind else { panic!("{config:?}") };
    change(questions, roots);
    shop.registry.put(&admin(), config).await.unwrap();
    shop.registry.accept(&admin(), "shop", Acceptance::default()).await.unwrap();
    shop
}

async fn said(shop: &Shop, tool: &str) -> Value {
    let read = shop.gateway.ask(tool, json!({})).await.unwrap();
    let value = read.value.unwrap_or_else(|| panic!("{:?}", read.error));
    serde_json::from_str(value["content"][0]["text"].as_str().unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_started_program_is_told_of_the_roots_that_the_operator_named() {
    let shop = with_server(|_, roots| roots.push("/srv/my docs".into())).await;
    assert_eq!(said(&shop, "shop.roots").await, json!([{ "uri": "file:///srv/my%20docs" }]));
    let none = with_server(|_, _| ()).await;
    assert_eq!(said(&none, "shop.roots").await, json!([]));
}

/// The second call would else wait for the end of the first, which waits for the second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_may_ask_nobody_takes_calls_side_by_side() {
    let shop = with_server(|questions, _| *questions = McpQuestions::Refuse).await;
    let (one, other) = tokio::join!(said(&shop, "shop.pair"), said(&shop, "shop.pair"));
    assert_eq!((one, other), (json!([]), json!([])), "it is told that nobody can be asked");
}
