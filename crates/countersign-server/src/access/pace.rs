//! How often: requests with one credential, and wrong credentials from one address.

use std::net::IpAddr;

use countersign_kernel::Caller;
use countersign_sdk::PrincipalId;
use governor::{DefaultKeyedRateLimiter, Quota};

use super::Peer;
use crate::options::Limits;
use crate::refusal::Refusal;

/// How many keys are remembered before those at rest are forgotten.
const MAX_KEYS: usize = 10_000;

/// The pace of everybody.
pub(crate) struct Pace {
    requests: DefaultKeyedRateLimiter<PrincipalId>,
    failures: DefaultKeyedRateLimiter<IpAddr>,
}

impl Pace {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            requests: DefaultKeyedRateLimiter::keyed(Quota::per_second(limits.requests_per_second)),
            failures: DefaultKeyedRateLimiter::keyed(Quota::per_second(limits.failures_per_second)),
        }
    }

    /// Counts a request; refuses it where there are too many.
    pub(crate) fn request(&self, caller: &Caller) -> Result<(), Refusal> {
        self.requests
            .check_key(&caller.principal.id)
            .map_err(|_| too_many("too many requests with this credential"))
    }

    /// Counts a wrong credential; refuses to say more where there are too many.
    pub(crate) fn failure(&self, peer: Option<Peer>) -> Result<(), Refusal> {
        let Some(Peer(address)) = peer else { return Ok(()) };
        if self.failures.len() > MAX_KEYS {
            self.failures.retain_recent();
        }
        self.failures
            .check_key(&address)
            .map_err(|_| too_many("too many wrong credentials from this address"))
    }
}

fn too_many(detail: &str) -> Refusal {
    Refusal::new(429, "too_many_requests", format!("{detail}; wait a second"))
}
