//! A child process on a leash: whoever drops the leash has killed the child, and somebody collects what is left of it.
//!
//! Promise: no child outlives its leash, and none stays behind as a zombie. Children are started by one thread that lives
//! as long as any of them: the kernel takes a child down with the *thread* that started it, not only with the process.

use std::io::{self, Read};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::sync::{Arc, Weak};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::host::ChildOptions;
use crate::host::pool::Pool;

/// How much of what a child says before it dies is kept.
const MAX_LAST_WORDS_BYTES: u64 = 2 * 1024;

/// Where children begin and end: one thread starts them, another collects the dead. Both end with the last holder.
pub(crate) struct Home {
    jobs: mpsc::Sender<Job>,
    dead: mpsc::Sender<Dead>,
}

/// What the starting thread is asked for.
pub(crate) enum Job {
    /// To fill the pool.
    Fill(Weak<Pool>),
    /// One child, now.
    One(oneshot::Sender<io::Result<Leash>>),
}

/// A child that was killed and is to be collected.
struct Dead {
    process: Child,
    told: Option<oneshot::Sender<ExitStatus>>,
    /// Given back once the child is gone, so that the bound on children is one on processes.
    _permit: Option<OwnedSemaphorePermit>,
}

impl Home {
    /// Starts both threads.
    pub(crate) fn new(options: Arc<ChildOptions>) -> io::Result<Arc<Self>> {
        let (jobs, asked) = mpsc::channel();
        let (dead, killed) = mpsc::channel();
        let home = Arc::new(Self { jobs, dead });
        let weak = Arc::downgrade(&home);
        let thread = |name: &str| std::thread::Builder::new().name(name.to_owned());
        thread("sandbox-spawner").spawn(move || spawn_children(&asked, &weak, &options))?;
        thread("sandbox-reaper").spawn(move || collect(&killed))?;
        Ok(home)
    }

    /// Asks the starting thread for something. It is there as long as this is.
    pub(crate) fn ask(&self, job: Job) {
        let _ = self.jobs.send(job);
    }
}

fn spawn_children(asked: &mpsc::Receiver<Job>, home: &Weak<Home>, options: &ChildOptions) {
    for job in asked {
        let Some(home) = home.upgrade() else { return };
        match job {
            Job::Fill(pool) => {
                while let Some(pool) = pool.upgrade().filter(|pool| pool.wants_more()) {
                    match Leash::start(options, &home) {
                        Ok(leash) => pool.put(leash),
                        Err(error) => {
                            // Whoever needs one next tries again and hears why.
                            tracing::warn!(%error, "no sandbox could be started ahead");
                            break;
                        }
                    }
                }
            }
            Job::One(asker) => {
                // If nobody waits any more, dropping the leash ends the child.
                let _ = asker.send(Leash::start(options, &home));
            }
        }
    }
}

fn collect(killed: &mpsc::Receiver<Dead>) {
    for mut dead in killed {
        match dead.process.wait() {
            Ok(status) => {
                let _ = dead.told.map(|told| told.send(status));
            }
            Err(error) => tracing::warn!(%error, "a sandbox could not be collected"),
        }
    }
}

/// A running child.
pub(crate) struct Leash {
    /// Gone once it was handed to the collector.
    process: Option<Child>,
    pid: u32,
    pipes: Option<Pipes>,
    last_words: Option<ChildStderr>,
    permit: Option<OwnedSemaphorePermit>,
    home: Arc<Home>,
}

/// The two ends that a host talks to a child through.
pub(crate) struct Pipes {
    pub(crate) orders: ChildStdin,
    pub(crate) replies: ChildStdout,
}

impl Leash {
    #[expect(clippy::disallowed_methods, reason = "this is the module that owns the sandbox's processes")]
    fn start(options: &ChildOptions, home: &Arc<Home>) -> io::Result<Self> {
        let limits = serde_json::to_string(&options.limits)?;
        let mut command = Command::new(&options.program);
        command
            .args(&options.args)
            .arg(limits)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        #[cfg(unix)]
        {
            use std::os::unix::process::CommandExt as _;
            // Ctrl-C at a terminal is meant for the gateway, which puts its scripts away; it must not kill them first.
            command.process_group(0);
        }
        let mut process = command.spawn()?;
        let (orders, replies) = (process.stdin.take(), process.stdout.take());
        let last_words = process.stderr.take();
        let pipes = orders.zip(replies).map(|(orders, replies)| Pipes { orders, replies });
        let pid = process.id();
        Ok(Self { process: Some(process), pid, pipes, last_words, permit: None, home: Arc::clone(home) })
    }

    /// Its number, for as long as this lives: the number cannot go to another before the child is collected.
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// True if it has not ended by itself.
    pub(crate) fn lives(&mut self) -> bool {
        self.process.as_mut().is_some_and(|process| matches!(process.try_wait(), Ok(None)))
    }

    /// Its pipes, once.
    pub(crate) fn pipes(&mut self) -> Option<Pipes> {
        self.pipes.take()
    }

    /// From here on it counts among those in use.
    pub(crate) fn hold(&mut self, permit: OwnedSemaphorePermit) {
        self.permit = Some(permit);
    }

    /// Kills it and answers how it ended, which is its own way if it was faster, and what it said last.
    pub(crate) async fn end(mut self) -> (Option<ExitStatus>, String) {
        let (told, ended) = oneshot::channel();
        self.kill(Some(told));
        let status = ended.await.ok();
        (status, self.last_words.take().map(last_words).unwrap_or_default())
    }

    fn kill(&mut self, told: Option<oneshot::Sender<ExitStatus>>) {
        let Some(mut process) = self.process.take() else { return };
        // It fails only where the child was collected already.
        let _ = process.kill();
        let dead = Dead { process, told, _permit: self.permit.take() };
        if let Err(mpsc::SendError(mut dead)) = self.home.dead.send(dead) {
            let _ = dead.process.wait();
        }
    }
}

impl Drop for Leash {
    fn drop(&mut self) {
        self.kill(None);
    }
}

/// What a dead child left in its error pipe, on one line. Never waits.
fn last_words(pipe: ChildStderr) -> String {
    if fcntl(&pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).is_err() {
        return String::new();
    }
    let mut bytes = Vec::new();
    // An error means that there is no more to be had; what came before counts.
    let _ = pipe.take(MAX_LAST_WORDS_BYTES).read_to_end(&mut bytes);
    let text = String::from_utf8_lossy(&bytes);
    text.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
