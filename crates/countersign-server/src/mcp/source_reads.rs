//! Reading a resource and getting a prompt of a source: a call of the source's own tool, the whole way of a call.
//!
//! Promises: where policy asks, a person is asked as for any call, and the client's request ends with an error that says where
//! the decision is awaited. Asking for the same thing again goes on with the same call, so nobody is asked twice, and gives its
//! result once a person approved it. A failure of the server has the server's own code and words.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use countersign_core::digest::Digest;
use countersign_core::execution::Status;
use countersign_core::ids::ExecutionId;
use countersign_kernel::{CallError, CallRequest, CatalogTool, ExecutionResult, Patience};
use countersign_sdk::McpRequest;
use futures_util::future::join_all;
use rmcp::ErrorData;
use rmcp::model::{
    ErrorCode, GetPromptResult, MetaObject, PromptMessage, ReadResourceResult, ResourceContents,
};
use serde_json::{Map, Value, json};

use super::answer::{about, invalid, unavailable, unserved};
use super::attend::{Attendance, Unanswered};
use super::requests::Incoming;
use super::source_lists::tools_for;
use super::source_names::{fits_template, prompt_of, resource_of, resource_uri};
use super::upstream;
use super::words::Words;

/// The protocol's failure of a call that did not run or went wrong.
const CALL_FAILED: ErrorCode = ErrorCode(-32_005);
/// The most requests that are remembered while they wait for a person. One that is forgotten asks again.
const MAX_WAITING: usize = 4_096;

/// Requests whose calls wait for a person: asked for again, they go on with the same call.
#[derive(Default)]
pub(super) struct WaitingReads {
    by_request: Mutex<HashMap<Digest, ExecutionId>>,
}

impl WaitingReads {
    fn find(&self, request: &Digest) -> Option<ExecutionId> {
        self.by_request.lock().unwrap_or_else(PoisonError::into_inner).get(request).copied()
    }

    fn remember(&self, request: Digest, execution: ExecutionId) {
        let mut waiting = self.by_request.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() >= MAX_WAITING
            && let Some(one) = waiting.keys().next().copied()
        {
            waiting.remove(&one);
        }
        waiting.insert(request, execution);
    }

    fn forget(&self, request: &Digest) {
        self.by_request.lock().unwrap_or_else(PoisonError::into_inner).remove(request);
    }
}

impl Incoming<'_> {
    /// Reads a resource of a source.
    pub(super) async fn read_of_source(&self, uri: &str) -> Result<ReadResourceResult, ErrorData> {
        let tools = tools_for(&self.front.gateway.catalog(), McpRequest::ReadResource);
        let sources: Vec<&str> = tools.iter().map(|tool| tool.source()).collect();
        let (source, there, is_named) = match resource_of(uri, &sources) {
            Some((source, there)) => (source.to_owned(), there, true),
            None => (self.only_source_with(uri, &tools).await?, uri, false),
        };
        let tool = tools.iter().find(|tool| tool.source() == source).ok_or_else(|| no_resource(uri))?;
        let (value, execution) = self.through(tool, json!({ "uri": there })).await?;
        let Some(Value::Array(contents)) = value.get("contents") else { return Err(unreadable(tool)) };
        let mut contents: Vec<ResourceContents> = upstream::entries(contents.clone(), &source);
        if is_named {
            // They are named as they were asked for, so that a client recognises them and can read them again.
            contents.iter_mut().for_each(|part| put_source_in_front(part, &source));
        }
        let mut result = ReadResourceResult::new(contents);
        result.meta = Some(meta(&value, execution));
        Ok(result)
    }

    /// Gets a prompt of a source.
    pub(super) async fn prompt_of_source(
        &self,
        name: &str,
        arguments: Option<Map<String, Value>>,
    ) -> Result<GetPromptResult, ErrorData> {
        let tools = tools_for(&self.front.gateway.catalog(), McpRequest::GetPrompt);
        let sources: Vec<&str> = tools.iter().map(|tool| tool.source()).collect();
        let unknown = || {
            let message = format!("there is no prompt \"{}\"; prompts/list has all of them", shown(name));
            invalid("prompt_not_found", &message)
        };
        let (source, prompt) = prompt_of(name, &sources).ok_or_else(unknown)?;
        let tool = tools.iter().find(|tool| tool.source() == source).ok_or_else(unknown)?;
        let mut args = json!({ "name": prompt });
        if let Some(arguments) = arguments {
            args["arguments"] = Value::Object(arguments);
        }
        let (value, execution) = self.through(tool, args).await?;
        let Some(Value::Array(messages)) = value.get("messages") else { return Err(unreadable(tool)) };
        let messages =
            messages.iter().map(message).collect::<Option<Vec<_>>>().ok_or_else(|| unreadable(tool))?;
        let mut result = GetPromptResult::new(messages);
        result.description = value.get("description").and_then(Value::as_str).map(str::to_owned);
        result.meta = Some(meta(&value, execution));
        Ok(result)
    }

    /// The one source that lists a resource, or has a template that its URI fits.
    async fn only_source_with(&self, uri: &str, tools: &[Arc<CatalogTool>]) -> Result<String, ErrorData> {
        if tools.is_empty() {
            return Err(no_resource(uri));
        }
        let (session, catalog) = (self.session().await?, self.front.gateway.catalog());
        let lists = |request| {
            let lists = tools_for(&catalog, request);
            let session = &session;
            async move {
                let read = join_all(lists.iter().map(|tool| self.all_of(tool, session))).await;
                lists.iter().map(|tool| tool.source().to_owned()).zip(read).collect::<Vec<_>>()
            }
        };
        let is_it = |entry: &Value| entry.get("uri").and_then(Value::as_str) == Some(uri);
        let fits = |entry: &Value| {
            entry
                .get("uriTemplate")
                .and_then(Value::as_str)
                .is_some_and(|template| fits_template(uri, template))
        };
        let listed = lists(McpRequest::ListResources).await;
        let mut found: Vec<String> = having(listed, is_it);
        if found.is_empty() {
            found = having(lists(McpRequest::ListResourceTemplates).await, fits);
        }
        match &mut found[..] {
            [] => Err(no_resource(uri)),
            [only] => Ok(std::mem::take(only)),
            several => {
                let named: Vec<String> =
                    several.iter().map(|source| resource_uri(source, &shown(uri))).collect();
                let message = format!("several sources have this resource; read {}", named.join(" or "));
                Err(invalid("ambiguous_resource", &message))
            }
        }
    }

    /// Calls a tool that stands for a request, and gives its value.
    async fn through(&self, tool: &CatalogTool, args: Value) -> Result<(Value, ExecutionId), ErrorData> {
        // As many at once as calls of tools: each may wait for a person.
        let _underway = match self.conversation.map(|conversation| conversation.enter(self.scope.id)) {
            Some(Err(refused)) => return Err(invalid(refused.code(), &refused.to_string())),
            Some(Ok(underway)) => Some(underway),
            None => None,
        };
        let path = tool.path();
        let request = Digest::of(format!("{} {path} {args}", self.caller.principal.id).as_bytes());
        let mut attendance = match self.front.waiting_reads.find(&request) {
            Some(execution) => Attendance::again(self, execution),
            None => self.begin(path.as_str(), args).await?,
        };
        let result = async {
            let result = attendance.until_paused().await?;
            if !result.pending.is_empty() {
                self.front.waiting_reads.remember(request, result.execution);
            }
            attendance.until_decided(result).await
        };
        let result = result.await.map_err(|unanswered| match unanswered {
            Unanswered::Failed(error) => error,
            Unanswered::Gone => ErrorData::internal_error("the request was cancelled", None),
            Unanswered::Stopping => unavailable("unavailable", "the server is stopping; try again later"),
        })?;
        if result.status.is_final() {
            self.front.waiting_reads.forget(&request);
        }
        self.value_of(result, path.as_str())
    }

    async fn begin(&self, path: &str, args: Value) -> Result<Attendance<'_>, ErrorData> {
        let request = CallRequest {
            path: path.to_owned(),
            args,
            caller: self.caller.clone(),
            session: self.session().await?,
            key: None,
            patience: Patience::UntilPaused,
        };
        let words = Words::to(self);
        let begun = self.front.gateway.begin_call(request, words.follow()).await;
        let begun = begun.map_err(|error| match &error {
            CallError::Gateway(error) => unserved(error),
            error => invalid(error.code(), &error.to_string()),
        })?;
        let _ = self.began.set(begun.execution);
        Ok(Attendance::on(self, begun, words))
    }

    /// The value of a call that succeeded; otherwise what became of it, and what to do.
    fn value_of(&self, result: ExecutionResult, path: &str) -> Result<(Value, ExecutionId), ErrorData> {
        let execution = result.execution;
        if let Some(pending) = result.paused() {
            let url = self.front.links.elicitation(pending.elicitation.id);
            let message = format!(
                "{path} waits for a person's approval, which can be given at {url}. Send the same request again after that."
            );
            let data = json!({ "code": "approval_pending", "executionId": execution, "url": url });
            return Err(ErrorData::new(CALL_FAILED, message, Some(data)));
        }
        if let (Status::Succeeded, Some(value)) = (result.status, result.value) {
            return Ok((value, execution));
        }
        let Some(error) = result.error else {
            let message = format!("{path} did not end; look at execution {execution}");
            let data = json!({ "code": "running", "executionId": execution });
            return Err(ErrorData::new(CALL_FAILED, message, Some(data)));
        };
        let data = json!({ "code": error.code, "executionId": execution });
        let said = error.details.as_ref().map(|details| details.to_value()).unwrap_or_default();
        match (said.get("code").and_then(Value::as_i64), said.get("message").and_then(Value::as_str)) {
            (Some(code), Some(message)) if error.code == "upstream_refused" => {
                let data = with_the_servers(data, said.get("data"));
                Err(ErrorData::new(servers_code(code), message.to_owned(), Some(data)))
            }
            _ => Err(ErrorData::new(CALL_FAILED, format!("{path}: {}", error.message), Some(data))),
        }
    }
}

/// A server's code as far as it can be said in our own name: the codes between are the protocol's own and mean a fault of ours.
fn servers_code(code: i64) -> ErrorCode {
    const PROTOCOLS_OWN: std::ops::RangeInclusive<i64> = -32_099..=-32_020;
    match i32::try_from(code) {
        Ok(known) if code < 0 && !PROTOCOLS_OWN.contains(&code) => ErrorCode(known),
        _ => CALL_FAILED,
    }
}

/// What the gateway says beside an error, and what the server said there.
fn with_the_servers(mut ours: Value, theirs: Option<&Value>) -> Value {
    match theirs {
        None | Some(Value::Null) => {}
        Some(Value::Object(theirs)) => {
            for (key, value) in theirs {
                if ours.get(key).is_none() {
                    ours[key] = value.clone();
                }
            }
        }
        Some(other) => ours["data"] = other.clone(),
    }
    ours
}

fn having(lists: Vec<(String, Vec<Value>)>, is_it: impl Fn(&Value) -> bool) -> Vec<String> {
    lists.into_iter().filter(|(_, entries)| entries.iter().any(&is_it)).map(|(source, _)| source).collect()
}

fn message(value: &Value) -> Option<PromptMessage> {
    let role = serde_json::from_value(value.get("role")?.clone()).ok()?;
    Some(PromptMessage::new(role, upstream::block(value.get("content")?)))
}

fn put_source_in_front(part: &mut ResourceContents, source: &str) {
    if let ResourceContents::TextResourceContents { uri, .. }
    | ResourceContents::BlobResourceContents { uri, .. } = part
    {
        *uri = resource_uri(source, uri);
    }
}

fn meta(value: &Value, execution: ExecutionId) -> MetaObject {
    let mut meta = upstream::meta(value).unwrap_or_default();
    meta.0.extend(about(execution).0);
    meta
}

fn no_resource(uri: &str) -> ErrorData {
    let message =
        format!("there is no resource \"{}\"; resources/list has those of every source", shown(uri));
    ErrorData::resource_not_found(message, Some(json!({ "code": "resource_not_found" })))
}

fn unreadable(tool: &CatalogTool) -> ErrorData {
    let message = format!("the answer of {} cannot be read", tool.path());
    ErrorData::new(CALL_FAILED, message, Some(json!({ "code": "upstream_unreadable" })))
}

/// A name from a client, cut for an error.
fn shown(name: &str) -> String {
    name.chars().take(countersign_sdk::MAX_PATH_BYTES).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_requests_are_bounded_and_one_that_is_forgotten_costs_only_a_second_question() {
        let waiting = WaitingReads::default();
        let (request, execution) =
            (|n: usize| Digest::of(&n.to_le_bytes()), ExecutionId::from_random([1; 16]));
        for n in 0..=MAX_WAITING {
            waiting.remember(request(n), execution);
        }
        assert_eq!(waiting.by_request.lock().unwrap().len(), MAX_WAITING);
        assert_eq!(waiting.find(&request(MAX_WAITING)), Some(execution), "the newest is there");
        waiting.forget(&request(MAX_WAITING));
        assert_eq!(waiting.find(&request(MAX_WAITING)), None);
    }

    #[test]
    fn a_server_says_more_beside_its_error_and_nothing_in_our_name() {
        let with = |theirs: Value| with_the_servers(json!({ "code": "upstream_refused" }), Some(&theirs));
        assert_eq!(
            with(json!({ "uri": "file:///a", "code": "approval_pending" })),
            json!({ "code": "upstream_refused", "uri": "file:///a" })
        );
        assert_eq!(with(json!("x")), json!({ "code": "upstream_refused", "data": "x" }));
        assert_eq!(with(json!(null)), json!({ "code": "upstream_refused" }));
    }

    #[test]
    fn a_servers_code_is_passed_on_unless_it_is_the_protocols_own() {
        assert_eq!(servers_code(-32_602), ErrorCode(-32_602));
        assert_eq!(servers_code(-32_002), ErrorCode(-32_002));
        for code in [-32_021, 0, 404, i64::MIN] {
            assert_eq!(servers_code(code), CALL_FAILED, "{code}");
        }
    }
}
