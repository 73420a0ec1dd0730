//! Which server or folder a command asks, and that it says so.

use std::io::BufRead as _;
use std::process::Stdio;

use serde_json::json;

use crate::shell::{Process, Ran, Shell};

const PAY: &str = r#"{"to":"ann","amount":5}"#;
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

/// The commands that ask no server: they are one, look at one as such, or need none.
const ASK_NONE: &[&str] = &["demo", "serve", "doctor", "mcp", "completions", "help"];

/// Every other command, each with what it is about. Some find nothing to do, after they said where they looked.
fn askers(execution: &str, question: &str) -> Vec<Vec<String>> {
    let of_question = ["approve", "deny"].map(|command| format!("{command} {question}"));
    let of_execution =
        ["executions {}", "settle {} 0 --as failed", "cancel {}"].map(|line| line.replace("{}", execution));
    let lines = [
        "call echo.say {\"text\":\"x\"}",
        "run script.ts",
        "inbox",
        "inbox --json",
        "executions",
        "tools",
        "tools show echo.say",
        "tools show --types echo",
        "source list",
        "source show files",
        "source refresh files",
        "source accept files --yes --digest 00",
        "source remove files",
        "source add openapi files nothing.json",
        "policy explain echo.say {\"text\":\"x\"}",
        "audit tail --no-follow",
        "audit verify",
        "audit export",
        "grants list",
        "grants clear",
        "token list",
        "token create --role agent --name x",
        "token revoke tok_00000000000000000000000000000000",
        "user list",
        "user add ann",
        "user disable ann",
        "user enable ann",
        "user invite ann",
        "login",
    ];
    let lines = lines.into_iter().chain(of_question.iter().chain(&of_execution).map(String::as_str));
    lines.map(|line| line.split(' ').map(str::to_owned).collect()).collect()
}

/// Runs each of them, and looks for what says where it looked.
fn each_says(shell: &Shell, line: impl Fn(&str) -> String) {
    shell.write("script.ts", "return 1;");
    shell.write("nothing.json", "{}");
    let (execution, question) = shell.paused("bank.pay", PAY);
    for words in askers(&execution, &question) {
        let words: Vec<&str> = ["--demo"].into_iter().chain(words.iter().map(String::as_str)).collect();
        let ran = shell.run(&words);
        assert_eq!(ran.err.matches(&line(words[1])).count(), 1, "{words:?}: {ran:?}");
        let quiet = shell.run(&[&["--quiet"], &words[..]].concat());
        for said in ["Asking", "Working directly", "No server runs for"] {
            assert!(!quiet.err.contains(said), "{words:?}: {quiet:?}");
        }
    }
}

#[test]
fn every_command_says_which_server_it_asked_and_quiet_does_not() {
    let shell = Shell::served();
    let line = format!("Asking the server at {} (data folder {}).", shell.url(), shell.data().display());
    each_says(&shell, |_| line.clone());
    let token = std::fs::read_to_string(shell.data().join("admin.token")).unwrap();
    let mut command = shell.command(&["inbox"]);
    let given = Ran::of(command.env("COUNTERSIGN_URL", shell.url()).env("COUNTERSIGN_TOKEN", token.trim()));
    given.failed(0, &[&format!("Asking the server at {} (COUNTERSIGN_URL).", shell.url())]);
}

#[test]
fn without_a_server_every_command_says_which_folder_it_worked_on() {
    let shell = Shell::new();
    let folder = shell.data().display().to_string();
    each_says(&shell, |command| match command {
        "tools" | "policy" => {
            format!(
                "No server runs for the data folder {folder}; showing this program's own tools and rules."
            )
        }
        _ => format!("Working directly on the data folder {folder} (no server runs)."),
    });
}

#[test]
fn no_command_is_left_out_of_those_that_say_it() {
    let help = Shell::new().run(&["--help"]).out;
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let commands: Vec<&str> =
        listed.map_while(|line| line.strip_prefix("  ")).filter_map(|line| line.split(' ').next()).collect();
    assert!(commands.len() > 20, "{help}");
    let askers = askers("exec_1", "eli_1");
    for command in commands.into_iter().filter(|command| !command.is_empty()) {
        let asks = askers.iter().any(|words| words[0] == command);
        assert_ne!(asks, ASK_NONE.contains(&command), "{command} is in one of the two lists");
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
        &["grants", "clear"],
        &["token", "list"],
        &["token", "revoke", "tok_1"],
        &["user", "list"],
        &["user", "disable", "ann"],
        &["user", "enable", "ann"],
        &["user", "invite", "ann"],
        &["source", "list"],
        &["source", "show", "files"],
        &["source", "refresh", "files"],
        &["source", "accept", "files"],
        &["source", "remove", "files"],
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
fn what_keeps_something_new_makes_the_folder_as_the_server_would() {
    let list = json!({ "operationId": "issues/list", "responses": { "200": { "description": "all" } } });
    let document = json!({
        "openapi": "3.1.0",
        "info": { "title": "Issues", "version": "1" },
        "servers": [{ "url": "https://api.example.com" }],
        "paths": { "/issues": { "get": list } },
    });
    for words in [
        &["token", "create", "--role", "agent", "--name", "x"][..],
        &["user", "add", "ann"],
        &["source", "add", "openapi", "github", "github.json"],
        &[
            "source",
            "add",
            "graphql",
            "github",
            "https://api.example.com/graphql",
            "--schema",
            "github.graphql",
        ],
    ] {
        let shell = Shell::new();
        shell.write("github.json", &document.to_string());
        shell.write("github.graphql", "type Query { issues: [String] }");
        assert!(!shell.data().exists());
        shell.run(words).failed(0, &[]);
        assert!(shell.data().join("admin.token").exists(), "{words:?}");
        shell.run(&["token", "list"]).printed(&["admin.token"]);
        if words[0] == "source" {
            shell.run(&["source", "list"]).printed(&["github"]);
        }
    }
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
    assert!(!doctor.out.contains("= 3h"), "the file as it is now is not in force: {}", doctor.out);
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
