//! `/api/events`, followed for as long as somebody listens.
//!
//! Promises: a connection that breaks is made again, later and later up to a bound, and goes on after the last event that
//! was heard; whoever listens is told that it broke and that it is back, because what happened meanwhile may have been more than
//! the server keeps.

use std::io;
use std::time::Duration;

use countersign_server::wire::Happened;
use futures_util::StreamExt as _;
use futures_util::stream::{BoxStream, Stream};
use reqwest::header::{ACCEPT, HeaderValue};
use reqwest::{Method, Response};
use sse_stream::{Sse, SseStream};

use super::Client;
use crate::exit::Problem;

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// A stream that says nothing for this long is taken for dead; the server sends something much more often.
const LONGEST_SILENCE: Duration = Duration::from_secs(60);

/// Something that was heard.
#[derive(Debug)]
pub(crate) enum Heard {
    /// The stream is there: from here on nothing is missed.
    Connected,
    /// Something happened.
    News(Box<News>),
    /// The stream is gone and is being made again.
    Lost(Problem),
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct News {
    /// `elicitation.pending`, `elicitation.decided`, …
    pub(crate) name: String,
    /// What the server tells of it.
    pub(crate) happened: Happened,
}

/// The events of a server.
pub(crate) struct Events {
    client: Client,
    last: Option<String>,
    stream: Option<BoxStream<'static, Result<Sse, sse_stream::Error>>>,
    pause: Duration,
}

impl Client {
    /// What happens from now on.
    pub(crate) fn events(&self) -> Events {
        Events { client: self.clone(), last: None, stream: None, pause: Duration::ZERO }
    }
}

impl Events {
    /// The next thing that is heard. It never ends.
    pub(crate) async fn next(&mut self) -> Heard {
        loop {
            let Some(stream) = &mut self.stream else {
                tokio::time::sleep(self.pause).await;
                self.pause = (self.pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE);
                match self.connect().await {
                    Ok(()) => return Heard::Connected,
                    Err(problem) => return Heard::Lost(problem),
                }
            };
            match stream.next().await {
                Some(Ok(event)) => {
                    self.pause = Duration::ZERO;
                    if event.id.is_some() {
                        self.last.clone_from(&event.id);
                    }
                    if let Some(news) = news(event) {
                        return Heard::News(Box::new(news));
                    }
                }
                Some(Err(_)) | None => {
                    self.stream = None;
                    let message = format!("the events of {} stopped", self.client.url());
                    return Heard::Lost(Problem::new(super::UNREACHABLE, message));
                }
            }
        }
    }

    async fn connect(&mut self) -> Result<(), Problem> {
        let mut request = self.client.request(Method::GET, &["api", "events"], &[])?;
        request = request.header(ACCEPT, HeaderValue::from_static("text/event-stream"));
        if let Some(last) = &self.last {
            request = request.header("Last-Event-ID", last);
        }
        let response = self.client.send(request).await?;
        self.stream = Some(SseStream::from_bytes_stream(spoken(response).boxed()).boxed());
        Ok(())
    }
}

/// The bytes of a stream until it ends or falls silent. The comments that keep it alive count: they are no events.
fn spoken(response: Response) -> impl Stream<Item = io::Result<io::Cursor<Vec<u8>>>> {
    futures_util::stream::unfold(Some(response), |response| async {
        let mut response = response?;
        let silent = || io::Error::from(io::ErrorKind::TimedOut);
        match tokio::time::timeout(LONGEST_SILENCE, response.chunk()).await {
            Ok(Ok(Some(bytes))) => Some((Ok(io::Cursor::new(bytes.to_vec())), Some(response))),
            Ok(Ok(None)) => None,
            Ok(Err(error)) => Some((Err(io::Error::other(error)), None)),
            Err(_) => Some((Err(silent()), None)),
        }
    })
}

/// An event that tells of something; comments and events without data do not.
fn news(event: Sse) -> Option<News> {
    let happened = serde_json::from_str(event.data.as_deref()?).ok()?;
    Some(News { name: event.event?, happened })
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::http::HeaderMap;
    use axum::routing::get;

    use super::*;

    fn event(id: u32) -> String {
        let data =
            format!(r#"{{"executionId":"exec_{id}","at":"2026-11-16T00:00:00.000Z","status":"running"}}"#);
        format!(": a comment\n\nid: {id}\nevent: call.started\ndata: {data}\n\n")
    }

    /// Tells of two events at a time, then hangs up.
    async fn two_at_a_time(headers: HeaderMap) -> String {
        let last = headers.get("last-event-id").map(|id| id.to_str().unwrap().parse::<u32>().unwrap());
        let last = last.unwrap_or_default();
        event(last + 1) + &event(last + 2)
    }

    #[tokio::test]
    async fn a_stream_that_breaks_goes_on_after_the_last_event_that_was_heard() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().route("/api/events", get(two_at_a_time));
        let serving = tokio::spawn(async move { axum::serve(listener, router).await });
        let mut events = Client::new(&url, "t").unwrap().events();
        let (mut heard, mut connected, mut lost) = (Vec::new(), 0, 0);
        while heard.len() < 5 {
            match events.next().await {
                Heard::Connected => connected += 1,
                Heard::News(news) => heard.push(news.happened.execution_id),
                Heard::Lost(_) => lost += 1,
            }
        }
        serving.abort();
        assert_eq!(heard, ["exec_1", "exec_2", "exec_3", "exec_4", "exec_5"]);
        assert_eq!((connected, lost), (3, 2), "whoever listens is told");
    }

    #[tokio::test]
    async fn a_server_that_is_away_is_tried_again_and_again() {
        let mut events = Client::new("http://127.0.0.1:1", "t").unwrap().events();
        for _ in 0..3 {
            assert!(matches!(events.next().await, Heard::Lost(_)));
        }
    }
}
