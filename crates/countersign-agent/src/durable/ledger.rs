//! The one place where a conversation changes: recorded first, where it is durable, then applied.
//!
//! Promise: what is in memory is what is on the disk. A record is written to its end whoever stops waiting for it, and after a
//! write of unknown fate nothing more is written.

use std::sync::Arc;

use countersign_kernel::ports::{Clock, SystemClock};
use tokio::sync::{Mutex, MutexGuard, OwnedMutexGuard};

use crate::durable::conversation::Conversation;
use crate::durable::journal::{Journal, JournalError, MAX_JOURNAL_BYTES};
use crate::durable::record::Record;

/// A conversation that several calls write to at once.
pub(crate) struct Ledger {
    state: Arc<Mutex<State>>,
    journal: Option<Arc<dyn Journal>>,
}

struct State {
    conversation: Conversation,
    /// How large the journal is.
    bytes: u64,
    /// Whether the fate of a write is unknown.
    poisoned: bool,
}

/// The conversation, for as long as somebody looks.
pub(crate) struct Look<'a>(MutexGuard<'a, State>);

impl std::ops::Deref for Look<'_> {
    type Target = Conversation;

    fn deref(&self) -> &Conversation {
        &self.0.conversation
    }
}

impl Ledger {
    /// A conversation that nobody will ask for after the process ended.
    pub(crate) fn fleeting(conversation: Conversation) -> Self {
        Self::of(conversation, None, 0)
    }

    /// A conversation whose journal has so many bytes.
    pub(crate) fn durable(conversation: Conversation, journal: Arc<dyn Journal>, bytes: u64) -> Self {
        Self::of(conversation, Some(journal), bytes)
    }

    fn of(conversation: Conversation, journal: Option<Arc<dyn Journal>>, bytes: u64) -> Self {
        let state = State { conversation, bytes, poisoned: false };
        Self { state: Arc::new(Mutex::new(state)), journal }
    }

    pub(crate) fn is_durable(&self) -> bool {
        self.journal.is_some()
    }

    pub(crate) async fn look(&self) -> Look<'_> {
        Look(self.state.lock().await)
    }

    /// Records something. When this returns, it is on the disk.
    pub(crate) async fn record(&self, record: Record) -> Result<(), JournalError> {
        let Some(journal) = &self.journal else {
            return self.state.lock().await.conversation.apply(record).map_err(JournalError::DoesNotFit);
        };
        let (state, journal) = (Arc::clone(&self.state).lock_owned().await, Arc::clone(journal));
        // A task of its own: whoever stops waiting must not leave the disk and the memory apart.
        let written = tokio::spawn(write(state, journal, record));
        written.await.unwrap_or(Err(JournalError::Poisoned))
    }
}

async fn write(
    mut state: OwnedMutexGuard<State>,
    journal: Arc<dyn Journal>,
    record: Record,
) -> Result<(), JournalError> {
    if state.poisoned {
        return Err(JournalError::Poisoned);
    }
    if state.bytes >= MAX_JOURNAL_BYTES && !record.ends_a_call() {
        return Err(JournalError::TooLarge);
    }
    // Tried on a copy: a record that does not fit must not reach the disk.
    let mut after = state.conversation.clone();
    after.apply(record.clone()).map_err(JournalError::DoesNotFit)?;
    let line = record.to_line(SystemClock.now())?;
    state.bytes += line.len() as u64 + 1;
    // Also where the journal panics.
    state.poisoned = true;
    journal.append(line).await?;
    (state.conversation, state.poisoned) = (after, false);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{CallKey, ToolCall, ToolResult};

    /// A journal that takes everything.
    struct Blank;

    #[async_trait::async_trait]
    impl Journal for Blank {
        async fn load(&self) -> Result<Vec<String>, JournalError> {
            Ok(Vec::new())
        }

        async fn append(&self, _: String) -> Result<(), JournalError> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn at_its_bound_a_journal_takes_the_end_of_a_call_and_nothing_that_begins() {
        let mut conversation = Conversation::default();
        let calls = vec![ToolCall { id: "a".into(), name: "t".into(), input: "{}".into() }];
        conversation.apply(Record::Said { text: "Go".into() }).unwrap();
        let turned =
            Record::ModelTurned { agent: "agent".into(), text: String::new(), calls, blocks: Vec::new() };
        conversation.apply(turned).unwrap();
        let call = CallKey { turn: 1, call: 1 };
        let asked = || Record::CallAsked { call, nth: 0, question: "?".into() };
        let ledger = Ledger::durable(conversation, Arc::new(Blank), MAX_JOURNAL_BYTES - 1);
        ledger.record(asked()).await.expect("one byte below the bound");
        assert_eq!(ledger.record(asked()).await.unwrap_err().code(), "journal_full");
        let result =
            ToolResult { call_id: "a".into(), name: "t".into(), content: "done".into(), is_error: false };
        let settled = Record::CallSettled { call, result, handoff: None };
        ledger.record(settled).await.expect("what happened is recorded");
    }
}
