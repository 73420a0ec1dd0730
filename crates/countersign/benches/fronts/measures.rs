//! What is measured.

use std::time::Instant;

use serde_json::Value;

use crate::Failure;
use crate::connection::{Connection, Prepared};
use crate::load::{TURNS, mcp_call, middle, rate, rest_call};
use crate::side::Side;
use crate::table::row;

pub(crate) async fn all() -> Result<(), Failure> {
    throughput().await?;
    first_answer_after_a_kill().await?;
    start_with_many_pending().await
}

async fn throughput() -> Result<(), Failure> {
    let side = Side::start("product").await?;
    row("server from start to ready, empty store", &format!("{:.0?}", side.server.ready_after), "≤ 100 ms");
    row("resident memory idle", &format!("{} kB", side.server.resident_kb()?), "≤ 30 MB");
    let (mut of_mcp, mut of_rest) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        of_mcp.push(rate(side.address(), || mcp_call(&side.tokens.agent, "bench__say")).await?);
        of_rest.push(rate(side.address(), || rest_call(&side.tokens.agent, "bench.say")).await?);
    }
    let (mcp, rest) = (middle(of_mcp), middle(of_rest));
    row("MCP tools/call, echo, 32 connections", &format!("{mcp:.0}/s"), "");
    row("REST call, echo, 32 connections", &format!("{rest:.0}/s = {:.2}x", rest / mcp), "≥ 0.9x of MCP's");
    row("resident memory after that", &format!("{} kB", side.server.resident_kb()?), "");
    Ok(())
}

fn text(value: &Value) -> Result<String, Failure> {
    Ok(value.as_str().ok_or_else(|| format!("{value} is no text"))?.to_owned())
}

async fn first_answer_after_a_kill() -> Result<(), Failure> {
    let side = Side::start("product").await?;
    side.ask_many(10_000).await?;
    let side = side.kill_and_restart("product").await?;
    row(
        "resident memory after a restart with 10,000 pending",
        &format!("{} kB", side.server.resident_kb()?),
        "",
    );
    let begun = Instant::now();
    let mut connection = Connection::open(side.address()).await?;
    let pending = Prepared::get("/api/elicitation?status=pending&limit=1", &side.tokens.admin);
    let first = connection.json(&pending).await?["items"][0].take();
    connection.ask(&side.tokens.approve(&text(&first["elicitationId"])?)).await?;
    let path = format!("/api/executions/{}?waitMs=60000", text(&first["executionId"])?);
    connection.ask(&Prepared::get(&path, &side.tokens.agent)).await?;
    let resumed = begun.elapsed() + side.server.ready_after;
    row("first resume after kill -9 with them pending, start included", &format!("{resumed:.0?}"), "≤ 0.3 s");
    Ok(())
}

async fn start_with_many_pending() -> Result<(), Failure> {
    let side = Side::start("product").await?;
    side.ask_many(100_000).await?;
    let side = side.kill_and_restart("product").await?;
    row("server from start to ready, 100,000 pending", &format!("{:.0?}", side.server.ready_after), "≤ 1 s");
    row("resident memory then", &format!("{} kB", side.server.resident_kb()?), "");
    Ok(())
}
