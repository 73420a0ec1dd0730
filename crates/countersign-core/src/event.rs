//! Journal events: the truth of an execution, in one versioned, stable form.
//!
//! A stored event is `{"v":1,"at":…,"event":{"name":{…}}}`. The form is golden-tested: what an older version wrote, a
//! newer one reads. Fields are added with a default, never renamed.

use countersign_sdk::{Effects, LogLevel, Principal, PrincipalId, SessionId, ToolPath};
use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::canonical::{Canonical, Verbatim};
use crate::digest::{Digest, Fingerprint};
use crate::elicitation::{Decision, Elicitation};
use crate::ids::{CallNo, ElicitationId, ExecutionId, GrantId, RequestNo, TokenId};
use crate::time::Timestamp;

/// The version of the stored form.
pub const EVENT_VERSION: u32 = 1;

/// One thing that happened, and when.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "Stored")]
pub struct Event {
    /// When.
    pub at: Timestamp,
    /// What.
    pub body: EventBody,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum EventBody {
    /// The execution was accepted.
    Started(Started),
    /// A call was issued.
    CallIssued(CallIssued),
    /// A person was asked.
    Asked(Box<Elicitation>),
    /// The question ended.
    Decided {
        /// Which question.
        elicitation: ElicitationId,
        /// How.
        decision: Decision,
    },
    /// The policy changed, and the call was judged again under the new one: what it waits for, or was approved for,
    /// stands; or its question was withdrawn, and it is about to be asked again.
    Rejudged {
        /// Which call.
        call: CallNo,
        /// The policy that judged it.
        #[serde(rename = "policyVersion")]
        policy_version: Digest,
    },
    /// The handler was let run, or let past a question of its own: from here on it may have had effects.
    CallStarted {
        /// Which call.
        call: CallNo,
        /// On what authority.
        by: StartedBy,
    },
    /// The handler is entered again: it was parked at a question, or its process died. Recorded before it is entered, so that a
    /// handler that brings the process down is not entered for ever.
    CallReentered {
        /// Which call.
        call: CallNo,
    },
    /// A handler finished a piece of work that must not be repeated.
    StepRecorded {
        /// Which call.
        call: CallNo,
        /// The step's name.
        name: String,
        /// What it gave.
        value: Verbatim,
    },
    /// The call has an outcome.
    CallSettled {
        /// Which call.
        call: CallNo,
        /// The outcome.
        outcome: CallOutcome,
    },
    /// A script asked for a call that did not become one: it throws where the script made it.
    CallRefused {
        /// What the script wrote.
        path: String,
        /// What it asked for, as one digest.
        requested: Digest,
        /// Why.
        failure: Failure,
    },
    /// A script asked to go on later.
    SleepStarted {
        /// For how long.
        ms: u64,
    },
    /// A script's sleep is over.
    SleepEnded {
        /// The request that began it.
        request: RequestNo,
    },
    /// A script was given its first `seen` completions and can only wait for people.
    ScriptWaits {
        /// How many.
        seen: u32,
    },
    /// The execution has an outcome.
    Finished {
        /// The outcome.
        outcome: CallOutcome,
        /// What a script logged.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        logs: Vec<LogLine>,
    },
    /// Somebody wants a script stopped while one of its calls may be having its effect: nothing more of it starts, and it is
    /// cancelled once that call has ended.
    CancelRequested {
        /// Who asked for it.
        by: PrincipalId,
        /// Why.
        reason: String,
    },
    /// The execution was stopped.
    Cancelled {
        /// By whom; nobody where the gateway itself did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<PrincipalId>,
        /// Why.
        reason: String,
    },
    /// Started, and nobody knows the outcome: the process died, or the handler lost its request.
    FoundInDoubt {
        /// Which call.
        call: CallNo,
        /// What the handler said; nothing after a crash.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// A person said what became of a call in doubt.
    DoubtSettled {
        /// Which call.
        call: CallNo,
        /// What they said.
        settlement: Settlement,
        /// Who said it.
        by: PrincipalId,
    },
}

/// The facts an execution starts with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Started {
    /// The execution.
    pub execution: ExecutionId,
    /// One call, a bare gate, or a script.
    pub kind: Kind,
    /// The session it runs in.
    pub session: SessionId,
    /// Who asked for it, with the roles of that moment.
    pub requester: Principal,
    /// The token they used; it must still be good when something starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<TokenId>,
    /// The caller's own key: the same key again is the same execution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// What was asked for under the key, before defaults and hooks changed it, as one digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested: Option<Digest>,
    /// What runs, where the execution is a script.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<Box<Script>>,
}

/// A script, with all that makes it run the same way again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Script {
    /// What the agent sent.
    pub source: String,
    /// What runs: the source without its types. A newer stripper cannot change a replay.
    pub code: String,
    /// The way from the code's positions to the source's.
    pub mappings: String,
    /// The digest of the code.
    pub digest: Digest,
    /// What its random numbers come from.
    pub seed: Digest,
}

/// A line that a handler or a script logged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLine {
    /// How much it matters.
    pub level: LogLevel,
    /// What it says, fields appended.
    pub message: String,
}

/// What an execution is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Kind {
    /// One call of one tool.
    Call,
    /// A gate without a handler of ours: the embedding program runs what was let through.
    Gate,
    /// A script, with as many calls as it makes.
    Script,
}

/// A call as it was issued: what the pre-hooks produced, never what the agent first sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallIssued {
    /// Its number.
    pub call: CallNo,
    /// The tool.
    pub path: ToolPath,
    /// What the tool was.
    pub fingerprint: Fingerprint,
    /// What it does to the world.
    pub effects: Effects,
    /// The arguments.
    pub args: Canonical,
    /// The policy that judged it.
    pub policy_version: Digest,
    /// What an approval of it is bound to.
    pub digest: Digest,
    /// What a script asked for, before any hook rewrote it, as one digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested: Option<Digest>,
    /// The line of the script's source that made it, from 1, for people to look at: nothing is bound to it, and a replay does
    /// not hold it against anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// The source that the tool came from, so that a process which lacks the tool can tell a source that is not loaded yet
    /// from one that no longer offers it. Journals from before it was recorded do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// On what authority a handler runs on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StartedBy {
    /// The policy allows it.
    Policy {
        /// Which rule, or which default.
        rule: String,
    },
    /// A remembered approval covers it; its use is recorded with this event.
    Grant {
        /// The grant.
        id: GrantId,
    },
    /// A decision, used up by this event.
    Decision {
        /// The elicitation that was answered.
        elicitation: ElicitationId,
    },
    /// A person settled the doubt by having it run again.
    Retry,
}

/// How a call or an execution ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CallOutcome {
    /// With a value.
    Succeeded(Verbatim),
    /// With a failure that the caller may read.
    Failed(Failure),
}

/// A failure as the caller sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{code}: {message}")]
pub struct Failure {
    /// The stable code.
    pub code: String,
    /// What a person or model can act on.
    pub message: String,
    /// What the tool says beside the message, where it says something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Verbatim>,
}

impl Failure {
    /// A failure.
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into(), details: None }
    }
}

/// What a person says of a call in doubt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Settlement {
    /// It took effect, with this value.
    Done {
        /// The value the caller gets.
        value: Verbatim,
    },
    /// It took no effect.
    Failed {
        /// What the caller is told.
        message: String,
    },
    /// Run it again.
    Retry,
}

impl EventBody {
    /// The end of an execution that logged nothing.
    pub fn finished(outcome: CallOutcome) -> Self {
        Self::Finished { outcome, logs: Vec::new() }
    }

    /// The event's name, as DESIGN.md lists it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Started(_) => "Started",
            Self::CallIssued(_) => "CallIssued",
            Self::Asked(_) => "Asked",
            Self::Decided { .. } => "Decided",
            Self::Rejudged { .. } => "Rejudged",
            Self::CallStarted { .. } => "CallStarted",
            Self::CallReentered { .. } => "CallReentered",
            Self::StepRecorded { .. } => "StepRecorded",
            Self::CallSettled { .. } => "CallSettled",
            Self::CallRefused { .. } => "CallRefused",
            Self::SleepStarted { .. } => "SleepStarted",
            Self::SleepEnded { .. } => "SleepEnded",
            Self::ScriptWaits { .. } => "ScriptWaits",
            Self::Finished { .. } => "Finished",
            Self::CancelRequested { .. } => "CancelRequested",
            Self::Cancelled { .. } => "Cancelled",
            Self::FoundInDoubt { .. } => "FoundInDoubt",
            Self::DoubtSettled { .. } => "DoubtSettled",
        }
    }
}

/// The event stays raw until its version is known: what another version calls it is not this one's business.
#[derive(Deserialize)]
struct Stored {
    v: u32,
    at: Timestamp,
    event: Box<RawValue>,
}

/// Why a stored event cannot be read.
#[derive(Debug, thiserror::Error)]
enum Unreadable {
    #[error(
        "the journal was written in version {0}, this build reads version {EVENT_VERSION}; run a newer countersign"
    )]
    Version(u32),
    #[error(transparent)]
    Form(#[from] serde_json::Error),
}

impl TryFrom<Stored> for Event {
    type Error = Unreadable;
    fn try_from(stored: Stored) -> Result<Self, Unreadable> {
        if stored.v != EVENT_VERSION {
            return Err(Unreadable::Version(stored.v));
        }
        Ok(Self { at: stored.at, body: serde_json::from_str(stored.event.get())? })
    }
}

impl Serialize for Event {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut stored = serializer.serialize_struct("Event", 3)?;
        stored.serialize_field("v", &EVENT_VERSION)?;
        stored.serialize_field("at", &self.at)?;
        stored.serialize_field("event", &self.body)?;
        stored.end()
    }
}
