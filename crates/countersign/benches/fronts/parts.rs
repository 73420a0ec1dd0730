//! The parts that processes of this program play: our server, durable or not, and rmcp with nothing around it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use axum::serve::ListenerExt as _;
use countersign_kernel::{Gateway, NewToken, Settings};
use countersign_sdk::{Approved, Ctx, Plugin, Role, Tool, ToolError};
use countersign_server::{Links, Options, Server};
use countersign_store::{SqliteOptions, SqliteStore, Synchronous};
use metrics_exporter_prometheus::PrometheusBuilder;
use rmcp::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::net::TcpListener;

use crate::Failure;
use crate::process::{ADDRESS, FOLDER};

/// Where our server writes what its clients show.
pub(crate) const AGENT: &str = "agent.secret";
pub(crate) const ADMIN: &str = "admin.secret";
/// How many questions one session of the bench may have open.
const MAX_PENDING: usize = 200_000;

/// Plays a part until the process is killed.
pub(crate) async fn play(part: &str) -> Result<(), Failure> {
    let folder = PathBuf::from(std::env::var(FOLDER)?);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?.to_string();
    match part {
        "bare" => bare(listener, &folder.join(ADDRESS), &address).await,
        "durable" => ours(listener, folder, &address, Synchronous::Full).await,
        "off" => ours(listener, folder, &address, Synchronous::Off).await,
        other => Err(format!("there is no part {other}").into()),
    }
}

#[derive(Deserialize, Serialize, JsonSchema)]
struct Say {
    text: String,
}

#[derive(Deserialize, JsonSchema)]
struct Pay {
    amount: u64,
}

fn plugin() -> Plugin {
    Plugin::new("bench", "Bench", "What is measured.")
        .tool(
            Tool::new("bench.say")
                .name("Say")
                .describe("Says it.")
                .handler(async |_: Ctx, say: Say| Ok::<_, ToolError>(say)),
        )
        .tool(
            Tool::new("bench.pay")
                .name("Pay")
                .describe("Pays.")
                .destructive(|pay: &Pay| format!("Pay {}?", pay.amount))
                .handler(async |_: Ctx, pay: Approved<Pay>| {
                    Ok::<_, ToolError>(Say { text: pay.amount.to_string() })
                }),
        )
}

async fn ours(
    listener: TcpListener,
    folder: PathBuf,
    address: &str,
    synchronous: Synchronous,
) -> Result<(), Failure> {
    let store = SqliteStore::open_with(&folder, &SqliteOptions { synchronous, ..SqliteOptions::default() })?;
    let settings = Settings {
        max_pending_per_session: MAX_PENDING,
        max_pending_per_requester: MAX_PENDING,
        max_pending_bytes_per_requester: usize::MAX,
        park_after: Duration::from_millis(200),
        ..Settings::default()
    };
    let gateway = Gateway::on(Arc::new(store)).plugin(plugin()).settings(settings).start().await?;
    for (file, role) in [(AGENT, Role::Agent), (ADMIN, Role::Admin)] {
        if !folder.join(file).exists() {
            use countersign_sdk::ExposeSecret as _;
            let minted = gateway.create_token(NewToken::new(file, role), None).await?;
            std::fs::write(folder.join(file), minted.secret.expose_secret())?;
        }
    }
    let options = Options::at(Links::below(&format!("http://{address}")), [7; 32]);
    let prometheus = PrometheusBuilder::new().install_recorder()?;
    let _server = Server::start(listener, gateway, options, Some(prometheus))?;
    std::fs::write(folder.join(ADDRESS), address)?;
    std::future::pending().await
}

/// An echo tool on rmcp, with the same settings.
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

async fn bare(listener: TcpListener, said: &std::path::Path, address: &str) -> Result<(), Failure> {
    let config = StreamableHttpServerConfig::default().with_json_response(true);
    let service = StreamableHttpService::new(|| Ok(Echo), Arc::new(LocalSessionManager::default()), config);
    let router = Router::new().route("/readyz", get(async || "ready")).route_service("/mcp", service);
    std::fs::write(said, address)?;
    let listener = listener.tap_io(|stream| {
        let _ = stream.set_nodelay(true);
    });
    Ok(axum::serve(listener, router).await?)
}
