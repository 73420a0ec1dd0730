//! The product as `countersign serve` wires it: durable store, scripts in children, server, log and figures; with two tools to be
//! called, and with bounds on what may wait that a bench does not run into.

use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use countersign_kernel::{Gateway, NewToken, Settings};
use countersign_sandbox::{ChildHost, ChildOptions};
use countersign_sdk::{Approved, Ctx, ExposeSecret as _, Plugin, Role, Tool, ToolError};
use countersign_server::{Links, Options, Server};
use countersign_store::SqliteStore;
use metrics_exporter_prometheus::PrometheusBuilder;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use crate::process::ADDRESS;
use crate::{Failure, probe};

/// Where the server writes the tokens that the load shows.
pub(crate) const AGENT: &str = "agent.secret";
pub(crate) const ADMIN: &str = "admin.secret";
/// Long enough that all of 10,000 questions are in memory when the last is asked.
pub(crate) const PARK_AFTER: Duration = Duration::from_secs(10);
/// As many as `countersign serve` keeps.
const WARM_CHILDREN: usize = 1;
const LAST_HANDLERS: Duration = Duration::from_secs(5);

#[derive(Deserialize, Serialize, JsonSchema)]
struct Say {
    text: String,
}

#[derive(Deserialize, JsonSchema)]
struct Pay {
    amount: u64,
}

/// A safe tool and a destructive one.
pub(crate) fn plugin() -> Plugin {
    Plugin::new("bench", "Bench", "The tools that are measured.")
        .tool(
            Tool::new("bench.say")
                .name("Say")
                .describe("Gives the text back.")
                .handler(async |_: Ctx, say: Say| Ok::<_, ToolError>(say)),
        )
        .tool(
            Tool::new("bench.pay")
                .name("Pay")
                .describe("Pays an amount.")
                .destructive(|pay: &Pay| format!("Pay {}?", pay.amount))
                .handler(async |_: Ctx, pay: Approved<Pay>| {
                    probe::handler_runs();
                    Ok::<_, ToolError>(Say { text: pay.amount.to_string() })
                }),
        )
}

/// The defaults, without bounds on what may wait.
pub(crate) fn settings() -> Settings {
    Settings {
        max_pending_per_session: usize::MAX,
        max_pending_per_requester: usize::MAX,
        max_pending_bytes_per_requester: usize::MAX,
        max_stored_bytes_per_day: u64::MAX,
        ..Settings::default()
    }
}

/// The same, parking early enough to be waited for.
pub(crate) fn settings_that_park() -> Settings {
    Settings { park_after: PARK_AFTER, ..settings() }
}

/// Serves until it is told to end.
pub(crate) async fn serve(folder: &Path, settings: Settings) -> Result<(), Failure> {
    let log = std::sync::Mutex::new(std::fs::File::create(folder.join("log"))?);
    tracing_subscriber::fmt()
        .with_writer(log)
        .with_ansi(false)
        .with_env_filter("warn,countersign_kernel=info,countersign_server=info,countersign_store=info")
        .init();
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?.to_string();
    let program = env!("CARGO_BIN_EXE_countersign");
    let host = ChildHost::new(ChildOptions {
        warm: WARM_CHILDREN,
        ..ChildOptions::new(program, ["sandbox-worker"])
    })?;
    let store = Arc::new(SqliteStore::open(folder)?);
    let gateway = Gateway::on(store).plugin(plugin()).settings(settings).scripts(host).start().await?;
    write_tokens(&gateway, folder).await?;
    let mut options = Options::at(Links::below(&format!("http://{address}")), [7; 32]);
    // One client makes all requests here, more than one client may.
    options.limits.requests_per_second = NonZeroU32::MAX;
    let prometheus = PrometheusBuilder::new().install_recorder()?;
    let server = Server::start(listener, gateway, options, Some(prometheus))?;
    probe::answer(folder)?;
    std::fs::write(folder.join(ADDRESS), address)?;
    signal(SignalKind::terminate())?.recv().await;
    server.stop(LAST_HANDLERS).await;
    Ok(())
}

/// Makes the tokens of an agent and of a person who decides, once for each folder.
async fn write_tokens(gateway: &Gateway, folder: &Path) -> Result<(), Failure> {
    for (file, role) in [(AGENT, Role::Agent), (ADMIN, Role::Admin)] {
        if !folder.join(file).exists() {
            let token = gateway.create_token(NewToken::new(file, role), None).await?;
            std::fs::write(folder.join(file), token.secret.expose_secret())?;
        }
    }
    Ok(())
}
