//! Cancelling a call of the 2026-07-28 era.
//!
//! Over HTTP that revision has no message for it: a client closes the stream, and so does a connection that is lost, which must
//! cancel nothing. A client on standard input does say that it cancels. So the bridge names each call in a header
//! ([`CALL_HEADER`]), and passes the client's `notifications/cancelled` on under that name.
//!
//! Promise: a name is good for the principal that gave it, while the call is being served. Whoever serves the call hears why it
//! was cancelled; a call that merely lost its client hears nothing.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use axum::http::HeaderMap;
use countersign_sdk::PrincipalId;
use serde::Deserialize;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::conversation::shortened;

/// The header that names a call, and that a cancellation repeats.
pub const CALL_HEADER: &str = "countersign-call";
/// The longest name of a call.
const MAX_NAME_BYTES: usize = 64;
/// What is said where the client says nothing.
pub(super) const NO_REASON: &str = "the client cancelled the call";

/// The named calls that are being served. At most one for each request that is, so those bound it.
#[derive(Default)]
pub(super) struct NamedCalls {
    calls: Mutex<HashMap<Key, Cancelling>>,
}

/// Whose name it is, and the name.
type Key = (PrincipalId, String);

/// How a call is cancelled.
struct Cancelling {
    reason: oneshot::Sender<String>,
    stop: CancellationToken,
}

/// A named call that is being served. Dropping it takes it off the list.
pub(super) struct NamedCall<'a> {
    calls: &'a NamedCalls,
    key: Key,
    reason: oneshot::Receiver<String>,
}

/// The name that a request gives its call.
pub(super) fn name_in(headers: &HeaderMap) -> Option<&str> {
    let name = headers.get(CALL_HEADER)?.to_str().ok()?;
    (!name.is_empty() && name.len() <= MAX_NAME_BYTES).then_some(name)
}

/// Why a message says that a request is cancelled; none where it says something else.
pub(super) fn reason_in(message: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Notification {
        method: String,
        #[serde(default)]
        params: Params,
    }
    #[derive(Deserialize, Default)]
    struct Params {
        reason: Option<String>,
    }
    let notification: Notification = serde_json::from_slice(message).ok()?;
    let reason = notification.params.reason.unwrap_or_else(|| NO_REASON.to_owned());
    (notification.method == "notifications/cancelled").then_some(reason)
}

impl NamedCalls {
    /// A call came in; `stop` ends waiting for it. None where one of this name is being served already: its name is taken.
    pub(super) fn enter(
        &self,
        whose: &PrincipalId,
        name: &str,
        stop: CancellationToken,
    ) -> Option<NamedCall<'_>> {
        let key = (whose.clone(), name.to_owned());
        let mut calls = self.locked();
        if calls.contains_key(&key) {
            return None;
        }
        let (say, reason) = oneshot::channel();
        calls.insert(key.clone(), Cancelling { reason: say, stop });
        Some(NamedCall { calls: self, key, reason })
    }

    /// The client cancels a call. Whether there is one of this name.
    pub(super) fn cancel(&self, whose: &PrincipalId, name: &str, reason: &str) -> bool {
        let Some(cancelling) = self.locked().remove(&(whose.clone(), name.to_owned())) else { return false };
        // The reason is there before the call stops, so that it need not be waited for.
        let is_served = cancelling.reason.send(shortened(reason).to_owned()).is_ok();
        cancelling.stop.cancel();
        is_served
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<Key, Cancelling>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl NamedCall<'_> {
    /// Why the client cancelled the call; none where it did not.
    pub(super) fn cancelled(mut self) -> Option<String> {
        self.reason.try_recv().ok()
    }
}

impl Drop for NamedCall<'_> {
    fn drop(&mut self) {
        self.reason.close();
        let mut calls = self.calls.locked();
        // After a cancellation the name may be another call's by now.
        if calls.get(&self.key).is_some_and(|cancelling| cancelling.reason.is_closed()) {
            calls.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(name: &str) -> PrincipalId {
        PrincipalId::parse(name).unwrap()
    }

    #[test]
    fn a_name_cancels_the_call_of_its_principal_and_no_other() {
        let calls = NamedCalls::default();
        let (stop, other) = (CancellationToken::new(), CancellationToken::new());
        let call = calls.enter(&id("ann"), "a", stop.clone()).unwrap();
        let bobs = calls.enter(&id("bob"), "a", other.clone()).unwrap();
        assert!(calls.enter(&id("ann"), "a", CancellationToken::new()).is_none(), "the name is taken");
        assert!(!calls.cancel(&id("ann"), "b", "why") && !calls.cancel(&id("cid"), "a", "why"));
        assert!(!stop.is_cancelled());
        assert!(calls.cancel(&id("ann"), "a", "why"));
        assert!(stop.is_cancelled() && !other.is_cancelled());
        assert!(!calls.cancel(&id("ann"), "a", "again"), "once is enough");
        assert_eq!(call.cancelled().as_deref(), Some("why"));
        assert_eq!(bobs.cancelled(), None);
        assert!(calls.locked().is_empty());
    }

    #[test]
    fn a_call_that_is_over_is_off_the_list_and_leaves_a_later_one_of_its_name() {
        let calls = NamedCalls::default();
        let first = calls.enter(&id("ann"), "a", CancellationToken::new()).unwrap();
        assert!(calls.cancel(&id("ann"), "a", "why"));
        let second = calls.enter(&id("ann"), "a", CancellationToken::new()).unwrap();
        drop(first);
        assert!(calls.cancel(&id("ann"), "a", "why"), "the second is still there");
        drop(second);
        drop(calls.enter(&id("ann"), "b", CancellationToken::new()).unwrap());
        assert!(calls.locked().is_empty());
    }

    #[test]
    fn a_message_says_why_it_cancels_and_anything_else_cancels_nothing() {
        let cancelled = br#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"why"}}"#;
        assert_eq!(reason_in(cancelled).as_deref(), Some("why"));
        assert_eq!(reason_in(br#"{"method":"notifications/cancelled"}"#).as_deref(), Some(NO_REASON));
        for other in [&b"{"[..], b"[]", br#"{"method":"tools/call","params":{"reason":"why"}}"#] {
            assert_eq!(reason_in(other), None);
        }
    }

    #[test]
    fn a_name_at_its_bound_is_taken_and_a_longer_one_is_not() {
        let named = |bytes: usize| {
            let mut headers = HeaderMap::new();
            headers.insert(CALL_HEADER, "x".repeat(bytes).parse().unwrap());
            name_in(&headers).is_some()
        };
        assert!(named(MAX_NAME_BYTES) && !named(MAX_NAME_BYTES + 1) && !named(0));
    }
}
