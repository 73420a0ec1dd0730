//! What scripts cost as executions, gateway and store included, as a table. Run by `cargo xtask bench`; nothing is asserted.
#![expect(clippy::disallowed_methods, reason = "a bench measures with the real clock")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use countersign_kernel::ports::{Program, ScriptHost, Store, Stripped};
use countersign_kernel::{Gateway, Patience, RunRequest, Settings};
use countersign_sandbox::{ChildHost, ChildOptions, InProcessHost, Limits};
use countersign_store::SqliteStore;
use countersign_testkit::lab;
use countersign_testkit::ledger::Ledger;
use countersign_testkit::memory_store::MemoryStore;
use countersign_testkit::world::{InTests as _, agent, script, session, yes};

#[path = "shared/table.rs"]
mod table;

use table::row;

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    table::heading();
    runtime.block_on(async { tokio::spawn(all()).await? })
}

async fn all() -> Result<(), Failure> {
    fresh_in_process().await?;
    stripping().await?;
    whole_scripts().await?;
    replay().await?;
    parked().await
}

fn median(samples: Vec<Duration>) -> String {
    format!("{:.1?}", table::median(samples))
}

fn children() -> Result<ChildHost, Failure> {
    Ok(ChildHost::new(ChildOptions::new(env!("CARGO_BIN_EXE_countersign"), ["sandbox-worker"]))?)
}

async fn gateway(store: Arc<dyn Store>, park_after: Duration) -> Result<Gateway, Failure> {
    let settings = Settings {
        park_after,
        max_pending_per_session: usize::MAX,
        max_pending_per_requester: usize::MAX,
        max_pending_bytes_per_requester: usize::MAX,
        ..Settings::default()
    };
    let plugin = lab::plugin(&Ledger::default());
    let gateway = Gateway::on(store).plugin(plugin).settings(settings).scripts(children()?).start().await?;
    gateway.open_session(&agent(), "bench", Some(session())).await?;
    Ok(gateway)
}

async fn fresh_in_process() -> Result<(), Failure> {
    let host = InProcessHost::new(Limits::default());
    let program = Program {
        stripped: Stripped { code: "return 1 + 1".into(), mappings: String::new() },
        seed: [1; 32],
        now: countersign_core::time::Timestamp::from_millis(1_700_000_000_000),
    };
    let mut samples = Vec::new();
    for _ in 0..300 {
        let begun = Instant::now();
        host.open().await?.start(program.clone()).await?;
        samples.push(begun.elapsed());
    }
    row("fresh VM and `return 1 + 1`, in process", &median(samples), "≤ 200 µs");
    Ok(())
}

async fn stripping() -> Result<(), Failure> {
    let one = "interface Note { id: number; title: string }\nconst a = async (n: Note): Promise<string> => n.title as string;\n";
    let source = one.repeat(5_000 / one.len());
    let host = InProcessHost::new(Limits::default());
    let mut vm = host.open().await?;
    let mut samples = Vec::new();
    for _ in 0..300 {
        let source = source.replace("const a", "let a").replacen("let a", "var a", 1).replace("let a", "a");
        let begun = Instant::now();
        // Whether it is a good script does not matter: it is parsed, stripped and written.
        let _ = vm.strip(&source).await;
        samples.push(begun.elapsed());
    }
    row("strip types from a 5 kB script, thread hop included", &median(samples), "≤ 0.2 ms");
    Ok(())
}

async fn whole_scripts() -> Result<(), Failure> {
    let gateway = gateway(Arc::new(MemoryStore::default()), Duration::from_secs(30)).await?;
    for (what, source, reach) in [
        ("`return 1 + 1`, through gateway and warm pool", "return 1 + 1", "≤ 1 ms"),
        (
            "100 safe calls one after the other, through gateway and pool",
            "let n = 0; for (let i = 0; i < 100; i++) n += (await tools.lab.read({ what: 'x' })).what.length; return n",
            "≤ 4 ms",
        ),
        (
            "100 safe calls side by side, through gateway and pool",
            "return (await Promise.all(Array.from({ length: 100 }, () => tools.lab.read({ what: 'x' })))).length",
            "",
        ),
    ] {
        let mut samples = Vec::new();
        for _ in 0..100 {
            tokio::time::sleep(Duration::from_millis(5)).await;
            let begun = Instant::now();
            let result = gateway.runs(source).await;
            samples.push(begun.elapsed());
            if !result.success() {
                return Err(format!("{result:?}").into());
            }
        }
        row(what, &median(samples), reach);
    }
    Ok(())
}

/// From the decision that ends a pause to the end of the script, whose journal holds many calls.
async fn replay() -> Result<(), Failure> {
    for calls in [1_000, 4_000] {
        let gateway = gateway(Arc::new(MemoryStore::default()), Duration::from_millis(1)).await?;
        let source = format!(
            "for (let i = 0; i < {calls}; i++) await tools.lab.read({{ what: 'x' }});\n\
             await tools.lab.destroy_each({{ what: 'x' }}); return 1"
        );
        let mut samples = Vec::new();
        for _ in 0..10 {
            let paused = gateway.runs(&source).await;
            while gateway.live() > 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            let begun = Instant::now();
            gateway.ann_says(&paused, yes()).await?;
            let end = gateway.end_of(&paused).await;
            samples.push(begun.elapsed());
            if !end.success() {
                return Err(format!("{:?}", end.error).into());
            }
        }
        let what = format!("decision to end, replaying {calls} calls, journal read included");
        row(&what, &median(samples), if calls == 1_000 { "≤ 12 ms" } else { "linear" });
    }
    Ok(())
}

async fn parked() -> Result<(), Failure> {
    const PARKED: usize = 10_000;
    let folder = tempfile::tempdir()?;
    let gateway = gateway(Arc::new(SqliteStore::open(folder.path())?), Duration::from_millis(10)).await?;
    park(&gateway, 500).await?;
    let (before, begun) = (resident_bytes()?, Instant::now());
    park(&gateway, PARKED).await?;
    let took = begun.elapsed();
    // The pool's own children wait for the next script; those of scripts are gone.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let grown = resident_bytes()?.saturating_sub(before);
    row("scripts in memory after parking 10,000", &gateway.live().to_string(), "0");
    row("children left beside the pool's two", &child_processes()?.saturating_sub(2).to_string(), "0");
    row("resident memory of 10,000 parked scripts", &format!("{:.1} MB", grown as f64 / 1e6), "≤ 20 MB");
    row("running 10,000 scripts into their pause", &format!("{took:.1?}"), "");
    Ok(())
}

async fn park(gateway: &Gateway, count: usize) -> Result<(), Failure> {
    for _ in 0..count / 50 {
        let runs = (0..50).map(|_| {
            let request =
                script("const a = await tools.lab.read({ what: 'x' }); await tools.lab.destroy_each(a);");
            gateway.run(RunRequest { patience: Patience::UntilPaused, ..request })
        });
        for result in futures_util::future::join_all(runs).await {
            result?;
        }
    }
    while gateway.live() > 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

fn resident_bytes() -> Result<usize, Failure> {
    let pages = std::fs::read_to_string("/proc/self/statm")?;
    let resident = pages.split_whitespace().nth(1).ok_or("no such field")?.parse::<usize>()?;
    Ok(resident * 4096)
}

/// Children of this process that are alive.
fn child_processes() -> Result<usize, Failure> {
    let mut children = 0;
    for task in std::fs::read_dir("/proc/self/task")? {
        let text = std::fs::read_to_string(task?.path().join("children")).unwrap_or_default();
        children += text.split_whitespace().count();
    }
    Ok(children)
}
