//! What the tests of children have in common: hosts, programs, a look at the processes there are.

use std::time::Duration;

use countersign_core::canonical::Verbatim;
use countersign_core::event::CallOutcome;
use countersign_core::time::Timestamp;
use countersign_kernel::ports::{Completion, Program, ScriptEnd, ScriptFault, ScriptHost, Turn, Vm};
use countersign_sandbox::{ChildHost, ChildOptions, Limits};
use serde_json::{Value, json};

/// The greeting of a child that is what it should be.
pub(crate) fn hello() -> String {
    hello_of_version(2)
}

pub(crate) fn hello_of_version(protocol: u32) -> String {
    let full: serde_json::Map<String, Value> =
        ["descriptors", "lifetime", "memory", "resources", "landlock", "seccomp"]
            .map(|layer| (layer.to_owned(), json!("full")))
            .into_iter()
            .collect();
    json!({ "protocol": protocol, "isolation": full }).to_string()
}

pub(crate) fn limits() -> Limits {
    Limits { cpu: Duration::from_millis(300), ..Limits::default() }
}

pub(crate) fn worker() -> ChildOptions {
    let program = env!("CARGO_BIN_EXE_countersign-sandbox-worker");
    ChildOptions { limits: limits(), ..ChildOptions::new(program, [] as [&str; 0]) }
}

pub(crate) fn host() -> ChildHost {
    ChildHost::new(worker()).unwrap()
}

/// A host with nothing ahead: its only children are those of open VMs.
pub(crate) fn cold_host() -> ChildHost {
    ChildHost::new(ChildOptions { warm: 0, ..worker() }).unwrap()
}

pub(crate) fn probe(args: &[&str]) -> ChildHost {
    let program = env!("CARGO_BIN_EXE_countersign-sandbox-probe");
    let options = ChildOptions { limits: limits(), warm: 0, ..ChildOptions::new(program, args) };
    ChildHost::new(options).unwrap()
}

pub(crate) async fn start(vm: &mut Box<dyn Vm>, source: &str) -> Result<Turn, ScriptFault> {
    let stripped = vm.strip(source).await?;
    vm.start(Program { stripped, seed: [7; 32], now: Timestamp::from_millis(1_700_000_000_000) }).await
}

/// Runs a script that needs nothing from outside.
pub(crate) async fn run(host: &ChildHost, source: &str) -> Result<Turn, ScriptFault> {
    let mut vm = host.open().await?;
    start(&mut vm, source).await
}

pub(crate) fn answer(request: u32, value: &Value) -> Completion {
    Completion {
        request,
        at: Timestamp::from_millis(1_700_000_000_000 + u64::from(request)),
        outcome: CallOutcome::Succeeded(Verbatim::of(value).unwrap()),
    }
}

#[track_caller]
pub(crate) fn returned(turn: &Turn) -> Value {
    match &turn.end {
        Some(ScriptEnd::Returned(value)) => value.to_value(),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
pub(crate) fn assert_crashed<T: std::fmt::Debug>(outcome: Result<T, ScriptFault>, why: &str) {
    match outcome {
        Err(ScriptFault::Crashed { cause }) if cause.contains(why) => {}
        other => panic!("expected {why:?}, got {other:?}"),
    }
}

/// The processes that one has started and that were not collected yet, each with its state (`Z` is a zombie).
pub(crate) fn children_of(parent: u32) -> Vec<(u32, char)> {
    let stat = |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/stat")).ok();
    std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter_map(|pid| {
            let stat = stat(pid)?;
            let (_, fields) = stat.rsplit_once(") ")?;
            let mut fields = fields.split(' ');
            let state = fields.next()?.chars().next()?;
            let of: u32 = fields.next()?.parse().ok()?;
            (of == parent).then_some((pid, state))
        })
        .collect()
}

/// Waits until something is so; some of what is looked at happens in the background.
pub(crate) async fn until(what: &str, mut so: impl FnMut() -> bool) {
    const LOOKS: u32 = 6_000;
    for _ in 0..LOOKS {
        if so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("not within a minute: {what}");
}

/// Whether a process can be collected: it can once its last thread is gone, which may be later than its first.
pub(crate) fn is_dead(pid: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
    threads <= 1
        && std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") Z "))
}
