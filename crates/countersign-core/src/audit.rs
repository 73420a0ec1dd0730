//! Audit records: one per commit, which lists its transitions, each record chained to the one before.
//!
//! A record's text is `{"at":…,"execution":"exec_…","transitions":[{"what":"Decided",…},{"what":"CallStarted",…}]}`. A moment or
//! execution that all transitions share stands once, before them; otherwise each transition has its own.
//!
//! Promise: a record that was changed, removed from the middle or moved breaks the chain, and [`verify`] says where. An attacker who
//! can write the whole file can make a new chain; signed heads kept elsewhere guard against that.

use std::borrow::Cow;

use countersign_sdk::PrincipalId;
use serde::{Deserialize, Serialize};

use crate::commit::text_of;
use crate::digest::Digest;
use crate::elicitation::{Decider, Decision};
use crate::event::{CallOutcome, Event, EventBody, Settlement, StartedBy};
use crate::execution::Execution;
use crate::ids::{CallNo, ElicitationId, ExecutionId};
use crate::time::Timestamp;

/// One transition, as it is recorded. The store puts those of a commit into one record.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "at, by, execution, call and elicitation say what they are")]
pub struct AuditEntry {
    pub at: Timestamp,
    /// The name of the transition: a journal event's, or one of `SessionOpened`, `GrantGiven`, `GrantExpired`, `GrantRevoked`,
    /// `TokenCreated`, `TokenRevoked`, `TokenAdopted`, `UserAdded`, `UserChanged`, `UserDisabled`, `LoginBegan`, `LoginEnded`,
    /// `ConfigurationLoaded`, `CatalogChanged`, `SourceChanged`.
    pub what: Cow<'static, str>,
    /// The acting principal; none where the gateway acted by itself.
    pub by: Option<PrincipalId>,
    pub execution: Option<ExecutionId>,
    pub call: Option<CallNo>,
    pub elicitation: Option<ElicitationId>,
    /// The digest that an approval is bound to, where the transition is about one.
    pub digest: Option<Digest>,
    /// Further facts for auditors. Never arguments or results: those are in the journal.
    pub detail: String,
}

/// The transitions of one commit, chained.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AuditRecord {
    /// Its number, from 1, without gaps.
    pub seq: u64,
    /// The transitions, in the text that was hashed.
    pub entry: String,
    /// The hash of the record before.
    pub prev: Digest,
    /// The hash of this one.
    pub hash: Digest,
}

/// A choice of records.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditFilter {
    /// The execution that a record is about.
    pub execution: Option<ExecutionId>,
    /// The principal that acted.
    pub by: Option<PrincipalId>,
    /// The name of the transition.
    pub what: Option<String>,
}

/// A break in the chain.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the audit chain is broken at record {seq}: {problem}")]
pub struct BrokenChain {
    /// The first record that does not fit.
    pub seq: u64,
    /// What does not fit.
    pub problem: &'static str,
}

impl AuditRecord {
    /// The record that follows `prev` in the chain, given the text of its transitions.
    pub fn chained(prev_seq: u64, prev: Digest, entry: String) -> Self {
        let (seq, hash) = link(prev_seq, prev, &entry);
        Self { seq, entry, prev, hash }
    }

    /// The transitions.
    pub fn parse(&self) -> Result<Vec<AuditEntry>, serde_json::Error> {
        let Form { at, execution, transitions } = serde_json::from_str(&self.entry)?;
        transitions.into_iter().map(|transition| transition.whole(at, execution)).collect()
    }
}

/// The number and hash of the record with this text that follows `prev` in the chain.
pub fn link(prev_seq: u64, prev: Digest, entry: &str) -> (u64, Digest) {
    let seq = prev_seq + 1;
    (seq, hash_of(seq, prev, entry))
}

/// The text of a record of these transitions.
pub fn record_text(entries: &[AuditEntry]) -> Result<String, serde_json::Error> {
    let at = shared(entries.iter().map(|entry| entry.at));
    let execution = shared(entries.iter().map(|entry| entry.execution)).flatten();
    let transition = |entry| Transition::of(entry, at, execution);
    text_of(&Form { at, execution, transitions: entries.iter().map(transition).collect() })
}

/// The value that all of them have.
fn shared<T: PartialEq>(mut values: impl Iterator<Item = T>) -> Option<T> {
    let first = values.next()?;
    values.all(|value| value == first).then_some(first)
}

/// A record's text.
#[derive(Serialize, Deserialize)]
struct Form<'e> {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    execution: Option<ExecutionId>,
    #[serde(borrow)]
    transitions: Vec<Transition<'e>>,
}

#[derive(Serialize, Deserialize)]
struct Transition<'e> {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    at: Option<Timestamp>,
    #[serde(borrow)]
    what: Cow<'e, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    by: Option<Cow<'e, PrincipalId>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    execution: Option<ExecutionId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    call: Option<CallNo>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    elicitation: Option<ElicitationId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    digest: Option<Digest>,
    #[serde(borrow, default, skip_serializing_if = "str::is_empty")]
    detail: Cow<'e, str>,
}

impl<'e> Transition<'e> {
    /// Without the moment and execution that the whole record has.
    fn of(entry: &'e AuditEntry, at: Option<Timestamp>, execution: Option<ExecutionId>) -> Self {
        Self {
            at: at.is_none().then_some(entry.at),
            what: Cow::Borrowed(&entry.what),
            by: entry.by.as_ref().map(Cow::Borrowed),
            execution: if execution.is_none() { entry.execution } else { None },
            call: entry.call,
            elicitation: entry.elicitation,
            digest: entry.digest,
            detail: entry.detail.as_str().into(),
        }
    }

    fn whole(
        self,
        at: Option<Timestamp>,
        execution: Option<ExecutionId>,
    ) -> Result<AuditEntry, serde_json::Error> {
        let at =
            at.or(self.at).ok_or_else(|| <serde_json::Error as serde::de::Error>::missing_field("at"))?;
        Ok(AuditEntry {
            at,
            what: self.what.into_owned().into(),
            by: self.by.map(Cow::into_owned),
            execution: execution.or(self.execution),
            call: self.call,
            elicitation: self.elicitation,
            digest: self.digest,
            detail: self.detail.into_owned(),
        })
    }
}

impl AuditFilter {
    /// Whether it lets everything through.
    pub fn is_open(&self) -> bool {
        *self == Self::default()
    }

    /// Whether it lets this record through: one of its transitions fits all that is asked for. A record that cannot be read is
    /// nobody's, and only an open filter shows it.
    pub fn admits(&self, record: &AuditRecord) -> bool {
        if self.is_open() {
            return true;
        }
        // Most records are not wanted, and looking for a text is many times faster than reading the record.
        if !self.could_admit(&record.entry) {
            return false;
        }
        record.parse().is_ok_and(|transitions| transitions.iter().any(|transition| self.fits(transition)))
    }

    /// Whether one transition fits all that is asked for.
    pub fn fits(&self, transition: &AuditEntry) -> bool {
        self.execution.is_none_or(|id| transition.execution == Some(id))
            && self.by.as_ref().is_none_or(|by| transition.by.as_ref() == Some(by))
            && self.what.as_ref().is_none_or(|what| transition.what == *what)
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
        if record.hash != hash_of(record.seq, record.prev, &record.entry) {
            return Err(broken("its content was changed"));
        }
        Ok((record.seq, record.hash))
    })
}

fn hash_of(seq: u64, prev: Digest, entry: &str) -> Digest {
    let mut bytes = Vec::with_capacity(entry.len() + 64);
    bytes.extend_from_slice(b"countersign/audit/2");
    bytes.extend_from_slice(&seq.to_be_bytes());
    bytes.extend_from_slice(prev.as_bytes());
    bytes.extend_from_slice(entry.as_bytes());
    Digest::of(&bytes)
}

impl AuditEntry {
    /// The transition that a journal event is, given the execution after it.
    pub fn of(execution: &Execution, event: &Event) -> Self {
        let mut entry = Self {
            at: event.at,
            what: event.body.name().into(),
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

    /// A transition that belongs to no execution.
    pub fn bare(
        at: Timestamp,
        what: impl Into<Cow<'static, str>>,
        by: Option<PrincipalId>,
        detail: String,
    ) -> Self {
        Self {
            at,
            what: what.into(),
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
                self.fill_question(execution, *elicitation);
                self.fill_decision(decision);
            }
            EventBody::Rejudged { call, policy_version } => {
                self.fill_call(execution, *call);
                self.detail = format!("under policy {policy_version}");
            }
            EventBody::CallStarted { call, by } => {
                self.fill_call(execution, *call);
                self.fill_start(by);
            }
            EventBody::CallReentered { call } => {
                self.fill_call(execution, *call);
                self.detail = "its handler is entered again".into();
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
            EventBody::CancelRequested { by, reason } => {
                self.by = Some(by.clone());
                self.detail.clone_from(reason);
            }
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
                self.fill_settlement(settlement);
            }
        }
    }

    fn fill_call(&mut self, execution: &Execution, call: CallNo) {
        self.call = Some(call);
        self.digest = execution.call(call).map(|c| c.digest);
    }

    fn fill_question(&mut self, execution: &Execution, id: ElicitationId) {
        let asked = execution.find(id).map(|asked| &asked.elicitation);
        self.elicitation = Some(id);
        self.call = asked.map(|elicitation| elicitation.call);
        self.digest = asked.map(|elicitation| elicitation.digest);
    }

    fn fill_settlement(&mut self, settlement: &Settlement) {
        self.detail = match settlement {
            Settlement::Done { .. } => "settled as done".into(),
            Settlement::Failed { message } => format!("settled as failed: {message}"),
            Settlement::Retry => "settled as retry".into(),
        };
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
                let record = AuditRecord::chained(seq, prev, record_text(&[entry]).unwrap());
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
        let record = |entry: &AuditEntry| {
            AuditRecord::chained(0, Digest::ZERO, record_text(std::slice::from_ref(entry)).unwrap())
        };
        let bare = AuditEntry::bare(Timestamp::from_millis(1), "Asked", Some(ann.clone()), String::new());
        let wanted = record(&AuditEntry { execution: Some(id), ..bare.clone() });
        let filter =
            AuditFilter { execution: Some(id), by: Some(ann.clone()), what: Some("Asked".to_owned()) };
        assert!(filter.admits(&wanted) && AuditFilter::default().admits(&wanted));

        let pretender = AuditEntry { by: None, detail: format!("Asked by {ann} for {id}"), ..bare.clone() };
        let pretender = record(&AuditEntry { what: "Decided".into(), ..pretender });
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
    fn what_all_transitions_share_stands_once_and_each_is_read_back_whole() {
        let (one, other) = (ExecutionId::from_random([1; 16]), ExecutionId::from_random([2; 16]));
        let bare = |ms, what| AuditEntry::bare(Timestamp::from_millis(ms), what, None, String::new());
        let ann = PrincipalId::parse("ann").unwrap();
        let decided = AuditEntry { execution: Some(one), by: Some(ann), ..bare(7, "Decided") };
        let started = AuditEntry { execution: Some(one), call: Some(CallNo(0)), ..bare(7, "CallStarted") };
        let text = record_text(&[decided.clone(), started.clone()]).unwrap();
        let golden = r#"{"at":7,"execution":"exec_01010101010101010101010101010101","transitions":[{"what":"Decided","by":"ann"},{"what":"CallStarted","call":0}]}"#;
        assert_eq!(text, golden);
        let elsewhere = AuditEntry { execution: Some(other), ..bare(9, "Asked") };
        for entries in [
            vec![decided.clone(), started.clone()],
            vec![decided.clone(), elsewhere],
            vec![decided, bare(7, "TokenRevoked")],
            vec![bare(1, "One"), bare(2, "Two")],
            vec![started],
            vec![],
        ] {
            let record = AuditRecord::chained(0, Digest::ZERO, record_text(&entries).unwrap());
            assert_eq!(record.parse().unwrap(), entries);
        }
    }

    #[test]
    fn a_filter_wants_one_transition_that_fits_all_of_it() {
        let (ann, bob) = (PrincipalId::parse("ann").unwrap(), PrincipalId::parse("bob").unwrap());
        let bare = |what, by: &PrincipalId| {
            AuditEntry::bare(Timestamp::from_millis(1), what, Some(by.clone()), String::new())
        };
        let entries = [bare("Asked", &ann), bare("Decided", &bob)];
        let record = AuditRecord::chained(0, Digest::ZERO, record_text(&entries).unwrap());
        let admits = |what: &str, by: &PrincipalId| {
            let filter = AuditFilter { execution: None, by: Some(by.clone()), what: Some(what.to_owned()) };
            filter.admits(&record)
        };
        assert!(admits("Asked", &ann) && admits("Decided", &bob));
        assert!(!admits("Asked", &bob) && !admits("Decided", &ann));
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
