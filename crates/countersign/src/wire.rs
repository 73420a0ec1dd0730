//! The JSON that `--json` prints, in the shapes of CONTRACT.md.

use countersign_core::elicitation::Elicitation;
use countersign_core::execution::Status;
use countersign_core::ids::ExecutionId;
use countersign_core::time::Timestamp;
use countersign_kernel::ports::{ElicitationRow, ExecutionRow};
use countersign_kernel::{CatalogTool, ExecutionResult, Pending};
use countersign_sdk::AskKind;
use serde_json::{Value, json};

use crate::exit::Problem;

/// An execution's status as callers know it: one that waits for a person is `paused`.
pub(crate) fn status(status: Status) -> &'static str {
    match status {
        Status::Waiting => "paused",
        other => other.as_str(),
    }
}

/// An ExecutionResult.
pub(crate) fn result(result: &ExecutionResult) -> Value {
    let calls = result.calls.iter().map(|c| json!({ "path": c.path, "args": c.args, "status": c.status }));
    let logs = result.logs.iter().map(|l| json!({ "level": l.level, "message": l.message }));
    json!({
        "executionId": result.execution,
        "status": result_status(result),
        "success": result.success(),
        "value": result.value,
        "error": result.error.as_ref().map(|e| json!({ "code": e.code, "message": e.message })),
        "calls": calls.collect::<Vec<_>>(),
        "logs": logs.collect::<Vec<_>>(),
        "paused": result.paused().map(pending),
        "pending": result.pending.iter().map(pending).collect::<Vec<_>>(),
    })
}

/// A script may have questions open and still be doing something; to its caller it is paused all the same.
fn result_status(result: &ExecutionResult) -> &'static str {
    match result.status {
        Status::Running if result.paused().is_some() => status(Status::Waiting),
        other => status(other),
    }
}

fn pending(pending: &Pending) -> Value {
    question(&pending.elicitation, pending.execution, pending.asked_at)
}

/// An elicitation nobody answered, with whose it is.
pub(crate) fn elicitation(row: &ElicitationRow) -> Value {
    let mut value = question(&row.elicitation, row.execution, row.asked_at);
    value["sessionId"] = json!(row.session);
    value["requester"] = json!(row.requester);
    value
}

fn question(elicitation: &Elicitation, execution: ExecutionId, asked_at: Timestamp) -> Value {
    let mut value = json!({
        "executionId": execution,
        "elicitationId": elicitation.id,
        "toolPath": elicitation.tool,
        "message": elicitation.message,
        "args": elicitation.args,
        "because": elicitation.because,
        "remember": elicitation.remember,
        "askedAt": asked_at.to_string(),
        "expiresAt": elicitation.expires_at.to_string(),
    });
    match &elicitation.kind {
        AskKind::Approval => value["type"] = json!("approval"),
        AskKind::Form { schema } => {
            value["type"] = json!("form");
            value["schema"] = schema.as_value().clone();
        }
    }
    value
}

/// An execution in a list.
pub(crate) fn execution(row: &ExecutionRow) -> Value {
    json!({
        "executionId": row.id,
        "status": status(row.status),
        "tool": row.tool,
        "sessionId": row.session,
        "requester": row.requester,
        "idempotencyKey": row.key,
        "createdAt": row.created_at.to_string(),
        "updatedAt": row.updated_at.to_string(),
    })
}

/// A tool, with its schemas.
pub(crate) fn tool(tool: &CatalogTool) -> Value {
    let definition = tool.tool().definition();
    json!({
        "path": tool.path(),
        "name": definition.name,
        "description": definition.description,
        "effects": definition.effects,
        "remember": definition.remember,
        "authProvider": definition.auth_provider,
        "serviceAccountAllowed": definition.service_account_allowed,
        "source": tool.source(),
        "fingerprint": tool.fingerprint(),
        "inputSchema": tool.input_schema(),
        "outputSchema": tool.output_schema(),
    })
}

/// A part of a list.
pub(crate) fn list(items: Vec<Value>, next: Option<&str>) -> Value {
    let mut list = json!({ "nextCursor": next });
    list["items"] = Value::Array(items);
    list
}

/// What a command could not do.
pub(crate) fn problem(problem: &Problem) -> Value {
    json!({ "error": { "code": problem.code, "message": problem.message, "hint": problem.hint } })
}
