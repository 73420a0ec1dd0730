//! rmcp with nothing around it: an echo server over HTTP and over stdio, and a proxy that hands calls on to one of them.
//!
//! The proxy's way to an HTTP upstream is as short as it can be: each message is a POST, and its JSON answer is the answer.

use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use axum::routing::get;
use axum::serve::ListenerExt as _;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientRequest, ContentBlock, JsonRpcMessage,
    ListToolsResult, PaginatedRequestParams, ProtocolVersion, ServerCapabilities, ServerConfig,
    ServerJsonRpcMessage, Tool,
};
use rmcp::service::{
    ClientLifecycleMode, Peer, RequestContext, RoleClient, RoleServer, RxJsonRpcMessage, TxJsonRpcMessage,
    serve_client_with_lifecycle,
};
use rmcp::transport::Transport;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, ServerHandler, ServiceExt as _};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::net::unix::pipe;
use tokio::sync::mpsc;

use crate::Failure;
use crate::process::{ADDRESS, FOLDER, PART};

/// The file in which the proxy reads where its upstream is: a URL, or nothing for an echo of its own over stdio.
pub(crate) const UPSTREAM: &str = "upstream";

/// An echo tool.
struct Echo;

impl ServerHandler for Echo {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema = json!({ "type": "object", "properties": { "text": { "type": "string" } } });
        let schema = schema.as_object().cloned().unwrap_or_default();
        Ok(ListToolsResult::with_all_items(vec![Tool::new("say", "Says it.", Arc::new(schema))]))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let text = request.arguments.as_ref().and_then(|args| args.get("text")).cloned().unwrap_or_default();
        let mut result =
            CallToolResult::success(vec![ContentBlock::text(json!({ "text": text }).to_string())]);
        result.structured_content = Some(json!({ "text": text }));
        Ok(result.into())
    }
}

/// Hands every call on.
struct Proxy(Peer<RoleClient>);

impl ServerHandler for Proxy {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        // What the client said of itself is not the proxy's to say.
        let mut request = request;
        request.meta = None;
        let answered = self.0.call_tool_once(request).await;
        answered.map_err(|error| ErrorData::internal_error(error.to_string(), None))
    }
}

pub(crate) async fn echo() -> Result<(), Failure> {
    serve(|| Echo).await
}

pub(crate) async fn echo_over_stdio() -> Result<(), Failure> {
    let input = std::io::stdin().as_fd().try_clone_to_owned()?;
    let output = std::io::stdout().as_fd().try_clone_to_owned()?;
    let pipes = (pipe::Receiver::from_owned_fd(input)?, pipe::Sender::from_owned_fd(output)?);
    let service = Echo.serve(pipes).await?;
    service.waiting().await?;
    Ok(())
}

pub(crate) async fn proxy() -> Result<(), Failure> {
    let url = std::fs::read_to_string(PathBuf::from(std::env::var(FOLDER)?).join(UPSTREAM))?;
    let lifecycle = ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] };
    let client = match url.as_str() {
        "" => {
            let mut child = tokio::process::Command::new(std::env::current_exe()?)
                .env(PART, "echo over stdio")
                .stdin(std::process::Stdio::piped())
                .stdout(std::process::Stdio::piped())
                .kill_on_drop(true)
                .spawn()?;
            let pipes = child.stdout.take().zip(child.stdin.take()).ok_or("the echo has no pipes")?;
            // It ends when its input does, with this process.
            let client = serve_client_with_lifecycle((), pipes, lifecycle).await?;
            std::mem::forget(child);
            client
        }
        url => serve_client_with_lifecycle((), Posts::to(url)?, lifecycle).await?,
    };
    let peer = client.peer().clone();
    serve(move || Proxy(peer.clone())).await
}

async fn serve<H: ServerHandler>(handler: impl Fn() -> H + Send + Sync + 'static) -> Result<(), Failure> {
    let said = PathBuf::from(std::env::var(FOLDER)?).join(ADDRESS);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let config = StreamableHttpServerConfig::default().with_json_response(true);
    let service =
        StreamableHttpService::new(move || Ok(handler()), Arc::new(LocalSessionManager::default()), config);
    let router = Router::new().route("/readyz", get(async || "ready")).route_service("/mcp", service);
    std::fs::write(said, address.to_string())?;
    let listener = listener.tap_io(|stream| {
        let _ = stream.set_nodelay(true);
    });
    Ok(axum::serve(listener, router).await?)
}

/// A transport that sends every message as a POST.
struct Posts {
    http: reqwest::Client,
    url: Arc<str>,
    answers: mpsc::Sender<RxJsonRpcMessage<RoleClient>>,
    incoming: mpsc::Receiver<RxJsonRpcMessage<RoleClient>>,
}

impl Posts {
    fn to(url: &str) -> Result<Self, Failure> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let (answers, incoming) = mpsc::channel(64);
        let http = reqwest::Client::builder().no_proxy().tcp_nodelay(true).build()?;
        Ok(Self { http, url: url.into(), answers, incoming })
    }
}

impl Transport<RoleClient> for Posts {
    type Error = std::io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), std::io::Error>> + Send + 'static {
        let (http, url, answers) = (self.http.clone(), Arc::clone(&self.url), self.answers.clone());
        async move {
            let JsonRpcMessage::Request(asked) = &message else { return Ok(()) };
            let mut request = http
                .post(&*url)
                .header("accept", "application/json, text/event-stream")
                .header("mcp-protocol-version", "2026-07-28")
                .header("mcp-method", asked.request.method());
            if let ClientRequest::CallToolRequest(call) = &asked.request {
                request = request.header("mcp-name", &*call.params.name);
            }
            let answer = request.json(&message).send().await.map_err(std::io::Error::other)?;
            let answer: ServerJsonRpcMessage = answer.json().await.map_err(std::io::Error::other)?;
            answers.send(answer).await.map_err(std::io::Error::other)
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        self.incoming.recv().await
    }

    async fn close(&mut self) -> Result<(), std::io::Error> {
        Ok(())
    }
}
