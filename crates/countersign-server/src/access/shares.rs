//! How much of the server one principal may have at once: requests that are being answered, and event streams.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::Request;
use countersign_kernel::Caller;
use countersign_sdk::PrincipalId;

use crate::listen::Place;
use crate::options::Limits;
use crate::refusal::Refusal;

/// Everybody's shares.
pub(crate) struct Shares {
    requests: Arc<Counts>,
    streams: Arc<Counts>,
}

struct Counts {
    bound: usize,
    of: Mutex<HashMap<PrincipalId, usize>>,
}

/// Part of a principal's share, until it is dropped.
#[must_use = "the share is free again as soon as this is dropped"]
pub(crate) struct Share {
    counts: Arc<Counts>,
    of: PrincipalId,
}

impl Shares {
    pub(crate) fn new(limits: &Limits) -> Self {
        let counts = |bound| Arc::new(Counts { bound, of: Mutex::default() });
        Self { requests: counts(limits.requests_at_once), streams: counts(limits.streams_per_principal) }
    }

    /// Counts a request whose caller is known by now, and says whose its connection is.
    pub(crate) fn request(&self, request: &Request, caller: &Caller) -> Result<Share, Refusal> {
        if let Some(place) = request.extensions().get::<Place>() {
            place.belongs_to(&caller.principal)?;
        }
        Counts::take(&self.requests, caller).ok_or_else(|| {
            let bound = self.requests.bound;
            let detail =
                format!("{bound} requests of this principal are being answered; wait for one of them");
            Refusal::new(429, "too_many_requests_at_once", detail)
        })
    }

    /// Counts an event stream.
    pub(crate) fn stream(&self, caller: &Caller) -> Result<Share, Refusal> {
        Counts::take(&self.streams, caller).ok_or_else(|| {
            let bound = self.streams.bound;
            let detail = format!("{bound} event streams of this principal are open; close one of them");
            Refusal::new(429, "too_many_streams", detail).closing()
        })
    }
}

impl Counts {
    fn take(counts: &Arc<Self>, caller: &Caller) -> Option<Share> {
        let mut of = counts.of.lock().unwrap_or_else(PoisonError::into_inner);
        let id = &caller.principal.id;
        match of.get_mut(id) {
            Some(count) if *count >= counts.bound => return None,
            Some(count) => *count += 1,
            None if counts.bound == 0 => return None,
            None => drop(of.insert(id.clone(), 1)),
        }
        Some(Share { counts: Arc::clone(counts), of: id.clone() })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut of = self.counts.of.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = of.get_mut(&self.of) {
            *count -= 1;
            if *count == 0 {
                of.remove(&self.of);
            }
        }
    }
}
