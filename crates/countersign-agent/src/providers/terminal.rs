//! Asking at the terminal.
//!
//! Promise: only `y` or `yes`, typed after the question was shown, approves. Without a terminal, at the end of input, and at
//! anything else the answer is no. What is shown is the stored input, whole, with invisible characters written out.

use std::io::{BufRead, IsTerminal, Write};
use std::sync::{Arc, PoisonError};

use async_trait::async_trait;
use countersign_core::visible::visible;
use tokio::sync::{Mutex, mpsc};

use crate::confirm::{ConfirmationProvider, ConfirmationRequest, ProviderError, Verdict};

/// How many typed lines wait to be read.
const MAX_LINES: usize = 64;

/// Asks at a terminal, one question at a time.
pub struct TerminalConfirmation {
    attended: bool,
    /// Held for as long as a question is open, so that two of them never mix.
    lines: Mutex<mpsc::Receiver<String>>,
    out: Arc<std::sync::Mutex<Box<dyn Write + Send>>>,
}

impl TerminalConfirmation {
    /// Asks on standard error and reads standard input. Where that is no terminal, everything is rejected, and that is said.
    pub fn stdio() -> Self {
        let (typed, lines) = mpsc::channel(MAX_LINES);
        let attended = std::io::stdin().is_terminal();
        if attended {
            // A thread of its own, because a read of standard input cannot be cancelled and must not outlive its question.
            std::thread::spawn(move || {
                for line in std::io::stdin().lock().lines() {
                    let Ok(line) = line else { return };
                    if typed.blocking_send(line).is_err() {
                        return;
                    }
                }
            });
        }
        Self::with(attended, lines, std::io::stderr())
    }

    /// Rejects everything and says so, as [`stdio`](Self::stdio) does where there is no terminal.
    pub fn unattended() -> Self {
        Self::with(false, mpsc::channel(1).1, std::io::stderr())
    }

    /// Asks on `out` and reads `lines`: for a program with a terminal of its own making.
    pub fn on(lines: mpsc::Receiver<String>, out: impl Write + Send + 'static) -> Self {
        Self::with(true, lines, out)
    }

    fn with(attended: bool, lines: mpsc::Receiver<String>, out: impl Write + Send + 'static) -> Self {
        Self { attended, lines: Mutex::new(lines), out: Arc::new(std::sync::Mutex::new(Box::new(out))) }
    }

    fn show(&self, text: &str) -> std::io::Result<()> {
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        out.write_all(text.as_bytes())?;
        out.flush()
    }
}

#[async_trait]
impl ConfirmationProvider for TerminalConfirmation {
    async fn confirm(&self, request: ConfirmationRequest) -> Result<Verdict, ProviderError> {
        let mut lines = self.lines.lock().await;
        if !self.attended {
            self.show(&format!("{}Rejected: standard input is no terminal.\n", prompt(&request)))?;
            return Ok(Verdict::reject("nobody is at a terminal to ask"));
        }
        // What was typed before the question was shown is no answer to it.
        while lines.try_recv().is_ok() {}
        self.show(&format!("{}Run it? [y/N, or n and a reason] ", prompt(&request)))?;
        let line = lines.recv().await;
        Ok(verdict(line.as_deref()))
    }
}

/// What the person is shown.
pub fn prompt(request: &ConfirmationRequest) -> String {
    let input = serde_json::to_string_pretty(&request.input).unwrap_or_default();
    let mut text = format!(
        "\nThe tool {:?} wants to run with:\n{}\n",
        visible(&request.tool_name).text,
        visible(&input).text
    );
    if let Some(hint) = &request.hint {
        text.push_str(&format!("The tool says: {}\n", visible(hint).text));
    }
    if let Some(payload) = request.payload.as_ref().filter(|payload| !payload.is_null()) {
        let payload = serde_json::to_string_pretty(payload).unwrap_or_default();
        text.push_str(&format!("The tool shows:\n{}\n", visible(&payload).text));
    }
    text
}

fn verdict(line: Option<&str>) -> Verdict {
    let Some(line) = line.map(str::trim) else { return Verdict::reject("the input ended") };
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    match (word.to_lowercase().as_str(), rest.trim()) {
        ("y" | "yes", "") => Verdict::Approve,
        ("n" | "no", reason) if !reason.is_empty() => Verdict::reject(reason),
        _ => Verdict::Reject { reason: None },
    }
}
