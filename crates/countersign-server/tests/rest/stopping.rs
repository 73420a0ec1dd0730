//! Stopping: whoever is being served is answered, handlers come to their end, and what waits is there afterwards.

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::Instant;

use crate::house::{House, PATIENCE, Who, until};

const A_WHILE: Duration = Duration::from_millis(150);
/// Below how long anybody asked to wait.
const SOON: Duration = Duration::from_secs(45);

#[tokio::test]
async fn a_long_poll_is_answered_with_how_it_stands() {
    let house = House::open().await;
    let waiting = house.wants_to_destroy("a").await;
    let path = format!("/api/executions/{}?waitMs=50000", waiting.execution);
    let request = house.request(Who::Agent, reqwest::Method::GET, &path).send();
    let (http, _world) = (tokio::spawn(request), house.world.clone());
    tokio::time::sleep(A_WHILE).await;
    let begun = Instant::now();
    house.server.stop(PATIENCE).await;
    let answer: serde_json::Value = http.await.unwrap().unwrap().json().await.unwrap();
    assert_eq!(answer["status"], "paused");
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_call_that_waits_for_its_end_is_answered_with_how_it_stands() {
    let house = House::open().await;
    let body = json!({ "tool": "lab.destroy_each", "args": { "what": "a" }, "waitMs": 50_000 });
    let http =
        tokio::spawn(house.request(Who::Agent, reqwest::Method::POST, "/api/executions").json(&body).send());
    until("it is asked", async || !house.open_questions().await.is_empty()).await;
    let begun = Instant::now();
    house.server.stop(PATIENCE).await;
    let answer: serde_json::Value = http.await.unwrap().unwrap().json().await.unwrap();
    assert_eq!(answer["status"], "paused", "{answer}");
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_running_handler_comes_to_its_end_and_its_outcome_is_kept() {
    let house = House::open().await;
    let waiting = house.asks("lab.slow", json!({ "ms": 700 })).await;
    house.resolve(Who::Approver, &waiting.elicitation, true).await.with(200);
    until("the handler runs", async || {
        house.get(Who::Agent, &format!("/api/executions/{}", waiting.execution)).await.with(200)["status"]
            == "running"
    })
    .await;
    assert_eq!(house.effects(), [""; 0]);
    let house = house.after().await;
    let end = house.end_of(&waiting.execution).await;
    assert_eq!((&end["status"], house.effects()), (&json!("succeeded"), vec!["slow".to_owned()]));
}

#[tokio::test]
async fn what_waits_is_there_after_a_restart_under_its_old_id_and_runs_once() {
    let house = House::open().await;
    let mut all = Vec::new();
    for n in 0..20 {
        all.push(house.wants_to_destroy(&n.to_string()).await);
    }
    let house = house.after().await;
    assert_eq!(house.open_questions().await.len(), 20);
    for waiting in &all {
        house.resolve(Who::Approver, &waiting.elicitation, true).await.with(200);
    }
    for waiting in &all {
        assert_eq!(house.end_of(&waiting.execution).await["status"], "succeeded");
    }
    let mut effects: Vec<usize> = house.effects().iter().map(|what| what.parse().unwrap()).collect();
    effects.sort_unstable();
    assert_eq!(effects, (0..20).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_decision_on_its_way_while_the_server_stops_is_answered_and_kept_or_neither() {
    for delay_us in [0, 200, 500, 1_000, 2_000, 5_000] {
        let house = House::open().await;
        let waiting = house.wants_to_destroy("a").await;
        let path = format!("/api/elicitation/{}/resolve", waiting.elicitation);
        let decide = house
            .request(Who::Approver, reqwest::Method::POST, &path)
            .json(&json!({ "approved": true }))
            .send();
        let decide = tokio::spawn(decide);
        tokio::time::sleep(Duration::from_micros(delay_us)).await;
        let house = house.after().await;
        let acknowledged = decide.await.unwrap().is_ok_and(|answer| answer.status() == 200);
        let now =
            house.get(Who::Approver, &format!("/api/elicitation/{}", waiting.elicitation)).await.with(200);
        if acknowledged {
            assert_eq!(now["status"], "approved", "acknowledged after {delay_us} µs and gone");
        }
        if now["status"] == "approved" {
            assert_eq!(house.end_of(&waiting.execution).await["status"], "succeeded");
            assert_eq!(house.effects(), ["a"]);
        }
    }
}

#[tokio::test]
async fn a_stopped_server_takes_no_more_connections() {
    let house = House::open().await;
    let address = house.server.address();
    house.server.stop(PATIENCE).await;
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn whoever_asks_a_server_that_stops_whether_it_is_ready_never_hears_yes() {
    let house = House::open().await;
    // A request that is being sent when the server is told to stop, on a connection that was served before.
    let mut client = house.connect().await;
    let line = format!("GET /readyz HTTP/1.1\r\nhost: {}\r\n", house.server.address());
    client.write_all(format!("{line}\r\n{line}").as_bytes()).await.unwrap();
    let mut first = [0; 15];
    client.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 200 OK");
    let waiting = house.asks("lab.slow", json!({ "ms": 1_000 })).await;
    house.resolve(Who::Approver, &waiting.elicitation, true).await.with(200);
    let address = house.server.address();
    let stopping = tokio::spawn(house.server.stop(PATIENCE));
    tokio::time::sleep(A_WHILE).await;
    assert!(!stopping.is_finished(), "it waits for the handler");
    let _ = client.write_all(b"\r\n").await;
    let mut answer = Vec::new();
    let _ = client.read_to_end(&mut answer).await;
    let rest = String::from_utf8_lossy(&answer);
    // What was left of the first answer comes first.
    let second = rest.split_once("ready\n").map_or("", |(_, second)| second);
    assert!(second.is_empty() || second.starts_with("HTTP/1.1 503"), "{second}");
    let refused = tokio::net::TcpStream::connect(address).await;
    assert!(refused.is_err(), "whoever asks anew finds nobody, also while the handler still runs");
    stopping.await.unwrap();
}
