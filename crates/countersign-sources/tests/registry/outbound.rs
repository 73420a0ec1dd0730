//! What a source is never reached with: a certificate nobody vouches for, an address the operator did not open, a document
//! larger than its bound.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::body::{Body, Bytes};
use countersign_kernel::ports::{Acceptance, SourceConfig, SourceDetail, Sources as _, SourcesError};
use countersign_testkit::world::{InTests as _, admin};
use serde_json::{Value, json};

use crate::changing::eventually;
use crate::shop::{Shop, document};

const MAX_DOCUMENT_BYTES: usize = 32 << 20;

/// An HTTPS server with a certificate that it made itself; it ends with the test.
struct SelfSigned {
    folder: tempfile::TempDir,
    process: Child,
}

impl SelfSigned {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("https.mjs"), include_str!("https.mjs")).unwrap();
        let made = Command::new("openssl")
            .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"])
            .args(["-days", "2", "-subj", "/CN=localhost"])
            .args(["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"])
            .args(["-keyout", "key.pem", "-out", "cert.pem"])
            .current_dir(folder.path())
            .output()
            .expect("openssl can be started");
        assert!(made.status.success(), "{made:?}");
        let process = Command::new("node")
            .args(["https.mjs", "."])
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .spawn()
            .expect("node can be started; install Node, any version from 18");
        let server = Self { folder, process };
        eventually(|| server.folder.path().join("port").exists()).await;
        server
    }

    fn url(&self) -> String {
        let port = std::fs::read_to_string(self.folder.path().join("port")).unwrap();
        format!("https://localhost:{port}")
    }

    fn requests(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("ledger")).unwrap_or_default()
    }
}

impl Drop for SelfSigned {
    fn drop(&mut self) {
        let _ = self.process.kill().and_then(|()| self.process.wait());
    }
}

/// A server that answers every request with this body; its URL.
async fn serving(body: impl Fn() -> Body + Clone + Send + Sync + 'static) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let app = Router::new().fallback(move || std::future::ready(body()));
    tokio::spawn(async move { axum::serve(listener, app).await });
    url
}

async fn added(shop: &Shop, config: Value) -> Result<SourceDetail, SourcesError> {
    shop.registry.put(&admin(), SourceConfig::read(&config).unwrap()).await
}

/// Fills a document up with blanks to this length.
fn padded(mut text: String, length: usize) -> Bytes {
    text.push_str(&" ".repeat(length - text.len()));
    text.into()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_that_nobody_vouches_for_is_refused_for_documents_servers_and_calls() {
    let (shop, server) = (Shop::open().await, SelfSigned::start().await);
    let url = server.url();
    for config in [
        json!({ "name": "doc", "kind": "openapi", "document": format!("{url}/openapi.json"), "allowPrivate": true }),
        json!({ "name": "graph", "kind": "graphql", "url": format!("{url}/graphql"), "allowPrivate": true }),
        json!({ "name": "mcp", "kind": "mcp", "url": format!("{url}/mcp"), "allowPrivate": true }),
    ] {
        let refused = added(&shop, config).await.unwrap_err();
        assert_eq!(refused.code(), "source_unreachable", "{refused}");
        assert!(refused.to_string().contains("certificate"), "{refused}");
    }
    shop.write_server(&url);
    shop.added().await;
    let end = shop.gateway.ask("shop.orders.list", json!({})).await.unwrap();
    let error = end.error.unwrap();
    assert!(error.code == "unreachable" && error.message.contains("certificate"), "{error:?}");
    assert_eq!(server.requests(), "", "no request, and so no credential, reached it");
}

/// As a literal and behind a name, for everything that a source reads.
#[tokio::test]
async fn documents_and_endpoints_at_private_addresses_are_refused_unless_the_operator_says_so() {
    let shop = Shop::open().await;
    let document = shop.service.serves(document("Lists the orders.", &shop.service.url));
    let named = document.replace("127.0.0.1", "localhost");
    for place in [&document, &named] {
        for config in [
            json!({ "name": "doc", "kind": "openapi", "document": place }),
            json!({ "name": "graph", "kind": "graphql", "url": place }),
            json!({ "name": "sdl", "kind": "graphql", "url": "https://shop.example/graphql", "schema": place }),
            json!({ "name": "mcp", "kind": "mcp", "url": place }),
        ] {
            let refused = added(&shop, config.clone()).await.unwrap_err();
            assert!(refused.to_string().contains("allow_private"), "{config}: {refused}");
        }
    }
    assert_eq!(shop.service.asked(), [""; 0], "nothing was sent");
    let opened = json!({ "name": "doc", "kind": "openapi", "document": named, "allowPrivate": true });
    assert_eq!(added(&shop, opened).await.unwrap().summary.new, 2);
}

#[tokio::test]
async fn a_document_or_endpoint_at_a_metadata_service_is_refused_whatever_the_operator_allows() {
    let shop = Shop::open().await;
    for host in ["169.254.169.254", "[::ffff:169.254.169.254]", "2852039166"] {
        let place = format!("http://{host}/latest/meta-data/");
        for config in [
            json!({ "name": "doc", "kind": "openapi", "document": place, "allowPrivate": true }),
            json!({ "name": "graph", "kind": "graphql", "url": place, "allowPrivate": true }),
            json!({ "name": "mcp", "kind": "mcp", "url": place, "allowPrivate": true }),
        ] {
            let refused = added(&shop, config).await.unwrap_err();
            assert!(refused.to_string().contains("never reached"), "{host}: {refused}");
        }
    }
}

/// Calls of a source whose schema came from a file: the endpoint is checked when it is called.
#[tokio::test]
async fn a_graphql_endpoint_that_resolves_to_a_private_address_is_not_called() {
    let shop = Shop::open().await;
    let schema = shop.document().with_file_name("schema.graphql");
    std::fs::write(&schema, "type Query { hello: String }").unwrap();
    let url = format!("{}/graphql", shop.service.url.replace("127.0.0.1", "localhost"));
    added(&shop, json!({ "name": "graph", "kind": "graphql", "url": url, "schema": schema })).await.unwrap();
    shop.registry.accept(&admin(), "graph", Acceptance::default()).await.unwrap();
    let end = shop.gateway.ask("graph.query.hello", json!({})).await.unwrap();
    assert_eq!(end.error.unwrap().code, "address_refused");
    assert_eq!(shop.service.asked(), [""; 0], "nothing was sent");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_document_is_read_up_to_its_bound_from_a_file_and_from_a_url() {
    let shop = Shop::open().await;
    let text = document("Lists the orders.", &shop.service.url).to_string();
    for (extra, is_read) in [(0, true), (1, false)] {
        let bytes = padded(text.clone(), MAX_DOCUMENT_BYTES + extra);
        std::fs::write(shop.document(), &bytes).unwrap();
        let url = serving(move || Body::from(bytes.clone())).await;
        for place in [shop.document().display().to_string(), url] {
            let config = json!({ "name": "doc", "kind": "openapi", "document": place, "allowPrivate": true });
            match added(&shop, config).await {
                Ok(detail) => assert!(is_read && detail.summary.new == 2, "{place}: {extra}"),
                Err(error) => {
                    assert!(!is_read && error.to_string().contains("33554432 bytes"), "{place}: {error}");
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_introspection_is_read_up_to_its_bound() {
    let shop = Shop::open().await;
    let scalar = json!({ "kind": "SCALAR", "name": "String" });
    let field = json!({ "name": "hello", "args": [], "type": scalar });
    let query = json!({ "kind": "OBJECT", "name": "Query", "fields": [field] });
    let schema = json!({ "queryType": { "name": "Query" }, "types": [query, scalar], "directives": [] });
    let text = json!({ "data": { "__schema": schema } }).to_string();
    for (extra, is_read) in [(0, true), (1, false)] {
        let bytes = padded(text.clone(), MAX_DOCUMENT_BYTES + extra);
        let url = serving(move || Body::from(bytes.clone())).await;
        match added(&shop, json!({ "name": "graph", "kind": "graphql", "url": url, "allowPrivate": true }))
            .await
        {
            Ok(detail) => assert!(is_read && detail.summary.new == 1, "{extra}"),
            Err(error) => assert!(!is_read && error.to_string().contains("33554432 bytes"), "{error}"),
        }
    }
}

/// A document of a gigabyte is cut at the bound: what was sent beyond it is no more than what the sockets hold.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_document_and_an_introspection_of_a_gigabyte_are_cut() {
    const GIGABYTE_IN_CHUNKS: usize = 1024;
    let shop = Shop::open().await;
    let chunk = Bytes::from(vec![b' '; 1 << 20]);
    let sent = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&sent);
    let url = serving(move || {
        let (chunk, counted) = (chunk.clone(), Arc::clone(&counted));
        let chunks = (0..GIGABYTE_IN_CHUNKS).map(move |_| {
            counted.fetch_add(1, Ordering::SeqCst);
            Ok::<_, std::io::Error>(chunk.clone())
        });
        Body::from_stream(futures_util::stream::iter(chunks))
    })
    .await;
    for config in [
        json!({ "name": "doc", "kind": "openapi", "document": url, "allowPrivate": true }),
        json!({ "name": "graph", "kind": "graphql", "url": url, "allowPrivate": true }),
    ] {
        sent.store(0, Ordering::SeqCst);
        let refused = added(&shop, config).await.unwrap_err();
        assert!(refused.to_string().contains("more than 33554432 bytes"), "{refused}");
        let megabytes = sent.load(Ordering::SeqCst);
        assert!(megabytes < 128, "{megabytes} MiB were read");
    }
}
