//! A client of the event stream.

use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use serde_json::Value;
use sse_stream::SseStream;

use crate::house::{House, PATIENCE, Who};

/// An open event stream.
pub(crate) struct Stream {
    events: BoxStream<'static, Result<sse_stream::Sse, sse_stream::Error>>,
}

/// One event.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Event {
    /// Its place in the audit: `7`, or `7.1` where the record goes on.
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) data: Value,
}

impl Stream {
    pub(crate) async fn open(house: &House, who: Who, after: Option<u64>) -> Self {
        Self::at(house, who, "/api/events", after.map(|seq| seq.to_string()).as_deref()).await
    }

    /// A stream that is asked for in other words.
    pub(crate) async fn at(house: &House, who: Who, path: &str, after: Option<&str>) -> Self {
        let mut request = house.request(who, reqwest::Method::GET, path).timeout(Duration::from_secs(120));
        if let Some(id) = after {
            request = request.header("last-event-id", id);
        }
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { events: SseStream::from_bytes_stream(response.bytes_stream()).boxed() }
    }

    /// The next event; nothing where the stream ended.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        loop {
            let next = tokio::time::timeout(PATIENCE, self.events.next()).await;
            let sse = match next.expect("an event comes, or the end") {
                None | Some(Err(_)) => return None,
                Some(Ok(sse)) => sse,
            };
            // A comment that keeps the connection alive has no data.
            let Some(data) = sse.data else { continue };
            return Some(Event {
                id: sse.id.expect("every event has an id"),
                name: sse.event.unwrap(),
                data: serde_json::from_str(&data).unwrap(),
            });
        }
    }

    /// Events up to and with the first of which this is so.
    pub(crate) async fn until(&mut self, is_last: impl Fn(&Event) -> bool) -> Vec<Event> {
        let mut seen = Vec::new();
        loop {
            let event = self.next().await.expect("the stream goes on");
            let last = is_last(&event);
            seen.push(event);
            if last {
                return seen;
            }
        }
    }

    /// Events up to the record of an execution's end. What they say of its status may be ahead of them.
    pub(crate) async fn until_done(&mut self, execution: &str) -> Vec<Event> {
        let of_it = |event: &Event, name: &str| event.name == name && event.data["executionId"] == execution;
        let mut seen = self.until(|event| of_it(event, "call.settled")).await;
        seen.extend(self.until(|event| of_it(event, "execution.status")).await);
        seen
    }
}
