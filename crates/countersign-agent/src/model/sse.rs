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
        let pieces = bounded(response.bytes_stream().map_err(std::io::Error::other));
        Self { stream: Box::pin(SseStream::from_bytes_stream(pieces)) }
    }

    /// The events of an answer that comes in these pieces.
    #[cfg(test)]
    pub(super) fn of_pieces(pieces: Vec<&'static [u8]>) -> Self {
        let pieces = bounded(futures_util::stream::iter(pieces.into_iter().map(Ok)));
        Self { stream: Box::pin(SseStream::from_bytes_stream(pieces)) }
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

/// The same pieces, until they are more than an answer may be.
fn bounded<P: AsRef<[u8]>>(
    pieces: impl Stream<Item = std::io::Result<P>>,
) -> impl Stream<Item = std::io::Result<P>> {
    let mut read = 0;
    pieces.and_then(move |piece| {
        read += piece.as_ref().len();
        let within = read <= MAX_STREAM_BYTES;
        std::future::ready(if within {
            Ok(piece)
        } else {
            Err(std::io::Error::other(format!("it has more than {MAX_STREAM_BYTES} bytes")))
        })
    })
}

/// An event's data as what the protocol says it is.
pub(super) fn read<T: DeserializeOwned>(data: &str) -> Result<T, ModelError> {
    serde_json::from_str(data)
        .map_err(|e| ModelError::Malformed(format!("an event is not what it should be: {e}")))
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    /// Comments, which no protocol reads, of so many bytes.
    fn filler(size: usize) -> Vec<&'static [u8]> {
        let line =
            |size: usize| -> &'static [u8] { format!(":{}\n", "x".repeat(size - 2)).leak().as_bytes() };
        let mut pieces = vec![line(1 << 20); size >> 20];
        pieces.push(line(size % (1 << 20)));
        pieces
    }

    #[test]
    fn an_answer_at_its_bound_is_read_to_its_end_and_one_past_it_is_not() {
        let event: &'static [u8] = b"data: the last\n\n";
        for (past, whole) in [(0, true), (1, false)] {
            let mut pieces = filler(MAX_STREAM_BYTES - event.len() + past);
            pieces.push(event);
            let size: usize = pieces.iter().map(|piece| piece.len()).sum();
            assert_eq!(size, MAX_STREAM_BYTES + past);
            let next = Events::of_pieces(pieces).next().now_or_never().expect("nothing is waited for");
            match next {
                Ok(data) => assert_eq!((data.as_deref(), whole), (Some("the last"), true)),
                Err(error) => assert_eq!((error.code(), whole), ("stream_broken", false), "{error}"),
            }
        }
    }
}
