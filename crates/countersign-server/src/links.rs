//! Links for people: where in the console something can be looked at and decided.

use countersign_core::ids::ElicitationId;

/// The name under which browsers on this machine reach the console. A cookie is sent to every port of a host, so the
/// console has a host of its own: servers at `127.0.0.1` or `localhost` on other ports are not sent its cookie. Browsers resolve
/// names below `localhost` to this machine themselves.
pub const CONSOLE_HOST: &str = "countersign.localhost";

/// The address people reach this server at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Links {
    base: String,
}

impl Links {
    /// Links below an address such as `http://127.0.0.1:7420`.
    pub fn below(base: &str) -> Self {
        Self { base: base.trim_end_matches('/').to_owned() }
    }

    /// The address itself.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// Where a person can read and decide an elicitation. Opening it changes nothing.
    pub fn elicitation(&self, id: ElicitationId) -> String {
        format!("{}/elicitations/{id}", self.base)
    }
}
