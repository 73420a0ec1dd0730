//! What the foundation costs, as a table with medians. Run by `cargo xtask bench`; nothing here is asserted.
//!
//! Each figure stands beside what it should reach. What a call costs beside a floor is in the bench `heart`.
#![expect(clippy::disallowed_methods, reason = "a bench measures with the real clock")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use countersign_kernel::ports::Store;
use countersign_kernel::{Gateway, Settings};
use countersign_sdk::{Ctx, Effects, ForeignInput, Tool};
use countersign_server::{Limits, Links, mcp};
use countersign_store::SqliteStore;
use countersign_testkit::lab;
use countersign_testkit::ledger::Ledger;
use countersign_testkit::memory_store::MemoryStore;
use countersign_testkit::world::{InTests, agent, ann, session, yes};
use serde_json::json;
use tokio_util::sync::CancellationToken;

#[path = "shared/table.rs"]
mod table;

use table::{median, row};

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let workers = std::env::var("COUNTERSIGN_BENCH_WORKERS").ok().and_then(|n| n.parse().ok()).unwrap_or(2);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(workers).enable_all().build()?;
    table::heading();
    runtime.block_on(async { tokio::spawn(all()).await? })
}

async fn all() -> Result<(), Failure> {
    gates().await?;
    large_catalog().await?;
    decision_to_handler().await?;
    disk_floor()?;
    parked_memory().await
}

async fn gateway_on(store: Arc<dyn Store>, settings: Settings) -> Result<Gateway, Failure> {
    let gateway =
        Gateway::on(store).plugin(lab::plugin(&Ledger::default())).settings(settings).start().await?;
    gateway.open_session(&agent(), "bench", Some(session())).await?;
    Ok(gateway)
}

async fn gates() -> Result<(), Failure> {
    const BATCH: u32 = 10_000;
    let gateway = gateway_on(Arc::new(MemoryStore::default()), Settings::default()).await?;
    let engine = gateway.engine(session(), agent(), ann());
    engine.add_session_approval("lab.destroy").await?;
    for (what, path, reach) in [
        ("gate on a safe tool", "lab.read", "≤ 100 ns"),
        ("gate on a session-approved tool", "lab.destroy", "≤ 500 ns"),
    ] {
        let tool = gateway.catalog().get(path).cloned().ok_or("no such tool")?;
        let args = json!({ "what": "x" });
        let mut samples = Vec::new();
        for _ in 0..100 {
            let begun = Instant::now();
            for _ in 0..BATCH {
                std::hint::black_box(engine.gate(&tool, std::hint::black_box(&args)).await?);
            }
            samples.push(begun.elapsed() / BATCH);
        }
        row(what, &format!("{:?}", median(samples)), reach);
    }
    Ok(())
}

/// Tools of a source, worded like those of a large API.
fn many_tools(count: usize) -> Result<Vec<Tool>, Failure> {
    const WORDS: [&str; 8] = ["issue", "comment", "release", "branch", "secret", "runner", "label", "review"];
    let properties: serde_json::Map<String, serde_json::Value> = (0..12)
        .map(|n| (format!("field_{n}"), json!({ "type": "string", "description": "A field." })))
        .collect();
    let schema = json!({ "type": "object", "properties": properties });
    let tool = |n: usize| {
        let (one, other) = (WORDS[n % 8], WORDS[n / 8 % 8]);
        let tool =
            Tool::foreign(format!("api.{one}s.{other}_{n}"), schema.clone(), None, Effects::default())?;
        let description = format!("Gives every {one} of a {other} that the caller may see. ").repeat(4);
        Ok(tool
            .name(format!("List {one}s of a {other}"))
            .describe(description)
            .handler(async |_: Ctx, input: ForeignInput| Ok(input.into_inner())))
    };
    (0..count).map(tool).collect()
}

async fn large_catalog() -> Result<(), Failure> {
    let gateway = gateway_on(Arc::new(MemoryStore::default()), Settings::default()).await?;
    let tools = many_tools(2_000)?;
    let begun = Instant::now();
    gateway.replace_source("api", tools).await?;
    row("a source of 2,000 tools swapped in", &format!("{:?}", begun.elapsed()), "");
    let catalog = gateway.catalog();
    for (what, query) in [
        ("search over 2,000 tools, one word", "release"),
        ("search over 2,000 tools, three words", "list secret runner"),
        ("search over 2,000 tools, nothing found", "payment"),
    ] {
        let mut samples = Vec::new();
        for _ in 0..200 {
            let begun = Instant::now();
            std::hint::black_box(catalog.search(std::hint::black_box(query), 10));
            samples.push(begun.elapsed());
        }
        row(what, &format!("{:?}", median(samples)), "≤ 2 ms");
    }
    let mut samples = Vec::new();
    for _ in 0..50 {
        let begun = Instant::now();
        std::hint::black_box(catalog.near(std::hint::black_box("api.releases.brunch_7")));
        samples.push(begun.elapsed());
    }
    row("near misses over 2,000 tools", &format!("{:?}", median(samples)), "");
    gateway.replace_source("api", many_tools(1_000)?).await?;
    tool_list(gateway).await
}

/// A part of `tools/list`, over loopback, as a client of the 2026-07-28 era asks for it.
async fn tool_list(gateway: Gateway) -> Result<(), Failure> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let base = format!("http://{}", listener.local_addr()?);
    let (mut options, stop) = (mcp::Options::sealed_with([7; 32]), CancellationToken::new());
    // On the default surface so many tools of a source are found and not listed.
    options.surface = mcp::Surface::Tools;
    let front = mcp::service(gateway, Links::below(&base), options, &Limits::default(), stop.clone())?;
    let serving = tokio::spawn(axum::serve(listener, front.layer(axum::Extension(agent()))).into_future());
    let version = "2026-07-28";
    let asked = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": { "_meta": {
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": { "name": "bench", "version": "0" },
    } } });
    let client = reqwest::Client::new();
    let (mut samples, mut list) = (Vec::new(), Vec::new());
    for _ in 0..50 {
        let request = client.post(format!("{base}/mcp")).json(&asked);
        let request = request.header("accept", "application/json, text/event-stream");
        let request = request.header("mcp-protocol-version", version).header("mcp-method", "tools/list");
        let begun = Instant::now();
        list = request.send().await?.error_for_status()?.bytes().await?.to_vec();
        samples.push(begun.elapsed());
    }
    stop.cancel();
    serving.abort();
    let answer: serde_json::Value = serde_json::from_slice(&list)?;
    let tools = answer["result"]["tools"].as_array().map_or(0, Vec::len);
    let what = format!("tools/list, a part of {tools} tools, {} kB", list.len() / 1_000);
    row(&what, &format!("{:?}", median(samples)), "≤ 20 ms");
    Ok(())
}

async fn decision_to_handler() -> Result<(), Failure> {
    let gateway = gateway_on(Arc::new(MemoryStore::default()), Settings::default()).await?;
    for (what, path, args) in [
        ("decision made → gated handler has run, no commit", "lab.destroy_each", json!({ "what": "x" })),
        ("decision made → asking handler has run on, no commit", "lab.confirm", json!({})),
    ] {
        let mut samples = Vec::new();
        for _ in 0..2_000 {
            let waiting = gateway.ask(path, args.clone()).await?;
            tokio::task::yield_now().await;
            let begun = Instant::now();
            gateway.ann_says(&waiting, yes()).await?;
            gateway.end_of(&waiting).await;
            samples.push(begun.elapsed());
        }
        row(what, &format!("{:?}", median(samples)), "p50 ≤ 20 µs");
    }
    Ok(())
}

/// `fdatasync` of 4 KiB: what no durable commit can be faster than.
fn disk_floor() -> Result<(), Failure> {
    use std::io::Write as _;
    let folder = tempfile::tempdir()?;
    let mut file = std::fs::File::create(folder.path().join("floor"))?;
    let mut samples = Vec::new();
    for _ in 0..200 {
        let begun = Instant::now();
        file.write_all(&[0; 4096])?;
        file.sync_data()?;
        samples.push(begun.elapsed());
    }
    row("floor: fdatasync of 4 KiB", &format!("{:?}", median(samples)), "");
    Ok(())
}

async fn parked_memory() -> Result<(), Failure> {
    const PARKED: usize = 20_000;
    let folder = tempfile::tempdir()?;
    let settings = Settings {
        park_after: Duration::from_millis(50),
        max_pending_per_session: usize::MAX,
        max_pending_per_requester: usize::MAX,
        max_pending_bytes_per_requester: usize::MAX,
        ..Settings::default()
    };
    let gateway = gateway_on(Arc::new(SqliteStore::open(folder.path())?), settings).await?;
    park(&gateway, 2_000).await?;
    let before = resident_bytes()?;
    park(&gateway, PARKED).await?;
    let grown = resident_bytes()?.saturating_sub(before);
    row("executions in memory after parking 22,000", &gateway.live().to_string(), "0");
    row("resident memory per parked execution", &format!("{} B", grown / PARKED), "≤ 200 B");
    Ok(())
}

async fn park(gateway: &Gateway, count: usize) -> Result<(), Failure> {
    for _ in 0..count / 100 {
        let calls = (0..100).map(|n| gateway.ask("lab.destroy_each", json!({ "what": n.to_string() })));
        for result in futures_util::future::join_all(calls).await {
            result?;
        }
    }
    while gateway.live() > 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

fn resident_bytes() -> Result<usize, Failure> {
    let statm = std::fs::read_to_string("/proc/self/statm")?;
    Ok(statm.split_whitespace().nth(1).ok_or("unreadable /proc/self/statm")?.parse::<usize>()? * 4096)
}
