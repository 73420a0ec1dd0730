//! Audit records: one per transition, each chained to the one before.
//!
//! Promise: a record that was changed, removed from the middle or moved breaks the chain, and [`verify`] says where. Whoever can
//! write the whole file can restamp it; signed heads kept elsewhere are what guards against that.

use countersign_sdk::PrincipalId;
use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::elicitation::{Decider, Decision};
use crate::event::{CallOutcome, Event, EventBody, Settlement, StartedBy};
use crate::execution::Execution;
use crate::ids::{CallNo, ElicitationId, ExecutionId};
use crate::time::Timestamp;

/// What is to be recorded; the store adds number and chain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditEntry {
    /// When.
    pub at: Timestamp,
    /// The name of the transition: a journal event's, or one of `SessionOpened`, `GrantGiven`, `GrantExpired`, `GrantRevoked`,
    /// `TokenCreated`, `TokenRevoked`, `TokenAdopted`, `UserAdded`, `UserChanged`, `UserDisabled`, `LoginBegan`, `LoginEnded`,
    /// `ConfigurationLoaded`, `CatalogChanged`.
    pub what: String,
    /// Who did it; nobody where the gateway itself did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<PrincipalId>,
    /// The execution it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<ExecutionId>,
    /// The call it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallNo>,
    /// The question it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elicitation: Option<ElicitationId>,
    /// What an approval is bound to, where it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
    /// What else an auditor wants to read. Never arguments or results: those are in the journal.
    pub detail: String,
}

/// A recorded entry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AuditRecord {
    /// Its number, from 1, without gaps.
    pub seq: u64,
    /// The entry, in the text that was hashed.
    pub entry: String,
    /// The hash of the record before.
    pub prev: Digest,
    /// The hash of this one.
    pub hash: Digest,
}

/// Which records somebody wants to read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditFilter {
    /// Only those of this execution.
    pub execution: Option<ExecutionId>,
    /// Only what this principal did.
    pub by: Option<PrincipalId>,
    /// Only transitions of this name.
    pub what: Option<String>,
}

/// Where a chain is broken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the audit chain is broken at record {seq}: {problem}")]
pub struct BrokenChain {
    /// The first record that does not fit.
    pub seq: u64,
    /// What does not fit.
    pub problem: &'static str,
}

impl AuditRecord {
    /// The record that follows `prev` in the chain.
    pub fn chained(prev_seq: u64, prev: Digest, entry: &AuditEntry) -> Result<Self, serde_json::Error> {
        let (seq, entry) = (prev_seq + 1, serde_json::to_string(entry)?);
        Ok(Self { seq, hash: link(seq, prev, &entry), entry, prev })
    }

    /// The entry.
    pub fn parse(&self) -> Result<AuditEntry, serde_json::Error> {
        serde_json::from_str(&self.entry)
    }
}

impl AuditFilter {
    /// Whether it lets everything through.
    pub fn is_open(&self) -> bool {
        *self == Self::default()
    }

    /// Whether it lets this record through. An entry that cannot be read is nobody's, and only an open filter shows it.
    pub fn admits(&self, record: &AuditRecord) -> bool {
        if self.is_open() {
            return true;
        }
        // Most records are not wanted, and looking for a text is many times faster than reading the entry.
        if !self.could_admit(&record.entry) {
            return false;
        }
        let Ok(entry) = record.parse() else { return false };
        self.execution.is_none_or(|id| entry.execution == Some(id))
            && self.by.as_ref().is_none_or(|by| entry.by.as_ref() == Some(by))
            && self.what.as_ref().is_none_or(|what| entry.what == *what)
    }

    fn could_admit(&self, entry: &str) -> bool {
        let has = |text: &str| entry.contains(text);
        // An id or a name that is written with an escape is looked for by reading.
        let plain = |text: &&str| !text.contains(['"', '\\']) && text.bytes().all(|b| b.is_ascii_graphic());
        self.execution.is_none_or(|id| has(&id.to_string()))
            && self.by.as_ref().map(PrincipalId::as_str).filter(plain).is_none_or(has)
            && self.what.as_deref().filter(plain).is_none_or(has)
    }
}

/// Follows a chain from a trusted head; gives the new head.
pub fn verify<'a>(
    head: (u64, Digest),
    records: impl IntoIterator<Item = &'a AuditRecord>,
) -> Result<(u64, Digest), BrokenChain> {
    records.into_iter().try_fold(head, |(seq, prev), record| {
        let broken = |problem| BrokenChain { seq: seq + 1, problem };
        if record.seq != seq + 1 {
            return Err(broken("a record is missing"));
        }
        if record.prev != prev {
            return Err(broken("it does not follow from the record before"));
        }
        if record.hash != link(record.seq, record.prev, &record.entry) {
            return Err(broken("its content was changed"));
        }
        Ok((record.seq, record.hash))
    })
}

fn link(seq: u64, prev: Digest, entry: &str) -> Digest {
    let mut bytes = Vec::with_capacity(entry.len() + 64);
    bytes.extend_from_slice(b"countersign/audit/1");
    bytes.extend_from_slice(&seq.to_be_bytes());
    bytes.extend_from_slice(prev.as_bytes());
    bytes.extend_from_slice(entry.as_bytes());
    Digest::of(&bytes)
}

impl AuditEntry {
    /// The record of a journal event, given the execution after it.
    pub fn of(execution: &Execution, event: &Event) -> Self {
        let mut entry = Self {
            at: event.at,
            what: event.body.name().to_owned(),
            by: None,
            execution: Some(execution.id()),
            call: None,
            elicitation: None,
            digest: None,
            detail: String::new(),
        };
        entry.fill(execution, &event.body);
        entry
    }

    /// A record that belongs to no execution.
    pub fn bare(at: Timestamp, what: &str, by: Option<PrincipalId>, detail: String) -> Self {
        Self {
            at,
            what: what.to_owned(),
            by,
            execution: None,
            call: None,
            elicitation: None,
            digest: None,
            detail,
        }
    }

    fn fill(&mut self, execution: &Execution, body: &EventBody) {
        match body {
            EventBody::Started(started) => {
                self.by = Some(started.requester.id.clone());
                self.digest = started.script.as_ref().map(|script| script.digest);
                self.detail = format!("session {}", started.session);
            }
            EventBody::CallIssued(issued) => {
                self.call = Some(issued.call);
                self.digest = Some(issued.digest);
                self.detail = issued.path.to_string();
            }
            EventBody::Asked(elicitation) => {
                self.call = Some(elicitation.call);
                self.elicitation = Some(elicitation.id);
                self.digest = Some(elicitation.digest);
                self.detail = format!("{}: {}", elicitation.tool, elicitation.because);
            }
            EventBody::Decided { elicitation, decision } => {
                self.elicitation = Some(*elicitation);
                self.call = execution.find(*elicitation).map(|a| a.elicitation.call);
                self.digest = execution.find(*elicitation).map(|a| a.elicitation.digest);
                self.fill_decision(decision);
            }
            EventBody::Rejudged { call, policy_version } => {
                self.call = Some(*call);
                self.digest = execution.call(*call).map(|c| c.digest);
                self.detail = format!("under policy {policy_version}");
            }
            EventBody::CallStarted { call, by } => {
                self.call = Some(*call);
                self.digest = execution.call(*call).map(|c| c.digest);
                self.fill_start(by);
            }
            EventBody::StepRecorded { call, name, .. } => {
                self.call = Some(*call);
                self.detail = format!("step {name}");
            }
            EventBody::CallSettled { call, outcome } => {
                self.call = Some(*call);
                self.detail = outcome_word(outcome);
            }
            EventBody::CallRefused { path, requested, failure } => {
                self.digest = Some(*requested);
                self.detail = format!("{}: {}", crate::visible::visible(path).text, failure.code);
            }
            EventBody::SleepStarted { ms } => self.detail = format!("{ms} ms"),
            EventBody::SleepEnded { request } => self.detail = format!("request {request}"),
            EventBody::ScriptWaits { seen } => self.detail = format!("after {seen} completions"),
            EventBody::Finished { outcome, .. } => self.detail = outcome_word(outcome),
            EventBody::Cancelled { by, reason } => {
                self.by.clone_from(by);
                self.detail.clone_from(reason);
            }
            EventBody::FoundInDoubt { call, reason } => {
                self.call = Some(*call);
                self.detail = reason.clone().unwrap_or_default();
            }
            EventBody::DoubtSettled { call, settlement, by } => {
                self.call = Some(*call);
                self.by = Some(by.clone());
                self.detail = match settlement {
                    Settlement::Done { .. } => "settled as done".into(),
                    Settlement::Failed { message } => format!("settled as failed: {message}"),
                    Settlement::Retry => "settled as retry".into(),
                };
            }
        }
    }

    fn fill_start(&mut self, by: &StartedBy) {
        self.detail = match by {
            StartedBy::Policy { rule } => format!("allowed by {rule}"),
            StartedBy::Grant { id } => format!("covered by {id}"),
            StartedBy::Decision { elicitation } => {
                self.elicitation = Some(*elicitation);
                format!("decided in {elicitation}")
            }
            StartedBy::Retry => "settled as retry".into(),
        };
    }

    fn fill_decision(&mut self, decision: &Decision) {
        let outcome = format!("{:?} through {}", decision.outcome, decision.channel);
        self.detail = match &decision.by {
            Decider::Person { principal, .. } => {
                self.by = Some(principal.clone());
                outcome
            }
            Decider::Grant { id } => format!("{outcome}, covered by {id}"),
            Decider::Clock => format!("{outcome}, time ran out"),
            Decider::Gateway { reason } => format!("{outcome}: {reason}"),
        };
        if let Some(comment) = &decision.comment {
            self.detail.push_str(", ");
            self.detail.push_str(comment);
        }
    }
}

fn outcome_word(outcome: &CallOutcome) -> String {
    match outcome {
        CallOutcome::Succeeded(_) => "succeeded".into(),
        CallOutcome::Failed(failure) => format!("failed: {}", failure.code),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(n: u64) -> Vec<AuditRecord> {
        let (mut seq, mut prev) = (0, Digest::ZERO);
        (0..n)
            .map(|i| {
                let entry = AuditEntry::bare(Timestamp::from_millis(i), "Test", None, format!("record {i}"));
                let record = AuditRecord::chained(seq, prev, &entry).unwrap();
                (seq, prev) = (record.seq, record.hash);
                record
            })
            .collect()
    }

    #[test]
    fn a_whole_chain_verifies_and_can_be_followed_in_parts() {
        let records = chain(10);
        let half = verify((0, Digest::ZERO), &records[..5]).unwrap();
        assert_eq!(verify(half, &records[5..]), Ok((10, records[9].hash)));
    }

    #[test]
    fn a_filter_goes_by_what_an_entry_says_and_not_by_what_stands_in_its_text() {
        let (id, ann) = (ExecutionId::from_random([7; 16]), PrincipalId::parse("a\"n\\n").unwrap());
        let record = |entry: &AuditEntry| AuditRecord::chained(0, Digest::ZERO, entry).unwrap();
        let bare = AuditEntry::bare(Timestamp::from_millis(1), "Asked", Some(ann.clone()), String::new());
        let wanted = record(&AuditEntry { execution: Some(id), ..bare.clone() });
        let filter =
            AuditFilter { execution: Some(id), by: Some(ann.clone()), what: Some("Asked".to_owned()) };
        assert!(filter.admits(&wanted) && AuditFilter::default().admits(&wanted));

        let pretender = AuditEntry { by: None, detail: format!("Asked by {ann} for {id}"), ..bare.clone() };
        let pretender = record(&AuditEntry { what: "Decided".to_owned(), ..pretender });
        for filter in [
            AuditFilter { execution: Some(id), ..AuditFilter::default() },
            AuditFilter { by: Some(ann), ..AuditFilter::default() },
            AuditFilter { what: Some("Asked".to_owned()), ..AuditFilter::default() },
        ] {
            assert!(filter.admits(&wanted), "{filter:?}");
            assert!(!filter.admits(&pretender), "{filter:?}");
        }
        let unreadable = AuditRecord { entry: format!("{{ {id}"), ..wanted };
        assert!(!filter.admits(&unreadable) && AuditFilter::default().admits(&unreadable));
    }

    #[test]
    fn a_changed_missing_or_moved_record_breaks_it_and_is_named() {
        let mut changed = chain(5);
        changed[2].entry = changed[2].entry.replace("record 2", "record 9");
        assert_eq!(verify((0, Digest::ZERO), &changed).unwrap_err().seq, 3);
        let mut missing = chain(5);
        missing.remove(1);
        assert_eq!(verify((0, Digest::ZERO), &missing).unwrap_err().seq, 2);
        let mut moved = chain(5);
        moved.swap(3, 4);
        assert_eq!(verify((0, Digest::ZERO), &moved).unwrap_err().seq, 4);
    }
}
