//! One keyboard: what is typed answers the question that was read, and no other.

use crate::shell::{Shell, interrupt};
use crate::terminal::Terminal;

const PROMPT: &str = "[q] leave it waiting";

/// The demo at its first question, about `notes.delete`.
fn demo(shell: &Shell) -> Terminal {
    let mut demo = Terminal::of(shell, &["demo"]);
    demo.read_until(PROMPT);
    assert!(demo.seen.contains("notes.delete asks for approval"), "{}", demo.seen);
    demo
}

/// What was paid.
fn ledger(shell: &Shell) -> String {
    shell.shows(&["call", "bank.ledger"])
}

#[test]
fn a_decision_made_elsewhere_shows_up_and_what_was_half_typed_does_not_answer_the_next_question() {
    let shell = Shell::new();
    let mut demo = demo(&shell);
    demo.press("a");
    shell.shows(&["deny", &shell.only_question(), "--reason", "not that one"]);
    demo.read_until("Decided elsewhere: denied by");
    demo.read_until("bank.pay asks for approval");
    demo.read_until(PROMPT);
    demo.press("\n");
    demo.read_until("Type one of the letters and press Enter.");
    assert!(ledger(&shell).contains("\"transfers\": []"), "the Enter of another question paid nothing");
    demo.answer(PROMPT, "a");
    demo.read_until("Approved.");
    demo.read_until("stock.check asks for an answer");
    assert!(ledger(&shell).contains("Ann's Printing Ltd"));
}

#[test]
fn what_was_typed_before_the_question_is_not_taken_and_that_is_said() {
    let shell = Shell::new();
    let mut demo = Terminal::with(&mut shell.command_after_a_line(&["demo"]));
    demo.press("begin\na\na\n");
    demo.read_until("What you typed before this question was shown was not taken.");
    demo.read_until(PROMPT);
    assert!(demo.seen.contains("notes.delete asks for approval"), "{}", demo.seen);
    shell.only_question();
    // Of several lines at once the first answers, and the rest answers nothing else.
    demo.press("a\na\na\n");
    demo.read_until("bank.pay asks for approval");
    demo.read_until("was not taken.");
    demo.answer(PROMPT, "d");
    demo.answer("Reason", "");
    demo.read_until("Denied.");
    demo.read_until("stock.check asks for an answer");
    assert!(ledger(&shell).contains("\"transfers\": []"));
}

#[test]
fn what_is_left_waiting_stays_and_the_demo_goes_on() {
    let shell = Shell::new();
    let mut demo = demo(&shell);
    demo.answer(PROMPT, "q");
    demo.read_until("decide it: countersign --demo --data-dir ");
    demo.read_until("bank.pay asks for approval");
    demo.answer(PROMPT, "a");
    demo.read_until("stock.check asks for an answer");
    demo.answer(PROMPT, "d");
    demo.answer("Reason", "");
    demo.read_until("That was the demo.");
    demo.read_until("1 request still waits");
    assert_eq!(shell.waiting()[0]["toolPath"], "notes.delete");
    interrupt(demo);
}
