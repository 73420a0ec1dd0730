//! What clients ask for, and who answers it: the gateway, or the companion.
#![expect(deprecated, reason = "clients of the 2025 era subscribe and set levels this way")]

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use countersign_core::ids::ExecutionId;
use countersign_kernel::{Begun, CallError, CallRequest, CatalogTool, Gateway, Patience, RunRequest};
use countersign_sdk::ToolPath;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams, CancelledNotificationParam,
    CompleteRequestMethod, CompleteRequestParams, CompleteResult, CustomRequest, CustomResult,
    DiscoverResult, ErrorCode, GetPromptRequestParams, GetPromptResponse, GetTaskParams, GetTaskResult,
    Implementation, InitializeRequestParams, InitializeResult, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, LoggingLevel, PaginatedRequestParams,
    ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse, ServerCapabilities, ServerConfig,
    SetLevelRequestParams, SubscribeRequestMethod, SubscribeRequestParams, SubscriptionFilter, Tool,
    UnsubscribeRequestMethod, UnsubscribeRequestParams, UpdateTaskParams,
};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::{ErrorData, RoleServer};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::MountError;
use super::answer::{Shape, failure, refusal, unavailable, unknown_tool};
use super::attend::Attendance;
use super::builtin::Run;
use super::cancelling::{NO_REASON, NamedCall, NamedCalls};
use super::client_requests::ClientOfCall;
use super::companion::Answers;
use super::conversation::Conversation;
use super::current_shelf::CurrentShelf;
use super::options::Options;
use super::requests::Incoming;
use super::rounds::Claims;
use super::seal::Seal;
use super::shelf::{Item, Own, Shelf};
use super::source_reads::WaitingReads;
use super::upstream::is_upstream_call;
use super::words::Words;
use crate::links::Links;
use crate::session::mcp_client;

type Context = RequestContext<RoleServer>;

/// The revisions that are served, oldest first.
const REVISIONS: &[ProtocolVersion] =
    &[ProtocolVersion::V_2025_06_18, ProtocolVersion::V_2025_11_25, ProtocolVersion::V_2026_07_28];
/// The longest name of a client that the gateway takes.
const MAX_CLIENT_BYTES: usize = 190;

const INSTRUCTIONS: &str = "Countersign stands between you and these tools. Tools that only read answer at once. Whatever destroys, sends or \
overwrites waits until a person approves it, and then runs once, with exactly the arguments the person saw. \
A result with status \"paused\" has not run: call resume with its executionId to wait for the decision, as often as needed. \
Do not repeat the call, and do not try to approve it: you cannot decide. A denied call did not run; ask the user before you try something else. \
Arguments outside a tool's schema are refused with every violation named. search_tools finds tools and read_tool shows one; run takes a script \
that calls several tools, as await tools.<path>(args).";

/// What all conversations share.
pub(super) struct Front {
    pub(super) gateway: Gateway,
    pub(super) links: Links,
    pub(super) options: Options,
    shelf: CurrentShelf,
    pub(super) seal: Seal,
    pub(super) claims: Claims,
    pub(super) waiting_reads: WaitingReads,
    /// The calls of the 2026-07-28 era that can be cancelled by their name.
    pub(super) named_calls: Arc<NamedCalls>,
    /// Fires when the server is to stop.
    pub(super) stop: CancellationToken,
    info: ServerConfig,
}

/// One conversation of the 2025 era, or one request of the 2026-07-28 era.
pub(super) struct Handler {
    pub(super) front: Arc<Front>,
    conversation: OnceLock<Conversation>,
}

impl Front {
    pub(super) fn new(
        gateway: Gateway,
        links: Links,
        options: Options,
        stop: CancellationToken,
    ) -> Result<Self, MountError> {
        let shelf = CurrentShelf::new(gateway.catalog(), &options)?;
        let info = info(&options);
        let seal = Seal::new(options.seal_key);
        let (claims, waiting_reads, named_calls) =
            (Claims::default(), WaitingReads::default(), Arc::default());
        Ok(Self { gateway, links, options, shelf, seal, claims, waiting_reads, named_calls, stop, info })
    }

    /// The tools as clients see them now.
    pub(super) fn shelf(&self) -> Arc<Shelf> {
        self.shelf.of(self.gateway.catalog(), &self.options)
    }

    /// Whether calls of a tool can be served without rmcp: the companion's need its context, and a tool with parameters in
    /// headers needs its check of them.
    pub(super) fn serves_stateless(&self, name: &str) -> bool {
        let is_companions = self.options.companion.as_ref().is_some_and(|companion| companion.has(name));
        !is_companions && !self.shelf().has_header_params(name)
    }

    /// What a tool's result is shown as.
    pub(super) fn shape_of(&self, name: &str) -> Shape {
        let (shelf, catalog) = (self.shelf(), self.gateway.catalog());
        match shelf.find(name) {
            Some(Item::Catalog(path)) if catalog.at(path).is_some_and(|tool| is_upstream_call(tool)) => {
                Shape::Upstream
            }
            Some(Item::Catalog(path)) if catalog.at(path).is_some_and(|tool| has_output_hint(tool)) => {
                Shape::Output
            }
            _ if shelf.is_structured(name) => Shape::Output,
            _ => Shape::Text,
        }
    }
}

/// Whether a tool's output schema only describes. It is not advertised, and the output is in the result as it is.
fn has_output_hint(tool: &CatalogTool) -> bool {
    tool.tool().definition().output_is_hint
}

/// What is served. Resources and prompts are declared also while no source has any: a source may come while a client is
/// connected, and a client hears of changes only in lists that were declared.
fn info(options: &Options) -> ServerConfig {
    let mut capabilities = ServerCapabilities::builder()
        .enable_tools()
        .enable_tool_list_changed()
        .enable_prompts()
        .enable_prompts_list_changed()
        .enable_resources()
        .enable_resources_list_changed()
        .enable_logging()
        .enable_tasks()
        .build();
    if let Some(companion) = &options.companion {
        let theirs = companion.answers().info().capabilities;
        if let (Some(resources), Some(theirs)) = (&mut capabilities.resources, theirs.resources) {
            resources.subscribe = theirs.subscribe;
        }
        capabilities.completions = theirs.completions;
    }
    let implementation =
        Implementation::new("countersign", env!("CARGO_PKG_VERSION")).with_title("Countersign");
    ServerConfig::new(capabilities).with_server_info(implementation).with_instructions(INSTRUCTIONS)
}

impl Handler {
    pub(super) fn new(front: Arc<Front>) -> Self {
        Self { front, conversation: OnceLock::new() }
    }

    pub(super) fn incoming<'a>(&'a self, context: &'a Context) -> Result<Incoming<'a>, ErrorData> {
        Incoming::of(&self.front, self.conversation.get(), context)
    }

    fn companion(&self) -> Option<&dyn Answers> {
        self.front.options.companion.as_ref().map(|companion| companion.answers())
    }

    /// The companion, where it says that it has this.
    pub(super) fn companion_with(&self, has: impl Fn(&ServerCapabilities) -> bool) -> Option<&dyn Answers> {
        self.companion().filter(|companion| has(&companion.info().capabilities))
    }

    /// Begins a call or a script, and waits for it the way the client can.
    async fn execute(&self, incoming: &Incoming<'_>, what: What) -> Result<CallToolResponse, ErrorData> {
        let shape = what.shape(incoming);
        if let Some(state) = incoming.call.and_then(|call| call.request_state.as_deref()) {
            let responses = incoming.call.and_then(|call| call.input_responses.as_ref());
            // It goes on with what an earlier request began, and is cancelled like that one.
            if let Some(state) = incoming.bound().and_then(|bound| self.front.seal.open(state, bound)) {
                let _ = incoming.began.set(state.execution);
            }
            return incoming.go_on(state, responses, shape).await;
        }
        let words = Words::to(incoming);
        let begun = match what.begin(incoming, &words, shape).await? {
            Ok(begun) => begun,
            Err(error) => return Ok(refusal(&error)?.into()),
        };
        let _ = incoming.began.set(begun.execution);
        let mut attendance = Attendance::on(incoming, begun, words);
        let answered = match incoming.takes_tasks {
            true => attendance.as_task(shape).await,
            false => attendance.see_through(shape).await,
        };
        attendance.or_last_word(answered, shape).await
    }

    /// A call of the 2026-07-28 era, which can be cancelled where it has a name.
    pub(super) async fn answer_named(
        &self,
        params: &CallToolRequestParams,
        incoming: &Incoming<'_>,
    ) -> Result<CallToolResponse, ErrorData> {
        let (whose, stop) = (&incoming.caller.principal.id, incoming.scope.ct);
        let call =
            incoming.scope.call_name.and_then(|name| self.front.named_calls.enter(whose, name, stop.clone()));
        let answered = self.answer_call(params, incoming).await;
        if let Some(reason) = call.and_then(NamedCall::cancelled)
            && let Some(execution) = incoming.began.get()
        {
            incoming.cancel(*execution, &reason).await;
        }
        answered
    }

    async fn answer_call(
        &self,
        params: &CallToolRequestParams,
        incoming: &Incoming<'_>,
    ) -> Result<CallToolResponse, ErrorData> {
        match self.front.shelf().find(&params.name) {
            Some(Item::Catalog(path)) => {
                let path = path.clone();
                Box::pin(self.execute(incoming, What::Call(path))).await
            }
            Some(Item::Own(Own::Run)) => match incoming.arguments::<Run>() {
                Ok(Run { script }) => Box::pin(self.execute(incoming, What::Script(script))).await,
                Err(refused) => Ok((*refused).into()),
            },
            Some(Item::Own(Own::Resume)) => match &params.request_state {
                Some(state) => incoming.go_on(state, params.input_responses.as_ref(), Shape::Execution).await,
                None => Box::pin(incoming.resume()).await,
            },
            Some(Item::Own(Own::Search)) => Ok(incoming.search().into()),
            Some(Item::Own(Own::Read)) => Ok(incoming.read().into()),
            Some(Item::NotShown(path)) => Ok(not_shown(path).into()),
            Some(Item::Companion) | None => {
                let name: String = params.name.chars().take(countersign_sdk::MAX_PATH_BYTES).collect();
                Err(unknown_tool(&format!("there is no tool \"{name}\"; search_tools finds what there is")))
            }
        }
    }
}

impl Incoming<'_> {
    /// The client cancelled what it had called.
    async fn cancel(&self, execution: ExecutionId, reason: &str) {
        if let Err(error) = self.front.gateway.cancel(execution, &self.caller, reason).await {
            tracing::debug!(%execution, %error, "a cancelled call goes on");
        }
    }
}

/// A tool whose schema clients cannot be shown: they could only guess its arguments.
fn not_shown(path: &ToolPath) -> CallToolResult {
    let message = format!(
        "{path} cannot be shown over MCP, so it is not called by this name. Read it with read_tool and call it in a script: run \
         with return await tools.{path}(args)."
    );
    failure("not_shown", &message, None)
}

/// What is to be executed.
enum What {
    Call(ToolPath),
    Script(String),
}

impl What {
    fn shape(&self, incoming: &Incoming<'_>) -> Shape {
        match (self, incoming.call) {
            (Self::Call(_), Some(call)) => incoming.front.shape_of(&call.name),
            _ => Shape::Execution,
        }
    }

    async fn begin(
        self,
        incoming: &Incoming<'_>,
        words: &Words,
        shape: Shape,
    ) -> Result<Result<Begun, CallError>, ErrorData> {
        let (session, caller) = (incoming.session().await?, incoming.caller.clone());
        let (gateway, patience) = (&incoming.front.gateway, Patience::UntilPaused);
        Ok(match self {
            Self::Call(path) => {
                let arguments = incoming.call.and_then(|call| call.arguments.clone()).unwrap_or_default();
                let request = CallRequest {
                    path: path.to_string(),
                    args: Value::Object(arguments),
                    caller,
                    session,
                    key: None,
                    patience,
                };
                match ClientOfCall::of(incoming, shape) {
                    Some(client) => gateway.begin_call_of(client, request, words.follow()).await,
                    None => gateway.begin_call(request, words.follow()).await,
                }
            }
            Self::Script(source) => {
                let request = RunRequest { source, caller, session, key: None, patience };
                gateway.begin_run(request, words.follow()).await
            }
        })
    }
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        self.front.info.clone()
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(REVISIONS)
    }

    async fn initialize(
        &self,
        mut request: InitializeRequestParams,
        context: Context,
    ) -> Result<InitializeResult, ErrorData> {
        let caller = self.incoming(&context)?.caller;
        let info = self.negotiate_initialize(&request)?;
        let client = mcp_client(&client_name(&request.client_info.name));
        let opened = self.front.gateway.open_session(&caller, &client, None).await;
        let session = opened.map_err(|error| unavailable(error.code(), &error.to_string()))?;
        // A client says hello once in a conversation; a second time changes nothing.
        let _ = self.conversation.set(Conversation::new(session, caller.principal.id));
        request.protocol_version = info.protocol_version.clone();
        context.peer.set_peer_info(request);
        Ok(info)
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        // However often a client says so, it is told of changes once.
        if self.conversation.get().is_some_and(Conversation::is_first_to_connect) {
            self.front.options.announcer.connect(context.peer);
        }
    }

    async fn discover(&self, _context: Context) -> Result<DiscoverResult, ErrorData> {
        let info = self.front.info.clone();
        Ok(DiscoverResult::from_server_info(REVISIONS.to_vec(), info))
    }

    async fn list_tools(
        &self,
        page: Option<PaginatedRequestParams>,
        context: Context,
    ) -> Result<ListToolsResult, ErrorData> {
        self.front.shelf().list(page, self.incoming(&context)?.era)
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.front.shelf().tool(name).cloned()
    }

    async fn call_tool(
        &self,
        params: CallToolRequestParams,
        context: Context,
    ) -> Result<CallToolResponse, ErrorData> {
        if let Some(companion) = &self.front.options.companion
            && companion.has(&params.name)
        {
            self.incoming(&context)?;
            return companion.answers().call_tool(params, context).await;
        }
        let incoming = self.incoming(&context)?.calling(&params);
        let Some(conversation) = self.conversation.get() else {
            return self.answer_named(&params, &incoming).await;
        };
        let call = match conversation.enter(&context.id) {
            Ok(call) => call,
            Err(refused) => return Ok(failure(refused.code(), &refused.to_string(), None).into()),
        };
        let answered = self.answer_call(&params, &incoming).await;
        if context.ct.is_cancelled()
            && let Some(execution) = incoming.began.get()
            && let Some(reason) = call.cancelled().await
        {
            incoming.cancel(*execution, &reason).await;
        }
        answered
    }

    async fn on_cancelled(
        &self,
        notification: CancelledNotificationParam,
        context: NotificationContext<RoleServer>,
    ) {
        let (Some(request), Some(conversation)) = (notification.request_id, self.conversation.get()) else {
            return;
        };
        let caller = super::door::caller(&context.extensions);
        if caller.is_some_and(|caller| caller.principal.id == conversation.owner) {
            let reason = notification.reason.as_deref().unwrap_or(NO_REASON);
            conversation.cancel(&request, reason);
        }
    }

    async fn set_level(&self, params: SetLevelRequestParams, context: Context) -> Result<(), ErrorData> {
        let level: LoggingLevel = params.level;
        if let Some(conversation) = self.conversation.get() {
            conversation.set_level(level);
        }
        match self.companion() {
            // What it does with a level is its own affair; it may know none.
            Some(companion) => companion.set_level(params, context).await.or(Ok(())),
            None => Ok(()),
        }
    }

    /// All of it: rmcp leaves out what the capabilities do not promise before it acknowledges.
    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, subscription: SubscriptionContext) -> Result<(), ErrorData> {
        self.front.options.announcer.tell(&subscription).await
    }

    async fn get_task(&self, params: GetTaskParams, context: Context) -> Result<GetTaskResult, ErrorData> {
        match self.companion() {
            Some(companion) if !is_ours(&params.task_id) => companion.get_task(params, context).await,
            _ => self.incoming(&context)?.get_task(&params.task_id).await,
        }
    }

    async fn update_task(&self, params: UpdateTaskParams, context: Context) -> Result<(), ErrorData> {
        match self.companion() {
            Some(companion) if !is_ours(&params.task_id) => companion.update_task(params, context).await,
            _ => self.incoming(&context)?.update_task(&params.task_id, &params.input_responses).await,
        }
    }

    async fn cancel_task(&self, params: CancelTaskParams, context: Context) -> Result<(), ErrorData> {
        match self.companion() {
            Some(companion) if !is_ours(&params.task_id) => companion.cancel_task(params, context).await,
            _ => self.incoming(&context)?.cancel_task(&params.task_id).await,
        }
    }

    async fn list_prompts(
        &self,
        page: Option<PaginatedRequestParams>,
        context: Context,
    ) -> Result<ListPromptsResult, ErrorData> {
        self.prompts(page, context).await
    }

    async fn get_prompt(
        &self,
        params: GetPromptRequestParams,
        context: Context,
    ) -> Result<GetPromptResponse, ErrorData> {
        self.prompt(params, context).await
    }

    async fn list_resources(
        &self,
        page: Option<PaginatedRequestParams>,
        context: Context,
    ) -> Result<ListResourcesResult, ErrorData> {
        self.resources(page, context).await
    }

    async fn list_resource_templates(
        &self,
        page: Option<PaginatedRequestParams>,
        context: Context,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        self.resource_templates(page, context).await
    }

    async fn read_resource(
        &self,
        params: ReadResourceRequestParams,
        context: Context,
    ) -> Result<ReadResourceResponse, ErrorData> {
        self.resource(params, context).await
    }

    async fn subscribe(&self, params: SubscribeRequestParams, context: Context) -> Result<(), ErrorData> {
        match self.companion_with(|can| can.resources.is_some()) {
            Some(companion) => companion.subscribe(params, context).await,
            None => Err(ErrorData::method_not_found::<SubscribeRequestMethod>()),
        }
    }

    async fn unsubscribe(&self, params: UnsubscribeRequestParams, context: Context) -> Result<(), ErrorData> {
        match self.companion_with(|can| can.resources.is_some()) {
            Some(companion) => companion.unsubscribe(params, context).await,
            None => Err(ErrorData::method_not_found::<UnsubscribeRequestMethod>()),
        }
    }

    async fn complete(
        &self,
        params: CompleteRequestParams,
        context: Context,
    ) -> Result<CompleteResult, ErrorData> {
        match self.companion_with(|can| can.completions.is_some()) {
            Some(companion) => companion.complete(params, context).await,
            None => Err(ErrorData::method_not_found::<CompleteRequestMethod>()),
        }
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: Context,
    ) -> Result<CustomResult, ErrorData> {
        match self.companion() {
            Some(companion) => companion.custom(request, context).await,
            None => Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method, None)),
        }
    }

    async fn on_roots_list_changed(&self, context: NotificationContext<RoleServer>) {
        if let Some(companion) = self.companion() {
            companion.roots_changed(context).await;
        }
    }
}

/// Whether a task is an execution of the gateway, by its id.
fn is_ours(task: &str) -> bool {
    task.starts_with(ExecutionId::PREFIX)
}

/// A client's name for itself, made fit for the record: visible, bounded, never empty.
fn client_name(given: &str) -> String {
    let mut name: String = given.chars().filter(|c| !c.is_control()).collect();
    name.truncate(name.floor_char_boundary(MAX_CLIENT_BYTES));
    if name.trim().is_empty() { "mcp".into() } else { name }
}
