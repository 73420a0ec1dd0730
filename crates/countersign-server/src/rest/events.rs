//! What happens, as it happens: server-sent events.
//!
//! Promises: nothing is missed, and whoever's token is revoked is told nothing more. The stream is read off the audit, whose numbers are the events' ids, so that a client that
//! comes back with `Last-Event-ID` goes on where it was, also after a restart of the server. What an event says of an
//! execution or a question is how that stands by now, which may be later than the event.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use countersign_core::audit::{AuditEntry, AuditRecord};
use countersign_kernel::{Caller, GatewayError, GatewayEvent};
use countersign_sdk::PrincipalId;
use futures_util::stream::{self, Stream};
use serde::Deserialize;
use tokio::sync::{broadcast, watch};
use utoipa::IntoParams;

use super::body::Params;
use super::own;
use crate::refusal::Refusal;
use crate::shared::Shared;
use crate::wire::{self, HappenedKind};

/// How many records are read at once.
const BATCH: usize = 200;
/// How long a record that nobody was woken for can go unnoticed: reads are recorded in passing.
const LONGEST_NAP: Duration = Duration::from_secs(1);
/// How often a client is shown that the stream is alive.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// What happens, as it happens
///
/// Events: `elicitation.pending`, `elicitation.decided`, `execution.status`, `call.started`, `call.settled`, each with a
/// `Happened` as data. Give `Last-Event-ID` to go on where you were, or `after` where a header cannot be sent; without them
/// the stream begins now. Whoever may not decide is told of their own executions.
#[utoipa::path(get, operation_id = "streamEvents", path = "/api/events", tag = "events",
    params(("Last-Event-ID" = Option<String>, Header, description = "The id of the last event that was read"), From),
    responses(
        (status = 200, description = "A stream that does not end", body = wire::Happened, content_type = "text/event-stream"),
        (status = 400, description = "The id is none of ours", body = wire::Problem, content_type = "application/problem+json"),
    ))]
pub(super) async fn stream(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Params(From { after, brief }): Params<From>,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Refusal> {
    // Listening before looking: what is recorded in between wakes us.
    let wake = shared.gateway.events();
    let head = shared.gateway.standing().await?.recorded;
    let last = match headers.get("last-event-id") {
        None => after.map_or(head, |after| after.min(head)),
        Some(id) => {
            let id = id.to_str().ok().and_then(|id| id.parse::<u64>().ok());
            let id = id.ok_or_else(|| {
                Refusal::bad_request("bad_event_id", "`Last-Event-ID` is the id of an earlier event")
            })?;
            id.min(head)
        }
    };
    // From here on the stream itself meets the record of a revocation; this asks after one that came before.
    let identities = shared.gateway.identity_changes();
    if !shared.gateway.still_counts(&caller).await? {
        return Err(Refusal::new(401, "unauthenticated", "this credential was revoked"));
    }
    let scope = own::scope(&caller);
    let reader = Reader { scope, caller, identities, shared, brief, last, ready: VecDeque::new(), wake };
    let events = stream::unfold(reader, |mut reader| async move {
        let event = reader.next().await?;
        Some((Ok(event), reader))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)))
}

/// Where a stream begins.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct From {
    /// The id of the last event that is known, or `recorded` of the standing; `Last-Event-ID` goes before it.
    after: Option<u64>,
    /// Questions without their message, arguments and form, and decisions without their data: for whoever only wants to know
    /// that there is one.
    #[serde(default)]
    brief: bool,
}

/// One client's place in the audit.
struct Reader {
    shared: Arc<Shared>,
    brief: bool,
    /// Only this requester's executions are told of, where it is given.
    scope: Option<PrincipalId>,
    /// Whose stream it is. Once their credential counts no longer, the stream ends.
    caller: Caller,
    identities: watch::Receiver<u64>,
    last: u64,
    ready: VecDeque<Event>,
    wake: broadcast::Receiver<GatewayEvent>,
}

impl Reader {
    /// The next event; nothing where the stream ends and the client must come back.
    async fn next(&mut self) -> Option<Event> {
        loop {
            if self.identities.has_changed().unwrap_or(true) {
                self.identities.mark_unchanged();
                if !self.shared.gateway.still_counts(&self.caller).await.unwrap_or(false) {
                    return None;
                }
            }
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            match self.read().await {
                Ok(0) => self.nap().await?,
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(?error, "the event stream could not be read; its client must come back");
                    return None;
                }
            }
        }
    }

    async fn nap(&mut self) -> Option<()> {
        tokio::select! {
            () = self.shared.stop.cancelled() => None,
            () = tokio::time::sleep(LONGEST_NAP) => Some(()),
            _ = self.identities.changed() => {
                // Looked at before anything more is told.
                self.identities.mark_changed();
                Some(())
            }
            // Whatever it says, the audit says it better; also where we fell behind.
            _ = self.wake.recv() => Some(()),
        }
    }

    async fn read(&mut self) -> Result<usize, GatewayError> {
        let records = self.shared.gateway.audit(self.last, BATCH).await?;
        for record in &records {
            let Ok(entry) = record.parse() else {
                tracing::error!(seq = record.seq, "an audit record cannot be read");
                self.last = record.seq;
                continue;
            };
            let events = self.told_by(record, &entry).await?;
            self.last = record.seq;
            self.ready.extend(events);
        }
        Ok(records.len())
    }

    /// The events that one record makes. Only the last of them carries the id: a client that was cut off in between reads
    /// them all again.
    async fn told_by(&self, record: &AuditRecord, entry: &AuditEntry) -> Result<Vec<Event>, GatewayError> {
        let kinds = kinds(entry);
        let Some(happened) = (if kinds.is_empty() { None } else { self.happened(entry).await? }) else {
            return Ok(Vec::new());
        };
        let events = kinds.iter().enumerate().filter_map(|(i, kind)| {
            let event = Event::default().event(kind.name()).json_data(&happened).ok()?;
            Some(if i + 1 == kinds.len() { event.id(record.seq.to_string()) } else { event })
        });
        Ok(events.collect())
    }

    /// What an event says; nothing where it is not this client's business.
    async fn happened(&self, entry: &AuditEntry) -> Result<Option<wire::Happened>, GatewayError> {
        let Some(execution) = entry.execution else { return Ok(None) };
        let Some(row) = self.shared.gateway.execution(execution).await? else { return Ok(None) };
        if self.scope.as_ref().is_some_and(|own| *own != row.requester) {
            return Ok(None);
        }
        let elicitation = match entry.elicitation {
            Some(id) => self.shared.gateway.elicitation(id).await?,
            None => None,
        };
        let mut elicitation = elicitation.map(|row| wire::Elicitation::of(&row, &self.shared.links));
        super::elicitation::named(&self.shared, elicitation.as_mut_slice()).await?;
        let elicitation = elicitation.map(|whole| if self.brief { whole.in_brief() } else { whole });
        Ok(Some(wire::Happened {
            execution_id: execution.to_string(),
            at: entry.at.to_string(),
            status: row.status.into(),
            call: entry.call.map(|call| call.0),
            elicitation,
            elicitation_id: entry.elicitation.map(|id| id.to_string()),
        }))
    }
}

/// Which events a record makes. Every record of an execution that moves it says where it stands now.
fn kinds(entry: &AuditEntry) -> &'static [HappenedKind] {
    match entry.what.as_str() {
        "Asked" => &[HappenedKind::ElicitationPending, HappenedKind::ExecutionStatus],
        "Decided" => &[HappenedKind::ElicitationDecided, HappenedKind::ExecutionStatus],
        "CallStarted" => &[HappenedKind::CallStarted],
        "CallSettled" => &[HappenedKind::CallSettled],
        "Started" | "Finished" | "Cancelled" | "FoundInDoubt" | "DoubtSettled" | "ScriptWaits" => {
            &[HappenedKind::ExecutionStatus]
        }
        _ => &[],
    }
}
