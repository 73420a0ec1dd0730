//! Sources as they are stored: how each is reached, and which definitions of its tools a person accepted.
//!
//! Configuration and definitions are JSON here: what they mean is the business of whoever serves sources
//! ([`super::Sources`]).

use countersign_core::compact::CompactJson;
use countersign_core::time::Timestamp;
use countersign_sdk::PrincipalId;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A source that was added by a command, the console or a client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceRow {
    /// Its name; the first part of its tools' paths.
    pub name: String,
    /// How it is reached and what is taken of it. Never a secret: credentials are named, not kept here.
    pub config: Value,
    /// When it was added or last changed.
    pub changed_at: Timestamp,
    /// By whom.
    pub changed_by: PrincipalId,
}

/// A tool's definition that a person accepted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceToolRow {
    /// The source of the tool.
    pub source: String,
    /// Its name at the source. A source has one accepted definition for each.
    pub origin: String,
    /// The definition, whole, as it was shown.
    pub definition: CompactJson,
    /// When it was accepted.
    pub accepted_at: Timestamp,
    /// By whom; nobody where the operator's configuration says that changes of this source are trusted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted_by: Option<PrincipalId>,
}

/// A change to sources.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum SourceWrite {
    /// Add a source, or give it another configuration.
    Put(SourceRow),
    /// Remove a source and its accepted definitions. Removing an unknown source changes nothing.
    Remove { name: String },
    /// Accept a definition, in place of the one that was accepted for the same origin.
    Accept(SourceToolRow),
    /// Forget what was accepted for an origin. Forgetting what is not there changes nothing.
    Forget {
        source: String,
        /// The origin.
        origin: String,
    },
}
