//! Asking at the terminal.
//!
//! Promise: only `y` or `yes`, typed after the question was shown, approves. Without a terminal, at the end of input, and at
//! anything else the answer is no. What is shown is the stored input, whole, with invisible characters written out. Every
//! line that is not ours begins with a bar, so that nothing in it can pass for a question.

use std::io::{IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use countersign_core::visible::{Visible, listed, visible, visible_json};

use crate::confirm::{ConfirmationProvider, ConfirmationRequest, ProviderError, Verdict};
use crate::providers::keyboard::Keyboard;

/// What every line begins with that comes from a model or a tool.
const BAR: &str = "  | ";

/// Asks at a terminal, one question at a time.
pub struct TerminalConfirmation {
    /// Nothing where nobody can be asked.
    keyboard: Option<Keyboard>,
    out: Arc<Mutex<Box<dyn Write + Send>>>,
}

impl TerminalConfirmation {
    /// Asks on standard error and reads standard input. Where that is no terminal, everything is rejected, and that is said.
    pub fn stdio() -> Self {
        let keyboard = std::io::stdin().is_terminal().then(Keyboard::stdin);
        Self::with(keyboard, std::io::stderr())
    }

    /// Rejects everything and says so, as [`stdio`](Self::stdio) does where there is no terminal.
    pub fn unattended() -> Self {
        Self::with(None, std::io::stderr())
    }

    /// Asks on `out` and takes what is typed at `keyboard`: for a program with a terminal of its own making.
    pub fn on(keyboard: &Keyboard, out: impl Write + Send + 'static) -> Self {
        Self::with(Some(keyboard.clone()), out)
    }

    fn with(keyboard: Option<Keyboard>, out: impl Write + Send + 'static) -> Self {
        Self { keyboard, out: Arc::new(Mutex::new(Box::new(out))) }
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
        let Some(keyboard) = &self.keyboard else {
            self.show(&format!("{}Rejected: standard input is no terminal.\n", prompt(&request)))?;
            return Ok(Verdict::reject("nobody is at a terminal to ask"));
        };
        let question = format!("{}Run it? [y/N, or n and a reason] ", prompt(&request));
        let line = keyboard.ask(|| self.show(&question)).await?;
        Ok(verdict(line.as_deref()))
    }
}

/// What the person is shown.
pub fn prompt(request: &ConfirmationRequest) -> String {
    let (name, input) = (visible(&request.tool_name), visible_json(&request.input));
    let mut text = format!("\nThe tool {:?} wants to run with:\n{}", name.text, quoted(&input));
    let mut all = vec![name, input];
    if let Some(hint) = &request.hint {
        let hint = visible(hint);
        text.push_str(&format!("The tool says:\n{}", quoted(&hint)));
        all.push(hint);
    }
    if let Some(payload) = request.payload.as_ref().filter(|payload| !payload.is_null()) {
        let payload = visible_json(payload);
        text.push_str(&format!("The tool shows:\n{}", quoted(&payload)));
        all.push(payload);
    }
    let warnings: Vec<_> = all.iter().flat_map(|shown| &shown.warnings).copied().collect();
    if let Some(found) = listed(&warnings) {
        text.push_str(&format!("Look closely: this contains {found}. Each place is marked ⟦…⟧.\n"));
    }
    text
}

/// Text of others, each line of it marked as such.
fn quoted(shown: &Visible) -> String {
    shown.text.split('\n').map(|line| format!("{BAR}{line}\n")).collect()
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
