//! Journal events: the truth of an execution, in one versioned, stable form.
//!
//! A stored event is `{"v":1,"at":…,"event":{"name":{…}}}`. The form is golden-tested: what an older version wrote, a
//! newer one reads. Fields are added with a default, never renamed.

use std::sync::Arc;

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
#[expect(missing_docs, reason = "the names say it")]
pub struct Event {
    pub at: Timestamp,
    pub body: EventBody,
}

/// The kinds of events.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the names say it")]
pub enum EventBody {
    /// The execution was accepted.
    Started(Started),
    /// A call was issued.
    CallIssued(CallIssued),
    /// A person was asked.
    Asked(Arc<Elicitation>),
    /// A question was answered, withdrawn, or expired.
    Decided { elicitation: ElicitationId, decision: Decision },
    /// The policy changed, and the call was judged again under the new one: what it waits for, or was approved for,
    /// is unchanged; or its question was withdrawn, and it is about to be asked again.
    Rejudged {
        call: CallNo,
        /// The policy that judged it.
        #[serde(rename = "policyVersion")]
        policy_version: Digest,
    },
    /// The handler was let run, or let past a question of its own: from here on it may have had effects.
    CallStarted { call: CallNo, by: StartedBy },
    /// The handler is entered again: it was parked at a question, or its process died. Recorded before it is entered, so that a
    /// handler that brings the process down is not entered for ever.
    CallReentered { call: CallNo },
    /// A handler finished a piece of work that must not be repeated.
    StepRecorded { call: CallNo, name: String, value: Verbatim },
    /// The call has an outcome.
    CallSettled { call: CallNo, outcome: CallOutcome },
    /// A script asked for a call that did not become one: it throws where the script made it.
    CallRefused {
        /// The path as the script wrote it.
        path: String,
        /// The digest of the request.
        requested: Digest,
        failure: Failure,
    },
    /// A script began to sleep.
    SleepStarted {
        /// The length in milliseconds.
        ms: u64,
    },
    /// A script's sleep is over.
    SleepEnded {
        /// The request that began it.
        request: RequestNo,
    },
    /// A script was given its first `seen` completions and can only wait for people.
    ScriptWaits {
        /// The number of completions.
        seen: u32,
    },
    /// The execution has an outcome.
    Finished {
        outcome: CallOutcome,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        logs: Vec<LogLine>,
    },
    /// A script is to stop while one of its calls may be having its effect: no further call starts, and it is
    /// cancelled once that call has ended.
    CancelRequested { by: PrincipalId, reason: String },
    /// The execution was stopped.
    Cancelled {
        /// The principal that stopped it; none where the gateway did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<PrincipalId>,
        reason: String,
    },
    /// A started call has an unknown outcome: the process died, or the handler lost its request.
    FoundInDoubt {
        call: CallNo,
        /// The handler's message; none after a crash.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// A person settled a call in doubt.
    DoubtSettled { call: CallNo, settlement: Settlement, by: PrincipalId },
}

/// The facts an execution starts with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the names say it")]
pub struct Started {
    pub execution: ExecutionId,
    /// One call, a bare gate, or a script.
    pub kind: Kind,
    pub session: SessionId,
    /// The requester, with the roles of that moment.
    pub requester: Principal,
    /// The token they used; it must still be good when something starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<TokenId>,
    /// The caller's own key: the same key again is the same execution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// The digest of the request under the key, before defaults and hooks changed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested: Option<Digest>,
    /// The script, where the execution is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<Box<Script>>,
}

/// A script, with all that makes it run the same way again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Script {
    /// The TypeScript that the agent sent.
    pub source: String,
    /// The code that runs: the source without its types. A newer stripper cannot change a replay.
    pub code: String,
    /// The source map from the code's positions to the source's.
    pub mappings: String,
    /// The digest of the code.
    pub digest: Digest,
    /// The seed of its random numbers.
    pub seed: Digest,
}

/// A line that a handler or a script logged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLine {
    /// Its severity.
    pub level: LogLevel,
    /// The text, with fields appended.
    pub message: String,
}

/// The kind of an execution.
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
#[expect(missing_docs, reason = "the names say it")]
pub struct CallIssued {
    pub call: CallNo,
    pub path: ToolPath,
    pub fingerprint: Fingerprint,
    /// The tool's effects on the world.
    pub effects: Effects,
    pub args: Canonical,
    /// The policy that judged it.
    pub policy_version: Digest,
    /// The digest that an approval is bound to.
    pub digest: Digest,
    /// The digest of the script's request, before any hook rewrote it.
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

/// The authority on which a handler runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the names say it")]
pub enum StartedBy {
    /// The policy allows the call.
    Policy {
        /// The rule or the default.
        rule: String,
    },
    /// A remembered approval covers the call; its use is recorded with this event.
    Grant { id: GrantId },
    /// A decision, used up by this event.
    Decision { elicitation: ElicitationId },
    /// A person settled the doubt by having it run again.
    Retry,
}

/// How a call or an execution ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CallOutcome {
    /// The call has a value.
    Succeeded(Verbatim),
    /// The call has a failure that the caller may read.
    Failed(Failure),
}

impl CallOutcome {
    /// The bytes of its value or message.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Succeeded(value) => value.as_str().len(),
            Self::Failed(failure) => failure.message.len(),
        }
    }
}

/// A failure as the caller sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{code}: {message}")]
pub struct Failure {
    /// The stable code.
    pub code: String,
    /// A text that a person or model can act on.
    pub message: String,
    /// Further details from the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Verbatim>,
}

impl Failure {
    /// A failure.
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into(), details: None }
    }
}

/// A person's statement on a call in doubt.
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
        /// The message for the caller.
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
