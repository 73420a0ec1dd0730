//! Child processes. Dropping a [`ChildHandle`] kills its child, and a thread reaps it.
//!
//! Promise: no child outlives its handle, and none stays behind as a zombie. One thread starts all children and lives as
//! long as any of them: the kernel kills a child when the *thread* that started it ends, not only when the process does.

use std::io::{self, Read};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Weak};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::host::ChildOptions;
use crate::host::pool::{IDLE_BOUND, Pool};

/// How much of a dead child's error output is kept.
const MAX_STDERR_BYTES: u64 = 2 * 1024;

/// The two threads that start and reap children. Both end when the last `Arc` of this is dropped.
pub(crate) struct Supervisor {
    jobs: mpsc::Sender<Job>,
    killed: mpsc::Sender<Killed>,
}

/// Work for the starting thread.
pub(crate) enum Job {
    /// Start another child for the pool, if it has room.
    Fill,
    /// Start one child for a caller that waits for it.
    Start(oneshot::Sender<io::Result<ChildHandle>>),
}

struct Killed {
    process: Child,
    reaped: Option<oneshot::Sender<ExitStatus>>,
    /// Released when the child is reaped, so that the bound on children in use is one on processes.
    _permit: Option<OwnedSemaphorePermit>,
}

impl Supervisor {
    /// Starts both threads; the first of them fills the pool.
    pub(crate) fn new(options: Arc<ChildOptions>, pool: &Arc<Pool>) -> io::Result<Arc<Self>> {
        let (jobs, asked) = mpsc::channel();
        let (killed, to_reap) = mpsc::channel();
        let supervisor = Arc::new(Self { jobs, killed });
        let starter =
            Starter { supervisor: Arc::downgrade(&supervisor), pool: Arc::downgrade(pool), options };
        let thread = |name: &str| std::thread::Builder::new().name(name.to_owned());
        thread("sandbox-spawner").spawn(move || starter.run(&asked))?;
        thread("sandbox-reaper").spawn(move || reap_all(&to_reap))?;
        Ok(supervisor)
    }

    pub(crate) fn ask(&self, job: Job) {
        // The thread receives as long as this exists.
        let _ = self.jobs.send(job);
    }
}

struct Starter {
    supervisor: Weak<Supervisor>,
    pool: Weak<Pool>,
    options: Arc<ChildOptions>,
}

impl Starter {
    fn run(&self, asked: &mpsc::Receiver<Job>) {
        let mut can_start = true;
        loop {
            let job = self.next(asked, can_start);
            let Some(supervisor) = self.supervisor.upgrade() else { return };
            match job {
                Ok(Job::Start(waiting)) => {
                    // If the caller is gone, the handle is dropped and the child killed.
                    let _ = waiting.send(ChildHandle::start(&self.options, &supervisor));
                    can_start = true;
                }
                Ok(Job::Fill) => can_start = self.add_to_pool(&supervisor),
                Err(RecvTimeoutError::Timeout) => {
                    self.pool.upgrade().inspect(|pool| pool.shrink());
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// A script that waits for its child comes first, then the pool as long as it has room.
    fn next(&self, asked: &mpsc::Receiver<Job>, can_start: bool) -> Result<Job, RecvTimeoutError> {
        let pool = self.pool.upgrade().map(|pool| (pool.has_room(), pool.has_grown()));
        match pool {
            Some((true, _)) if can_start => asked.try_recv().or(Ok(Job::Fill)),
            Some((_, true)) => asked.recv_timeout(IDLE_BOUND),
            _ => asked.recv().map_err(|_| RecvTimeoutError::Disconnected),
        }
    }

    /// False if no child could be started: then the next script that needs one tries again, and reports the error.
    fn add_to_pool(&self, supervisor: &Arc<Supervisor>) -> bool {
        let Some(pool) = self.pool.upgrade().filter(|pool| pool.has_room()) else { return true };
        match ChildHandle::start(&self.options, supervisor) {
            Ok(child) => pool.put(child),
            Err(error) => {
                tracing::warn!(%error, "no sandbox could be started ahead");
                return false;
            }
        }
        true
    }
}

fn reap_all(killed: &mpsc::Receiver<Killed>) {
    for mut child in killed {
        match child.process.wait() {
            Ok(status) => {
                let _ = child.reaped.map(|reaped| reaped.send(status));
            }
            Err(error) => tracing::warn!(%error, "a sandbox could not be reaped"),
        }
    }
}

/// A running child.
pub(crate) struct ChildHandle {
    /// None once the reaper has it.
    process: Option<Child>,
    pid: u32,
    pipes: Option<Pipes>,
    stderr: Option<ChildStderr>,
    permit: Option<OwnedSemaphorePermit>,
    supervisor: Arc<Supervisor>,
}

/// The host's ends of a child's pipes.
pub(crate) struct Pipes {
    pub(crate) orders: ChildStdin,
    pub(crate) replies: ChildStdout,
}

impl ChildHandle {
    #[expect(clippy::disallowed_methods, reason = "this is the module that owns the sandbox's processes")]
    fn start(options: &ChildOptions, supervisor: &Arc<Supervisor>) -> io::Result<Self> {
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
            // Ctrl-C at a terminal is for the gateway, which parks its scripts; it must not kill them first.
            command.process_group(0);
        }
        let mut process = command.spawn()?;
        let (orders, replies) = (process.stdin.take(), process.stdout.take());
        Ok(Self {
            pid: process.id(),
            pipes: orders.zip(replies).map(|(orders, replies)| Pipes { orders, replies }),
            stderr: process.stderr.take(),
            process: Some(process),
            permit: None,
            supervisor: Arc::clone(supervisor),
        })
    }

    /// Valid as long as this lives: the number cannot be given to another process before the child is reaped.
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.process.as_mut().is_some_and(|process| matches!(process.try_wait(), Ok(None)))
    }

    /// Its pipes, once.
    pub(crate) fn take_pipes(&mut self) -> Option<Pipes> {
        self.pipes.take()
    }

    /// From here on it counts among the children in use.
    pub(crate) fn hold(&mut self, permit: OwnedSemaphorePermit) {
        self.permit = Some(permit);
    }

    /// Kills it. Returns its exit status, which is its own if it had ended before, and its error output.
    pub(crate) async fn reap(mut self) -> (Option<ExitStatus>, String) {
        let (reaped, status) = oneshot::channel();
        self.kill(Some(reaped));
        let status = status.await.ok();
        (status, self.stderr.take().map(error_output).unwrap_or_default())
    }

    fn kill(&mut self, reaped: Option<oneshot::Sender<ExitStatus>>) {
        let Some(mut process) = self.process.take() else { return };
        // This fails only if the child was reaped before.
        let _ = process.kill();
        let killed = Killed { process, reaped, _permit: self.permit.take() };
        if let Err(mpsc::SendError(mut killed)) = self.supervisor.killed.send(killed) {
            let _ = killed.process.wait();
        }
    }
}

impl Drop for ChildHandle {
    fn drop(&mut self) {
        self.kill(None);
    }
}

/// The error output of a dead child, on one line. Never blocks.
fn error_output(pipe: ChildStderr) -> String {
    if fcntl(&pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).is_err() {
        return String::new();
    }
    let mut bytes = Vec::new();
    // An error means that there is no more to read; the bytes before it count.
    let _ = pipe.take(MAX_STDERR_BYTES).read_to_end(&mut bytes);
    let text = String::from_utf8_lossy(&bytes);
    text.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
