//! The audit, and whether its chain holds.

use countersign_core::audit::AuditEntry;
use countersign_kernel::ChainReport;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One audit record: the transitions that one commit made, together. `entry` is the text that was hashed; the chain can be verified
/// from it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AuditRecord {
    /// Its number, from 1, without gaps.
    pub seq: u64,
    /// The transitions, in order. None where the record cannot be read.
    pub transitions: Vec<AuditTransition>,
    /// The transitions, in the text that was hashed.
    pub entry: String,
    /// The hash of the record before.
    pub prev: String,
    /// The hash of this one.
    pub hash: String,
}

/// One transition of an audit record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditTransition {
    /// When it happened.
    pub at: String,
    /// Its name, such as `Decided` or `TokenCreated`.
    pub what: String,
    /// The principal who did it; absent where the gateway itself did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The execution it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<String>,
    /// The number of the call it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<u32>,
    /// The question it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elicitation: Option<String>,
    /// The digest that an approval is bound to, where the transition is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Further facts. Never arguments or results: those are in the journal.
    pub detail: String,
}

/// The result of following the chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditVerification {
    /// Whether every record follows from the one before.
    pub ok: bool,
    /// How many do, from the first.
    pub records: u64,
    /// The hash of the last of them.
    pub head: String,
    /// The number of the first record that does not fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken_at: Option<u64>,
    /// What does not fit about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl From<&countersign_core::audit::AuditRecord> for AuditRecord {
    fn from(record: &countersign_core::audit::AuditRecord) -> Self {
        Self {
            seq: record.seq,
            transitions: record.parse().unwrap_or_default().into_iter().map(Into::into).collect(),
            entry: record.entry.clone(),
            prev: record.prev.to_string(),
            hash: record.hash.to_string(),
        }
    }
}

impl From<AuditEntry> for AuditTransition {
    fn from(entry: AuditEntry) -> Self {
        Self {
            at: entry.at.to_string(),
            what: entry.what.into_owned(),
            by: entry.by.map(|by| by.to_string()),
            execution: entry.execution.map(|id| id.to_string()),
            call: entry.call.map(|call| call.0),
            elicitation: entry.elicitation.map(|id| id.to_string()),
            digest: entry.digest.map(|digest| digest.to_string()),
            detail: entry.detail,
        }
    }
}

impl From<&ChainReport> for AuditVerification {
    fn from(report: &ChainReport) -> Self {
        Self {
            ok: report.broken.is_none(),
            records: report.records,
            head: report.head.to_string(),
            broken_at: report.broken.as_ref().map(|broken| broken.seq),
            problem: report.broken.as_ref().map(|broken| broken.problem.to_owned()),
        }
    }
}
