//! What is measured.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::Failure;
use crate::connection::{Connection, Prepared};
use crate::load::{TURNS, mcp_call, middle, rate, row};
use crate::parts::{ADMIN, AGENT};
use crate::process::Server;

const CYCLISTS: usize = 64;
const CYCLES_EACH: usize = 100;

pub(crate) async fn all() -> Result<(), Failure> {
    throughput().await?;
    decision().await?;
    cycles().await?;
    pending().await?;
    starts().await?;
    Ok(())
}

fn median(mut samples: Vec<Duration>) -> Duration {
    samples.sort_unstable();
    samples.get(samples.len() / 2).copied().unwrap_or_default()
}

fn secret(folder: &Path, name: &str) -> Result<String, Failure> {
    Ok(std::fs::read_to_string(folder.join(name))?)
}

fn rest_call(token: &str) -> Prepared {
    Prepared::post(
        "/api/executions",
        token,
        &[],
        &json!({ "tool": "bench.say", "args": { "text": "hello" } }),
    )
}

async fn throughput() -> Result<(), Failure> {
    let (ours, theirs) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let (server, bare) =
        (Server::start("durable", ours.path()).await?, Server::start("bare", theirs.path()).await?);
    let agent = secret(ours.path(), AGENT)?;
    let (mut of_bare, mut of_mcp, mut of_rest) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..TURNS {
        of_bare.push(rate(bare.address, || mcp_call("none", "bench__say")).await?);
        of_mcp.push(rate(server.address, || mcp_call(&agent, "bench__say")).await?);
        of_rest.push(rate(server.address, || rest_call(&agent)).await?);
    }
    let (bare, mcp, rest) = (middle(of_bare), middle(of_mcp), middle(of_rest));
    row("bare rmcp, echo, 32 connections", &format!("{bare:.0}/s"), "");
    row(
        "MCP tools/call, echo, 32 connections",
        &format!("{mcp:.0}/s = {:.2}x", mcp / bare),
        "≥ 0.85x of bare rmcp",
    );
    row("REST call, echo, 32 connections", &format!("{rest:.0}/s = {:.2}x", rest / mcp), "≥ 0.9x of MCP's");
    row("resident memory after that", &format!("{} kB", server.resident_kb()?), "");
    Ok(())
}

fn pay(agent: &str, wait_ms: Option<u64>) -> Prepared {
    let mut body = json!({ "tool": "bench.pay", "args": { "amount": 5 } });
    if let Some(ms) = wait_ms {
        body["waitMs"] = json!(ms);
    }
    Prepared::post("/api/executions", agent, &[], &body)
}

fn approve(admin: &str, elicitation: &str) -> Prepared {
    let body = json!({ "approved": true, "remember": "call" });
    Prepared::post(&format!("/api/elicitation/{elicitation}/resolve"), admin, &[], &body)
}

fn text(value: &Value) -> Result<String, Failure> {
    Ok(value.as_str().ok_or_else(|| format!("{value} is no text"))?.to_owned())
}

/// From sending a decision to the suspended call's answer, beside the decision's own answer, which is one commit.
async fn decision() -> Result<(), Failure> {
    let folder = tempfile::tempdir()?;
    let server = Server::start("durable", folder.path()).await?;
    let (agent, admin) = (secret(folder.path(), AGENT)?, secret(folder.path(), ADMIN)?);
    let mut decider = Connection::open(server.address).await?;
    let (mut answered, mut decided) = (Vec::new(), Vec::new());
    for _ in 0..100 {
        let (request, address) = (pay(&agent, Some(60_000)), server.address);
        let suspended = tokio::spawn(async move {
            let mut connection = Connection::open(address).await?;
            connection.ask(&request).await?;
            Ok::<_, Failure>(Instant::now())
        });
        let waiting = Prepared::get("/api/elicitation?status=pending", &admin);
        let id = loop {
            let list = decider.json(&waiting).await?;
            if let Some(first) = list["items"].get(0) {
                break text(&first["elicitationId"])?;
            }
        };
        let begun = Instant::now();
        decider.ask(&approve(&admin, &id)).await?;
        decided.push(begun.elapsed());
        answered.push(suspended.await??.duration_since(begun));
    }
    let (decided, answered) = (median(decided), median(answered));
    row(
        "decision over REST → suspended call's answer, p50 (decision answered)",
        &format!("{answered:.1?} ({decided:.1?})"),
        "one commit + ≤ 2 ms",
    );
    Ok(())
}

struct Rate {
    per_second: f64,
    cpu: Duration,
    syncs: f64,
}

async fn cycles() -> Result<(), Failure> {
    let (full, off) = (cycle_rate("durable").await?, cycle_rate("off").await?);
    row("durable cycles over REST, 64 at once", &format!("{:.0}/s", full.per_second), "");
    row("  CPU of the server a cycle", &format!("{:.0?}", full.cpu), "≤ 150 µs");
    row("  fsyncs a cycle", &format!("{:.2}", full.syncs), "≤ 0.2");
    let beside = full.per_second / off.per_second * 100.0;
    row("  beside synchronous=OFF", &format!("{:.0}/s = {beside:.0} %", off.per_second), "≥ 60 %");
    Ok(())
}

async fn cycle_rate(part: &str) -> Result<Rate, Failure> {
    let folder = tempfile::tempdir()?;
    let server = Server::start(part, folder.path()).await?;
    let (agent, admin) = (secret(folder.path(), AGENT)?, secret(folder.path(), ADMIN)?);
    let (cpu, syncs, begun) = (server.cpu()?, syncs(&server).await?, Instant::now());
    let mut cyclists = JoinSet::new();
    for _ in 0..CYCLISTS {
        let (agent, admin, address) = (agent.clone(), admin.clone(), server.address);
        cyclists.spawn(async move {
            let mut connection = Connection::open(address).await?;
            for _ in 0..CYCLES_EACH {
                let paused = connection.json(&pay(&agent, None)).await?;
                connection.ask(&approve(&admin, &text(&paused["paused"]["elicitationId"])?)).await?;
                let id = text(&paused["executionId"])?;
                let end = connection
                    .json(&Prepared::get(&format!("/api/executions/{id}?waitMs=60000"), &agent))
                    .await?;
                if end["status"] != "succeeded" {
                    return Err(Failure::from(format!("a cycle ended with {end}")));
                }
            }
            Ok(())
        });
    }
    while let Some(done) = cyclists.join_next().await {
        done??;
    }
    let took = begun.elapsed();
    #[expect(clippy::cast_precision_loss, reason = "a few thousand")]
    let count = (CYCLISTS * CYCLES_EACH) as f64;
    Ok(Rate {
        per_second: count / took.as_secs_f64(),
        cpu: (server.cpu()? - cpu).div_f64(count),
        syncs: (self::syncs(&server).await? - syncs) / count,
    })
}

/// How often the store waited for the medium, as the server counts it.
async fn syncs(server: &Server) -> Result<f64, Failure> {
    let mut connection = Connection::open(server.address).await?;
    let figures = String::from_utf8(connection.ask(&Prepared::get("/metrics", "none")).await?)?;
    let line = figures.lines().find_map(|line| line.strip_prefix("countersign_store_commits_total "));
    Ok(line.unwrap_or("0").trim().parse()?)
}

async fn fill(server: &Server, agent: &str, count: usize) -> Result<(), Failure> {
    let mut load = JoinSet::new();
    for _ in 0..CYCLISTS {
        let (request, address) = (pay(agent, None), server.address);
        load.spawn(async move {
            let mut connection = Connection::open(address).await?;
            for _ in 0..count / CYCLISTS + 1 {
                connection.ask(&request).await?;
            }
            Ok::<_, Failure>(())
        });
    }
    while let Some(done) = load.join_next().await {
        done??;
    }
    Ok(())
}

async fn pending() -> Result<(), Failure> {
    let folder = tempfile::tempdir()?;
    let server = Server::start("durable", folder.path()).await?;
    let (agent, admin) = (secret(folder.path(), AGENT)?, secret(folder.path(), ADMIN)?);
    row(
        "`serve`'s server from start to ready, empty store",
        &format!("{:.0?}", server.ready_after),
        "≤ 100 ms",
    );
    row("resident memory idle", &format!("{} kB", server.resident_kb()?), "≤ 30 MB");
    // What a busy server keeps for the next burst is not what questions cost: it is had before they are asked.
    fill(&server, &agent, 10_000).await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let with_10_000 = server.resident_kb()?;
    server.kill()?;
    let server = Server::start("durable", folder.path()).await?;
    let restarted = server.resident_kb()?;
    row(
        "memory with 10,000 pending: after asking them, and after a restart",
        &format!("{with_10_000} / {restarted} kB"),
        "≤ 5 MB over idle",
    );
    let begun = Instant::now();
    let mut connection = Connection::open(server.address).await?;
    let list = connection.json(&Prepared::get("/api/elicitation?status=pending&limit=1", &admin)).await?;
    let (id, execution) =
        (text(&list["items"][0]["elicitationId"])?, text(&list["items"][0]["executionId"])?);
    connection.ask(&approve(&admin, &id)).await?;
    connection.ask(&Prepared::get(&format!("/api/executions/{execution}?waitMs=60000"), &agent)).await?;
    let resumed = begun.elapsed() + server.ready_after;
    row("first resume after kill -9 with them pending, start included", &format!("{resumed:.0?}"), "≤ 0.3 s");
    Ok(())
}

async fn starts() -> Result<(), Failure> {
    let folder = tempfile::tempdir()?;
    let server = Server::start("durable", folder.path()).await?;
    let agent = secret(folder.path(), AGENT)?;
    fill(&server, &agent, 100_000).await?;
    server.kill()?;
    let server = Server::start("durable", folder.path()).await?;
    row(
        "`serve`'s server from start to ready, 100,000 pending",
        &format!("{:.0?}", server.ready_after),
        "≤ 1 s",
    );
    row("resident memory then", &format!("{} kB", server.resident_kb()?), "");
    Ok(())
}
