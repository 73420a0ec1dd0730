//! What a client of the 2025 era has agreed on with the server, kept so that it can be agreed on anew: a server that was
//! restarted knows nothing of a session, and the client need not notice.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use reqwest::header::HeaderValue;

use super::message::Id;

/// How many questions of the server's may be open in the client at once.
const MAX_QUESTIONS: usize = 1_024;

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
    questions: HashSet<Id>,
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

    /// It is begun, for the first time or anew.
    pub(super) fn begin(&self, beginning: Beginning, id: Option<HeaderValue>) {
        let mut state = self.state();
        let generation = state.head.generation + 1;
        state.head = Head { id, version: beginning.version.clone(), generation };
        state.initialize = Some(beginning);
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

    /// The server asks the client something.
    pub(super) fn asked(&self, question: Id) {
        let mut state = self.state();
        if state.questions.len() < MAX_QUESTIONS {
            state.questions.insert(question);
        }
    }

    /// The client answers. Whether the question is still open: one of a session that is gone is not.
    pub(super) fn answered(&self, question: &Id) -> bool {
        self.state().questions.remove(question)
    }

    /// Every open question, which nobody waits for any more.
    pub(super) fn withdraw(&self) -> Vec<Id> {
        self.state().questions.drain().collect()
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
