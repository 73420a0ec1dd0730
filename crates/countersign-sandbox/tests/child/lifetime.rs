//! Children end when they should, whoever ends first, and leave nothing behind.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use countersign_kernel::ports::{ScriptFault, ScriptHost, Vm};
use countersign_sandbox::{ChildHost, ChildOptions};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::{Signal, kill};
use nix::sys::time::TimeValLike;
use nix::unistd::Pid;
use serde_json::json;

use super::scene::{answer, assert_crashed, children_of, is_dead, returned, run, start, until, worker};

/// These look at all processes of this one, so each runs in a process of its own: the test program again, with one test.
#[track_caller]
#[expect(
    clippy::disallowed_methods,
    reason = "a look at one's own children takes a process that has no others"
)]
fn alone(test: &str, body: impl AsyncFnOnce(u32)) {
    const MARK: &str = "COUNTERSIGN_ALONE";
    if std::env::var(MARK).is_ok() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        return runtime.block_on(body(std::process::id()));
    }
    let name = format!("lifetime::{test}");
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &name, "--nocapture"])
        .env(MARK, "1")
        .output()
        .unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.contains("1 passed"), "{out}\n{err}");
}

fn cold_host() -> ChildHost {
    super::scene::cold_host()
}

async fn one(me: u32, host: &ChildHost) -> (Box<dyn Vm>, Pid) {
    let vm = host.open().await.unwrap();
    let children = children_of(me);
    assert_eq!(children.len(), 1, "{children:?}");
    (vm, Pid::from_raw(i32::try_from(children[0].0).unwrap()))
}

/// Whether a child's thread for its script filters its own system calls and sleeps: from there to its first report it only computes,
/// so that what it waits for is an order.
fn waits_for_its_first_order(pid: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let mut of_script = threads.filter_map(|thread| {
        let status = std::fs::read_to_string(thread.path().join("status")).ok()?;
        let value = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next().map(str::to_owned)
        };
        (value("Name:")? == "script").then(|| (value("Seccomp:"), value("State:")))
    });
    of_script.next() == Some((Some("2".to_owned()), Some("S".to_owned())))
}

async fn stop(me: u32, pid: Pid) {
    kill(pid, Signal::SIGSTOP).unwrap();
    until("it stands still", || children_of(me).iter().all(|(_, state)| *state == 'T')).await;
}

#[test]
fn a_child_that_is_killed_mid_turn_is_a_crash_and_the_next_script_runs() {
    alone("a_child_that_is_killed_mid_turn_is_a_crash_and_the_next_script_runs", async |me| {
        let host = cold_host();
        for signal in [Signal::SIGKILL, Signal::SIGABRT, Signal::SIGTRAP] {
            let (mut vm, pid) = one(me, &host).await;
            let killer = async {
                tokio::time::sleep(Duration::from_millis(100)).await;
                kill(pid, signal).unwrap();
            };
            let (outcome, ()) = tokio::join!(start(&mut vm, "for (;;) {}"), killer);
            assert_crashed(outcome, signal.as_str());
            until("it is collected", || children_of(me).is_empty()).await;
            assert_eq!(returned(&run(&host, "return 1").await.unwrap()), json!(1));
            until("it is collected", || children_of(me).is_empty()).await;
        }
    });
}

#[test]
fn a_child_that_died_while_its_script_waited_is_a_crash() {
    alone("a_child_that_died_while_its_script_waited_is_a_crash", async |me| {
        let host = cold_host();
        let (mut vm, pid) = one(me, &host).await;
        start(&mut vm, "return await tools.a.b({})").await.unwrap();
        kill(pid, Signal::SIGKILL).unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_crashed(vm.deliver(vec![answer(0, &json!(1))]).await, "SIGKILL");
    });
}

#[test]
fn a_child_that_is_stopped_is_ended_at_the_stall_bound() {
    alone("a_child_that_is_stopped_is_ended_at_the_stall_bound", async |me| {
        let host = cold_host();
        let (mut vm, pid) = one(me, &host).await;
        stop(me, pid).await;
        tokio::time::pause();
        let large: Vec<_> = (0..3).map(|no| answer(no, &json!("x".repeat(900_000)))).collect();
        assert_crashed(vm.deliver(large).await, "neither answered nor computed for 30 s");
        tokio::time::resume();
        until("it is collected", || children_of(me).is_empty()).await;
    });
}

#[test]
fn a_child_that_is_stopped_for_a_while_goes_on() {
    alone("a_child_that_is_stopped_for_a_while_goes_on", async |me| {
        let host = cold_host();
        let (mut vm, pid) = one(me, &host).await;
        start(&mut vm, "return await tools.a.b({})").await.unwrap();
        stop(me, pid).await;
        let go_on = async {
            tokio::time::sleep(Duration::from_millis(500)).await;
            kill(pid, Signal::SIGCONT)
        };
        let (turn, went_on) = tokio::join!(vm.deliver(vec![answer(0, &json!(5))]), go_on);
        assert_eq!(returned(&turn.unwrap()), json!(5));
        went_on.unwrap();
    });
}

#[test]
fn the_watchdog_ends_what_evades_the_engine_long_before_the_kernel_would() {
    alone("the_watchdog_ends_what_evades_the_engine_long_before_the_kernel_would", async |_| {
        let evasive = "const a = []; a.length = 2 ** 32 - 1; a.join(); return 1";
        let outcome = run(&cold_host(), evasive).await;
        assert_eq!(outcome, Err(ScriptFault::CpuLimit { bound_ms: 300 }));
        // The kernel's own bound is whole seconds, two here.
        let used = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap().user_time();
        assert!(used.num_milliseconds() < 1_000, "{used}");
        assert!(used.num_milliseconds() >= 300, "{used}");
    });
}

#[test]
fn dropping_a_vm_or_a_call_of_it_ends_the_child() {
    alone("dropping_a_vm_or_a_call_of_it_ends_the_child", async |me| {
        let host = cold_host();
        let (vm, _) = one(me, &host).await;
        drop(vm);
        until("it is collected", || children_of(me).is_empty()).await;
        let (mut vm, _) = one(me, &host).await;
        let endless = tokio::time::timeout(Duration::from_millis(50), start(&mut vm, "for (;;) {}")).await;
        assert!(endless.is_err());
        until("it is collected", || children_of(me).is_empty()).await;
        assert_crashed(vm.deliver(vec![]).await, "has ended already");
    });
}

#[test]
fn two_hundred_vms_opened_and_dropped_leave_nothing() {
    alone("two_hundred_vms_opened_and_dropped_leave_nothing", async |me| {
        let host = super::scene::host();
        for round in 0..200_u32 {
            let mut vm = host.open().await.unwrap();
            match round % 3 {
                0 => drop(vm),
                1 => assert_eq!(returned(&start(&mut vm, "return 1").await.unwrap()), json!(1)),
                _ => assert_eq!(start(&mut vm, "await tools.a.b({})").await.unwrap().requests.len(), 1),
            }
        }
        until("only those ahead are left", || {
            let children = children_of(me);
            children.len() == 2 && children.iter().all(|(_, state)| *state != 'Z')
        })
        .await;
        drop(host);
        until("nothing is left", || children_of(me).is_empty()).await;
        let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
        until("its threads are gone", || threads() <= 2).await;
    });
}

#[test]
fn a_dead_child_ahead_is_replaced() {
    alone("a_dead_child_ahead_is_replaced", async |me| {
        let host = super::scene::host();
        until("two are ahead", || children_of(me).len() == 2).await;
        for (pid, _) in children_of(me) {
            kill(Pid::from_raw(i32::try_from(pid).unwrap()), Signal::SIGKILL).unwrap();
        }
        until("they are dead", || children_of(me).iter().all(|(pid, _)| is_dead(*pid))).await;
        assert_eq!(returned(&run(&host, "return 3").await.unwrap()), json!(3));
        until("two are ahead again", || {
            let children = children_of(me);
            children.len() == 2 && children.iter().all(|(_, state)| *state != 'Z')
        })
        .await;
    });
}

#[test]
fn the_next_child_is_ahead_before_the_last_is_taken_and_the_pool_stays_within_its_bound() {
    let name = "the_next_child_is_ahead_before_the_last_is_taken_and_the_pool_stays_within_its_bound";
    alone(name, async |me| {
        let host = Arc::new(ChildHost::new(ChildOptions { warm: 1, ..worker() }).unwrap());
        until("one is ahead", || children_of(me).len() == 1).await;
        let mut vms = vec![host.open().await.unwrap()];
        until("two are ahead, since the last was taken", || children_of(me).len() == 3).await;
        vms.push(host.open().await.unwrap());
        until("two are ahead", || children_of(me).len() == 4).await;
        // Sixteen at once take the last one again and again; four times the usual number is the most.
        let mut more = tokio::task::JoinSet::new();
        for _ in 0..16 {
            let host = Arc::clone(&host);
            more.spawn(async move { host.open().await.unwrap() });
        }
        vms.extend(more.join_all().await);
        until("four are ahead", || children_of(me).len() == vms.len() + 4).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert_eq!(children_of(me).len(), vms.len() + 4, "and no more");
        until("a pool that is not used shrinks", || children_of(me).len() == vms.len() + 1).await;
        drop(vms);
        until("one is ahead", || children_of(me).len() == 1).await;
    });
}

#[test]
fn a_child_ahead_has_isolated_itself_and_made_its_vm_before_it_is_asked_for() {
    let name = "a_child_ahead_has_isolated_itself_and_made_its_vm_before_it_is_asked_for";
    alone(name, async |me| {
        let host = super::scene::host();
        until("two are ahead", || children_of(me).len() == 2).await;
        until("both wait for their first order", || {
            children_of(me).iter().all(|(pid, _)| waits_for_its_first_order(*pid))
        })
        .await;
        for (pid, _) in children_of(me) {
            kill(Pid::from_raw(i32::try_from(pid).unwrap()), Signal::SIGSTOP).unwrap();
        }
        let opened = tokio::time::timeout(Duration::from_secs(5), host.open()).await;
        assert!(opened.unwrap().is_ok(), "its report was there before it was stopped");
    });
}

#[test]
fn a_vm_may_outlive_its_host() {
    alone("a_vm_may_outlive_its_host", async |me| {
        let host = cold_host();
        let (mut vm, _) = one(me, &host).await;
        drop(host);
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(returned(&start(&mut vm, "return 4").await.unwrap()), json!(4));
        drop(vm);
        until("nothing is left", || children_of(me).is_empty()).await;
    });
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "a host that is killed is a process")]
async fn killing_the_host_takes_its_children_along() {
    let mut host = Command::new(env!("CARGO_BIN_EXE_countersign-sandbox-probe"))
        .args(["host", env!("CARGO_BIN_EXE_countersign-sandbox-worker")])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(host.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "open\n");
    let pid = host.id();
    until("there are three", || children_of(pid).len() == 3).await;
    // One that is stopped before it has shut itself off has not asked to die with its host yet.
    until("they have shut themselves off", || children_of(pid).iter().all(|(child, _)| is_shut_off(*child)))
        .await;
    // Stopped ones would never see that their input ended.
    let children = children_of(pid);
    for (child, _) in &children {
        kill(Pid::from_raw(i32::try_from(*child).unwrap()), Signal::SIGSTOP).unwrap();
    }
    host.kill().unwrap();
    host.wait().unwrap();
    until("they are gone", || {
        children.iter().all(|(child, _)| {
            let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
            stat.is_empty() || stat.contains(") Z ")
        })
    })
    .await;
}

fn is_shut_off(child: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{child}/status")).unwrap_or_default();
    status.lines().any(|line| line == "Seccomp:\t2")
}

#[tokio::test]
async fn a_script_that_ended_is_not_run_again() {
    let host = cold_host();
    let mut vm = host.open().await.unwrap();
    assert_eq!(start(&mut vm, "for (;;) {}").await, Err(ScriptFault::CpuLimit { bound_ms: 300 }));
    assert_crashed(start(&mut vm, "return 1").await, "has ended already");
}
