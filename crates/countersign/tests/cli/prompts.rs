//! The prompts of `call` and `run` at a real terminal.

use crate::shell::{Shell, with_and_without_a_server};
use crate::terminal::Terminal;

with_and_without_a_server! {
    a_person_at_the_terminal_sees_the_whole_question_and_approves,
    deny_at_the_terminal_ends_with_three_and_its_reason,
    a_form_is_asked_field_by_field,
    a_script_asks_for_each_call_that_needs_it_and_shows_its_calls_as_they_happen,
    a_script_that_is_left_waiting_at_the_terminal_can_be_approved_later,
}

fn a_person_at_the_terminal_sees_the_whole_question_and_approves(shell: &Shell) {
    let mut terminal = Terminal::of(shell, &["--demo", "call", "bank.pay", r#"{"to":"ann","amount":5}"#]);
    terminal.read_until("[q] leave it waiting");
    for words in ["bank.pay", "Pay $5 to \"ann\"?", "no rule matches", "\"amount\": 5", "expires"] {
        assert!(terminal.seen.contains(words), "{words:?}\n{}", terminal.seen);
    }
    assert!(!terminal.seen.contains("[s]"), "each payment is asked about:\n{}", terminal.seen);
    assert!(terminal.seen.contains("\u{1b}["), "a terminal gets colours");
    terminal.answer("[q] leave it waiting", "yes");
    terminal.answer("Type one of the letters", "a");
    assert!(terminal.ends_with(0).contains("\"id\": 1"));
}

#[test]
fn colours_are_for_terminals_that_want_them() {
    let shell = Shell::new();
    assert!(Terminal::of(&shell, &["--demo", "tools"]).ends_with(0).contains('\u{1b}'));
    let mut dull = shell.command(&["--demo", "tools"]);
    assert!(!Terminal::with(dull.env("TERM", "xterm").env("NO_COLOR", "1")).ends_with(0).contains('\u{1b}'));
    assert!(!shell.run(&["--demo", "tools"]).out.contains('\u{1b}'), "a pipe gets none either");
}

fn deny_at_the_terminal_ends_with_three_and_its_reason(shell: &Shell) {
    let mut terminal = Terminal::of(shell, &["--demo", "call", "bank.pay", r#"{"to":"ann","amount":5}"#]);
    terminal.answer("[q] leave it waiting", "d");
    terminal.answer("Reason", "too much");
    assert!(terminal.ends_with(3).contains("Reason: too much"));
}

fn a_form_is_asked_field_by_field(shell: &Shell) {
    let mut terminal = Terminal::of(shell, &["--demo", "call", "stock.check"]);
    terminal.answer("[q] leave it waiting", "f");
    terminal.answer("warehouseId", "WH-7");
    terminal.answer("send it", "y");
    assert!(terminal.ends_with(0).contains("\"warehouseId\": \"WH-7\""));
}

#[test]
fn hostile_text_cannot_steer_the_terminal() {
    let shell = Shell::new();
    let args = r#"{"to":"\u001b[2J\u202e\u009bx\nwhy       all is well","amount":5}"#;
    let mut terminal = Terminal::of(&shell, &["--demo", "call", "bank.pay", args]);
    terminal.read_until("[q] leave it waiting");
    for hostile in ["\u{1b}[2J", "\u{202e}", "\u{9b}", "\nwhy "] {
        assert!(!terminal.seen.contains(hostile), "{hostile:?}\n{:?}", terminal.seen);
    }
    terminal.answer("[q] leave it waiting", "q");
    terminal.ends_with(0);
}

#[test]
fn killed_at_the_prompt_it_waits_still() {
    let shell = Shell::new();
    let mut terminal = Terminal::of(&shell, &["--demo", "call", "bank.pay", r#"{"to":"ann","amount":5}"#]);
    terminal.read_until("[q] leave it waiting");
    shell.run(&["inbox"]).failed(1, &["is working on the data folder", "answer there"]);
    terminal.child.kill().unwrap();
    terminal.child.wait().unwrap();
    let inbox = shell.json(&["inbox"]);
    let id = inbox["items"][0]["elicitationId"].as_str().unwrap();
    shell.approve(id, &[]).printed(&["\"to\": \"ann\""]);
    let ledger = shell.json(&["--demo", "call", "bank.ledger"]);
    assert_eq!(ledger["value"]["transfers"].as_array().unwrap().len(), 1);
}

#[test]
fn a_prompt_that_nobody_answers_ends_when_its_time_is_up() {
    let shell = Shell::new();
    shell.configure("[approvals]\nexpires = \"1s\"\n");
    let mut terminal = Terminal::of(&shell, &["--demo", "call", "bank.pay", r#"{"to":"ann","amount":5}"#]);
    terminal.read_until("The time to decide is up.");
    assert!(terminal.ends_with(3).contains("Nobody decided in time"));
}

#[test]
fn no_wait_asks_nothing_even_at_a_terminal() {
    let shell = Shell::new();
    let words = ["--demo", "call", "bank.pay", r#"{"to":"ann","amount":5}"#, "--no-wait"];
    let shown = Terminal::of(&shell, &words).ends_with(0);
    assert!(shown.contains("waits for a person") && shown.contains("approve eli_"), "{shown}");
}

fn a_script_asks_for_each_call_that_needs_it_and_shows_its_calls_as_they_happen(shell: &Shell) {
    shell.write(
        "pay.ts",
        "const paid = [];\nfor (const to of ['ann', 'bob', 'eve'])\n  paid.push(await tools.bank.pay({ to, amount: 5 }).then(() => to, (e) => e.code));\nreturn paid;",
    );
    let mut terminal = Terminal::of(shell, &["--demo", "run", "pay.ts"]);
    terminal.read_until("[q] leave it waiting");
    for words in ["bank.pay", "Pay $5 to \"ann\"?", "\"to\": \"ann\""] {
        assert!(terminal.seen.contains(words), "{words:?}\n{}", terminal.seen);
    }
    terminal.answer("[q] leave it waiting", "a");
    terminal.read_until("call 0");
    terminal.answer("[q] leave it waiting", "d");
    terminal.answer("Reason", "not bob");
    terminal.answer("[q] leave it waiting", "a");
    let seen = terminal.ends_with(0);
    for words in ["\"ann\"", "\"denied\"", "\"eve\""] {
        assert!(seen.contains(words), "{words:?}\n{seen}");
    }
}

fn a_script_that_is_left_waiting_at_the_terminal_can_be_approved_later(shell: &Shell) {
    shell.write("pay.ts", "return (await tools.bank.pay({ to: 'ann', amount: 5 })).id;");
    let mut terminal = Terminal::of(shell, &["--demo", "run", "pay.ts"]);
    terminal.answer("[q] leave it waiting", "q");
    terminal.ends_with(0);
    let waiting = shell.json(&["inbox"]);
    let id = waiting["items"][0]["executionId"].as_str().unwrap();
    let done = shell.approved(id);
    assert_eq!(done["value"], 1, "{done}");
}

#[test]
fn a_denial_that_the_script_does_not_catch_ends_with_three() {
    let shell = Shell::new();
    shell.write("pay.ts", "await tools.bank.pay({ to: 'ann', amount: 5 });");
    let mut terminal = Terminal::of(&shell, &["--demo", "run", "pay.ts"]);
    terminal.answer("[q] leave it waiting", "d");
    terminal.answer("Reason", "no");
    assert!(terminal.ends_with(3).contains("denied"));
}

#[test]
fn a_client_is_attended_only_where_the_person_types_y_after_reading_what_it_means() {
    let shell = Shell::served();
    let attended = |client: &str| {
        let secret = std::fs::read_to_string(shell.data().join(format!("clients/{client}.token"))).unwrap();
        let mut command = shell.command(&["token", "list", "--json"]);
        let listed = String::from_utf8(command.output().unwrap().stdout).unwrap();
        assert!(!listed.contains(secret.trim()), "no list shows a secret");
        let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
        let tokens = listed["items"].as_array().unwrap().clone();
        let live = tokens.into_iter().filter(|token| token["revokedAt"].is_null());
        let titles =
            [("claude-code", "Claude Code"), ("cursor", "Cursor"), ("codex", "Codex"), ("vscode", "VS Code")];
        let title = titles.iter().find(|(name, _)| *name == client).unwrap().1;
        let mut of_client = live.filter(|token| token["name"] == title);
        let token = of_client.next().unwrap_or_else(|| panic!("{client} has no token in {listed:#}"));
        assert!(of_client.next().is_none(), "{client} has one token");
        token["attended"].as_bool().unwrap()
    };
    let install = |client: &str, line: &str| {
        let mut terminal = Terminal::of(&shell, &["mcp", "install", client]);
        terminal.read_until("[y] yes, attended");
        assert!(terminal.seen.contains("your answer counts, for that one call"), "{}", terminal.seen);
        terminal.answer("[y] yes, attended", line);
        terminal.ends_with(0)
    };
    assert!(install("cursor", "y").contains("its own attended agent token"));
    assert!(attended("cursor"));
    for (client, line) in [("claude-code", ""), ("codex", "Y"), ("vscode", "yes")] {
        assert!(install(client, line).contains("its own unattended agent token"), "{line:?}");
        assert!(!attended(client), "{line:?}");
    }
    // What was chosen is kept, and not asked for again.
    let again = Terminal::of(&shell, &["mcp", "install", "cursor"]).ends_with(0);
    assert!(!again.contains("[y] yes, attended") && attended("cursor"), "{again}");
}
