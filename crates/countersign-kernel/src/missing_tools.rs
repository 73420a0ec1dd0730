//! Executions that wait for a tool whose source is not loaded.
//!
//! Promise: they are neither lost nor refused. They stay as they are until the source is loaded, and then go on; or until
//! the time that people gave them is up, and then end. They are told of in the log and in their results.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use countersign_core::execution::{Call, Execution, Phase};
use countersign_core::ids::{CallNo, ExecutionId};
use countersign_core::time::Timestamp;
use countersign_sdk::ToolPath;

use crate::catalog::Offered;
use crate::kernel::Kernel;

/// The executions that were left alone in this process, because a tool was not there.
#[derive(Default)]
pub(crate) struct MissingTools {
    waiting: Mutex<BTreeMap<ExecutionId, Option<Timestamp>>>,
}

impl MissingTools {
    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    /// When the first of them is to be looked at, whether or not its tool is there by then.
    pub(crate) fn next_deadline(&self) -> Option<Timestamp> {
        self.lock().values().flatten().min().copied()
    }

    fn add(&self, execution: ExecutionId, deadline: Option<Timestamp>) {
        self.lock().insert(execution, deadline);
    }

    fn take_all(&self) -> Vec<ExecutionId> {
        std::mem::take(&mut *self.lock()).into_keys().collect()
    }

    fn take_due(&self, now: Timestamp) -> Vec<ExecutionId> {
        let mut waiting = self.lock();
        let due = waiting.iter().filter(|(_, deadline)| deadline.is_some_and(|at| at <= now));
        let due: Vec<ExecutionId> = due.map(|(id, _)| *id).collect();
        waiting.retain(|id, _| !due.contains(id));
        due
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<ExecutionId, Option<Timestamp>>> {
        // The map stays whole even if a holder panicked: each change to it is one call.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kernel {
    /// Whether a call waits for the source of its tool, and still has time to.
    pub(crate) fn lacks_tool(&self, execution: &Execution, no: CallNo) -> bool {
        let Some(call) = execution.call(no) else { return false };
        matches!(self.catalog.offered(call), Offered::NotLoaded)
            && self.deadline(execution, call).is_none_or(|deadline| self.now_for(execution) < deadline)
    }

    /// Leaves an execution alone until its tool is there.
    pub(crate) fn wait_for_tool(&self, execution: &Execution, no: CallNo) {
        let Some(call) = execution.call(no) else { return };
        let (id, source) = (execution.id(), call.source.as_deref());
        tracing::warn!(execution = %id, tool = %call.path, source, "waits for its tool: the source is not loaded");
        let deadline = self.deadline(execution, call);
        self.missing_tools.add(id, deadline);
        if let Some(at) = deadline {
            self.alarm.set(at);
        }
    }

    /// The tools that an execution cannot go on without and that are not loaded here.
    pub(crate) fn missing_tools_of(&self, execution: &Execution) -> Vec<ToolPath> {
        let catalog = self.catalog.snapshot();
        let missing =
            execution.unsettled().filter(|call| matches!(catalog.offered(call), Offered::NotLoaded));
        missing.map(|call| call.path.clone()).collect()
    }

    /// Takes up what waited for tools; where a tool is still not there, its execution waits on.
    pub(crate) async fn go_on_with_loaded_tools(self: &Arc<Self>) {
        self.take_up_again(self.missing_tools.take_all()).await;
    }

    /// Ends what waited for tools longer than it may.
    pub(crate) async fn end_waits_for_tools(self: &Arc<Self>, now: Timestamp) {
        self.take_up_again(self.missing_tools.take_due(now)).await;
    }

    async fn take_up_again(self: &Arc<Self>, executions: Vec<ExecutionId>) {
        for id in executions {
            if let Err(error) = self.take_up(id).await {
                tracing::error!(execution = %id, ?error, "an execution that waited for its tool could not be taken up");
                self.missing_tools.add(id, None);
            }
        }
    }

    /// Whether the tool of a call is gone or not what it was (R14).
    pub(crate) fn has_changed(&self, call: &Call) -> bool {
        !matches!(self.catalog.offered(call), Offered::Same(_))
    }

    /// Until when a call waits for its tool: an approved one until its approval expires, one that nobody was asked about as
    /// long as a question would have been open. A started call waits for as long as it takes.
    fn deadline(&self, execution: &Execution, call: &Call) -> Option<Timestamp> {
        match call.phase() {
            Phase::Cleared { elicitation } => {
                execution.find(*elicitation).map(|asked| asked.elicitation.expires_at)
            }
            Phase::Issued => Some(execution.latest().after(self.settings.expires)),
            _ => None,
        }
    }
}
