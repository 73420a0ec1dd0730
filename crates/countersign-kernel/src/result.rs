//! The result of an execution for a caller.

use std::sync::Arc;

use countersign_core::canonical::Canonical;
use countersign_core::elicitation::Elicitation;
use countersign_core::event::{CallOutcome, Failure, LogLine};
use countersign_core::execution::{End, Execution, Phase, Status};
use countersign_core::ids::ExecutionId;
use countersign_core::time::Timestamp;
use countersign_sdk::ToolPath;
use serde_json::Value;

/// An execution as its caller sees it.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct ExecutionResult {
    pub execution: ExecutionId,
    pub status: Status,
    /// Its value, once it succeeded.
    pub value: Option<Value>,
    /// Its failure, once it failed or was cancelled.
    pub error: Option<Failure>,
    pub calls: Vec<CallSummary>,
    /// The log lines of a script, and of handlers while this process ran them.
    pub logs: Vec<LogLine>,
    /// The open questions, oldest first.
    pub pending: Vec<Pending>,
    /// Tools that it cannot go on without and whose sources are not loaded.
    pub missing_tools: Vec<ToolPath>,
}

/// One call, in brief.
#[derive(Debug, Clone, PartialEq)]
pub struct CallSummary {
    /// The tool.
    pub path: ToolPath,
    /// The arguments it ran or would run with.
    pub args: Canonical,
    /// How far it got.
    pub status: &'static str,
    /// The line of the script's source that made it, from 1.
    pub line: Option<u32>,
}

/// An open question.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Pending {
    /// The execution that asks.
    pub execution: ExecutionId,
    pub asked_at: Timestamp,
    pub elicitation: Arc<Elicitation>,
}

impl ExecutionResult {
    /// The oldest question, where the execution waits for one.
    pub fn paused(&self) -> Option<&Pending> {
        self.pending.first()
    }

    /// True only where it succeeded.
    pub fn success(&self) -> bool {
        self.status == Status::Succeeded
    }

    /// An execution as its journal tells it, with what was logged beside it.
    pub fn of(execution: &Execution, logs: Vec<LogLine>) -> Self {
        let logs = match execution.end() {
            Some(End::Finished { logs: recorded, .. }) if logs.is_empty() => recorded.clone(),
            _ => logs,
        };
        let (value, error) = match execution.end() {
            Some(End::Finished { outcome: CallOutcome::Succeeded(value), .. }) => {
                (Some(value.to_value()), None)
            }
            Some(End::Finished { outcome: CallOutcome::Failed(failure), .. }) => {
                (None, Some(failure.clone()))
            }
            Some(End::Cancelled { reason, .. }) => (None, Some(Failure::new("cancelled", reason))),
            None => (None, None),
        };
        let pending = execution.asked().iter().filter(|a| a.decision().is_none()).map(|a| Pending {
            execution: execution.id(),
            asked_at: a.at,
            elicitation: a.elicitation.clone(),
        });
        Self {
            execution: execution.id(),
            status: execution.status(),
            value,
            error,
            calls: execution.calls().iter().map(summary).collect(),
            logs,
            pending: pending.collect(),
            missing_tools: Vec::new(),
        }
    }
}

fn summary(call: &countersign_core::execution::Call) -> CallSummary {
    let status = match call.phase() {
        Phase::Issued => "issued",
        Phase::Asked { .. } => "asked",
        Phase::Cleared { .. } | Phase::Retrying { .. } => "approved",
        Phase::Refused { .. } => "refused",
        Phase::Running(_) => "running",
        Phase::InDoubt(_) => "in_doubt",
        Phase::Settled(CallOutcome::Succeeded(_)) => "succeeded",
        Phase::Settled(CallOutcome::Failed(_)) => "failed",
    };
    CallSummary { path: call.path.clone(), args: call.args.clone(), status, line: call.line }
}
