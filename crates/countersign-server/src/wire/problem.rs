//! What went wrong, as RFC 9457 has it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// `application/problem+json`, with our stable code.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// `urn:countersign:` and the code.
    #[serde(rename = "type")]
    pub kind: String,
    /// The status in words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// The stable code: programs go by this.
    pub code: String,
    /// What happened, and what to do next.
    pub detail: String,
    /// What else there is to know: `decision`, `violations`, `pending`, `executionId`, …
    #[serde(flatten)]
    pub more: Map<String, Value>,
}
