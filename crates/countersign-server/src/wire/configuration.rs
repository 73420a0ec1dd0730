//! The configuration that a server runs with.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The configuration in force: where it came from, and what it says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Configuration {
    /// The file that was read; null where there was none and the defaults hold.
    pub file: Option<String>,
    /// The SHA-256 of that file as it was read.
    pub sha256: Option<String>,
    /// Every key that was set. All others have their defaults, which are the safe ones.
    pub settings: Vec<Setting>,
    /// How many rules there are.
    pub rules: u64,
    /// What identifies the rules; approvals are bound to it.
    pub policy_version: String,
    /// Where executions, approvals and tokens are kept.
    pub data_folder: String,
    /// The Unix user that the server runs as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unix_user: Option<u32>,
    /// The server's process.
    pub pid: u32,
    /// The server's version.
    pub version: String,
}

/// One key that was set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Setting {
    /// The key, such as `approvals.expires`.
    pub key: String,
    /// Its value.
    pub value: String,
    /// What set it: the file's line, or a variable of the environment.
    pub from: String,
}
