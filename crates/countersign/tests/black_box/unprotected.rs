//! The built program on a kernel without landlock: a filter of system calls that the program inherits refuses it.

use std::collections::BTreeMap;
use std::process::{Command, Output, Stdio};
use std::time::Instant;

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};
use serde_json::json;

use crate::server::{Home, PATIENCE};

const ALLOW_WEAKER: (&str, &str) = ("COUNTERSIGN_SANDBOX_ALLOW_WEAKER", "true");
const SCRIPT: &str = "await tools.notes.add({ title: 'ran' }); return 1;";

/// Does something in a thread whose kernel knows no landlock, and neither do the processes it starts.
fn without_landlock<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let rules = BTreeMap::from([(libc::SYS_landlock_create_ruleset, vec![])]);
    let refusal = SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
    let machine = TargetArch::try_from(std::env::consts::ARCH).unwrap();
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refusal, machine).unwrap();
    let filter = BpfProgram::try_from(filter).unwrap();
    std::thread::scope(|scope| {
        let filtered = scope.spawn(move || {
            seccompiler::apply_filter(&filter).unwrap();
            work()
        });
        filtered.join().unwrap()
    })
}

fn served_without_landlock(change: impl FnOnce(&mut Command) + Send) -> (Home, std::path::PathBuf) {
    let mut home = Home::new();
    let log = home.folder().join("log");
    let file = std::fs::File::create(&log).unwrap();
    home.started_by(|command| {
        command.stderr(Stdio::from(file));
        change(command);
        without_landlock(|| command.spawn().unwrap())
    });
    (home, log)
}

fn doctor(home: &Home, allow: Option<(&str, &str)>) -> Output {
    let mut command = home.command(&["doctor"]);
    without_landlock(|| command.envs(allow).output().unwrap())
}

/// Waits for words in the log, which is written in the background.
fn until_logged(log: &std::path::Path, words: &str) {
    let begun = Instant::now();
    loop {
        let said = std::fs::read_to_string(log).unwrap();
        if said.contains(words) {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{words:?} is not in the log:\n{said}");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

#[tokio::test]
async fn without_landlock_the_server_refuses_scripts_with_503_and_runs_no_line_of_them() {
    let (home, log) = served_without_landlock(|_| {});
    until_logged(&log, "scripts do not run");
    let agent = home.client("agent");
    let (status, problem) = agent.try_post("/api/executions", &json!({ "code": SCRIPT })).await.unwrap();
    assert_eq!((status, &problem["code"]), (503, &json!("sandbox_unavailable")), "{problem}");
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("landlock absent") && detail.contains("allow_weaker = true"), "{detail}");
    let notes = agent.post("/api/executions", &json!({ "tool": "notes.list" })).await;
    assert_eq!(notes["value"]["notes"], json!([]), "calls work, and the script's first line did not run");
}

#[tokio::test]
async fn an_operator_who_allows_weaker_isolation_gets_scripts_and_a_warning_in_the_log() {
    let (home, log) = served_without_landlock(|command| {
        command.envs([ALLOW_WEAKER]);
    });
    until_logged(&log, "sandbox.allow_weaker is set");
    until_logged(&log, "scripts run with weaker isolation");
    let done = home.client("agent").post("/api/executions", &json!({ "code": SCRIPT })).await;
    assert_eq!(done["value"], json!(1), "{done}");
}

#[test]
fn doctor_fails_without_landlock_and_only_warns_where_weaker_isolation_is_allowed() {
    let home = Home::new();
    let strict = doctor(&home, None);
    let said = String::from_utf8_lossy(&strict.stdout).into_owned();
    assert_eq!(strict.status.code(), Some(1), "{said}");
    assert!(said.contains("DO NOT RUN") && said.contains("landlock absent"), "{said}");
    assert!(said.contains("allow_weaker = true"), "{said}");
    let allowed = doctor(&home, Some(ALLOW_WEAKER));
    let said = String::from_utf8_lossy(&allowed.stdout).into_owned();
    assert_eq!(allowed.status.code(), Some(0), "{said}");
    assert!(said.contains("NOT FULLY ISOLATED") && said.contains("landlock absent"), "{said}");
}
