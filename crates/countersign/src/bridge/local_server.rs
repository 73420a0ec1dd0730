//! The one server of a data folder on this machine: found by what it wrote there, started where it does not run.
//!
//! Promises: bridges that start at once end up with one server; a server that was started outlives the bridge that started
//! it, and belongs to nobody's terminal; what it says is in `serve.log` of the data folder. Whoever starts the bridge chooses
//! neither the folder nor the configuration of a server that it starts: that server gets an environment of its own, and is
//! started only for the operator's own data folder (R18).

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};

use countersign_sdk::{ExposeSecret, SecretString};

use super::http::Place;
use crate::key_files::{AGENT_TOKEN, client_token, read_token};
use crate::reach;
use crate::serving::Notice;

/// How long a server that lives is waited for until it is ready; recovery of a large store is part of it.
const START_WITHIN: Duration = Duration::from_secs(120);
/// How often to look whether it is.
const LOOK_EVERY: Duration = Duration::from_millis(25);
/// What the server says.
const LOG: &str = "serve.log";
/// What it said before, once that became too much.
const OLD_LOG: &str = "serve.log.old";
const MAX_LOG_BYTES: u64 = 1024 * 1024;
/// Held by whoever starts a server.
const LOCK: &str = "serve.lock";
/// A port of the system's choice, where the configured one is taken.
const ANY_PORT: [&str; 2] = ["--listen", "127.0.0.1:0"];

/// What a server in the background finds programs by. The client's own would let a repository bring its programs along.
const SYSTEM_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Where the server lives, and how it is started.
pub(crate) struct LocalServer {
    pub(crate) folder: PathBuf,
    pub(crate) start: Start,
    /// The token to use, instead of the one in the folder.
    pub(crate) token: Option<String>,
    /// The client whose own token of the folder is used; without one, the agent.token that clients share.
    pub(crate) client: Option<String>,
}

/// Whether a server may be started for a folder.
pub(crate) enum Start {
    /// It is the operator's own folder.
    Own {
        /// The command line of a server in the background, without the program.
        words: Vec<OsString>,
        /// Its whole environment, but for the path.
        environment: Vec<(OsString, OsString)>,
    },
    /// The bridge's command line named another folder, or there is none of the operator's own: a server that runs there is used,
    /// and none is started.
    Never {
        /// The operator's own folder, where there is one.
        own: Option<PathBuf>,
    },
}

/// What became of a start.
enum Started {
    Ready(Place),
    Ended,
}

impl LocalServer {
    /// The server, running.
    pub(super) async fn running(&self) -> anyhow::Result<Place> {
        if let Some(place) = self.found().await? {
            return Ok(place);
        }
        let (words, environment) = match &self.start {
            Start::Own { words, environment } => (words, environment),
            Start::Never { own } => return Err(self.not_started(own.as_deref())),
        };
        self.make_folder()?;
        let _starting = self.lock().await?;
        if let Some(place) = self.found().await? {
            return Ok(place);
        }
        tracing::info!(folder = %self.folder.display(), "no server runs here; starting one");
        for extra in [&[][..], &ANY_PORT] {
            match self.ready(self.spawn(words, environment, extra)?, START_WITHIN).await? {
                Started::Ready(place) => return Ok(place),
                Started::Ended => tracing::debug!(?extra, "the server ended before it was ready"),
            }
        }
        bail!("no server can be started for {}; {}", self.folder.display(), self.see_log());
    }

    /// Whether the server that was found there is still the one: a stranger at its address is shown no token. One whose
    /// process cannot be seen from here is asked to prove itself again.
    pub(super) fn is_still_at(&self, place: &Place) -> bool {
        Notice::read(&self.folder).is_some_and(|notice| place.is_at(&notice.url) && notice.is_of_a_process())
    }

    async fn found(&self) -> anyhow::Result<Option<Place>> {
        let Some(url) = reach::running(&self.folder).await else { return Ok(None) };
        let of_folder = match (&self.token, &self.client) {
            (Some(_), _) => None,
            (None, None) => read_token(&self.folder, AGENT_TOKEN)?,
            (None, Some(client)) => Some(self.token_of(client)?),
        };
        let of_folder = of_folder.as_ref().map(ExposeSecret::expose_secret);
        Place::at(&url, self.token.as_deref().or(of_folder)).map(Some)
    }

    fn token_of(&self, client: &str) -> anyhow::Result<SecretString> {
        let token = read_token(&self.folder, &client_token(client))?;
        token.with_context(|| {
            let folder = self.folder.display();
            format!("there is no token for the client {client} in {folder}; run `countersign mcp install {client}`")
        })
    }

    /// One bridge starts a server, the others wait for it. The lock goes with its file.
    async fn lock(&self) -> anyhow::Result<File> {
        let file = self.open(LOCK)?;
        let mut waited = Duration::ZERO;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) if waited < START_WITHIN => {}
                Err(TryLockError::WouldBlock) => {
                    bail!("another bridge has been starting a server for too long")
                }
                Err(TryLockError::Error(error)) => return Err(error).context("the start cannot be locked"),
            }
            tokio::time::sleep(LOOK_EVERY).await;
            waited += LOOK_EVERY;
        }
    }

    /// Waits until a server that was started is ready, for as long as it lives and `bound` allows.
    async fn ready(&self, mut child: Child, bound: Duration) -> anyhow::Result<Started> {
        let mut waited = Duration::ZERO;
        while waited < bound {
            if let Some(place) = self.found().await? {
                see_off(child);
                return Ok(Started::Ready(place));
            }
            if child.try_wait().context("the server cannot be watched")?.is_some() {
                // It may have lost to another that started without us.
                return Ok(self.found().await?.map_or(Started::Ended, Started::Ready));
            }
            tokio::time::sleep(LOOK_EVERY).await;
            waited += LOOK_EVERY;
        }
        // It lives, so it is left to it: killed, it would begin its recovery from the start the next time.
        see_off(child);
        bail!("the server is not ready after {bound:?} and goes on starting; {}", self.see_log());
    }

    #[expect(clippy::disallowed_methods, reason = "the bridge starts the server that it bridges to")]
    fn spawn(
        &self,
        words: &[OsString],
        environment: &[(OsString, OsString)],
        extra: &[&str],
    ) -> anyhow::Result<Child> {
        self.turn_log_over();
        let log = self.open(LOG)?;
        let mut command = Command::new(crate::local::this_program()?);
        command.args(words).args(extra).current_dir("/").stdin(Stdio::null());
        command
            .env_clear()
            .env("PATH", SYSTEM_PATH)
            .envs(environment.iter().map(|(name, value)| (name, value)));
        command.stdout(log.try_clone()?).stderr(log);
        command.spawn().context("this program cannot be started a second time, as the server")
    }

    /// That no server runs where the client wants one, and how the operator starts it.
    fn not_started(&self, own: Option<&Path>) -> anyhow::Error {
        let folder = self.folder.display();
        let own = match own {
            Some(own) => format!("`mcp` starts one only for your own data folder, {}", own.display()),
            None => {
                "`mcp` starts none, because the user database has no home folder for this user".to_owned()
            }
        };
        anyhow::anyhow!(
            "no server runs for {folder}; start it with `countersign --data-dir {} serve` ({own})",
            crate::invocation::quoted(&folder.to_string())
        )
    }

    /// The folder holds tokens, so it is its owner's alone from the beginning.
    fn make_folder(&self) -> anyhow::Result<()> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&self.folder).with_context(|| format!("{} cannot be made", self.folder.display()))
    }

    fn open(&self, name: &str) -> anyhow::Result<File> {
        let path = self.folder.join(name);
        let mut options = OpenOptions::new();
        options.create(true).append(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        options.open(&path).with_context(|| format!("{} cannot be written", path.display()))
    }

    /// What was said long ago goes when there is much of it.
    fn turn_log_over(&self) {
        let log = self.folder.join(LOG);
        if fs::metadata(&log).is_ok_and(|log| log.len() > MAX_LOG_BYTES)
            && let Err(error) = fs::rename(&log, self.folder.join(OLD_LOG))
        {
            tracing::debug!(%error, "the log cannot be turned over");
        }
    }

    /// Where the reason is. What the server said may hold secrets, and the model reads what went wrong.
    fn see_log(&self) -> String {
        format!("{} says why", self.folder.join(LOG).display())
    }
}

/// Whoever started a server learns of its end, so that it does not stay in the process table.
fn see_off(mut child: Child) {
    std::thread::spawn(move || child.wait());
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;

    /// A process in the server's place.
    #[expect(clippy::disallowed_methods, reason = "a process that lives, and one that does not")]
    fn process(program: &str, word: &str) -> Child {
        Command::new(program).arg(word).spawn().unwrap()
    }

    async fn waited_for(child: Child) -> anyhow::Result<Started> {
        let folder = tempfile::tempdir().unwrap();
        let start = Start::Never { own: None };
        let server = LocalServer { folder: folder.path().to_owned(), start, token: None, client: None };
        server.ready(child, Duration::from_secs(1)).await
    }

    #[tokio::test]
    async fn a_server_that_lives_and_is_not_ready_in_time_is_left_to_go_on() {
        let child = process("sleep", "60");
        let pid = rustix::process::Pid::from_child(&child);
        let outcome = waited_for(child).await;
        let lived = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        let words = outcome.err().unwrap().to_string();
        assert!(words.contains("goes on starting") && words.contains(LOG), "{words}");
        assert!(lived.is_ok(), "its recovery would begin from the start the next time");
    }

    #[tokio::test]
    async fn a_server_that_ends_is_not_waited_for() {
        assert!(matches!(waited_for(process("sh", "-c")).await, Ok(Started::Ended)));
    }
}
