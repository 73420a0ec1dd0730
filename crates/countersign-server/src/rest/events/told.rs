//! The events that an audit record tells, in the text of the stream. Each is rendered once for everybody who reads it.

use std::fmt;
use std::str::FromStr;

use axum::body::Bytes;
use countersign_core::audit::{AuditEntry, AuditRecord};
use countersign_kernel::GatewayError;
use countersign_sdk::PrincipalId;

use crate::rest::elicitation::named;
use crate::shared::Shared;
use crate::wire::{self, HappenedKind};

/// An event's place in the stream, and its id there: the number of its record, and its own number within it. The last event of a
/// record has the record's number alone, so that the id says that all of it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Mark {
    seq: u64,
    /// From 1; the greatest there is for the last.
    event: u32,
}

impl Mark {
    /// After all events of a record.
    pub(super) fn after(seq: u64) -> Self {
        Self { seq, event: u32::MAX }
    }

    /// The number of the record whose events were all read.
    pub(super) fn whole(self) -> u64 {
        if self.event == u32::MAX { self.seq } else { self.seq.saturating_sub(1) }
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.event {
            u32::MAX => write!(f, "{}", self.seq),
            event => write!(f, "{}.{event}", self.seq),
        }
    }
}

impl FromStr for Mark {
    type Err = std::num::ParseIntError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('.') {
            None => Ok(Self::after(text.parse()?)),
            Some((seq, event)) => Ok(Self { seq: seq.parse()?, event: event.parse()? }),
        }
    }
}

/// One event of the stream, not rendered yet.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) mark: Mark,
    kind: HappenedKind,
    transition: AuditEntry,
}

/// A rendered event.
pub(super) struct Told {
    /// Whose execution it is about: a client that may not decide is told of its own. None where everybody is told.
    pub(super) requester: Option<PrincipalId>,
    /// Everything that is told.
    pub(super) whole: Bytes,
    /// Without the content of questions and decisions.
    pub(super) brief: Bytes,
}

/// The events of a record, in order: one for each transition that a stream speaks of, and at the end where the execution stands.
pub(super) fn events_of(record: &AuditRecord) -> Vec<Pending> {
    let Ok(transitions) = record.parse() else {
        tracing::error!(seq = record.seq, "an audit record cannot be read");
        return Vec::new();
    };
    let status = transitions.iter().rev().find(|transition| moves_the_execution(transition)).map(status_of);
    let told = transitions.into_iter().filter_map(|transition| Some((kind_of(&transition)?, transition)));
    let mut events: Vec<Pending> = told
        .chain(status.map(|transition| (HappenedKind::ExecutionStatus, transition)))
        .zip(1..)
        .map(|((kind, transition), event)| Pending {
            mark: Mark { seq: record.seq, event },
            kind,
            transition,
        })
        .collect();
    if let Some(last) = events.last_mut() {
        last.mark = Mark::after(record.seq);
    }
    events
}

fn kind_of(transition: &AuditEntry) -> Option<HappenedKind> {
    match &*transition.what {
        "Asked" => Some(HappenedKind::ElicitationPending),
        "Decided" => Some(HappenedKind::ElicitationDecided),
        "CallStarted" => Some(HappenedKind::CallStarted),
        "CallSettled" => Some(HappenedKind::CallSettled),
        "CatalogChanged" => Some(HappenedKind::CatalogChanged),
        _ => None,
    }
}

fn moves_the_execution(transition: &AuditEntry) -> bool {
    let moves = [
        "Started",
        "Asked",
        "Decided",
        "Finished",
        "Cancelled",
        "FoundInDoubt",
        "DoubtSettled",
        "ScriptWaits",
    ];
    moves.contains(&&*transition.what)
}

/// The transition that says where its execution stands, without what it says of a call or a question.
fn status_of(transition: &AuditEntry) -> AuditEntry {
    AuditEntry { call: None, elicitation: None, ..transition.clone() }
}

/// Renders an event; nothing where its execution is not there.
pub(super) async fn told(shared: &Shared, event: &Pending) -> Result<Option<Told>, GatewayError> {
    let Pending { mark, kind, transition } = event;
    if *kind == HappenedKind::CatalogChanged {
        let (at, detail) = (transition.at.to_string(), transition.detail.clone());
        let whole = text(*kind, *mark, &wire::CatalogChanged { at, detail });
        // Everybody who may read events may also list tools.
        return Ok(Some(Told { requester: None, brief: whole.clone(), whole }));
    }
    let Some((requester, mut happened)) = happened(shared, transition).await? else { return Ok(None) };
    let whole = text(*kind, *mark, &happened);
    let brief = match happened.elicitation.take() {
        None => whole.clone(),
        Some(elicitation) => {
            happened.elicitation = Some(elicitation.in_brief());
            text(*kind, *mark, &happened)
        }
    };
    Ok(Some(Told { requester: Some(requester), whole, brief }))
}

/// The content of an event, and the requester whose execution it is about.
async fn happened(
    shared: &Shared,
    transition: &AuditEntry,
) -> Result<Option<(PrincipalId, wire::Happened)>, GatewayError> {
    let Some(execution) = transition.execution else { return Ok(None) };
    let Some(row) = shared.gateway.execution(execution).await? else { return Ok(None) };
    let elicitation = match transition.elicitation {
        Some(id) => shared.gateway.elicitation(id).await?,
        None => None,
    };
    let mut elicitation = elicitation.map(|row| wire::Elicitation::of(&row, &shared.links));
    named(shared, elicitation.as_mut_slice()).await?;
    let happened = wire::Happened {
        execution_id: execution.to_string(),
        at: transition.at.to_string(),
        status: row.status.into(),
        call: transition.call.map(|call| call.0),
        elicitation,
        elicitation_id: transition.elicitation.map(|id| id.to_string()),
    };
    Ok(Some((row.requester, happened)))
}

fn text(kind: HappenedKind, mark: Mark, happened: &impl serde::Serialize) -> Bytes {
    // JSON is one line, and values of ours can always be written.
    let data = serde_json::to_string(happened).unwrap_or_default();
    format!("event: {}\ndata: {data}\nid: {mark}\n\n", kind.name()).into()
}

#[cfg(test)]
mod tests {
    use countersign_core::audit::record_text;
    use countersign_core::digest::Digest;
    use countersign_core::time::Timestamp;

    use super::*;

    fn told_by(names: &[&'static str]) -> Vec<(String, &'static str)> {
        let entry =
            |what: &&'static str| AuditEntry::bare(Timestamp::from_millis(1), *what, None, String::new());
        let entries: Vec<AuditEntry> = names.iter().map(entry).collect();
        let record = AuditRecord::chained(6, Digest::ZERO, record_text(&entries).unwrap());
        events_of(&record).iter().map(|event| (event.mark.to_string(), event.kind.name())).collect()
    }

    fn pair(id: &str, name: &'static str) -> (String, &'static str) {
        (id.to_owned(), name)
    }

    #[test]
    fn each_event_of_a_record_has_an_id_and_the_last_one_the_records_number() {
        assert_eq!(
            told_by(&["Started", "CallIssued", "Asked"]),
            [pair("7.1", "elicitation.pending"), pair("7", "execution.status")]
        );
        assert_eq!(
            told_by(&["Decided", "CallStarted"]),
            [pair("7.1", "elicitation.decided"), pair("7.2", "call.started"), pair("7", "execution.status")]
        );
        assert_eq!(told_by(&["CatalogChanged"]), [pair("7", "catalog.changed")]);
        assert_eq!(told_by(&["TokenCreated"]), []);
    }

    #[test]
    fn ids_are_read_back_and_ordered_as_the_events_are() {
        let marks: Vec<Mark> = ["6", "7.1", "7.2", "7", "8.1"].iter().map(|id| id.parse().unwrap()).collect();
        assert!(marks.is_sorted());
        assert_eq!(marks.iter().map(|mark| mark.whole()).collect::<Vec<_>>(), [6, 6, 6, 7, 7]);
        for bad in ["", "x", "7.", ".1", "7.x", "-1", "7.1.1"] {
            assert!(bad.parse::<Mark>().is_err(), "{bad}");
        }
    }
}
