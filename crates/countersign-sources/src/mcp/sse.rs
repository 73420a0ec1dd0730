//! The messages of an event stream, within bounds.

use std::pin::Pin;
use std::time::Duration;

use futures_util::{Stream, StreamExt};
use reqwest::Response;
use serde_json::Value;
use sse_stream::{Sse, SseStream};

/// The longest pause that a server may ask for before its stream is taken up again.
const LONGEST_RETRY: Duration = Duration::from_secs(30);

type EventStream = Pin<Box<dyn Stream<Item = Result<Sse, sse_stream::Error>> + Send>>;

/// The messages of one stream, as they come.
pub(super) struct Events {
    stream: EventStream,
    /// The id of the last event that had one: from there the stream can be taken up again.
    pub(super) last_id: Option<String>,
    /// How long the server wants one to wait before that.
    pub(super) retry_after: Duration,
}

/// An event was larger than its bound.
#[derive(Debug, thiserror::Error)]
#[error("an event is larger than {0} bytes")]
struct TooLarge(usize);

impl Events {
    /// Reads the body of an answer. An event of more than `event_bytes` ends it.
    pub(super) fn new(response: Response, event_bytes: usize) -> Self {
        let mut size = EventSize::default();
        let bytes = response.bytes_stream().map(move |chunk| match chunk {
            Ok(chunk) if size.add(&chunk) > event_bytes => Err(std::io::Error::other(TooLarge(event_bytes))),
            Ok(chunk) => Ok(chunk),
            Err(error) => Err(std::io::Error::other(error.without_url())),
        });
        let stream = Box::pin(SseStream::from_bytes_stream(bytes));
        Self { stream, last_id: None, retry_after: Duration::from_secs(1) }
    }

    /// The next message; nothing at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Value>, String> {
        while let Some(event) = self.stream.next().await {
            let event = event.map_err(|error| error.to_string())?;
            if let Some(id) = event.id.filter(|id| !id.is_empty()) {
                self.last_id = Some(id);
            }
            if let Some(retry) = event.retry {
                self.retry_after = Duration::from_millis(retry).min(LONGEST_RETRY);
            }
            let data = event.data.unwrap_or_default();
            if !data.trim().is_empty() {
                match serde_json::from_str(&data) {
                    Ok(value) => return Ok(Some(value)),
                    Err(error) => tracing::debug!(%error, "an event of an MCP server is no JSON"),
                }
            }
        }
        Ok(None)
    }
}

/// The size of the event that is being read.
#[derive(Default)]
struct EventSize {
    bytes: usize,
    line_is_empty: bool,
}

impl EventSize {
    /// The size of the largest event that ends or goes on in this chunk.
    fn add(&mut self, chunk: &[u8]) -> usize {
        let mut largest = 0;
        for byte in chunk {
            self.bytes += 1;
            largest = largest.max(self.bytes);
            match byte {
                b'\n' if self.line_is_empty => self.bytes = 0,
                b'\n' => self.line_is_empty = true,
                b'\r' => {}
                _ => self.line_is_empty = false,
            }
        }
        largest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_events_size_is_counted_across_chunks_and_starts_anew_after_a_blank_line() {
        let mut size = EventSize::default();
        assert_eq!(size.add(b"data: 123"), 9);
        assert_eq!(size.add(b"45\n\n"), 13);
        assert_eq!(size.add(b"data: 1\r\n\r\n"), 11);
        assert_eq!(size.add(b"x"), 1);
    }
}
