//! Event streams share one reader: many of them cost little, and one that falls behind still is told everything once.

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

use crate::house::{House, PATIENCE, Who, until};
use crate::stream::Stream;

/// An open stream that nobody reads yet, with little room in its socket.
async fn unread(house: &House, who: Who, path: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(8 * 1024).unwrap();
    let mut stream = socket.connect(house.server.address()).await.unwrap();
    let secret = house.secret(who).unwrap();
    let host = house.server.address();
    let request = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {secret}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut status = [0; 12];
    tokio::time::timeout(PATIENCE, stream.read_exact(&mut status)).await.unwrap().unwrap();
    assert_eq!(&status, b"HTTP/1.1 200");
    stream
}

/// The ids that come on a stream, up to and with this one.
async fn ids_until(stream: &mut TcpStream, last: &str) -> Vec<String> {
    let (mut text, mut part) = (Vec::new(), vec![0; 64 * 1024]);
    let end = format!("\nid: {last}\n");
    while !text.windows(end.len()).rev().take(part.len() + end.len()).any(|window| window == end.as_bytes()) {
        let read = tokio::time::timeout(PATIENCE, stream.read(&mut part)).await.expect("more comes").unwrap();
        assert!(read > 0, "the stream goes on");
        text.extend_from_slice(&part[..read]);
    }
    let text = String::from_utf8(text).unwrap();
    text.lines().filter_map(|line| line.strip_prefix("id: ")).map(ToOwned::to_owned).collect()
}

#[tokio::test]
async fn many_streams_read_the_audit_once() {
    const STREAMS: usize = 60;
    let house = House::open().await;
    let mut streams = Vec::new();
    for n in 0..STREAMS {
        let who = if n % 2 == 0 { Who::Approver } else { Who::Agent };
        streams.push(Stream::open(&house, who, None).await);
    }
    // Once something was told, none of them is still finding out where it begins.
    let first = house.wants_to_destroy("first").await;
    for stream in &mut streams {
        stream.until(|event| event.data["executionId"] == first.execution.as_str()).await;
    }
    let before = house.faults.audit_reads();
    let read = house.call("lab.read", json!({ "what": "x" })).await.with(200);
    for stream in &mut streams {
        stream.until_done(read["executionId"].as_str().unwrap()).await;
    }
    let reads = house.faults.audit_reads() - before;
    assert!(reads < STREAMS as u64 / 2, "{reads} reads of the audit for {STREAMS} streams");
}

#[tokio::test]
async fn nothing_is_read_while_nobody_listens() {
    let house = House::open().await;
    drop(Stream::open(&house, Who::Approver, None).await);
    until("the reader has noticed", async || {
        let before = house.faults.audit_reads();
        tokio::time::sleep(std::time::Duration::from_millis(2_500)).await;
        house.faults.audit_reads() == before
    })
    .await;
}

#[tokio::test]
async fn a_stream_that_fell_behind_is_told_everything_once_and_in_order() {
    let house = House::open().await;
    let begin = house.recorded().await;
    let mut slow = unread(&house, Who::Approver, "/api/events").await;
    // Events that are kept for everybody and such that are not, in sum far more than the sockets and the feed hold.
    let (small, large) = ("s".repeat(10_000), "l".repeat(200_000));
    for n in 0..30 {
        let what = if n % 3 == 0 { &large } else { &small };
        let waiting = house.asks("lab.elicit", json!({ "style": "method", "args": { "what": what } })).await;
        house.resolve(Who::Approver, &waiting.elicitation, false).await.with(200);
        house.end_of(&waiting.execution).await;
    }
    let mut fresh = unread(&house, Who::Approver, &format!("/api/events?after={begin}")).await;
    let mut whole = Vec::new();
    let mut probe =
        Stream::at(&house, Who::Approver, &format!("/api/events?after={begin}&brief=true"), None).await;
    let mut ended = 0;
    while ended < 30 {
        let event = probe.next().await.unwrap();
        ended += usize::from(event.name == "call.settled");
        whole.push(event.id);
    }
    let end = probe.next().await.unwrap();
    whole.push(end.id.clone());
    let last = end.id.as_str();
    assert_eq!(ids_until(&mut fresh, last).await, whole, "one that reads it all from the audit");
    assert_eq!(ids_until(&mut slow, last).await, whole, "one that was there and did not read");
}
