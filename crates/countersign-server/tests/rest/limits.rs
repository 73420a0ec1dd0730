//! Every bound of the server, and the clear word at each of them.

use std::num::NonZeroU32;
use std::time::Duration;

use countersign_testkit::world::World;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::house::{House, PATIENCE, Who, until};

#[tokio::test]
async fn one_connection_too_many_is_told_so_and_a_place_that_is_left_is_free_again() {
    let house = House::with(|options| options.limits.connections = 2).await;
    let (mut first, mut second) = (house.connect().await, house.connect().await);
    let host = house.server.address();
    // Both belong to somebody, and do not give way.
    for stream in [&mut first, &mut second] {
        let secret = house.secret(Who::Approver).unwrap();
        let head =
            format!("GET /api/whoami HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {secret}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.read_exact(&mut [0; 15]).await.unwrap();
    }
    let (status, text) = house.raw("").await;
    assert_eq!(status, 503, "{text}");
    assert!(text.contains("\"code\":\"too_many_connections\"") && text.contains("retry-after: 1"), "{text}");
    drop(second);
    until("the place is free again", async || {
        house.raw(&format!("GET /healthz HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n")).await.0
            == 200
    })
    .await;
}

#[tokio::test]
async fn too_many_requests_with_one_credential_are_refused_and_others_are_served() {
    let house = House::with(|options| options.limits.requests_per_second = NonZeroU32::new(5).unwrap()).await;
    let mut refused = 0;
    for _ in 0..30 {
        let answer = house.get(Who::Agent, "/api/whoami").await;
        if answer.status != 200 {
            answer.refused(429, "too_many_requests");
            refused += 1;
        }
    }
    assert!(refused > 0);
    house.get(Who::OtherAgent, "/api/whoami").await.with(200);
    assert_eq!(house.get(Who::Nobody, "/healthz").await.status, 200);
}

#[tokio::test]
async fn whoever_guesses_credentials_is_slowed_down_and_good_ones_still_work() {
    let house = House::with(|options| options.limits.failures_per_second = NonZeroU32::new(3).unwrap()).await;
    let mut answers = Vec::new();
    for _ in 0..20 {
        answers.push(house.get(Who::Garbage, "/api/whoami").await);
    }
    assert_eq!(answers[0].status, 401);
    assert!(answers.iter().any(|answer| answer.status == 429));
    house.get(Who::Agent, "/api/whoami").await.with(200);
}

#[tokio::test]
async fn guessing_cookies_is_guessing_credentials() {
    let house = House::with(|options| options.limits.failures_per_second = NonZeroU32::new(3).unwrap()).await;
    let (mut statuses, port) = (Vec::new(), house.server.address().port());
    for n in 0..20 {
        let request = house.request(Who::Nobody, reqwest::Method::GET, "/api/whoami");
        statuses.push(
            request
                .header("cookie", format!("countersign-{port}=tok_x.{n}.00"))
                .send()
                .await
                .unwrap()
                .status()
                .as_u16(),
        );
    }
    assert!(statuses[0] == 401 && statuses.contains(&429), "{statuses:?}");
}

#[tokio::test]
async fn a_head_past_its_bounds_is_refused() {
    let house = House::open().await;
    let many: String = (0..70).map(|n| format!("x-{n}: y\r\n")).collect();
    assert_eq!(house.raw_as(Who::Agent, "GET /api/whoami", &many, "").await.0, 431);
    let large = format!("x-large: {}\r\n", "y".repeat(200 * 1024));
    assert_eq!(house.raw_as(Who::Agent, "GET /api/whoami", &large, "").await.0, 431);
    let (status, text) =
        house.raw_as(Who::Agent, &format!("GET /api/whoami?{}", "y".repeat(200 * 1024)), "", "").await;
    assert!(matches!(status, 414 | 431), "{text}");
    let fits = format!("x-large: {}\r\n", "y".repeat(30 * 1024));
    assert_eq!(house.raw_as(Who::Agent, "GET /api/whoami", &fits, "").await.0, 200);
}

#[tokio::test]
async fn what_is_no_http_is_refused_and_the_server_stays() {
    let house = House::with(|options| options.limits.sending = Duration::from_millis(300)).await;
    for bytes in [
        "\r\n\r\n\r\n",
        "nonsense\r\n\r\n",
        "\u{0}\u{1}\u{2}\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        "POST /api/executions HTTP/1.1\r\ncontent-length: x\r\n\r\n",
    ] {
        let (status, text) = house.raw(bytes).await;
        assert!(matches!(status, 0 | 400 | 408 | 505), "{bytes:?}: {text}");
    }
    house.get(Who::Agent, "/api/whoami").await.with(200);
}

#[tokio::test]
async fn a_client_that_is_slow_with_its_head_is_let_go() {
    let house = House::with(|options| options.limits.sending = Duration::from_millis(300)).await;
    let mut slow = house.connect().await;
    slow.write_all(b"GET /api/whoami HTTP/1.1\r\n").await.unwrap();
    let begun = tokio::time::Instant::now();
    let mut answer = Vec::new();
    tokio::time::timeout(PATIENCE, slow.read_to_end(&mut answer))
        .await
        .expect("the connection is closed")
        .unwrap();
    assert!(begun.elapsed() >= Duration::from_millis(300));
    let text = String::from_utf8_lossy(&answer);
    assert!(text.is_empty() || text.starts_with("HTTP/1.1 408"), "{text}");
}

#[tokio::test]
async fn a_client_that_says_nothing_at_all_is_let_go() {
    let house = House::with(|options| options.limits.sending = Duration::from_millis(300)).await;
    let mut silent = house.connect().await;
    let mut answer = Vec::new();
    tokio::time::timeout(PATIENCE, silent.read_to_end(&mut answer)).await.expect("it is closed").unwrap();
}

#[tokio::test]
async fn a_body_that_never_comes_is_not_waited_for_known_or_unknown() {
    let house = House::with(|options| options.limits.sending = Duration::from_millis(300)).await;
    let bearer = format!("authorization: Bearer {}\r\n", house.secret(Who::Agent).unwrap());
    for (path, who, kind) in [
        ("/api/executions", bearer.as_str(), "application/json"),
        ("/mcp", bearer.as_str(), "application/json"),
        ("/login", "", "application/x-www-form-urlencoded"),
    ] {
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: {}\r\n{who}content-type: {kind}\r\naccept: application/json, text/event-stream\r\ncontent-length: 100\r\n\r\ncode=",
            house.server.address()
        );
        let (status, text) = house.raw(&head).await;
        assert!(status == 408 && text.contains("body_too_slow"), "{path}: {text}");
    }
}

#[tokio::test]
async fn a_body_past_the_operators_bound_is_refused_at_every_front_and_one_at_it_is_read() {
    const BOUND: usize = 1_000;
    let house = House::with(|options| options.limits.body_bytes = BOUND).await;
    let bearer = house.secret(Who::Agent).unwrap();
    for (path, nonsense) in [("/api/executions", 400), ("/mcp", 415)] {
        for (size, status) in [(BOUND, nonsense), (BOUND + 1, 413)] {
            let body = format!("{:<size$}", "{ \"nonsense\": 1 }");
            let head = format!(
                "authorization: Bearer {bearer}\r\ncontent-type: application/json\r\naccept: application/json, text/event-stream\r\n\
                 connection: close\r\ncontent-length: {size}"
            );
            let at = house.server.address();
            let (got, text) =
                house.raw(&format!("POST {path} HTTP/1.1\r\nhost: {at}\r\n{head}\r\n\r\n{body}")).await;
            assert_eq!(got, status, "{path} {size}: {text}");
            assert_eq!(text.contains("body_too_large"), status == 413, "{path}: {text}");
        }
    }
}

#[tokio::test]
async fn a_body_that_never_comes_holds_nobody_else_up() {
    let house = House::open().await;
    let mut slow = house.connect().await;
    let head = format!(
        "POST /api/executions HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{{",
        house.server.address(),
        house.secret(Who::Agent).unwrap()
    );
    slow.write_all(head.as_bytes()).await.unwrap();
    house.wants_to_destroy("a").await;
    drop(slow);
    assert_eq!(house.open_questions().await.len(), 1);
}

#[tokio::test]
async fn two_requests_on_one_connection_are_two_requests() {
    let house = House::open().await;
    let waiting = house.wants_to_destroy("a").await;
    let (at, agent, approver) =
        (house.server.address(), house.secret(Who::Agent).unwrap(), house.secret(Who::Approver).unwrap());
    // An agent's decision right behind an approver's read: neither borrows from the other.
    let body = r#"{"approved":true}"#;
    let text = format!(
        "GET /api/whoami HTTP/1.1\r\nhost: {at}\r\nauthorization: Bearer {approver}\r\n\r\n\
         POST /api/elicitation/{}/resolve HTTP/1.1\r\nhost: {at}\r\nauthorization: Bearer {agent}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}\
         POST /api/elicitation/{}/resolve HTTP/1.1\r\nhost: {at}\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        waiting.elicitation,
        body.len(),
        waiting.elicitation,
        body.len(),
    );
    let (_, answers) = house.raw(&text).await;
    let statuses: Vec<&str> =
        answers.match_indices("HTTP/1.1 ").map(|(at, _)| &answers[at + 9..at + 12]).collect();
    assert_eq!(statuses, ["200", "403", "401"], "{answers}");
    assert_eq!(house.open_questions().await.len(), 1);
}

#[tokio::test]
async fn the_bounds_have_defaults_that_are_stated() {
    let limits = countersign_server::Limits::default();
    assert_eq!(limits.body_bytes, 4 * 1024 * 1024);
    assert_eq!(limits.connections, 4_096);
    assert_eq!(limits.wait, Duration::from_secs(600));
    assert_eq!(limits.drain, Duration::from_secs(10));
    assert_eq!(limits.sending, Duration::from_secs(60));
    assert_eq!(limits.receiving, Duration::from_secs(30));
    assert_eq!(limits.first_head, Duration::from_secs(5));
    assert_eq!((limits.connections_for_people, limits.connections_per_principal), (512, 512));
    assert_eq!(limits.unproven_connections_per_address, 1_024);
    assert_eq!((limits.requests_at_once, limits.streams_per_principal), (256, 64));
}

#[tokio::test]
async fn beyond_its_calls_under_way_a_principal_is_told_when_to_come_back_and_others_are_served() {
    // One principal has a quarter of them, and a handler that waits for an answer is under way.
    let house = House::of(World::new(1).set(|settings| settings.max_calls_in_flight = 4), |_| {}).await;
    let waiting = house.asks("lab.transfer", json!({ "amount": 20_000 })).await;
    let refused = house.call("lab.read", json!({ "what": "a" })).await;
    refused.refused(429, "too_many_calls");
    assert_eq!(refused.header("retry-after"), "1");
    let call = json!({ "tool": "lab.read", "args": { "what": "a" } });
    house.post(Who::OtherAgent, "/api/executions", call).await.with(200);
    house.resolve(Who::Approver, &waiting.elicitation, true).await.with(200);
    house.end_of(&waiting.execution).await;
    house.call("lab.read", json!({ "what": "a" })).await.with(200);
}
