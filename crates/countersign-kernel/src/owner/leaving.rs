//! How an owner waits for the next thing, and when it leaves.
//!
//! Promise: an execution that only people can bring on holds no task for long: at the gate it rests as a value at once; a
//! handler or a script that waits for an answer is dropped after `park_after`, and entered again when the answer is there.
//! An owner leaves only while its mailbox is empty, and everything it noted is in the store.

use std::pin::Pin;
use std::sync::Arc;

use countersign_core::execution::Next;
use countersign_core::ids::CallNo;
use tokio::time::Sleep;

use super::handlers::{Ended, FromHandler};
use super::script::{self, Taken};
use super::{Awaited, Message, Owner};
use crate::error::GatewayError;
use crate::journal::CommitExtras;

/// The largest question that rests in memory; a larger one is read from the store when it is decided.
const MAX_RESTING_BYTES: usize = 4 * 1024;

/// The event that ended a wait.
enum Woken {
    Message(Message),
    Handler(CallNo, Ended),
    Turn(Taken),
    PlaceNeeded,
    Timer,
}

impl Owner {
    /// Waits for the next thing that happens to the execution.
    pub(super) async fn wait(&mut self) -> Result<(), GatewayError> {
        self.set_parking_timer();
        let nap = self.nap();
        let Self { messages, handlers, script, parking, .. } = self;
        let (place_needed, turn) = match script {
            Some(script) => (Some(script.place_needed()), Some(script.turn())),
            None => (None, None),
        };
        let woken = tokio::select! {
            biased;
            Some(message) = messages.recv() => Woken::Message(message),
            (no, ended) = handlers.next() => Woken::Handler(no, ended),
            taken = when(turn) => Woken::Turn(taken),
            () = script::after(nap) => Woken::Timer,
            () = elapsed(parking) => Woken::Timer,
            () = when(place_needed) => Woken::PlaceNeeded,
        };
        match woken {
            Woken::Message(message) => self.handle(message).await?,
            Woken::Handler(no, ended) => self.said.push_back(FromHandler::Ended(no, ended)),
            Woken::Turn(taken) => self.came_back(taken),
            Woken::PlaceNeeded => self.put_vm_away(),
            Woken::Timer => {}
        }
        Ok(())
    }

    /// Runs a timer while there is nothing to do and dropping a handler or a VM would free something.
    fn set_parking_timer(&mut self) {
        let awaited = match self.execution().next() {
            Next::AwaitPeople => Awaited::People,
            _ => Awaited::Work,
        };
        let rests = match &self.script {
            Some(_) => self.script_is_resting(),
            None => awaited == Awaited::People && !self.handlers.is_empty(),
        };
        if !rests {
            self.parking = None;
        } else if self.parking.as_ref().is_none_or(|(before, _)| *before != awaited) {
            let timer = tokio::time::sleep(self.kernel.settings.park_after);
            self.parking = Some((awaited, Box::pin(timer)));
        }
    }

    pub(super) fn has_waited_long(&self) -> bool {
        self.parking.as_ref().is_some_and(|(_, timer)| timer.is_elapsed())
    }

    /// Whether nothing is left to do here. Events that a script noted are written first.
    pub(super) async fn is_to_leave(&mut self) -> Result<bool, GatewayError> {
        let leaves = match &self.script {
            Some(_) => self.script_is_to_leave(),
            None => self.call_is_to_leave(),
        };
        if !leaves {
            return Ok(false);
        }
        // A handler that ended in this very moment is heard out.
        while let Some((no, ended)) = self.handlers.try_next() {
            self.said.push_back(FromHandler::Ended(no, ended));
        }
        if !self.said.is_empty() {
            return Ok(false);
        }
        if !self.record.unwritten.is_empty() && self.execution().end().is_none() {
            self.commit(Vec::new(), CommitExtras::default()).await?;
        }
        Ok(true)
    }

    fn call_is_to_leave(&self) -> bool {
        let closed = self.kernel.is_closed();
        match self.execution().next() {
            Next::Done | Next::Issue => true,
            Next::AwaitSettlement(_) => self.handlers.is_empty(),
            Next::AwaitPeople => self.handlers.is_empty() || closed || self.has_waited_long(),
            // Nothing starts in a process that is going away, or that lacks the tool; a bare gate waits for its program.
            Next::Judge(no) | Next::Start(no) | Next::EnterAgain(no) => {
                if !closed && self.kernel.lacks_tool(self.execution(), no) {
                    self.kernel.wait_for_tool(self.execution(), no);
                }
                self.handlers.is_empty()
            }
            _ => false,
        }
    }

    /// Leaves, unless a message came in meanwhile.
    pub(super) fn leave(mut self) -> Result<(), Box<Self>> {
        let kernel = Arc::clone(&self.kernel);
        if !self.is_listed {
            return Ok(());
        }
        let leaving = kernel.registry.leaving(self.record.id());
        if !self.messages.is_empty() {
            return Err(Box::new(self));
        }
        let rests = self.can_rest();
        self.drop_handlers();
        let waiters = std::mem::take(&mut self.waiters);
        if rests {
            self.record.execution.forget_values();
            leaving.rest(Box::new(self.record), waiters);
        } else {
            for question in self.record.execution.open() {
                kernel.registry.forget_question(question.id);
            }
            leaving.forget(waiters);
        }
        Ok(())
    }

    /// Whether the execution waits at the gate, with nothing in memory that is worth a task.
    fn can_rest(&self) -> bool {
        let execution = self.execution();
        let waits = matches!(execution.next(), Next::AwaitPeople | Next::Start(_));
        let bytes: usize = execution.open().map(|q| q.args.as_str().len() + q.message.len()).sum();
        self.script.is_none()
            && self.handlers.is_empty()
            && waits
            && bytes <= MAX_RESTING_BYTES
            && !self.kernel.is_closed()
    }

    /// The execution never came to be.
    pub(super) fn vanish(self) {
        if self.is_listed {
            self.kernel.registry.leaving(self.record.id()).forget(Vec::new());
        }
    }

    /// The owner cannot go on. Handlers that may be changing something come to their end, and what they say is recorded if
    /// that can be done at all; if not, they are in doubt on the next start.
    pub(super) async fn give_up(mut self) {
        let harmless: Vec<CallNo> =
            self.handlers.running().into_iter().filter(|no| !self.may_have_acted(*no)).collect();
        for no in harmless {
            self.drop_handler(no);
        }
        loop {
            if let Err(error) = self.hear_what_was_said().await {
                tracing::error!(execution = %self.record.id(), cause = ?error, "an outcome could not be recorded");
            }
            match self.handlers.last_words().await {
                Some((no, ended)) => self.said.push_back(FromHandler::Ended(no, ended)),
                None => break,
            }
        }
        let kernel = Arc::clone(&self.kernel);
        if self.is_listed {
            let leaving = kernel.registry.leaving(self.record.id());
            while let Ok(message) = self.messages.try_recv() {
                message.refuse(GatewayError::Closed);
            }
            leaving.forget(std::mem::take(&mut self.waiters));
        }
    }

    async fn hear_what_was_said(&mut self) -> Result<(), GatewayError> {
        while !self.said.is_empty() {
            if self.record.is_stale {
                self.reload().await?;
            }
            self.hear_handlers().await?;
        }
        Ok(())
    }

    /// Drops a handler whose outcome is no longer needed.
    pub(super) fn drop_handler(&mut self, no: CallNo) {
        for (other, ended) in self.handlers.drop_one(no) {
            self.said.push_back(FromHandler::Ended(other, ended));
        }
        let mine: Vec<_> = self
            .execution()
            .asked()
            .iter()
            .filter(|a| a.elicitation.call == no)
            .map(|a| a.elicitation.id)
            .collect();
        mine.into_iter().for_each(|id| self.forget_question(id));
    }
}

/// Completes when a timer that has not run out yet does.
async fn elapsed(timer: &mut Option<(Awaited, Pin<Box<Sleep>>)>) {
    match timer {
        Some((_, sleep)) if !sleep.is_elapsed() => sleep.await,
        _ => std::future::pending().await,
    }
}

/// Completes with a future, where there is one.
async fn when<T>(future: Option<impl Future<Output = T>>) -> T {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}
