//! Server-sent events of a model's answer, one at a time and bounded.

use std::pin::Pin;

use futures_util::{Stream, StreamExt, TryStreamExt};
use reqwest::Response;
use serde::de::DeserializeOwned;
use sse_stream::{Sse, SseStream};

use crate::model::ModelError;

/// The largest answer that is read: several times what a turn may have, for what the protocol wraps around it.
pub const MAX_STREAM_BYTES: usize = 64 << 20;

/// The events of one answer.
pub(super) struct Events {
    stream: Pin<Box<dyn Stream<Item = Result<Sse, sse_stream::Error>> + Send>>,
}

impl Events {
    pub(super) fn of(response: Response) -> Self {
        let mut read = 0;
        let bounded = response.bytes_stream().map_err(std::io::Error::other).and_then(move |chunk| {
            read += chunk.len();
            let within = read <= MAX_STREAM_BYTES;
            std::future::ready(if within {
                Ok(chunk)
            } else {
                Err(std::io::Error::other(format!("it has more than {MAX_STREAM_BYTES} bytes")))
            })
        });
        Self { stream: Box::pin(SseStream::from_bytes_stream(bounded)) }
    }

    /// The events of an answer that comes in these pieces.
    #[cfg(test)]
    pub(super) fn of_pieces(pieces: Vec<&'static [u8]>) -> Self {
        let pieces = pieces.into_iter().map(Ok::<_, std::io::Error>);
        Self { stream: Box::pin(SseStream::from_bytes_stream(futures_util::stream::iter(pieces))) }
    }

    /// The data of the next event that has any; nothing at the end.
    pub(super) async fn next(&mut self) -> Result<Option<String>, ModelError> {
        while let Some(event) = self.stream.next().await {
            match event {
                Ok(Sse { data: Some(data), .. }) => return Ok(Some(data)),
                Ok(_) => {}
                Err(sse_stream::Error::Body(cause)) => return Err(ModelError::Broken(cause.to_string())),
                Err(other) => return Err(ModelError::Malformed(other.to_string())),
            }
        }
        Ok(None)
    }
}

/// An event's data as what the protocol says it is.
pub(super) fn read<T: DeserializeOwned>(data: &str) -> Result<T, ModelError> {
    serde_json::from_str(data)
        .map_err(|e| ModelError::Malformed(format!("an event is not what it should be: {e}")))
}
