//! What a script in a child costs, as a table with medians; nothing here is asserted.
#![expect(clippy::disallowed_methods, reason = "a bench measures with the real clock")]

use std::time::{Duration, Instant};

use countersign_core::canonical::Verbatim;
use countersign_core::event::CallOutcome;
use countersign_core::time::Timestamp;
use countersign_kernel::ports::{Completion, Program, ScriptFault, ScriptHost, Stripped, Vm};
use countersign_sandbox::{ChildHost, ChildOptions, InProcessHost, Limits};

type Failed = Box<dyn std::error::Error + Send + Sync>;

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
    row("open + start(return 1 + 1), warm", &sample(300, &warm, &program("return 1 + 1")).await?, "1 ms");
    row("open + start(return 1 + 1), cold", &sample(100, &cold, &program("return 1 + 1")).await?, "");
    row("open + start(return 1 + 1), thread", &sample(100, &thread, &program("return 1 + 1")).await?, "");
    row("open + strip, warm", &stripping(&warm).await?, "");
    row("100 calls, one delivery each, child", &one_by_one(&warm).await?, "4 ms");
    row("100 calls, one delivery each, thread", &one_by_one(&thread).await?, "");
    row("replay of 1,000 in one delivery, child", &replay(&warm, 1_000, 50).await?, "12 ms");
    row("replay of 1,000 in one delivery, thread", &replay(&thread, 1_000, 50).await?, "");
    row("replay of 10,000 in one delivery, child", &replay(&warm, 10_000, 10).await?, "120 ms");
    row("replay of 10,000 in one delivery, thread", &replay(&thread, 10_000, 10).await?, "");
    Ok(())
}

fn row(what: &str, samples: &[Duration], reach: &str) {
    let mut samples = samples.to_vec();
    samples.sort_unstable();
    let at = |part: usize| samples.get(samples.len() * part / 100).copied().unwrap_or_default();
    println!("{what:<66} {:>12?} {:>12?}   {reach}", at(50), at(99));
}

fn program(code: &str) -> Program {
    let stripped = Stripped { code: code.to_owned(), mappings: String::new() };
    Program { stripped, seed: [1; 32], now: Timestamp::from_millis(1_700_000_000_000) }
}

fn answer(request: u32) -> Result<Completion, Failed> {
    let outcome = CallOutcome::Succeeded(Verbatim::of(&serde_json::json!(request))?);
    Ok(Completion { request, at: Timestamp::from_millis(1_700_000_000_001), outcome })
}

async fn sample(times: usize, host: &dyn ScriptHost, program: &Program) -> Result<Vec<Duration>, Failed> {
    let mut samples = Vec::new();
    for _ in 0..times {
        // The children ahead get their time to be ready, as between two scripts of an agent.
        tokio::time::sleep(Duration::from_millis(15)).await;
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
        tokio::time::sleep(Duration::from_millis(15)).await;
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
    tokio::time::sleep(Duration::from_millis(15)).await;
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
