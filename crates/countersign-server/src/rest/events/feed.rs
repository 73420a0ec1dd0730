//! The one reader of the audit that all event streams share.
//!
//! Promise: an event is read and rendered once, however many streams there are, and nothing is read while there are none. A batch
//! says where the one before ended, so that a stream which missed one knows, and reads the audit itself from where it was.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use countersign_kernel::{GatewayError, GatewayEvent};
use countersign_sdk::PrincipalId;
use tokio::sync::{Notify, broadcast};

use super::BATCH;
use super::told::{Mark, Pending, Told, events_of, told};
use crate::shared::Shared;

/// How long a record that nobody was woken for can go unnoticed: reads are recorded in passing.
const LONGEST_NAP: Duration = Duration::from_secs(1);
/// How long to wait for more after something happened: a call makes several records within moments, and each batch wakes every
/// stream.
const GATHER: Duration = Duration::from_millis(2);
/// An event that is larger is not kept for everybody; each stream that wants it whole renders it.
const MAX_SHARED_BYTES: usize = 64 * 1024;
/// A batch that is larger is sent as it is.
const BATCH_BYTES: usize = 256 * 1024;
/// How many batches a slow stream may be behind before it reads the audit itself.
const BATCHES: usize = 64;

/// What all streams share.
pub(crate) struct Feed {
    batches: broadcast::Sender<Arc<Batch>>,
    wanted: Notify,
}

/// What happened since the batch before.
pub(super) struct Batch {
    /// Where the batch before ended. A stream that has not read that far missed something.
    pub(super) after: Mark,
    /// The end of the last record that was looked at.
    pub(super) last: Mark,
    /// The events, in order.
    pub(super) items: Vec<Item>,
}

/// One event.
pub(super) struct Item {
    pub(super) mark: Mark,
    pub(super) news: News,
}

/// An event, as far as it is shared.
pub(super) struct News {
    pub(super) requester: Option<PrincipalId>,
    pub(super) brief: Bytes,
    pub(super) whole: Whole,
}

/// The whole text of an event.
pub(super) enum Whole {
    /// It is kept for everybody.
    Text(Bytes),
    /// It is too large for that: each stream renders it.
    Large(Pending),
}

impl Feed {
    pub(crate) fn new() -> Self {
        Self { batches: broadcast::Sender::new(BATCHES), wanted: Notify::new() }
    }

    /// Reads for as long as the server runs.
    pub(crate) async fn run(shared: Arc<Shared>) {
        let feed = &shared.feed;
        let reading = async {
            loop {
                while feed.batches.receiver_count() == 0 {
                    feed.wanted.notified().await;
                }
                if let Err(error) = feed.tail(&shared).await {
                    tracing::warn!(?error, "the event streams cannot be read; trying again");
                    tokio::time::sleep(LONGEST_NAP).await;
                }
            }
        };
        tokio::select! {
            () = reading => {}
            () = shared.stop.cancelled() => {}
        }
    }

    /// What happens from now on.
    pub(super) fn subscribe(&self) -> broadcast::Receiver<Arc<Batch>> {
        let batches = self.batches.subscribe();
        self.wanted.notify_one();
        batches
    }

    /// Reads until nobody listens any more.
    async fn tail(&self, shared: &Shared) -> Result<(), GatewayError> {
        // Listening before looking: what is recorded in between wakes us.
        let mut wake = shared.gateway.events();
        let mut last = shared.gateway.standing().await?.recorded;
        let mut batch = Batch { after: Mark::after(last), last: Mark::after(last), items: Vec::new() };
        // Streams that were opened before this know by it where the feed begins.
        self.send(&mut batch);
        while self.batches.receiver_count() > 0 {
            let records = shared.gateway.audit(last, BATCH).await?;
            if records.is_empty() {
                nap(&mut wake).await;
                continue;
            }
            let mut bytes = 0;
            for record in records {
                last = record.seq;
                for event in events_of(&record) {
                    let mark = event.mark;
                    batch.last = mark;
                    if let Some(news) = self.news(shared, event).await? {
                        bytes += news.bytes();
                        batch.items.push(Item { mark, news });
                    }
                    if bytes >= BATCH_BYTES {
                        bytes = 0;
                        self.send(&mut batch);
                    }
                }
                batch.last = Mark::after(last);
            }
            if !batch.items.is_empty() {
                self.send(&mut batch);
            }
        }
        Ok(())
    }

    async fn news(&self, shared: &Shared, event: Pending) -> Result<Option<News>, GatewayError> {
        let Some(Told { requester, whole, brief }) = told(shared, &event).await? else { return Ok(None) };
        let whole = match whole.len() {
            ..=MAX_SHARED_BYTES => Whole::Text(whole),
            _ => Whole::Large(event),
        };
        Ok(Some(News { requester, brief, whole }))
    }

    /// Sends a batch; the next one follows it.
    fn send(&self, batch: &mut Batch) {
        let next = Batch { after: batch.last, last: batch.last, items: Vec::new() };
        // Nobody listening is no failure: whoever comes reads from the audit.
        let _ = self.batches.send(Arc::new(std::mem::replace(batch, next)));
    }
}

impl News {
    fn bytes(&self) -> usize {
        let whole = match &self.whole {
            Whole::Text(whole) => whole.len(),
            Whole::Large(_) => 0,
        };
        self.brief.len() + whole
    }
}

async fn nap(wake: &mut broadcast::Receiver<GatewayEvent>) {
    // Whatever an event says, the audit says it better; also where we fell behind.
    if tokio::time::timeout(LONGEST_NAP, wake.recv()).await.is_ok() {
        tokio::time::sleep(GATHER).await;
        *wake = wake.resubscribe();
    }
}
