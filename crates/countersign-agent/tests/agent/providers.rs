//! The terminal.

use std::io::Write;
use std::sync::{Arc, Mutex};

use countersign_agent::providers::{TerminalConfirmation, prompt};
use countersign_agent::{ConfirmationProvider, ConfirmationRequest, Verdict};
use serde_json::{Value, json};
use tokio::sync::mpsc;

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
    let (keyboard, lines) = mpsc::channel(8);
    let screen = Screen::default();
    let terminal = TerminalConfirmation::on(lines, screen.clone());
    // Typed too early: it must not count.
    keyboard.send("y".to_owned()).await.unwrap();
    let asked = tokio::spawn(async move { terminal.confirm(request(json!({ "table": "logs" }))).await });
    until("the question is shown", || screen.text().contains("Run it?")).await;
    match line {
        Some(line) => keyboard.send(line.to_owned()).await.unwrap(),
        None => drop(keyboard),
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
    assert!(shown.contains("The tool says: fine⟦U+001B⟧[2K⟦U+202E⟧evil"), "{}", &shown[100_100..]);
}

#[tokio::test]
async fn two_questions_at_the_terminal_never_mix() {
    let (keyboard, lines) = mpsc::channel(8);
    let screen = Screen::default();
    let terminal = Arc::new(TerminalConfirmation::on(lines, screen.clone()));
    let ask = |table: &'static str| {
        let terminal = Arc::clone(&terminal);
        tokio::spawn(async move { terminal.confirm(request(json!({ "table": table }))).await.unwrap() })
    };
    let first = ask("a");
    until("the first is shown", || screen.text().contains("Run it?")).await;
    let second = ask("b");
    tokio::task::yield_now().await;
    assert!(!screen.text().contains("\"b\""), "the second waits for the first");
    keyboard.send("y".to_owned()).await.unwrap();
    assert_eq!(first.await.unwrap(), Verdict::Approve);
    until("the second is shown", || screen.text().contains("\"b\"")).await;
    keyboard.send("n".to_owned()).await.unwrap();
    assert_eq!(second.await.unwrap(), Verdict::Reject { reason: None });
}
