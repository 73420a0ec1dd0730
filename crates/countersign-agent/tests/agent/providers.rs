//! The terminal.

use std::io::Write;
use std::sync::{Arc, Mutex};

use countersign_agent::providers::{Keyboard, TerminalConfirmation, prompt};
use countersign_agent::{ConfirmationProvider, ConfirmationRequest, Verdict};
use serde_json::{Value, json};

use crate::shop::until;

/// What was printed.
#[derive(Clone, Default)]
struct Screen(Arc<Mutex<Vec<u8>>>);

impl Write for Screen {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Screen {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

fn request(input: Value) -> ConfirmationRequest {
    ConfirmationRequest::new("call-1", "delete_records", input)
}

/// What is decided when the person types this after the question.
async fn typed(line: Option<&str>) -> Verdict {
    let (keyboard, screen) = (Keyboard::default(), Screen::default());
    let terminal = TerminalConfirmation::on(&keyboard, screen.clone());
    // Typed too early: it must not count, and nobody waits until it is read.
    for _ in 0..1_000 {
        keyboard.typed("y");
    }
    let asked = tokio::spawn(async move { terminal.confirm(request(json!({ "table": "logs" }))).await });
    until("the question is shown", || screen.text().contains("Run it?")).await;
    match line {
        Some(line) => keyboard.typed(line),
        None => keyboard.end(),
    }
    asked.await.unwrap().unwrap()
}

#[tokio::test]
async fn at_the_terminal_only_an_explicit_yes_after_the_question_approves() {
    for yes in ["y", "yes", " Y "] {
        assert_eq!(typed(Some(yes)).await, Verdict::Approve, "{yes:?}");
    }
    for no in ["", "n", "no", "x", "yess", "y please", "ok"] {
        assert_eq!(typed(Some(no)).await, Verdict::Reject { reason: None }, "{no:?}");
    }
    assert_eq!(typed(Some("n they are needed")).await, Verdict::reject("they are needed"));
    assert_eq!(typed(None).await, Verdict::reject("the input ended"));
}

#[test]
fn at_the_terminal_nothing_that_is_shown_steers_it_and_nothing_is_left_out() {
    let long = "x".repeat(100_000);
    let shown = prompt(&ConfirmationRequest {
        hint: Some("fine\u{1b}[2K\u{202e}evil".into()),
        payload: Some(json!({ "rows": 3 })),
        ..request(json!({ "table": format!("logs\u{1b}[1A{long}") }))
    });
    assert!(!shown.contains('\u{1b}') && !shown.contains('\u{202e}'), "{shown:.200}");
    assert!(shown.contains(&long), "the whole input is shown");
    assert!(shown.contains("The tool says:\n  | fine⟦U+001B⟧[2K⟦U+202E⟧evil\n"), "{}", &shown[100_100..]);
}

#[test]
fn at_the_terminal_no_text_of_a_tool_can_pass_for_a_question() {
    let forged =
        "harmless\n\nThe tool \"read_file\" wants to run with:\n{}\r\nRun it? [y/N, or n and a reason] ";
    let shown = prompt(&ConfirmationRequest {
        hint: Some(forged.into()),
        payload: Some(json!(forged)),
        ..request(json!({ "table": forged }))
    });
    let ours: Vec<&str> = shown.lines().filter(|line| !line.starts_with("  | ")).collect();
    let labels = ["", "The tool \"delete_records\" wants to run with:", "The tool says:", "The tool shows:"];
    let [labelled @ .., warned] = &ours[..] else { panic!("{shown}") };
    assert_eq!(labelled, labels, "{shown}");
    assert!(warned.starts_with("Look closely: this contains control characters"), "{shown}");
}

#[tokio::test]
async fn two_questions_at_the_terminal_never_mix() {
    let (keyboard, screen) = (Keyboard::default(), Screen::default());
    let ask = |table: &'static str| {
        let terminal = TerminalConfirmation::on(&keyboard, screen.clone());
        tokio::spawn(async move { terminal.confirm(request(json!({ "table": table }))).await.unwrap() })
    };
    let first = ask("a");
    until("the first is shown", || screen.text().contains("Run it?")).await;
    let second = ask("b");
    tokio::task::yield_now().await;
    assert!(!screen.text().contains("\"b\""), "the second waits for the first");
    keyboard.typed("y");
    assert_eq!(first.await.unwrap(), Verdict::Approve);
    until("the second is shown", || screen.text().contains("\"b\"")).await;
    keyboard.typed("n");
    assert_eq!(second.await.unwrap(), Verdict::Reject { reason: None });
}

#[tokio::test]
async fn a_keyboard_at_its_end_rejects_what_is_asked_later_too() {
    let keyboard = Keyboard::default();
    keyboard.end();
    let terminal = TerminalConfirmation::on(&keyboard, Screen::default());
    let verdict = terminal.confirm(request(json!({}))).await.unwrap();
    assert_eq!(verdict, Verdict::reject("the input ended"));
}

/// Says that this process is at a terminal that another one holds.
#[cfg(unix)]
const AT_A_TERMINAL: &str = "COUNTERSIGN_AGENT_AT_A_TERMINAL";

/// The test, and the process that it starts at a terminal of its own.
#[cfg(unix)]
#[tokio::test]
async fn two_terminals_of_one_process_share_its_standard_input() {
    if std::env::var(AT_A_TERMINAL).is_ok() {
        let terminals = [TerminalConfirmation::stdio(), TerminalConfirmation::stdio()];
        let asked = terminals.iter().map(|terminal| terminal.confirm(request(json!({}))));
        let verdicts = futures_util::future::try_join_all(asked).await.unwrap();
        assert_eq!(verdicts, [Verdict::Approve, Verdict::reject("later")]);
        return;
    }
    let this = "providers::two_terminals_of_one_process_share_its_standard_input";
    let (mut person, screen, mut process) = at_a_terminal(&[this, "--exact", "--nocapture"]);
    for (number, line) in [(1, "y\n"), (2, "n later\n")] {
        let asked = || screen.text().matches("Run it?").count() == number;
        until(&format!("question {number} is shown"), asked).await;
        // Time enough for another one, which must not come.
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        assert!(asked(), "one question at a time: {}", screen.text());
        person.write_all(line.as_bytes()).unwrap();
    }
    assert!(process.wait().unwrap().success(), "{}", screen.text());
}

/// This test binary with these arguments, at a terminal: what a person types, what they see, and the process.
#[cfg(unix)]
fn at_a_terminal(arguments: &[&str]) -> (std::fs::File, Screen, std::process::Child) {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
    let theirs = std::fs::OpenOptions::new().read(true).write(true).open(name).unwrap();
    let process = std::process::Command::new(std::env::current_exe().unwrap())
        .args(arguments)
        .env(AT_A_TERMINAL, "yes")
        .stdin(theirs.try_clone().unwrap())
        .stdout(theirs.try_clone().unwrap())
        .stderr(theirs)
        .spawn()
        .unwrap();
    let (person, screen) = (std::fs::File::from(ours), Screen::default());
    let (mut printed, mut seen) = (person.try_clone().unwrap(), screen.clone());
    // On Linux the read fails once nobody has the other end open.
    std::thread::spawn(move || std::io::copy(&mut printed, &mut seen));
    (person, screen, process)
}
