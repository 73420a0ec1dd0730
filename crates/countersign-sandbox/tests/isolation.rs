//! What a child cannot do, tried by a process that isolated itself as a child does. Real kernels, real signals.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use countersign_sandbox::Limits;
use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::signal::Signal;

/// What a process did that tried something.
#[derive(Debug, PartialEq)]
enum Outcome {
    Possible,
    Refused(String),
    Killed(Signal, String),
}

fn limits() -> Limits {
    Limits { cpu: Duration::from_millis(300), ..Limits::default() }
}

#[expect(clippy::disallowed_methods, reason = "the isolation of a process takes a process")]
fn probe(what: &str, left_out: &str) -> Command {
    let mut probe = Command::new(env!("CARGO_BIN_EXE_countersign-sandbox-probe"));
    let limits = serde_json::to_string(&limits()).unwrap();
    probe.args(["attempt", what, left_out, &limits]).env_clear().stdin(Stdio::piped());
    probe
}

fn tries(what: &str, left_out: &str) -> Outcome {
    outcome(probe(what, left_out))
}

fn outcome(mut probe: Command) -> Outcome {
    let output = probe.output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    match (output.status.signal(), said.trim()) {
        (Some(signal), _) => Outcome::Killed(Signal::try_from(signal).unwrap(), errors),
        (None, "possible") => Outcome::Possible,
        (None, said) => Outcome::Refused(said.strip_prefix("refused: ").unwrap_or(said).to_owned()),
    }
}

#[track_caller]
fn assert_forbidden(what: &str) {
    assert_eq!(tries(what, "-"), Outcome::Killed(Signal::SIGSYS, String::new()), "{what}");
}

#[track_caller]
fn assert_refused(what: &str, left_out: &str, why: &str) {
    match tries(what, left_out) {
        Outcome::Refused(said) if said.contains(why) => {}
        other => panic!("{what} without {left_out}: {other:?}"),
    }
}

#[test]
fn every_layer_holds_on_this_machine() {
    let Outcome::Refused(report) = tries("report", "-") else { panic!("no report") };
    let full = "descriptors full; lifetime full; memory full; resources full; landlock full; seccomp full";
    assert_eq!(report, full);
}

#[test]
fn a_layer_that_is_missing_is_reported_missing() {
    let Outcome::Refused(report) = tries("report", "landlock") else { panic!("no report") };
    assert!(report.contains("landlock absent: left out; seccomp full"), "{report}");
}

#[test]
fn files_are_out_of_reach_and_each_of_two_layers_would_do() {
    for what in ["read a file", "list a folder", "write a file"] {
        for left_out in ["-", "seccomp", "landlock"] {
            assert_refused(what, left_out, "Permission denied");
        }
    }
    assert_eq!(tries("read a file", "seccomp and landlock"), Outcome::Possible, "else this shows nothing");
    assert_refused("start a program", "seccomp", "Permission denied");
}

#[test]
fn the_network_is_out_of_reach() {
    assert_forbidden("connect");
    assert_forbidden("listen");
    assert_forbidden("send a datagram");
    assert_refused("connect", "seccomp", "Permission denied");
    assert_refused("listen", "seccomp", "Permission denied");
}

#[test]
fn nothing_can_be_started() {
    assert_forbidden("start a program");
    assert_forbidden("start a thread");
}

#[test]
fn other_processes_are_out_of_reach() {
    assert_forbidden("signal its parent");
    assert_refused("signal its parent", "seccomp", "Operation not permitted");
}

#[test]
fn memory_never_becomes_executable() {
    assert_forbidden("make memory executable");
    assert_eq!(tries("make memory executable", "seccomp"), Outcome::Possible, "else this shows nothing");
}

#[test]
fn it_writes_nowhere_but_to_its_two_outputs() {
    assert_forbidden("write elsewhere");
}

#[test]
fn it_cannot_be_dumped() {
    assert_refused("be dumped", "seccomp", "not dumpable");
}

#[test]
fn it_has_nothing_of_what_its_parent_left_open() {
    let null = std::fs::File::open("/dev/null").unwrap();
    // A duplicate made this way is passed on to every process that is started.
    let left_open = fcntl(&null, FcntlArg::F_DUPFD(50)).unwrap();
    let use_it = format!("close {left_open}");
    assert_refused(&use_it, "seccomp", "Bad file descriptor");
    assert_eq!(tries(&use_it, "seccomp and descriptors"), Outcome::Possible, "else this shows nothing");
    nix::unistd::close(left_open).unwrap();
}

#[test]
fn memory_beyond_its_bound_ends_it_and_it_says_so() {
    let Outcome::Killed(signal, errors) = tries("take a lot of memory", "-") else { panic!("it got it") };
    assert_eq!(signal, Signal::SIGABRT);
    assert!(errors.contains("memory allocation of"), "{errors}");
}

#[test]
fn computing_beyond_its_bound_ends_it_though_nobody_watches() {
    assert_eq!(tries("compute for ever", "-"), Outcome::Killed(Signal::SIGXCPU, String::new()));
}
