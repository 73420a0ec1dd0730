//! How far a request has come. Whoever sends it and whoever gives it up ask here, so that a request that was given up in
//! time is never sent.

use std::sync::{Mutex, MutexGuard, PoisonError};

use reqwest::header::HeaderValue;

/// One request's way to the server.
#[derive(Debug, Default)]
pub(super) struct Journey {
    stage: Mutex<Stage>,
    /// By what the server knows it when it is cancelled.
    name: Option<HeaderValue>,
}

/// Where a request is.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// The server has not seen it.
    #[default]
    Here,
    /// The server may have seen it.
    Sent,
    /// The client does not want it any more.
    GivenUp,
}

impl Journey {
    /// The journey of a request that can be cancelled by this name.
    pub(super) fn named(name: HeaderValue) -> Self {
        Self { stage: Mutex::default(), name: Some(name) }
    }

    pub(super) fn name(&self) -> Option<&HeaderValue> {
        self.name.as_ref()
    }

    /// Whether it may be sent now; then it counts as sent.
    pub(super) fn may_depart(&self) -> bool {
        let mut stage = self.stage();
        if *stage == Stage::GivenUp {
            return false;
        }
        *stage = Stage::Sent;
        true
    }

    /// It did not get in.
    pub(super) fn came_back(&self) {
        let mut stage = self.stage();
        if *stage == Stage::Sent {
            *stage = Stage::Here;
        }
    }

    /// The client gives it up. How far it had come.
    pub(super) fn give_up(&self) -> Stage {
        std::mem::replace(&mut *self.stage(), Stage::GivenUp)
    }

    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
