//! The audit, and whether its chain holds.

use countersign_kernel::ChainReport;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One audit record. `entry` is the text that was hashed; the chain can be verified from it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AuditRecord {
    /// Its number, from 1, without gaps.
    pub seq: u64,
    /// The entry, in the text that was hashed.
    pub entry: String,
    /// The hash of the record before.
    pub prev: String,
    /// The hash of this one.
    pub hash: String,
}

/// What came of following the chain.
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
            entry: record.entry.clone(),
            prev: record.prev.to_string(),
            hash: record.hash.to_string(),
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
