//! Load over loopback: the same request over many connections.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::task::JoinSet;

use crate::Failure;
use crate::connection::{Connection, Prepared};

/// How long each throughput is measured, and how often each side takes its turn.
pub(crate) const SPELL: Duration = Duration::from_secs(2);
pub(crate) const TURNS: usize = 3;
const CONNECTIONS: usize = 32;
/// What the echo tools are given, and must give back.
const TEXT: &str = "hello";

/// The median of some rates; zero where there are none.
pub(crate) fn middle(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied().unwrap_or_default()
}

/// A call of an echo tool, as a client of the 2026-07-28 era makes it.
pub(crate) fn mcp_call(token: &str, tool: &str) -> Prepared {
    let headers = [
        ("accept", "application/json, text/event-stream"),
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", tool),
    ];
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({ "name": tool, "arguments": { "text": TEXT }, "_meta": meta });
    Prepared::post(
        "/mcp",
        token,
        &headers,
        &json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }),
    )
}

/// A call of an echo tool over REST.
pub(crate) fn rest_call(token: &str, tool: &str) -> Prepared {
    Prepared::post("/api/executions", token, &[], &json!({ "tool": tool, "args": { "text": TEXT } }))
}

/// Echo calls a second over 32 connections. An answer that does not repeat the text is an error: refusals of MCP are successes
/// of HTTP.
pub(crate) async fn rate(address: SocketAddr, make: impl Fn() -> Prepared) -> Result<f64, Failure> {
    let mut load = JoinSet::new();
    let until = Instant::now() + SPELL;
    for _ in 0..CONNECTIONS {
        let request = make();
        load.spawn(async move {
            let mut connection = Connection::open(address).await?;
            let mut count = 0_u32;
            while Instant::now() < until {
                let answer = connection.ask(&request).await?;
                if !answer.windows(TEXT.len()).any(|window| window == TEXT.as_bytes()) {
                    return Err(String::from_utf8_lossy(&answer).into_owned().into());
                }
                count += 1;
            }
            Ok::<_, Failure>(count)
        });
    }
    let mut total = 0.0;
    while let Some(count) = load.join_next().await {
        total += f64::from(count??);
    }
    Ok(total / SPELL.as_secs_f64())
}
