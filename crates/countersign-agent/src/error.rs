//! What can go wrong with an agent: a stable code, and what to do next.

use crate::durable::JournalError;
use crate::message::CallKey;
use crate::model::ModelError;
use crate::toolset::ToolsetError;

/// Why an agent was not built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// No model was given.
    #[error("an agent needs a model; give it one with .model(…)")]
    NoModel,
    /// Something needs confirmation and nobody would be asked.
    #[error(
        "{} need{} confirmation and the agent has nobody to ask; give it .confirmation(provider), or call .unattended() \
         to run everything without asking",
        tools.join(", "),
        if tools.len() == 1 { "s" } else { "" }
    )]
    NoProvider {
        /// The tools, or toolsets whose tools are known only later.
        tools: Vec<String>,
    },
    /// A provider was given and everything is to run without asking.
    #[error("the agent has a confirmation provider and is .unattended(); choose one")]
    Contradiction,
    /// A tool, or an agent, has a name that no model can call.
    #[error("{0}")]
    BadName(String),
    /// Two tools have the same name.
    #[error("two tools are called {0:?}; rename one")]
    DuplicateTool(String),
    /// A tool's input type has no usable schema.
    #[error("the tool {tool} cannot be used: {problem}")]
    BadSchema {
        /// The tool.
        tool: String,
        /// What is wrong.
        problem: String,
    },
    /// A limit is zero.
    #[error("the limit of {0} is zero; nothing would ever run")]
    ZeroLimit(&'static str),
}

impl BuildError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoModel => "no_model",
            Self::NoProvider { .. } => "no_confirmation_provider",
            Self::Contradiction => "contradiction",
            Self::BadName(_) => "bad_name",
            Self::DuplicateTool(_) => "duplicate_tool",
            Self::BadSchema { .. } => "bad_schema",
            Self::ZeroLimit(_) => "zero_limit",
        }
    }
}

/// Why a chat did not end well. Refusals and failures of tools are no errors: the model is told of them.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The model did not answer.
    #[error("{0}")]
    Model(#[from] ModelError),
    /// A toolset could not say what is in it. The model is not asked without its tools.
    #[error("the toolset {name} could not be read: {cause}; see that its source is reachable")]
    Toolset {
        /// The toolset.
        name: String,
        /// Why.
        cause: ToolsetError,
    },
    /// Two tools have the same name.
    #[error("two tools are called {0:?}; filter one of them out")]
    DuplicateTool(String),
    /// A toolset has a tool that no model can call.
    #[error("{0}; filter it out")]
    BadName(String),
    /// The model went on and on.
    #[error("the model made {0} turns without an end; raise .max_iterations(…) if it needs more")]
    TooManyIterations(u32),
    /// The conversation was handed to an agent that is not among those this agent can hand off to.
    #[error(
        "the conversation was handed to {0:?}, which this agent does not know; run it with the agent that began it"
    )]
    UnknownHandoff(String),
    /// A call was started, and what became of it was not recorded. It is not run again.
    #[error(
        "call {call} of {tool} was started and its outcome is unknown; look whether it took effect, then settle it{}",
        crate::confirm::after(" in the gateway: ", execution.as_deref())
    )]
    InDoubt {
        /// Which call.
        call: CallKey,
        /// The tool.
        tool: String,
        /// The gateway's execution that is in doubt, where the call lives in a gateway.
        execution: Option<String>,
    },
    /// Who runs or confirms a call of a durable conversation cannot be reached. Nothing was recorded of it, so that it goes on
    /// where it was.
    #[error("the conversation cannot go on now: {0}; run it again when that is mended")]
    Unavailable(String),
    /// Nobody has said anything in the conversation.
    #[error("nobody has said anything yet; say something with .say(…)")]
    NothingSaid,
    /// The journal could not be read or written. Nothing may be assumed to have been recorded.
    #[error("{0}")]
    Journal(#[from] JournalError),
    /// The chat was stopped from outside, or broke.
    #[error("the chat was stopped before its end")]
    Stopped,
}

impl AgentError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Model(error) => error.code(),
            Self::Toolset { .. } => "toolset_unavailable",
            Self::DuplicateTool(_) => "duplicate_tool",
            Self::BadName(_) => "bad_name",
            Self::TooManyIterations(_) => "too_many_iterations",
            Self::UnknownHandoff(_) => "unknown_handoff",
            Self::InDoubt { .. } => "in_doubt",
            Self::Unavailable(_) => "unavailable",
            Self::NothingSaid => "nothing_said",
            Self::Journal(error) => error.code(),
            Self::Stopped => "stopped",
        }
    }
}
