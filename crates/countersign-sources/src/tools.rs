//! Accepted tools of a source as tools of the gateway: the handler that sends the call to where the tool lives.
//!
//! Promise: what may write is sent at most once. Where it was sent and no answer tells what became of it, the call is in
//! doubt. A destructive call of an MCP server is not sent if the server offers another definition by then.

use std::sync::Arc;

use async_trait::async_trait;
use countersign_core::compact::CompactJson;
use countersign_sdk::{
    ClientRequest, Ctx, Effects, ForeignInput, ForeignToolError, Form, McpRequest, Resumable, Tool,
    ToolError, ToolErrorCode, ToolPath,
};
use serde_json::{Value, json};

use crate::bounded::bounded;
use crate::connect::{Connection, no_connections};
use crate::failed_result;
use crate::figures::Figures;
use crate::graphql;
use crate::http::{Exchange, Extent, HttpClient, Intent};
use crate::mcp::{Asker, Call, CallFailure, Difference, OutcomeKind, Question, Reply, Upstream, request_of};
use crate::mcp_output::{mcp_output, value_of};
use crate::offer::OfferedTool;
use crate::openapi;
use crate::request::{HttpRequest, MAX_ERROR_BODY_BYTES, RequestError, UpstreamError};

/// One accepted tool, on its way to the catalog.
pub(crate) struct Accepted<'a> {
    pub(crate) source: &'a str,
    pub(crate) path: &'a ToolPath,
    pub(crate) tool: &'a Arc<OfferedTool>,
    /// After the operator's settings.
    pub(crate) effects: Effects,
    /// Whose connections its calls are to use.
    pub(crate) provider: Option<&'a str>,
    pub(crate) figures: Arc<Figures>,
}

impl Accepted<'_> {
    /// The tool with its handler; nothing where the connection does not know it.
    pub(crate) fn tool(self, connection: &Connection) -> Option<Result<Tool, ForeignToolError>> {
        let target = match connection {
            Connection::OpenApi { operations, client, .. } => {
                Target::OpenApi(Arc::clone(operations.get(&self.tool.name)?), client.clone())
            }
            Connection::GraphQl { operations, client, .. } => {
                Target::GraphQl(Arc::clone(operations.get(&self.tool.name)?), client.clone())
            }
            Connection::Mcp(upstream) => Target::Mcp(Arc::clone(upstream), Arc::clone(self.tool)),
        };
        Some(self.built(target))
    }

    fn built(self, target: Target) -> Result<Tool, ForeignToolError> {
        let OfferedTool { title, description, input_schema, output_schema, origin, .. } = &**self.tool;
        let request = match target {
            Target::Mcp(..) => Some(request_of(origin)),
            _ => None,
        };
        let output = match request {
            Some(McpRequest::CallTool) => Some(mcp_output(output_schema.as_ref().map(CompactJson::to_value))),
            _ => output_schema.as_ref().map(CompactJson::to_value),
        };
        let (intent, resumable) = match self.effects.read_only {
            true => (Intent::Read, Resumable::Unsaid),
            // A handler that is entered again would send its request again.
            false => (Intent::Write, Resumable::No),
        };
        let effects = Effects { resumable, ..self.effects };
        let (target, figures, source) = (Arc::new(target), self.figures, self.source.to_owned());
        let unconnected: Option<Arc<str>> = self
            .provider
            .map(|provider| Arc::from(format!("{source} cannot be called: {}", no_connections(provider))));
        let builder = Tool::foreign(self.path.to_string(), input_schema.to_value(), output, effects)?
            .name(title.as_deref().unwrap_or(origin))
            .describe(description)
            .output_is_hint();
        let builder = match request {
            Some(request) => builder.mcp_request(request),
            None => builder,
        };
        let builder = match &unconnected {
            Some(reason) => builder.auth_not_available(&**reason),
            None => builder,
        };
        Ok(builder.handler(move |ctx: Ctx, input: ForeignInput| {
            let (target, figures, source) = (Arc::clone(&target), Arc::clone(&figures), source.clone());
            let unconnected: Option<Arc<str>> = unconnected.clone();
            async move {
                // What was approved before the provider was configured comes here without another judgement.
                if let Some(reason) = unconnected {
                    return Err(ToolError::with_code("auth_not_available", reason.to_string()));
                }
                let begun = tokio::time::Instant::now();
                let result = target.call(&ctx, input.into_inner(), intent, &source).await;
                figures.count(begun.elapsed(), result.is_err());
                result
            }
        }))
    }
}

/// Where a call goes.
enum Target {
    OpenApi(Arc<openapi::Operation>, HttpClient),
    GraphQl(Arc<graphql::Operation>, HttpClient),
    Mcp(Arc<Upstream>, Arc<OfferedTool>),
}

impl Target {
    async fn call(
        &self,
        ctx: &Ctx,
        arguments: Value,
        intent: Intent,
        source: &str,
    ) -> Result<Value, ToolError> {
        match self {
            Self::OpenApi(operation, client) => {
                let request = operation.request(&arguments);
                sent(client, request, intent, |status, headers, body| {
                    operation.result(status, headers, body).map_err(|error| failed(&error))
                })
                .await
            }
            Self::GraphQl(operation, client) => {
                let request = operation.request(&arguments);
                sent(client, request, intent, |status, headers, body| {
                    operation.result(status, headers, body).map_err(|error| match &error {
                        graphql::NoResult::Unknown(_) if intent == Intent::Write => {
                            ToolError::outcome_unknown(error.to_string())
                        }
                        graphql::NoResult::Unknown(answer) | graphql::NoResult::Failed(answer) => {
                            failed(answer)
                        }
                    })
                })
                .await
            }
            Self::Mcp(upstream, accepted) => {
                call_mcp(upstream, accepted, ctx, arguments, intent, source).await
            }
        }
    }
}

async fn sent(
    client: &HttpClient,
    request: Result<HttpRequest, RequestError>,
    intent: Intent,
    result: impl FnOnce(u16, &[(String, String)], &[u8]) -> Result<Value, ToolError>,
) -> Result<Value, ToolError> {
    let request =
        request.map_err(|error| ToolError::coded(ToolErrorCode::InvalidParams, error.to_string()))?;
    let exchange = client.send(request, intent).await;
    let in_doubt = exchange.is_in_doubt(intent);
    match exchange {
        Exchange::NotSent(reason) => Err(ToolError::with_code(reason.code(), reason.to_string())),
        Exchange::Lost(lost) if in_doubt => Err(ToolError::outcome_unknown(lost.to_string())),
        Exchange::Lost(lost) => Err(ToolError::with_code("upstream_lost", lost.to_string())),
        Exchange::Answered(answer) if in_doubt => Err(ToolError::outcome_unknown(format!(
            "a proxy answered {} in place of the service, which may have acted",
            answer.status
        ))),
        Exchange::Answered(answer) => match (answer.extent, answer.status) {
            // It took effect; only its answer is too long to keep.
            (Extent::Cut { limit_bytes }, 200..300) => Ok(json!({
                "cut": format!("the answer has more than {limit_bytes} bytes; this is its beginning"),
                "beginning": String::from_utf8_lossy(&answer.body[..answer.body.len().min(4096)]),
            })),
            _ => result(answer.status, &answer.headers, &answer.body),
        },
    }
}

fn failed(error: &UpstreamError) -> ToolError {
    ToolError::with_code(error.code(), error.to_string())
}

async fn call_mcp(
    upstream: &Upstream,
    accepted: &OfferedTool,
    ctx: &Ctx,
    arguments: Value,
    intent: Intent,
    source: &str,
) -> Result<Value, ToolError> {
    let Value::Object(arguments) = arguments else {
        return Err(ToolError::coded(ToolErrorCode::InvalidParams, "the arguments are not an object"));
    };
    if intent == Intent::Write {
        match upstream.difference(accepted).await {
            Ok(Difference::None) => {}
            Ok(Difference::Gone | Difference::Changed(_)) => {
                let message = format!(
                    "{source} changed this tool since its definition was accepted. The call was not sent; `countersign \
                     source show {source}` shows what changed."
                );
                return Err(ToolError::with_code("tool_changed", message));
            }
            Err(failure) => return Err(ToolError::with_code("upstream_not_reached", failure.to_string())),
        }
    }
    let request = request_of(&accepted.origin);
    if request != McpRequest::CallTool {
        return upstream.send(request, arguments).await.map_err(|failure| refused(failure, intent));
    }
    let progress = ctx.clone();
    let call = Call {
        asker: Arc::new(AskForCall { ctx: ctx.clone(), source: source.to_owned() }),
        progress: Arc::new(move |update| {
            progress.progress(update.progress, update.total, update.message.unwrap_or_default());
        }),
        ..Call::new(accepted.origin.clone(), arguments, intent)
    };
    match upstream.call(call).await {
        Ok(outcome) if outcome.kind == OutcomeKind::Failed => Err(failed_result::error(outcome)),
        Ok(outcome) => Ok(value_of(outcome)),
        Err(failure) => Err(refused(failure, intent)),
    }
}

/// Why an MCP server gave no result.
fn refused(failure: CallFailure, intent: Intent) -> ToolError {
    match failure {
        failure if failure.is_in_doubt(intent) => ToolError::outcome_unknown(failure.to_string()),
        CallFailure::Cancelled => ToolError::coded(ToolErrorCode::Cancelled, failure.to_string()),
        failure => {
            let error = ToolError::with_code(failure.code(), failure.to_string());
            match failure {
                // The server's own error, for whoever speaks its protocol.
                CallFailure::Refused { code, message, data } => {
                    let message = bounded(&message, MAX_ERROR_BODY_BYTES);
                    let mut details = json!({ "code": code, "message": message });
                    if let Some(data) = data.filter(|data| data.to_string().len() <= MAX_ERROR_BODY_BYTES) {
                        details["data"] = data;
                    }
                    error.with_details(details)
                }
                _ => error,
            }
        }
    }
}

/// Puts a server's questions to the gateway's people, with the source named as the one who asks, and its requests for a client's
/// own to the client that made the call.
struct AskForCall {
    ctx: Ctx,
    source: String,
}

#[async_trait]
impl Asker for AskForCall {
    async fn ask(&self, question: Question) -> Reply {
        let message = format!("{} asks: {}", self.source, question.message);
        match self.ctx.elicit(Form::<Value>::with_schema(message, question.schema)).await {
            Ok(Some(answer)) => Reply::Accepted(answer),
            Ok(None) => Reply::Declined,
            Err(_) => Reply::Cancelled,
        }
    }

    async fn ask_client(&self, request: ClientRequest) -> Result<Value, String> {
        let fields = json!({ "source": self.source, "method": request.capability.method() });
        self.ctx.logger().info("The source asks the client that made the call.", fields);
        self.ctx.ask_client(request).await.map_err(|error| error.message().to_owned())
    }

    fn session(&self) -> Option<String> {
        Some(self.ctx.session().to_string())
    }
}
