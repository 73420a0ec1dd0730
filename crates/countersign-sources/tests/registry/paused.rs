//! An MCP server behind a URL that keeps failing: its calls are refused for a while, and its source says so.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use countersign_kernel::ports::{Acceptance, SourceConfig, SourceHealth, Sources as _};
use countersign_testkit::world::{InTests as _, admin};
use serde_json::{Value, json};

use crate::shop::Shop;

/// A server of the 2025 era with one tool that only reads; its URL, and the switch that makes it answer 503.
async fn failing() -> (String, Arc<AtomicBool>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let is_down = Arc::new(AtomicBool::new(false));
    let down = Arc::clone(&is_down);
    let app = Router::new().fallback(async move |body: String| answer(&body, down.load(Ordering::SeqCst)));
    tokio::spawn(async move { axum::serve(listener, app).await });
    (url, is_down)
}

fn answer(body: &str, is_down: bool) -> Response {
    if is_down {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    let message: Value = serde_json::from_str(body).unwrap_or_default();
    let result = match message["method"].as_str() {
        Some("initialize") => {
            json!({ "protocolVersion": "2025-06-18", "capabilities": { "tools": {} }, "serverInfo": { "name": "s", "version": "1" } })
        }
        Some("tools/list") => {
            json!({ "tools": [{ "name": "look", "inputSchema": { "type": "object" } }] })
        }
        Some("tools/call") => json!({ "content": [] }),
        Some("notifications/initialized") => return StatusCode::ACCEPTED.into_response(),
        _ => return StatusCode::METHOD_NOT_ALLOWED.into_response(),
    };
    axum::Json(json!({ "jsonrpc": "2.0", "id": message["id"], "result": result })).into_response()
}

#[tokio::test]
async fn an_mcp_server_behind_a_url_that_keeps_failing_is_shown_as_paused() {
    let (url, is_down) = failing().await;
    let shop = Shop::open().await;
    let config = json!({
        "name": "far", "kind": "mcp", "url": url, "protocol": "legacy", "allowPrivate": true, "refresh": "never",
        "tools": { "readOnly": ["**"] },
    });
    shop.registry.put(&admin(), SourceConfig::read(&config).unwrap()).await.unwrap();
    shop.registry.accept(&admin(), "far", Acceptance::default()).await.unwrap();
    assert!(shop.gateway.ask("far.look", json!({})).await.unwrap().success());
    let before = shop.registry.list().await.remove(0);
    assert_eq!((before.health, before.problem), (SourceHealth::Ready, None));

    is_down.store(true, Ordering::SeqCst);
    for _ in 0..5 {
        assert!(!shop.gateway.ask("far.look", json!({})).await.unwrap().success());
    }
    let paused = shop.registry.list().await.remove(0);
    assert_eq!(paused.health, SourceHealth::Paused, "{paused:?}");
    assert!(paused.problem.unwrap().contains("tried again in "));
}
