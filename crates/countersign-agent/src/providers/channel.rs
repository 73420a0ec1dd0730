//! Asking through a channel: the seed's pattern as one type. Whoever reads a chat's events answers by the call's id.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::{Notify, oneshot};

use crate::confirm::{ConfirmationProvider, ConfirmationRequest, ProviderError, Verdict};

/// The most questions that wait at once.
pub const MAX_PENDING: usize = 1_024;
/// How long an answer waits for its question: the event that shows a question is told just before the question is asked.
const QUESTION_ON_ITS_WAY: Duration = Duration::from_secs(1);

/// The asking end, for the agent.
pub struct ChannelConfirmation {
    shared: Arc<Shared>,
}

/// The answering end, for whoever shows questions to a person. Once it is dropped, everything is refused.
pub struct Confirmations {
    shared: Arc<Shared>,
}

/// Nothing of this id waits for an answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no call {0:?} waits for a confirmation; it was answered, withdrawn, or never asked")]
pub struct NotPending(pub String);

#[derive(Default)]
struct Shared {
    inner: Mutex<Inner>,
    changed: Notify,
}

#[derive(Default)]
struct Inner {
    next: u64,
    /// By order of asking.
    pending: BTreeMap<u64, Waiting>,
    closed: bool,
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
        let number = {
            let mut inner = self.shared.locked();
            if inner.closed {
                return Err("nobody is left to answer".into());
            }
            if inner.pending.len() >= MAX_PENDING {
                return Err(format!("{MAX_PENDING} questions wait already").into());
            }
            inner.next += 1;
            let number = inner.next;
            inner.pending.insert(number, Waiting { request, shown: false, answer });
            number
        };
        let withdrawn = Withdrawn { shared: Arc::clone(&self.shared), number };
        self.shared.changed.notify_waiters();
        let verdict = answered.await;
        drop(withdrawn);
        verdict.map_err(|_| "nobody is left to answer".into())
    }
}

/// Takes a question away when its asker is gone.
struct Withdrawn {
    shared: Arc<Shared>,
    number: u64,
}

impl Drop for Withdrawn {
    fn drop(&mut self) {
        self.shared.locked().pending.remove(&self.number);
    }
}

impl Confirmations {
    /// The next question that was not shown yet. It waits for as long as there is none.
    pub async fn next(&self) -> ConfirmationRequest {
        loop {
            let changed = self.shared.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if let Some(waiting) = self.shared.locked().pending.values_mut().find(|w| !w.shown) {
                waiting.shown = true;
                return waiting.request.clone();
            }
            changed.await;
        }
    }

    /// Answers the oldest question about this call. An answer to an event that was just read may be faster than the question
    /// itself, so that it is waited for, briefly.
    pub async fn respond(&self, tool_call_id: &str, verdict: Verdict) -> Result<(), NotPending> {
        let found = tokio::time::timeout(QUESTION_ON_ITS_WAY, async {
            loop {
                let changed = self.shared.changed.notified();
                tokio::pin!(changed);
                changed.as_mut().enable();
                if let Some(waiting) = self.shared.taken(tool_call_id) {
                    return waiting;
                }
                changed.await;
            }
        });
        let not_pending = || NotPending(tool_call_id.to_owned());
        let waiting = found.await.map_err(|_| not_pending())?;
        waiting.answer.send(verdict).map_err(|_| not_pending())
    }

    /// The questions that wait, oldest first.
    pub fn pending(&self) -> Vec<ConfirmationRequest> {
        self.shared.locked().pending.values().map(|waiting| waiting.request.clone()).collect()
    }
}

impl Drop for Confirmations {
    fn drop(&mut self) {
        let mut inner = self.shared.locked();
        inner.closed = true;
        // Their senders go with them, which tells whoever waits.
        inner.pending.clear();
    }
}

impl Shared {
    fn taken(&self, tool_call_id: &str) -> Option<Waiting> {
        let mut inner = self.locked();
        let of_call = |(_, waiting): &(&u64, &Waiting)| waiting.request.tool_call_id == tool_call_id;
        let number = inner.pending.iter().find(of_call).map(|(number, _)| *number)?;
        inner.pending.remove(&number)
    }

    fn locked(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
