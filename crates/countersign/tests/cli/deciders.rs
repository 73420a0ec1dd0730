//! Every command that decides, with every credential: only people get through, and the record names the user.

use std::time::Duration;

use countersign_core::audit::{AuditEntry, AuditRecord};
use countersign_core::digest::Digest;
use serde_json::Value;

use crate::crashes::{SLOW, running_handler};
use crate::shell::{Ran, Shell};

const PAY: &str = r#"{"to":"ann","amount":5}"#;

/// Whose token is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holder {
    Agent,
    AttendedAgent,
    Service,
    Worker,
    Revoked,
    Expired,
    OfDisabledUser,
    Approver,
    Admin,
}

const HOLDERS: [Holder; 9] = [
    Holder::Agent,
    Holder::AttendedAgent,
    Holder::Service,
    Holder::Worker,
    Holder::Revoked,
    Holder::Expired,
    Holder::OfDisabledUser,
    Holder::Approver,
    Holder::Admin,
];

/// How it tries to decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Approve,
    ApproveExecution,
    Deny,
    DenyExecution,
}

const WAYS: [Way; 4] = [Way::Approve, Way::ApproveExecution, Way::Deny, Way::DenyExecution];

/// A token of a user of its own, who is called as `{holder}-user`.
fn token(shell: &Shell, holder: Holder) -> String {
    let user = user_of(holder);
    let is_admin = holder == Holder::Admin;
    shell.run(&["user", "add", &user, "--role", if is_admin { "admin" } else { "approver" }]).failed(0, &[]);
    let how: &[&str] = match holder {
        Holder::Agent => &["--role", "agent"],
        Holder::AttendedAgent => &["--role", "agent", "--attended"],
        Holder::Service => &["--role", "service"],
        Holder::Worker => &["--role", "worker"],
        Holder::Expired => &["--role", "approver", "--expires", "1s"],
        Holder::Revoked | Holder::OfDisabledUser | Holder::Approver => &["--role", "approver"],
        Holder::Admin => &["--role", "admin"],
    };
    let name = format!("{holder:?}");
    let made = shell.run(&[&["token", "create", "--name", &name, "--user", &user], how].concat());
    made.failed(0, &[]);
    match holder {
        Holder::Revoked => {
            let tokens = shell.json(&["token", "list"]);
            let mut rows = tokens["items"].as_array().unwrap().iter();
            let id = rows.find(|row| row["name"] == name).unwrap()["tokenId"].as_str().unwrap();
            shell.run(&["token", "revoke", id]).failed(0, &[]);
        }
        Holder::Expired => std::thread::sleep(Duration::from_millis(1_500)),
        Holder::OfDisabledUser => shell.run(&["user", "disable", &user]).failed(0, &[]),
        _ => {}
    }
    made.out.trim().to_owned()
}

fn user_of(holder: Holder) -> String {
    format!("{holder:?}-user").to_lowercase()
}

fn attempt(shell: &Shell, secret: &str, execution: &str, elicitation: &str, way: Way) -> Ran {
    let words = match way {
        Way::Approve => shell.approval(elicitation, &[]),
        Way::ApproveExecution => shell.approval(execution, &[]),
        Way::Deny => vec!["deny".to_owned(), elicitation.to_owned()],
        Way::DenyExecution => vec!["deny".to_owned(), execution.to_owned()],
    };
    from_elsewhere(shell, secret, &words.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Runs a command as somebody who has an address and a token, and no data folder whose admin token could be used.
fn from_elsewhere(shell: &Shell, secret: &str, words: &[&str]) -> Ran {
    let mut command = shell.command(words);
    command.env("COUNTERSIGN_DATA_DIR", shell.folder().join("elsewhere"));
    Ran::of(command.env("COUNTERSIGN_URL", shell.url()).env("COUNTERSIGN_TOKEN", secret))
}

/// Who made this transition of an execution, as the audit says.
fn audited(shell: &Shell, what: &str, execution: &str) -> Vec<String> {
    let tail = shell.json(&["audit", "tail", "--no-follow", "-n", "1000"]);
    let entry = |record: &Value| AuditRecord {
        seq: record["seq"].as_u64().unwrap(),
        entry: record["entry"].to_string(),
        prev: Digest::ZERO,
        hash: Digest::ZERO,
    };
    let transitions = tail["items"].as_array().unwrap().iter().flat_map(|it| entry(it).parse().unwrap());
    let is_ours = |it: &AuditEntry| it.execution.is_some_and(|id| id.to_string() == execution);
    let ours = transitions.filter(|it| it.what == what && is_ours(it));
    ours.map(|it| it.by.map(|by| by.to_string()).unwrap_or_default()).collect()
}

fn id_of(shell: &Shell, name: &str) -> String {
    let users = shell.json(&["user", "list"]);
    let user = users["items"].as_array().unwrap().iter().find(|user| user["name"] == name).unwrap();
    user["userId"].as_str().unwrap().to_owned()
}

#[test]
fn only_people_decide_with_the_commands_and_the_record_names_the_user() {
    let shell = Shell::served();
    for holder in HOLDERS {
        let secret = token(&shell, holder);
        let (mut execution, mut elicitation) = shell.paused("bank.pay", PAY);
        for way in WAYS {
            let ran = attempt(&shell, &secret, &execution, &elicitation, way);
            let status = shell.json(&["executions", &execution])["status"].clone();
            if matches!(holder, Holder::Approver | Holder::Admin) {
                assert_ne!(status, "paused", "{holder:?} by {way:?}: {}", ran.err);
                let by = format!("by {}", user_of(holder));
                shell.run(&["executions", &execution]).printed(&[&by]);
                let user = id_of(&shell, &user_of(holder));
                assert_eq!(audited(&shell, "Decided", &execution), [user], "{holder:?} by {way:?}");
                (execution, elicitation) = shell.paused("bank.pay", PAY);
            } else {
                let answer = (ran.status, status.as_str().unwrap());
                assert_eq!(answer, (1, "paused"), "{holder:?} by {way:?}: {}{}", ran.out, ran.err);
                assert_eq!(audited(&shell, "Decided", &execution), [""; 0], "{holder:?} by {way:?}");
            }
        }
    }
}

#[test]
fn only_people_settle_log_in_and_invite_with_the_commands_and_the_record_names_the_user() {
    let mut shell = Shell::served();
    let (execution, elicitation) = shell.paused("bank.pay", SLOW);
    let approving = running_handler(&shell, &elicitation);
    shell.kill_server();
    approving.kill();
    shell.serve();
    assert_eq!(shell.json(&["executions", &execution])["status"], "in_doubt");
    let settle = ["settle", &execution, "0", "--as", "failed", "--reason", "it never arrived"];
    for holder in HOLDERS {
        let (secret, user) = (token(&shell, holder), user_of(holder));
        let is_person = matches!(holder, Holder::Approver | Holder::Admin);
        let login = from_elsewhere(&shell, &secret, &["login"]);
        let invite = from_elsewhere(&shell, &secret, &["user", "invite", &user]);
        for (ran, works) in [(&login, is_person), (&invite, holder == Holder::Admin)] {
            assert_eq!(ran.status, i32::from(!works), "{holder:?}: {ran:?}");
            assert_eq!(ran.out.contains("code="), works, "{holder:?}: {ran:?}");
        }
        if holder == Holder::Admin {
            // There is one call to settle, and the approver before has settled it.
            continue;
        }
        let ran = from_elsewhere(&shell, &secret, &settle);
        let status = shell.json(&["executions", &execution])["status"].clone();
        let settled: Vec<String> = if is_person { vec![id_of(&shell, &user)] } else { Vec::new() };
        assert_eq!(status, if is_person { "failed" } else { "in_doubt" }, "{holder:?}: {ran:?}");
        assert_eq!(audited(&shell, "DoubtSettled", &execution), settled, "{holder:?}: {ran:?}");
    }
    assert_eq!(shell.json(&["--demo", "call", "bank.ledger"])["value"]["transfers"], serde_json::json!([]));
}
