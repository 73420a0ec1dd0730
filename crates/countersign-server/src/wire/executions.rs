//! Executions: what is asked for, and what came of it.

use std::sync::Arc;

use countersign_core::elicitation::Elicitation;
use countersign_core::ids::ExecutionId;
use countersign_core::time::Timestamp;
use countersign_kernel::ports::ExecutionRow;
use countersign_sdk::AskKind;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::links::Links;

/// What to run: `code`, or `tool` with `args`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExecuteRequest {
    /// A script.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The path of one tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Its arguments; `{}` where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<Value>,
    /// The session to run in; it is opened if it is not there. The token's own session where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// How long to wait for the end. Nothing said: until it ends or first waits for a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
    /// The caller's own key: the same key again is the same execution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
}

/// Where an execution stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It is being worked on.
    Running,
    /// It waits for a person.
    Paused,
    /// A call started and nobody knows its outcome.
    InDoubt,
    /// It ended with a value.
    Succeeded,
    /// It ended with a failure.
    Failed,
    /// It was stopped.
    Cancelled,
}

/// An execution as its caller sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExecutionResult {
    /// Its id.
    pub execution_id: String,
    /// Where it stands.
    pub status: Status,
    /// True only where it succeeded.
    pub success: bool,
    /// Its value, once it succeeded.
    pub value: Option<Value>,
    /// Its failure, once it failed or was cancelled.
    pub error: Option<Failure>,
    /// Its calls, in issue order.
    pub calls: Vec<CallSummary>,
    /// What was logged.
    pub logs: Vec<LogLine>,
    /// The oldest question nobody answered yet.
    #[schema(value_type = Option<Pending>)]
    pub paused: Option<Arc<Pending>>,
    /// All of them, oldest first.
    #[schema(value_type = Vec<Pending>)]
    pub pending: Vec<Arc<Pending>>,
    /// Tools that it cannot go on without and whose sources are not loaded; left out where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing_tools: Vec<String>,
}

/// Why something failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Failure {
    /// The stable code.
    pub code: String,
    /// What the caller reads.
    pub message: String,
}

/// One call, in brief.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CallSummary {
    /// The tool.
    pub path: String,
    /// The arguments it ran or would run with.
    #[schema(value_type = Value)]
    pub args: Arc<Value>,
    /// How far it got: `issued`, `asked`, `approved`, `refused`, `running`, `in_doubt`, `succeeded`, `failed`.
    pub status: String,
    /// The line of the script's source that made it, from 1; left out where no script did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
}

/// A line that was logged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogLine {
    /// `debug`, `info`, `warn` or `error`.
    pub level: String,
    /// What it says.
    pub message: String,
}

/// What kind of answer a question wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum PendingKind {
    /// Yes or no.
    Approval,
    /// Fields.
    Form,
}

/// A question nobody answered yet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Pending {
    /// The execution that asks.
    pub execution_id: String,
    /// The question's id.
    pub elicitation_id: String,
    /// The tool it is about.
    pub tool_path: String,
    /// What the person reads.
    pub message: String,
    /// The arguments, whole, as they will run.
    #[schema(value_type = Value)]
    pub args: Arc<Value>,
    /// What an approval of it is bound to. A decision that names it decides nothing else.
    pub digest: String,
    /// Yes or no, or fields.
    #[serde(rename = "type")]
    pub kind: PendingKind,
    /// The form's schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// Which rule asks, or that the tool does.
    pub because: String,
    /// What an approval covers where the person says nothing: `call` or `session`. Where it is `call`, it cannot cover more.
    pub remember: String,
    /// When it was asked.
    pub asked_at: String,
    /// From here on the answer is `expired`.
    pub expires_at: String,
    /// Where a person can decide it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The line of the script's source that waits for the answer, from 1; left out where no script does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
}

/// An execution in a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExecutionSummary {
    /// Its id.
    pub execution_id: String,
    /// Where it stands.
    pub status: Status,
    /// The tool of its first call; null for a script without one.
    pub tool: Option<String>,
    /// Its session.
    pub session_id: String,
    /// Who asked for it.
    pub requester: String,
    /// The caller's own key.
    pub idempotency_key: Option<String>,
    /// When it was accepted.
    pub created_at: String,
    /// When it last changed.
    pub updated_at: String,
}

/// A journal event: `{ "v": 1, "at": …, "event": { name: { … } } }`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(transparent)]
pub struct JournalEvent(pub Value);

/// What became of a call in doubt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SettleRequest {
    /// The number of the call, from 0.
    pub call: u32,
    /// What became of it.
    #[serde(rename = "as")]
    pub settlement: Settlement,
    /// The value its caller gets, where it is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    /// What its caller is told, where it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The three ways out of a doubt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Settlement {
    /// It took effect.
    Done,
    /// It took no effect.
    Failed,
    /// Run it again.
    Retry,
}

impl ExecutionResult {
    /// An execution, with links for the person who decides.
    pub fn of(result: &countersign_kernel::ExecutionResult, links: &Links) -> Self {
        let pending: Vec<Arc<Pending>> = result
            .pending
            .iter()
            .map(|p| Arc::new(Pending::of(&p.elicitation, p.execution, p.asked_at, links)))
            .collect();
        let calls = result.calls.iter().map(|call| CallSummary {
            path: call.path.to_string(),
            args: call.args.shared_value(),
            status: call.status.to_owned(),
            line: call.line,
        });
        let logs = result.logs.iter().map(|line| LogLine {
            level: format!("{:?}", line.level).to_lowercase(),
            message: line.message.clone(),
        });
        // A script may have questions open and still be doing something; to its caller it is paused all the same.
        let status = match Status::from(result.status) {
            Status::Running if !pending.is_empty() => Status::Paused,
            status => status,
        };
        Self {
            execution_id: result.execution.to_string(),
            status,
            success: result.success(),
            value: result.value.clone(),
            error: result.error.as_ref().map(Failure::from),
            calls: calls.collect(),
            logs: logs.collect(),
            paused: pending.first().cloned(),
            pending,
            missing_tools: result.missing_tools.iter().map(ToString::to_string).collect(),
        }
    }
}

impl Pending {
    /// A question, with its link.
    pub fn of(elicitation: &Elicitation, execution: ExecutionId, asked_at: Timestamp, links: &Links) -> Self {
        let (kind, schema) = match &elicitation.kind {
            AskKind::Approval => (PendingKind::Approval, None),
            AskKind::Form { schema } => (PendingKind::Form, Some(schema.as_value().clone())),
        };
        Self {
            execution_id: execution.to_string(),
            elicitation_id: elicitation.id.to_string(),
            tool_path: elicitation.tool.to_string(),
            message: elicitation.message.clone(),
            args: elicitation.args.shared_value(),
            kind,
            schema,
            because: elicitation.because.clone(),
            digest: elicitation.digest.to_string(),
            remember: remember_text(elicitation.remember).to_owned(),
            asked_at: asked_at.to_string(),
            expires_at: elicitation.expires_at.to_string(),
            url: Some(links.elicitation(elicitation.id)),
            line: elicitation.line,
        }
    }
}

pub(super) fn remember_text(remember: countersign_sdk::Remember) -> &'static str {
    match remember {
        countersign_sdk::Remember::Call => "call",
        countersign_sdk::Remember::Session => "session",
    }
}

impl From<countersign_core::execution::Status> for Status {
    fn from(status: countersign_core::execution::Status) -> Self {
        use countersign_core::execution::Status as Core;
        match status {
            Core::Running => Self::Running,
            Core::Waiting => Self::Paused,
            Core::InDoubt => Self::InDoubt,
            Core::Succeeded => Self::Succeeded,
            Core::Failed => Self::Failed,
            Core::Cancelled => Self::Cancelled,
        }
    }
}

impl From<Status> for countersign_core::execution::Status {
    fn from(status: Status) -> Self {
        match status {
            Status::Running => Self::Running,
            Status::Paused => Self::Waiting,
            Status::InDoubt => Self::InDoubt,
            Status::Succeeded => Self::Succeeded,
            Status::Failed => Self::Failed,
            Status::Cancelled => Self::Cancelled,
        }
    }
}

impl From<&countersign_core::event::Failure> for Failure {
    fn from(failure: &countersign_core::event::Failure) -> Self {
        Self { code: failure.code.clone(), message: failure.message.clone() }
    }
}

impl From<&ExecutionRow> for ExecutionSummary {
    fn from(row: &ExecutionRow) -> Self {
        Self {
            execution_id: row.id.to_string(),
            status: row.status.into(),
            tool: row.tool.as_ref().map(ToString::to_string),
            session_id: row.session.to_string(),
            requester: row.requester.to_string(),
            idempotency_key: row.key.clone(),
            created_at: row.created_at.to_string(),
            updated_at: row.updated_at.to_string(),
        }
    }
}
