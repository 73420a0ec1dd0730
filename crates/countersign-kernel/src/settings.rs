//! The operator's settings for approvals, and the kernel's bounds.

use std::time::Duration;

use countersign_core::bounds::{
    MAX_PENDING_BYTES_PER_REQUESTER, MAX_PENDING_PER_REQUESTER, MAX_SESSIONS_PER_PRINCIPAL,
    MAX_STORED_BYTES_PER_DAY,
};
use countersign_sdk::Remember;

/// How the gateway behaves. The defaults are the safe ones.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How long a question waits before its outcome is `expired`.
    pub expires: Duration,
    /// The default coverage of an approval, for tools and rules without one.
    pub remember: Remember,
    /// How long a remembered approval counts at most: a session may outlive what its person had in mind.
    pub remember_for: Duration,
    /// How long an execution that waits for a person is kept in memory.
    pub park_after: Duration,
    /// The most open questions one session may have.
    pub max_pending_per_session: usize,
    /// The most open questions one requester may have, in all of its sessions.
    pub max_pending_per_requester: usize,
    /// The most bytes that the open questions of one requester may have together.
    pub max_pending_bytes_per_requester: usize,
    /// The most bytes recorded for one requester in a day.
    pub max_stored_bytes_per_day: u64,
    /// The most sessions one principal may have.
    pub max_sessions_per_principal: usize,
    /// The most scripts in memory at once, sleeping ones among them; further ones are told to come back. Parked ones are free.
    pub max_live_scripts: usize,
    /// The most calls under way at once, of all callers; further ones are told to come back. One caller gets a quarter of them.
    pub max_calls_in_flight: usize,
    /// The most bytes of arguments of calls under way at once. One caller gets a quarter of them.
    pub max_bytes_in_flight: usize,
    /// The most calls of one script that run at the same time; further ones wait their turn.
    pub max_calls_at_once: usize,
    /// The most log lines kept with an execution.
    pub max_log_lines: usize,
    /// How many events a slow reader of the event stream may fall behind.
    pub event_backlog: usize,
    /// Whether a person can be reached at all.
    pub people: People,
}

/// Whether anybody is there to decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum People {
    /// Questions are kept until somebody answers.
    Reachable,
    /// No person can answer: calls that would ask are denied, `confirm` is false, forms are not available.
    Nobody,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            expires: Duration::from_secs(24 * 60 * 60),
            remember: Remember::Call,
            remember_for: Duration::from_secs(12 * 60 * 60),
            park_after: Duration::from_secs(30),
            max_pending_per_session: 1_000,
            max_pending_per_requester: MAX_PENDING_PER_REQUESTER,
            max_pending_bytes_per_requester: MAX_PENDING_BYTES_PER_REQUESTER,
            max_stored_bytes_per_day: MAX_STORED_BYTES_PER_DAY,
            max_sessions_per_principal: MAX_SESSIONS_PER_PRINCIPAL,
            max_live_scripts: 256,
            max_calls_in_flight: 8_192,
            max_bytes_in_flight: 256 * 1024 * 1024,
            max_calls_at_once: 64,
            max_log_lines: 1_000,
            event_backlog: 4_096,
            people: People::Reachable,
        }
    }
}
