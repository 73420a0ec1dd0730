//! A published GraphQL server behind the gate: graphql-yoga from npm, reached over HTTP.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use countersign_kernel::ports::{Acceptance, SourceConfig, Sources as _};
use countersign_sdk::EffectClass;
use countersign_testkit::world::{InTests as _, admin, yes};
use serde_json::json;

use crate::shop::Shop;
use crate::toolbox::node_folder;

/// The server's process; it ends with the test.
struct Yoga {
    process: Child,
    url: String,
}

impl Yoga {
    fn start() -> Self {
        let mut process = Command::new("node")
            .arg("orders.mjs")
            .current_dir(node_folder())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("node can be started; install Node with npm, any version from 18");
        let mut port = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut port).unwrap();
        Self { process, url: format!("http://127.0.0.1:{}/graphql", port.trim()) }
    }
}

impl Drop for Yoga {
    fn drop(&mut self) {
        let _ = self.process.kill().and_then(|()| self.process.wait());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_graphql_servers_queries_flow_through_and_its_mutations_wait_for_a_person() {
    let (shop, yoga) = (Shop::open().await, Yoga::start());
    let config = json!({ "name": "yoga", "kind": "graphql", "url": yoga.url, "allowPrivate": true });
    let offered = shop.registry.put(&admin(), SourceConfig::read(&config).unwrap()).await.unwrap();
    let mut classes: Vec<_> = offered.tools.iter().map(|tool| (tool.path.as_str(), tool.effect)).collect();
    classes.sort_by_key(|(path, _)| *path);
    assert_eq!(
        classes,
        [
            ("yoga.mutation.place_order", EffectClass::Destroys),
            ("yoga.query.order", EffectClass::Reads),
            ("yoga.query.orders", EffectClass::Reads),
        ]
    );
    assert!(format!("{:?}", offered.unmapped).contains("placed"), "subscriptions are listed: {offered:?}");
    shop.registry.accept(&admin(), "yoga", Acceptance::default()).await.unwrap();

    let waiting = shop
        .gateway
        .ask("yoga.mutation.place_order", json!({ "order": { "what": "a bicycle" }, "fields": "id what" }))
        .await
        .unwrap();
    let bell = json!([{ "id": "1", "what": "a bell" }]);
    let fields = json!({ "fields": "id what" });
    let before = shop.gateway.ask("yoga.query.orders", fields.clone()).await.unwrap();
    assert_eq!(before.value, Some(bell), "nothing ran before the yes");
    shop.gateway.ann_says(&waiting, yes()).await.unwrap();
    let end = shop.gateway.end_of(&waiting).await;
    assert!(end.success() && end.value.as_ref().unwrap().to_string().contains("a bicycle"), "{end:?}");
    let after = shop.gateway.ask("yoga.query.orders", fields).await.unwrap();
    assert_eq!(after.value.unwrap().as_array().unwrap().len(), 2, "it was placed once");
}

/// It took effect, and one field of its answer could not be made: told as failed, an agent would order again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mutation_that_took_effect_and_answers_in_part_is_a_result_with_its_errors() {
    let (shop, yoga) = (Shop::open().await, Yoga::start());
    let config = json!({ "name": "yoga", "kind": "graphql", "url": yoga.url, "allowPrivate": true });
    shop.registry.put(&admin(), SourceConfig::read(&config).unwrap()).await.unwrap();
    shop.registry.accept(&admin(), "yoga", Acceptance::default()).await.unwrap();
    let order = json!({ "order": { "what": "a bicycle" }, "fields": "what price" });
    let waiting = shop.gateway.ask("yoga.mutation.place_order", order).await.unwrap();
    shop.gateway.ann_says(&waiting, yes()).await.unwrap();
    let end = shop.gateway.end_of(&waiting).await;
    assert!(end.success(), "{end:?}");
    let value = end.value.unwrap();
    assert_eq!(value["data"], json!({ "what": "a bicycle", "price": null }));
    assert_eq!(value["errors"][0]["message"], "the price list is away");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_of_a_graphql_server_are_told_beside_its_data() {
    let (shop, yoga) = (Shop::open().await, Yoga::start());
    let config = json!({ "name": "yoga", "kind": "graphql", "url": yoga.url, "allowPrivate": true });
    shop.registry.put(&admin(), SourceConfig::read(&config).unwrap()).await.unwrap();
    shop.registry.accept(&admin(), "yoga", Acceptance::default()).await.unwrap();
    let read =
        shop.gateway.ask("yoga.query.order", json!({ "id": "1", "fields": "what price" })).await.unwrap();
    let error = read.error.unwrap();
    assert_eq!(error.code, "upstream_error");
    assert!(
        error.message.contains("the price list is away") && error.message.contains("a bell"),
        "{error:?}"
    );
}
