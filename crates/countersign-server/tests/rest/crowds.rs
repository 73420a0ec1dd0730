//! A crowd of connections, streams or requests of somebody else keeps nobody out who decides (R16).

use std::time::Duration;

use reqwest::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::Instant;

use crate::answer::Answer;
use crate::house::{House, PATIENCE, Who, until};
use crate::stream::Stream;

/// Before the first idle connection of the crowd is closed, which is after 60 s.
const SOON: Duration = Duration::from_secs(50);

/// A request as it is written.
fn written(house: &House, who: Who, line: &str) -> String {
    let bearer =
        house.secret(who).map(|secret| format!("authorization: Bearer {secret}\r\n")).unwrap_or_default();
    format!("{line} HTTP/1.1\r\nhost: {}\r\n{bearer}\r\n", house.server.address())
}

/// A connection of its own on which this was sent, and the head of what came back.
async fn sent(house: &House, request: &str) -> (TcpStream, String) {
    let mut stream = house.connect().await;
    stream.write_all(request.as_bytes()).await.unwrap();
    let head = head_of(&mut stream).await;
    (stream, head)
}

/// The head of an answer; empty where the connection was closed.
async fn head_of(stream: &mut TcpStream) -> String {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        match tokio::time::timeout(PATIENCE, stream.read(&mut byte)).await.expect("an answer or the end") {
            Ok(1) => head.push(byte[0]),
            _ => break,
        }
    }
    String::from_utf8(head).unwrap()
}

fn status(head: &str) -> u16 {
    head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
}

/// Waits until the other side has closed a connection.
async fn closed(mut stream: TcpStream) {
    let mut rest = Vec::new();
    let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut rest)).await;
    // Reset or closed: either way it is gone.
    drop(read.expect("the connection is closed"));
}

/// A client that has no connection yet, for each request.
async fn afresh(
    house: &House,
    who: Who,
    method: Method,
    path: &str,
    body: Option<serde_json::Value>,
) -> Answer {
    let http = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build().unwrap();
    let mut request = http.request(method, format!("{}{path}", house.base));
    if let Some(secret) = house.secret(who) {
        request = request.bearer_auth(secret);
    }
    if let Some(body) = body {
        request = request.json(&body);
    }
    Answer::of(request.send().await.unwrap()).await
}

#[tokio::test]
async fn an_approver_gets_in_lists_and_decides_while_an_agent_and_strangers_take_every_place_they_can() {
    let house = House::with(|options| {
        options.limits.connections = 300;
        options.limits.connections_for_people = 40;
        options.limits.connections_per_principal = 150;
        options.limits.streams_per_principal = 20;
    })
    .await;
    let waiting = house.wants_to_destroy("a").await;
    let mut streams = Vec::new();
    for _ in 0..200 {
        streams.push(sent(&house, &written(&house, Who::Agent, "GET /api/events")).await);
    }
    let open = streams.iter().filter(|(_, head)| status(head) == 200).count();
    assert_eq!(open, 20, "as many streams as one principal may have");
    assert!(streams.iter().all(|(_, head)| matches!(status(head), 200 | 429)));
    // Another agent fills what is left to programs with connections that lie idle.
    for _ in 0..200 {
        streams.push(sent(&house, &written(&house, Who::OtherAgent, "GET /api/whoami")).await);
    }
    let address = house.server.address();
    let flood = tokio::spawn(async move {
        let mut silent = Vec::new();
        loop {
            silent.push(TcpStream::connect(address).await);
            if silent.len() > 1_000 {
                silent.drain(..500);
            }
            tokio::task::yield_now().await;
        }
    });
    let begun = Instant::now();
    for _ in 0..5 {
        let inbox = afresh(&house, Who::Approver, Method::GET, "/api/elicitation?status=pending", None).await;
        assert_eq!(inbox.with(200)["items"].as_array().unwrap().len(), 1);
        let page = afresh(&house, Who::Approver, Method::GET, "/", None).await;
        assert_eq!(page.status, 200);
    }
    let link = afresh(&house, Who::Approver, Method::POST, "/api/login-links", Some(json!(null))).await;
    let url = link.with(201)["url"].as_str().unwrap().to_owned();
    let login = afresh(&house, Who::Nobody, Method::GET, url.strip_prefix(&house.base).unwrap(), None).await;
    assert_eq!(login.status, 200, "{}", login.text);
    let path = format!("/api/elicitation/{}/resolve", waiting.elicitation);
    afresh(&house, Who::Approver, Method::POST, &path, Some(json!({ "approved": true }))).await.with(200);
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    flood.abort();
    until("what was approved runs", async || house.effects() == ["a"]).await;
}

#[tokio::test]
async fn the_last_places_are_for_people_and_a_program_is_told_so() {
    let house = House::with(|options| {
        options.limits.connections = 4;
        options.limits.connections_for_people = 2;
    })
    .await;
    let whoami = |who| written(&house, who, "GET /api/whoami");
    let (_first, head) = sent(&house, &whoami(Who::Agent)).await;
    assert_eq!(status(&head), 200);
    let (_second, head) = sent(&house, &whoami(Who::OtherAgent)).await;
    assert_eq!(status(&head), 200);
    let (third, head) = sent(&house, &whoami(Who::Agent)).await;
    assert_eq!(status(&head), 503, "{head}");
    assert!(head.contains("retry-after: 1") && head.contains("connection: close"), "{head}");
    closed(third).await;
    let (_person, head) = sent(&house, &whoami(Who::Approver)).await;
    assert_eq!(status(&head), 200);
    let (_other, head) = sent(&house, &whoami(Who::OtherApprover)).await;
    assert_eq!(status(&head), 200);
    let (status, text) = house.raw("").await;
    assert!(
        status == 503 && text.contains("too_many_connections"),
        "every place belongs to somebody: {text}"
    );
}

#[tokio::test]
async fn one_principal_has_as_many_connections_as_its_bound_and_not_one_more() {
    let house = House::with(|options| options.limits.connections_per_principal = 2).await;
    let whoami = |who| written(&house, who, "GET /api/whoami");
    let (first, head) = sent(&house, &whoami(Who::Agent)).await;
    assert_eq!(status(&head), 200);
    let (_second, head) = sent(&house, &whoami(Who::Agent)).await;
    assert_eq!(status(&head), 200);
    let (mut third, head) = sent(&house, &whoami(Who::Agent)).await;
    assert!(status(&head) == 429 && head.contains("retry-after: 1"), "{head}");
    let mut body = String::new();
    third.read_to_string(&mut body).await.unwrap();
    assert!(body.contains("\"code\":\"too_many_connections\""), "{body}");
    assert_eq!(status(&sent(&house, &whoami(Who::OtherAgent)).await.1), 200, "it is the first one's bound");
    drop(first);
    until("the place that was left is free", async || {
        status(&sent(&house, &whoami(Who::Agent)).await.1) == 200
    })
    .await;
}

#[tokio::test]
async fn one_principal_has_as_many_event_streams_as_its_bound_and_one_that_ends_is_free_again() {
    let house = House::with(|options| options.limits.streams_per_principal = 2).await;
    let first = Stream::open(&house, Who::Agent, None).await;
    let _second = Stream::open(&house, Who::Agent, None).await;
    let refused = house.get(Who::Agent, "/api/events").await;
    refused.refused(429, "too_many_streams");
    assert_eq!(refused.header("retry-after"), "1");
    let _others = Stream::open(&house, Who::Approver, None).await;
    drop(first);
    let request = written(&house, Who::Agent, "GET /api/events");
    until("the stream that ended is not counted", async || status(&sent(&house, &request).await.1) == 200)
        .await;
}

#[tokio::test]
async fn one_principal_has_as_many_requests_answered_at_once_as_its_bound() {
    let house = House::with(|options| options.limits.requests_at_once = 1).await;
    let waiting = house.wants_to_destroy("a").await;
    let path = format!("/api/executions/{}?waitMs=600000", waiting.execution);
    let long = tokio::spawn(house.request(Who::Agent, Method::GET, &path).send());
    until("the agent's other requests are refused", async || {
        house.get(Who::Agent, "/api/whoami").await.status == 429
    })
    .await;
    let refused = house.get(Who::Agent, "/api/whoami").await;
    refused.refused(429, "too_many_requests_at_once");
    assert_eq!(refused.header("retry-after"), "1");
    house.resolve(Who::Approver, &waiting.elicitation, false).await.with(200);
    assert_eq!(long.await.unwrap().unwrap().status(), 200);
    house.get(Who::Agent, "/api/whoami").await.with(200);
}

#[tokio::test]
async fn a_connection_that_says_nothing_goes_after_seconds_and_one_that_has_spoken_may_lie_idle() {
    let house = House::with(|options| options.limits.first_head = Duration::from_millis(300)).await;
    let ask = written(&house, Who::Nobody, "GET /healthz");
    // On a busy machine a first head may come too late; what is looked at here is a connection whose first head came.
    let mut in_time = None;
    until("a connection speaks in time", async || {
        let (mut spoken, head) = sent(&house, &ask).await;
        if status(&head) == 200 {
            spoken.read_exact(&mut [0; "ok\n".len()]).await.unwrap();
            in_time = Some(spoken);
        }
        in_time.is_some()
    })
    .await;
    // Opened after that one, so that its time is up before theirs is.
    let mut silent = Vec::new();
    for begun in ["", "GET /api/whoami HTTP/1.1\r\nhost:"] {
        let mut stream = house.connect().await;
        stream.write_all(begun.as_bytes()).await.unwrap();
        silent.push(stream);
    }
    for stream in silent {
        closed(stream).await;
    }
    let mut spoken = in_time.unwrap();
    spoken.write_all(ask.as_bytes()).await.unwrap();
    assert_eq!(status(&head_of(&mut spoken).await), 200, "its next request may take its time");
}

#[tokio::test]
async fn a_client_that_does_not_read_its_answers_is_let_go() {
    const ASKED: usize = 400;
    let house = House::with(|options| options.limits.receiving = Duration::from_millis(500)).await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(8 * 1024).unwrap();
    let stream = socket.connect(house.server.address()).await.unwrap();
    let (mut reading, mut writing) = stream.into_split();
    let request = written(&house, Who::Nobody, "GET /openapi.json");
    let asking = tokio::spawn(async move {
        for _ in 0..ASKED {
            if writing.write_all(request.as_bytes()).await.is_err() {
                break;
            }
        }
        writing
    });
    // The answers are many times what the sockets hold. Nothing is read until what is sent meets nobody any more.
    let mut writing = tokio::time::timeout(PATIENCE, asking).await.expect("it is let go").unwrap();
    until("the client is let go", async || writing.write_all(b"\r\n").await.is_err()).await;
    let mut answers = Vec::new();
    drop(tokio::time::timeout(PATIENCE, reading.read_to_end(&mut answers)).await.expect("it is closed"));
    let text = String::from_utf8_lossy(&answers);
    let whole = text.matches("HTTP/1.1 200").count();
    assert!(whole > 0 && whole < ASKED, "{whole} of {ASKED} answers came");
    house.get(Who::Agent, "/api/whoami").await.with(200);
}

#[tokio::test]
async fn a_head_of_64_kib_is_read_and_one_byte_more_is_refused() {
    const BOUND: usize = 64 * 1024;
    let house = House::open().await;
    let host = house.server.address();
    for (size, expected) in [(BOUND, 200), (BOUND + 1, 431), (BOUND + 30 * 1024, 431)] {
        let begin = format!("GET /healthz HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\nx-large: ");
        let filler = "y".repeat(size - begin.len() - "\r\n\r\n".len());
        let (got, text) = house.raw(&format!("{begin}{filler}\r\n\r\n")).await;
        assert_eq!(got, expected, "{size}: {text}");
    }
}
