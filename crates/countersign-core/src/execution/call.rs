//! One call of an execution: what was issued, and how far it got.

use countersign_sdk::{Effects, PrincipalId, ToolPath};

use crate::canonical::{Canonical, Verbatim};
use crate::digest::{Digest, Fingerprint};
use crate::event::{CallIssued, CallOutcome, StartedBy};
use crate::ids::{CallNo, ElicitationId};
use crate::time::Timestamp;

/// A call as its journal tells it.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// Its number.
    pub no: CallNo,
    /// The tool.
    pub path: ToolPath,
    /// What the tool was.
    pub fingerprint: Fingerprint,
    /// What it does to the world.
    pub effects: Effects,
    /// The arguments.
    pub args: Canonical,
    /// The policy that judged it last.
    pub policy_version: Digest,
    /// The policy that [`Self::digest`] binds: the one its question was asked under. A later policy that leaves the
    /// question as it is leaves the digest too, so that nothing changes under the person who reads it.
    pub asked_under: Digest,
    /// What an approval of it is bound to.
    pub digest: Digest,
    /// The line of the script's source that made it, from 1.
    pub line: Option<u32>,
    /// The source that the tool came from, where the journal says it.
    pub source: Option<String>,
    pub(super) phase: Phase,
}

/// How far a call got. Each phase knows only what belongs to it.
#[derive(Debug, Clone, PartialEq)]
pub enum Phase {
    /// Issued; policy has not spoken yet.
    Issued,
    /// The gate asked; nobody answered yet.
    Asked {
        /// The gate's question.
        elicitation: ElicitationId,
    },
    /// The gate's question was answered with yes; the start is not recorded yet.
    Cleared {
        /// The gate's question.
        elicitation: ElicitationId,
    },
    /// The gate's question was answered with anything else; the outcome is not recorded yet.
    Refused {
        /// The gate's question.
        elicitation: ElicitationId,
    },
    /// The handler was let run.
    Running(Run),
    /// Started, and nobody knows what became of it.
    InDoubt(Run),
    /// A person said: run it again.
    Retrying {
        /// The run that is in doubt.
        run: Run,
        /// Who said it.
        by: PrincipalId,
        /// When they said it.
        at: Timestamp,
    },
    /// Done.
    Settled(CallOutcome),
}

/// A handler that was let run.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// On what authority it was first let run.
    pub by: StartedBy,
    /// Who had it run again, and when they said so.
    pub retried: Option<(PrincipalId, Timestamp)>,
    /// Its questions so far, in order.
    pub asks: Vec<ElicitationId>,
    /// The work it recorded.
    pub steps: Vec<Step>,
    pub(super) last: LastMark,
    pub(super) let_past_a_yes: bool,
    pub(super) permit: PermitState,
    /// How often it was entered since it last got further: asked, was answered, or recorded a step.
    pub(super) entries: u32,
}

/// A recorded piece of work.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Its name.
    pub name: String,
    /// What it gave.
    pub value: Verbatim,
}

/// The last of the two things that decide whether a crash leaves doubt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LastMark {
    /// It was let run on: it may have had effects since.
    LetPast,
    /// It asked: a resumable handler has by contract changed nothing that it would change again.
    AtAsk,
}

/// Whether the handler may be entered. Unspent by a recorded start, spent by entering, lost with the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PermitState {
    Unspent,
    Spent,
    Lost,
}

impl Call {
    pub(super) fn new(issued: &CallIssued) -> Self {
        Self {
            no: issued.call,
            path: issued.path.clone(),
            fingerprint: issued.fingerprint,
            effects: issued.effects,
            args: issued.args.clone(),
            policy_version: issued.policy_version,
            asked_under: issued.policy_version,
            digest: issued.digest,
            line: issued.line,
            source: issued.source.clone(),
            phase: Phase::Issued,
        }
    }

    /// How far it got.
    pub fn phase(&self) -> &Phase {
        &self.phase
    }

    /// The running handler, if there is one.
    pub fn run(&self) -> Option<&Run> {
        match &self.phase {
            Phase::Running(run) | Phase::InDoubt(run) | Phase::Retrying { run, .. } => Some(run),
            _ => None,
        }
    }

    /// Whether a crash now would leave doubt: it may have had an effect that must not be repeated, and it does not wait
    /// at a question where its handler could be entered again.
    pub fn would_be_in_doubt(&self) -> bool {
        let Phase::Running(run) = &self.phase else { return false };
        self.must_not_be_repeated() && (run.last == LastMark::LetPast || !self.effects.is_resumable())
    }

    /// Whether it runs and may have an effect that must not happen twice.
    pub fn must_not_be_repeated(&self) -> bool {
        let Phase::Running(run) = &self.phase else { return false };
        self.effects.is_at_most_once() || run.let_past_a_yes && !self.effects.idempotent
    }

    /// Whether it may have had an effect that cancelling would hide.
    pub fn may_have_acted(&self) -> bool {
        match &self.phase {
            Phase::Issued | Phase::Asked { .. } | Phase::Cleared { .. } | Phase::Refused { .. } => false,
            Phase::Running(run) => {
                let dangerous =
                    self.effects.destructive || self.effects.is_at_most_once() || run.let_past_a_yes;
                let at_resumable_ask = run.last == LastMark::AtAsk && self.effects.is_resumable();
                // Of the run before a retry nobody knows what it did.
                run.by == StartedBy::Retry || dangerous && (!at_resumable_ask || !run.steps.is_empty())
            }
            Phase::InDoubt(_) | Phase::Retrying { .. } | Phase::Settled(_) => true,
        }
    }

    /// How often it was entered, with the entering that is recorded and did not happen yet; nothing where there is none.
    pub(super) fn entries_if_unentered(&self) -> Option<u32> {
        match &self.phase {
            Phase::Running(run) if run.permit == PermitState::Unspent => Some(run.entries),
            _ => None,
        }
    }

    /// Gives back the permit of an entering that is recorded. Whether it is.
    pub(super) fn restore_permit(&mut self, is_recorded: impl FnOnce(&Run) -> bool) -> bool {
        match &mut self.phase {
            Phase::Running(run) if is_recorded(run) => {
                run.permit = PermitState::Unspent;
                true
            }
            _ => false,
        }
    }

    pub(super) fn keep_permit(&mut self) {
        if let Phase::Running(run) = &mut self.phase {
            run.permit = PermitState::Spent;
        }
    }

    pub(super) fn lose_permit(&mut self) {
        if let Phase::Running(run) = &mut self.phase {
            run.permit = PermitState::Lost;
        }
    }
}

impl Run {
    pub(super) fn begun(by: StartedBy, steps: Vec<Step>) -> Self {
        Self {
            by,
            retried: None,
            asks: Vec::new(),
            steps,
            last: LastMark::LetPast,
            let_past_a_yes: false,
            permit: PermitState::Unspent,
            entries: 1,
        }
    }
}
