//! The tasks extension: an execution as something a client polls.
//!
//! A task's id is its execution's id, so a task is as durable as the execution is: it outlives the process. It is its
//! requester's; to anybody else there is no such task.

use std::time::Duration;

use countersign_core::event::{EventBody, Kind};
use countersign_core::execution::Status;
use countersign_core::ids::ExecutionId;
use countersign_kernel::{CancelError, ExecutionResult, Patience};
use rmcp::ErrorData;
use rmcp::model::{
    CallToolResponse, CreateTaskResult, DetailedTask, GetTaskResult, InputResponses, Task, TaskPayload,
    TaskStatus,
};
use serde_json::Value;

use super::answer::{Shape, about, answer, invalid, unavailable, unserved};
use super::attend::{Attendance, Unanswered, found};
use super::requests::{Incoming, Way};
use super::rounds::input_requests;

/// A call that takes longer than this becomes a task, where the client takes one.
pub(super) const LONGEST_CALL: Duration = Duration::from_secs(1);
/// How often a client should look.
const POLL_MS: u64 = 1_000;

impl Attendance<'_> {
    /// Waits a moment; what is not over by then becomes a task.
    pub(super) async fn as_task(&mut self, shape: Shape) -> Result<CallToolResponse, Unanswered> {
        if let Ok(result) = tokio::time::timeout(LONGEST_CALL, self.until_paused()).await {
            let result = result?;
            if result.pending.is_empty() {
                return Ok(answer(&result, shape, &self.incoming.front.links).into());
            }
        }
        // The client will come back for it, so it is written down before the client is told.
        let known = self.stands(Patience::AtMost(Duration::ZERO)).await?;
        let task = self.incoming.task(&known).await?;
        Ok(CreateTaskResult::new(task).with_meta(about(self.execution)).into())
    }
}

impl Incoming<'_> {
    /// A task as it stands.
    pub(super) async fn get_task(&self, id: &str) -> Result<GetTaskResult, ErrorData> {
        let execution = self.own_task(id).await?;
        let result = found(self.front.gateway.result(execution).await)?;
        let task = self.task(&result).await?;
        let payload = self.payload(&result).await?;
        let mut got = GetTaskResult::new(DetailedTask::new(task, payload));
        got.meta = Some(about(execution));
        Ok(got)
    }

    /// Takes what the person at the client said to a task's questions. What is unknown, unreadable or decided is left alone:
    /// the next look tells.
    pub(super) async fn update_task(&self, id: &str, responses: &InputResponses) -> Result<(), ErrorData> {
        let execution = self.own_task(id).await?;
        if self.way != Way::Rounds {
            return Ok(());
        }
        let result = found(self.front.gateway.result(execution).await)?;
        for pending in &result.pending {
            if let Some(response) = responses.get(&pending.elicitation.id.to_string()) {
                self.take(&pending.elicitation, response).await?;
            }
        }
        Ok(())
    }

    /// Stops a task. One that can no longer be stopped goes on, and the next look tells.
    pub(super) async fn cancel_task(&self, id: &str) -> Result<(), ErrorData> {
        let execution = self.own_task(id).await?;
        match self.front.gateway.cancel(execution, &self.caller, "the client cancelled the task").await {
            Err(CancelError::Gateway(error)) => Err(unserved(&error)),
            _ => Ok(()),
        }
    }

    async fn own_task(&self, id: &str) -> Result<ExecutionId, ErrorData> {
        let unknown = || invalid("not_found", "there is no such task");
        let execution = id.parse::<ExecutionId>().map_err(|_| unknown())?;
        if self.owns(execution).await? { Ok(execution) } else { Err(unknown()) }
    }

    async fn task(&self, result: &ExecutionResult) -> Result<Task, ErrorData> {
        let journal = self.front.gateway.journal(result.execution).await.map_err(|error| unserved(&error))?;
        let now = self.front.gateway.now();
        let at = |event: Option<&countersign_core::event::Event>| event.map_or(now, |e| e.at).to_string();
        let mut task =
            Task::new(result.execution.to_string(), status(result), at(journal.first()), at(journal.last()));
        task.status_message = self.status_message(result);
        Ok(task.with_poll_interval_ms(POLL_MS))
    }

    fn status_message(&self, result: &ExecutionResult) -> Option<String> {
        if let Some(pending) = result.paused() {
            let link = self.front.links.elicitation(pending.elicitation.id);
            return Some(format!(
                "{} waits for a person's decision; it can be given at {link}",
                pending.elicitation.tool
            ));
        }
        (result.status == Status::InDoubt)
            .then(|| "It is not known whether a call took effect; a person has to settle it.".into())
    }

    async fn payload(&self, result: &ExecutionResult) -> Result<TaskPayload, ErrorData> {
        if !result.pending.is_empty() {
            if self.way != Way::Rounds || !self.is_asked_here(result).await? {
                return Ok(TaskPayload::Working);
            }
            let questions = result.pending.iter().map(|pending| &*pending.elicitation);
            return Ok(TaskPayload::InputRequired { input_requests: input_requests(questions) });
        }
        match result.status {
            Status::Cancelled => Ok(TaskPayload::Cancelled),
            Status::Succeeded | Status::Failed => {
                let answer = answer(result, self.shape_of(result).await?, &self.front.links);
                // By its text, as a call's answer goes: rmcp's numbers of single precision would come out longer otherwise.
                let answer = serde_json::to_string(&answer).and_then(|text| serde_json::from_str(&text));
                match answer {
                    Ok(Value::Object(result)) => Ok(TaskPayload::Completed { result }),
                    _ => Err(unavailable("internal", "the result cannot be written")),
                }
            }
            Status::Running | Status::Waiting | Status::InDoubt => Ok(TaskPayload::Working),
        }
    }

    /// What the call's own answer would have been shown as.
    async fn shape_of(&self, result: &ExecutionResult) -> Result<Shape, ErrorData> {
        let journal = self.front.gateway.journal(result.execution).await.map_err(|error| unserved(&error))?;
        let is_script = journal
            .iter()
            .any(|event| matches!(&event.body, EventBody::Started(started) if started.kind == Kind::Script));
        let catalog = self.front.gateway.catalog();
        let tool = result.calls.first().and_then(|call| catalog.at(&call.path));
        Ok(match tool {
            Some(tool) if !is_script => self.front.shape_of(&super::shelf::name_of(tool)),
            _ => Shape::Execution,
        })
    }
}

fn status(result: &ExecutionResult) -> TaskStatus {
    match result.status {
        Status::Succeeded | Status::Failed => TaskStatus::Completed,
        Status::Cancelled => TaskStatus::Cancelled,
        Status::Running | Status::Waiting | Status::InDoubt => TaskStatus::Working,
    }
}
