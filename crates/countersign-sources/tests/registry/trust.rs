//! A source whose changes the operator trusts: what it adds and changes is callable without a person, and nothing else differs.

use countersign_core::execution::Status;
use countersign_kernel::ports::{SourceConfig, SourceKind, Sources as _, ToolStanding};
use countersign_sources::{Reading, SourceRegistry};
use countersign_testkit::world::{InTests as _, admin};
use serde_json::json;

use crate::changing::{Changing, Era, Transport, eventually, tool};
use crate::shop::{Shop, document, order};

const LIST: &str = "shop.orders.list";
const CREATE: &str = "shop.orders.create";
const SEARCH: &str = "shop.orders.search";

/// The shop with one more operation, and another description of the first.
fn write_grown(shop: &Shop) {
    let mut grown = document("Lists every order.", &shop.service.url);
    let ok = json!({ "200": { "description": "ok" } });
    grown["paths"]["/orders/search"]["get"] = json!({ "operationId": "orders/search", "responses": ok });
    std::fs::write(shop.document(), grown.to_string()).unwrap();
}

#[tokio::test]
async fn with_trust_what_is_new_or_changed_is_callable_at_once_and_recorded_as_accepted_by_nobody() {
    let shop = Shop::open().await;
    let trusting = SourceConfig { trust_changes: true, ..shop.config() };
    let detail = shop.registry.put(&admin(), trusting).await.unwrap();
    assert_eq!((detail.summary.callable, detail.summary.new), (2, 0));
    assert!(shop.gateway.ask(LIST, json!({})).await.unwrap().success());
    write_grown(&shop);
    let detail = shop.registry.refresh("shop").await.unwrap();
    let summary = detail.summary;
    assert_eq!((summary.callable, summary.new, summary.changed), (3, 0, 0));
    assert!(shop.gateway.ask(LIST, json!({})).await.unwrap().success(), "the changed one");
    assert!(shop.gateway.ask(SEARCH, json!({})).await.unwrap().success(), "the new one");
    let pins = shop.gateway.source_tools("shop").await.unwrap();
    assert!(pins.len() == 3 && pins.iter().all(|pin| pin.accepted_by.is_none()), "{pins:?}");
}

/// The same source, the same changes: only the setting differs.
#[tokio::test]
async fn without_trust_neither_a_new_nor_a_changed_tool_is_callable() {
    let shop = Shop::open().await;
    shop.added().await;
    write_grown(&shop);
    let summary = shop.registry.refresh("shop").await.unwrap().summary;
    assert_eq!((summary.callable, summary.new, summary.changed), (1, 1, 1));
    for path in [LIST, SEARCH] {
        assert_eq!(shop.gateway.ask(path, json!({})).await.unwrap_err().code(), "tool_not_found", "{path}");
    }
    assert_eq!(shop.standing(SEARCH).await, ToolStanding::New);
}

/// Trust is in what the tools are, never in what was approved of them (R14).
#[tokio::test]
async fn with_trust_a_destructive_tool_still_asks_and_a_change_withdraws_its_question() {
    let shop = Shop::open().await;
    let trusting = SourceConfig { trust_changes: true, ..shop.config() };
    shop.registry.put(&admin(), trusting).await.unwrap();
    let waiting = shop.gateway.ask(CREATE, order()).await.unwrap();
    assert!(waiting.paused().is_some(), "it is gated like every other");
    let mut changed = document("Lists the orders.", &shop.service.url);
    changed["paths"]["/orders"]["post"]["description"] = json!("Places an order, and pays it.");
    std::fs::write(shop.document(), changed.to_string()).unwrap();
    shop.registry.refresh("shop").await.unwrap();
    let end = shop.gateway.end_of(&waiting).await;
    assert_eq!(end.status, Status::Failed, "{end:?}");
    assert_eq!(shop.service.asked(), [""; 0], "nothing was sent");
    assert!(shop.gateway.ask(CREATE, order()).await.unwrap().paused().is_some(), "it is asked anew");
}

#[tokio::test]
async fn trust_of_a_source_in_the_file_counts_from_the_start() {
    let shop = Shop::open().await;
    for (trust_changes, callable) in [(false, 0), (true, 2)] {
        let configured = vec![SourceConfig { trust_changes, ..shop.config() }];
        let (gateway, secrets) = (shop.world.start().await, shop.secrets());
        let registry = SourceRegistry::start(gateway, configured, secrets, Reading::FromTheStart);
        let registry = registry.await.unwrap();
        registry.read_all().await;
        assert_eq!(registry.list().await[0].callable, callable, "trust: {trust_changes}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_trust_a_tool_that_a_running_server_adds_is_callable_without_a_person() {
    let first = tool("first", &json!({}));
    let server = Changing::start(Era::Legacy, Transport::Http, &json!([first])).await;
    let shop = Shop::open().await;
    let trusting = server.config_with(&json!({ "trustChanges": true }));
    assert!(matches!(trusting.kind, SourceKind::Mcp { .. }));
    assert_eq!(shop.registry.put(&admin(), trusting).await.unwrap().summary.callable, 1);
    server.is_heard().await;
    server.offers(&json!([first, tool("second", &json!({}))]));
    let gateway = shop.gateway.clone();
    let is_known = || gateway.catalog().get("upstream.second").is_some();
    eventually(is_known).await;
    assert!(shop.gateway.approved("upstream.second", json!({})).await.success());
    assert_eq!(server.ledger(), ["second"]);
}
