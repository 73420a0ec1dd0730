//! Processes: how they are ended and started again.

use std::sync::Arc;
use std::time::Duration;

use countersign_sources::http::Intent;
use countersign_sources::mcp::{
    CallFailure, Endpoint, MAX_RESTARTS, Protocol, Upstream, UpstreamConfig, UpstreamEvent,
};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::fixture::{connect, eventually, no_arguments, text};
use crate::toolbox::{command, script_server};

fn server(mode: &str) -> UpstreamConfig {
    let mut config = script_server("hostile.mjs", &[mode], &[]);
    config.protocol = Protocol::Legacy;
    config
}

/// Whether a process is there and not merely waiting to be collected.
fn is_running(pid: i32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

fn pid_in(said: &str) -> i32 {
    said.rsplit(' ').next().unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_server_killed_with_sigkill_is_started_again_and_the_next_call_works() {
    let server = connect(server("plain")).await;
    let first = pid_in(text(&server.read("act", no_arguments()).await.unwrap()));
    kill(Pid::from_raw(first), Signal::SIGKILL).unwrap();
    server.event(|event| *event == UpstreamEvent::Connected).await;
    let second = pid_in(text(&server.read("act", no_arguments()).await.unwrap()));
    assert_ne!(first, second);
    assert!(matches!(server.events()[0], UpstreamEvent::Disconnected { .. }), "{:?}", server.events());
}

#[tokio::test]
async fn a_server_killed_during_a_write_leaves_it_in_doubt_at_once() {
    let mut config = server("silent");
    config.limits.call_silence = Duration::from_secs(600);
    let ledger = tempfile::NamedTempFile::new().unwrap();
    if let Endpoint::Command(command) = &mut config.endpoint {
        command.variables.push(("LEDGER".into(), ledger.path().to_str().unwrap().into()));
    }
    let server = connect(config).await;
    let (failure, ()) = tokio::join!(server.write("act", no_arguments()), async {
        eventually(|| ledger.path().metadata().unwrap().len() > 0).await;
        let children = processes_with("hostile.mjs", ledger.path().to_str().unwrap());
        kill(Pid::from_raw(children[0]), Signal::SIGKILL).unwrap();
    });
    assert!(failure.clone().unwrap_err().is_in_doubt(Intent::Write), "{failure:?}");
}

/// The processes whose command line has the one text and whose environment has the other.
pub(crate) fn processes_with(argument: &str, variable: &str) -> Vec<i32> {
    let read = |pid: i32, file: &str| {
        std::fs::read(format!("/proc/{pid}/{file}"))
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    };
    std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().into_string().unwrap().parse().ok())
        .filter(|pid| read(*pid, "cmdline").contains(argument) && read(*pid, "environ").contains(variable))
        .collect()
}

#[tokio::test]
async fn a_closed_or_dropped_upstream_leaves_no_process_behind_not_even_a_grandchild() {
    for close in [true, false] {
        let server = connect(server("grandchild")).await;
        let grandchild: i32 = text(&server.read("act", no_arguments()).await.unwrap()).parse().unwrap();
        assert!(is_running(grandchild));
        if close {
            server.close().await;
        } else {
            drop(server);
        }
        eventually(|| !is_running(grandchild)).await;
    }
}

#[tokio::test]
async fn a_server_that_ignores_the_end_of_its_input_is_ended() {
    let server = connect(server("stays")).await;
    let pid = pid_in(text(&server.read("act", no_arguments()).await.unwrap()));
    server.close().await;
    eventually(|| !is_running(pid)).await;
    let failure = server.read("act", no_arguments()).await.unwrap_err();
    assert!(matches!(failure, CallFailure::NotSent(_)), "{failure:?}");
}

#[tokio::test]
async fn servers_end_with_us_when_we_are_killed_with_sigkill() {
    // This test runs itself again as the process that is killed.
    if let Some(note) = std::env::var_os("PIDS") {
        return hold_servers(note.as_ref()).await;
    }
    let folder = tempfile::tempdir().unwrap();
    let note = folder.path().join("pids");
    let mut gateway = tokio::process::Command::new(std::env::current_exe().unwrap())
        .args(["lifetime::servers_end_with_us_when_we_are_killed_with_sigkill", "--exact", "--nocapture"])
        .env("PIDS", &note)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    eventually(|| std::fs::read_to_string(&note).is_ok_and(|text| text.ends_with('\n'))).await;
    let pids: Vec<i32> =
        std::fs::read_to_string(&note).unwrap().split_whitespace().map(|pid| pid.parse().unwrap()).collect();
    assert_eq!(pids.len(), 2);
    assert!(pids.iter().all(|pid| is_running(*pid)));
    gateway.kill().await.unwrap();
    eventually(|| pids.iter().all(|pid| !is_running(*pid))).await;
}

/// Holds a server that ignores the end of its input, and one that started another process, until it is killed.
async fn hold_servers(note: &std::path::Path) {
    let stays = connect(server("stays")).await;
    let stays = (pid_in(text(&stays.read("act", no_arguments()).await.unwrap())), stays);
    let parent = connect(server("grandchild")).await;
    let grandchild = text(&parent.read("act", no_arguments()).await.unwrap()).to_owned();
    std::fs::write(note, format!("{} {grandchild}\n", stays.0)).unwrap();
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn a_server_that_keeps_ending_is_left_off_and_can_be_revived() {
    let hello = r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"short","version":"1"}}}"#;
    let script = format!("read line; printf '%s\\n' '{hello}'; read line");
    let mut config = command("/bin/sh", &["-c", &script], &[]);
    config.protocol = Protocol::Legacy;
    config.limits.restart_pause = Duration::from_millis(1);
    let server = connect(config).await;
    server.event(|event| matches!(event, UpstreamEvent::Off { .. })).await;
    let count =
        |wanted: fn(&UpstreamEvent) -> bool| server.events().iter().filter(|event| wanted(event)).count();
    assert!(count(|event| *event == UpstreamEvent::Connected) <= MAX_RESTARTS, "{:?}", server.events());
    let failure = server.offer().await.unwrap_err();
    assert!(failure.to_string().contains("is off"), "{failure}");
    server.revive();
    eventually(|| count(|event| matches!(event, UpstreamEvent::Off { .. })) == 2).await;
}

#[tokio::test]
async fn an_upstream_can_be_dropped_with_its_runtime() {
    let pid = std::thread::spawn(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let upstream = Upstream::connect(server("stays"), Arc::new(|_| ())).await.unwrap();
            let call = crate::fixture::call("act", no_arguments(), Intent::Read);
            pid_in(text(&upstream.call(call).await.unwrap()))
        })
    });
    let pid = pid.join().unwrap();
    eventually(|| !is_running(pid)).await;
}
