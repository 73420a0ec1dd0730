//! The suite's fixtures that no gateway has: prompts, resources, sampling, roots, content that is no text, and tools whose
//! wire the suite fixes to the letter. They only read, and none of them is an execution.

use countersign_server::mcp::Companion;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams, ClientCapabilities,
    CompleteRequestParams, CompleteResult, CreateTaskResult, GetPromptRequestParams, GetPromptResponse,
    GetPromptResult, GetTaskParams, GetTaskResult, InputRequests, InputRequiredResult, InputResponses,
    ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, PaginatedRequestParams,
    ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, ServerConfig,
    SubscribeRequestParams, Tool, ToolAnnotations, UnsubscribeRequestParams, UpdateTaskParams,
};
use rmcp::service::RequestContext;
use rmcp::task_manager::{TaskExit, TaskManager, TaskOptions};
use rmcp::{ErrorData, RoleServer};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::content;

type Context = RequestContext<RoleServer>;

/// Asked for one after the other; the order in which the suite names them.
const TOOLS: [&str; 15] = [
    "test_image_content",
    "test_audio_content",
    "test_embedded_resource",
    "test_multiple_content_types",
    "test_sampling",
    "test_missing_capability",
    "test_input_required_result_elicitation",
    "test_input_required_result_sampling",
    "test_input_required_result_list_roots",
    "test_input_required_result_multiple_inputs",
    "test_input_required_result_capabilities",
    "failing_job",
    "protocol_error_job",
    "test_tool_with_task",
    "json_schema_2020_12_tool",
];

/// The fixtures, as the front takes them in.
pub(crate) fn companion() -> Companion {
    Companion::new(Fixtures { tasks: TaskManager::new() }, TOOLS.map(listed).into())
}

fn listed(name: &'static str) -> Tool {
    let schema = match name {
        "json_schema_2020_12_tool" => content::every_keyword(),
        "test_sampling" => {
            json!({ "type": "object", "properties": { "prompt": { "type": "string" } }, "required": ["prompt"] })
        }
        _ => json!({ "type": "object", "properties": {} }),
    };
    let schema: Map<String, Value> = schema.as_object().cloned().unwrap_or_default();
    Tool::new(name, "A fixture of the conformance suite.", schema)
        .with_annotations(ToolAnnotations::new().read_only(true))
}

struct Fixtures {
    tasks: TaskManager,
}

impl ServerHandler for Fixtures {
    fn get_info(&self) -> ServerConfig {
        let mut info = ServerConfig::default();
        let capabilities = json!({
            "prompts": { "listChanged": true },
            "resources": { "subscribe": true, "listChanged": true },
            "completions": {},
        });
        if let Ok(capabilities) = serde_json::from_value(capabilities) {
            info.capabilities = capabilities;
        }
        info
    }

    async fn call_tool(
        &self,
        params: CallToolRequestParams,
        context: Context,
    ) -> Result<CallToolResponse, ErrorData> {
        if let Some(result) = content::of_tool(&params.name) {
            return Ok(whole::<CallToolResult>(result)?.into());
        }
        match &*params.name {
            "test_sampling" => sampled(&params, &context).await,
            "test_missing_capability" => {
                require(&context, json!({ "sampling": {} }))?;
                done("The client can sample")
            }
            "failing_job" | "protocol_error_job" | "test_tool_with_task" => self.task(&params, &context),
            name => in_rounds(name, &params),
        }
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: Context,
    ) -> Result<ListPromptsResult, ErrorData> {
        whole(content::prompts())
    }

    async fn get_prompt(
        &self,
        params: GetPromptRequestParams,
        _: Context,
    ) -> Result<GetPromptResponse, ErrorData> {
        if params.name == "test_input_required_result_prompt" {
            let Some(context) = answer(params.input_responses.as_ref(), "user_context", "context") else {
                return Ok(ask("user_context", "What context should the prompt use?", "context")?.into());
            };
            let message = json!({ "role": "user", "content": content::text(&context) });
            return Ok(whole::<GetPromptResult>(json!({ "messages": [message] }))?.into());
        }
        let argument = |name: &str| {
            let given = params.arguments.as_ref().and_then(|all| all.get(name));
            given
                .map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
                .unwrap_or_default()
        };
        let prompt = content::prompt(&params.name, argument)
            .ok_or_else(|| ErrorData::invalid_params("There is no such prompt", None))?;
        Ok(whole::<GetPromptResult>(prompt)?.into())
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: Context,
    ) -> Result<ListResourcesResult, ErrorData> {
        whole(content::resources())
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: Context,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        whole(content::templates())
    }

    async fn read_resource(
        &self,
        params: ReadResourceRequestParams,
        _: Context,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let read = content::read(&params.uri).ok_or_else(|| {
            ErrorData::invalid_params("Resource not found", Some(json!({ "uri": params.uri })))
        })?;
        Ok(whole::<ReadResourceResult>(read)?.into())
    }

    async fn subscribe(&self, _: SubscribeRequestParams, _: Context) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn unsubscribe(&self, _: UnsubscribeRequestParams, _: Context) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn complete(&self, params: CompleteRequestParams, _: Context) -> Result<CompleteResult, ErrorData> {
        let cities = ["paris", "park", "party"];
        let fitting: Vec<&str> =
            cities.into_iter().filter(|c| c.starts_with(&params.argument.value)).collect();
        whole(json!({ "completion": { "values": fitting, "total": fitting.len(), "hasMore": false } }))
    }

    async fn get_task(&self, params: GetTaskParams, _: Context) -> Result<GetTaskResult, ErrorData> {
        Ok(GetTaskResult::new(self.tasks.get_task(&params.task_id)?))
    }

    async fn update_task(&self, params: UpdateTaskParams, _: Context) -> Result<(), ErrorData> {
        self.tasks.update_task(&params.task_id, params.input_responses)
    }

    async fn cancel_task(&self, params: CancelTaskParams, _: Context) -> Result<(), ErrorData> {
        self.tasks.cancel_task(&params.task_id)
    }
}

impl Fixtures {
    /// Tools that are tasks or nothing.
    fn task(&self, params: &CallToolRequestParams, context: &Context) -> Result<CallToolResponse, ErrorData> {
        require(context, json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } }))?;
        let outcome: Result<CallToolResult, TaskExit> = match &*params.name {
            "failing_job" => whole(json!({ "content": [content::text("It failed")], "isError": true }))
                .map_err(TaskExit::from),
            "protocol_error_job" => Err(ErrorData::internal_error("It broke", None).into()),
            _ => {
                let Some(name) = answer(params.input_responses.as_ref(), "user_name", "name") else {
                    return Ok(ask("user_name", "What is your name?", "name")?.into());
                };
                whole(json!({ "content": [content::text(&format!("Hello, {name}!"))] }))
                    .map_err(TaskExit::from)
            }
        };
        let task = self.tasks.spawn(TaskOptions::new(), move |_| Box::pin(async move { outcome }));
        Ok(CreateTaskResult::new(task).into())
    }
}

/// What the client's model says to the prompt.
async fn sampled(params: &CallToolRequestParams, context: &Context) -> Result<CallToolResponse, ErrorData> {
    let prompt = params.arguments.as_ref().and_then(|all| all.get("prompt")).cloned().unwrap_or_default();
    let request = json!({
        "messages": [{ "role": "user", "content": { "type": "text", "text": prompt } }],
        "maxTokens": 100,
    });
    #[expect(deprecated, reason = "sampling is of the 2025 era, and so is this fixture")]
    let sampled = context.peer.create_message(typed(request)?).await;
    let sampled = sampled.map_err(|e| ErrorData::internal_error(e.to_string(), None))?;
    let sampled = serde_json::to_value(sampled).unwrap_or_default();
    done(&format!("LLM response: {}", sampled["content"]["text"].as_str().unwrap_or_default()))
}

/// Tools of the 2026-07-28 era that ask for something and are called again with the answer.
fn in_rounds(name: &str, params: &CallToolRequestParams) -> Result<CallToolResponse, ErrorData> {
    let responses = params.input_responses.as_ref();
    let sample = |text: &str| {
        json!({ "method": "sampling/createMessage", "params": {
            "messages": [{ "role": "user", "content": content::text(text) }], "maxTokens": 100,
        } })
    };
    let roots = json!({ "method": "roots/list", "params": {} });
    let requests = match name {
        "test_input_required_result_elicitation" => {
            return match answer(responses, "user_name", "name") {
                Some(name) => done(&format!("Hello, {name}!")),
                None => Ok(ask("user_name", "What is your name?", "name")?.into()),
            };
        }
        "test_input_required_result_sampling" | "test_input_required_result_capabilities" => {
            json!({ "capital_question": sample("What is the capital of France?") })
        }
        "test_input_required_result_list_roots" => json!({ "client_roots": roots }),
        "test_input_required_result_multiple_inputs" => json!({
            "user_name": question("What is your name?", "name"),
            "greeting": sample("Generate a greeting"),
            "client_roots": roots,
        }),
        other => return Err(ErrorData::invalid_params(format!("There is no tool \"{other}\""), None)),
    };
    let requests: InputRequests = typed(requests)?;
    if responses.is_some_and(|given| requests.keys().all(|key| given.contains_key(key))) {
        return done(&format!("Thank you: {}", json!(responses)));
    }
    let state = (requests.len() > 1).then(|| name.to_owned());
    Ok(InputRequiredResult::new(Some(requests), state).into())
}

fn ask(key: &str, message: &str, field: &str) -> Result<InputRequiredResult, ErrorData> {
    Ok(InputRequiredResult::from_input_requests(typed(json!({ key: question(message, field) }))?))
}

fn question(message: &str, field: &str) -> Value {
    json!({ "method": "elicitation/create", "params": {
        "mode": "form",
        "message": message,
        "requestedSchema": {
            "type": "object", "properties": { field: { "type": "string" } }, "required": [field],
        },
    } })
}

/// The text that a person gave for one field, if they gave it.
fn answer(responses: Option<&InputResponses>, key: &str, field: &str) -> Option<String> {
    let response = responses?.get(key)?;
    (response["action"] == "accept").then_some(())?;
    response["content"][field].as_str().map(str::to_owned)
}

/// Refuses a client that did not say that it can do this.
fn require(context: &Context, wanted: Value) -> Result<(), ErrorData> {
    let has = serde_json::to_value(context.client_capabilities()).unwrap_or_default();
    if contains(&has, &wanted) {
        return Ok(());
    }
    Err(ErrorData::missing_required_client_capability(typed::<ClientCapabilities>(wanted)?))
}

fn contains(has: &Value, wanted: &Value) -> bool {
    match wanted.as_object() {
        Some(wanted) => has.is_object() && wanted.iter().all(|(key, inner)| contains(&has[key], inner)),
        None => has == wanted,
    }
}

fn done(text: &str) -> Result<CallToolResponse, ErrorData> {
    Ok(whole::<CallToolResult>(json!({ "content": [content::text(text)] }))?.into())
}

/// A whole result. Clients of the 2025 era are not told so: rmcp takes the word out for them.
fn whole<T: DeserializeOwned>(mut value: Value) -> Result<T, ErrorData> {
    value["resultType"] = json!("complete");
    typed(value)
}

/// The suite speaks JSON, rmcp has types.
fn typed<T: DeserializeOwned>(value: Value) -> Result<T, ErrorData> {
    serde_json::from_value(value).map_err(|e| ErrorData::internal_error(e.to_string(), None))
}
