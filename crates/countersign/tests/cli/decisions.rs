//! `inbox`, `approve`, `deny`: a person's word from another shell.

use serde_json::json;

use crate::shell::Shell;

#[test]
fn approve_runs_it_once_and_the_timeline_tells_the_story() {
    let shell = Shell::new();
    shell.run(&["--demo", "call", "notes.add", r#"{"title":"Milk"}"#]).printed(&["Milk"]);
    let (execution, elicitation) = shell.paused("notes.delete", r#"{"id":1}"#);
    shell.run(&["inbox"]).printed(&[
        &elicitation,
        "notes.delete",
        "This cannot be undone.",
        "1 waits for a person",
    ]);
    let inbox = shell.json(&["inbox"]);
    assert_eq!(inbox["items"][0]["elicitationId"], json!(elicitation));
    assert_eq!(inbox["items"][0]["requester"], "local-agent");

    let ran = shell.run(&["--demo", "approve", &elicitation, "--comment", "go on"]);
    ran.printed(&["\"deleted\": true"]);
    assert!(
        ran.err.contains("Approved. notes.delete") && ran.err.contains("Permanently delete note"),
        "{}",
        ran.err
    );
    shell.run(&["inbox"]).printed(&["Nothing waits"]);
    shell.run(&["executions"]).printed(&[&execution, "succeeded", "notes.delete"]);
    let story = [
        "the gate asked",
        "approved by local-operator through cli, saying \"go on\"",
        "let run",
        "succeeded",
    ];
    shell.run(&["executions", &execution]).printed(&story);
    let told = shell.json(&["executions", &execution]);
    assert_eq!((&told["status"], told["journal"].as_array().unwrap().len()), (&json!("succeeded"), 7));
    shell.run(&["--demo", "approve", &elicitation]).printed(&["\"deleted\": true"]);
    shell.run(&["--demo", "deny", &elicitation]).failed(1, &["decided already: approved by local-operator"]);
}

#[test]
fn deny_runs_nothing_and_tells_the_caller_why() {
    let shell = Shell::new();
    let (execution, _) = shell.paused("bank.pay", r#"{"to":"ann","amount":5}"#);
    let ran = shell.run(&["--demo", "deny", &execution, "--reason", "not today"]);
    assert_eq!(ran.status, 0, "{ran:?}");
    assert!(ran.err.contains("Denied. bank.pay"), "{}", ran.err);
    let told = shell.json(&["executions", &execution]);
    assert_eq!(told["error"]["code"], "denied");
    assert!(told["error"]["message"].as_str().unwrap().contains("not today"));
    assert_eq!(shell.json(&["--demo", "call", "bank.ledger"])["value"]["transfers"], json!([]));
    shell.run(&["--demo", "approve", &execution]).failed(1, &["decided already: denied"]);
}

#[test]
fn a_form_takes_data_that_fits() {
    let shell = Shell::new();
    let (_, elicitation) = shell.paused("stock.check", "{}");
    shell.run(&["inbox"]).printed(&["Which warehouse should I check?", "warehouseId", "--data"]);
    let approve = |data: &str| shell.run(&["--demo", "approve", &elicitation, "--data", data]);
    shell.run(&["--demo", "approve", &elicitation]).failed(1, &["warehouseId", "--data"]);
    approve(r#"{"warehouseId":7}"#).failed(1, &["7 is not of type \"string\""]);
    approve("{").failed(2, &["--data", "no JSON"]);
    approve(r#"{"warehouseId":"WH-7"}"#).printed(&["\"warehouseId\": \"WH-7\"", "\"units\""]);
    let (_, elicitation) = shell.paused("stock.check", "{}");
    shell.run(&["--demo", "deny", &elicitation]).printed(&["\"cancelled\": true"]);
}

#[test]
fn what_says_each_call_cannot_be_remembered() {
    let shell = Shell::new();
    let (_, elicitation) = shell.paused("bank.pay", r#"{"to":"ann","amount":5}"#);
    shell
        .run(&["--demo", "approve", &elicitation, "--remember", "session"])
        .failed(1, &["cannot be remembered"]);
    shell.run(&["--demo", "approve", &elicitation]).printed(&["\"to\": \"ann\""]);
    shell.paused("bank.pay", r#"{"to":"ann","amount":5}"#);
}

#[test]
fn without_the_tool_nothing_is_decided() {
    let shell = Shell::new();
    let (execution, elicitation) = shell.paused("bank.pay", r#"{"to":"ann","amount":5}"#);
    let again = format!("countersign --demo approve {elicitation}");
    shell.run(&["approve", &elicitation]).failed(1, &["bank.pay is not here", &again]);
    shell.run(&["deny", &execution]).failed(1, &["bank.pay is not here"]);
    assert_eq!(shell.json(&["executions", &execution])["status"], "paused");
    shell.run(&["--demo", "approve", &elicitation]).printed(&["\"to\": \"ann\""]);
}

#[test]
fn under_other_rules_nothing_is_approved() {
    let shell = Shell::new();
    let (execution, elicitation) = shell.paused("bank.pay", r#"{"to":"ann","amount":5}"#);
    shell.write("countersign.toml", "[[rule]]\nmatch = \"notes.*\"\neffect = \"deny\"\n");
    shell.run(&["--demo", "approve", &elicitation]).failed(1, &["other rules", "countersign.toml"]);
    assert_eq!(shell.json(&["executions", &execution])["status"], "paused");
    let (_, other) = shell.paused("bank.pay", r#"{"to":"bob","amount":5}"#);
    std::fs::remove_file(shell.folder().join("countersign.toml")).unwrap();
    shell.run(&["--demo", "approve", &elicitation]).printed(&["\"to\": \"ann\""]);
    shell.run(&["--demo", "deny", &other]).failed(0, &["Denied. bank.pay", "did not run"]);
    shell.run(&["inbox"]).printed(&["Nothing waits"]);
}

#[test]
fn what_nobody_decides_expires() {
    let shell = Shell::new();
    shell.write("countersign.toml", "[approvals]\nexpires = \"1s\"\n");
    let (execution, elicitation) = shell.paused("bank.pay", r#"{"to":"ann","amount":5}"#);
    std::thread::sleep(std::time::Duration::from_millis(1_200));
    shell.run(&["inbox"]).printed(&["Nothing waits", "1 more expired"]);
    assert_eq!(shell.json(&["inbox"])["items"], json!([]));
    shell.run(&["--demo", "approve", &elicitation]).failed(3, &["expired"]);
    assert_eq!(shell.json(&["executions", &execution])["error"]["code"], "expired");
    assert_eq!(shell.json(&["--demo", "call", "bank.ledger"])["value"]["transfers"], json!([]));
}
