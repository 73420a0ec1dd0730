//! The stored form of a conversation: one record a line, appended and never changed.
//!
//! `{"v":1,"at":…,"record":{"name":{…}}}`. Fields are added with a default and never renamed; a version that this build does
//! not know is refused. The form is golden-tested.

use countersign_core::event::Settlement;
use countersign_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::confirm::Verdict;
use crate::durable::JournalError;
use crate::message::{CallKey, OpaqueBlock, ToolCall, ToolResult};

/// The version this build writes.
const VERSION: u32 = 1;

/// Something that happened in a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(crate) enum Record {
    /// The conversation began: its name, and random bits that no other conversation of that name has.
    Opened {
        conversation: String,
        #[serde(default)]
        nonce: String,
    },
    /// A person said something.
    Said { text: String },
    /// The model spoke.
    ModelTurned {
        agent: String,
        text: String,
        calls: Vec<ToolCall>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        blocks: Vec<OpaqueBlock>,
    },
    /// A handler asks from inside; it has not been let past.
    CallAsked { call: CallKey, nth: u32, question: String },
    /// A person decided. The digest says about what.
    CallDecided { call: CallKey, by: Asker, question: String, verdict: Verdict, repeatable: bool },
    /// A handler asked, and the program wants nobody asked; it goes on.
    CallWaived { call: CallKey, repeatable: bool },
    /// The tool is about to run with this input. The fingerprint says which tool.
    CallStarted {
        call: CallKey,
        input: Value,
        repeatable: bool,
        #[serde(default)]
        fingerprint: String,
    },
    /// The call has its result.
    CallSettled {
        call: CallKey,
        result: ToolResult,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        handoff: Option<String>,
    },
    /// A call was started by an earlier process, and its tool is gone or changed.
    FoundInDoubt { call: CallKey },
    /// A person said what became of a call in doubt.
    DoubtSettled { call: CallKey, settlement: Settlement, by: String },
}

/// Who asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(crate) enum Asker {
    /// The agent, before the tool ran.
    Agent,
    /// The tool's handler, from inside: its question of this number.
    Handler { nth: u32 },
}

#[derive(Serialize, Deserialize)]
struct Line {
    v: u32,
    at: Timestamp,
    record: Record,
}

#[derive(Deserialize)]
struct Version {
    v: u32,
}

impl Record {
    /// Whether it says what became of a call that was under way: that is recorded whatever else no longer fits.
    pub(crate) fn ends_a_call(&self) -> bool {
        matches!(self, Self::CallSettled { .. } | Self::FoundInDoubt { .. } | Self::DoubtSettled { .. })
    }

    /// The record as a line of the journal, without its end.
    pub(crate) fn to_line(&self, at: Timestamp) -> Result<String, JournalError> {
        let line = Line { v: VERSION, at, record: self.clone() };
        serde_json::to_string(&line).map_err(|e| JournalError::Corrupt { line: 0, problem: e.to_string() })
    }

    /// Reads line number `number`, from 1.
    pub(crate) fn from_line(line: &str, number: usize) -> Result<Self, JournalError> {
        let corrupt = |e: serde_json::Error| JournalError::Corrupt { line: number, problem: e.to_string() };
        let version: Version = serde_json::from_str(line).map_err(corrupt)?;
        if version.v != VERSION {
            return Err(JournalError::UnknownVersion(version.v));
        }
        Ok(serde_json::from_str::<Line>(line).map_err(corrupt)?.record)
    }
}
