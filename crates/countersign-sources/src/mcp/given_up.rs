//! Calls that were given up before their server answered them.
//!
//! Promise: a request that does not say which call it belongs to is never taken for the call of one session while the server may
//! still work for another: what it was given in a call of one client must not reach another client's model.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The most sessions that are told apart. Beyond, nobody's call is known not to be another's.
const MAX_SESSIONS: usize = 1_000;

/// The calls of one connection that were given up, by their session.
pub(super) struct GivenUpCalls {
    /// The server is believed to have ended with a call after this long.
    forgotten_after: Duration,
    calls: Mutex<Vec<GivenUpCall>>,
}

struct GivenUpCall {
    session: Option<String>,
    until: Instant,
}

impl GivenUpCalls {
    pub(super) fn new(forgotten_after: Duration) -> Self {
        Self { forgotten_after, calls: Mutex::default() }
    }

    /// A call of this session was given up. One entry a session is enough.
    pub(super) fn note(&self, session: Option<String>) {
        let mut calls = self.calls();
        calls.retain(|call| call.session != session);
        let session = session.filter(|_| calls.len() < MAX_SESSIONS);
        calls.retain(|call| session.is_some() || call.session.is_some());
        calls.push(GivenUpCall { session, until: Instant::now() + self.forgotten_after });
    }

    /// Whether the server may still work on a call of another session than this one.
    pub(super) fn is_another_possible(&self, session: Option<&str>) -> bool {
        self.calls().iter().any(|call| session.is_none() || call.session.as_deref() != session)
    }

    fn calls(&self) -> MutexGuard<'_, Vec<GivenUpCall>> {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        calls.retain(|call| now < call.until);
        calls
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn another_sessions_call_is_possible_until_the_server_must_have_ended_with_it() {
        let given_up = GivenUpCalls::new(Duration::from_secs(10));
        assert!(!given_up.is_another_possible(Some("ann")) && !given_up.is_another_possible(None));
        given_up.note(Some("ann".into()));
        assert!(!given_up.is_another_possible(Some("ann")), "its own client may be asked");
        assert!(given_up.is_another_possible(Some("bob")) && given_up.is_another_possible(None));
        tokio::time::advance(Duration::from_millis(9_999)).await;
        assert!(given_up.is_another_possible(Some("bob")));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(!given_up.is_another_possible(Some("bob")));
    }

    #[test]
    fn beyond_the_bound_no_session_is_told_apart() {
        let given_up = GivenUpCalls::new(Duration::from_secs(10));
        for number in 0..MAX_SESSIONS + 5 {
            given_up.note(Some(number.to_string()));
        }
        assert_eq!(given_up.calls().len(), MAX_SESSIONS + 1);
        assert!(given_up.is_another_possible(Some("0")));
    }
}
