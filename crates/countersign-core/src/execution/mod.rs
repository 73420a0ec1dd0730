//! The execution: one state machine, live and on replay.
//!
//! [`Execution`] is a value. [`Execution::apply`] is the only way it changes, the same function live, on recovery and in
//! tests; an event that does not fit is a typed error that names both and poisons the execution. [`Execution::next`]
//! is the next step. Rule R1 is structural: no sequence of events reaches [`Phase::Running`] for a destructive
//! call without an approval that fits, and only a call in that phase yields a [`StartPermit`].

mod apply;
mod call;
mod next;
mod permit;
mod script;

use std::collections::BTreeSet;
use std::sync::Arc;

use countersign_sdk::{Principal, PrincipalId, SessionId};

pub use apply::ApplyError;
pub use call::{Call, Phase, Run, Step};
pub use next::{Next, Refusal, Terms, refused};
pub use permit::StartPermit;
pub use script::{Became, Completed, Divergence, Progress, Recorded, call_digest, sleep_digest};

use crate::elicitation::{Decision, Elicitation};
use crate::event::{CallOutcome, Event, Failure, Kind, LogLine, Started};
use crate::ids::{CallNo, ElicitationId, ExecutionId, TokenId};
use crate::time::Timestamp;

/// A durable unit of work, as its journal tells it.
#[derive(Debug, Clone, PartialEq)]
pub struct Execution {
    facts: Started,
    started_at: Timestamp,
    version: u64,
    latest: Timestamp,
    calls: Vec<Call>,
    unsettled: BTreeSet<CallNo>,
    doubts: BTreeSet<CallNo>,
    asked: Vec<Asked>,
    progress: Progress,
    cancel_request: Option<(PrincipalId, String)>,
    end: Option<End>,
    poisoned: bool,
}

/// A question of this execution, and its decision once there is one.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Asked {
    pub elicitation: Arc<Elicitation>,
    pub at: Timestamp,
    pub state: AskedState,
}

/// The state of a question.
#[derive(Debug, Clone, PartialEq)]
pub enum AskedState {
    /// There is no answer yet.
    Open,
    /// Answered, and the answer not used yet.
    Decided(Decision),
    /// Answered, and the answer was given to the handler or used to start it. It cannot be used again.
    Used(Decision),
}

/// How an execution ended.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum End {
    /// It has an outcome.
    Finished { at: Timestamp, outcome: CallOutcome, logs: Vec<LogLine> },
    /// It was cancelled.
    Cancelled { at: Timestamp, reason: String },
}

/// The status of an execution, for lists and callers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The gateway or a handler has something to do.
    Running,
    /// Everything waits for a person.
    Waiting,
    /// A call started and its outcome is unknown.
    InDoubt,
    /// Ended with a value.
    Succeeded,
    /// Ended with a failure.
    Failed,
    /// It was cancelled.
    Cancelled,
}

impl Status {
    /// The stable text.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::InDoubt => "in_doubt",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether it can no longer change.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Cancelled)
    }
}

#[expect(missing_docs, reason = "the names say it")]
impl Execution {
    /// Folds a journal. Its first event must be `Started`.
    pub fn replay<'a>(events: impl IntoIterator<Item = &'a Event>) -> Result<Self, ApplyError> {
        let mut events = events.into_iter();
        let first = events.next().ok_or(ApplyError::Empty)?;
        let mut execution = Self::start(first)?;
        for event in events {
            execution.apply(event)?;
        }
        execution.lose_handlers();
        Ok(execution)
    }

    /// Records that none of its handlers runs in this process: a started call must be entered again, or is in doubt.
    pub fn lose_handlers(&mut self) {
        self.calls.iter_mut().for_each(Call::lose_permit);
    }

    /// Gives back the permits of the calls whose start or entering again this process recorded, and whose handlers it did not
    /// enter: the journal, read again, cannot know that. An entering that `before` has and the journal does not was never recorded,
    /// unless it only was to confirm a start that was found there.
    pub fn restore_permits(&mut self, before: &Self, found: &BTreeSet<CallNo>) -> Vec<CallNo> {
        let mut restored = Vec::new();
        for (call, entries) in
            before.unsettled().filter_map(|call| Some((call, call.entries_if_unentered()?)))
        {
            let after = self.calls.get_mut(call.no.0 as usize);
            let is_recorded = |run: &Run| run.entries == entries || found.contains(&call.no);
            if after.is_some_and(|after| after.restore_permit(is_recorded)) {
                restored.push(call.no);
            }
        }
        restored
    }

    /// Records that a call's handler runs in this process, which a journal that was read again does not show.
    pub fn keep_handler(&mut self, no: CallNo) {
        if let Some(call) = self.calls.get_mut(no.0 as usize) {
            call.keep_permit();
        }
    }

    /// Keeps only the texts of its arguments and values, for an execution that rests in memory.
    pub fn forget_values(&mut self) {
        for call in &mut self.calls {
            call.args.forget_value();
        }
        for asked in &mut self.asked {
            Arc::make_mut(&mut asked.elicitation).args.forget_value();
        }
    }

    pub fn id(&self) -> ExecutionId {
        self.facts.execution
    }

    /// One call, a bare gate, or a script.
    pub fn kind(&self) -> Kind {
        self.facts.kind
    }

    pub fn session(&self) -> &SessionId {
        &self.facts.session
    }

    /// The requester, with the roles of that moment.
    pub fn requester(&self) -> &Principal {
        &self.facts.requester
    }

    /// The requester's token.
    pub fn token(&self) -> Option<TokenId> {
        self.facts.token
    }

    /// The caller's own key.
    pub fn idempotency_key(&self) -> Option<&str> {
        self.facts.idempotency_key.as_deref()
    }

    pub fn started_at(&self) -> Timestamp {
        self.started_at
    }

    /// The number of its events.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The time of its last event; the next is no earlier.
    pub fn latest(&self) -> Timestamp {
        self.latest
    }

    pub fn calls(&self) -> &[Call] {
        &self.calls
    }

    pub fn call(&self, no: CallNo) -> Option<&Call> {
        self.calls.get(no.0 as usize)
    }

    /// All its questions, in the order they were asked.
    pub fn asked(&self) -> &[Asked] {
        &self.asked
    }

    pub fn find(&self, id: ElicitationId) -> Option<&Asked> {
        self.asked.iter().find(|a| a.elicitation.id == id)
    }

    /// The open questions, oldest first.
    pub fn open(&self) -> impl Iterator<Item = &Elicitation> {
        self.asked.iter().filter(|a| a.state == AskedState::Open).map(|a| &*a.elicitation)
    }

    /// The principal that wants it stopped as soon as none of its calls may be having an effect, and the reason.
    pub fn cancel_request(&self) -> Option<&(PrincipalId, String)> {
        self.cancel_request.as_ref()
    }

    /// How it ended, if it did.
    pub fn end(&self) -> Option<&End> {
        self.end.as_ref()
    }

    pub fn status(&self) -> Status {
        match &self.end {
            Some(End::Cancelled { .. }) => Status::Cancelled,
            Some(End::Finished { outcome: CallOutcome::Succeeded(_), .. }) => Status::Succeeded,
            Some(End::Finished { outcome: CallOutcome::Failed(_), .. }) => Status::Failed,
            None if self.in_doubt().is_some() => Status::InDoubt,
            None if self.waits_for_people() => Status::Waiting,
            None => Status::Running,
        }
    }

    /// The failure it ended with, if it did.
    pub fn failure(&self) -> Option<&Failure> {
        match &self.end {
            Some(End::Finished { outcome: CallOutcome::Failed(failure), .. }) => Some(failure),
            _ => None,
        }
    }

    /// Its calls without an outcome, in issue order.
    pub fn unsettled(&self) -> impl Iterator<Item = &Call> {
        self.unsettled.iter().filter_map(|no| self.call(*no))
    }

    /// Whether a call may have had an effect that cancelling would hide. What a script's settled calls did stays in its
    /// journal, so only those without an outcome count there.
    pub fn may_have_acted(&self) -> bool {
        match self.kind() {
            Kind::Script => self.unsettled().any(Call::may_have_acted),
            Kind::Call | Kind::Gate => self.calls.iter().any(Call::may_have_acted),
        }
    }

    fn in_doubt(&self) -> Option<CallNo> {
        self.doubts.first().copied()
    }

    /// Whether a call waits for people and could be dropped where it is.
    pub fn waits(&self, no: CallNo) -> bool {
        self.call(no).is_some_and(|call| self.call_waits(call))
    }

    /// A script waits for people only once it has been given all there is for it: until then it may still have
    /// something to say.
    fn waits_for_people(&self) -> bool {
        self.progress.has_seen_all() && !self.progress.is_asleep() && self.calls_wait()
    }

    /// Whether there are calls without an outcome, and every one of them waits for people.
    pub fn calls_wait(&self) -> bool {
        !self.unsettled.is_empty() && self.unsettled().all(|call| self.call_waits(call))
    }

    /// A call waits for people when its gate's question is open, or when its handler has a question open, every answer
    /// so far has been given to it, and it could be dropped here without leaving doubt.
    fn call_waits(&self, call: &Call) -> bool {
        match call.phase() {
            Phase::Asked { .. } => true,
            Phase::Running(run) => {
                let mine = || self.asked.iter().filter(|a| run.asks.contains(&a.elicitation.id));
                let unused = mine().any(|a| matches!(a.state, AskedState::Decided(_)));
                mine().any(|a| a.state == AskedState::Open) && !unused && !call.would_be_in_doubt()
            }
            _ => false,
        }
    }
}

impl Asked {
    /// The decision, used or not.
    pub fn decision(&self) -> Option<&Decision> {
        match &self.state {
            AskedState::Open => None,
            AskedState::Decided(decision) | AskedState::Used(decision) => Some(decision),
        }
    }
}
