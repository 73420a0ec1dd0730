//! The one loop of an agent: ask the conversation what is next, do it, record it.
//!
//! The model is asked, its calls are run, their results are recorded, until the model has nothing more to call. Effects happen
//! here and in `calls.rs`; what follows from what is decided by [`Conversation`](crate::durable::conversation::Conversation).

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::agent::{Agent, Pace};
use crate::calls::{CallRun, Settled, Turn};
use crate::durable::conversation::Next;
use crate::durable::ledger::Ledger;
use crate::durable::record::Record;
use crate::error::AgentError;
use crate::event::AgentEvent;
use crate::message::{CallKey, Reply};
use crate::model::{ModelRequest, TurnSoFar, WholeTurn};
use crate::queue::Events;
use crate::tool::{AgentTool, name_problem};

/// A conversation that goes on.
pub(crate) struct Run {
    root: Agent,
    ledger: Arc<Ledger>,
    events: Events,
}

impl Run {
    pub(crate) fn new(root: Agent, ledger: Ledger, events: Events) -> Self {
        Self { root, ledger: Arc::new(ledger), events }
    }

    /// Goes on until the model ends, or something stops it.
    pub(crate) async fn to_the_end(&self) -> Result<Reply, AgentError> {
        self.nothing_in_doubt().await?;
        // The calls of a turn run the tools that the model was shown, also where their toolset has others by then.
        let mut shown = None;
        loop {
            let next = self.ledger.look().await.next();
            match next {
                Next::AskModel => shown = Some(self.ask_model().await?),
                Next::RunCalls(open) => self.run_calls(open, shown.take()).await?,
                Next::Finished(text) => {
                    let agent = self.active().await?.name().to_owned();
                    let messages = self.ledger.look().await.messages().to_vec();
                    return Ok(Reply { text, agent, messages });
                }
                Next::AwaitInput => return Err(AgentError::NothingSaid),
            }
        }
    }

    /// A call that an earlier process let on and did not see the end of is a person's to settle.
    async fn nothing_in_doubt(&self) -> Result<(), AgentError> {
        let conversation = self.ledger.look().await;
        match conversation.let_on().next() {
            None => Ok(()),
            Some((call, state)) => {
                Err(AgentError::InDoubt { call, tool: state.call.name.clone(), execution: None })
            }
        }
    }

    /// The agent that speaks now: the first one, or the last one that was handed to.
    async fn active(&self) -> Result<Agent, AgentError> {
        let conversation = self.ledger.look().await;
        if let Some(root) = conversation.root().filter(|root| *root != self.root.name()) {
            return Err(AgentError::UnknownHandoff(root.to_owned()));
        }
        conversation.trail().iter().try_fold(self.root.clone(), |agent, name| {
            let target = agent.parts().handoffs.iter().find(|target| target.name() == name);
            target.cloned().ok_or_else(|| AgentError::UnknownHandoff(name.clone()))
        })
    }

    /// Has the model make its turn, and returns the tools that it was shown.
    async fn ask_model(&self) -> Result<Vec<AgentTool>, AgentError> {
        let agent = self.active().await?;
        let (messages, iterations) = {
            let conversation = self.ledger.look().await;
            (Arc::clone(conversation.messages()), conversation.iterations())
        };
        let most = self.root.parts().max_iterations;
        if iterations >= most {
            return Err(AgentError::TooManyIterations(most));
        }
        let tools = tools_of(&agent).await?;
        let parts = agent.parts();
        let request = ModelRequest { instructions: &parts.instructions, messages: &messages, tools: &tools };
        let mut turn = TurnSoFar::new(self.events.clone());
        parts.model.turn(request, &mut turn).await?;
        let WholeTurn { text, calls, blocks } = turn.finish();
        let agent = parts.name.clone();
        // Let go of the messages first: a conversation that nobody else holds grows in place.
        drop(messages);
        self.ledger.record(Record::ModelTurned { agent, text, calls, blocks }).await?;
        Ok(tools)
    }

    async fn run_calls(&self, open: Vec<CallKey>, shown: Option<Vec<AgentTool>>) -> Result<(), AgentError> {
        let agent = self.active().await?;
        let tools = match shown {
            Some(tools) => tools,
            None => tools_of(&agent).await?,
        };
        let (limit, at_once) = match agent.parts().pace {
            Pace::Sequential => (1, 1),
            Pace::Parallel(most) => (most, open.len()),
        };
        let turn = Arc::new(Turn {
            handoff: self.first_handoff(&tools).await,
            agent,
            tools,
            ledger: Arc::clone(&self.ledger),
            events: self.events.clone(),
            slots: Arc::new(Semaphore::new(limit)),
            failed: CancellationToken::new(),
        });
        let mut waiting = open.into_iter();
        // Dropping the set stops what runs in it.
        let mut running = JoinSet::new();
        for key in waiting.by_ref().take(at_once) {
            running.spawn(CallRun::new(Arc::clone(&turn), key).settle());
        }
        let mut failed = None;
        while let Some(ended) = running.join_next().await {
            match ended.map_err(|_| AgentError::Stopped).flatten() {
                Ok(Settled::Here) => {}
                Ok(Settled::HandedOff(to)) => {
                    self.events.tell(AgentEvent::Handoff { from: turn.agent.name().to_owned(), to });
                }
                // What runs is let go on to its end: cut off, it would be in doubt as well.
                Err(error) => {
                    turn.failed.cancel();
                    failed = failed.or(Some(error));
                }
            }
            if let Some(key) = waiting.next().filter(|_| failed.is_none()) {
                running.spawn(CallRun::new(Arc::clone(&turn), key).settle());
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// The one call of a turn that may hand off: the first, so that it does not depend on which of several is faster, nor on
    /// which of them has its result already.
    async fn first_handoff(&self, tools: &[AgentTool]) -> Option<CallKey> {
        let conversation = self.ledger.look().await;
        let hands_off = |name: &str| tools.iter().any(|tool| tool.name() == name && tool.is_handoff());
        conversation.of_this_turn().find(|(_, state)| hands_off(&state.call.name)).map(|(key, _)| key)
    }
}

/// The tools an agent has now. A toolset that does not answer is an error: the model must not be asked without its tools.
async fn tools_of(agent: &Agent) -> Result<Vec<AgentTool>, AgentError> {
    let mut tools = Vec::new();
    for toolset in &agent.parts().toolsets {
        let found = toolset.tools().await;
        tools.extend(found.map_err(|cause| AgentError::Toolset { name: toolset.name().to_owned(), cause })?);
    }
    if let Some(problem) = tools.iter().find_map(|tool| name_problem(tool.name())) {
        return Err(AgentError::BadName(problem));
    }
    let mut names = BTreeSet::new();
    match tools.iter().find(|tool| !names.insert(tool.name())) {
        Some(twice) => Err(AgentError::DuplicateTool(twice.name().to_owned())),
        None => Ok(tools),
    }
}
