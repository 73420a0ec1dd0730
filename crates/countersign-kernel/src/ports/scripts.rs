//! Where scripts run: a port, because the engine is C and belongs into a process of its own.
//!
//! A [`Vm`] is a script's whole world. It is driven in turns: it is given completions, one at a time and in order, the
//! job queue run dry after each, and answers what it asks for next. It decides nothing: every request of it goes the
//! way of a call. It may be dropped at any moment; the same program, given the same completions, asks for the same.
//! These types are serialised as they are where a VM lives in another process.

use std::sync::Arc;

use async_trait::async_trait;
use countersign_core::canonical::{Canonical, Verbatim};
use countersign_core::event::{CallOutcome, Failure, LogLine};
use countersign_core::time::Timestamp;
use serde::{Deserialize, Serialize};

/// Runs scripts.
#[async_trait]
pub trait ScriptHost: Send + Sync + 'static {
    /// A fresh VM, for one script of one principal and nothing after it.
    async fn open(&self) -> Result<Box<dyn Vm>, ScriptFault>;

    /// How many VMs it gives out at once. The gateway shares them out; a host without a bound of its own says nothing.
    fn places(&self) -> usize {
        usize::MAX
    }
}

#[async_trait]
impl ScriptHost for Arc<dyn ScriptHost> {
    async fn open(&self) -> Result<Box<dyn Vm>, ScriptFault> {
        (**self).open().await
    }

    fn places(&self) -> usize {
        (**self).places()
    }
}

/// One script's world. Dropping it ends it at once.
#[async_trait]
pub trait Vm: Send {
    /// Strips the types of a source; nothing of it runs.
    async fn strip(&mut self, source: &str) -> Result<Stripped, ScriptFault>;

    /// Starts the script and lets it run until it can only wait.
    async fn start(&mut self, program: Program) -> Result<Turn, ScriptFault>;

    /// Gives the script what it waits for, in this order, and lets it run until it can only wait.
    async fn deliver(&mut self, completions: Vec<Completion>) -> Result<Turn, ScriptFault>;
}

/// A source without its types: what is journaled, so that a newer stripper cannot change a replay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stripped {
    /// The JavaScript.
    pub code: String,
    /// The way from its positions back to the source's, as a source map's `mappings`.
    pub mappings: String,
}

/// The program of a VM, with every input from outside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// The code, with the map of its positions to the source.
    pub stripped: Stripped,
    /// The seed of its random numbers.
    pub seed: [u8; 32],
    /// The time it starts at; later its time is that of its last completion.
    pub now: Timestamp,
}

/// The completion of a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Completion {
    /// The request it answers.
    pub request: u32,
    /// When it was recorded: the script's time from here on.
    pub at: Timestamp,
    /// The value or error that settles its promise; `null` for a sleep.
    pub outcome: CallOutcome,
}

/// The output of a script until it could only wait.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Turn {
    /// Its requests, in order.
    pub requests: Vec<Request>,
    /// Its log lines, in order.
    pub logs: Vec<LogLine>,
    /// How it ended, if it did.
    pub end: Option<ScriptEnd>,
}

/// Something a script asks for. They are numbered from 0, in the order they were made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Its number.
    pub no: u32,
    /// The line of the source that made it, from 1, where that is known: a courtesy to people, which a script can lie about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// The request.
    pub wanted: Wanted,
}

/// A request of a script.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Wanted {
    /// A call.
    Call {
        /// The path, as the script wrote it: nobody has looked yet whether there is such a tool.
        path: String,
        /// The arguments, taken once.
        args: Canonical,
    },
    /// A sleep.
    Sleep {
        /// The length of the sleep.
        ms: u64,
    },
}

/// How a script ended by itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ScriptEnd {
    /// The script returned a value.
    Returned(Verbatim),
    /// With an error that it did not catch: a failed call's own code, else `script_error`; the message says where.
    Threw(Failure),
}

/// How a script was ended, or why it could not begin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum ScriptFault {
    /// The source does not parse.
    #[error("{message} (line {line}, column {column})")]
    Invalid {
        /// The problem.
        message: String,
        /// The position, from 1.
        line: u32,
        /// The position, from 1.
        column: u32,
    },
    /// The source is too long.
    #[error("the script has {bytes} bytes; it may have {bound}")]
    TooLong {
        /// The length of the source.
        bytes: usize,
        /// The longest allowed length.
        bound: usize,
    },
    /// It took more memory than it may.
    #[error("the script used more than its {bound_mib} MiB of memory")]
    OutOfMemory {
        /// The memory limit.
        bound_mib: u64,
    },
    /// It computed longer than it may. Waiting is free.
    #[error("the script computed for more than its {bound_ms} ms; waiting would have been free")]
    CpuLimit {
        /// The CPU limit.
        bound_ms: u64,
    },
    /// It made more calls than it may.
    #[error("the script made more than its {bound} calls")]
    TooManyCalls {
        /// The limit on requests.
        bound: u32,
    },
    /// A value is larger than it may be.
    #[error("a value of the script is larger than {bound} bytes")]
    ValueTooLarge {
        /// The largest allowed size.
        bound: usize,
    },
    /// It was given the answer to something it never asked for: it does not do what its journal says was done.
    #[error("the script was given an answer to request {request}, which it did not make")]
    NotAsked {
        /// The request.
        request: u32,
    },
    /// Its process died, or said what no script can say.
    #[error("the script's sandbox crashed; nothing outside it was harmed")]
    Crashed {
        /// The cause, for the log.
        cause: String,
    },
    /// No VM is to be had at the moment.
    #[error("no sandbox could be started; try again shortly")]
    Unavailable {
        /// The cause, for the log.
        cause: String,
    },
    /// Its principal has as many scripts as it may have at the moment. Nothing of this one ran.
    #[error("as many scripts run for you as may run at once; try again in {retry_after_s} s")]
    Busy {
        /// The time after which to try again.
        retry_after_s: u64,
    },
    /// A sandbox could not shut itself off as it should, so that it is given no script.
    #[error(
        "scripts do not run here, because their sandbox lacks protection ({missing}); the operator can allow weaker \
         protection with `allow_weaker = true` under [sandbox] in countersign.toml"
    )]
    NotIsolated {
        /// Which protection is missing, and why.
        missing: String,
    },
}

impl ScriptFault {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Invalid { .. } => "script_invalid",
            Self::TooLong { .. } => "script_too_long",
            Self::OutOfMemory { .. } => "out_of_memory",
            Self::CpuLimit { .. } => "cpu_limit",
            Self::TooManyCalls { .. } => "too_many_calls",
            Self::ValueTooLarge { .. } => "value_too_large",
            Self::NotAsked { .. } => "diverged",
            Self::Crashed { .. } => "sandbox_crashed",
            Self::Unavailable { .. } => "unavailable",
            Self::Busy { .. } => "busy",
            Self::NotIsolated { .. } => "sandbox_unavailable",
        }
    }
}
