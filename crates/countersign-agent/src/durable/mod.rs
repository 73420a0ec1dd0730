//! Durable chats: a conversation that survives the process that runs it.
//!
//! Every turn of the model and every result of a tool is on the disk before anything follows from it. After a crash the same
//! program runs the same conversation again and goes on: no model turn is asked for twice, no tool that has a result runs
//! again, and a person who decided is not asked again.
//!
//! A local tool that was let on (it is destructive or confirmed, or was let past a yes to its own question) and has no
//! recorded result is *in doubt*: the run stops with an error that names the call, and goes on once a person settled it. Tools
//! that only read, and those declared idempotent, are simply run again. Tools of a gateway are called again with the same
//! idempotency key, so that the gateway's own guarantee holds.

pub(crate) mod conversation;
mod journal;
pub(crate) mod ledger;
pub(crate) mod record;

use std::sync::Arc;

use countersign_core::event::Settlement;
use countersign_kernel::ports::{Entropy as _, SystemEntropy};

pub use journal::{FileJournal, Journal, JournalError, MAX_JOURNAL_BYTES};

use crate::agent::Agent;
use crate::confirm::hex;
use crate::error::AgentError;
use crate::event::AgentEvent;
use crate::message::{CallKey, Reply};
use crate::queue::{ChatStream, Events};
use crate::turn::Run;
use conversation::{Conversation, Next};
use ledger::Ledger;
use record::Record;

/// The longest id of a conversation: a name, not a text.
const MAX_ID_BYTES: usize = 128;

/// A conversation and its journal.
pub struct DurableSession {
    ledger: Ledger,
}

/// A call that was started and has no recorded outcome.
#[derive(Debug, Clone, PartialEq)]
pub struct Doubt {
    /// Which call.
    pub call: CallKey,
    /// The tool.
    pub tool: String,
    /// What it was started with, where that was recorded; otherwise what the model wrote.
    pub input: serde_json::Value,
}

impl DurableSession {
    /// Begins a conversation, or opens it where it began already with the same id and words: a program that is started again
    /// runs the same lines.
    pub async fn begin(journal: impl Journal, id: &str, input: &str) -> Result<Self, JournalError> {
        let fits = (1..=MAX_ID_BYTES).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_graphic());
        if !fits {
            let problem = format!("{id:?} is no id: use 1 to {MAX_ID_BYTES} visible ASCII characters");
            return Err(JournalError::OtherConversation(problem));
        }
        let session = Self::read(journal).await?;
        let (known, first) = {
            let conversation = session.ledger.look().await;
            (conversation.id.clone(), conversation.first_input().map(str::to_owned))
        };
        match known {
            None => {
                let bits = SystemEntropy.bits().ok_or(JournalError::NoEntropy)?;
                let (conversation, nonce) = (id.to_owned(), hex(&bits));
                session.ledger.record(Record::Opened { conversation, nonce }).await?;
            }
            Some(known) if known != id => return Err(JournalError::OtherConversation(known)),
            Some(_) => {}
        }
        match first {
            None => session.ledger.record(Record::Said { text: input.to_owned() }).await?,
            Some(first) if first != input => return Err(JournalError::OtherConversation(first)),
            Some(_) => {}
        }
        Ok(session)
    }

    /// Opens a conversation that began before, as its journal tells it.
    pub async fn open(journal: impl Journal) -> Result<Self, JournalError> {
        let session = Self::read(journal).await?;
        let began = session.ledger.look().await.id.is_some();
        if began { Ok(session) } else { Err(JournalError::NotBegun) }
    }

    async fn read(journal: impl Journal) -> Result<Self, JournalError> {
        let (mut conversation, mut bytes) = (Conversation::default(), 0);
        for (number, line) in (1..).zip(journal.load().await?) {
            let record = Record::from_line(&line, number)?;
            let begins = number > 1 || matches!(record, Record::Opened { .. });
            let applied =
                if begins { conversation.apply(record) } else { Err("it does not begin here".into()) };
            applied.map_err(|problem| JournalError::Corrupt { line: number, problem })?;
            bytes += line.len() as u64 + 1;
        }
        Ok(Self { ledger: Ledger::durable(conversation, Arc::new(journal), bytes) })
    }

    /// Says something more, once the model has ended.
    pub async fn say(&self, text: &str) -> Result<(), JournalError> {
        self.ledger.record(Record::Said { text: text.to_owned() }).await
    }

    /// Whether the model said its last word.
    pub async fn is_finished(&self) -> bool {
        matches!(self.ledger.look().await.next(), Next::Finished(_))
    }

    /// The calls that only a person can bring on.
    pub async fn in_doubt(&self) -> Vec<Doubt> {
        let conversation = self.ledger.look().await;
        let doubt = |(call, state): (CallKey, &conversation::CallState)| Doubt {
            call,
            tool: state.call.name.clone(),
            input: state
                .started
                .as_ref()
                .map_or_else(|| state.call.input.clone().into(), |begun| begun.input.clone()),
        };
        conversation.let_on().map(doubt).collect()
    }

    /// Records what a person, named by `by`, says of a call in doubt: it took effect, it did not, or it is to run again.
    pub async fn settle(&self, call: CallKey, settlement: Settlement, by: &str) -> Result<(), JournalError> {
        self.ledger.record(Record::DoubtSettled { call, settlement, by: by.to_owned() }).await
    }
}

impl Agent {
    /// Runs a durable conversation until the model ends. Dropping the future stops it where it stands; the journal remains.
    pub async fn run_durable(&self, session: DurableSession) -> Result<Reply, AgentError> {
        Run::new(self.clone(), session.ledger, Events::default()).to_the_end().await
    }

    /// The same, as a stream of what happens. What happened before a restart is not told again.
    pub fn run_durable_stream(&self, session: DurableSession) -> ChatStream {
        let agent = self.clone();
        ChatStream::of(move |events| async move {
            match Run::new(agent, session.ledger, events).to_the_end().await {
                Ok(reply) => AgentEvent::Complete(reply),
                Err(error) => AgentEvent::Error(Arc::new(error)),
            }
        })
    }
}
