//! Standard input and output, one message a line. Threads of their own read and write, so that a client that stops
//! reading or writing never stops the bridge from noticing.

use std::io::{BufRead, Read as _, Write};
use std::thread;

use tokio::sync::mpsc;

/// The longest line that is taken from the client: the server's bound on a body, and some room for the envelope.
pub(super) const MAX_LINE: usize = 4 * 1024 * 1024 + 64 * 1024;
/// How many lines may be under way in either direction before the other side has to wait.
const QUEUE: usize = 256;

/// A line from the client.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    Text(String),
    /// It was longer than [`MAX_LINE`], or no Unicode, and is gone.
    Unusable(Unusable),
}

/// Why a line cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unusable {
    TooLong,
    NotUnicode,
}

/// Reads lines until the input ends; then the channel closes.
pub(super) fn read(mut input: impl BufRead + Send + 'static) -> mpsc::Receiver<Line> {
    let (sender, receiver) = mpsc::channel(QUEUE);
    thread::spawn(move || {
        loop {
            match next_line(&mut input, MAX_LINE) {
                Ok(Some(line)) => {
                    if sender.blocking_send(line).is_err() {
                        return;
                    }
                }
                Ok(None) => return,
                Err(error) => {
                    tracing::debug!(%error, "standard input cannot be read any more");
                    return;
                }
            }
        }
    });
    receiver
}

/// Where lines for the client go. Clones are one.
#[derive(Clone)]
pub(super) struct Outlet(mpsc::Sender<String>);

impl Outlet {
    /// Writes lines, each at once, until everybody has let go of the outlet or nobody reads.
    pub(super) fn to(mut output: impl Write + Send + 'static) -> (Self, thread::JoinHandle<()>) {
        let (sender, mut receiver) = mpsc::channel::<String>(QUEUE);
        let writer = thread::spawn(move || {
            while let Some(mut line) = receiver.blocking_recv() {
                line.push('\n');
                let written = output.write_all(line.as_bytes()).and_then(|()| output.flush());
                if let Err(error) = written {
                    tracing::debug!(%error, "nobody reads standard output any more");
                    return;
                }
            }
        });
        (Self(sender), writer)
    }

    /// Says something. JSON has no line breaks but between its tokens, so taking them out changes nothing.
    pub(super) async fn say(&self, message: String) {
        let line = if message.contains(['\n', '\r']) { message.replace(['\n', '\r'], " ") } else { message };
        // Where nobody reads there is nobody to tell.
        let _ = self.0.send(line).await;
    }

    /// Completes when nobody reads any more.
    pub(super) async fn closed(&self) {
        self.0.closed().await;
    }
}

/// The next line that is not empty; none where the input has ended. A longer one is read to its end and thrown away.
fn next_line(input: &mut impl BufRead, bound: usize) -> std::io::Result<Option<Line>> {
    loop {
        let mut bytes = Vec::new();
        let limit = bound as u64 + 1;
        if input.by_ref().take(limit).read_until(b'\n', &mut bytes)? == 0 {
            return Ok(None);
        }
        if bytes.last() != Some(&b'\n') && bytes.len() > bound {
            skip_line(input)?;
            return Ok(Some(Line::Unusable(Unusable::TooLong)));
        }
        let line = bytes.trim_ascii();
        if line.is_empty() {
            continue;
        }
        return Ok(Some(match std::str::from_utf8(line) {
            Ok(text) => Line::Text(text.to_owned()),
            Err(_) => Line::Unusable(Unusable::NotUnicode),
        }));
    }
}

fn skip_line(input: &mut impl BufRead) -> std::io::Result<()> {
    loop {
        let available = input.fill_buf()?;
        if available.is_empty() {
            return Ok(());
        }
        match available.iter().position(|byte| *byte == b'\n') {
            Some(end) => {
                input.consume(end + 1);
                return Ok(());
            }
            None => {
                let length = available.len();
                input.consume(length);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(input: &[u8], bound: usize) -> Vec<Line> {
        let mut input = input;
        std::iter::from_fn(|| next_line(&mut input, bound).unwrap()).collect()
    }

    fn text(line: &str) -> Line {
        Line::Text(line.to_owned())
    }

    #[test]
    fn lines_come_one_by_one_and_the_last_needs_no_end() {
        assert_eq!(all(b"{}\r\n\n  \n{\"a\":1}", 100), [text("{}"), text("{\"a\":1}")]);
    }

    #[test]
    fn a_line_at_the_bound_is_taken_and_one_past_it_is_not() {
        let lines = all(b"12345\n123456\n12\n", 5);
        assert_eq!(lines, [text("12345"), Line::Unusable(Unusable::TooLong), text("12")]);
    }

    #[test]
    fn what_is_no_unicode_is_named_and_skipped() {
        assert_eq!(all(b"\xff\n{}\n", 9), [Line::Unusable(Unusable::NotUnicode), text("{}")]);
    }
}
