//! Expiry: questions and remembered approvals whose time is up are closed, oldest first.
//!
//! Nothing is kept per question or grant: the store knows when the next one expires. The clock may jump, so it is looked at at
//! least once a second; a question that was closed stays closed.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use countersign_core::ids::{ElicitationId, ExecutionId};
use countersign_core::time::Timestamp;
use tokio::sync::Notify;

use crate::error::GatewayError;
use crate::kernel::Kernel;
use crate::owner::Message;
use crate::ports::StoreError;

const BATCH: usize = 200;
/// How long a jump of the clock can go unnoticed.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// The time of the next check.
pub(crate) struct Alarm {
    next_ms: AtomicU64,
    moved: Notify,
    /// Questions whose journals are damaged. They were told of once, and are passed over.
    left_alone: Mutex<HashSet<ElicitationId>>,
}

impl Default for Alarm {
    fn default() -> Self {
        Self { next_ms: AtomicU64::new(u64::MAX), moved: Notify::new(), left_alone: Mutex::default() }
    }
}

impl Alarm {
    /// Makes sure that the expiry at `at` is noticed.
    pub(crate) fn set(&self, at: Timestamp) {
        if self.next_ms.fetch_min(at.as_millis(), Ordering::AcqRel) > at.as_millis() {
            self.moved.notify_one();
        }
    }

    fn leaves_alone(&self, elicitation: ElicitationId) -> bool {
        self.left_alone.lock().unwrap_or_else(PoisonError::into_inner).contains(&elicitation)
    }

    fn leave_alone(&self, elicitation: ElicitationId) {
        self.left_alone.lock().unwrap_or_else(PoisonError::into_inner).insert(elicitation);
    }

    fn reset(&self, at: Option<Timestamp>) {
        self.next_ms.store(at.map_or(u64::MAX, Timestamp::as_millis), Ordering::Release);
    }

    fn next(&self) -> Timestamp {
        Timestamp::from_millis(self.next_ms.load(Ordering::Acquire))
    }
}

/// Runs until the gateway is gone or closed. It holds the gateway only while it works, so that dropping the last one
/// frees the store at once.
pub(crate) async fn watch(kernel: Weak<Kernel>, alarm: Arc<Alarm>) {
    loop {
        let Some(kernel) = kernel.upgrade().filter(|k| !k.is_closed()) else { return };
        let now = kernel.now();
        if alarm.next() <= now {
            if let Err(error) = kernel.expire_due(now).await {
                tracing::error!(?error, "what expired could not be recorded; trying again");
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
            continue;
        }
        drop(kernel);
        let nap = now.until(alarm.next()).min(LONGEST_SLEEP);
        tokio::select! {
            biased;
            () = tokio::time::sleep(nap) => {}
            () = alarm.moved.notified() => {}
        }
    }
}

impl Kernel {
    /// Reads from the store when the next question or grant expires.
    pub(crate) async fn set_alarm(&self) -> Result<(), GatewayError> {
        if let Some(at) = self.next_expiry().await? {
            self.alarm.set(at);
        }
        Ok(())
    }

    async fn next_expiry(&self) -> Result<Option<Timestamp>, GatewayError> {
        let (question, tool) = (self.store.next_expiry().await?, self.missing_tools.next_deadline());
        Ok(question.into_iter().chain(tool).min())
    }

    async fn expire_due(self: &Arc<Self>, now: Timestamp) -> Result<(), GatewayError> {
        let mut left_alone = 0;
        // A grant whose end cannot be recorded covers nothing by the clock, and must not keep questions open.
        if let Err(error) = self.retire_due_grants(now).await {
            tracing::error!(?error, "remembered approvals could not be recorded as expired; trying again");
            left_alone += 1;
        }
        self.end_waits_for_tools(now).await;
        let due = self.store.due(now, BATCH).await?;
        let mut failed = None;
        for (elicitation, execution) in &due {
            if self.alarm.leaves_alone(*elicitation) {
                left_alone += 1;
                continue;
            }
            // One that cannot be closed must not keep the others open.
            match self.expire(*execution, *elicitation).await {
                Ok(()) => {}
                Err(GatewayError::Store(StoreError::Corrupt(problem))) => {
                    tracing::error!(%elicitation, %execution, problem, "an expired question is left alone: its journal is damaged");
                    self.alarm.leave_alone(*elicitation);
                    left_alone += 1;
                }
                Err(error) => failed = Some(error),
            }
        }
        if let Some(error) = failed {
            return Err(error);
        }
        if left_alone > 0 {
            // They stay due for ever; the others are looked for again in a while.
            self.alarm.reset(Some(now.after(LONGEST_SLEEP)));
        } else if due.len() < BATCH {
            // Before the store is asked: what is asked from here on sets the alarm itself.
            self.alarm.reset(None);
            let next = self.next_expiry().await.inspect_err(|_| self.alarm.set(now))?;
            next.into_iter().for_each(|at| self.alarm.set(at));
        }
        Ok(())
    }

    /// Expires a question whose time is up. Nothing happens where it was decided meanwhile.
    async fn expire(self: &Arc<Self>, execution: ExecutionId, id: ElicitationId) -> Result<(), GatewayError> {
        self.request(execution, |reply| Message::Expire(id, reply)).await?.unwrap_or(Ok(()))
    }
}
