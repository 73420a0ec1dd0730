//! `approve exec_…`: the question that is approved is the one that was shown, though the execution asks another meanwhile.

use crate::shell::Shell;
use crate::terminal::Terminal;

const PROMPT: &str = "[q] leave it waiting";
/// Asks to pay Ann and, where that is denied, Eve.
const SCRIPT: &str = "try { await tools.bank.pay({ to: 'ann', amount: 5 }); } catch {}\n\
                      return (await tools.bank.pay({ to: 'eve', amount: 99 })).id;\n";

#[test]
fn an_execution_that_asks_something_else_meanwhile_is_shown_anew() {
    let shell = Shell::new();
    std::fs::write(shell.home().join("pay.ts"), SCRIPT).unwrap();
    let mut server = Terminal::of(&shell, &["--demo", "serve"]);
    server.read_until("Stop with Ctrl-C");
    shell.shows(&["run", "pay.ts", "--as", "agent", "--no-wait"]);
    let execution = shell.waiting()[0]["executionId"].as_str().unwrap().to_owned();

    let mut approve = Terminal::of(&shell, &["approve", &execution]);
    approve.read_until(PROMPT);
    assert!(approve.seen.contains("Pay $5 to \"ann\"?"), "{}", approve.seen);
    shell.shows(&["deny", &shell.only_question()]);
    assert_eq!(shell.waiting()[0]["args"]["to"], "eve", "the execution asks another question by now");
    approve.answer(PROMPT, "a");
    let refused = approve.ends_with(1);
    assert!(refused.contains("it was decided already"), "{refused}");
    assert!(shell.shows(&["call", "bank.ledger"]).contains("\"transfers\": []"), "nobody saw Eve's");

    let mut approve = Terminal::of(&shell, &["approve", &execution]);
    approve.read_until(PROMPT);
    assert!(approve.seen.contains("Pay $99 to \"eve\"?"), "{}", approve.seen);
    approve.answer(PROMPT, "a");
    approve.ends_with(0);
    let ledger = shell.shows(&["call", "bank.ledger"]);
    assert!(ledger.contains("eve") && !ledger.contains("ann"), "{ledger}");
}
