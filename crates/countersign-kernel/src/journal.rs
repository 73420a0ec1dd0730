//! Recording: events are applied, written with all that is derived from them, and only then told to the world.

use std::panic::AssertUnwindSafe;
use std::sync::PoisonError;

use countersign_core::audit::AuditEntry;
use countersign_core::commit::StoredCommit;
use countersign_core::event::{Event, EventBody, Kind};
use countersign_core::execution::{ApplyError, Asked, Call, Execution};
use countersign_core::grant::Grant;
use countersign_core::ids::{ElicitationId, ExecutionId};
use countersign_core::retention;
use countersign_core::time::Timestamp;
use countersign_sdk::EffectClass;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::time::Instant;

use crate::error::GatewayError;
use crate::events::{GatewayEvent, GatewayEventKind};
use crate::kernel::Kernel;
use crate::meter;
use crate::ports::{ElicitationRow, ExecutionRow, GrantWrite, JournalWrite, Requirement, StoreError, Write};
use crate::result::Pending;

/// An execution in memory: the state, and which of its events the store has.
#[derive(Clone)]
pub(crate) struct Record {
    pub(crate) execution: Execution,
    /// Applied, but not in the store yet.
    pub(crate) unwritten: Vec<Event>,
    /// How many events the store is known to have.
    stored: u64,
    /// A write failed, and nobody knows whether it happened: the journal must be read before anything else.
    pub(crate) is_stale: bool,
}

impl Record {
    /// An execution that is not in the store yet.
    pub(crate) fn fresh(events: Vec<Event>) -> Result<Self, ApplyError> {
        let mut execution = Execution::start(events.first().ok_or(ApplyError::Empty)?)?;
        events.iter().skip(1).try_for_each(|event| execution.apply(event))?;
        Ok(Self { execution, unwritten: events, stored: 0, is_stale: false })
    }

    /// An execution as the store has it.
    pub(crate) fn stored(journal: &[Event]) -> Result<Self, ApplyError> {
        let execution = Execution::replay(journal)?;
        Ok(Self { stored: execution.version(), execution, unwritten: Vec::new(), is_stale: false })
    }

    /// Takes over what the store has after a write failed: either nothing of the write is there, and the execution goes back
    /// to before it, or all of it.
    pub(crate) fn reload(&mut self, journal: &[Event]) -> Result<(), ApplyError> {
        if journal.len() as u64 == self.stored {
            self.execution = Execution::replay(journal.iter().chain(&self.unwritten))?;
            self.is_stale = false;
        } else {
            *self = Self::stored(journal)?;
        }
        Ok(())
    }

    /// Whether the store knows of it.
    pub(crate) fn is_stored(&self) -> bool {
        self.stored > 0
    }

    pub(crate) fn id(&self) -> ExecutionId {
        self.execution.id()
    }
}

/// Further changes that are written together with events.
#[derive(Default)]
pub(crate) struct CommitExtras {
    pub(crate) require: Vec<Requirement>,
    pub(crate) grants: Vec<GrantWrite>,
    pub(crate) audit: Vec<AuditEntry>,
}

impl CommitExtras {
    pub(crate) fn requiring(require: Vec<Requirement>) -> Self {
        Self { require, ..Self::default() }
    }
}

impl Kernel {
    /// The moment as an execution must see it: never before its last event, whatever the clock says now.
    pub(crate) fn now_for(&self, execution: &Execution) -> Timestamp {
        self.clock.now().max(execution.latest())
    }

    /// Applies events and makes them durable, with everything noted before. An error means that nothing was confirmed; where
    /// it is not known whether the write happened, the record is stale.
    pub(crate) async fn commit(
        &self,
        record: &mut Record,
        bodies: Vec<EventBody>,
        extras: CommitExtras,
    ) -> Result<(), GatewayError> {
        let before = record.unwritten.len();
        self.note(record, bodies)?;
        self.commit_noted(record, before, extras).await
    }

    /// Makes durable what was noted; where that fails, what was noted since `before` is forgotten.
    pub(crate) async fn commit_noted(
        &self,
        record: &mut Record,
        before: usize,
        extras: CommitExtras,
    ) -> Result<(), GatewayError> {
        let stored = stored(&record.unwritten, &record.execution)?;
        let write = write(&record.execution, &record.unwritten, stored, extras);
        record.is_stale = true;
        let begun = Instant::now();
        match self.store.commit(write).await {
            Ok(committed) => {
                meter::committed(begun.elapsed());
                meter::recorded(&record.execution, &record.unwritten);
                record.is_stale = false;
                record.stored = record.execution.version();
                let events = std::mem::take(&mut record.unwritten);
                self.spend_storage(&record.execution, &events);
                self.tell(&record.execution, &events, committed.audit_seq);
                Ok(())
            }
            Err(error) => {
                record.unwritten.truncate(before);
                Err(error.into())
            }
        }
    }

    /// Applies events without writing them yet.
    pub(crate) fn note(&self, record: &mut Record, bodies: Vec<EventBody>) -> Result<(), GatewayError> {
        // One moment for all of them: a clock that ticks in between must not put a decision before its question.
        let decided = bodies.iter().find_map(|body| match body {
            EventBody::Decided { decision, .. } => Some(decision.at),
            _ => None,
        });
        let moment = decided.unwrap_or_else(|| self.now_for(&record.execution));
        let before = record.unwritten.len();
        for body in bodies {
            let at = match &body {
                EventBody::Decided { decision, .. } => decision.at,
                _ => moment.max(record.execution.latest()),
            };
            let event = Event { at, body };
            if let Err(error) = record.execution.apply(&event) {
                record.is_stale = true;
                record.unwritten.truncate(before);
                return Err(error.into());
            }
            record.unwritten.push(event);
        }
        Ok(())
    }

    /// Queues everything noted so far, for executions that changed nothing in the world.
    pub(crate) fn commit_soon(&self, record: &mut Record) -> Result<(), GatewayError> {
        let (execution, events) = (&record.execution, &record.unwritten);
        let kept: Vec<Event> = if can_be_read_again(record) {
            events.iter().map(|event| retention::of_a_read(execution, event)).collect()
        } else {
            events.clone()
        };
        let bytes = retention::stored_bytes(&kept);
        let write = write(execution, events, stored(&kept, execution)?, CommitExtras::default());
        self.store.commit_soon(write)?;
        self.storage.spend(&record.execution.requester().id, bytes, self.now());
        meter::recorded(&record.execution, &record.unwritten);
        record.unwritten.clear();
        record.stored = record.execution.version();
        Ok(())
    }

    fn spend_storage(&self, execution: &Execution, events: &[Event]) {
        let bytes = retention::stored_bytes(events);
        self.storage.spend(&execution.requester().id, bytes, self.now());
    }

    fn tell(&self, execution: &Execution, events: &[Event], seq: u64) {
        let id = execution.id();
        for event in events {
            match &event.body {
                EventBody::Asked(elicitation) => {
                    self.registry.note_question(elicitation.id, id);
                    self.alarm.set(elicitation.expires_at);
                }
                EventBody::Decided { elicitation, .. } => self.registry.forget_question(*elicitation),
                _ => {}
            }
            if let Some(kind) = kind_of(&event.body) {
                self.send(GatewayEvent { seq, execution: Some(id), kind });
            }
        }
        self.send(GatewayEvent {
            seq,
            execution: Some(id),
            kind: GatewayEventKind::ExecutionStatus(execution.status()),
        });
        self.call_back(execution, events);
    }

    /// Calls back whoever wants to know of questions, on a task of its own: a callback may be slow, or wait for this execution. On
    /// many threads another one takes over the tasks of the thread that it blocks.
    fn call_back(&self, execution: &Execution, events: &[Event]) {
        let callbacks = self.on_pause.read().unwrap_or_else(PoisonError::into_inner).clone();
        if callbacks.is_empty() {
            return;
        }
        let (id, session) = (execution.id(), execution.session().clone());
        let pending: Vec<Pending> = opened(execution, events)
            .map(|asked| Pending {
                execution: id,
                asked_at: asked.at,
                elicitation: asked.elicitation.clone(),
            })
            .collect();
        if pending.is_empty() {
            return;
        }
        let call_all = move || {
            for (callback, pending) in callbacks.iter().flat_map(|c| pending.iter().map(move |p| (c, p))) {
                if std::panic::catch_unwind(AssertUnwindSafe(|| callback(&session, pending))).is_err() {
                    tracing::error!(execution = %id, "an on_pause callback panicked");
                }
            }
        };
        tokio::spawn(async move {
            match Handle::current().runtime_flavor() {
                RuntimeFlavor::MultiThread => tokio::task::block_in_place(call_all),
                _ => call_all(),
            }
        });
    }

    pub(crate) fn send(&self, event: GatewayEvent) {
        // An event without listeners is fine: the audit keeps the transition.
        let _ = self.events.send(event);
    }
}

/// Whether the values of an execution may be left out of its record: one call that only read, whose id was told to nobody
/// before its end, so that its caller gets the answer from memory. Under a key the caller may come back for it.
fn can_be_read_again(record: &Record) -> bool {
    let execution = &record.execution;
    let only_read = |call: &Call| call.effects.class() == EffectClass::Reads;
    execution.kind() == Kind::Call
        && !record.is_stored()
        && execution.idempotency_key().is_none()
        && execution.calls().iter().all(only_read)
}

fn kind_of(body: &EventBody) -> Option<GatewayEventKind> {
    match body {
        EventBody::Asked(elicitation) => Some(GatewayEventKind::ElicitationPending(elicitation.id)),
        EventBody::Decided { elicitation, decision } => {
            Some(GatewayEventKind::ElicitationDecided(*elicitation, Box::new(decision.clone())))
        }
        EventBody::CallStarted { call, .. } => Some(GatewayEventKind::CallStarted(*call)),
        EventBody::CallSettled { call, .. } => Some(GatewayEventKind::CallSettled(*call)),
        _ => None,
    }
}

/// The questions these events opened that are open still.
fn opened<'a>(execution: &'a Execution, events: &'a [Event]) -> impl Iterator<Item = &'a Asked> {
    asked_by(events).filter_map(|id| execution.find(id)).filter(|asked| asked.decision().is_none())
}

fn asked_by(events: &[Event]) -> impl Iterator<Item = ElicitationId> {
    events.iter().filter_map(|event| match &event.body {
        EventBody::Asked(elicitation) => Some(elicitation.id),
        _ => None,
    })
}

/// The stored form of events, given the execution after them.
fn stored(events: &[Event], execution: &Execution) -> Result<StoredCommit, GatewayError> {
    let stored = StoredCommit::of(events, Some(execution));
    Ok(stored.map_err(|error| StoreError::Corrupt(format!("the events cannot be stored: {error}")))?)
}

/// The change that events are, with all that is derived from them.
fn write(execution: &Execution, events: &[Event], commit: StoredCommit, extras: CommitExtras) -> Write {
    let mut audit: Vec<AuditEntry> = events.iter().map(|event| AuditEntry::of(execution, event)).collect();
    audit.extend(extras.grants.iter().filter_map(|grant| grant_transition(execution, events, grant)));
    audit.extend(extras.audit);
    let here: Vec<ElicitationId> = asked_by(events).collect();
    let opened =
        here.iter().filter_map(|id| execution.find(*id)).map(|asked| elicitation_row(execution, asked));
    let decided = events.iter().filter_map(|event| match &event.body {
        EventBody::Decided { elicitation, .. } if !here.contains(elicitation) => Some(*elicitation),
        _ => None,
    });
    Write {
        require: extras.require,
        journal: Some(JournalWrite {
            expected: execution.version() - events.len() as u64,
            row: execution_row(execution, events),
            opened: opened.collect(),
            decided: decided.collect(),
            commit,
        }),
        grants: extras.grants,
        audit,
        ..Write::default()
    }
}

/// The transition that a change of a grant is. The use of a grant is told by the event that relies on it.
fn grant_transition(execution: &Execution, events: &[Event], write: &GrantWrite) -> Option<AuditEntry> {
    let at = events.last().map_or_else(|| execution.latest(), |event| event.at);
    let (what, by, detail) = match write {
        GrantWrite::Give(grant) => ("GrantGiven", Some(grant.by.clone()), given(grant)),
        GrantWrite::Use { .. } => return None,
        GrantWrite::Expire(id) => ("GrantExpired", None, id.to_string()),
        GrantWrite::Revoke(id) => ("GrantRevoked", None, id.to_string()),
        GrantWrite::Clear(session) => ("GrantRevoked", None, format!("all of {session}")),
    };
    let elicitation = match write {
        GrantWrite::Give(grant) => grant.elicitation,
        _ => None,
    };
    Some(AuditEntry {
        execution: Some(execution.id()),
        elicitation,
        ..AuditEntry::bare(at, what, by, detail)
    })
}

fn given(grant: &Grant) -> String {
    let tools = grant
        .pattern
        .clone()
        .unwrap_or_else(|| grant.tools.iter().map(|tool| tool.path.as_str()).collect::<Vec<_>>().join(", "));
    format!("{} for {}: {tools}", grant.id, grant.session)
}

fn execution_row(execution: &Execution, events: &[Event]) -> ExecutionRow {
    ExecutionRow {
        id: execution.id(),
        kind: execution.kind(),
        status: execution.status(),
        session: execution.session().clone(),
        requester: execution.requester().id.clone(),
        owner: execution.requester().user().cloned(),
        tool: execution.calls().first().map(|call| call.path.clone()),
        key: execution.idempotency_key().map(ToOwned::to_owned),
        created_at: execution.started_at(),
        updated_at: events.last().map_or(execution.started_at(), |event| event.at),
    }
}

fn elicitation_row(execution: &Execution, asked: &Asked) -> ElicitationRow {
    ElicitationRow {
        elicitation: asked.elicitation.clone(),
        execution: execution.id(),
        session: execution.session().clone(),
        requester: execution.requester().id.clone(),
        owner: execution.requester().user().cloned(),
        asked_at: asked.at,
        decision: asked.decision().cloned(),
    }
}
