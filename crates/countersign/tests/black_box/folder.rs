//! What a server leaves in its data folder, and who else may use that.

use std::os::unix::fs::PermissionsExt as _;

use crate::server::{Home, read_token};

#[test]
fn the_first_start_writes_tokens_that_only_their_owner_reads_and_later_ones_keep_them() {
    let mut home = Home::served();
    for name in ["admin.token", "agent.token", "seal.key"] {
        let mode = home.data().join(name).metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{name}");
    }
    let tokens = [read_token(&home.data(), "admin"), read_token(&home.data(), "agent")];
    assert!(tokens.iter().all(|token| token.len() >= 32) && tokens[0] != tokens[1]);
    home.kill();
    home.start();
    assert_eq!(tokens, [read_token(&home.data(), "admin"), read_token(&home.data(), "agent")]);
}

#[test]
fn a_second_server_on_the_same_folder_is_refused_with_a_word_on_what_to_do() {
    let home = Home::served();
    let before = std::fs::read(home.data().join("server.json")).unwrap();
    let second = home.run(&["--demo", "serve", "--listen", "127.0.0.1:0"]);
    let said = String::from_utf8(second.stderr).unwrap();
    assert_eq!(second.status.code(), Some(1), "{said}");
    assert!(said.contains(&format!("already running at {} (pid ", home.url)), "{said}");
    assert_eq!(
        std::fs::read(home.data().join("server.json")).unwrap(),
        before,
        "the notice is the first one's"
    );
    assert!(home.run(&["tools"]).status.success(), "the first one serves on");
}

#[test]
fn a_clean_stop_takes_the_notice_along() {
    let mut home = Home::served();
    let notice = home.data().join("server.json");
    assert!(notice.exists());
    assert_eq!(home.terminate().code(), Some(0));
    assert!(!notice.exists());
}

#[test]
fn a_notice_that_a_killed_server_left_behind_stops_no_command() {
    let mut home = Home::served();
    let called = home.run(&["--demo", "call", "bank.pay", r#"{"to":"ann","amount":5}"#, "--json"]);
    let result: serde_json::Value = serde_json::from_slice(&called.stdout).unwrap();
    let execution = result["executionId"].as_str().unwrap().to_owned();
    home.kill();
    assert!(home.data().join("server.json").exists(), "nobody was there to remove it");
    let inbox = home.run(&["--demo", "inbox", "--json"]);
    let text = String::from_utf8_lossy(&inbox.stdout).into_owned();
    assert!(
        inbox.status.success() && text.contains(&execution),
        "{text} {}",
        String::from_utf8_lossy(&inbox.stderr)
    );
    let listed: serde_json::Value = serde_json::from_str(&text).unwrap();
    let digest = listed["items"][0]["digest"].as_str().unwrap();
    let approved = home.run(&["--demo", "approve", &execution, "--yes", "--digest", digest]);
    assert!(approved.status.success(), "{}", String::from_utf8_lossy(&approved.stderr));
    home.start();
    let ledger = home.run(&["call", "bank.ledger", "--json"]);
    let ledger = String::from_utf8_lossy(&ledger.stdout).into_owned();
    assert_eq!(ledger.matches(&execution).count(), 1, "{ledger}");
}
