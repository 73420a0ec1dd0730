//! The agent: what it is built from, and the two ways to talk to it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::confirm::{Asking, Attendance, ConfirmationProvider};
use crate::durable::conversation::Conversation;
use crate::durable::ledger::Ledger;
use crate::durable::record::Record;
use crate::error::{AgentError, BuildError};
use crate::event::AgentEvent;
use crate::hooks::{Hooks, PostToolHook, PreToolHook, ToolErrorHook};
use crate::message::{Prompt, Reply};
use crate::model::Model;
use crate::queue::{ChatStream, Events};
use crate::tool::{AgentTool, name_problem};
use crate::toolset::{Forecast, StaticToolset, Toolset};
use crate::turn::Run;

/// How many turns a model may make for one input, where nothing else is said.
pub const DEFAULT_MAX_ITERATIONS: u32 = 10;
/// How many tools of one turn run at the same time, where nothing else is said.
pub const DEFAULT_PARALLEL_TOOLS: usize = 16;

/// How the tool is called by which an agent hands off to another: this, and the other's name.
pub const HANDOFF_PREFIX: &str = "transfer_to_";

/// An agent. Cheap to clone; all clones are one. It remembers nothing between chats.
#[derive(Clone)]
pub struct Agent {
    parts: Arc<Parts>,
}

/// What an agent is made of.
pub(crate) struct Parts {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) model: Arc<dyn Model>,
    pub(crate) instructions: String,
    pub(crate) toolsets: Vec<Arc<dyn Toolset>>,
    pub(crate) hooks: Hooks,
    pub(crate) asking: Asking,
    pub(crate) handoffs: Vec<Agent>,
    pub(crate) max_iterations: u32,
    pub(crate) pace: Pace,
}

/// How the calls of one turn run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    /// One after the other, confirmation included.
    Sequential,
    /// All are confirmed at once, and so many run at the same time: a person who thinks holds nobody else up.
    Parallel(usize),
}

impl Agent {
    /// Starts building an agent.
    pub fn builder() -> AgentBuilder {
        AgentBuilder {
            name: "agent".to_owned(),
            description: String::new(),
            model: None,
            instructions: String::new(),
            tools: Vec::new(),
            toolsets: Vec::new(),
            hooks: Hooks::default(),
            provider: None,
            attendance: Attendance::Attended,
            timeout: None,
            handoffs: Vec::new(),
            max_iterations: DEFAULT_MAX_ITERATIONS,
            pace: Pace::Parallel(DEFAULT_PARALLEL_TOOLS),
        }
    }

    /// What it is called; other agents hand off to it as `transfer_to_<name>`.
    pub fn name(&self) -> &str {
        &self.parts.name
    }

    /// Talks until the model ends. Dropping the future cancels, as dropping the stream of [`chat_stream`](Self::chat_stream) does.
    pub async fn chat(&self, prompt: impl Into<Prompt>) -> Result<Reply, AgentError> {
        begun(self.clone(), prompt.into(), Events::default()).await
    }

    /// Talks, and tells what happens. The chat goes on whether or not the stream is read; dropping the stream cancels it.
    /// It must be called within a tokio runtime.
    pub fn chat_stream(&self, prompt: impl Into<Prompt>) -> ChatStream {
        let (agent, prompt) = (self.clone(), prompt.into());
        ChatStream::of(move |events| async move {
            match begun(agent, prompt, events).await {
                Ok(reply) => AgentEvent::Complete(reply),
                Err(error) => AgentEvent::Error(Arc::new(error)),
            }
        })
    }

    pub(crate) fn parts(&self) -> &Parts {
        &self.parts
    }
}

async fn begun(agent: Agent, prompt: Prompt, events: Events) -> Result<Reply, AgentError> {
    let ledger = Ledger::fleeting(Conversation::after(prompt.history));
    ledger.record(Record::Said { text: prompt.input }).await?;
    Run::new(agent, ledger, events).to_the_end().await
}

/// An agent in the making.
#[must_use = "an agent exists once it is built"]
pub struct AgentBuilder {
    name: String,
    description: String,
    model: Option<Arc<dyn Model>>,
    instructions: String,
    tools: Vec<AgentTool>,
    toolsets: Vec<Arc<dyn Toolset>>,
    hooks: Hooks,
    provider: Option<Arc<dyn ConfirmationProvider>>,
    attendance: Attendance,
    timeout: Option<Duration>,
    handoffs: Vec<Agent>,
    max_iterations: u32,
    pace: Pace,
}

impl AgentBuilder {
    /// What it is called; `agent` where nothing is said.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// What it is good at, for agents that may hand off to it.
    pub fn describe(mut self, description: impl Into<String>) -> Self {
        self.description = description.into();
        self
    }

    /// The model that speaks.
    pub fn model(mut self, model: impl Model) -> Self {
        self.model = Some(Arc::new(model));
        self
    }

    /// What the model is told before everything else.
    pub fn instructions(mut self, instructions: impl Into<String>) -> Self {
        self.instructions = instructions.into();
        self
    }

    /// Adds a tool.
    pub fn tool(mut self, tool: AgentTool) -> Self {
        self.tools.push(tool);
        self
    }

    /// Adds a toolset.
    pub fn toolset(mut self, toolset: impl Toolset) -> Self {
        self.toolsets.push(Arc::new(toolset));
        self
    }

    /// Adds a hook before tools; hooks run in this order.
    pub fn pre_hook(mut self, hook: impl PreToolHook) -> Self {
        self.hooks.pre.push(Box::new(hook));
        self
    }

    /// Adds a hook for tools that fail; hooks run in this order.
    pub fn on_error(mut self, hook: impl ToolErrorHook) -> Self {
        self.hooks.on_error.push(Box::new(hook));
        self
    }

    /// Adds a hook after tools; hooks run in this order.
    pub fn post_hook(mut self, hook: impl PostToolHook) -> Self {
        self.hooks.post.push(Box::new(hook));
        self
    }

    /// Who is asked before a tool that needs confirmation runs.
    pub fn confirmation(mut self, provider: impl ConfirmationProvider) -> Self {
        self.provider = Some(Arc::new(provider));
        self
    }

    /// How long a person may take; then the call counts as rejected, never as approved. Without this they may take for ever.
    pub fn confirmation_timeout(mut self, limit: Duration) -> Self {
        self.timeout = Some(limit);
        self
    }

    /// Runs everything without asking anybody, destructive tools too. This is a choice that wants to be seen.
    pub fn unattended(mut self) -> Self {
        self.attendance = Attendance::Unattended;
        self
    }

    /// Lets the model hand the conversation to another agent, which asks its own provider.
    pub fn handoff(mut self, target: &Agent) -> Self {
        self.handoffs.push(target.clone());
        self
    }

    /// How many turns the model may make for one input, over all agents that it hands off to.
    pub fn max_iterations(mut self, most: u32) -> Self {
        self.max_iterations = most;
        self
    }

    /// How many tools of one turn run at the same time.
    pub fn max_parallel_tools(mut self, most: usize) -> Self {
        self.pace = Pace::Parallel(most);
        self
    }

    /// Runs the tools of one turn one after the other.
    pub fn sequential_tools(mut self) -> Self {
        self.pace = Pace::Sequential;
        self
    }

    /// Builds the agent, or says what it lacks.
    pub fn build(self) -> Result<Agent, BuildError> {
        let mut toolsets = self.toolsets;
        let handoffs = self.handoffs.iter().map(handoff_tool);
        let own: Vec<AgentTool> = self.tools.into_iter().chain(handoffs).collect();
        toolsets.insert(0, Arc::new(StaticToolset::new("tools", own)));
        let unconfirmed = checked(&self.name, &toolsets)?;
        match (&self.provider, self.attendance) {
            (Some(_), Attendance::Unattended) => return Err(BuildError::Contradiction),
            (None, Attendance::Attended) if !unconfirmed.is_empty() => {
                return Err(BuildError::NoProvider { tools: unconfirmed });
            }
            _ => {}
        }
        if self.max_iterations == 0 {
            return Err(BuildError::ZeroLimit("iterations"));
        }
        if self.pace == Pace::Parallel(0) {
            return Err(BuildError::ZeroLimit("parallel tools"));
        }
        let asking = Asking { provider: self.provider, attendance: self.attendance, timeout: self.timeout };
        let parts = Parts {
            name: self.name,
            description: self.description,
            model: self.model.ok_or(BuildError::NoModel)?,
            instructions: self.instructions,
            toolsets,
            hooks: self.hooks,
            asking,
            handoffs: self.handoffs,
            max_iterations: self.max_iterations,
            pace: self.pace,
        };
        Ok(Agent { parts: Arc::new(parts) })
    }
}

fn handoff_tool(target: &Agent) -> AgentTool {
    let parts = target.parts();
    let about = if parts.description.is_empty() { String::new() } else { format!(" {}", parts.description) };
    let description = format!("Hands the conversation to the agent {}.{about}", parts.name);
    AgentTool::handoff(format!("{HANDOFF_PREFIX}{}", parts.name), description)
}

/// Looks over everything that is known of the tools, and returns what needs confirmation.
fn checked(agent: &str, toolsets: &[Arc<dyn Toolset>]) -> Result<Vec<String>, BuildError> {
    if let Some(problem) = name_problem(agent) {
        return Err(BuildError::BadName(problem));
    }
    let (mut names, mut unconfirmed) = (BTreeSet::new(), Vec::new());
    for toolset in toolsets {
        let tools = match toolset.forecast() {
            Forecast::Tools(tools) => tools,
            Forecast::MayNeedConfirmation => {
                unconfirmed.push(format!("tools of {}", toolset.name()));
                continue;
            }
            Forecast::NeedsNoConfirmation => continue,
        };
        for tool in tools {
            if let Some(problem) = name_problem(tool.name()) {
                return Err(BuildError::BadName(problem));
            }
            if let Some(problem) = tool.schema_problem() {
                return Err(BuildError::BadSchema { tool: tool.name().to_owned(), problem });
            }
            if !names.insert(tool.name().to_owned()) {
                return Err(BuildError::DuplicateTool(tool.name().to_owned()));
            }
            if tool.requires_confirmation() {
                unconfirmed.push(tool.name().to_owned());
            }
        }
    }
    Ok(unconfirmed)
}
