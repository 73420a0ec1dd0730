//! A pseudo-terminal, with somebody who reads before they type.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use crate::shell::Shell;

const PATIENCE: Duration = Duration::from_secs(60);

/// How long to read on where a process that outlives the program keeps the terminal open.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// A program at a terminal.
pub(crate) struct Terminal {
    pub(crate) child: Child,
    keys: File,
    screen: Receiver<Vec<u8>>,
    pub(crate) seen: String,
}

impl Terminal {
    pub(crate) fn of(shell: &Shell, words: &[&str]) -> Self {
        Self::with(shell.command(words).env("TERM", "xterm"))
    }

    pub(crate) fn with(command: &mut Command) -> Self {
        Self::started(command, None)
    }

    /// A program whose standard error is a file.
    pub(crate) fn with_errors_in(command: &mut Command, file: File) -> Self {
        Self::started(command, Some(file))
    }

    fn started(command: &mut Command, errors: Option<File>) -> Self {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        tcsetwinsize(&ours, Winsize { ws_row: 30, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
        let theirs = OpenOptions::new().read(true).write(true).open(name).unwrap();
        let stream = || Stdio::from(theirs.try_clone().unwrap());
        let errors = errors.map_or_else(stream, Stdio::from);
        let child = command.stdin(stream()).stdout(stream()).stderr(errors).spawn();
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
    pub(crate) fn read_until(&mut self, words: &str) {
        while !self.seen.contains(words) {
            match self.screen.recv_timeout(PATIENCE) {
                Ok(bytes) => self.seen.push_str(&String::from_utf8_lossy(&bytes)),
                Err(_) => panic!("{words:?} never appeared:\n{}", self.seen),
            }
        }
    }

    /// Reads until this stands on the screen, then forgets what was read and types a line.
    #[track_caller]
    pub(crate) fn answer(&mut self, words: &str, line: &str) {
        self.read_until(words);
        self.seen.clear();
        self.keys.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    /// Presses keys, without an Enter after them.
    pub(crate) fn press(&mut self, keys: &str) {
        self.seen.clear();
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Asks the program to end.
    pub(crate) fn terminate(&self) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, Signal::TERM).unwrap();
    }

    /// Whether whatever is typed is shown and taken by lines, as a shell wants it.
    pub(crate) fn is_cooked(&self) -> bool {
        tcgetattr(&self.keys).unwrap().local_modes.contains(LocalModes::ECHO | LocalModes::ICANON)
    }

    #[track_caller]
    pub(crate) fn ends_with(&mut self, status: i32) -> String {
        let ended = self.child.wait().unwrap();
        // It ends when the last process has closed the terminal.
        while let Ok(bytes) = self.screen.recv_timeout(LAST_WORDS) {
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
