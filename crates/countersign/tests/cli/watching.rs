//! `inbox --watch` at a real terminal, beside a real server.

use std::time::Duration;

use crate::shell::Shell;
use crate::terminal::Terminal;

const PAY: &str = r#"{"to":"ann","amount":5}"#;
/// A question must have stood there for a moment before a key decides it.
const A_MOMENT: Duration = Duration::from_millis(800);
/// What gives the screen back.
const LEAVES: &str = "\u{1b}[?1049l";

fn transfers(shell: &Shell) -> usize {
    shell.json(&["call", "bank.ledger"])["value"]["transfers"].as_array().unwrap().len()
}

/// An execution that was decided, once it has come to its end: a decision is shown before what follows from it.
fn ended(shell: &Shell, execution: &str) -> serde_json::Value {
    for _ in 0..2_400 {
        let told = shell.json(&["executions", execution]);
        if told["status"] != "running" {
            return told;
        }
        std::thread::sleep(Duration::from_millis(25));
    }
    panic!("{execution} never ended");
}

/// Watches, and has a payment ask.
fn watching(shell: &Shell) -> (Terminal, String) {
    let mut terminal = Terminal::of(shell, &["inbox", "--watch"]);
    terminal.read_until("live");
    let (execution, _) = shell.paused("bank.pay", PAY);
    terminal.read_until("bank.pay");
    terminal.read_until("\"amount\":");
    std::thread::sleep(A_MOMENT);
    (terminal, execution)
}

#[test]
fn what_waits_appears_by_itself_and_a_key_approves_it() {
    let shell = Shell::served();
    let (mut terminal, execution) = watching(&shell);
    assert_eq!(transfers(&shell), 0);
    terminal.press("a");
    terminal.read_until("approved");
    assert_eq!(ended(&shell, &execution)["status"], "succeeded");
    assert_eq!(transfers(&shell), 1);
    terminal.press("q");
    assert!(terminal.ends_with(0).contains(LEAVES));
    assert!(terminal.is_cooked());
}

#[test]
fn where_no_server_runs_the_view_is_one_and_others_find_it() {
    let shell = Shell::new();
    let mut terminal = Terminal::of(&shell, &["--demo", "inbox", "--watch"]);
    terminal.read_until("live");
    let (execution, _) = shell.paused("bank.pay", PAY);
    terminal.read_until("\"amount\":");
    std::thread::sleep(A_MOMENT);
    terminal.press("a");
    terminal.read_until("approved");
    assert_eq!(ended(&shell, &execution)["status"], "succeeded");
    terminal.press("q");
    assert!(terminal.ends_with(0).contains(LEAVES));
    shell.run(&["inbox"]).printed(&["Nothing waits"]);
}

#[test]
fn a_denial_with_its_reason_reaches_the_caller() {
    let shell = Shell::served();
    let (mut terminal, execution) = watching(&shell);
    terminal.press("d");
    terminal.read_until("Why?");
    terminal.press("not today\r");
    terminal.read_until("denied");
    let told = ended(&shell, &execution);
    assert!(told["error"]["message"].as_str().unwrap().contains("not today"), "{told}");
    terminal.press("q");
    terminal.ends_with(0);
}

#[test]
fn decided_in_another_shell_it_says_so() {
    let shell = Shell::served();
    let (mut terminal, execution) = watching(&shell);
    shell.run(&["deny", &execution, "--reason", "no"]).failed(0, &["Denied. bank.pay"]);
    terminal.read_until("by operator");
    terminal.press("q");
    terminal.ends_with(0);
}

#[test]
fn a_signal_gives_the_terminal_back_and_decides_nothing() {
    let shell = Shell::served();
    let (mut terminal, execution) = watching(&shell);
    assert!(!terminal.is_cooked());
    terminal.terminate();
    assert!(terminal.ends_with(0).contains(LEAVES));
    assert!(terminal.is_cooked());
    assert_eq!(shell.json(&["executions", &execution])["status"], "paused");
}

#[test]
fn pasted_text_decides_nothing() {
    let shell = Shell::served();
    let (mut terminal, execution) = watching(&shell);
    terminal.press("\u{1b}[200~a\u{1b}[201~");
    terminal.read_until("Pasted");
    assert_eq!(shell.json(&["executions", &execution])["status"], "paused");
    terminal.press("q");
    terminal.ends_with(0);
}

#[test]
fn a_server_that_comes_back_is_heard_again() {
    let mut shell = Shell::served();
    let (mut terminal, execution) = watching(&shell);
    shell.kill_server();
    terminal.read_until("trying");
    shell.serve();
    shell.paused("bank.pay", r#"{"to":"zoe","amount":777}"#);
    terminal.read_until("$777");
    terminal.press("a");
    terminal.read_until("approved");
    assert_eq!(ended(&shell, &execution)["status"], "succeeded");
    terminal.press("q");
    terminal.ends_with(0);
}

#[test]
fn without_a_terminal_it_is_a_usage_error() {
    Shell::new().run(&["inbox", "--watch"]).failed(2, &["terminal", "--json"]);
}
