//! The one place where a conversation changes: recorded first, where it is durable, then applied.

use std::sync::Arc;

use countersign_kernel::ports::{Clock, SystemClock};
use tokio::sync::{Mutex, MutexGuard};

use crate::confirm::Verdict;
use crate::durable::conversation::Conversation;
use crate::durable::journal::{Journal, JournalError};
use crate::durable::record::Record;
use crate::message::CallKey;

/// A conversation that several calls write to at once.
pub(crate) struct Ledger {
    conversation: Mutex<Conversation>,
    journal: Option<Arc<dyn Journal>>,
}

impl Ledger {
    /// A conversation that nobody will ask for after the process ended.
    pub(crate) fn fleeting(conversation: Conversation) -> Self {
        Self { conversation: Mutex::new(conversation), journal: None }
    }

    pub(crate) fn durable(conversation: Conversation, journal: Arc<dyn Journal>) -> Self {
        Self { conversation: Mutex::new(conversation), journal: Some(journal) }
    }

    pub(crate) fn is_durable(&self) -> bool {
        self.journal.is_some()
    }

    /// Records something. When this returns, it is on the disk.
    pub(crate) async fn record(&self, record: Record) -> Result<(), JournalError> {
        let mut conversation = self.conversation.lock().await;
        let Some(journal) = &self.journal else {
            return conversation.apply(record).map_err(JournalError::DoesNotFit);
        };
        // Tried on a copy: a record that does not fit must not reach the disk.
        let mut after = conversation.clone();
        after.apply(record.clone()).map_err(JournalError::DoesNotFit)?;
        journal.append(record.to_line(SystemClock.now())?).await?;
        *conversation = after;
        Ok(())
    }

    pub(crate) async fn look(&self) -> MutexGuard<'_, Conversation> {
        self.conversation.lock().await
    }

    pub(crate) async fn answer(&self, call: CallKey, nth: u32, question: &str) -> Option<Verdict> {
        self.look().await.answer(call, nth, question)
    }
}
