//! What an operator may choose about MCP.

use std::time::Duration;

use super::announcer::Announcer;
use super::companion::Companion;

/// How long a call is held for a client that cannot be asked, in case a person decides meanwhile.
const DEFAULT_HOLD: Duration = Duration::from_secs(45);

/// How the MCP front behaves. The defaults are the safe ones.
#[derive(Clone)]
pub struct Options {
    /// What clients see.
    pub surface: Surface,
    /// How long a call is held for a client that cannot be asked.
    pub hold: Duration,
    /// Whether `resume` with `approved` decides. Off: an agent must not be able to approve itself.
    pub agent_may_decide: bool,
    /// Whose prompts count: those of clients that a person declared attended, or nobody's.
    pub client_elicitation: ClientElicitation,
    /// What `requestState` is sealed with. Kept in the data folder, so that a client may come back after a restart.
    pub seal_key: [u8; 32],
    /// What an embedding program answers beside the gateway's tools; nothing, in the product.
    pub companion: Option<Companion>,
    /// Through what connected clients are told that the catalog changed.
    pub announcer: Announcer,
}

/// Whether a yes in the agent's own client counts as its user's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClientElicitation {
    /// Where a person declared that this client's prompts reach a person.
    #[default]
    Attended,
    /// Never: nobody is asked through a client.
    Never,
}

/// Which tools clients see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Surface {
    /// Every tool, and `run`.
    #[default]
    Both,
    /// Every tool.
    Tools,
    /// `run`, and what is needed to find out what a script can call.
    Script,
}

impl Options {
    /// The defaults, with a key.
    pub fn sealed_with(seal_key: [u8; 32]) -> Self {
        Self {
            surface: Surface::default(),
            hold: DEFAULT_HOLD,
            agent_may_decide: false,
            client_elicitation: ClientElicitation::Attended,
            seal_key,
            companion: None,
            announcer: Announcer::default(),
        }
    }
}
