//! The gateway's own tools: `resume`, `search_tools` and `read_tool`. `run` is an execution like any call, and is begun in
//! `handler.rs`.

use countersign_core::ids::ExecutionId;
use countersign_kernel::{Answer, Coverage, Decide, DecideError, Target};

use rmcp::ErrorData;
use rmcp::model::{CallToolResponse, CallToolResult, ContentBlock, JsonObject};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::answer::{Shape, failure};
use super::attend::Attendance;
use super::person::{AGENT_CHANNEL, agent_that_may_decide};
use super::requests::Incoming;
use crate::declarations::declarations;
use crate::wire;

/// The most tools one search gives.
const MAX_HITS: usize = 100;

/// The arguments of `run`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Run {
    pub(super) script: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Resume {
    execution_id: String,
    approved: Option<bool>,
    data: Option<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Search {
    query: String,
    #[serde(default = "ten")]
    limit: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Read {
    path: String,
}

fn ten() -> usize {
    10
}

impl Incoming<'_> {
    /// Waits for an execution of the caller's own, asking through the client where it can ask.
    pub(super) async fn resume(&self) -> Result<CallToolResponse, ErrorData> {
        let Resume { execution_id, approved, data } = match self.arguments() {
            Ok(arguments) => arguments,
            Err(refused) => return Ok((*refused).into()),
        };
        let execution = match execution_id.parse::<ExecutionId>() {
            Ok(id) if self.owns(id).await? => id,
            _ => return Ok(failure("not_found", "There is no such execution.", None).into()),
        };
        if let Some(approved) = approved
            && let Err(refused) = self.decide_as_agent(execution, approved, data).await
        {
            // An agent that tried to decide is told at once where a person can; it is not made to wait first.
            return Ok((*refused).into());
        }
        let mut attendance = Attendance::again(self, execution);
        let answered = attendance.see_through(Shape::Execution).await;
        attendance.or_last_word(answered, Shape::Execution).await
    }

    /// Decides for the agent where the operator lets it; changes nothing otherwise.
    async fn decide_as_agent(
        &self,
        execution: ExecutionId,
        approved: bool,
        data: Option<Value>,
    ) -> Result<(), Box<CallToolResult>> {
        if !self.front.options.agent_may_decide {
            return Err(Box::new(self.people_decide(execution).await));
        }
        let answer = match approved {
            true => Answer::Approve { covers: Some(Coverage::Call), data },
            false => Answer::Deny,
        };
        let decide = Decide {
            target: Target::Execution(execution),
            by: agent_that_may_decide(&self.caller),
            channel: AGENT_CHANNEL.into(),
            answer,
            comment: None,
        };
        match self.front.gateway.decide(decide).await {
            Ok(_) | Err(DecideError::NotFound) => Ok(()),
            Err(error) => Err(Box::new(failure(error.code(), &error.to_string(), Some(execution)))),
        }
    }

    async fn people_decide(&self, execution: ExecutionId) -> CallToolResult {
        let result = self.front.gateway.result(execution).await.ok().flatten();
        let pending = result.iter().flat_map(|result| &result.pending);
        let links: Vec<String> = pending.map(|p| self.front.links.elicitation(p.elicitation.id)).collect();
        let place = match links[..] {
            [] => "Nothing of it waits for a decision now.".to_owned(),
            _ => format!("A person can decide at {}.", links.join(" or ")),
        };
        let message = format!(
            "An agent cannot decide; nothing was changed. {place} Call resume without approved to wait for the decision."
        );
        failure("not_allowed", &message, Some(execution))
    }

    /// Finds tools.
    pub(super) fn search(&self) -> CallToolResult {
        let Search { query, limit } = match self.arguments() {
            Ok(arguments) => arguments,
            Err(refused) => return *refused,
        };
        let hits = self.front.gateway.catalog().search(&query, limit.clamp(1, MAX_HITS));
        let shelf = self.front.shelf();
        let tools = hits.iter().map(|hit| {
            let definition = hit.tool.tool().definition();
            let name = shelf.shown_name(&hit.tool);
            json!({
                "path": hit.tool.path().as_str(),
                "listed": name.as_deref().is_some_and(|name| shelf.is_listed(name)),
                "mcpName": name,
                "name": definition.name,
                "description": definition.description,
                "destructive": hit.tool.effects().destructive,
            })
        });
        structured(json!({ "tools": tools.collect::<Vec<_>>() }))
    }

    /// Reads one tool.
    pub(super) fn read(&self) -> CallToolResult {
        let Read { path } = match self.arguments() {
            Ok(arguments) => arguments,
            Err(refused) => return *refused,
        };
        let catalog = self.front.gateway.catalog();
        let Some(tool) = catalog.get(&path) else {
            let near: Vec<String> = catalog.near(&path).iter().map(ToString::to_string).collect();
            let hint = match near[..] {
                [] => "search_tools finds what there is".to_owned(),
                _ => format!("did you mean {}?", near.join(" or ")),
            };
            let path: String = path.chars().take(countersign_sdk::MAX_PATH_BYTES).collect();
            return failure("tool_not_found", &format!("there is no tool \"{path}\"; {hint}"), None);
        };
        let mut detail = serde_json::to_value(wire::ToolDetail::from(&**tool)).unwrap_or_default();
        detail["mcpName"] = self.front.shelf().shown_name(tool).into();
        detail["declaration"] = declarations([&**tool]).into();
        structured(detail)
    }

    /// The arguments of one of the gateway's own tools, or what is wrong with them.
    pub(super) fn arguments<T: DeserializeOwned>(&self) -> Result<T, Box<CallToolResult>> {
        let arguments: JsonObject = self.call.and_then(|call| call.arguments.clone()).unwrap_or_default();
        serde_json::from_value(Value::Object(arguments)).map_err(|error| {
            Box::new(failure("invalid_input", &format!("the arguments do not fit: {error}"), None))
        })
    }
}

fn structured(value: Value) -> CallToolResult {
    let mut result = CallToolResult::success(vec![ContentBlock::text(value.to_string())]);
    result.structured_content = Some(value);
    result
}
