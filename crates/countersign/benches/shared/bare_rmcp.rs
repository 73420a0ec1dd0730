//! rmcp with nothing around it: an echo tool over HTTP, with the settings that our MCP front has.

use std::path::Path;
use std::sync::Arc;

use axum::Router;
use axum::routing::get;
use axum::serve::ListenerExt as _;
use rmcp::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::json;
use tokio::net::TcpListener;

use crate::Failure;
use crate::process::ADDRESS;

struct Echo;

impl ServerHandler for Echo {
    fn get_info(&self) -> ServerConfig {
        let mut info = ServerConfig::default();
        info.capabilities = ServerCapabilities::builder().enable_tools().build();
        info
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, rmcp::ErrorData> {
        Ok(ListToolsResult::default())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, rmcp::ErrorData> {
        let text = request.arguments.as_ref().and_then(|args| args.get("text")).cloned().unwrap_or_default();
        let mut result =
            CallToolResult::success(vec![ContentBlock::text(json!({ "text": text }).to_string())]);
        result.structured_content = Some(json!({ "text": text }));
        Ok(result.into())
    }
}

/// Serves it until the process is killed.
pub(crate) async fn serve(folder: &Path) -> Result<(), Failure> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?.to_string();
    let config = StreamableHttpServerConfig::default().with_json_response(true);
    let service = StreamableHttpService::new(|| Ok(Echo), Arc::new(LocalSessionManager::default()), config);
    let router = Router::new().route("/readyz", get(async || "ready")).route_service("/mcp", service);
    std::fs::write(folder.join(ADDRESS), address)?;
    let listener = listener.tap_io(|stream| {
        let _ = stream.set_nodelay(true);
    });
    Ok(axum::serve(listener, router).await?)
}
