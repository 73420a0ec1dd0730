//! A journal in memory that outlives its process and can stop or fail at any append; and a model that knows what it said by
//! what it is shown, as real ones do.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use countersign_agent::durable::{Journal, JournalError};
use countersign_agent::model::{Model, ModelError, ModelRequest, TurnSoFar};
use countersign_agent::{Agent, DurableSession, Message};
use serde_json::Value;
use tokio::sync::Notify;

/// What becomes of an append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The process stops before the line is on the disk.
    StopBefore,
    /// The process stops after the line is on the disk.
    StopAfter,
    /// The disk refuses the line.
    Fail,
}

/// A journal. Clones are one.
#[derive(Clone, Default)]
pub(crate) struct Disk {
    lines: Arc<Mutex<Vec<String>>>,
    appended: Arc<AtomicUsize>,
    fate: Arc<Mutex<Option<(usize, Fate)>>>,
    stopped: Arc<Notify>,
}

impl Disk {
    /// The disk with these lines on it.
    pub(crate) fn with(lines: &str) -> Self {
        let disk = Self::default();
        *disk.lines.lock().unwrap() = lines.lines().map(str::to_owned).collect();
        disk
    }

    /// What becomes of the `nth` append from now on, from 1.
    pub(crate) fn plan(&self, nth: usize, fate: Fate) {
        self.appended.store(0, Ordering::SeqCst);
        *self.fate.lock().unwrap() = Some((nth, fate));
    }

    /// Everything goes well again.
    pub(crate) fn heal(&self) {
        *self.fate.lock().unwrap() = None;
    }

    /// Waits until the process would have stopped.
    pub(crate) async fn until_stopped(&self) {
        self.stopped.notified().await;
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }

    /// What a run leaves behind that is stopped at its `nth` record; what its session wrote before is not counted.
    pub(crate) async fn of_a_run(agent: Agent, nth: usize, fate: Fate) -> Self {
        let disk = Self::default();
        let session = disk.session().await;
        disk.plan(nth, fate);
        tokio::select! {
            _ = agent.run_durable(session) => panic!("it was to be stopped"),
            () = disk.until_stopped() => {}
        }
        disk.heal();
        disk
    }

    /// The names of the records, in order.
    pub(crate) fn names(&self) -> Vec<String> {
        let name = |line: &String| {
            let line: Value = serde_json::from_str(line).unwrap();
            line["record"].as_object().unwrap().keys().next().unwrap().clone()
        };
        self.lines().iter().map(name).collect()
    }

    /// The conversation of this disk.
    pub(crate) async fn session(&self) -> DurableSession {
        DurableSession::begin(self.clone(), "chat-1", "Go").await.unwrap()
    }
}

#[async_trait::async_trait]
impl Journal for Disk {
    async fn load(&self) -> Result<Vec<String>, JournalError> {
        Ok(self.lines())
    }

    async fn append(&self, line: String) -> Result<(), JournalError> {
        let number = self.appended.fetch_add(1, Ordering::SeqCst) + 1;
        let fate = self.fate.lock().unwrap().filter(|(nth, _)| *nth == number).map(|(_, fate)| fate);
        if fate != Some(Fate::StopBefore) && fate != Some(Fate::Fail) {
            self.lines.lock().unwrap().push(line);
        }
        match fate {
            None => Ok(()),
            Some(Fate::Fail) => {
                let cause = std::io::Error::other("no space left on device");
                Err(JournalError::Io { path: "memory".into(), cause })
            }
            Some(Fate::StopBefore | Fate::StopAfter) => {
                self.stopped.notify_one();
                std::future::pending().await
            }
        }
    }
}

/// The calls of one turn: id, tool, arguments.
pub(crate) type Calls = Vec<(&'static str, &'static str, Value)>;

/// A model that makes the turn that follows what it is shown, then says "Done.".
#[derive(Clone)]
pub(crate) struct Rehearsed {
    turns: Arc<Vec<Calls>>,
    asked: Arc<Mutex<Vec<usize>>>,
}

impl Rehearsed {
    pub(crate) fn new(turns: Vec<Calls>) -> Self {
        Self { turns: Arc::new(turns), asked: Arc::default() }
    }

    /// For which turns it was asked, from 0, in order.
    pub(crate) fn asked(&self) -> Vec<usize> {
        self.asked.lock().unwrap().clone()
    }
}

#[async_trait::async_trait]
impl Model for Rehearsed {
    async fn turn(&self, request: ModelRequest<'_>, turn: &mut TurnSoFar) -> Result<(), ModelError> {
        let made = request.messages.iter().filter(|m| matches!(m, Message::Assistant { .. })).count();
        self.asked.lock().unwrap().push(made);
        let Some(calls) = self.turns.get(made) else { return turn.text("Done.") };
        for (slot, (id, name, input)) in (0..).zip(calls) {
            turn.call_started(slot, id, name)?;
            turn.call_delta(slot, &input.to_string())?;
        }
        Ok(())
    }
}
