//! Waiting for an execution, wherever it is: in memory, parked, or brought back by another decision.

use std::sync::Arc;
use std::time::Duration;

use countersign_core::event::LogLine;
use countersign_core::execution::{Execution, Status};
use countersign_core::ids::{ElicitationId, ExecutionId};

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
            Patience::AtMost(limit) | Patience::UntilPausedWithin(limit) => {
                match tokio::time::timeout(limit, self.until_answer(id, known.clone(), patience)).await {
                    Ok(answer) => answer,
                    Err(_) => {
                        self.make_known(id).await?;
                        self.as_it_stands(id, known).await
                    }
                }
            }
            Patience::UntilPaused | Patience::Unlimited => self.until_answer(id, known, patience).await,
        }
    }

    /// Waits until an execution ends, is in doubt, or asks something it does not ask now, but at most this long.
    pub(crate) async fn wait_anew(
        &self,
        id: ExecutionId,
        limit: Duration,
    ) -> Result<Option<ExecutionResult>, GatewayError> {
        let waiting = self.waiters.join(id);
        let news = async {
            let mut known: Option<Vec<ElicitationId>> = None;
            loop {
                let changed = waiting.changed.notified();
                tokio::pin!(changed);
                changed.as_mut().enable();
                let Some(now) = self.result(id).await? else { return Ok(None) };
                let open = now.pending.iter().map(|pending| pending.elicitation.id);
                let known = known.get_or_insert_with(|| open.clone().collect());
                let anew = open.clone().any(|id| !known.contains(&id));
                if anew || now.status.is_final() || now.status == Status::InDoubt {
                    return Ok(Some(now));
                }
                changed.await;
            }
        };
        match tokio::time::timeout(limit, news).await {
            Ok(answer) => answer,
            Err(_) => self.result(id).await,
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
            return Ok(Some(self.result_of(&state.execution, live.logs())));
        }
        let journal = self.store.journal(id).await?;
        if journal.is_empty() {
            return Ok(None);
        }
        Ok(Some(self.result_of(&Execution::replay(&journal)?, Vec::new())))
    }

    /// What a caller learns of an execution, with what keeps it from going on in this process.
    pub(crate) fn result_of(&self, execution: &Execution, logs: Vec<LogLine>) -> ExecutionResult {
        let missing_tools = self.missing_tools_of(execution);
        ExecutionResult { missing_tools, ..ExecutionResult::of(execution, logs) }
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
                Look::NotYet => changed.await,
                Look::Answer(result) => return Ok(Some(*result)),
                Look::Nothing => return Ok(None),
            }
        }
    }

    /// An execution as it stands, also where it just left memory.
    async fn as_it_stands(
        &self,
        id: ExecutionId,
        known: Option<Arc<Live>>,
    ) -> Result<Option<ExecutionResult>, GatewayError> {
        if let Some(live) = known {
            let state = self.lock(&live).await?;
            if !state.gone || state.execution.status().is_final() {
                return Ok(Some(self.result_of(&state.execution, live.logs())));
            }
        }
        self.result(id).await
    }

    /// Looks whether there is an answer. A result is made only then: a script of thousands of calls changes thousands of
    /// times before it has one.
    async fn look(
        &self,
        id: ExecutionId,
        known: &mut Option<Arc<Live>>,
        patience: Patience,
    ) -> Result<Look, GatewayError> {
        for live in [known.clone(), self.registry.get(id)].into_iter().flatten() {
            let state = self.lock(&live).await?;
            if is_answer(&state.execution, patience) {
                return Ok(Look::Answer(Box::new(self.result_of(&state.execution, live.logs()))));
            }
            if !state.gone {
                return Ok(Look::NotYet);
            }
            *known = None;
        }
        let journal = self.store.journal(id).await?;
        if journal.is_empty() {
            return Ok(Look::Nothing);
        }
        let execution = Execution::replay(&journal)?;
        Ok(match is_answer(&execution, patience) {
            true => Look::Answer(Box::new(self.result_of(&execution, Vec::new()))),
            false => Look::NotYet,
        })
    }
}

/// What a look came to.
enum Look {
    Nothing,
    NotYet,
    Answer(Box<ExecutionResult>),
}

fn is_answer(execution: &Execution, patience: Patience) -> bool {
    let first_pause = matches!(patience, Patience::UntilPaused | Patience::UntilPausedWithin(_));
    let paused = first_pause && execution.open().next().is_some();
    let status = execution.status();
    status.is_final() || status == Status::InDoubt || paused
}
