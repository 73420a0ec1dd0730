//! Lines from standard input, read by a thread of their own: a read from a terminal cannot be called off, and nobody
//! should have to press a key for the program to end.

use std::io::BufRead as _;

use tokio::sync::mpsc;

/// The longest line taken from a person.
const MAX_LINE_BYTES: usize = 64 * 1024;

/// Lines that a person types.
pub(crate) struct Keyboard {
    lines: mpsc::UnboundedReceiver<String>,
}

impl Keyboard {
    pub(crate) fn of_process() -> Self {
        let (typed, lines) = mpsc::unbounded_channel();
        // Detached on purpose: it ends with the process.
        std::thread::spawn(move || {
            let input = std::io::stdin().lock();
            for line in input.lines().map_while(Result::ok) {
                if line.len() > MAX_LINE_BYTES || typed.send(line).is_err() {
                    return;
                }
            }
        });
        Self { lines }
    }

    /// The next line, without its end and the blanks around it; nothing at the end of input.
    pub(crate) async fn line(&mut self) -> Option<String> {
        self.lines.recv().await.map(|line| line.trim().to_owned())
    }

    /// Drops lines that were typed before the question could be read: they answer nothing.
    pub(crate) fn forget_typed_ahead(&mut self) {
        while self.lines.try_recv().is_ok() {}
    }
}

#[cfg(test)]
impl Keyboard {
    /// A person who types these lines and then ends the input.
    pub(crate) fn typing(lines: &[&str]) -> Self {
        let (typed, received) = mpsc::unbounded_channel();
        for line in lines {
            typed.send((*line).to_owned()).unwrap();
        }
        Self { lines: received }
    }
}
