//! `call`: what flows through and what pauses.

use serde_json::json;

use crate::shell::{Ran, Shell, with_and_without_a_server};

with_and_without_a_server! {
    a_safe_tool_runs_and_its_value_is_all_that_is_printed,
    arguments_come_from_the_line_a_file_or_standard_input,
    a_destructive_tool_pauses_and_the_words_say_how_to_go_on,
    sessions_keep_their_approvals_to_themselves,
    an_agent_cannot_take_the_name_of_the_terminals_session,
    the_demo_bank_asks_only_for_large_transfers,
}

fn a_safe_tool_runs_and_its_value_is_all_that_is_printed(shell: &Shell) {
    let ran = shell.run(&["--quiet", "--demo", "call", "echo.say", r#"{"text":"hi"}"#]);
    assert_eq!((ran.status, ran.err.as_str()), (0, ""));
    assert_eq!(serde_json::from_str::<serde_json::Value>(&ran.out).unwrap(), json!({ "text": "hi" }));
}

fn arguments_come_from_the_line_a_file_or_standard_input(shell: &Shell) {
    shell.write("a.json", r#"{"text":"from a file"}"#);
    shell.run(&["--demo", "call", "echo.say", "@a.json"]).printed(&["from a file"]);
    let mut command = shell.command(&["--demo", "call", "echo.say", "-"]);
    let file = std::fs::File::open(shell.folder().join("a.json")).unwrap();
    Ran::of(command.stdin(file)).printed(&["from a file"]);
}

fn a_destructive_tool_pauses_and_the_words_say_how_to_go_on(shell: &Shell) {
    shell.run(&["--demo", "call", "notes.add", r#"{"title":"Milk"}"#]).printed(&["Milk"]);
    let ran = shell.run(&["--demo", "call", "notes.delete", r#"{"id":1}"#]);
    assert_eq!(ran.status, 0, "{ran:?}");
    let result: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    for (field, expected) in [
        ("status", json!("paused")),
        ("success", json!(false)),
        ("value", json!(null)),
        ("error", json!(null)),
        ("calls", json!([{ "path": "notes.delete", "args": { "id": 1 }, "status": "asked" }])),
        ("logs", json!([])),
    ] {
        assert_eq!(result[field], expected, "{field}");
    }
    let paused = &result["paused"];
    assert_eq!(paused["message"], "Permanently delete note \"1\"? This cannot be undone.");
    assert_eq!(
        (&paused["toolPath"], &paused["type"], &paused["args"]),
        (&json!("notes.delete"), &json!("approval"), &json!({ "id": 1 }))
    );
    assert_eq!(paused["executionId"], result["executionId"]);
    assert_eq!(result["pending"], json!([paused]));
    let approve = format!("countersign --demo approve {}", paused["elicitationId"].as_str().unwrap());
    assert!(ran.err.contains(&approve), "{}", ran.err);
    shell.run(&["--demo", "call", "notes.list"]).printed(&["Milk"]);
}

#[test]
fn policy_from_the_file_decides() {
    let shell = Shell::new();
    shell.configure(
        "[[rule]]\nmatch = \"bank.pay\"\nwhen = 'args.amount > 100'\neffect = \"deny\"\nreason = \"Too much.\"\n\
         [[rule]]\nmatch = \"bank.pay\"\neffect = \"allow\"\n",
    );
    let denied = shell.run(&["--demo", "call", "bank.pay", r#"{"to":"ann","amount":101}"#]);
    denied.failed(3, &["denied", "Too much."]);
    shell.run(&["--demo", "call", "bank.pay", r#"{"to":"ann","amount":99}"#]).printed(&["\"id\": 1"]);
    let ledger = shell.json(&["--demo", "call", "bank.ledger"]);
    assert_eq!(ledger["value"]["transfers"].as_array().unwrap().len(), 1);
}

fn sessions_keep_their_approvals_to_themselves(shell: &Shell) {
    let (_, elicitation) = shell.paused("notes.delete", r#"{"id":1}"#);
    shell.approve(&elicitation, &["--remember", "session"]).failed(1, &["There is no note 1"]);
    shell.run(&["--demo", "call", "notes.delete", r#"{"id":2}"#]).failed(1, &["There is no note 2"]);
    let other = shell.json(&["--demo", "call", "notes.delete", r#"{"id":2}"#, "--session", "ses_other"]);
    assert_eq!(other["status"], "paused");
}

fn an_agent_cannot_take_the_name_of_the_terminals_session(shell: &Shell) {
    let local = ["--demo", "call", "notes.list", "--session", "ses_local"];
    shell.run(&[&local[..], &["--as", "agent"]].concat()).failed(1, &["no such session", "--session"]);
    shell.run(&local).printed(&[]);
    shell.run(&[&local[..], &["--as", "agent"]].concat()).failed(1, &["no such session", "--session"]);
}

fn the_demo_bank_asks_only_for_large_transfers(shell: &Shell) {
    let small = shell.json(&["--demo", "call", "bank.transfer", r#"{"to":"ann","amount":10000}"#]);
    assert_eq!(small["value"]["amount"], 10000);
    let (execution, _) = shell.paused("bank.transfer", r#"{"to":"bob","amount":10000.01}"#);
    let ledger = shell.json(&["--demo", "call", "bank.ledger"]);
    assert_eq!(ledger["value"]["transfers"].as_array().unwrap().len(), 1);
    let done = shell.approved(&execution);
    assert_eq!(done["value"], json!({ "id": 2, "to": "bob", "amount": 10000.01, "executionId": execution }));
    shell.paused("bank.transfer", r#"{"to":"bob","amount":30000}"#);
}
