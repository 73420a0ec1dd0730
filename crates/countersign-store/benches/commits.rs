//! What the store alone costs: the commits of one gated call, and the records of reads. Nothing here is asserted.
//!
//! `cargo bench -p countersign-store --bench commits`. Sixty-four commits are under way at once; the changes are made before the
//! clock starts.
#![expect(clippy::disallowed_methods, reason = "a bench measures with the real clock")]
#![expect(clippy::expect_used, reason = "a bench on constant input that fails has nothing to measure")]

mod call;

use std::sync::Arc;
use std::time::{Duration, Instant};

use call::Call;
use countersign_kernel::ports::{ElicitationFilter, Page, Store as _, Write};
use countersign_store::SqliteStore;

type Failure = Box<dyn std::error::Error + Send + Sync>;

const AT_ONCE: usize = 64;

fn main() -> Result<(), Failure> {
    let calls = std::env::var("COUNTERSIGN_BENCH_CALLS").ok().and_then(|n| n.parse().ok()).unwrap_or(10_000);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async { tokio::spawn(all(calls)).await? })
}

async fn all(count: usize) -> Result<(), Failure> {
    let folder = tempfile::tempdir_in(std::env::var("COUNTERSIGN_BENCH_FOLDER").unwrap_or("/tmp".into()))?;
    let store = Arc::new(SqliteStore::open(folder.path())?);
    let mut calls: Vec<Call> = (0..count).map(|n| Call::new(n as u64)).collect();
    let asks = calls.iter_mut().map(Call::ask).collect();
    commit("ask: Started, CallIssued, Asked", &store, asks).await?;
    drop(store);
    let bytes = std::fs::metadata(folder.path().join("countersign.db"))?.len();
    println!("{:<44} {:>9} B", "database for each pending call", bytes / count as u64);

    let begun = Instant::now();
    let store = Arc::new(SqliteStore::open(folder.path())?);
    let open = ElicitationFilter { open_only: true, ..ElicitationFilter::default() };
    let oldest = store.elicitations(open.clone(), Page::first(1)).await?;
    let oldest = oldest.items.first().ok_or("nothing is pending")?.execution;
    let first = calls.iter_mut().find(|call| call.id() == oldest).ok_or("no such call")?;
    store.commit(first.decide()).await?;
    println!("{:<44} {:>9.1?}", "open, decide the oldest", begun.elapsed());
    let begun = Instant::now();
    let listed = store.elicitations(open, Page::first(1_000)).await?.items.len();
    println!("{:<44} {:>9.1?}", format!("list {listed} pending"), begun.elapsed());

    let decided =
        calls.iter_mut().filter(|call| call.id() != oldest).take(200_000).map(Call::decide).collect();
    commit("decide and start: Decided, CallStarted", &store, decided).await?;
    let settled = calls.iter_mut().filter(|call| call.is_started()).map(Call::settle).collect();
    commit("settle: CallSettled, Finished", &store, settled).await?;
    let reads = (0..count.min(100_000)).map(|n| Call::new(n as u64).read()).collect();
    reads_soon(&store, reads).await?;
    for per_second in [0, 1_500, 2_500] {
        amid_reads(&store, per_second).await?;
    }
    Ok(())
}

/// Decisions one at a time, beside so many reads a second, each after a burst of eight at once.
async fn amid_reads(store: &Arc<SqliteStore>, per_second: u64) -> Result<(), Failure> {
    const DECISIONS: usize = 300;
    let mut calls: Vec<Call> = (0..9 * DECISIONS).map(|n| Call::new(n as u64)).collect();
    for call in &mut calls {
        store.commit_soon(call.ask())?;
    }
    store.standing().await?;
    let reading = tokio::spawn({
        let store = Arc::clone(store);
        async move {
            let mut tick = tokio::time::interval(Duration::from_millis(2));
            for n in 0.. {
                tick.tick().await;
                for _ in 0..per_second / 500 {
                    let _ = store.commit_soon(Call::new(n).read());
                }
            }
        }
    });
    let mut samples = Vec::new();
    for nine in calls.chunks_mut(9) {
        let (alone, burst) = nine.split_first_mut().ok_or("no calls")?;
        futures_util::future::try_join_all(burst.iter_mut().map(|call| store.commit(call.decide()))).await?;
        let begun = Instant::now();
        store.commit(alone.decide()).await?;
        samples.push(begun.elapsed());
    }
    reading.abort();
    samples.sort_unstable();
    let at = |part: usize| samples.get(samples.len() * part / 100).copied().unwrap_or_default();
    println!(
        "decision beside {per_second:>5} reads/s, after a burst      p50 {:>7.2?}  p99 {:>7.2?}",
        at(50),
        at(99)
    );
    Ok(())
}

async fn commit(what: &str, store: &Arc<SqliteStore>, writes: Vec<Write>) -> Result<(), Failure> {
    let total = writes.len();
    let queue = Arc::new(std::sync::Mutex::new(writes.into_iter()));
    let (before, cpu, begun) = (store.stats(), cpu_time()?, Instant::now());
    let tasks: Vec<_> = (0..AT_ONCE)
        .map(|_| {
            let (store, queue) = (Arc::clone(store), Arc::clone(&queue));
            tokio::spawn(async move {
                loop {
                    let next = queue.lock().map_err(|_| "poisoned")?.next();
                    let Some(write) = next else { return Ok::<_, Failure>(()) };
                    store.commit(write).await?;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await??;
    }
    report(what, total, begun.elapsed(), cpu_time()? - cpu, store.stats().commits - before.commits);
    Ok(())
}

async fn reads_soon(store: &SqliteStore, reads: Vec<Write>) -> Result<(), Failure> {
    let total = reads.len();
    let (before, cpu, begun) = (store.stats(), cpu_time()?, Instant::now());
    for (n, read) in reads.into_iter().enumerate() {
        store.commit_soon(read)?;
        if n % 4_000 == 3_999 {
            store.standing().await?;
        }
    }
    store.standing().await?;
    let what = "read: five events, one record, not awaited";
    report(what, total, begun.elapsed(), cpu_time()? - cpu, store.stats().commits - before.commits);
    Ok(())
}

fn report(what: &str, total: usize, wall: Duration, cpu: Duration, syncs: u64) {
    let (each, rate) = (cpu.as_secs_f64() * 1e6 / total as f64, total as f64 / wall.as_secs_f64());
    println!("{what:<44} {rate:>9.0} /s {each:>7.1} µs CPU {:>7.3} fsyncs", syncs as f64 / total as f64);
}

/// User and system time of this process, from the kernel's own count in hundredths of a second.
fn cpu_time() -> Result<Duration, Failure> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let after_name = stat.rsplit(')').next().ok_or("unreadable /proc/self/stat")?;
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    let ticks = fields.get(11).ok_or("no utime")?.parse::<u64>()?
        + fields.get(12).ok_or("no stime")?.parse::<u64>()?;
    Ok(Duration::from_millis(ticks * 10))
}
