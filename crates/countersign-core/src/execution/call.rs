//! One call of an execution: what was issued, and how far it got.

use countersign_sdk::{Effects, PrincipalId, ToolPath};

use crate::canonical::{Canonical, Verbatim};
use crate::digest::{Digest, Fingerprint};
use crate::event::{CallIssued, CallOutcome, StartedBy};
use crate::ids::{CallNo, ElicitationId};
use crate::time::Timestamp;

/// A call as its journal tells it.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Call {
    pub no: CallNo,
    pub path: ToolPath,
    pub fingerprint: Fingerprint,
    /// The tool's effects on the world.
    pub effects: Effects,
    pub args: Canonical,
    /// The policy that judged it last.
    pub policy_version: Digest,
    /// The policy that [`Self::digest`] binds: the one its question was asked under. A later policy that leaves the
    /// question as it is leaves the digest too, so that nothing changes under the person who reads it.
    pub asked_under: Digest,
    /// The digest that an approval is bound to.
    pub digest: Digest,
    /// The line of the script's source that made it, from 1.
    pub line: Option<u32>,
    /// The source that the tool came from, where the journal says it.
    pub source: Option<String>,
    pub(super) phase: Phase,
}

/// How far a call got. Each phase knows only what belongs to it.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Phase {
    /// Issued, and not judged by policy yet.
    Issued,
    /// The gate asked and has no answer yet.
    Asked {
        elicitation: ElicitationId,
    },
    /// The gate's question was answered with yes; the start is not recorded yet.
    Cleared {
        elicitation: ElicitationId,
    },
    /// The gate's question was answered with anything else; the outcome is not recorded yet.
    Refused {
        elicitation: ElicitationId,
    },
    /// The start of the handler is recorded.
    Running(Run),
    /// Started, and the outcome is unknown.
    InDoubt(Run),
    /// A person had it run again; the start is not recorded yet.
    Retrying {
        /// The run that is in doubt.
        run: Run,
        by: PrincipalId,
        at: Timestamp,
    },
    Settled(CallOutcome),
}

/// A run of a handler.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// The authority on which it first ran.
    pub by: StartedBy,
    /// The person who had it run again, and when.
    pub retried: Option<(PrincipalId, Timestamp)>,
    /// Its questions so far, in order.
    pub asks: Vec<ElicitationId>,
    /// The work it recorded.
    pub steps: Vec<Step>,
    pub(super) last: LastMark,
    pub(super) allowed_by_approval: bool,
    pub(super) permit: PermitState,
    /// The number of entries since it last made progress: asked, was answered, or recorded a step.
    pub(super) entries: u32,
}

/// A recorded piece of work.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Step {
    pub name: String,
    pub value: Verbatim,
}

/// The last of the two things that decide whether a crash leaves doubt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LastMark {
    /// It was allowed to run or to continue: it may have had effects since.
    AllowedToRun,
    /// It waits at a question: a resumable handler has by contract changed nothing that it would change again.
    AtQuestion,
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
        self.must_not_be_repeated() && (run.last == LastMark::AllowedToRun || !self.effects.is_resumable())
    }

    /// Whether it runs and may have an effect that must not happen twice.
    pub fn must_not_be_repeated(&self) -> bool {
        let Phase::Running(run) = &self.phase else { return false };
        self.effects.is_at_most_once() || run.allowed_by_approval && !self.effects.idempotent
    }

    /// Whether it may have had an effect that cancelling would hide.
    pub fn may_have_acted(&self) -> bool {
        match &self.phase {
            Phase::Issued | Phase::Asked { .. } | Phase::Cleared { .. } | Phase::Refused { .. } => false,
            Phase::Running(run) => {
                let dangerous =
                    self.effects.destructive || self.effects.is_at_most_once() || run.allowed_by_approval;
                let at_resumable_question = run.last == LastMark::AtQuestion && self.effects.is_resumable();
                // The effects of the run before a retry are unknown.
                run.by == StartedBy::Retry || dangerous && (!at_resumable_question || !run.steps.is_empty())
            }
            Phase::InDoubt(_) | Phase::Retrying { .. } | Phase::Settled(_) => true,
        }
    }

    /// The number of entries, where the last one is recorded and has not happened yet.
    pub(super) fn entries_if_unentered(&self) -> Option<u32> {
        match &self.phase {
            Phase::Running(run) if run.permit == PermitState::Unspent => Some(run.entries),
            _ => None,
        }
    }

    /// Gives back the permit of a recorded entry. Returns whether the entry was recorded.
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
            last: LastMark::AllowedToRun,
            allowed_by_approval: false,
            permit: PermitState::Unspent,
            entries: 1,
        }
    }
}
