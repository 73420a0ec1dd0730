//! Scripts in a child run as they do anywhere, and end within their limits.

use std::time::Duration;

use countersign_kernel::ports::{ScriptFault, ScriptHost, Wanted};
use countersign_sandbox::{ChildHost, ChildOptions, InProcessHost, Limits};
use serde_json::json;

use super::scene::{answer, assert_crashed, host, limits, probe, returned, run, start, worker};

#[tokio::test]
async fn a_script_returns_its_value() {
    let host = host();
    assert_eq!(returned(&run(&host, "return 1 + 1").await.unwrap()), json!(2));
    assert_eq!(returned(&run(&host, "const x: number = 3; return { x }").await.unwrap()), json!({ "x": 3 }));
}

#[tokio::test]
async fn a_script_asks_is_answered_logs_and_goes_on() {
    let host = host();
    let mut vm = host.open().await.unwrap();
    let source =
        "console.log('hi'); const a = await tools.notes.add({ b: 1, a: 'x' }); await sleep(5); return a.id";
    let turn = start(&mut vm, source).await.unwrap();
    assert_eq!(turn.logs[0].message, "hi");
    let Wanted::Call { path, args } = &turn.requests[0].wanted else { panic!("{turn:?}") };
    assert_eq!((path.as_str(), args.as_str()), ("notes.add", r#"{"a":"x","b":1}"#));
    let turn = vm.deliver(vec![answer(0, &json!({ "id": 9 }))]).await.unwrap();
    assert_eq!(turn.requests[0].no, 1);
    assert_eq!(turn.requests[0].wanted, Wanted::Sleep { ms: 5 });
    let turn = vm.deliver(vec![answer(1, &json!(null))]).await.unwrap();
    assert_eq!(returned(&turn), json!(9));
    assert_crashed(vm.deliver(vec![]).await, "has ended already");
}

#[tokio::test]
async fn a_child_and_a_thread_do_the_same() {
    let source = "const r = []; for (let i = 0; i < 20; i++) { console.log(i); r.push(await tools.a.b({ i })); } return r";
    let (child, thread) = (host(), InProcessHost::new(limits()));
    let mut vms = [child.open().await.unwrap(), thread.open().await.unwrap()];
    let mut told = Vec::new();
    for vm in &mut vms {
        let mut turns = vec![start(vm, source).await.unwrap()];
        turns.push(vm.deliver((0..5).map(|no| answer(no, &json!([no]))).collect()).await.unwrap());
        for no in 5..20 {
            turns.push(vm.deliver(vec![answer(no, &json!([no]))]).await.unwrap());
        }
        told.push(turns);
    }
    assert_eq!(told[0].last().map(returned).unwrap()[19], json!([19]));
    assert_eq!(told[0], told[1]);
}

#[tokio::test]
async fn ten_thousand_completions_and_large_values_are_cut_into_frames() {
    let mut options = worker();
    options.limits.cpu = Duration::from_secs(10);
    let host = ChildHost::new(options).unwrap();
    let mut vm = host.open().await.unwrap();
    let source = "const calls = []; for (let i = 0; i < 10000; i++) calls.push(tools.a.b({ i })); return (await Promise.all(calls)).length";
    assert_eq!(start(&mut vm, source).await.unwrap().requests.len(), 10_000);
    let turn = vm.deliver((0..10_000).map(|no| answer(no, &json!({ "no": no }))).collect()).await.unwrap();
    assert_eq!(returned(&turn), json!(10_000));

    let mut vm = host.open().await.unwrap();
    let source = "let n = 0; for (let i = 0; i < 12; i++) n += (await tools.a.b({ s: 'x'.repeat(1000000) })).length; return n";
    start(&mut vm, source).await.unwrap();
    let large = json!("\u{1}".repeat(150_000));
    let turn = vm.deliver((0..12).map(|no| answer(no, &large)).collect()).await.unwrap();
    assert_eq!(returned(&turn), json!(12 * 150_000));
    assert_eq!(turn.requests.len(), 11);
}

#[tokio::test]
async fn a_source_with_types_may_be_as_long_as_the_bound_and_no_longer() {
    let host = host();
    let bound = limits().source_bytes;
    let mut source = "let a:number=1;".to_owned();
    source.push_str(&"a;".repeat((bound - source.len()) / 2));
    source.push_str(&" ".repeat(bound - source.len()));
    assert_eq!(source.len(), bound);
    let mut vm = host.open().await.unwrap();
    assert!(vm.strip(&source).await.is_ok());
    let over = vm.strip(&format!("{source} ")).await;
    assert_eq!(over, Err(ScriptFault::TooLong { bytes: bound + 1, bound }));
}

#[tokio::test]
async fn a_source_that_does_not_parse_says_where() {
    let fault = run(&host(), "const a = ;").await.unwrap_err();
    assert!(matches!(fault, ScriptFault::Invalid { line: 1, .. }), "{fault:?}");
}

#[tokio::test]
async fn endless_computing_ends_at_its_limit_and_waiting_is_free() {
    let host = host();
    let mut vm = host.open().await.unwrap();
    start(&mut vm, "await sleep(1); for (;;) {}").await.unwrap();
    tokio::time::sleep(Duration::from_millis(800)).await;
    let fault = vm.deliver(vec![answer(0, &json!(null))]).await.unwrap_err();
    assert_eq!(fault, ScriptFault::CpuLimit { bound_ms: 300 });
}

// That the watchdog does it, and not the kernel later, is seen by computing time in `lifetime.rs`; the clock would tell how
// busy this machine is.
#[tokio::test]
async fn what_the_engine_cannot_interrupt_is_killed_at_its_limit() {
    let host = host();
    for source in [
        "const a = []; a.length = 2 ** 32 - 1; a.join(); return 1",
        "return 'a'.repeat(1e5).indexOf('a'.repeat(5e4) + 'b')",
    ] {
        assert_eq!(run(&host, source).await, Err(ScriptFault::CpuLimit { bound_ms: 300 }), "{source}");
    }
    assert_eq!(returned(&run(&host, "return 1").await.unwrap()), json!(1));
}

#[tokio::test]
async fn a_script_that_takes_too_much_memory_is_told_so() {
    let host = ChildHost::new(ChildOptions { limits: Limits::default(), ..worker() }).unwrap();
    let grows = "const a = []; for (;;) a.push(new Array(1000).fill(a.length))";
    let asks = "const s = 'x'.repeat(1000000); for (let i = 0; i < 1000; i++) tools.a.b({ s }); return 1";
    for source in [grows, asks] {
        assert_eq!(run(&host, source).await, Err(ScriptFault::OutOfMemory { bound_mib: 64 }), "{source}");
    }
}

#[tokio::test]
async fn a_child_that_the_kernel_refuses_memory_died_of_that_and_of_nothing_else() {
    let host = probe(&["starves", &super::scene::hello()]);
    let mut vm = host.open().await.unwrap();
    assert_eq!(vm.strip("return 1").await, Err(ScriptFault::OutOfMemory { bound_mib: 64 }));
}

#[tokio::test]
async fn a_child_is_given_no_environment_and_no_folder() {
    let host = probe(&["shows itself", &super::scene::hello()]);
    let mut vm = host.open().await.unwrap();
    assert_crashed(vm.strip("return 1").await, "[] \"/\"");
}

#[tokio::test]
async fn further_scripts_wait_their_turn() {
    let host = ChildHost::new(ChildOptions { most: 2, ..worker() }).unwrap();
    let first = host.open().await.unwrap();
    let _second = host.open().await.unwrap();
    let third = tokio::time::timeout(Duration::from_millis(200), host.open()).await;
    assert!(third.is_err(), "two is the most");
    drop(first);
    let third = tokio::time::timeout(Duration::from_secs(60), host.open()).await;
    assert!(third.unwrap().is_ok());
}

#[tokio::test]
async fn a_program_that_is_not_there_is_unavailable_and_says_why() {
    let host = ChildHost::new(ChildOptions::new("/nonexistent/worker", ["x"])).unwrap();
    let fault = host.open().await.err().unwrap();
    assert!(
        matches!(&fault, ScriptFault::Unavailable { cause } if cause.contains("No such file")),
        "{fault:?}"
    );
}

#[tokio::test]
async fn a_program_that_is_no_worker_is_unavailable_and_says_why() {
    let host = ChildHost::new(ChildOptions::new("/bin/false", ["x"])).unwrap();
    let fault = host.open().await.err().unwrap();
    assert!(
        matches!(&fault, ScriptFault::Unavailable { cause } if cause.contains("exit status: 1")),
        "{fault:?}"
    );
}

#[tokio::test]
async fn a_child_says_how_isolated_it_is() {
    let isolation = host().isolation().await.unwrap();
    assert!(isolation.is_full(), "{isolation}");
}
