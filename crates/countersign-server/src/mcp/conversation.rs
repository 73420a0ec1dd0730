//! A conversation of the 2025 era, and the calls of it that are under way.
//!
//! Promise: a call is on the list from when it comes in until it is answered or given up, and never longer; at most
//! [`MAX_CALLS`] are on it at once. A client that cancels a call says why, and whoever serves the call hears it.
#![expect(deprecated, reason = "SEP-2577 deprecates logging; clients of today ask for it")]

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use countersign_sdk::{PrincipalId, SessionId};
use rmcp::model::{LoggingLevel, RequestId};
use tokio::sync::oneshot;

/// The most calls of one conversation at once. A client that closed its streams holds no connections, so those do not bound
/// it.
const MAX_CALLS: usize = 256;
/// The longest reason for a cancellation that is kept.
const MAX_REASON_BYTES: usize = 1_024;
/// How long a call that is over waits for the reason of its cancellation. rmcp ends the call first and passes the reason on
/// right after; where none comes, the conversation ended, and that cancels nothing.
const REASON_COMES_WITHIN: Duration = Duration::from_secs(5);

/// A conversation: one MCP session, one session of the gateway.
pub(super) struct Conversation {
    pub(super) session: SessionId,
    pub(super) owner: PrincipalId,
    /// Its client is told of changes.
    connected: AtomicBool,
    /// The least that a log line must matter.
    level: Mutex<LoggingLevel>,
    /// The calls under way, and where to say why one is cancelled, until that is said.
    calls: Mutex<HashMap<RequestId, Option<oneshot::Sender<String>>>>,
    first_request: FirstRequest,
}

/// Whether a client was sent no request so far.
#[derive(Clone, Default)]
pub(super) struct FirstRequest {
    is_past: Arc<AtomicBool>,
}

impl FirstRequest {
    /// True once, for the first request of a conversation.
    pub(super) fn is_now(&self) -> bool {
        !self.is_past.swap(true, Ordering::Relaxed)
    }
}

/// A call under way. Dropping it takes it off the list.
pub(super) struct Underway<'a> {
    conversation: &'a Conversation,
    request: RequestId,
    reason: oneshot::Receiver<String>,
}

/// Why a call was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum NotTaken {
    #[error(
        "{MAX_CALLS} calls of this conversation are under way, and it may not have more; wait until one of them is answered"
    )]
    TooMany,
    #[error("a call with this request id is under way; give every request an id of its own")]
    IdTaken,
}

impl NotTaken {
    /// Its stable code.
    pub(super) fn code(self) -> &'static str {
        match self {
            Self::TooMany => "too_many_calls",
            Self::IdTaken => "request_id_taken",
        }
    }
}

impl Conversation {
    pub(super) fn new(session: SessionId, owner: PrincipalId) -> Self {
        let level = Mutex::new(LoggingLevel::Info);
        let connected = AtomicBool::new(false);
        let first_request = FirstRequest::default();
        Self { session, owner, connected, level, calls: Mutex::default(), first_request }
    }

    /// True once.
    pub(super) fn is_first_to_connect(&self) -> bool {
        !self.connected.swap(true, Ordering::SeqCst)
    }

    /// Whether the next request to the client is the first one.
    pub(super) fn first_request(&self) -> FirstRequest {
        self.first_request.clone()
    }

    pub(super) fn level(&self) -> LoggingLevel {
        *unpoisoned(&self.level)
    }

    pub(super) fn set_level(&self, level: LoggingLevel) {
        *unpoisoned(&self.level) = level;
    }

    /// A call came in.
    pub(super) fn enter(&self, request: &RequestId) -> Result<Underway<'_>, NotTaken> {
        let mut calls = unpoisoned(&self.calls);
        if calls.len() >= MAX_CALLS {
            return Err(NotTaken::TooMany);
        }
        if calls.contains_key(request) {
            return Err(NotTaken::IdTaken);
        }
        let (say, reason) = oneshot::channel();
        calls.insert(request.clone(), Some(say));
        Ok(Underway { conversation: self, request: request.clone(), reason })
    }

    /// The client cancels a call. One that is not under way is left alone.
    pub(super) fn cancel(&self, request: &RequestId, reason: &str) {
        let say = unpoisoned(&self.calls).get_mut(request).and_then(Option::take);
        if let Some(say) = say {
            // A call that ended meanwhile does not hear it, and need not.
            let _ = say.send(shortened(reason).to_owned());
        }
    }
}

impl Underway<'_> {
    /// Why the client cancelled the call; nothing where it did not.
    pub(super) async fn cancelled(mut self) -> Option<String> {
        tokio::time::timeout(REASON_COMES_WITHIN, &mut self.reason).await.ok()?.ok()
    }
}

impl Drop for Underway<'_> {
    fn drop(&mut self) {
        unpoisoned(&self.conversation.calls).remove(&self.request);
    }
}

/// As much of a reason as is kept.
pub(super) fn shortened(reason: &str) -> &str {
    &reason[..reason.floor_char_boundary(MAX_REASON_BYTES)]
}

fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conversation() -> Conversation {
        let (session, owner) = (SessionId::parse("s").unwrap(), PrincipalId::parse("ann").unwrap());
        Conversation::new(session, owner)
    }

    fn id(n: usize) -> RequestId {
        RequestId::Number(i64::try_from(n).unwrap())
    }

    #[test]
    fn one_call_too_many_is_refused_and_a_place_that_is_left_is_free_again() {
        let conversation = conversation();
        let mut calls: Vec<_> = (0..MAX_CALLS).map(|n| conversation.enter(&id(n)).unwrap()).collect();
        assert_eq!(conversation.enter(&id(MAX_CALLS)).err(), Some(NotTaken::TooMany));
        calls.pop();
        assert!(conversation.enter(&id(MAX_CALLS)).is_ok());
    }

    #[test]
    fn two_calls_under_way_have_two_ids() {
        let conversation = conversation();
        let first = conversation.enter(&id(1)).unwrap();
        assert_eq!(conversation.enter(&id(1)).err(), Some(NotTaken::IdTaken));
        drop(first);
        assert!(conversation.enter(&id(1)).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn whatever_became_of_a_call_it_is_off_the_list_when_it_is_over() {
        let conversation = conversation();
        let answered = conversation.enter(&id(1)).unwrap();
        let told_why = conversation.enter(&id(2)).unwrap();
        let told_too_late = conversation.enter(&id(3)).unwrap();
        let never_told = conversation.enter(&id(4)).unwrap();
        drop(answered);
        conversation.cancel(&id(1), "too late");
        conversation.cancel(&id(2), "changed my mind");
        conversation.cancel(&id(2), "a second time");
        assert_eq!(told_why.cancelled().await.as_deref(), Some("changed my mind"));
        let waiting = told_too_late.cancelled();
        let telling = async { conversation.cancel(&id(3), "in the end") };
        assert_eq!(tokio::join!(waiting, telling).0.as_deref(), Some("in the end"));
        assert_eq!(never_told.cancelled().await, None);
        assert!(unpoisoned(&conversation.calls).is_empty());
    }

    #[tokio::test]
    async fn a_reason_without_end_is_cut() {
        let conversation = conversation();
        let call = conversation.enter(&id(1)).unwrap();
        conversation.cancel(&id(1), &"é".repeat(MAX_REASON_BYTES));
        assert_eq!(call.cancelled().await.unwrap().len(), MAX_REASON_BYTES);
    }
}
