//! A server that a command talks to, as the agent who calls and as the operator who decides.
//!
//! Promise: however the command ends, handlers that run in this process come to their end first; leaving earlier would
//! leave them in doubt.

use std::collections::HashMap;
use std::sync::Mutex;

use crate::client::Client;
use crate::exit::Problem;
use crate::invocation::Invocation;
use crate::local::Setup;
use crate::reach::{Need, Reach};
use crate::screen::Screen;

/// Where the server runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Serves {
    /// In this process, for the time of the command.
    Here,
    /// In another process, or on another machine.
    Elsewhere,
}

/// What a command that talks to a server has.
pub(crate) struct Contact {
    /// Calls, and never decides.
    pub(crate) agent: Client,
    /// Decides.
    pub(crate) operator: Client,
    pub(crate) serves: Serves,
    pub(crate) screen: Screen,
    pub(crate) invocation: Invocation,
    /// Tools that were asked for, and whether they were missing.
    missing: Mutex<HashMap<String, bool>>,
}

impl Setup {
    /// Does something with the server of this setup.
    pub(crate) async fn with_server<T>(
        self,
        need: Need,
        work: impl AsyncFnOnce(&Contact) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let (screen, invocation) = (self.screen, self.invocation.clone());
        let reach = Reach::find(self, need).await?;
        let serves = if reach.is_here() { Serves::Here } else { Serves::Elsewhere };
        let result = match (reach.agent(), reach.operator()) {
            (Ok(agent), Ok(operator)) => {
                let missing = Mutex::default();
                work(&Contact { agent, operator, serves, screen, invocation, missing }).await
            }
            (Err(problem), _) | (_, Err(problem)) => Err(problem.into()),
        };
        reach.leave().await;
        result
    }
}

impl Contact {
    /// Whether the server certainly does not have a tool.
    pub(crate) async fn lacks(&self, tool: &str) -> bool {
        if let Some(known) = self.missing.lock().ok().and_then(|known| known.get(tool).copied()) {
            return known;
        }
        let answer = self.operator.tool(tool).await;
        let missing = answer.is_err_and(|problem| matches!(problem.code.as_ref(), "tool_not_found" | "not_found"));
        if let Ok(mut known) = self.missing.lock() {
            known.insert(tool.to_owned(), missing);
        }
        missing
    }

    /// That a tool is not there, and what to do about it.
    pub(crate) fn tool_not_here(&self, tool: &str, consequence: &str) -> Problem {
        Problem::new("tool_not_here", format!("its tool {tool} is not here, {consequence}"))
            .hint(self.missing_tool_hint(tool))
    }

    /// What to do where a tool is not registered.
    pub(crate) fn missing_tool_hint(&self, tool: &str) -> String {
        let demo = crate::demo::owns(tool);
        match self.serves {
            Serves::Here if demo => format!(
                "It is a demo tool, and they are here only with --demo: `{}`",
                self.invocation.again_with_demo()
            ),
            Serves::Here => {
                "Run this with the program that has the tool's plugin; nothing was changed.".to_owned()
            }
            Serves::Elsewhere if demo => format!(
                "It is a demo tool, and the server at {} has none: start it with `countersign serve --demo`.",
                self.operator.url()
            ),
            Serves::Elsewhere => {
                format!("The server at {} does not have its plugin; nothing was changed.", self.operator.url())
            }
        }
    }
}
