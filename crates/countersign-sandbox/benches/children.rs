//! What a script in a child costs, as a table with medians; nothing here is asserted.
#![expect(clippy::disallowed_methods, reason = "a bench measures with the real clock")]

use std::time::{Duration, Instant};

use countersign_core::canonical::Verbatim;
use countersign_core::event::CallOutcome;
use countersign_core::time::Timestamp;
use countersign_kernel::ports::{Completion, Program, ScriptFault, ScriptHost, Stripped, Vm};
use countersign_sandbox::{ChildHost, ChildOptions, InProcessHost, Limits};

type Failed = Box<dyn std::error::Error + Send + Sync>;

/// As between two scripts of an agent: the pool has time to start the next child.
const PAUSE: Duration = Duration::from_millis(15);
const ONE_BY_ONE: &str = "let n = 0; for (let i = 0; i < 100; i++) n += await tools.a.b({ i }); return n";
const MANY: &str = "let n = 0; for (let i = 0; i < COUNT; i++) n += await tools.a.b({ i }); return n";

fn main() -> Result<(), Failed> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    println!("{:<66} {:>12} {:>12}   reach", "what", "median", "p99");
    runtime.block_on(async { tokio::spawn(all()).await? })
}

async fn all() -> Result<(), Failed> {
    let worker = env!("CARGO_BIN_EXE_countersign-sandbox-worker");
    let options = ChildOptions::new(worker, [] as [&str; 0]);
    let warm = ChildHost::new(options.clone())?;
    let cold = ChildHost::new(ChildOptions { warm: 0, ..options })?;
    let thread = InProcessHost::new(Limits::default());
    warm.open().await?;
    println!("isolation: {}", warm.isolation().await?);
    let two = program("return 1 + 1");
    row("open + start(return 1 + 1), warm", "1 ms", async || sample(300, &warm, &two, PAUSE).await).await?;
    row("open + start(return 1 + 1), warm, without a pause", "2 ms", async || {
        sample(300, &warm, &two, Duration::ZERO).await
    })
    .await?;
    row("open + start(return 1 + 1), cold", "", async || sample(100, &cold, &two, PAUSE).await).await?;
    row("open + start(return 1 + 1), thread", "", async || sample(100, &thread, &two, PAUSE).await).await?;
    row("open + strip, warm", "", async || stripping(&warm).await).await?;
    row("100 calls, one delivery each, child", "4 ms", async || one_by_one(&warm).await).await?;
    row("100 calls, one delivery each, thread", "", async || one_by_one(&thread).await).await?;
    row("replay of 1,000 in one delivery, child", "12 ms", async || replay(&warm, 1_000, 50).await).await?;
    row("replay of 1,000 in one delivery, thread", "", async || replay(&thread, 1_000, 50).await).await?;
    row("replay of 10,000 in one delivery, child", "120 ms", async || replay(&warm, 10_000, 10).await)
        .await?;
    row("replay of 10,000 in one delivery, thread", "", async || replay(&thread, 10_000, 10).await).await
}

/// Measures and prints one row; an argument on the command line selects the rows whose name contains it.
async fn row(
    what: &str,
    reach: &str,
    measure: impl AsyncFnOnce() -> Result<Vec<Duration>, Failed>,
) -> Result<(), Failed> {
    let selected = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
    if selected.is_some_and(|part| !what.contains(&part)) {
        return Ok(());
    }
    let mut samples = measure().await?;
    samples.sort_unstable();
    let at = |part: usize| samples.get(samples.len() * part / 100).copied().unwrap_or_default();
    println!("{what:<66} {:>12?} {:>12?}   {reach}", at(50), at(99));
    Ok(())
}

fn program(code: &str) -> Program {
    let stripped = Stripped { code: code.to_owned(), mappings: String::new() };
    Program { stripped, seed: [1; 32], now: Timestamp::from_millis(1_700_000_000_000) }
}

fn answer(request: u32) -> Result<Completion, Failed> {
    let outcome = CallOutcome::Succeeded(Verbatim::of(&serde_json::json!(request))?);
    Ok(Completion { request, at: Timestamp::from_millis(1_700_000_000_001), outcome })
}

async fn sample(
    times: usize,
    host: &dyn ScriptHost,
    program: &Program,
    pause: Duration,
) -> Result<Vec<Duration>, Failed> {
    let mut samples = Vec::new();
    for _ in 0..times {
        // A sleep of no time still waits for the timer's next millisecond.
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
        let begun = Instant::now();
        let mut vm = host.open().await?;
        let turn = vm.start(program.clone()).await?;
        samples.push(begun.elapsed());
        if turn.end.is_none() {
            return Err("it did not end".into());
        }
    }
    Ok(samples)
}

async fn stripping(host: &dyn ScriptHost) -> Result<Vec<Duration>, Failed> {
    let source =
        "interface A { x: number }\nconst a: A = { x: 1 };\nconsole.log(a.x as number);\n".repeat(60);
    let mut samples = Vec::new();
    for _ in 0..50 {
        tokio::time::sleep(PAUSE).await;
        let begun = Instant::now();
        let mut vm = host.open().await?;
        match vm.strip(&source.replace("const a", "var a")).await {
            Ok(_) | Err(ScriptFault::Invalid { .. }) => samples.push(begun.elapsed()),
            Err(fault) => return Err(fault.into()),
        }
    }
    Ok(samples)
}

async fn opened(host: &dyn ScriptHost, program: Program) -> Result<Box<dyn Vm>, Failed> {
    tokio::time::sleep(PAUSE).await;
    let mut vm = host.open().await?;
    vm.start(program).await?;
    Ok(vm)
}

async fn one_by_one(host: &dyn ScriptHost) -> Result<Vec<Duration>, Failed> {
    let mut samples = Vec::new();
    for _ in 0..50 {
        let mut vm = opened(host, program(ONE_BY_ONE)).await?;
        let begun = Instant::now();
        for no in 0..100 {
            vm.deliver(vec![answer(no)?]).await?;
        }
        samples.push(begun.elapsed());
    }
    Ok(samples)
}

async fn replay(host: &dyn ScriptHost, count: u32, times: usize) -> Result<Vec<Duration>, Failed> {
    let mut samples = Vec::new();
    for _ in 0..times {
        let mut vm = opened(host, program(&MANY.replace("COUNT", &count.to_string()))).await?;
        let completions = (0..count).map(answer).collect::<Result<Vec<_>, _>>()?;
        let begun = Instant::now();
        let turn = vm.deliver(completions).await?;
        samples.push(begun.elapsed());
        if turn.end.is_none() {
            return Err("it did not end".into());
        }
    }
    Ok(samples)
}
