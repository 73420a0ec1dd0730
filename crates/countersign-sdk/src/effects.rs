//! What a tool does to the world, as its author declares it.

use serde::{Deserialize, Serialize};

/// The declared effects of a tool. The default is a read-only tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Effects {
    /// It creates, deletes, sends or overwrites: a person decides before it runs.
    pub destructive: bool,
    /// Running it twice with the same arguments and idempotency key is the same as running it once.
    pub idempotent: bool,
    /// It reaches systems outside the gateway's own.
    pub open_world: bool,
}

/// How long an approval of a tool counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Remember {
    /// For the one call that was shown.
    Call,
    /// For every later call of the same tool in the same session.
    Session,
}
