//! What an embedding program answers over MCP beside the gateway's tools: prompts, resources, completion, and tools that only
//! read.
//!
//! **What a companion answers does not pass the gate.** It is no execution, nobody is asked, nothing is recorded. So a
//! companion's tools must say `readOnlyHint: true`, and a name that is the gateway's stays the gateway's: [`super::service`]
//! refuses anything else. Whatever changes something belongs into a plugin.
#![expect(deprecated, reason = "clients of the 2025 era subscribe and set levels this way")]

use std::sync::Arc;

use async_trait::async_trait;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelTaskParams, CompleteRequestParams, CompleteResult,
    CustomRequest, CustomResult, GetPromptRequestParams, GetPromptResponse, GetTaskParams, GetTaskResult,
    ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, PaginatedRequestParams,
    ReadResourceRequestParams, ReadResourceResponse, ServerConfig, SetLevelRequestParams,
    SubscribeRequestParams, Tool, UnsubscribeRequestParams, UpdateTaskParams,
};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::{ErrorData, RoleServer};

type Context = RequestContext<RoleServer>;

/// An rmcp handler that answers what the gateway does not. Cheap to clone.
#[derive(Clone)]
pub struct Companion {
    tools: Arc<[Tool]>,
    inner: Arc<dyn Answers>,
}

/// Why a companion is not taken in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompanionError {
    /// A tool that does not say that it only reads.
    #[error(
        "the companion's tool \"{0}\" is not annotated readOnlyHint: true; what changes something goes through the gate, so make it a plugin's tool"
    )]
    NotReadOnly(String),
    /// A tool that has the name of another one.
    #[error("the companion's tool \"{0}\" has the name of another tool; give it a name of its own")]
    NameTaken(String),
}

impl Companion {
    /// A companion with these tools; every other question that is not the gateway's goes to the handler as well. Its own
    /// `list_tools` is never asked.
    pub fn new(handler: impl ServerHandler, tools: Vec<Tool>) -> Self {
        Self { tools: tools.into(), inner: Arc::new(handler) }
    }

    pub(super) fn tools(&self) -> &[Tool] {
        &self.tools
    }

    /// Whether a tool is the companion's.
    pub(super) fn has(&self, name: &str) -> bool {
        self.tools.iter().any(|tool| tool.name == name)
    }

    pub(super) fn answers(&self) -> &dyn Answers {
        &*self.inner
    }

    /// Holds the companion against its rule.
    pub(super) fn check(&self, is_taken: impl Fn(&str) -> bool) -> Result<(), CompanionError> {
        for (i, tool) in self.tools.iter().enumerate() {
            let reads = tool.annotations.as_ref().and_then(|a| a.read_only_hint);
            if reads != Some(true) {
                return Err(CompanionError::NotReadOnly(tool.name.to_string()));
            }
            if is_taken(&tool.name) || self.tools[..i].iter().any(|other| other.name == tool.name) {
                return Err(CompanionError::NameTaken(tool.name.to_string()));
            }
        }
        Ok(())
    }
}

/// [`ServerHandler`] without its generic futures, so that one front serves with any companion.
#[async_trait]
pub(super) trait Answers: Send + Sync {
    fn info(&self) -> ServerConfig;
    async fn call_tool(
        &self,
        params: CallToolRequestParams,
        context: Context,
    ) -> Result<CallToolResponse, ErrorData>;
    async fn list_prompts(
        &self,
        page: Option<PaginatedRequestParams>,
        context: Context,
    ) -> Result<ListPromptsResult, ErrorData>;
    async fn get_prompt(
        &self,
        params: GetPromptRequestParams,
        context: Context,
    ) -> Result<GetPromptResponse, ErrorData>;
    async fn list_resources(
        &self,
        page: Option<PaginatedRequestParams>,
        context: Context,
    ) -> Result<ListResourcesResult, ErrorData>;
    async fn list_resource_templates(
        &self,
        page: Option<PaginatedRequestParams>,
        context: Context,
    ) -> Result<ListResourceTemplatesResult, ErrorData>;
    async fn read_resource(
        &self,
        params: ReadResourceRequestParams,
        context: Context,
    ) -> Result<ReadResourceResponse, ErrorData>;
    async fn subscribe(&self, params: SubscribeRequestParams, context: Context) -> Result<(), ErrorData>;
    async fn unsubscribe(&self, params: UnsubscribeRequestParams, context: Context) -> Result<(), ErrorData>;
    async fn complete(
        &self,
        params: CompleteRequestParams,
        context: Context,
    ) -> Result<CompleteResult, ErrorData>;
    async fn set_level(&self, params: SetLevelRequestParams, context: Context) -> Result<(), ErrorData>;
    async fn custom(&self, request: CustomRequest, context: Context) -> Result<CustomResult, ErrorData>;
    async fn get_task(&self, params: GetTaskParams, context: Context) -> Result<GetTaskResult, ErrorData>;
    async fn update_task(&self, params: UpdateTaskParams, context: Context) -> Result<(), ErrorData>;
    async fn cancel_task(&self, params: CancelTaskParams, context: Context) -> Result<(), ErrorData>;
    async fn roots_changed(&self, context: NotificationContext<RoleServer>);
}

#[async_trait]
impl<H: ServerHandler> Answers for H {
    fn info(&self) -> ServerConfig {
        ServerHandler::get_info(self)
    }

    async fn call_tool(
        &self,
        params: CallToolRequestParams,
        context: Context,
    ) -> Result<CallToolResponse, ErrorData> {
        ServerHandler::call_tool(self, params, context).await
    }

    async fn list_prompts(
        &self,
        page: Option<PaginatedRequestParams>,
        context: Context,
    ) -> Result<ListPromptsResult, ErrorData> {
        ServerHandler::list_prompts(self, page, context).await
    }

    async fn get_prompt(
        &self,
        params: GetPromptRequestParams,
        context: Context,
    ) -> Result<GetPromptResponse, ErrorData> {
        ServerHandler::get_prompt(self, params, context).await
    }

    async fn list_resources(
        &self,
        page: Option<PaginatedRequestParams>,
        context: Context,
    ) -> Result<ListResourcesResult, ErrorData> {
        ServerHandler::list_resources(self, page, context).await
    }

    async fn list_resource_templates(
        &self,
        page: Option<PaginatedRequestParams>,
        context: Context,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        ServerHandler::list_resource_templates(self, page, context).await
    }

    async fn read_resource(
        &self,
        params: ReadResourceRequestParams,
        context: Context,
    ) -> Result<ReadResourceResponse, ErrorData> {
        ServerHandler::read_resource(self, params, context).await
    }

    async fn subscribe(&self, params: SubscribeRequestParams, context: Context) -> Result<(), ErrorData> {
        ServerHandler::subscribe(self, params, context).await
    }

    async fn unsubscribe(&self, params: UnsubscribeRequestParams, context: Context) -> Result<(), ErrorData> {
        ServerHandler::unsubscribe(self, params, context).await
    }

    async fn complete(
        &self,
        params: CompleteRequestParams,
        context: Context,
    ) -> Result<CompleteResult, ErrorData> {
        ServerHandler::complete(self, params, context).await
    }

    async fn set_level(&self, params: SetLevelRequestParams, context: Context) -> Result<(), ErrorData> {
        ServerHandler::set_level(self, params, context).await
    }

    async fn custom(&self, request: CustomRequest, context: Context) -> Result<CustomResult, ErrorData> {
        ServerHandler::on_custom_request(self, request, context).await
    }

    async fn get_task(&self, params: GetTaskParams, context: Context) -> Result<GetTaskResult, ErrorData> {
        ServerHandler::get_task(self, params, context).await
    }

    async fn update_task(&self, params: UpdateTaskParams, context: Context) -> Result<(), ErrorData> {
        ServerHandler::update_task(self, params, context).await
    }

    async fn cancel_task(&self, params: CancelTaskParams, context: Context) -> Result<(), ErrorData> {
        ServerHandler::cancel_task(self, params, context).await
    }

    async fn roots_changed(&self, context: NotificationContext<RoleServer>) {
        ServerHandler::on_roots_list_changed(self, context).await;
    }
}
