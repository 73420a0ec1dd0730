//! Where lines are typed that answer questions.
//!
//! Promise: a line answers the question that was open when it was typed, and no other. What is typed while none is open is
//! dropped, however much it is; nobody ever waits to type. What a terminal still holds when a question opens is thrown away.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// Where lines are typed. Clones are one keyboard, and one question at a time is open at it.
#[derive(Clone, Default)]
pub struct Keyboard {
    desk: Arc<Desk>,
}

#[derive(Default)]
struct Desk {
    /// Held for as long as a question is open, so that two of them never mix.
    questions: tokio::sync::Mutex<()>,
    open: Mutex<Open>,
    #[cfg(unix)]
    terminal: Option<tty::Terminal>,
    #[cfg(unix)]
    asked: std::sync::Condvar,
}

/// The question that is open, if one is.
#[derive(Default)]
struct Open {
    answer: Option<oneshot::Sender<String>>,
    /// The beginning of a line.
    #[cfg(unix)]
    begun: Vec<u8>,
    ended: bool,
}

impl Keyboard {
    /// A line was typed. It answers the question that is open now; where there is none, it is dropped.
    pub fn typed(&self, line: impl Into<String>) {
        if let Some(answer) = self.desk.open().answer.take() {
            // A question that was withdrawn in this very moment needs no answer.
            let _ = answer.send(line.into());
        }
    }

    /// Nobody will type any more: whatever is asked, now and later, is rejected.
    pub fn end(&self) {
        let mut open = self.desk.open();
        (open.answer, open.ended) = (None, true);
    }

    /// Has `show` put a question before the person, and returns what they type after that; nothing where the input ended.
    pub(super) async fn ask(
        &self,
        show: impl FnOnce() -> std::io::Result<()>,
    ) -> std::io::Result<Option<String>> {
        let _one_at_a_time = self.desk.questions.lock().await;
        #[cfg(unix)]
        if let Some(terminal) = &self.desk.terminal {
            terminal.fall_silent().await?;
        }
        let answer = self.desk.put(show)?;
        Ok(answer.await.ok())
    }
}

impl Desk {
    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nothing is read from when the terminal is emptied until the question is shown and open.
    fn put(&self, show: impl FnOnce() -> std::io::Result<()>) -> std::io::Result<oneshot::Receiver<String>> {
        let (sender, receiver) = oneshot::channel();
        let mut open = self.open();
        #[cfg(unix)]
        {
            open.begun.clear();
            self.terminal.as_ref().map_or(Ok(()), tty::Terminal::discard)?;
        }
        show()?;
        open.answer = (!open.ended).then_some(sender);
        #[cfg(unix)]
        self.asked.notify_one();
        Ok(receiver)
    }
}

/// Terminals that can be asked whether there is anything to read, so that nothing is taken from them but answers.
#[cfg(unix)]
mod tty {
    use std::os::fd::AsFd;
    use std::sync::{Arc, OnceLock, PoisonError};
    use std::time::Duration;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::io::{Errno, read};
    use rustix::termios::{QueueSelector, tcflush};

    use super::{Desk, Keyboard, Open};

    /// How long nothing may come before a question opens: a paste comes in pieces, and some are still on their way.
    const SILENCE: Duration = Duration::from_millis(20);
    /// How often that is waited for.
    const MOST_WAITS: usize = 250;
    /// How long the reader waits before it looks whether its question is still open.
    const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
    /// The longest line; a longer one is no yes.
    const MAX_LINE_BYTES: usize = 64 << 10;

    static STDIN: OnceLock<Keyboard> = OnceLock::new();

    /// A terminal that is read.
    pub(super) struct Terminal(Box<dyn AsFd + Send + Sync>);

    impl Keyboard {
        /// The process's standard input: one, however often it is asked for.
        pub(in crate::providers) fn stdin() -> Self {
            STDIN.get_or_init(|| Self::at(std::io::stdin())).clone()
        }

        /// A keyboard whose lines come from this terminal. It is read only while a question is open.
        pub(super) fn at(terminal: impl AsFd + Send + Sync + 'static) -> Self {
            let desk = Arc::new(Desk { terminal: Some(Terminal(Box::new(terminal))), ..Desk::default() });
            let reader = Arc::clone(&desk);
            // A thread of its own, because a read of a terminal cannot be cancelled.
            std::thread::spawn(move || {
                loop {
                    reader.read_on();
                }
            });
            Self { desk }
        }
    }

    impl Terminal {
        /// Throws away what was typed and not read.
        pub(super) fn discard(&self) -> std::io::Result<()> {
            Ok(tcflush(&self.0, QueueSelector::IFlush)?)
        }

        /// Returns once everything that was typed before is here and thrown away.
        pub(super) async fn fall_silent(&self) -> std::io::Result<()> {
            for _ in 0..MOST_WAITS {
                self.discard()?;
                tokio::time::sleep(SILENCE).await;
                if !self.has_input(&Timespec::default()) {
                    return Ok(());
                }
            }
            Err(std::io::Error::other("the terminal's input does not stop, so that no question can be asked"))
        }

        /// Whether there is something to read, or an end, at the latest after `wait`.
        fn has_input(&self, wait: &Timespec) -> bool {
            // An error is found by whoever reads.
            poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(wait)) != Ok(0)
        }
    }

    impl Desk {
        /// Waits for a question, then reads a piece of its answer.
        fn read_on(&self) {
            let nobody_asks = |open: &mut Open| open.answer.as_ref().is_none_or(|answer| answer.is_closed());
            let waited = self.asked.wait_while(self.open(), nobody_asks);
            drop(waited.unwrap_or_else(PoisonError::into_inner));
            let Some(terminal) = &self.terminal else { return };
            if !terminal.has_input(&LOOK) {
                return;
            }
            let mut open = self.open();
            // The question may have closed meanwhile, and the next one may have thrown this input away.
            if nobody_asks(&mut open) || !terminal.has_input(&Timespec::default()) {
                return;
            }
            let mut bytes = [0; 1024];
            match read(&terminal.0, &mut bytes) {
                Ok(0) => open.answer = None,
                Ok(count) => open.read(&bytes[..count]),
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(_) => open.answer = None,
            }
        }
    }

    impl Open {
        /// The first whole line is the answer. What follows it came with it, and answers nothing.
        fn read(&mut self, bytes: &[u8]) {
            let end = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            self.begun.extend_from_slice(&bytes[..end.unwrap_or(bytes.len())]);
            if end.is_some() || self.begun.len() > MAX_LINE_BYTES {
                let line = String::from_utf8_lossy(&std::mem::take(&mut self.begun)).into_owned();
                if let Some(answer) = self.answer.take() {
                    let _ = answer.send(line);
                }
            }
        }
    }
}

/// Elsewhere standard input is read all the time, so that what is typed while no question is open is dropped at once.
#[cfg(not(unix))]
mod everywhere_else {
    use std::io::BufRead;
    use std::sync::OnceLock;

    use super::Keyboard;

    static STDIN: OnceLock<Keyboard> = OnceLock::new();

    impl Keyboard {
        /// The process's standard input: one, however often it is asked for.
        pub(in crate::providers) fn stdin() -> Self {
            let begin = || {
                let keyboard = Self::default();
                let reader = keyboard.clone();
                std::thread::spawn(move || {
                    std::io::stdin().lock().lines().map_while(Result::ok).for_each(|line| reader.typed(line));
                    reader.end();
                });
                keyboard
            };
            STDIN.get_or_init(begin).clone()
        }
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::fs::File;
    use std::io::Write;

    use rustix::fs::{Mode, OFlags};
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

    use super::*;

    /// A person's end of a terminal, and the keyboard at the other.
    fn terminal() -> (File, Keyboard) {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap();
        let theirs = rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
        (File::from(ours), Keyboard::at(theirs))
    }

    /// What is taken for the answer when this is typed before the question is shown, and that after it.
    async fn answer(before: &str, after: &str) -> Option<String> {
        let (mut person, keyboard) = terminal();
        person.write_all(before.as_bytes()).unwrap();
        let show = || person.write_all(after.as_bytes());
        keyboard.ask(show).await.unwrap()
    }

    #[tokio::test]
    async fn what_lies_in_the_terminal_when_a_question_opens_answers_nothing() {
        assert_eq!(answer("", "y\n").await.as_deref(), Some("y"));
        assert_eq!(answer("y\n", "n\n").await.as_deref(), Some("n"));
        assert_eq!(answer("y", "\n").await.as_deref(), Some(""), "half a line is old as well");
        // More than a terminal holds at once, so that the rest comes only when there is room.
        assert_eq!(answer(&"y\n".repeat(5_000), "n\n").await.as_deref(), Some("n"));
    }

    #[tokio::test]
    async fn a_question_that_is_given_up_leaves_the_next_line_to_the_next_question() {
        let (mut person, keyboard) = terminal();
        let waited = tokio::time::timeout(std::time::Duration::from_millis(50), keyboard.ask(|| Ok(())));
        assert!(waited.await.is_err(), "nobody types");
        person.write_all(b"y\n").unwrap();
        let second = keyboard.ask(|| person.write_all(b"n\n"));
        assert_eq!(second.await.unwrap().as_deref(), Some("n"));
    }

    #[tokio::test]
    async fn the_end_of_input_ends_the_question_and_a_terminal_that_is_gone_ends_every_one() {
        assert_eq!(answer("", "\u{4}").await, None);
        let (person, keyboard) = terminal();
        drop(person);
        assert!(!matches!(keyboard.ask(|| Ok(())).await, Ok(Some(_))));
    }
}
