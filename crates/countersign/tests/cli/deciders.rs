//! Every command that decides, with every credential: only people get through, and the record names the user.

use std::time::Duration;

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
    let mut command = shell.command(&words.iter().map(String::as_str).collect::<Vec<_>>());
    // Somebody elsewhere: an address and a token, and no data folder whose admin token could be used.
    command.env("COUNTERSIGN_DATA_DIR", shell.folder().join("elsewhere"));
    Ran::of(command.env("COUNTERSIGN_URL", shell.url()).env("COUNTERSIGN_TOKEN", secret))
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
                (execution, elicitation) = shell.paused("bank.pay", PAY);
            } else {
                let answer = (ran.status, status.as_str().unwrap());
                assert_eq!(answer, (1, "paused"), "{holder:?} by {way:?}: {}{}", ran.out, ran.err);
            }
        }
    }
}
