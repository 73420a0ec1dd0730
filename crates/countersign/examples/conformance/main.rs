//! A server with the fixtures of the official MCP conformance suite (`@modelcontextprotocol/conformance`), and with them an
//! example of a program that embeds the gateway, a plugin and an MCP companion.
//!
//! ```text
//! COUNTERSIGN_DATA_DIR=/tmp/fixtures cargo run --example conformance -- serve --listen 127.0.0.1:7420
//! ```
//!
//! Like `countersign serve`, it writes `agent.token` and `server.json` into its data folder. What can be a call through the
//! gateway is one (`plugin.rs`); what no gateway has, such as prompts, is the companion's (`companion.rs`).

mod companion;
mod content;
mod plugin;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use countersign_kernel::ports::Store;
use countersign_kernel::{Gateway, NewToken};
use countersign_sdk::{ExposeSecret as _, Role};
use countersign_server::mcp::Announcer;
use countersign_server::{Links, Options, Server};
use countersign_store::SqliteStore;
use serde_json::json;
use tokio::net::TcpListener;

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let folder = std::env::var_os("COUNTERSIGN_DATA_DIR").map(PathBuf::from);
    let ([serve, listen, address], Some(folder)) = (words.as_slice(), folder) else {
        eprintln!("usage: COUNTERSIGN_DATA_DIR=FOLDER conformance serve --listen ADDRESS");
        return ExitCode::from(2);
    };
    if (serve.as_str(), listen.as_str()) != ("serve", "--listen") {
        eprintln!("it only serves: conformance serve --listen ADDRESS");
        return ExitCode::from(2);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    match runtime.map_err(Failure::from).and_then(|runtime| runtime.block_on(serve_in(&folder, address))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn serve_in(folder: &Path, address: &str) -> Result<(), Failure> {
    let announcer = Announcer::default();
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(folder)?);
    let gateway = Gateway::on(store).plugin(plugin::plugin(&announcer)).start().await?;
    let token = gateway.create_token(NewToken::new("suite", Role::Agent).attended(), None).await?;
    let listener = TcpListener::bind(address).await?;
    let url = format!("http://{}", listener.local_addr()?);
    let mut options = Options::at(Links::below(&url), [7; 32]);
    options.mcp.companion = Some(companion::companion());
    options.mcp.announcer = announcer;
    let _server = Server::start(listener, gateway, options, None)?;
    std::fs::write(folder.join("agent.token"), token.secret.expose_secret())?;
    std::fs::write(folder.join("server.json"), json!({ "url": url, "pid": std::process::id() }).to_string())?;
    println!("{url}");
    std::future::pending().await
}
