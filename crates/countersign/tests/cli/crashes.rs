//! Processes that are killed, and two at once.

use std::process::Child;
use std::time::Duration;

use serde_json::json;

use crate::shell::Shell;

const SLOW: &str = r#"{"to":"ann","amount":5,"delayMs":60000}"#;

/// Starts an approval whose handler takes a minute, and waits until it runs.
fn running_handler(shell: &Shell, elicitation: &str) -> Child {
    let child = shell.start(&["--demo", "approve", elicitation]);
    for _ in 0..400 {
        let started = rusqlite::Connection::open(shell.data().join("countersign.db"))
            .and_then(|db| db.query_row("SELECT count(*) FROM journal WHERE body LIKE '%callStarted%'", [], |row| row.get::<_, u64>(0)));
        if started.is_ok_and(|number| number > 0) {
            return child;
        }
        std::thread::sleep(Duration::from_millis(25));
    }
    panic!("the handler never started");
}

#[test]
fn a_pause_survives_its_process_and_a_second_process_is_told_to_wait() {
    let shell = Shell::new();
    let (execution, elicitation) = shell.paused("bank.pay", SLOW);
    let mut child = running_handler(&shell, &elicitation);
    let pid = child.id().to_string();
    for words in [&["inbox"][..], &["executions"], &["--demo", "call", "echo.say", r#"{"text":"x"}"#], &["audit", "verify"]] {
        shell.run(words).failed(1, &["is in use by process", &pid]);
    }
    let in_use = shell.json(&["inbox"]);
    assert_eq!(in_use["error"]["code"], "data_folder_in_use");
    shell.run(&["--demo", "tools", "pay"]).printed(&["bank.pay"]);
    shell.run(&["doctor"]).printed(&["is in use by process"]);

    child.kill().unwrap();
    child.wait().unwrap();
    shell.run(&["executions", &execution]).printed(&["in doubt", "settle"]);
    shell.run(&["--demo", "approve", &elicitation]).failed(1, &["in doubt", "It will not run again by itself"]);
    assert_eq!(shell.json(&["--demo", "call", "bank.ledger"])["value"]["transfers"], json!([]));
    assert_eq!(shell.json(&["executions", &execution])["status"], "in_doubt");
}

#[test]
fn a_doubt_is_settled_by_a_person_in_one_of_three_ways() {
    let shell = Shell::new();
    let in_doubt = || {
        let (execution, elicitation) = shell.paused("bank.pay", SLOW);
        let before = shell.json(&["executions", &execution])["journal"].as_array().unwrap().len();
        let mut child = shell.start(&["--demo", "approve", &elicitation]);
        // The folder is the child's while it lives, so there is only its own clock to go by.
        std::thread::sleep(Duration::from_millis(1_500));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(shell.json(&["executions", &execution])["journal"].as_array().unwrap().len() > before);
        execution
    };
    let failed = in_doubt();
    shell.run(&["settle", &failed, "0", "--as", "failed", "--value", "1"]).failed(2, &["--value belongs to --as done"]);
    shell.run(&["settle", &failed, "7", "--as", "failed"]).failed(1, &["no such call"]);
    let ran = shell.run(&["settle", &failed, "0", "--as", "failed", "--reason", "the bank shows nothing"]);
    ran.failed(0, &["settled_as_failed", "the bank shows nothing"]);
    shell.run(&["settle", &failed, "0", "--as", "failed"]).failed(1, &["not in doubt"]);

    let done = in_doubt();
    shell.run(&["--demo", "settle", &done, "0", "--as", "done", "--value", "{}"]).failed(1, &["not what bank.pay gives"]);
    let value = format!(r#"{{"id":9,"to":"ann","amount":5,"executionId":"{done}"}}"#);
    shell.run(&["--demo", "settle", &done, "0", "--as", "done", "--value", &value]).printed(&["\"id\": 9"]);
    shell.run(&["executions", &done]).printed(&["found in doubt", "settled by local-operator as done"]);
    assert_eq!(shell.json(&["--demo", "call", "bank.ledger"])["value"]["transfers"], json!([]));
}

#[test]
fn what_was_approved_and_not_started_is_not_thrown_away_by_a_process_without_the_tool() {
    let shell = Shell::new();
    let (execution, elicitation) = shell.paused("bank.transfer", r#"{"to":"ann","amount":20000}"#);
    // As if the process had died right after the yes was recorded: the handler has not been told yet.
    let done = shell.json(&["--demo", "approve", &elicitation]);
    assert_eq!(done["status"], "succeeded");
    let database = rusqlite::Connection::open(shell.data().join("countersign.db")).unwrap();
    let cut = "DELETE FROM journal WHERE seq >= (SELECT min(seq) + 1 FROM journal WHERE body LIKE '%\"decided\"%')
               AND execution = (SELECT no FROM executions WHERE tool = 'bank.transfer')";
    let removed = database.execute(cut, []).unwrap();
    let version = "UPDATE executions SET version = version - ?1, status = 'running' WHERE tool = 'bank.transfer'";
    database.execute(version, [removed]).unwrap();
    drop(database);

    shell.run(&["call", "echo.say"]).failed(1, &["was interrupted", "bank.transfer", "--demo"]);
    shell.run(&["executions", &execution]).printed(&["goes on with the next call or decision"]);
    shell.run(&["doctor"]).printed(&["interrupted", "bank.transfer"]);
    shell.run(&["--demo", "call", "echo.say", r#"{"text":"x"}"#]).printed(&["x"]);
    let result = shell.json(&["executions", &execution]);
    assert_eq!(result["status"], "succeeded", "{result:#}");
}
