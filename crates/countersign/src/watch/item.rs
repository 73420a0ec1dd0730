//! A question on the screen: how it stands, and how much of it was read.

use countersign_core::time::Timestamp;
use countersign_server::wire::{Elicitation, Pending};

use crate::span::moment;

/// Where a question stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum State {
    Open,
    /// A decision is on its way.
    Sending,
    /// It ended, like this.
    Decided {
        words: String,
        at: Timestamp,
    },
}

/// A question on the screen.
#[derive(Debug, Clone)]
pub(super) struct Item {
    pub(super) asked: Elicitation,
    pub(super) state: State,
    /// How exactly the same thing was denied before.
    pub(super) denials: Vec<String>,
    /// The first row of its page that was not on the screen yet, counted from the top without a gap.
    pub(super) unread_from: usize,
    /// The whole page was on the screen.
    pub(super) read: bool,
}

impl Item {
    pub(super) fn id(&self) -> &str {
        &self.asked.question.elicitation_id
    }

    pub(super) fn question(&self) -> &Pending {
        &self.asked.question
    }

    /// Whether its whole page was on the screen.
    pub(super) fn is_read(&self) -> bool {
        self.read
    }

    /// Whether its time is up.
    pub(super) fn is_late(&self, now: Timestamp) -> bool {
        moment(&self.question().expires_at).is_some_and(|end| now >= end)
    }
}
