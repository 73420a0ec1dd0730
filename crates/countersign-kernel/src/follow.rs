//! Following an execution: what its handlers and its script say while it runs, as they say it.
//!
//! Nothing of this is recorded, and a slow follower misses lines instead of delaying a handler. Log lines are
//! in the result all the same.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use countersign_core::event::LogLine;
use countersign_core::ids::{ElicitationId, ExecutionId};
use countersign_sdk::{PrincipalId, Progress};
use tokio::sync::mpsc;

use crate::accept::{CallRequest, Patience};
use crate::calling_clients::{CallingClient, ClientWaits};
use crate::error::{CallError, GatewayError};
use crate::gateway::Gateway;
use crate::kernel::Kernel;
use crate::owner::Message;
use crate::registry::{Seen, Until};
use crate::result::ExecutionResult;
use crate::script::RunRequest;

/// How far a follower may fall behind before it misses something.
const FOLLOWER_BACKLOG: usize = 256;

/// Something said while an execution runs.
#[derive(Debug, Clone, PartialEq)]
pub enum Told {
    /// A line was logged.
    Log(LogLine),
    /// A handler says how far it got.
    Progress(Progress),
}

/// Whether a caller wants to hear what is said from the first word on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Follow {
    /// It only waits for the answer.
    No,
    /// The caller follows the call.
    Yes,
}

/// An execution that was accepted and goes on by itself; its caller has not waited yet.
pub struct Begun {
    /// Its id.
    pub execution: ExecutionId,
    /// The messages while it runs, where the caller follows it.
    pub following: Option<Following>,
    /// Held while the client that began it waits and serves requests of its handler.
    pub client: Option<ClientWaits>,
    pub(crate) left: Arc<LeftResults>,
}

/// Results that the owner leaves for a caller that has not begun to wait.
#[derive(Default)]
pub(crate) struct LeftResults {
    /// How it ended: of a read the store keeps large values only as their size and digest.
    ended: OnceLock<ExecutionResult>,
    /// How it stood when it first waited for a person. Taken once: later it may have gone on.
    paused: Mutex<Option<ExecutionResult>>,
}

impl LeftResults {
    pub(crate) fn leave_end(&self, result: ExecutionResult) {
        // It is set once: the execution has one end.
        let _ = self.ended.set(result);
    }

    pub(crate) fn leave_pause(&self, result: ExecutionResult) {
        *self.paused() = Some(result);
    }

    fn paused(&self) -> MutexGuard<'_, Option<ExecutionResult>> {
        self.paused.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The messages of an execution, also after it was parked and brought back. Dropping this ends the stream.
pub struct Following {
    execution: ExecutionId,
    kernel: Arc<Kernel>,
    number: u64,
    heard: mpsc::Receiver<Told>,
}

impl Following {
    /// The next thing said. It waits for as long as nothing is.
    pub async fn next(&mut self) -> Told {
        match self.heard.recv().await {
            Some(told) => told,
            // The sender is in the kernel for as long as this lives, so there is always a next one to wait for.
            None => std::future::pending().await,
        }
    }

    /// The next unread message, if there is one.
    pub fn try_next(&mut self) -> Option<Told> {
        self.heard.try_recv().ok()
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.kernel.followers.leave(self.execution, self.number);
    }
}

impl Gateway {
    /// Calls a tool as [`Gateway::call`] does, and returns as soon as the call is an execution: its id is known while it runs.
    pub async fn begin_call(&self, request: CallRequest, follow: Follow) -> Result<Begun, CallError> {
        self.kernel().begin_call(&request, follow, None).await
    }

    /// The same for a client that serves requests of the tool's handler while it waits: until what is returned is dropped.
    pub async fn begin_call_of(
        &self,
        client: Arc<dyn CallingClient>,
        request: CallRequest,
        follow: Follow,
    ) -> Result<Begun, CallError> {
        self.kernel().begin_call(&request, follow, Some(client)).await
    }

    /// Runs a script as [`Gateway::run`] does, and returns as soon as the script is an execution.
    pub async fn begin_run(&self, request: RunRequest, follow: Follow) -> Result<Begun, CallError> {
        self.kernel().begin_script(&request, follow).await
    }

    /// Waits for an execution that was begun.
    pub async fn wait_for(&self, begun: &Begun, patience: Patience) -> Result<ExecutionResult, GatewayError> {
        let left = &begun.left;
        if let Some(ended) = left.ended.get() {
            return Ok(ended.clone());
        }
        if patience.ends_at_a_pause()
            && let Some(paused) = left.paused().take()
        {
            return Ok(paused);
        }
        let waited = self.kernel().wait_for(begun.execution, patience).await?;
        let ended = left.ended.get().filter(|_| waited.as_ref().is_none_or(|now| now.status.is_final()));
        ended.cloned().or(waited).ok_or(GatewayError::Closed)
    }

    /// Waits until a question of an execution is no longer open, whoever answered it, however long that takes.
    pub async fn until_answered(
        &self,
        execution: ExecutionId,
        elicitation: ElicitationId,
    ) -> Result<(), GatewayError> {
        self.kernel().wait_until(execution, Until::Answered(elicitation), None).await.map(|_| ())
    }

    /// The requester of an execution; nothing where there is no such execution.
    pub async fn requester(&self, execution: ExecutionId) -> Result<Option<PrincipalId>, GatewayError> {
        self.kernel().requester(execution).await
    }

    /// Listens to an execution from now on.
    pub fn follow(&self, execution: ExecutionId) -> Following {
        self.kernel().follow(execution)
    }
}

impl Kernel {
    /// An execution that is about to begin, or began earlier, with what is said from here on.
    pub(crate) fn begun(self: &Arc<Self>, execution: ExecutionId, follow: Follow) -> Begun {
        let following = (follow == Follow::Yes).then(|| self.follow(execution));
        Begun { execution, following, client: None, left: Arc::default() }
    }

    async fn requester(self: &Arc<Self>, id: ExecutionId) -> Result<Option<PrincipalId>, GatewayError> {
        if let Seen::Resting(requester) = self.registry.look(id, |it| it.requester().id.clone()) {
            return Ok(Some(requester));
        }
        if let Some(row) = self.store.execution(id).await? {
            return Ok(Some(row.requester));
        }
        // Not in the store yet: only its owner knows it.
        self.request(id, Message::Requester).await
    }

    fn follow(self: &Arc<Self>, execution: ExecutionId) -> Following {
        let (number, heard) = self.followers.join(execution);
        Following { execution, kernel: Arc::clone(self), number, heard }
    }
}

/// The followers of each execution.
#[derive(Default)]
pub(crate) struct Followers {
    inner: Mutex<Listeners>,
}

#[derive(Default)]
struct Listeners {
    next: u64,
    of: HashMap<ExecutionId, Vec<Listener>>,
}

struct Listener {
    number: u64,
    heard: mpsc::Sender<Told>,
    /// How many lines of the script it was told: a script that is replayed says them again.
    script_lines: usize,
}

impl Followers {
    fn join(&self, execution: ExecutionId) -> (u64, mpsc::Receiver<Told>) {
        let (sender, receiver) = mpsc::channel(FOLLOWER_BACKLOG);
        let mut inner = self.locked();
        inner.next += 1;
        let number = inner.next;
        inner.of.entry(execution).or_default().push(Listener { number, heard: sender, script_lines: 0 });
        (number, receiver)
    }

    fn leave(&self, execution: ExecutionId, number: u64) {
        let mut inner = self.locked();
        if let Some(listeners) = inner.of.get_mut(&execution) {
            listeners.retain(|listener| listener.number != number);
            if listeners.is_empty() {
                inner.of.remove(&execution);
            }
        }
    }

    /// Tells everybody who listens; nobody waits for a slow one.
    pub(crate) fn tell(&self, execution: ExecutionId, told: &Told) {
        for listener in self.locked().of.get(&execution).into_iter().flatten() {
            let _ = listener.heard.try_send(told.clone());
        }
    }

    /// Tells a line of a script: the `nth` it said, from 1, since it was last started over.
    pub(crate) fn tell_script_line(&self, execution: ExecutionId, nth: usize, line: &LogLine) {
        for listener in self.locked().of.get_mut(&execution).into_iter().flatten() {
            if nth > listener.script_lines {
                listener.script_lines = nth;
                let _ = listener.heard.try_send(Told::Log(line.clone()));
            }
        }
    }

    fn locked(&self) -> MutexGuard<'_, Listeners> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use countersign_sdk::LogLevel;

    use super::*;

    fn line(n: usize) -> LogLine {
        LogLine { level: LogLevel::Info, message: n.to_string() }
    }

    #[test]
    fn a_slow_follower_misses_lines_and_holds_nobody_up() {
        let (followers, id) = (Followers::default(), ExecutionId::from_random([1; 16]));
        let (number, mut heard) = followers.join(id);
        for n in 0..FOLLOWER_BACKLOG + 10 {
            followers.tell(id, &Told::Log(line(n)));
        }
        let count = std::iter::from_fn(|| heard.try_recv().ok()).count();
        assert_eq!(count, FOLLOWER_BACKLOG);
        followers.leave(id, number);
        assert!(followers.locked().of.is_empty(), "who left is forgotten");
    }

    #[test]
    fn a_script_that_is_replayed_is_not_heard_twice() {
        let (followers, id) = (Followers::default(), ExecutionId::from_random([1; 16]));
        let (_, mut heard) = followers.join(id);
        for nth in [1, 2, 1, 2, 3] {
            followers.tell_script_line(id, nth, &line(nth));
        }
        let heard: Vec<Told> = std::iter::from_fn(|| heard.try_recv().ok()).collect();
        assert_eq!(heard, [1, 2, 3].map(|n| Told::Log(line(n))));
    }
}
