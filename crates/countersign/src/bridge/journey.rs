//! How far a request has come. Whoever sends it and whoever gives it up ask here, so that a request that was given up in
//! time is never sent.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// One request's way to the server.
#[derive(Debug, Default)]
pub(super) struct Journey(Mutex<Stage>);

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
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
