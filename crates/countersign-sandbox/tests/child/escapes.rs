//! The whole table of hostile scripts, each in a child of its own: it ends as it must, in about its time.

use std::time::{Duration, Instant};

use countersign_core::canonical::Verbatim;
use countersign_core::event::{CallOutcome, Failure};
use countersign_kernel::ports::{Completion, ScriptEnd, ScriptFault, ScriptHost, Turn, Wanted};
use countersign_sandbox::{ChildHost, ChildOptions, Limits};
use serde_json::{Value, json};

use super::corpus::{self, Expect};
use super::scene::{answer, returned, run, start, worker};

fn host(cpu: Duration, memory_bytes: usize) -> ChildHost {
    let limits = Limits { cpu, memory_bytes, ..Limits::default() };
    ChildHost::new(ChildOptions { limits, warm: 1, ..worker() }).unwrap()
}

/// Runs a script to its end; every call is answered with its own arguments, except `no.way`.
async fn played(host: &ChildHost, script: &str) -> Result<ScriptEnd, ScriptFault> {
    let mut vm = host.open().await?;
    let mut turn: Turn = start(&mut vm, script).await?;
    loop {
        if let Some(end) = turn.end {
            return Ok(end);
        }
        assert!(!turn.requests.is_empty(), "it waits for nothing: {script}");
        let completions = turn.requests.iter().map(|request| match &request.wanted {
            Wanted::Call { path, .. } if path == "no.way" => Completion {
                outcome: CallOutcome::Failed(Failure::new("denied", "no way")),
                ..answer(request.no, &Value::Null)
            },
            Wanted::Call { args, .. } => Completion {
                outcome: CallOutcome::Succeeded(Verbatim::of(&args.to_value()).unwrap()),
                ..answer(request.no, &Value::Null)
            },
            Wanted::Sleep { .. } => answer(request.no, &Value::Null),
        });
        let completions = completions.collect();
        turn = vm.deliver(completions).await?;
    }
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "how long it takes is what is tested")]
async fn every_hostile_script_ends_as_it_must_and_the_next_one_is_served() {
    // What is to end for another reason than its time gets enough of it, on whatever machine.
    let patient = host(Duration::from_secs(20), 16 * 1024 * 1024);
    let hasty = host(Duration::from_millis(300), 16 * 1024 * 1024);
    // What only the watchdog ends needs memory to get that far.
    let roomy = host(Duration::from_millis(300), 64 * 1024 * 1024);
    let mut wrong = Vec::new();
    for hostile in corpus::all() {
        let host = match hostile.expect {
            _ if hostile.needs_kill => &roomy,
            Expect::Fails("cpu_limit") | Expect::EndsSomehow => &hasty,
            Expect::Fails(_) | Expect::Returns(_) => &patient,
        };
        let begun = Instant::now();
        let ended = played(host, hostile.script).await;
        let took = begun.elapsed();
        let code = match &ended {
            Ok(ScriptEnd::Returned(_)) => "returned",
            Ok(ScriptEnd::Threw(failure)) => failure.code.as_str(),
            Err(fault) => fault.code(),
        };
        let right = match (&hostile.expect, &ended) {
            (Expect::Fails(expected), _) => code == *expected,
            (Expect::Returns(expected), Ok(ScriptEnd::Returned(value))) => {
                serde_json::from_str::<Value>(expected).unwrap() == value.to_value()
            }
            (Expect::Returns(_), _) => false,
            (Expect::EndsSomehow, _) => true,
        };
        if !right || took > Duration::from_secs(60) {
            let by = if hostile.needs_kill { ", by the watchdog" } else { "" };
            wrong.push(format!("{}: {ended:?} after {took:?}, not {:?}{by}", hostile.name, hostile.expect));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert_eq!(returned(&run(&patient, "return 1").await.unwrap()), json!(1));
}
