//! How a source's calls went, as REST and the console tell it.

use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use serde_json::{Value, json};

use crate::server::Home;

/// How long the service takes for each answer.
const PAUSE: Duration = Duration::from_millis(60);

/// A slow service with one operation that works and one that does not; the address of it.
async fn slow() -> String {
    let works = get(async || {
        tokio::time::sleep(PAUSE).await;
        axum::Json(json!({ "ok": true }))
    });
    let fails = get(async || {
        tokio::time::sleep(PAUSE).await;
        StatusCode::NOT_FOUND
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let app = Router::new().route("/works", works).route("/fails", fails);
    tokio::spawn(async move { axum::serve(listener, app).await });
    url
}

fn document(server: &str) -> Value {
    let operation =
        |id: &str| json!({ "get": { "operationId": id, "responses": { "200": { "description": "ok" } } } });
    json!({
        "openapi": "3.1.0",
        "info": { "title": "Slow", "version": "1" },
        "servers": [{ "url": server }],
        "paths": { "/works": operation("look/works"), "/fails": operation("look/fails") },
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_calls_errors_and_mean_time_of_a_source_are_those_of_its_real_calls() {
    let (home, service) = (Home::served(), slow().await);
    let file = home.data().join("slow.json");
    std::fs::write(&file, document(&service).to_string()).unwrap();
    home.added(&["openapi", "slow", file.to_str().unwrap(), "--allow-private"]);
    let (admin, agent) = (home.client("admin"), home.client("agent"));
    let before = admin.get("/api/sources/slow").await;
    assert_eq!(before["calls"], json!({ "calls": 0, "errors": 0, "meanMs": 0 }), "{before:#}");
    assert!(home.page("/sources/slow").await.contains("none since the server started"));

    for (tool, status) in
        [("slow.look.works", "succeeded"), ("slow.look.works", "succeeded"), ("slow.look.fails", "failed")]
    {
        let end = agent.post("/api/executions", &json!({ "tool": tool, "args": {} })).await;
        assert_eq!(end["status"], status, "{end:#}");
    }
    // A call that is refused before it is sent is none of the source's.
    let refused =
        agent.try_post("/api/executions", &json!({ "tool": "slow.look.works", "args": { "no": 1 } })).await;
    assert_eq!(refused.unwrap().0, 422);

    let found = admin.get("/api/sources/slow").await;
    let (calls, errors, mean_ms) =
        (&found["calls"]["calls"], &found["calls"]["errors"], found["calls"]["meanMs"].as_u64().unwrap());
    assert_eq!((calls, errors), (&json!(3), &json!(1)), "{found:#}");
    let least = u64::try_from(PAUSE.as_millis()).unwrap();
    assert!((least..60_000).contains(&mean_ms), "{mean_ms} ms");
    let listed = admin.get("/api/sources").await;
    assert_eq!(listed["items"][0]["calls"], found["calls"], "the list says the same");

    let page = home.page("/sources/slow").await;
    let said = format!("3 calls, 1 failed, {mean_ms} ms on average");
    assert!(page.contains(&said), "{said}: {page}");
    let list = home.page("/sources").await;
    assert!(list.contains(&format!(">{mean_ms} ms<")), "{list}");
}
