//! What a client gets for a call: a result, a failure the model can read, or that a person is awaited.

use countersign_core::execution::Status;
use countersign_core::ids::ExecutionId;
use countersign_kernel::{CallError, ExecutionResult, GatewayError};
use rmcp::ErrorData;
use rmcp::model::{CallToolResult, ContentBlock, MetaObject};
use serde_json::{Value, json};

use super::upstream;
use crate::links::Links;
use crate::wire;

const EXECUTION: &str = "countersign/executionId";
const ERROR: &str = "countersign/error";

/// What an execution's result is shown as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// The tool's output, as text only.
    Text,
    /// The tool's output, as text and as `structuredContent`.
    Output,
    /// The result of an upstream MCP tool, as its server sent it.
    Upstream,
    /// The whole execution: what `run` and `resume` give.
    Execution,
}

/// An execution that is over, in doubt, or paused.
pub(super) fn answer(result: &ExecutionResult, shape: Shape, links: &Links) -> CallToolResult {
    if !result.pending.is_empty() {
        return paused(result, links);
    }
    match result.status {
        Status::Succeeded => success(result, shape, links),
        Status::Failed | Status::Cancelled => {
            let (code, message) = result
                .error
                .as_ref()
                .map_or(("failed", "The execution failed."), |error| (&error.code, &error.message));
            let mut failed = failure(code, message, Some(result.execution));
            if shape == Shape::Upstream {
                say_as_the_server_did(&mut failed, result);
            }
            if shape == Shape::Execution && !result.logs.is_empty() {
                let lines = result.logs.iter().map(|line| line.message.as_str()).collect::<Vec<_>>();
                failed.content.push(ContentBlock::text(format!("logs:\n{}", lines.join("\n"))));
            }
            failed
        }
        Status::InDoubt => {
            let message = "A call started and it is not known whether it took effect. It is not run again; a person has to settle it. \
                           Do not repeat the call.";
            failure("in_doubt", message, Some(result.execution))
        }
        Status::Running | Status::Waiting => {
            let message = "The execution still runs; call resume to wait for it.";
            failure("running", message, Some(result.execution))
        }
    }
}

/// A failure that is a result of an upstream tool says what that tool said.
fn say_as_the_server_did(failed: &mut CallToolResult, result: &ExecutionResult) {
    let details =
        result.error.as_ref().and_then(|error| error.details.as_ref()).map(|details| details.to_value());
    let Some(said) = details.as_ref().and_then(upstream::tool_result) else { return };
    (failed.content, failed.structured_content) = (said.content, said.structured_content);
    let ours = failed.meta.get_or_insert_default();
    for (key, value) in said.meta.unwrap_or_default().0 {
        ours.0.entry(key).or_insert(value);
    }
}

fn success(result: &ExecutionResult, shape: Shape, links: &Links) -> CallToolResult {
    if shape == Shape::Upstream
        && let Some(mut answer) = result.value.as_ref().and_then(upstream::tool_result)
    {
        answer.meta.get_or_insert_default().0.extend(about(result.execution).0);
        return answer;
    }
    let value = match shape {
        Shape::Execution => whole(result, links),
        Shape::Text | Shape::Output | Shape::Upstream => result.value.clone().unwrap_or_default(),
    };
    let text = match &value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let mut answer = CallToolResult::success(vec![ContentBlock::text(text)]);
    if matches!(shape, Shape::Output | Shape::Execution) && value.is_object() {
        answer.structured_content = Some(value);
    }
    answer.with_meta(Some(about(result.execution)))
}

/// Says that a person is awaited, where, and what to do meanwhile.
fn paused(result: &ExecutionResult, links: &Links) -> CallToolResult {
    let mut text = format!(
        "Paused: this waits for a person's decision and has not run. call resume to wait for the decision: resume {{\"execution_id\": \"{}\"}}. \
         Do not repeat the call.",
        result.execution
    );
    for pending in &result.pending {
        let elicitation = &pending.elicitation;
        text.push_str(&format!(
            "\n- {}: a person can decide at {}",
            elicitation.tool,
            links.elicitation(elicitation.id)
        ));
    }
    let mut answer = CallToolResult::success(vec![ContentBlock::text(text)]);
    answer.structured_content = Some(whole(result, links));
    answer.with_meta(Some(about(result.execution)))
}

fn whole(result: &ExecutionResult, links: &Links) -> Value {
    serde_json::to_value(wire::ExecutionResult::of(result, links)).unwrap_or_default()
}

/// A failure that the model reads; its code is in `_meta`, because clients hold `structuredContent` against the tool's schema
/// also where it is an error.
pub(super) fn failure(code: &str, message: &str, execution: Option<ExecutionId>) -> CallToolResult {
    let mut meta = execution.map(about).unwrap_or_default();
    let mut error = json!({ "code": code, "message": message });
    if let Some(execution) = execution {
        error["executionId"] = execution.to_string().into();
    }
    meta.0.insert(ERROR.into(), error);
    CallToolResult::error(vec![ContentBlock::text(format!("{code}: {message}"))]).with_meta(Some(meta))
}

/// A call that was not accepted. A tool that is not there is the protocol's failure; everything else the model can mend.
pub(super) fn refusal(error: &CallError) -> Result<CallToolResult, ErrorData> {
    match error {
        CallError::ToolNotFound { .. } | CallError::Namespace { .. } => Err(unknown_tool(&error.to_string())),
        _ => Ok(failure(error.code(), &error.to_string(), None)),
    }
}

pub(super) fn unknown_tool(message: &str) -> ErrorData {
    invalid("tool_not_found", message)
}

/// A request that cannot be served as it is, with a stable code in `data`.
pub(super) fn invalid(code: &str, message: &str) -> ErrorData {
    ErrorData::invalid_params(message.to_owned(), Some(json!({ "code": code })))
}

/// The gateway could not do it; nothing may be assumed to have happened.
pub(super) fn unavailable(code: &str, message: &str) -> ErrorData {
    ErrorData::internal_error(message.to_owned(), Some(json!({ "code": code })))
}

/// The same, in the gateway's own words.
pub(super) fn unserved(error: &GatewayError) -> ErrorData {
    unavailable(error.code(), &error.to_string())
}

pub(super) fn about(execution: ExecutionId) -> MetaObject {
    let mut meta = MetaObject::default();
    meta.0.insert(EXECUTION.into(), execution.to_string().into());
    meta
}
