//! What happens, as it happens: server-sent events.
//!
//! Promises: nothing is missed or repeated, and a client whose credential ends is told nothing more. The stream is read off the audit:
//! an event's id is its place in a record, so that a client that comes back with `Last-Event-ID` goes on where it was, also in the middle
//! of a record and after a restart of the server. An execution or a question is shown as it stands by now, which may be later than the
//! event.
//!
//! A stream that keeps up is given what `feed.rs` read once for all of them; one that is behind reads the audit itself.

mod feed;
mod told;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use countersign_kernel::{Caller, GatewayError};
use countersign_sdk::PrincipalId;
use futures_util::stream;
use serde::Deserialize;
use tokio::sync::{broadcast, watch};
use tokio::time::Instant;
use utoipa::IntoParams;

pub(crate) use feed::Feed;
use feed::{Batch, News, Whole};
use told::{Mark, Pending, Told, events_of, told};

use super::body::Params;
use super::own;
use crate::access::Share;
use crate::refusal::Refusal;
use crate::shared::Shared;
use crate::wire;

/// How many records are read at once.
const BATCH: usize = 200;
/// How often a stream on which nothing happens looks whether its reader's credential is still good.
const RECHECK: Duration = Duration::from_secs(5);
/// How often a client is shown that the stream is alive.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Events of a batch are sent together up to about this size.
const PART_BYTES: usize = 64 * 1024;
/// What it is shown: a comment, which clients skip.
const SIGN_OF_LIFE: &[u8] = b":\n\n";

/// What happens, as it happens
///
/// Events: `elicitation.pending`, `elicitation.decided`, `execution.status`, `call.started`, `call.settled`, each with a
/// `Happened` as data, and `catalog.changed` with a `CatalogChanged`. Give `Last-Event-ID` to go on where you were, or `after` where a header cannot be sent; without them
/// the stream begins now. Whoever may not decide is told of their own executions.
#[utoipa::path(get, operation_id = "streamEvents", path = "/api/events", tag = "events",
    params(("Last-Event-ID" = Option<String>, Header, description = "The id of the last event that was read"), From),
    responses(
        (status = 200, description = "A stream that does not end", body = wire::Happened, content_type = "text/event-stream"),
        (status = 400, description = "The id is none of ours", body = wire::Problem, content_type = "application/problem+json"),
        (status = 429, description = "This principal has too many streams open", body = wire::Problem, content_type = "application/problem+json"),
    ))]
pub(super) async fn stream(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Params(From { after, brief }): Params<From>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let share = shared.shares.stream(&caller)?;
    // Listening before looking: what is recorded in between is heard of.
    let feed = shared.feed.subscribe();
    let head = shared.gateway.standing().await?.recorded;
    let named = match headers.get("last-event-id") {
        None => after.as_deref(),
        Some(id) => Some(id.to_str().unwrap_or("")),
    };
    let last = named
        .map(str::parse::<Mark>)
        .transpose()
        .map_err(|_| Refusal::bad_request("bad_event_id", "`Last-Event-ID` is the id of an earlier event"))?;
    let last = last.map_or(Mark::after(head), |last| last.min(Mark::after(head)));
    // From here on a change of identities is heard of; this asks after one that came before.
    let identities = shared.gateway.identity_changes();
    if !shared.gateway.still_counts(&caller).await? {
        return Err(Refusal::new(401, "unauthenticated", "this credential was revoked"));
    }
    let reader = Reader {
        detail: if brief { Detail::Brief } else { Detail::Whole },
        scope: own::scope(&caller),
        caller,
        identities,
        shared,
        last,
        place: Place::behind(),
        feed,
        told_at: Instant::now(),
        checked_at: Instant::now(),
        _share: share,
    };
    let events = stream::unfold(reader, |mut reader| async move {
        let bytes = reader.next().await?;
        Some((Ok::<Bytes, Infallible>(bytes), reader))
    });
    let mut response = Response::new(Body::from_stream(events));
    for (name, value) in [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-cache")] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    Ok(response)
}

/// Where a stream begins.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct From {
    /// The id of the last event that is known, or `recorded` of the standing; `Last-Event-ID` goes before it.
    after: Option<String>,
    /// Questions without their message, arguments and form, and decisions without their data: for whoever only wants to know
    /// that there is one.
    #[serde(default)]
    brief: bool,
}

/// How much a client wants to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Detail {
    Whole,
    Brief,
}

/// Where a stream takes its events from.
enum Place {
    /// The audit, read up to a record: these events are not told yet; where there are none, the next are to be read.
    Behind(VecDeque<Pending>, u64),
    /// A batch of the feed, from this item on.
    Batch(Arc<Batch>, usize),
    /// It has told everything, and waits for the feed.
    Live,
}

impl Place {
    /// Where the audit is to be read from the last event on.
    fn behind() -> Self {
        Self::Behind(VecDeque::new(), 0)
    }
}

/// One client's place in the audit.
struct Reader {
    shared: Arc<Shared>,
    /// Whose stream it is. Once their credential counts no longer, the stream ends.
    caller: Caller,
    identities: watch::Receiver<u64>,
    detail: Detail,
    /// Only this requester's executions are told of, where it is given.
    scope: Option<PrincipalId>,
    /// The last event that was told, or that this client is not told of.
    last: Mark,
    place: Place,
    feed: broadcast::Receiver<Arc<Batch>>,
    told_at: Instant,
    checked_at: Instant,
    _share: Share,
}

/// What a step came to.
enum Step {
    Tell(Bytes),
    GoOn,
    End,
}

impl Reader {
    /// The next part of the stream; nothing where it ends and the client must come back.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            let step = self.step().await.unwrap_or_else(|error| {
                tracing::warn!(?error, "the event stream could not be read; its client must come back");
                Step::End
            });
            if !self.still_counts().await {
                return None;
            }
            match step {
                Step::GoOn => {}
                Step::End => return None,
                Step::Tell(bytes) => {
                    self.told_at = Instant::now();
                    return Some(bytes);
                }
            }
        }
    }

    /// Asked before anything is told: a revoked token, an ended login or a disabled user is told nothing more.
    async fn still_counts(&mut self) -> bool {
        let is_changed = self.identities.has_changed().unwrap_or(true);
        self.identities.mark_unchanged();
        // A token or login that ran out changes nothing that is heard of.
        let is_due = self.checked_at.elapsed() >= RECHECK;
        if !is_changed && !is_due {
            return true;
        }
        self.checked_at = Instant::now();
        self.shared.gateway.still_counts(&self.caller).await.unwrap_or(false)
    }

    async fn step(&mut self) -> Result<Step, GatewayError> {
        match &mut self.place {
            Place::Live => Ok(self.listen().await),
            Place::Batch(batch, n) => {
                let (batch, at) = (Arc::clone(batch), *n);
                self.tell_batch(&batch, at).await
            }
            Place::Behind(events, through) => {
                if let Some(event) = events.pop_front() {
                    self.last = event.mark;
                    return Ok(self.tell_alone(told(&self.shared, &event).await?));
                }
                self.last = self.last.max(Mark::after(*through));
                let records = self.shared.gateway.audit(self.last.whole(), BATCH).await?;
                self.place = match records.last() {
                    None => Place::Live,
                    Some(newest) => {
                        let events = records.iter().flat_map(events_of);
                        Place::Behind(events.filter(|event| event.mark > self.last).collect(), newest.seq)
                    }
                };
                Ok(Step::GoOn)
            }
        }
    }

    /// Waits for the feed.
    async fn listen(&mut self) -> Step {
        let heard = tokio::select! {
            () = self.shared.stop.cancelled() => return Step::End,
            // Looked at before anything more is told.
            _ = self.identities.changed() => {
                self.identities.mark_changed();
                return Step::GoOn;
            }
            heard = tokio::time::timeout(RECHECK, self.feed.recv()) => heard,
        };
        self.place = match heard {
            Err(_) if self.told_at.elapsed() >= KEEP_ALIVE => {
                return Step::Tell(Bytes::from_static(SIGN_OF_LIFE));
            }
            Err(_) => Place::Live,
            Ok(Ok(batch)) if batch.after <= self.last => Place::Batch(batch, 0),
            // Something is missing before it; the audit has it.
            Ok(Ok(_) | Err(broadcast::error::RecvError::Lagged(_))) => Place::behind(),
            Ok(Err(broadcast::error::RecvError::Closed)) => return Step::End,
        };
        Step::GoOn
    }

    /// What this client is told of a batch, from an item on: together, because each part that is sent costs a write.
    async fn tell_batch(&mut self, batch: &Arc<Batch>, from: usize) -> Result<Step, GatewayError> {
        let mut text = Vec::new();
        for (n, item) in batch.items.iter().enumerate().skip(from) {
            if item.mark <= self.last {
                continue;
            }
            self.last = item.mark;
            match self.tell(&item.news).await? {
                Step::GoOn => {}
                Step::End => return Ok(Step::End),
                Step::Tell(part) if text.is_empty() && n + 1 == batch.items.len() => {
                    self.last = self.last.max(batch.last);
                    self.place = Place::Live;
                    return Ok(Step::Tell(part));
                }
                Step::Tell(part) => text.extend_from_slice(&part),
            }
            if text.len() >= PART_BYTES {
                self.place = Place::Batch(Arc::clone(batch), n + 1);
                return Ok(Step::Tell(text.into()));
            }
        }
        self.last = self.last.max(batch.last);
        self.place = Place::Live;
        Ok(if text.is_empty() { Step::GoOn } else { Step::Tell(text.into()) })
    }

    /// What this client is told of shared news.
    async fn tell(&self, news: &News) -> Result<Step, GatewayError> {
        let News { requester, brief, whole } = news;
        if !self.concerns(requester.as_ref()) {
            return Ok(Step::GoOn);
        }
        match (self.detail, whole) {
            (Detail::Brief, _) => Ok(Step::Tell(brief.clone())),
            (Detail::Whole, Whole::Text(whole)) => Ok(Step::Tell(whole.clone())),
            (Detail::Whole, Whole::Large(event)) => Ok(self.tell_alone(told(&self.shared, event).await?)),
        }
    }

    /// The text of an event that was rendered for this client alone.
    fn tell_alone(&self, told: Option<Told>) -> Step {
        match told {
            Some(Told { requester, whole, brief }) if self.concerns(requester.as_ref()) => {
                match self.detail {
                    Detail::Whole => Step::Tell(whole),
                    Detail::Brief => Step::Tell(brief),
                }
            }
            _ => Step::GoOn,
        }
    }

    /// Whether this client is told of an execution of this requester; of what has none, everybody is.
    fn concerns(&self, requester: Option<&PrincipalId>) -> bool {
        self.scope.as_ref().is_none_or(|own| requester.is_none_or(|requester| own == requester))
    }
}
