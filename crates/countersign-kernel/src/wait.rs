//! Waiting for an execution, wherever it is: in memory, parked, or brought back by another decision.

use std::sync::Arc;

use countersign_core::execution::{Execution, Status};
use countersign_core::ids::ExecutionId;

use crate::accept::Patience;
use crate::error::GatewayError;
use crate::journal::Beside;
use crate::kernel::Kernel;
use crate::live::Live;
use crate::result::ExecutionResult;

impl Kernel {
    /// Waits as long as the caller's patience lasts; nothing where there is no such execution. `known` saves reading the
    /// journal of an execution that is, or just was, in memory.
    pub(crate) async fn wait_for(
        &self,
        id: ExecutionId,
        known: Option<Arc<Live>>,
        patience: Patience,
    ) -> Result<Option<ExecutionResult>, GatewayError> {
        match patience {
            Patience::AtMost(limit) => {
                match tokio::time::timeout(limit, self.until_answer(id, known.clone(), patience)).await {
                    Ok(answer) => answer,
                    Err(_) => {
                        self.make_known(id).await?;
                        self.look(id, &mut known.clone(), patience).await
                    }
                }
            }
            Patience::UntilPaused | Patience::Unlimited => self.until_answer(id, known, patience).await,
        }
    }

    /// Writes down an execution that so far was only in memory: its caller is about to be told of it, and will come back.
    async fn make_known(&self, id: ExecutionId) -> Result<(), GatewayError> {
        let Some(live) = self.registry.get(id) else { return Ok(()) };
        let mut state = self.lock(&live).await?;
        if state.gone || state.is_stored() {
            return Ok(());
        }
        self.record(&mut state, Vec::new(), Beside::default()).await
    }

    /// An execution as it stands.
    pub(crate) async fn result(&self, id: ExecutionId) -> Result<Option<ExecutionResult>, GatewayError> {
        if let Some(live) = self.registry.get(id) {
            let state = self.lock(&live).await?;
            return Ok(Some(live.result(&state)));
        }
        let journal = self.store.journal(id).await?;
        if journal.is_empty() {
            return Ok(None);
        }
        Ok(Some(ExecutionResult::of(&Execution::replay(&journal)?, Vec::new())))
    }

    async fn until_answer(
        &self,
        id: ExecutionId,
        mut known: Option<Arc<Live>>,
        patience: Patience,
    ) -> Result<Option<ExecutionResult>, GatewayError> {
        let waiting = self.waiters.join(id);
        loop {
            let changed = waiting.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            match self.look(id, &mut known, patience).await? {
                Some(result) if !is_answer(&result, patience) => changed.await,
                answer => return Ok(answer),
            }
        }
    }

    async fn look(
        &self,
        id: ExecutionId,
        known: &mut Option<Arc<Live>>,
        patience: Patience,
    ) -> Result<Option<ExecutionResult>, GatewayError> {
        if let Some(live) = known {
            let state = self.lock(live).await?;
            let result = live.result(&state);
            if !state.gone || is_answer(&result, patience) {
                return Ok(Some(result));
            }
            drop(state);
            *known = None;
        }
        self.result(id).await
    }
}

fn is_answer(result: &ExecutionResult, patience: Patience) -> bool {
    let paused = patience == Patience::UntilPaused && result.paused().is_some();
    result.status.is_final() || result.status == Status::InDoubt || paused
}
