//! Commands beside a server: tokens, addresses, and what the doctor says of it.

use serde_json::json;

use crate::shell::{Ran, Shell};

const PAY: &str = r#"{"to":"ann","amount":5}"#;

/// Runs a command as somebody elsewhere: with an address and a token, and without the data folder.
fn as_bearer(shell: &Shell, token: &str, words: &[&str]) -> Ran {
    let elsewhere = shell.folder().join("elsewhere");
    let mut command = shell.command(words);
    command.env("COUNTERSIGN_DATA_DIR", elsewhere);
    Ran::of(command.env("COUNTERSIGN_URL", shell.url()).env("COUNTERSIGN_TOKEN", token))
}

fn token(shell: &Shell, role: &str) -> String {
    let ran = shell.run(&["token", "create", "--role", role, "--name", role]);
    ran.failed(0, &["The secret is shown once", "token revoke tok_"]);
    assert_eq!(ran.out.lines().count(), 1, "the secret stands alone: {}", ran.out);
    ran.out.trim().to_owned()
}

#[test]
fn commands_find_the_server_of_their_data_folder_and_leave_it_running() {
    let shell = Shell::served();
    shell.run(&["tools"]).printed(&["bank.pay", "notes.list"]);
    let (execution, _) = shell.paused("bank.pay", PAY);
    shell.approve(&execution, &[]).printed(&["\"to\": \"ann\""]);
    shell
        .run(&["serve", "--listen", "127.0.0.1:0"])
        .failed(1, &[&format!("already running at {} (pid ", shell.url()), "Console: `countersign login`."]);
    shell.run(&["inbox"]).printed(&["Nothing waits"]);
}

#[test]
fn an_agents_token_calls_and_never_decides() {
    let shell = Shell::served();
    let agent = token(&shell, "agent");
    let ran = as_bearer(&shell, &agent, &["call", "bank.pay", PAY, "--json"]);
    let result: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let id = result["paused"]["elicitationId"].as_str().unwrap();
    let approve = shell.approval(id, &[]);
    let approve: Vec<&str> = approve.iter().map(String::as_str).collect();
    for words in [&approve[..], &["deny", id]] {
        as_bearer(&shell, &agent, words).failed(1, &["may not decide"]);
    }
    for words in
        [&["audit", "tail"][..], &["token", "list"], &["token", "create", "--role", "admin", "--name", "x"]]
    {
        assert_eq!(as_bearer(&shell, &agent, words).status, 1, "{words:?}");
    }
    assert_eq!(shell.json(&["executions", result["executionId"].as_str().unwrap()])["status"], "paused");
    let approver = token(&shell, "approver");
    as_bearer(&shell, &approver, &approve).printed(&["\"to\": \"ann\""]);
}

#[test]
fn an_agent_sees_its_own_and_nothing_else() {
    let shell = Shell::served();
    let (execution, _) = shell.paused("bank.pay", PAY);
    let agent = token(&shell, "agent");
    as_bearer(&shell, &agent, &["executions", &execution]).failed(1, &["no execution"]);
    as_bearer(&shell, &agent, &["inbox"]).printed(&["Nothing waits"]);
    let own = shell.json(&["inbox"])["items"][0]["sessionId"].as_str().unwrap().to_owned();
    as_bearer(&shell, &agent, &["call", "echo.say", r#"{"text":"x"}"#, "--session", &own])
        .failed(1, &["no such session", "--session"]);
}

#[test]
fn a_revoked_token_is_refused_at_once() {
    let shell = Shell::served();
    let agent = token(&shell, "agent");
    as_bearer(&shell, &agent, &["tools"]).printed(&["bank.pay"]);
    let tokens = shell.json(&["token", "list"]);
    let row = tokens["items"].as_array().unwrap().iter().find(|token| token["name"] == "agent").unwrap();
    assert!(!tokens.to_string().contains(&agent), "no list shows a secret");
    let id = row["tokenId"].as_str().unwrap();
    shell.run(&["token", "revoke", id]).failed(0, &["revoked"]);
    as_bearer(&shell, &agent, &["tools"]).failed(1, &["revoked", "COUNTERSIGN_TOKEN"]);
    shell.run(&["token", "list"]).printed(&["admin.token", "agent.token", "good", "revoked"]);
    shell
        .run(&["token", "revoke", "tok_00000000000000000000000000000000"])
        .failed(1, &["no token", "token list"]);
    shell.run(&["token", "create", "--role", "king", "--name", "x"]).failed(2, &["approver"]);
    shell.run(&["token", "create", "--role", "agent", "--name", ""]).failed(1, &["name"]);
}

#[test]
fn tokens_are_made_without_a_server_too() {
    let shell = Shell::new();
    let secret = token(&shell, "agent");
    assert!(secret.len() >= 32 && !secret.contains(' '), "{secret}");
    let tokens = shell.json(&["token", "list"]);
    let names: Vec<&str> =
        tokens["items"].as_array().unwrap().iter().map(|token| token["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["admin.token", "agent.token", "agent"]);
}

#[test]
fn a_server_that_is_not_there_is_named() {
    let shell = Shell::new();
    let away = |words: &[&str]| {
        let mut command = shell.command(words);
        Ran::of(command.env("COUNTERSIGN_URL", "http://127.0.0.1:1").env("COUNTERSIGN_TOKEN", "x"))
    };
    for words in [&["inbox"][..], &["tools"], &["call", "echo.say"], &["approve", &format!("eli_{:032}", 0)]]
    {
        away(words)
            .failed(1, &["no server answers at http://127.0.0.1:1", "countersign serve", "COUNTERSIGN_URL"]);
    }
    let ran = away(&["doctor"]);
    assert!(ran.status == 1 && ran.out.contains("no server answers"), "{ran:?}");
    let mut command = shell.command(&["inbox"]);
    Ran::of(command.env("COUNTERSIGN_URL", "http://127.0.0.1:1"))
        .failed(1, &["no token", "COUNTERSIGN_TOKEN"]);
    let mut command = shell.command(&["inbox"]);
    Ran::of(command.env("COUNTERSIGN_URL", "gate").env("COUNTERSIGN_TOKEN", "x")).failed(2, &["no address"]);
}

#[test]
fn a_proxy_in_the_environment_is_not_asked_about_this_machine() {
    let shell = Shell::served();
    let mut command = shell.command(&["tools"]);
    for name in ["http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"] {
        command.env(name, "http://127.0.0.1:1");
    }
    Ran::of(&mut command).printed(&["bank.pay"]);
}

#[test]
fn the_doctor_says_which_server_runs_and_who_you_are() {
    let shell = Shell::served();
    shell.paused("bank.pay", PAY);
    shell.run(&["doctor"]).printed(&[
        &shell.url(),
        "runs for this data folder",
        "ready",
        "admin",
        "admin.token is there",
        "1 waiting",
        "unbroken",
        "mcp install",
    ]);
    assert_eq!(shell.json(&["doctor"])["ok"], json!(true));
}

#[cfg(unix)]
#[test]
fn a_token_that_others_may_read_is_noticed() {
    use std::os::unix::fs::PermissionsExt as _;
    let shell = Shell::new();
    shell.make_data();
    let file = shell.data().join("admin.token");
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    shell.run(&["doctor"]).printed(&["admin.token (mode 644)", "chmod 600"]);
}

#[test]
fn lists_of_any_length_are_whole() {
    let shell = Shell::served();
    shell.write(
        "many.ts",
        "for (let i = 0; i < 205; i++) tools.bank.pay({ to: 'ann', amount: i + 1 }); await sleep(600000);",
    );
    let begun = shell.json(&["run", "many.ts", "--no-wait"]);
    assert_eq!(begun["status"], "paused", "{begun}");
    let waiting = || shell.json(&["inbox"])["items"].as_array().unwrap().len();
    let all_there = (0..100).any(|_| waiting() == 205);
    assert!(all_there, "only {} wait", waiting());
    shell.run(&["inbox"]).printed(&["205 wait for a person"]);
    let exported = shell.run(&["audit", "export"]);
    exported.printed(&["\"seq\":1,", "\"seq\":205,"]);
    let verified = shell.json(&["audit", "verify"]);
    assert_eq!(exported.out.lines().count() as u64, verified["records"].as_u64().unwrap());
}

#[test]
fn completions_are_printed_for_every_shell() {
    let shell = Shell::new();
    for name in ["bash", "zsh", "fish"] {
        shell.run(&["completions", name]).printed(&["countersign", "approve", "remember"]);
    }
    shell.run(&["completions", "--help"]).printed(&["bash-completion"]);
}
