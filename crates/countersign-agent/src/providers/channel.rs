//! Asking through a channel: the seed's pattern as one type. Whoever reads a chat's events answers the questions in them.
//!
//! Promise: an answer reaches the question that it was given to and no other, however often a person clicks, and whatever ids
//! the model gives its calls.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::Stream;
use tokio::sync::oneshot;

use crate::confirm::{ConfirmationProvider, ConfirmationRequest, ProviderError, QuestionId, Verdict};

/// The most questions that wait at once.
pub const MAX_PENDING: usize = 1_024;
/// How long an answer waits for its question: the event that shows a question is told just before the question is asked.
const QUESTION_ON_ITS_WAY: Duration = Duration::from_secs(1);

/// The asking end, for the agent.
pub struct ChannelConfirmation {
    shared: Arc<Shared>,
}

/// The answering end, for whoever shows questions to a person: a stream of questions, which ends when the agent is gone. Once
/// this is dropped, everything is refused.
pub struct Confirmations {
    shared: Arc<Shared>,
}

/// The question does not wait for an answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "this question about {tool_name:?} does not wait here; it was answered, withdrawn, or is decided elsewhere"
)]
pub struct NotPending {
    /// The tool that was asked about.
    pub tool_name: String,
}

#[derive(Default)]
struct Shared {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// In order of asking.
    pending: BTreeMap<QuestionId, Waiting>,
    /// No asking end is left.
    unasked: bool,
    /// No answering end is left.
    unanswered: bool,
    /// Who waits for any of this to change.
    watching: Vec<Waker>,
}

struct Waiting {
    request: ConfirmationRequest,
    shown: bool,
    answer: oneshot::Sender<Verdict>,
}

impl ChannelConfirmation {
    /// Both ends.
    pub fn new() -> (Self, Confirmations) {
        let shared = Arc::new(Shared::default());
        (Self { shared: Arc::clone(&shared) }, Confirmations { shared })
    }
}

#[async_trait]
impl ConfirmationProvider for ChannelConfirmation {
    async fn confirm(&self, request: ConfirmationRequest) -> Result<Verdict, ProviderError> {
        let (answer, answered) = oneshot::channel();
        let id = request.id;
        self.shared.change(|inner| {
            if inner.unanswered {
                return Err("nobody is left to answer".to_owned());
            }
            if inner.pending.len() >= MAX_PENDING {
                return Err(format!("{MAX_PENDING} questions wait already"));
            }
            inner.pending.insert(id, Waiting { request, shown: false, answer });
            Ok(())
        })?;
        let _withdrawn = Withdrawn { shared: &self.shared, id };
        answered.await.map_err(|_| "nobody is left to answer".into())
    }
}

impl Drop for ChannelConfirmation {
    fn drop(&mut self) {
        self.shared.change(|inner| inner.unasked = true);
    }
}

/// Takes a question away when its asker is gone.
struct Withdrawn<'a> {
    shared: &'a Shared,
    id: QuestionId,
}

impl Drop for Withdrawn<'_> {
    fn drop(&mut self) {
        self.shared.locked().pending.remove(&self.id);
    }
}

impl Confirmations {
    /// The next question that was not shown yet; nothing once the agent is gone.
    pub async fn next(&self) -> Option<ConfirmationRequest> {
        poll_fn(|context| self.shared.poll(context, Inner::to_show)).await
    }

    /// Answers this very question. An answer to an event that was just read may be faster than the question itself, so that
    /// it is waited for, briefly.
    pub async fn respond(&self, asked: &ConfirmationRequest, verdict: Verdict) -> Result<(), NotPending> {
        let found = poll_fn(|context| self.shared.poll(context, |inner| inner.taken(asked.id)));
        let waiting = tokio::time::timeout(QUESTION_ON_ITS_WAY, found).await.ok().flatten();
        let answered = waiting.and_then(|waiting| waiting.answer.send(verdict).ok());
        answered.ok_or_else(|| NotPending { tool_name: asked.tool_name.clone() })
    }

    /// The questions that wait, oldest first.
    pub fn pending(&self) -> Vec<ConfirmationRequest> {
        self.shared.locked().pending.values().map(|waiting| waiting.request.clone()).collect()
    }
}

impl Stream for Confirmations {
    type Item = ConfirmationRequest;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<ConfirmationRequest>> {
        self.shared.poll(context, Inner::to_show)
    }
}

impl Drop for Confirmations {
    fn drop(&mut self) {
        self.shared.change(|inner| {
            inner.unanswered = true;
            // Their senders go with them, which tells whoever waits.
            inner.pending.clear();
        });
    }
}

impl Shared {
    /// Changes something, and wakes whoever waits for that.
    fn change<T>(&self, change: impl FnOnce(&mut Inner) -> T) -> T {
        let (changed, watching) = {
            let mut inner = self.locked();
            (change(&mut inner), std::mem::take(&mut inner.watching))
        };
        watching.into_iter().for_each(Waker::wake);
        changed
    }

    /// What is looked for, once it is there; nothing once nobody can ask any more.
    fn poll<T>(&self, context: &Context<'_>, look: impl FnOnce(&mut Inner) -> Option<T>) -> Poll<Option<T>> {
        let mut inner = self.locked();
        match look(&mut inner) {
            Some(found) => Poll::Ready(Some(found)),
            None if inner.unasked => Poll::Ready(None),
            None => {
                inner.watching.retain(|waker| !waker.will_wake(context.waker()));
                inner.watching.push(context.waker().clone());
                Poll::Pending
            }
        }
    }

    fn locked(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn to_show(&mut self) -> Option<ConfirmationRequest> {
        let waiting = self.pending.values_mut().find(|waiting| !waiting.shown)?;
        waiting.shown = true;
        Some(waiting.request.clone())
    }

    fn taken(&mut self, id: QuestionId) -> Option<Waiting> {
        self.pending.remove(&id)
    }
}
