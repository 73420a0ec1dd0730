//! Processes that are killed, and two at once.

use std::time::Duration;

use countersign_core::commit::StoredCommit;
use countersign_core::elicitation::{Decider, Decision};
use countersign_core::event::{Event, EventBody};
use countersign_core::execution::Status;
use countersign_kernel::ports::{JournalWrite, Store as _, Write};
use countersign_sdk::{Outcome, PrincipalId};
use countersign_store::SqliteStore;
use serde_json::json;

use crate::shell::{Process, Shell};
use crate::terminal::Terminal;

pub(crate) const SLOW: &str = r#"{"to":"ann","amount":5,"delayMs":60000}"#;

/// Starts an approval whose handler takes long, and waits until it runs.
pub(crate) fn running_handler(shell: &Shell, elicitation: &str) -> Process {
    let before = starts(shell);
    let words = shell.approval(elicitation, &[]);
    let process = Process(shell.start(&words.iter().map(String::as_str).collect::<Vec<_>>()));
    for _ in 0..2_400 {
        if starts(shell) > before {
            return process;
        }
        std::thread::sleep(Duration::from_millis(25));
    }
    panic!("the handler never started");
}

/// How many starts are recorded, read beside whoever has the folder open.
fn starts(shell: &Shell) -> i64 {
    let database = rusqlite::Connection::open(shell.data().join("countersign.db")).unwrap();
    let count = "SELECT count(*) FROM journal WHERE body LIKE '%callStarted%'";
    database.query_row(count, [], |row| row.get(0)).unwrap()
}

#[test]
fn a_pause_survives_its_process_and_a_second_process_is_told_to_wait() {
    let shell = Shell::new();
    let (execution, elicitation) = shell.paused("bank.pay", SLOW);
    let process = running_handler(&shell, &elicitation);
    let pid = process.0.id().to_string();
    for words in [
        &["inbox"][..],
        &["executions"],
        &["--demo", "call", "echo.say", r#"{"text":"x"}"#],
        &["audit", "verify"],
    ] {
        shell.run(words).failed(1, &["is working on the data folder", &format!("pid {pid}")]);
    }
    let in_use = shell.json(&["inbox"]);
    assert_eq!(in_use["error"]["code"], "data_folder_in_use");
    shell.run(&["--demo", "tools", "pay"]).printed(&["bank.pay"]);
    shell.run(&["doctor"]).printed(&["is working on the data folder"]);

    process.kill();
    let inbox = shell.run(&["inbox"]);
    inbox.printed(&[
        "in doubt: started, outcome unknown",
        "bank.pay",
        "1 in doubt. Nothing waits for a person.",
    ]);
    inbox.printed(&[&format!("settle {execution} 0 --as done|failed|retry")]);
    assert_eq!(shell.json(&["inbox"])["inDoubt"][0]["executionId"], json!(execution));
    shell.run(&["executions", &execution]).printed(&["in doubt", "settle"]);
    shell.approve(&elicitation, &[]).failed(1, &["in doubt", "It will not run again by itself"]);
    assert_eq!(shell.json(&["--demo", "call", "bank.ledger"])["value"]["transfers"], json!([]));
    assert_eq!(shell.json(&["executions", &execution])["status"], "in_doubt");
}

#[test]
fn settling_as_done_at_a_terminal_asks_for_the_fields_that_the_tool_gives() {
    let shell = Shell::new();
    let (execution, elicitation) = shell.paused("bank.pay", SLOW);
    running_handler(&shell, &elicitation).kill();
    let mut terminal = Terminal::of(&shell, &["--demo", "settle", &execution, "0", "--as", "done"]);
    for (field, answer) in [("\namount", "5"), ("\nexecutionId", &execution), ("\nid", "9"), ("\nto", "ann")]
    {
        terminal.answer(field, answer);
    }
    terminal.answer("send it", "y");
    assert!(terminal.ends_with(0).contains("\"id\": 9"));
    assert_eq!(shell.json(&["executions", &execution])["status"], "succeeded");
}

#[test]
fn a_doubt_is_settled_by_a_person_in_one_of_three_ways() {
    let shell = Shell::new();
    let in_doubt = || {
        let (execution, elicitation) = shell.paused("bank.pay", SLOW);
        running_handler(&shell, &elicitation).kill();
        execution
    };
    let failed = in_doubt();
    shell
        .run(&["settle", &failed, "0", "--as", "failed", "--value", "1"])
        .failed(2, &["--value belongs to --as done"]);
    shell.run(&["settle", &failed, "7", "--as", "failed"]).failed(1, &["no such call"]);
    let ran = shell.run(&["settle", &failed, "0", "--as", "failed", "--reason", "the bank shows nothing"]);
    ran.failed(0, &["settled_as_failed", "the bank shows nothing"]);
    shell.run(&["settle", &failed, "0", "--as", "failed"]).failed(1, &["not in doubt"]);

    let done = in_doubt();
    shell
        .run(&["--demo", "settle", &done, "0", "--as", "done", "--value", "{}"])
        .failed(1, &["not what bank.pay gives"]);
    let value = format!(r#"{{"id":9,"to":"ann","amount":5,"executionId":"{done}"}}"#);
    shell.run(&["--demo", "settle", &done, "0", "--as", "done", "--value", &value]).printed(&["\"id\": 9"]);
    shell.run(&["executions", &done]).printed(&["found in doubt", "settled by operator (usr_", "as done"]);
    assert_eq!(shell.json(&["--demo", "call", "bank.ledger"])["value"]["transfers"], json!([]));
}

#[test]
fn a_doubt_settled_by_running_again_runs_once_more_and_no_more() {
    let shell = Shell::new();
    let (execution, elicitation) = shell.paused("bank.pay", r#"{"to":"ann","amount":5,"delayMs":2000}"#);
    running_handler(&shell, &elicitation).kill();
    shell
        .run(&["settle", &execution, "0", "--as", "retry"])
        .failed(1, &["bank.pay is not here", "--demo settle"]);
    shell.run(&["--demo", "settle", &execution, "0", "--as", "retry"]).printed(&["\"to\": \"ann\""]);
    let ledger = shell.json(&["--demo", "call", "bank.ledger"]);
    assert_eq!(ledger["value"]["transfers"].as_array().unwrap().len(), 1);
    shell.run(&["audit", "verify"]).printed(&["unbroken"]);
}

/// As if a process had died right after it recorded a yes: the handler has not been told yet.
fn say_yes_and_die(shell: &Shell, elicitation: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = SqliteStore::open(&shell.data()).unwrap();
        let asked = store.elicitation(elicitation.parse().unwrap()).await.unwrap().unwrap();
        let mut row = store.execution(asked.execution).await.unwrap().unwrap();
        row.status = Status::Running;
        let decision = Decision {
            outcome: Outcome::Approved,
            by: Decider::Person { principal: PrincipalId::parse("ann").unwrap(), token: None },
            channel: "test".into(),
            proof: None,
            at: asked.asked_at,
            comment: None,
            data: None,
        };
        let id = asked.elicitation.id;
        let body = EventBody::Decided { elicitation: id, decision };
        let expected = store.journal(asked.execution).await.unwrap().len() as u64;
        let commit = StoredCommit::of(&[Event { at: asked.asked_at, body }], None).unwrap();
        let journal = JournalWrite { expected, commit, row, opened: vec![], decided: vec![id] };
        store.commit(Write { journal: Some(journal), ..Write::default() }).await.unwrap();
    });
}

#[test]
fn what_was_approved_and_not_started_is_not_thrown_away_by_a_process_without_the_tool() {
    let shell = Shell::new();
    let (execution, elicitation) = shell.paused("bank.transfer", r#"{"to":"ann","amount":20000}"#);
    say_yes_and_die(&shell, &elicitation);

    shell.run(&["call", "echo.say"]).failed(1, &["was interrupted", "bank.transfer", "--demo"]);
    shell.run(&["executions", &execution]).printed(&["goes on with the next call or decision"]);
    shell.run(&["doctor"]).printed(&["interrupted", "bank.transfer"]);
    shell.run(&["--demo", "call", "echo.say", r#"{"text":"x"}"#]).printed(&["x"]);
    let result = shell.json(&["executions", &execution]);
    assert_eq!(result["status"], "succeeded", "{result:#}");
}
