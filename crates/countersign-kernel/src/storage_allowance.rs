//! How much a requester may have recorded in a day.
//!
//! Promise: whoever has recorded a day's worth is told to come back, so that no agent fills the disk that everybody's
//! decisions are written to. Accepted executions go on and are recorded whole; deciding is never refused. The allowance
//! comes back evenly over the day, and begins anew with the process.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use countersign_core::time::Timestamp;
use countersign_sdk::PrincipalId;

const DAY_MS: u128 = 24 * 60 * 60 * 1000;
/// How many requesters are followed at once; past this, those with the most left are forgotten.
const MAX_REQUESTERS: usize = 10_000;

/// The rest of each requester's allowance.
pub(crate) struct StorageAllowance {
    bytes_per_day: u64,
    requesters: Mutex<HashMap<PrincipalId, Balance>>,
}

/// The rest of one requester's allowance at a time. It is negative where accepted work took more than was left.
#[derive(Clone, Copy)]
struct Balance {
    bytes: i128,
    at: Timestamp,
}

impl StorageAllowance {
    pub(crate) fn new(bytes_per_day: u64) -> Self {
        Self { bytes_per_day, requesters: Mutex::default() }
    }

    /// Nothing, or how long a requester has to wait before anything new of it is accepted.
    pub(crate) fn check(&self, requester: &PrincipalId, now: Timestamp) -> Result<(), Duration> {
        let requesters = self.requesters.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(balance) = requesters.get(requester) else { return Ok(()) };
        let left = self.refilled(*balance, now).bytes;
        if left > 0 {
            return Ok(());
        }
        let missing = left.unsigned_abs() + 1;
        let ms = missing.saturating_mul(DAY_MS).div_ceil(u128::from(self.bytes_per_day.max(1)));
        Err(Duration::from_millis(u64::try_from(ms).unwrap_or(u64::MAX)))
    }

    /// Takes what was recorded for a requester from its allowance.
    pub(crate) fn spend(&self, requester: &PrincipalId, bytes: usize, now: Timestamp) {
        let mut requesters = self.requesters.lock().unwrap_or_else(PoisonError::into_inner);
        if requesters.len() >= MAX_REQUESTERS && !requesters.contains_key(requester) {
            let half = i128::from(self.bytes_per_day) / 2;
            requesters.retain(|_, balance| self.refilled(*balance, now).bytes < half);
        }
        let full = Balance { bytes: i128::from(self.bytes_per_day), at: now };
        let balance = requesters.entry(requester.clone()).or_insert(full);
        let refilled = self.refilled(*balance, now);
        *balance = Balance { bytes: refilled.bytes - bytes as i128, ..refilled };
    }

    fn refilled(&self, balance: Balance, now: Timestamp) -> Balance {
        let passed = balance.at.until(now).as_millis();
        let back = u128::from(self.bytes_per_day).saturating_mul(passed) / DAY_MS;
        let bytes = balance.bytes.saturating_add(i128::try_from(back).unwrap_or(i128::MAX));
        Balance { bytes: bytes.min(i128::from(self.bytes_per_day)), at: balance.at.max(now) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    fn requester(name: &str) -> PrincipalId {
        PrincipalId::parse(name).unwrap()
    }

    #[test]
    fn a_requester_may_record_a_days_worth_and_waits_for_the_rest() {
        let (day, allowance) = (86_400_000, StorageAllowance::new(86_400_000));
        let bot = requester("bot");
        allowance.spend(&bot, day - 1, at(0));
        assert_eq!(allowance.check(&bot, at(0)), Ok(()), "one byte is left");
        allowance.spend(&bot, 1, at(0));
        assert_eq!(allowance.check(&bot, at(0)), Err(Duration::from_millis(1)));
        assert_eq!(allowance.check(&bot, at(1)), Ok(()), "a byte comes back each millisecond");
        assert_eq!(allowance.check(&requester("other"), at(0)), Ok(()), "everybody has their own");
    }

    #[test]
    fn an_allowance_is_never_more_than_a_days_worth() {
        let (day, allowance) = (86_400_000, StorageAllowance::new(86_400_000));
        let bot = requester("bot");
        allowance.spend(&bot, 0, at(0));
        allowance.spend(&bot, day + 5, at(10 * 86_400_000));
        assert_eq!(allowance.check(&bot, at(10 * 86_400_000)), Err(Duration::from_millis(6)));
    }

    #[test]
    fn a_clock_that_goes_back_gives_nothing() {
        let allowance = StorageAllowance::new(86_400_000);
        let bot = requester("bot");
        allowance.spend(&bot, 86_400_000, at(1_000));
        assert!(allowance.check(&bot, at(0)).is_err());
        assert!(allowance.check(&bot, at(1_000)).is_err());
    }

    #[test]
    fn following_many_requesters_forgets_those_that_recorded_least() {
        let allowance = StorageAllowance::new(1_000);
        let spender = requester("spender");
        allowance.spend(&spender, 2_000, at(0));
        for n in 0..=MAX_REQUESTERS {
            allowance.spend(&requester(&format!("bot{n}")), 1, at(0));
        }
        assert!(allowance.requesters.lock().unwrap().len() <= MAX_REQUESTERS);
        assert!(allowance.check(&spender, at(0)).is_err(), "not the one that is over its bound");
    }
}
