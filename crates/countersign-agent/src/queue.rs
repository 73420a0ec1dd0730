//! The way of events from a chat to its reader: writing never waits, and memory is bounded.
//!
//! Promise: a reader that is slow or absent holds nobody up. Deltas that nobody took yet are merged, and past
//! [`MAX_WAITING_DELTA_BYTES`] their text is dropped and a warning says so; the whole text is in the last event all the same.
//! Structural events are never dropped: a chat has at most so many of them, and so large, as its limits of turns, calls,
//! questions and results allow.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use futures_util::Stream;
use tokio::task::AbortHandle;

use crate::error::AgentError;
use crate::event::AgentEvent;

/// The most text of deltas that waits for a reader.
pub const MAX_WAITING_DELTA_BYTES: usize = 1 << 20;

/// The events of a chat. The chat goes on whether or not they are read; dropping this cancels it: the model's request and
/// the futures of running handlers are dropped where they stand. A call of a [`Gateway`](countersign_kernel::Gateway) goes
/// on in the gateway; a local handler that was half through something stays half through it, unless it runs what must not
/// be cut in a task of its own.
pub struct ChatStream {
    queue: Arc<Queue>,
    task: AbortHandle,
}

/// Where a chat tells what happens.
#[derive(Clone, Default)]
pub(crate) struct Events {
    queue: Option<Arc<Queue>>,
}

/// Ends the stream however its task ends, a panic among that.
pub(crate) struct Ending {
    queue: Arc<Queue>,
}

#[derive(Default)]
struct Queue {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    waiting: VecDeque<AgentEvent>,
    delta_bytes: usize,
    dropped_bytes: usize,
    ended: bool,
    closed: bool,
    reader: Option<Waker>,
}

impl ChatStream {
    /// A stream of what `chat` tells, which runs by itself.
    pub(crate) fn of<F>(chat: impl FnOnce(Events) -> F) -> Self
    where
        F: Future<Output = AgentEvent> + Send + 'static,
    {
        let queue = Arc::new(Queue::default());
        let events = Events { queue: Some(Arc::clone(&queue)) };
        let ending = Ending { queue: Arc::clone(&queue) };
        let chat = chat(events);
        let task = tokio::spawn(async move {
            let last = chat.await;
            ending.queue.push(last);
            drop(ending);
        });
        Self { queue, task: task.abort_handle() }
    }
}

impl Drop for ChatStream {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.queue.close();
    }
}

impl Stream for ChatStream {
    type Item = AgentEvent;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<AgentEvent>> {
        let mut inner = self.queue.locked();
        match inner.take() {
            Some(event) => Poll::Ready(Some(event)),
            None if inner.closed => Poll::Ready(None),
            None => {
                inner.reader = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Events {
    /// Tells something. It never waits.
    pub(crate) fn tell(&self, event: AgentEvent) {
        if let Some(queue) = &self.queue {
            queue.push(event);
        }
    }

    /// Whether anybody could be told: an event that costs something to make is not made for nobody.
    pub(crate) fn are_wanted(&self) -> bool {
        self.queue.is_some()
    }
}

impl Queue {
    fn push(&self, event: AgentEvent) {
        self.change(|inner| inner.put(event));
    }

    fn close(&self) {
        self.change(|inner| {
            if !inner.ended {
                inner.put(AgentEvent::Error(Arc::new(AgentError::Stopped)));
            }
            inner.closed = true;
        });
    }

    fn change(&self, change: impl FnOnce(&mut Inner)) {
        let mut inner = self.locked();
        change(&mut inner);
        let reader = inner.reader.take();
        drop(inner);
        if let Some(reader) = reader {
            reader.wake();
        }
    }

    fn locked(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn put(&mut self, event: AgentEvent) {
        // Whoever kept a tool's context may still speak; nothing follows the last event.
        if self.ended {
            return;
        }
        let Some(size) = delta_size(&event) else {
            self.ended |= event.is_last();
            self.waiting.push_back(event);
            return;
        };
        if self.delta_bytes + size > MAX_WAITING_DELTA_BYTES {
            self.dropped_bytes += size;
            return;
        }
        self.delta_bytes += size;
        match (self.waiting.back_mut(), event) {
            (Some(AgentEvent::ContentDelta { text }), AgentEvent::ContentDelta { text: more }) => {
                text.push_str(&more);
            }
            (
                Some(AgentEvent::ToolUseDelta { call_id, json }),
                AgentEvent::ToolUseDelta { call_id: same, json: more },
            ) if *call_id == same => json.push_str(&more),
            (_, event) => self.waiting.push_back(event),
        }
    }

    fn take(&mut self) -> Option<AgentEvent> {
        if self.dropped_bytes > 0 {
            let dropped = std::mem::take(&mut self.dropped_bytes);
            let message = format!("{dropped} bytes of deltas were dropped: the reader is too slow");
            return Some(AgentEvent::Warning { message });
        }
        let event = self.waiting.pop_front()?;
        self.delta_bytes -= delta_size(&event).unwrap_or_default();
        Some(event)
    }
}

/// How much text a delta carries; nothing for a structural event.
fn delta_size(event: &AgentEvent) -> Option<usize> {
    match event {
        AgentEvent::ContentDelta { text } => Some(text.len()),
        AgentEvent::ToolUseDelta { json, .. } => Some(json.len()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delta(text: &str) -> AgentEvent {
        AgentEvent::ContentDelta { text: text.to_owned() }
    }

    #[test]
    fn deltas_that_nobody_took_are_merged_and_structural_events_are_kept() {
        let mut inner = Inner::default();
        for event in [AgentEvent::ContentStart, delta("a"), delta("b"), AgentEvent::ContentStop, delta("c")] {
            inner.put(event);
        }
        let seen: Vec<String> =
            std::iter::from_fn(|| inner.take()).map(|event| format!("{event:?}")).collect();
        insta::assert_compact_debug_snapshot!(seen, @r#"["ContentStart", "ContentDelta { text: \"ab\" }", "ContentStop", "ContentDelta { text: \"c\" }"]"#);
    }

    #[test]
    fn at_the_bound_deltas_are_dropped_with_a_warning_and_one_byte_below_it_they_are_not() {
        let mut inner = Inner::default();
        inner.put(delta(&"x".repeat(MAX_WAITING_DELTA_BYTES)));
        assert_eq!(inner.dropped_bytes, 0);
        inner.put(delta("y"));
        inner.put(AgentEvent::ContentStop);
        let first = inner.take();
        assert!(matches!(&first, Some(AgentEvent::Warning { message }) if message.starts_with("1 bytes")));
        assert!(matches!(inner.take(), Some(AgentEvent::ContentDelta { text }) if text.len() == 1 << 20));
        assert!(matches!(inner.take(), Some(AgentEvent::ContentStop)), "what is structural is kept");
        inner.put(delta("z"));
        assert!(matches!(inner.take(), Some(AgentEvent::ContentDelta { .. })), "what was read makes room");
    }
}
