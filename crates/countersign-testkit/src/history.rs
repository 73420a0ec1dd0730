//! The acknowledgements to callers and deciders, kept outside everything that can crash.

use std::sync::{Arc, Mutex, PoisonError};

use countersign_core::ids::{ElicitationId, ExecutionId};
use countersign_kernel::{ExecutionResult, Receipt};
use countersign_sdk::Outcome;

/// Acknowledgements so far. Clones are one history.
#[derive(Clone, Default)]
pub struct History {
    inner: Arc<Mutex<Acknowledgements>>,
}

#[derive(Default)]
struct Acknowledgements {
    decided: Vec<(ExecutionId, ElicitationId, Outcome)>,
    paused: Vec<ExecutionId>,
    ended: Vec<ExecutionResult>,
    cancelled: Vec<ExecutionId>,
    keyed: Vec<(String, ExecutionId)>,
}

impl History {
    /// A decider was told that the decision stands.
    pub fn decided(&self, receipt: &Receipt) {
        self.lock().decided.push((receipt.execution, receipt.elicitation, receipt.decision.outcome));
    }

    /// A caller was told the status of an execution.
    pub fn told(&self, result: &ExecutionResult) {
        let mut told = self.lock();
        if result.status.is_final() {
            told.ended.push(result.clone());
        } else if result.paused().is_some() {
            told.paused.push(result.execution);
        }
    }

    /// A caller was told that a cancel took place, or will once what runs has ended.
    pub fn cancelled(&self, execution: ExecutionId) {
        self.lock().cancelled.push(execution);
    }

    /// A caller that gave a key was told which execution it is.
    pub fn keyed(&self, key: &str, result: &ExecutionResult) {
        self.lock().keyed.push((key.to_owned(), result.execution));
    }

    /// Every execution whose cancel was acknowledged.
    pub fn cancels(&self) -> Vec<ExecutionId> {
        self.lock().cancelled.clone()
    }

    /// Every key, with the execution that was named for it.
    pub fn keys(&self) -> Vec<(String, ExecutionId)> {
        self.lock().keyed.clone()
    }

    /// Every decision that was acknowledged.
    pub fn decisions(&self) -> Vec<(ExecutionId, ElicitationId, Outcome)> {
        self.lock().decided.clone()
    }

    /// Every execution that a caller was told is waiting.
    pub fn accepted(&self) -> Vec<ExecutionId> {
        self.lock().paused.clone()
    }

    /// Every end that a caller was told.
    pub fn ends(&self) -> Vec<ExecutionResult> {
        self.lock().ended.clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Acknowledgements> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
