//! Elicitations: questions to a person about one call, and the decisions that end them.

use countersign_sdk::{AskKind, Outcome, PrincipalId, Remember, ToolPath};
use serde::{Deserialize, Serialize};

use crate::canonical::Canonical;
use crate::digest::Digest;
use crate::ids::{CallNo, ElicitationId, GrantId, LoginId, TokenId, UserId};
use crate::time::Timestamp;

/// A question to a person. It carries nothing of its answer: see [`Decision`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Elicitation {
    /// Its id.
    pub id: ElicitationId,
    /// The call it is about.
    pub call: CallNo,
    /// The asking party: the gate, or the handler itself.
    pub origin: Origin,
    /// Yes or no, or fields.
    pub kind: AskKind,
    /// The tool that is being decided about.
    pub tool: ToolPath,
    /// The text that the person reads.
    pub message: String,
    /// The arguments, whole, as they will run.
    pub args: Canonical,
    /// The digest that an approval is bound to.
    pub digest: Digest,
    /// Which rule asks, or that the handler does.
    pub because: String,
    /// The default coverage of an approval. `Call` is also the most that the person may give.
    pub remember: Remember,
    /// From here on the answer is `expired`.
    pub expires_at: Timestamp,
    /// The line of the script's source that waits for the answer, from 1, where a script made the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
}

/// The asking party.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Origin {
    /// The gate, before the handler starts.
    Gate,
    /// The handler, while it runs; its questions are numbered in order, so that a replay can match them.
    Handler {
        /// The number of the question within the call, from 0.
        ordinal: u32,
    },
}

/// How an elicitation ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the names say it")]
pub struct Decision {
    /// Yes, no, closed, or too late.
    pub outcome: Outcome,
    pub by: Decider,
    /// Through what: `console`, `cli`, `mcp`, …
    pub channel: String,
    /// How the gateway knows that a person decided; absent where no person did, and in journals of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<Proof>,
    pub at: Timestamp,
    /// The person's comment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// The fields of a form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Canonical>,
}

/// How the gateway knows that a person decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Proof {
    /// A token of the user's own.
    Token,
    /// A login to the console.
    Login {
        /// The login.
        id: LoginId,
    },
    /// The prompt of a client that a person declared attended.
    AttendedClient {
        /// The client's token.
        token: TokenId,
    },
    /// None: the operator lets agents decide for themselves (`approvals.agent_may_decide`).
    AgentSetting,
}

/// The party that ended an elicitation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the names say it")]
pub enum Decider {
    /// A person, and the token they used, if any: it must still be good when the call starts.
    Person {
        principal: PrincipalId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        token: Option<TokenId>,
    },
    /// A remembered approval.
    Grant { id: GrantId },
    /// Time ran out.
    Clock,
    /// The gateway: the execution was cancelled, or what was asked about changed.
    Gateway { reason: String },
}

impl Decision {
    /// Whether a decider repeats the same decision: then they get the same success again.
    pub fn repeats(&self, other: &Self) -> bool {
        self.outcome == other.outcome && self.data == other.data && self.by.is_same_person(&other.by)
    }

    /// The user who decided; none where no user did, or in a program that embeds the gateway without users.
    pub fn user(&self) -> Option<UserId> {
        match &self.by {
            Decider::Person { principal, .. } => principal.as_str().parse().ok(),
            Decider::Grant { .. } | Decider::Clock | Decider::Gateway { .. } => None,
        }
    }

    /// The token the decision was made with, if it was made by a person with one.
    pub fn token(&self) -> Option<TokenId> {
        match &self.by {
            Decider::Person { token, .. } => *token,
            Decider::Grant { .. } | Decider::Clock | Decider::Gateway { .. } => None,
        }
    }
}

impl Decider {
    /// People are themselves whichever token they use.
    fn is_same_person(&self, other: &Self) -> bool {
        matches!((self, other), (Self::Person { principal: a, .. }, Self::Person { principal: b, .. }) if a == b)
    }
}

/// The digest of a tool and arguments, whoever asks.
pub fn subject(tool: &ToolPath, args: &Canonical) -> Digest {
    let (tool, args) = (tool.as_str().as_bytes(), args.as_str().as_bytes());
    Digest::of(&[tool, b"\0", args].concat())
}

impl Elicitation {
    /// The digest of the tool and the arguments, independent of the asking party. Earlier decisions on the same are found by it.
    pub fn subject(&self) -> Digest {
        subject(&self.tool, &self.args)
    }

    /// Whether a yes lets something happen, rather than merely filling in fields.
    pub fn authorises(&self) -> bool {
        match &self.kind {
            AskKind::Approval => true,
            AskKind::Form { schema } => {
                schema.as_value()["properties"].as_object().is_none_or(serde_json::Map::is_empty)
            }
        }
    }
}

/// Whether an approval of `asked` may be remembered as `wanted`: a tool or rule that says `call` means it.
pub fn may_remember(asked: Remember, wanted: Remember) -> bool {
    asked == Remember::Session || wanted == Remember::Call
}
