//! Waiting calls are judged again by the policy and the tools of this process.
//!
//! Promise: when a start returns, every question that is open can be answered. A question that would be asked in the same
//! words stays, with the digest that people were shown. One that would be asked on other terms is withdrawn and asked
//! again under another id. A question that would no longer be asked is withdrawn, and its call does not run. A question
//! whose tool is not registered here is left alone: another process may have the tool.
//!
//! Nothing is looked at where neither the rules nor the tools changed since the last look, so that a start with a hundred
//! thousand questions costs nothing.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use countersign_core::digest::Digest;
use countersign_core::elicitation::Elicitation;
use countersign_core::event::{EventBody, Kind, StartedBy};
use countersign_core::execution::{Asked, Call, Execution, Phase};
use countersign_core::ids::ExecutionId;
use countersign_core::policy::{Effect, Verdict};
use countersign_core::time::Timestamp;

use crate::catalog::Offered;
use crate::decide::withdrawal;
use crate::error::GatewayError;
use crate::kernel::Kernel;
use crate::owner::{GateQuestion, Message, gate_elicitation};
use crate::ports::{ElicitationFilter, ElicitationRow, Page, Write};

const BATCH: usize = 500;
/// A question's expiry is reckoned a moment before it is recorded; terms are given in whole seconds.
const ROUNDING: Duration = Duration::from_secs(1);

pub(crate) const TOOL_CHANGED: &str = "the tool changed";
pub(crate) const TOOL_REMOVED: &str = "the tool was removed";
const POLICY_CHANGED: &str = "the policy changed";
const NOW_ALLOWED: &str = "the policy changed and now allows this call; call again";
const NOW_DENIED: &str = "the policy changed and now denies this call";
const ASKED_AGAIN: &str = "the policy changed, and the question was asked again on its new terms";

/// The verdict of this process on a call that another one judged.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Rejudgement {
    /// Its question or approval is the same as it would be now.
    Stands,
    /// A person would be asked, but on other terms.
    AsksOtherwise(Box<Verdict>),
    /// No question would be asked, or one about something else.
    Withdrawn(&'static str),
    /// The source of its tool is not loaded here, so that nothing can be said of it.
    ToolMissing,
}

/// The result of judging open questions again.
#[derive(Debug, Default)]
pub(crate) struct Rejudged {
    /// How many questions were withdrawn.
    pub(crate) withdrawn: usize,
    /// Whether some could not be judged.
    pub(crate) failed: bool,
}

impl Kernel {
    /// Judges every open question again where the rules or the tools changed. Gives how many it withdrew.
    pub(crate) async fn rejudge_open(self: &Arc<Self>) -> Result<usize, GatewayError> {
        let rulebook = self.rulebook();
        if self.store.rulebook().await? == Some(rulebook) {
            return Ok(0);
        }
        let rejudged = self.rejudge_where(|_| true).await?;
        self.revoke_void_grants(&self.catalog.snapshot(), |_| false).await?;
        if !rejudged.failed
            && let Err(error) =
                self.store.commit(Write { rulebook: Some(rulebook), ..Write::default() }).await
        {
            // The next start looks once more, and finds nothing to do.
            tracing::warn!(?error, "it could not be recorded that everything open was judged again");
        }
        Ok(rejudged.withdrawn)
    }

    /// Judges again the open questions that are concerned, whatever changed.
    pub(crate) async fn rejudge_where(
        self: &Arc<Self>,
        concerned: impl Fn(&ElicitationRow) -> bool,
    ) -> Result<Rejudged, GatewayError> {
        let filter = ElicitationFilter { open_only: true, ..ElicitationFilter::default() };
        let (mut page, mut rejudged) = (Page::first(BATCH), Rejudged::default());
        loop {
            // Keyset cursors stand still while questions are closed; one that is asked anew comes at the end, and stands.
            let rows = self.store.elicitations(filter.clone(), page).await?;
            for damaged in &rows.damaged {
                tracing::error!(
                    elicitation = damaged.id,
                    problem = damaged.problem,
                    "left alone: its record is damaged"
                );
            }
            let executions: BTreeSet<ExecutionId> =
                rows.items.iter().filter(|row| concerned(row)).map(|row| row.execution).collect();
            // Side by side, so that their commits share the disk's syncs.
            let judged = executions.into_iter().map(|id| async move {
                let judged = self.rejudge(id).await;
                judged.inspect_err(
                    |error| tracing::error!(execution = %id, ?error, "what waits could not be judged again"),
                )
            });
            for judged in futures_util::future::join_all(judged).await {
                rejudged.withdrawn += judged.as_ref().copied().unwrap_or(0);
                rejudged.failed |= judged.is_err();
            }
            match rows.next {
                Some(cursor) => page = Page { cursor: Some(cursor), limit: BATCH },
                None => return Ok(rejudged),
            }
        }
    }

    /// The verdict of this process's policy and tools on a call that waits or was approved.
    pub(crate) fn rejudged(&self, execution: &Execution, call: &Call) -> Rejudgement {
        let tool = match self.catalog.offered(call) {
            Offered::Same(tool) => tool,
            Offered::Changed => return Rejudgement::Withdrawn(TOOL_CHANGED),
            Offered::Removed => return Rejudgement::Withdrawn(TOOL_REMOVED),
            Offered::NotLoaded => return Rejudgement::ToolMissing,
        };
        if execution.kind() == Kind::Gate {
            // The program at the gate looks for its question under the policy of now, and would not find this one.
            let same = call.policy_version == self.policy_version;
            return if same { Rejudgement::Stands } else { Rejudgement::Withdrawn(POLICY_CHANGED) };
        }
        let verdict = self.verdict(execution, call, &tool);
        match (call.phase(), verdict.effect) {
            (_, Effect::Deny) => Rejudgement::Withdrawn(NOW_DENIED),
            // It runs on the policy's word alone, which is not given any more.
            (Phase::Running(run), Effect::Ask) if matches!(run.by, StartedBy::Policy { .. }) => {
                Rejudgement::Withdrawn(POLICY_CHANGED)
            }
            (Phase::Asked { .. }, Effect::Allow) => Rejudgement::Withdrawn(NOW_ALLOWED),
            (Phase::Asked { elicitation } | Phase::Cleared { elicitation }, Effect::Ask) => {
                match execution.find(*elicitation) {
                    Some(asked) if self.has_terms_of(asked, &verdict) => Rejudgement::Stands,
                    _ => Rejudgement::AsksOtherwise(Box::new(verdict)),
                }
            }
            _ => Rejudgement::Stands,
        }
    }

    async fn rejudge(self: &Arc<Self>, id: ExecutionId) -> Result<usize, GatewayError> {
        self.request(id, Message::Rejudge).await?.unwrap_or(Ok(0))
    }

    /// The events that judging again records for an execution with open questions.
    pub(crate) fn rejudging(&self, execution: &Execution) -> Result<Vec<EventBody>, GatewayError> {
        let now = self.now_for(execution);
        let mut events = Vec::new();
        for call in execution.unsettled() {
            // The clock closes expired questions.
            let Some(open) = execution.open().find(|e| e.call == call.no && now < e.expires_at) else {
                continue;
            };
            let rejudged = EventBody::Rejudged { call: call.no, policy_version: self.policy_version };
            match self.rejudged(execution, call) {
                Rejudgement::Stands if call.policy_version != self.policy_version => events.push(rejudged),
                Rejudgement::Stands | Rejudgement::ToolMissing => {}
                Rejudgement::AsksOtherwise(verdict) => match self.question_anew(execution, call, &verdict)? {
                    Some(question) => {
                        events.extend([withdrawal(open.id, ASKED_AGAIN, now), rejudged]);
                        events.push(EventBody::Asked(Arc::new(question)));
                    }
                    None => events.extend(withdrawals(execution, call, POLICY_CHANGED, now)),
                },
                Rejudgement::Withdrawn(reason) => events.extend(withdrawals(execution, call, reason, now)),
            }
        }
        Ok(events)
    }

    /// The gate's question on the terms of now; nothing where the tool cannot say what it would do.
    fn question_anew(
        &self,
        execution: &Execution,
        call: &Call,
        verdict: &Verdict,
    ) -> Result<Option<Elicitation>, GatewayError> {
        let Some(message) = self.gate_message(call) else { return Ok(None) };
        let question = GateQuestion {
            message,
            because: verdict.because(),
            expires: verdict.expires.unwrap_or(self.settings.expires),
            remember: self.remember_for(&call.path, verdict.remember),
        };
        let digest = execution.binding(call, call.fingerprint, self.policy_version).digest();
        Ok(Some(Elicitation { digest, ..gate_elicitation(self, call, question)? }))
    }

    /// Whether a question says what it would say if it were asked now.
    fn has_terms_of(&self, asked: &Asked, verdict: &Verdict) -> bool {
        let Asked { elicitation, at, .. } = asked;
        let expires = verdict.expires.unwrap_or(self.settings.expires);
        verdict.still_because(&elicitation.because)
            && self.remember_for(&elicitation.tool, verdict.remember) == elicitation.remember
            && at.until(elicitation.expires_at).abs_diff(expires) < ROUNDING
    }

    /// Everything that decides whether a call asks and what its question says, as one digest.
    fn rulebook(&self) -> Digest {
        let catalog = self.catalog.snapshot();
        let tools = catalog.iter().map(|tool| (tool.path(), tool.fingerprint()));
        let facts = serde_json::json!({
            "v": 1,
            "policy": self.policy_version,
            "expires": self.settings.expires.as_millis().to_string(),
            "remember": self.settings.remember,
            "tools": tools.collect::<Vec<_>>(),
        });
        Digest::of(facts.to_string().as_bytes())
    }
}

/// The decisions that withdraw every open question of a call.
fn withdrawals(execution: &Execution, call: &Call, reason: &str, now: Timestamp) -> Vec<EventBody> {
    let open = execution.open().filter(|question| question.call == call.no);
    open.map(|question| withdrawal(question.id, reason, now)).collect()
}
