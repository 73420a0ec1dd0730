//! What sources cost, as a table: the hop through the gateway to an upstream MCP server, and a large OpenAPI document. Run by
//! `cargo xtask bench`; nothing here is asserted.
//!
//! The upstream, the gateway and the bare proxy beside it run in processes of their own: this program, started again with a
//! part to play. The load comes from here, over loopback, in turns.
#![expect(clippy::disallowed_methods, reason = "a bench measures with the real clock and starts processes")]

#[path = "../shared/connection.rs"]
mod connection;
mod document;
mod gateway;
mod hop;
#[path = "../shared/load.rs"]
#[expect(dead_code, reason = "other benches use the rest")]
mod load;
#[path = "../../../countersign-sources/tests/documents/npm.rs"]
#[expect(
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "it belongs to the tests of documents: whatever fails there ends the program"
)]
mod npm;
#[path = "../shared/process.rs"]
#[expect(dead_code, reason = "other benches use the rest")]
mod process;
mod rmcp_parts;
#[path = "../shared/table.rs"]
#[expect(dead_code, reason = "other benches use the rest")]
mod table;

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    match std::env::var(process::PART) {
        Ok(part) => runtime.block_on(play(&part)),
        Err(_) => {
            table::heading();
            runtime.block_on(async { tokio::spawn(hop::measure()).await? })?;
            document::measure()
        }
    }
}

/// Plays a part until the process is killed.
async fn play(part: &str) -> Result<(), Failure> {
    match part {
        "echo" => rmcp_parts::echo().await,
        "echo over stdio" => rmcp_parts::echo_over_stdio().await,
        "proxy" => rmcp_parts::proxy().await,
        "gateway" => gateway::serve().await,
        "document" => document::load().await,
        other => Err(format!("there is no part {other}").into()),
    }
}
