//! What a client of the 2025 era has agreed on with the server, kept so that it can be agreed on anew: a server that was
//! restarted knows nothing of a session, and the client need not notice.

use std::sync::{Mutex, PoisonError};

use reqwest::header::HeaderValue;

use super::message::Id;
use super::questions::{Question, Questions};

/// The one session of the client. A client of the 2026-07-28 era never begins it.
#[derive(Default)]
pub(super) struct Session {
    state: Mutex<State>,
    /// Held by whoever agrees on it anew, so that one does it and the others wait.
    pub(super) mending: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    head: Head,
    initialize: Option<Beginning>,
    initialized: Option<String>,
    questions: Questions,
}

/// What goes with every message of the session.
#[derive(Debug, Clone, Default)]
pub(super) struct Head {
    pub(super) id: Option<HeaderValue>,
    pub(super) version: Option<String>,
    /// How often it was begun.
    pub(super) generation: u64,
}

/// The client's own `initialize`, and what it was told.
#[derive(Debug, Clone)]
pub(super) struct Beginning {
    pub(super) text: String,
    pub(super) id: Id,
    pub(super) version: Option<String>,
}

impl Session {
    pub(super) fn head(&self) -> Head {
        self.state().head.clone()
    }

    /// It is begun, for the first time or anew. The questions of the one before, which nobody waits for any more.
    pub(super) fn begin(&self, beginning: Beginning, id: Option<HeaderValue>) -> Vec<Question> {
        let mut state = self.state();
        let generation = state.head.generation + 1;
        state.head = Head { id, version: beginning.version.clone(), generation };
        state.initialize = Some(beginning);
        state.questions.drain()
    }

    /// The client's `notifications/initialized`. Whether it is the first one.
    pub(super) fn initialized(&self, text: &str) -> bool {
        self.state().initialized.replace(text.to_owned()).is_none()
    }

    /// What the client sent to begin it.
    pub(super) fn beginning(&self) -> Option<(Beginning, Option<String>)> {
        let state = self.state();
        Some((state.initialize.clone()?, state.initialized.clone()))
    }

    /// The server asks the client something. Whether the session that asks is still the one there is.
    pub(super) fn asked(&self, question: Question) -> bool {
        let mut state = self.state();
        let is_current = question.generation == state.head.generation;
        if is_current {
            state.questions.open(question);
        }
        is_current
    }

    /// The server does not wait for the answer any more.
    pub(super) fn withdrawn(&self, question: &Question) {
        self.state().questions.close(question);
    }

    /// The client answers what it was shown. The question, if it is still open: one of a session that is gone is not.
    pub(super) fn answered(&self, shown: &Id) -> Option<Question> {
        self.state().questions.take(shown)
    }

    /// Every open question; nobody waits for their answers any more.
    pub(super) fn withdraw(&self) -> Vec<Question> {
        self.state().questions.drain()
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
