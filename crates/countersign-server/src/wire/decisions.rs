//! Elicitations, the decisions that end them, and approvals that are remembered.

use std::sync::Arc;

use countersign_core::elicitation::{Decider, Origin, Proof};
use countersign_kernel::ports::ElicitationRow;
use countersign_kernel::{Catalog, Receipt};
use countersign_sdk::Outcome;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::executions::Pending;
use crate::links::Links;

/// A question, open or decided, with whose it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Elicitation {
    /// The question.
    #[serde(flatten)]
    pub question: Pending,
    /// `pending`, `approved`, `denied`, `cancelled` or `expired`.
    pub status: String,
    /// The session of the call.
    pub session_id: String,
    /// Who requested it: the immutable id.
    pub requester: String,
    /// The user for whom it was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// What people call that user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner_name: Option<String>,
    /// What people call the token they use; never who they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requester_name: Option<String>,
    /// How it ended, if it did.
    pub decision: Option<Decision>,
    /// Why it cannot be approved now, although nobody decided it: its tool is not registered in this server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cannot_approve: Option<String>,
}

/// How a question ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    /// `approved`, `denied`, `cancelled` or `expired`.
    pub outcome: String,
    /// Who: a user's id, a grant's id, `clock`, or `gateway`.
    pub by: String,
    /// What people call that user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_name: Option<String>,
    /// Through what: `rest`, `cli`, `console`, `mcp`, …
    pub channel: String,
    /// How it is known that a person decided: `token`, `login`, `attended_client`, or `none` where the operator lets agents
    /// decide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<String>,
    /// When.
    pub at: String,
    /// What the person wrote beside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// The fields of a form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    /// Why the gateway withdrew it, where it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A decision on its way.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResolveRequest {
    /// The execution that asks; where it is given, it must be the question's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_id: Option<String>,
    /// Yes or no.
    pub approved: bool,
    /// The fields of a form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    /// The digest that was shown with the question. Where it is not the question's, nothing is decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// What the approval covers: `call` or `session`; what the question says where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remember: Option<String>,
    /// For a session: calls with `any` arguments, or with the `same` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remember_args: Option<String>,
    /// For a session: for at most so many calls after this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remember_uses: Option<u32>,
    /// A word for the record; the caller reads it where the answer is no.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

/// A decision about the only question an execution waits for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResumeRequest {
    /// Yes or no.
    pub approved: bool,
    /// The question that was shown. An approval needs this or `digest` once an execution has asked more than once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elicitation_id: Option<String>,
    /// The digest that was shown with the question. Where it is not the question's, nothing is decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The fields of a form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

/// What a decider gets back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ElicitationResponse {
    /// The execution that waited.
    pub execution_id: String,
    /// The question.
    pub elicitation_id: String,
    /// Whether it was approved.
    pub approved: bool,
    /// `approved`, `denied`, `cancelled` or `expired`.
    pub outcome: String,
    /// The fields of a form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

/// A remembered approval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Grant {
    /// Its id.
    pub grant_id: String,
    /// The session it counts in.
    pub session_id: String,
    /// The tools it covers.
    pub tool_paths: Vec<String>,
    /// The only arguments it covers; any where there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<Value>,
    /// The pattern they were found by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// Who gave it.
    pub by: String,
    /// When.
    pub given_at: String,
    /// From here on it covers nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// How often it may still be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uses_left: Option<u32>,
}

/// An approval to remember.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GrantRequest {
    /// A tool's path, or a pattern.
    pub tool_path: String,
    /// The only arguments it is to cover; any where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<Value>,
    /// For how long; as long as any remembered approval (12 hours, unless the operator says otherwise) where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in_ms: Option<u64>,
    /// For how many calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uses: Option<u32>,
}

impl Elicitation {
    /// The same without what was said: neither words nor arguments nor answers.
    #[must_use]
    pub fn in_brief(mut self) -> Self {
        self.question.message.clear();
        (self.question.args, self.question.schema) = (Arc::default(), None);
        self.decision = self.decision.map(|decision| Decision { data: None, comment: None, ..decision });
        self
    }

    /// A question, with its link.
    pub fn of(row: &ElicitationRow, links: &Links) -> Self {
        let mut decision = row.decision.as_ref().map(Decision::from);
        if row.elicitation.origin == Origin::Gate
            && let Some(reason) = decision.as_mut().and_then(|decision| decision.reason.as_mut())
        {
            // Before the gate nothing has run; a handler that asked has.
            reason.push_str(". The call did not run");
        }
        Self {
            question: Pending::of(&row.elicitation, row.execution, row.asked_at, links),
            status: row.decision.as_ref().map_or("pending", |d| outcome_text(d.outcome)).to_owned(),
            session_id: row.session.to_string(),
            requester: row.requester.to_string(),
            requester_name: None,
            owner: row.owner.as_ref().map(ToString::to_string),
            owner_name: None,
            decision,
            cannot_approve: None,
        }
    }

    /// The same, for a server that may not have its tool: whoever reads it learns so before they decide.
    #[must_use]
    pub fn in_catalog(mut self, row: &ElicitationRow, catalog: &Catalog) -> Self {
        let tool = &row.elicitation.tool;
        let waits_for_its_tool = row.decision.is_none() && row.elicitation.origin == Origin::Gate;
        if waits_for_its_tool && catalog.at(tool).is_none() {
            self.cannot_approve = Some(format!(
                "The tool {tool} is not loaded in this server. Load its source or plugin, then approve. It can be denied now."
            ));
        }
        self
    }
}

impl From<&countersign_core::elicitation::Decision> for Decision {
    fn from(decision: &countersign_core::elicitation::Decision) -> Self {
        let by = match &decision.by {
            Decider::Person { principal, .. } => principal.to_string(),
            Decider::Grant { id } => id.to_string(),
            Decider::Clock => "clock".to_owned(),
            Decider::Gateway { .. } => "gateway".to_owned(),
        };
        Self {
            outcome: outcome_text(decision.outcome).to_owned(),
            by,
            by_name: None,
            channel: decision.channel.clone(),
            proof: decision.proof.map(|proof| proof_text(proof).to_owned()),
            at: decision.at.to_string(),
            comment: decision.comment.clone(),
            data: decision.data.as_ref().map(countersign_core::canonical::Canonical::to_value),
            reason: match &decision.by {
                Decider::Gateway { reason } => Some(reason.clone()),
                Decider::Person { .. } | Decider::Grant { .. } | Decider::Clock => None,
            },
        }
    }
}

impl From<&Receipt> for ElicitationResponse {
    fn from(receipt: &Receipt) -> Self {
        Self {
            execution_id: receipt.execution.to_string(),
            elicitation_id: receipt.elicitation.to_string(),
            approved: receipt.decision.outcome == Outcome::Approved,
            outcome: outcome_text(receipt.decision.outcome).to_owned(),
            data: receipt.decision.data.as_ref().map(countersign_core::canonical::Canonical::to_value),
        }
    }
}

impl From<&countersign_core::grant::Grant> for Grant {
    fn from(grant: &countersign_core::grant::Grant) -> Self {
        Self {
            grant_id: grant.id.to_string(),
            session_id: grant.session.to_string(),
            tool_paths: grant.tools.iter().map(|tool| tool.path.to_string()).collect(),
            args: grant.args.as_ref().map(countersign_core::canonical::Canonical::to_value),
            pattern: grant.pattern.clone(),
            by: grant.by.to_string(),
            given_at: grant.given_at.to_string(),
            expires_at: grant.expires_at.map(|at| at.to_string()),
            uses_left: grant.uses_left,
        }
    }
}

fn proof_text(proof: Proof) -> &'static str {
    match proof {
        Proof::Token => "token",
        Proof::Login { .. } => "login",
        Proof::AttendedClient { .. } => "attended_client",
        Proof::AgentSetting => "none",
    }
}

fn outcome_text(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Approved => "approved",
        Outcome::Denied => "denied",
        Outcome::Cancelled => "cancelled",
        Outcome::Expired => "expired",
    }
}
