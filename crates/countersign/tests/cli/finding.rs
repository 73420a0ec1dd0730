//! Which server or folder a command asks, and that it says so.

use std::io::BufRead as _;
use std::process::Stdio;

use crate::shell::{Process, Ran, Shell};

const PAY: &str = r#"{"to":"ann","amount":5}"#;
const SHOWS: &[&[&str]] = &[
    &["inbox"],
    &["inbox", "--json"],
    &["executions"],
    &["audit", "tail", "--no-follow"],
    &["audit", "verify"],
    &["grants", "list"],
    &["token", "list"],
];

/// A command that is told no folder: it has the platform's, below the home.
fn usual(shell: &Shell, words: &[&str]) -> std::process::Command {
    let mut command = shell.command(words);
    command.env_remove("COUNTERSIGN_DATA_DIR");
    command
}

fn usual_folder(shell: &Shell) -> std::path::PathBuf {
    shell.folder().join(".local/share/countersign")
}

/// Starts the demo, and waits until it asks its first question.
fn demo(shell: &Shell) -> Process {
    let mut command = usual(shell, &["demo"]);
    let process = Process(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let folder = usual_folder(shell).join("demo");
    let inbox = || shell.run(&["--data-dir", folder.to_str().unwrap(), "inbox", "--json"]).out;
    for _ in 0..1_000 {
        if inbox().contains("notes.delete") {
            return process;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    panic!("the demo asks nothing: {}", inbox());
}

#[test]
fn every_command_says_which_server_it_asked_and_quiet_does_not() {
    let shell = Shell::served();
    let line = format!("Asking the server at {} (data folder {}).", shell.url(), shell.data().display());
    for words in SHOWS {
        shell.run(words).failed(0, &[&line]);
        let quiet = shell.run(&[&["--quiet"], *words].concat());
        assert_eq!(quiet.status, 0, "{quiet:?}");
        assert!(!quiet.err.contains("Asking"), "{quiet:?}");
    }
    let token = std::fs::read_to_string(shell.data().join("admin.token")).unwrap();
    let mut command = shell.command(&["inbox"]);
    let given = Ran::of(command.env("COUNTERSIGN_URL", shell.url()).env("COUNTERSIGN_TOKEN", token.trim()));
    given.failed(0, &[&format!("Asking the server at {} (COUNTERSIGN_URL).", shell.url())]);
}

#[test]
fn without_a_server_every_command_says_which_folder_it_worked_on() {
    let shell = Shell::new();
    shell.paused("bank.pay", PAY);
    let line = format!("Working directly on the data folder {} (no server runs).", shell.data().display());
    for words in SHOWS {
        shell.run(words).failed(0, &[&line]);
    }
}

#[test]
fn a_missing_folder_is_an_error_that_names_it_and_none_is_made() {
    let shell = Shell::new();
    let id = format!("_{:032x}", 1);
    let (execution, question) = (format!("exec{id}"), format!("eli{id}"));
    let commands: &[&[&str]] = &[
        &["inbox"],
        &["executions"],
        &["executions", &execution],
        &["approve", &question],
        &["deny", &execution],
        &["cancel", &execution],
        &["settle", &execution, "0", "--as", "failed"],
        &["audit", "tail"],
        &["audit", "verify"],
        &["audit", "export"],
        &["grants", "list"],
        &["login"],
    ];
    for words in commands {
        let ran = shell.run(words);
        ran.failed(1, &["there is no data folder", shell.data().to_str().unwrap(), "serve", "--data-dir"]);
        assert!(!shell.data().exists(), "{words:?} made one");
    }
    let json = shell.json(&["inbox"]);
    assert_eq!(json["error"]["code"], "no_data_folder", "{json}");
}

#[test]
fn the_inbox_finds_the_demos_server_and_approving_there_works() {
    let shell = Shell::new();
    let _demo = demo(&shell);
    let folder = usual_folder(&shell).join("demo");
    let inbox = Ran::of(&mut usual(&shell, &["inbox"]));
    inbox.failed(0, &["Asking the demo's server at http://127.0.0.1:", folder.to_str().unwrap()]);
    inbox.printed(&["notes.delete", "1 waits"]);
    let listed = Ran::of(&mut usual(&shell, &["inbox", "--json"]));
    let listed: serde_json::Value = serde_json::from_str(&listed.out).unwrap();
    let question = listed["items"][0]["elicitationId"].as_str().unwrap();
    Ran::of(&mut usual(&shell, &["deny", question])).failed(0, &["Denied"]);
}

#[test]
fn where_two_servers_run_the_data_folders_own_is_asked_and_the_other_named() {
    let shell = Shell::new();
    let _demo = demo(&shell);
    let mut own = usual(&shell, &["serve", "--listen", "127.0.0.1:0"]);
    let mut own = own.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut said = String::new();
    std::io::BufReader::new(own.stdout.take().unwrap()).read_line(&mut said).unwrap();
    let _own = Process(own);
    let url = said.trim().rsplit(' ').next().unwrap();
    let demo_folder = usual_folder(&shell).join("demo");
    Ran::of(&mut usual(&shell, &["inbox"])).failed(
        0,
        &[
            &format!("Asking the server at {url}"),
            "The demo's server runs too",
            demo_folder.to_str().unwrap(),
        ],
    );
}

#[test]
fn without_its_server_the_demos_folder_is_hinted_at() {
    let shell = Shell::new();
    drop(demo(&shell));
    let demo_folder = usual_folder(&shell).join("demo");
    Ran::of(&mut usual(&shell, &["inbox"])).failed(1, &["no server runs", demo_folder.to_str().unwrap()]);
}

#[test]
fn explaining_with_a_file_uses_that_file_beside_a_server_too() {
    let shell = Shell::served();
    shell.write("strict.toml", "[[rule]]\nmatch = \"**\"\neffect = \"deny\"\n");
    let explain = |words: &[&str]| {
        shell.json(&[words, &["--demo", "policy", "explain", "echo.say", r#"{"text":"x"}"#]].concat())
    };
    assert_eq!(explain(&[])["effect"], "allow", "the server's own rules");
    assert_eq!(explain(&["--config", "strict.toml"])["effect"], "deny");
    let mut command = shell.command(&["--demo", "policy", "explain", "echo.say", "--json"]);
    let ran = Ran::of(command.env("COUNTERSIGN_CONFIG", "strict.toml"));
    assert!(ran.out.contains("deny") && ran.err.contains("strict.toml"), "{ran:?}");
}

#[test]
fn the_doctor_reports_the_servers_configuration_and_what_a_shell_of_this_user_can_do() {
    let mut shell = Shell::new();
    shell.configure("[approvals]\nexpires = \"2h\"\nagent_may_decide = true\n");
    shell.serve();
    shell.configure("[approvals]\nexpires = \"3h\"\n");
    let doctor = shell.run(&["doctor"]);
    doctor.printed(&[
        "the server's: ",
        ".config/countersign/countersign.toml (SHA-256 ",
        "changed since the server started",
        "approvals.expires = 2h",
        "approvals.agent_may_decide = true",
        "Agents may decide what they themselves asked for",
    ]);
    assert!(!doctor.out.contains("3h"), "the file as it is now is not in force: {}", doctor.out);
    #[cfg(unix)]
    doctor.printed(&["can run `countersign approve`", "docs/security.md"]);
}

#[test]
fn a_file_of_the_current_folder_is_not_read() {
    let shell = Shell::new();
    shell.write("countersign.toml", "data_dir = \"evil\"\n[[rule]]\nmatch = \"**\"\neffect = \"allow\"\n");
    shell.paused("bank.pay", PAY);
    assert!(!shell.folder().join("evil").exists());
    let loaded = shell.run(&["audit", "export"]);
    assert!(
        loaded.out.contains("ConfigurationLoaded") && loaded.out.contains("built-in defaults"),
        "{loaded:?}"
    );
}

#[test]
fn each_start_records_the_file_its_digest_and_what_was_set() {
    let mut shell = Shell::new();
    shell.configure("[approvals]\nagent_may_decide = true\n");
    shell.serve();
    let export = shell.run(&["audit", "export"]).out;
    let loaded = export.lines().find(|line| line.contains("ConfigurationLoaded")).unwrap();
    // SHA-256 of the two lines above.
    let digest = countersign_core::digest::Digest::of(b"[approvals]\nagent_may_decide = true\n").to_string();
    for word in [
        ".config/countersign/countersign.toml",
        &digest,
        "approvals.agent_may_decide = ",
        "COUNTERSIGN_DATA_DIR",
    ] {
        assert!(loaded.contains(word), "{word} is not in {loaded}");
    }
    shell.kill_server();
    shell.serve();
    let export = shell.run(&["audit", "export"]).out;
    assert_eq!(export.matches("ConfigurationLoaded").count(), 2, "{export}");
}

#[test]
fn cancelling_withdraws_what_waits_and_ids_may_be_cut() {
    let shell = Shell::served();
    let (execution, _) = shell.paused("bank.pay", PAY);
    shell.run(&["executions", &execution[..12]]).printed(&[&execution, "paused"]);
    shell.run(&["cancel", &execution[..12]]).printed(&[&format!("Cancelled {execution}.")]);
    assert_eq!(shell.json(&["executions", &execution])["status"], "cancelled");
    shell.run(&["inbox"]).printed(&["Nothing waits"]);
    shell.run(&["cancel", &execution]).failed(1, &["error:"]);
    shell.run(&["cancel", "exec_00000000000000000000000000000000"]).failed(1, &["no execution"]);
    let ledger = shell.json(&["call", "bank.ledger"]);
    assert_eq!(ledger["value"]["transfers"], serde_json::json!([]), "it did not run");
}

#[test]
fn an_id_that_is_cut_too_short_lists_what_it_could_be() {
    let shell = Shell::served();
    let first = shell.paused("bank.pay", PAY);
    let second = shell.paused("bank.pay", r#"{"to":"bob","amount":6}"#);
    // Nothing but the prefix and one digit they share would be ambiguous, so that the whole list is asked for by both ways.
    let shared = |one: &str, other: &str| one.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
    for (one, other, command) in [(&first.0, &second.0, "cancel"), (&first.1, &second.1, "deny")] {
        let enough = shared(one, other) + 1;
        let both = &one[..enough - 1];
        if both.ends_with('_') {
            shell.run(&[command, both]).failed(2, &["hexadecimal"]);
        } else {
            shell.run(&[command, both]).failed(1, &["is not unique", one, other]);
        }
    }
    let enough = shared(&first.1, &second.1) + 1;
    shell.run(&["deny", &first.1[..enough]]).failed(0, &["Denied"]);
    shell.run(&["inbox"]).printed(&["1 waits", "bob"]);
    shell.run(&["deny", "eli_ffffffffffffffff"]).failed(1, &["no pending request begins with"]);
    shell.run(&["token", "revoke", "tok_ffffffffffffffff"]).failed(1, &["no token begins with"]);
}

#[test]
fn the_audits_tail_follows_until_it_is_stopped() {
    let shell = Shell::served();
    let mut child = shell.start(&["audit", "tail", "--lines", "1"]);
    let (sender, lines) = std::sync::mpsc::channel();
    let out = std::io::BufReader::new(child.stdout.take().unwrap());
    std::thread::spawn(move || out.lines().map_while(Result::ok).for_each(|line| drop(sender.send(line))));
    let patience = std::time::Duration::from_secs(60);
    let next = || lines.recv_timeout(patience).unwrap();
    assert!(next().starts_with("NO"), "a head first");
    next();
    let (execution, _) = shell.paused("bank.pay", PAY);
    while !next().contains(&execution) {}
    #[cfg(unix)]
    {
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0), "Ctrl-C is how it ends");
    }
    #[cfg(not(unix))]
    child.kill().unwrap();
}
