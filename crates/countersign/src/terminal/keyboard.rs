//! Lines from standard input.
//!
//! One thread reads them for the whole process: a read from a terminal cannot be called off, and a second reader would
//! swallow the lines that are meant for the first.

use std::io::BufRead as _;
use std::sync::OnceLock;

use tokio::sync::{Mutex, MutexGuard, mpsc};

/// The longest line taken from a person.
const MAX_LINE_BYTES: usize = 64 * 1024;

type Lines = mpsc::UnboundedReceiver<String>;

/// Lines that a person types. Every keyboard of the process hears the same person; one asks at a time.
pub(crate) enum Keyboard {
    /// Standard input.
    Process,
    /// What a test types.
    #[cfg(test)]
    Typed(Lines),
}

impl Keyboard {
    /// Standard input.
    pub(crate) fn of_process() -> Self {
        Self::Process
    }

    /// The next line, without its end and the blanks around it; nothing at the end of input.
    pub(crate) async fn line(&mut self) -> Option<String> {
        let line = match self {
            Self::Process => standard_input().await.recv().await,
            #[cfg(test)]
            Self::Typed(lines) => lines.recv().await,
        };
        line.map(|line| line.trim().to_owned())
    }

    /// Drops lines that were typed before the question could be read: they answer nothing.
    pub(crate) async fn forget_typed_ahead(&mut self) {
        match self {
            Self::Process => {
                let mut lines = standard_input().await;
                while lines.try_recv().is_ok() {}
            }
            #[cfg(test)]
            Self::Typed(_) => {}
        }
    }
}

/// The lines of standard input, read from the first time that somebody asks.
async fn standard_input() -> MutexGuard<'static, Lines> {
    static LINES: OnceLock<Mutex<Lines>> = OnceLock::new();
    LINES.get_or_init(|| Mutex::new(read_lines())).lock().await
}

fn read_lines() -> Lines {
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
    lines
}

#[cfg(test)]
impl Keyboard {
    /// A person who types these lines and then ends the input.
    pub(crate) fn typing(lines: &[&str]) -> Self {
        let (typed, received) = mpsc::unbounded_channel();
        for line in lines {
            typed.send((*line).to_owned()).unwrap();
        }
        Self::Typed(received)
    }
}
