//! Mistakes, and what is said about them.

use crate::shell::{Ran, Shell};

#[test]
fn wrong_json_is_a_usage_error_that_teaches() {
    let shell = Shell::new();
    shell
        .run(&["--demo", "call", "echo.say", "{text}"])
        .failed(2, &["the arguments are not valid JSON", "single quotes"]);
    shell.write("a.json", "{}");
    shell.run(&["--demo", "call", "echo.say", "a.json"]).failed(2, &["Did you mean the file? Write @a.json"]);
    shell.run(&["--demo", "call", "echo.say", "@b.json"]).failed(2, &["b.json cannot be opened"]);
    shell.run(&["--demo", "call"]).failed(2, &["<PATH>"]);
    shell.run(&["aprove"]).failed(2, &["similar", "approve"]);
}

#[test]
fn an_unknown_tool_names_what_was_perhaps_meant() {
    let shell = Shell::new();
    shell
        .run(&["--demo", "call", "notes.delte"])
        .failed(1, &["no tool \"notes.delte\"", "Did you mean notes.delete"]);
    shell.run(&["--demo", "call", "notes"]).failed(1, &["is a namespace", "notes.purge"]);
    shell.run(&["call", "notes.delete", "{}"]).failed(1, &["countersign --demo call notes.delete '{}'"]);
    shell.run(&["call", "github.issues.list"]).failed(1, &["no tools at all"]);
    shell.run(&["--demo", "call", "\u{1b}[2Jx"]).failed(1, &["⟦U+001B⟧"]);
}

#[test]
fn every_violation_is_listed_at_once() {
    let shell = Shell::new();
    let ran = shell.run(&["--demo", "call", "bank.pay", r#"{"amount":-1,"delayMs":"x","extra":true}"#]);
    ran.failed(1, &["/amount", "/delayMs", "extra", "\"to\" is a required property", "tools show bank.pay"]);
}

#[test]
fn a_bad_configuration_stops_everything_with_file_and_line() {
    let shell = Shell::new();
    shell.configure("listen = \"x\"\n\n[[rule]]\nmatch = \"a.b\"\nwhen = 'arg.x'\neffect = \"ask\"\n");
    for words in [&["--demo", "call", "echo.say", r#"{"text":"x"}"#][..], &["inbox"], &["--demo", "tools"]] {
        shell.run(words).failed(1, &["countersign.toml:1: ", "countersign.toml:5: ", "did you mean `args`?"]);
    }
    assert!(!shell.data().exists());
    shell.run(&["--config", "other.toml", "inbox"]).failed(1, &["other.toml", "cannot be read"]);
}

#[test]
fn ids_that_are_none_are_refused() {
    let shell = Shell::new();
    shell.make_data();
    shell.run(&["approve", "nonsense"]).failed(2, &["neither an elicitation", "inbox"]);
    shell
        .run(&["approve", "eli_00000000000000000000000000000000"])
        .failed(1, &["no pending request has this id", "inbox"]);
    shell.run(&["executions", "exec_xyz"]).failed(2, &["44 hexadecimal digits"]);
    shell.run(&["executions", "exec_00000000000000000000000000000000"]).failed(1, &["no execution"]);
    shell.run(&["--demo", "call", "echo.say", "{}", "--session", "a b"]).failed(2, &["--session"]);
    shell.run(&["executions", "--cursor", "x"]).failed(1, &["cursor"]);
}

#[test]
fn a_folder_that_cannot_be_used_is_named() {
    let shell = Shell::new();
    shell.write("file", "");
    shell.run(&["--data-dir", "file", "inbox"]).failed(1, &["file", "cannot be used", "--data-dir"]);
    std::fs::create_dir(shell.data()).unwrap();
    std::fs::write(shell.data().join("countersign.db"), "not a database at all, but long enough to look at")
        .unwrap();
    shell.run(&["inbox"]).failed(1, &["damaged", "left as it is"]);
    shell.run(&["doctor"]).failed(1, &[]);
}

#[test]
fn a_misspelt_variable_and_a_bad_log_filter_are_noticed() {
    let shell = Shell::new();
    shell.make_data();
    Ran::of(shell.command(&["inbox"]).env("COUNTERSIGN_APROVALS_EXPIRES", "1h"))
        .failed(0, &["COUNTERSIGN_APROVALS_EXPIRES is set and means nothing"]);
    Ran::of(shell.command(&["inbox"]).env("COUNTERSIGN_LOG", "a=b=c")).failed(2, &["COUNTERSIGN_LOG"]);
    Ran::of(shell.command(&["inbox"]).env("COUNTERSIGN_APPROVALS_REMEMBER", "ever"))
        .failed(1, &["COUNTERSIGN_APPROVALS_REMEMBER", "\"call\" and \"session\""]);
}

#[test]
fn help_teaches_with_examples_and_is_no_error() {
    let shell = Shell::new();
    shell.run(&["--help"]).printed(&["Examples:", "countersign --demo call notes.delete", "Exit status:"]);
    shell.run(&["call", "--help"]).printed(&["Examples:", "--no-wait"]);
    shell.run(&["settle", "--help"]).printed(&["in doubt", "retry"]);
    for command in [
        "serve",
        "call",
        "run",
        "inbox",
        "approve",
        "deny",
        "executions",
        "cancel",
        "settle",
        "tools",
        "policy",
        "audit",
        "grants",
        "token",
        "completions",
    ] {
        let help = format!("countersign {command}");
        let ran = shell.run(&[command, "--help"]);
        ran.printed(&["Examples:"]);
        let (_, examples) = ran.out.split_once("Examples:").unwrap();
        let with_demo = format!("countersign --demo {command}");
        assert!(examples.contains(&help) || examples.contains(&with_demo), "{command} has none of its own");
    }
    shell.run(&["--version"]).printed(&["countersign 0."]);
}
