//! The program at a real terminal: a pseudo-terminal with somebody who reads before they type.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::shell::Shell;

const PATIENCE: Duration = Duration::from_secs(20);

/// A program at a terminal.
struct Terminal {
    child: Child,
    keys: File,
    screen: Receiver<Vec<u8>>,
    seen: String,
}

impl Terminal {
    fn of(shell: &Shell, words: &[&str]) -> Self {
        Self::with(shell.command(words).env("TERM", "xterm"))
    }

    fn with(command: &mut Command) -> Self {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
        let theirs = OpenOptions::new().read(true).write(true).open(name).unwrap();
        let stream = || Stdio::from(theirs.try_clone().unwrap());
        let child = command.stdin(stream()).stdout(stream()).stderr(stream()).spawn();
        let keys = File::from(ours);
        let mut reader = keys.try_clone().unwrap();
        let (sender, screen) = channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // On Linux the read fails once nobody has the other end open.
            while let Ok(number @ 1..) = reader.read(&mut bytes) {
                if sender.send(bytes[..number].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { child: child.unwrap(), keys, screen, seen: String::new() }
    }

    /// Reads until this stands on the screen.
    #[track_caller]
    fn read_until(&mut self, words: &str) {
        while !self.seen.contains(words) {
            match self.screen.recv_timeout(PATIENCE) {
                Ok(bytes) => self.seen.push_str(&String::from_utf8_lossy(&bytes)),
                Err(_) => panic!("{words:?} never appeared:\n{}", self.seen),
            }
        }
    }

    /// Reads until this stands on the screen, then forgets what was read and types a line.
    #[track_caller]
    fn answer(&mut self, words: &str, line: &str) {
        self.read_until(words);
        self.seen.clear();
        self.keys.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    #[track_caller]
    fn ends_with(mut self, status: i32) -> String {
        let ended = self.child.wait().unwrap();
        while let Ok(bytes) = self.screen.recv_timeout(Duration::from_millis(300)) {
            self.seen.push_str(&String::from_utf8_lossy(&bytes));
        }
        assert_eq!(ended.code(), Some(status), "{}", self.seen);
        std::mem::take(&mut self.seen)
    }
}

impl Drop for Terminal {
    /// A test that fails leaves nobody at the prompt.
    fn drop(&mut self) {
        let _ = self.child.kill().and_then(|()| self.child.wait());
    }
}

#[test]
fn a_person_at_the_terminal_sees_the_whole_question_and_approves() {
    let shell = Shell::new();
    let mut terminal = Terminal::of(&shell, &["--demo", "call", "bank.pay", r#"{"to":"ann","amount":5}"#]);
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

#[test]
fn deny_at_the_terminal_ends_with_three_and_its_reason() {
    let shell = Shell::new();
    let mut terminal = Terminal::of(&shell, &["--demo", "call", "bank.pay", r#"{"to":"ann","amount":5}"#]);
    terminal.answer("[q] leave it waiting", "d");
    terminal.answer("Why?", "too much");
    assert!(terminal.ends_with(3).contains("Reason: too much"));
}

#[test]
fn a_form_is_asked_field_by_field() {
    let shell = Shell::new();
    let mut terminal = Terminal::of(&shell, &["--demo", "call", "stock.check"]);
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
    shell.run(&["inbox"]).failed(1, &["is in use by process", "answer there"]);
    terminal.child.kill().unwrap();
    terminal.child.wait().unwrap();
    let inbox = shell.json(&["inbox"]);
    let id = inbox["items"][0]["elicitationId"].as_str().unwrap();
    shell.run(&["--demo", "approve", id]).printed(&["\"to\": \"ann\""]);
    let ledger = shell.json(&["--demo", "call", "bank.ledger"]);
    assert_eq!(ledger["value"]["transfers"].as_array().unwrap().len(), 1);
}

#[test]
fn a_prompt_that_nobody_answers_ends_when_its_time_is_up() {
    let shell = Shell::new();
    shell.write("countersign.toml", "[approvals]\nexpires = \"1s\"\n");
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

#[test]
fn a_script_asks_for_each_call_that_needs_it_and_shows_its_calls_as_they_happen() {
    let shell = Shell::new();
    shell.write(
        "pay.ts",
        "const paid = [];\nfor (const to of ['ann', 'bob', 'eve'])\n  paid.push(await tools.bank.pay({ to, amount: 5 }).then(() => to, (e) => e.code));\nreturn paid;",
    );
    let mut terminal = Terminal::of(&shell, &["--demo", "run", "pay.ts"]);
    terminal.read_until("[q] leave it waiting");
    for words in ["bank.pay", "Pay $5 to \"ann\"?", "\"to\": \"ann\""] {
        assert!(terminal.seen.contains(words), "{words:?}\n{}", terminal.seen);
    }
    terminal.answer("[q] leave it waiting", "a");
    terminal.read_until("call 0");
    terminal.answer("[q] leave it waiting", "d");
    terminal.answer("Why?", "not bob");
    terminal.answer("[q] leave it waiting", "a");
    let seen = terminal.ends_with(0);
    for words in ["\"ann\"", "\"denied\"", "\"eve\""] {
        assert!(seen.contains(words), "{words:?}\n{seen}");
    }
}

#[test]
fn a_script_that_is_left_waiting_at_the_terminal_can_be_approved_later() {
    let shell = Shell::new();
    shell.write("pay.ts", "return (await tools.bank.pay({ to: 'ann', amount: 5 })).id;");
    let mut terminal = Terminal::of(&shell, &["--demo", "run", "pay.ts"]);
    terminal.answer("[q] leave it waiting", "q");
    terminal.ends_with(0);
    let waiting = shell.json(&["inbox"]);
    let id = waiting["items"][0]["executionId"].as_str().unwrap();
    let done = shell.json(&["--demo", "approve", id]);
    assert_eq!(done["value"], 1, "{done}");
}

#[test]
fn a_denial_that_the_script_does_not_catch_ends_with_three() {
    let shell = Shell::new();
    shell.write("pay.ts", "await tools.bank.pay({ to: 'ann', amount: 5 });");
    let mut terminal = Terminal::of(&shell, &["--demo", "run", "pay.ts"]);
    terminal.answer("[q] leave it waiting", "d");
    terminal.answer("Why?", "no");
    assert!(terminal.ends_with(3).contains("denied"));
}
