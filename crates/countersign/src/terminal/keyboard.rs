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

    /// Drops what was typed before the question could be read, a line without its end too: it answers nothing.
    pub(crate) async fn forget_typed_ahead(&mut self) -> TypedAhead {
        match self {
            Self::Process => {
                let unread = drop_unread();
                let mut lines = standard_input().await;
                let mut dropped = unread;
                while lines.try_recv().is_ok() {
                    dropped = TypedAhead::Lines;
                }
                dropped
            }
            #[cfg(test)]
            Self::Typed(_) => TypedAhead::Nothing,
        }
    }
}

/// What was typed before a question could be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TypedAhead {
    /// No line; at most the beginning of one.
    Nothing,
    Lines,
}

/// Drops what the terminal holds and nobody has read. The beginning of a line is there until its Enter, which may come
/// after the next question is shown: an `a` meant for one question would approve another.
#[cfg(unix)]
fn drop_unread() -> TypedAhead {
    use rustix::termios::{QueueSelector, tcflush};
    let input = std::io::stdin();
    let lines = match rustix::io::ioctl_fionread(&input) {
        Ok(1..) => TypedAhead::Lines,
        _ => TypedAhead::Nothing,
    };
    // What is no terminal is not asked at.
    match tcflush(&input, QueueSelector::IFlush) {
        Ok(()) => lines,
        Err(_) => TypedAhead::Nothing,
    }
}

#[cfg(not(unix))]
fn drop_unread() -> TypedAhead {
    TypedAhead::Nothing
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
