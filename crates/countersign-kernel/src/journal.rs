//! Recording: events are applied, written with all that is derived from them, and only then told to the world.

use std::panic::AssertUnwindSafe;
use std::sync::PoisonError;

use countersign_core::audit::AuditEntry;
use countersign_core::event::{Event, EventBody, Kind};
use countersign_core::execution::{Asked, Call, Execution};
use countersign_core::ids::ElicitationId;
use countersign_core::retention;
use countersign_sdk::EffectClass;
use tokio::time::Instant;

use crate::error::GatewayError;
use crate::events::{GatewayEvent, GatewayEventKind};
use crate::kernel::Kernel;
use crate::live::State;
use crate::meter;
use crate::ports::{ElicitationRow, ExecutionRow, GrantWrite, JournalWrite, Requirement, Write};
use crate::result::Pending;

/// What is to be written together with events.
#[derive(Default)]
pub(crate) struct Beside {
    pub(crate) require: Vec<Requirement>,
    pub(crate) grants: Vec<GrantWrite>,
    pub(crate) audit: Vec<AuditEntry>,
}

impl Kernel {
    /// Applies events and makes them durable. An error means nothing was confirmed: the execution is read anew before
    /// anybody looks at it again.
    pub(crate) async fn record(
        &self,
        state: &mut State,
        bodies: Vec<EventBody>,
        beside: Beside,
    ) -> Result<(), GatewayError> {
        let before = state.unflushed.len();
        let recorded = match self.note(state, bodies) {
            Ok(()) => self.flush(state, beside).await,
            Err(error) => Err(error),
        };
        recorded.inspect_err(|_| state.unflushed.truncate(before))
    }

    /// Applies events without writing them yet.
    pub(crate) fn note(&self, state: &mut State, bodies: Vec<EventBody>) -> Result<(), GatewayError> {
        // One moment for all of them: a clock that ticks in between must not put a decision before its question.
        let decided = bodies.iter().find_map(|body| match body {
            EventBody::Decided { decision, .. } => Some(decision.at),
            _ => None,
        });
        let moment = decided.unwrap_or_else(|| self.now_for(state));
        for body in bodies {
            let at = match &body {
                EventBody::Decided { decision, .. } => decision.at,
                _ => moment.max(state.execution.latest()),
            };
            let event = Event { at, body };
            if let Err(error) = state.execution.apply(&event) {
                state.doubtful = true;
                return Err(error.into());
            }
            state.unflushed.push(event);
        }
        Ok(())
    }

    async fn flush(&self, state: &mut State, beside: Beside) -> Result<(), GatewayError> {
        let write = write(state, beside);
        // Should whoever waits for this hang up here, nobody knows what became of it.
        state.doubtful = true;
        let begun = Instant::now();
        match self.store.commit(write).await {
            Ok(committed) => {
                meter::committed(begun.elapsed());
                meter::recorded(&state.execution, &state.unflushed);
                state.doubtful = false;
                state.stored = state.execution.version();
                let events = std::mem::take(&mut state.unflushed);
                self.spend_storage(&state.execution, &events);
                self.tell(&state.execution, &events, committed.audit_seq);
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Queues everything noted so far, for executions that changed nothing in the world.
    pub(crate) fn flush_soon(&self, state: &mut State) -> Result<(), GatewayError> {
        let mut write = write(state, Beside::default());
        if let Some(journal) = write.journal.as_mut().filter(|_| can_be_read_again(state)) {
            journal
                .events
                .iter_mut()
                .for_each(|event| *event = retention::of_a_read(&state.execution, event));
        }
        let bytes = write.journal.as_ref().map_or(0, |journal| retention::stored_bytes(&journal.events));
        self.store.commit_soon(write).inspect_err(|_| state.doubtful = true)?;
        self.storage.spend(&state.execution.requester().id, bytes, self.now());
        meter::recorded(&state.execution, &state.unflushed);
        state.unflushed.clear();
        state.stored = state.execution.version();
        self.waiters.wake(state.execution.id());
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
                    self.registry.note_asked(elicitation.id, id);
                    self.alarm.set(elicitation.expires_at);
                }
                EventBody::Decided { elicitation, .. } => self.registry.forget_asked(*elicitation),
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
        self.waiters.wake(id);
        for asked in opened(execution, events) {
            let pending =
                Pending { execution: id, asked_at: asked.at, elicitation: asked.elicitation.clone() };
            let callbacks = self.on_pause.read().unwrap_or_else(PoisonError::into_inner).clone();
            for callback in callbacks {
                if std::panic::catch_unwind(AssertUnwindSafe(|| callback(execution.session(), &pending)))
                    .is_err()
                {
                    tracing::error!(execution = %id, "an on_pause callback panicked");
                }
            }
        }
    }

    pub(crate) fn send(&self, event: GatewayEvent) {
        // Nobody listening is fine: the audit keeps what happened.
        let _ = self.events.send(event);
    }
}

/// Whether the values of an execution may be left out of its record: one call that only read, whose id was told to nobody
/// before its end, so that its caller gets the answer from memory. Under a key the caller may come back for it.
fn can_be_read_again(state: &State) -> bool {
    let execution = &state.execution;
    let only_read = |call: &Call| call.effects.class() == EffectClass::Reads;
    execution.kind() == Kind::Call
        && !state.is_stored()
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

fn write(state: &State, beside: Beside) -> Write {
    let (execution, events) = (&state.execution, &state.unflushed);
    let mut audit: Vec<AuditEntry> = events.iter().map(|event| AuditEntry::of(execution, event)).collect();
    audit.extend(beside.audit);
    let here: Vec<ElicitationId> = asked_by(events).collect();
    let opened =
        here.iter().filter_map(|id| execution.find(*id)).map(|asked| elicitation_row(execution, asked));
    let decided = events.iter().filter_map(|event| match &event.body {
        EventBody::Decided { elicitation, decision } if !here.contains(elicitation) => {
            Some((*elicitation, decision.clone()))
        }
        _ => None,
    });
    Write {
        require: beside.require,
        journal: Some(JournalWrite {
            expected: execution.version() - events.len() as u64,
            row: execution_row(execution, events),
            opened: opened.collect(),
            decided: decided.collect(),
            events: events.clone(),
        }),
        grants: beside.grants,
        audit,
        ..Write::default()
    }
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
