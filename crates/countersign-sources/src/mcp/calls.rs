//! The calls in flight on one connection: whose question it is, who is told of progress, and how long a call has been silent.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use countersign_sdk::ClientRequest;
use rmcp::model::RequestId;
use serde_json::Value;
use tokio::time::Instant;

use crate::mcp::call::{Asker, ProgressUpdate, Question, Reply};

/// The calls in flight. The lock is held while a call is sent, so that a question that arrives at once finds it.
pub(super) type Calls = tokio::sync::Mutex<HashMap<RequestId, Arc<CallInFlight>>>;

/// One call in flight.
pub(super) struct CallInFlight {
    pub(super) asker: Arc<dyn Asker>,
    pub(super) progress: Arc<dyn Fn(ProgressUpdate) + Send + Sync>,
    pub(super) activity: Activity,
}

/// When something was last heard of a call. Time in which a person is asked does not count.
pub(super) struct Activity {
    state: Mutex<ActivityState>,
    silence: Duration,
    total: Duration,
}

struct ActivityState {
    started: Instant,
    heard: Instant,
    asking: u32,
    asking_since: Instant,
    asked: Duration,
}

impl CallInFlight {
    /// Asks a person and stops the clock meanwhile.
    pub(super) async fn ask(&self, question: Question) -> Reply {
        let _stopped = self.activity.stop();
        self.asker.ask(question).await
    }

    /// Asks the client that made the call and stops the clock meanwhile: such a request has a deadline of its own.
    pub(super) async fn ask_client(&self, request: ClientRequest) -> Result<Value, String> {
        let _stopped = self.activity.stop();
        self.asker.ask_client(request).await
    }

    pub(super) fn tell(&self, update: ProgressUpdate) {
        self.activity.heard();
        (self.progress)(update);
    }
}

impl Activity {
    pub(super) fn new(silence: Duration, total: Duration) -> Self {
        let now = Instant::now();
        let state =
            ActivityState { started: now, heard: now, asking: 0, asking_since: now, asked: Duration::ZERO };
        Self { state: Mutex::new(state), silence, total }
    }

    pub(super) fn heard(&self) {
        self.state().heard = Instant::now();
    }

    /// Returns once the call has been silent, or has gone on, for too long.
    pub(super) async fn exceeded(&self) -> String {
        loop {
            match self.deadline() {
                Some((deadline, reason)) if deadline <= Instant::now() => return reason,
                Some((deadline, _)) => tokio::time::sleep_until(deadline).await,
                None => tokio::time::sleep(self.silence.min(Duration::from_secs(1))).await,
            }
        }
    }

    fn deadline(&self) -> Option<(Instant, String)> {
        let state = self.state();
        if state.asking > 0 {
            return None;
        }
        let silence = state.heard + self.silence;
        let total = state.started + state.asked + self.total;
        let (deadline, limit) = if silence < total { (silence, self.silence) } else { (total, self.total) };
        Some((deadline, format!("no answer within {} ms", limit.as_millis())))
    }

    fn stop(&self) -> Stopped<'_> {
        let mut state = self.state();
        if state.asking == 0 {
            state.asking_since = Instant::now();
        }
        state.asking += 1;
        Stopped(self)
    }

    fn state(&self) -> std::sync::MutexGuard<'_, ActivityState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// While this lives, the clock stands.
struct Stopped<'a>(&'a Activity);

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.asking -= 1;
        if state.asking == 0 {
            let now = Instant::now();
            let asked = now - state.asking_since;
            state.asked += asked;
            state.heard = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn silence_ends_a_call_and_progress_starts_it_anew_up_to_the_total() {
        let activity = Activity::new(10 * SECOND, 25 * SECOND);
        let begun = Instant::now();
        let watched = async {
            for _ in 0..3 {
                tokio::time::sleep(9 * SECOND).await;
                activity.heard();
            }
        };
        let (reason, ()) = tokio::join!(activity.exceeded(), watched);
        assert_eq!(reason, "no answer within 25000 ms");
        assert!(begun.elapsed() >= 25 * SECOND);
        let silent = Activity::new(10 * SECOND, 25 * SECOND);
        assert_eq!(silent.exceeded().await, "no answer within 10000 ms");
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_a_person_takes_to_answer_does_not_count() {
        let activity = Activity::new(10 * SECOND, 25 * SECOND);
        let person = async {
            let stopped = activity.stop();
            tokio::time::sleep(1_000 * SECOND).await;
            drop(stopped);
        };
        let begun = Instant::now();
        let (reason, ()) = tokio::join!(activity.exceeded(), person);
        assert_eq!(reason, "no answer within 10000 ms");
        assert!(begun.elapsed() >= 1_010 * SECOND);
    }
}
