//! A server that a command talks to, as the agent who calls and as the operator who decides.
//!
//! Promise: however the command ends, handlers that run in this process come to their end first; leaving earlier would
//! leave them in doubt.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use anyhow::Context as _;
use countersign_sdk::ExposeSecret as _;
use tempfile::TempDir;
use tokio::sync::OnceCell;

use crate::client::Client;
use crate::config::Environment;
use crate::denials;
use crate::exit::Problem;
use crate::invocation::Invocation;
use crate::local::Setup;
use crate::names::Names;
use crate::reach::{Need, Reach};
use crate::report::Background;
use crate::screen::Screen;
use crate::target::{Target, check_data};

/// When to say that handlers are waited for.
const SAY_SO_AFTER: Duration = Duration::from_secs(2);

/// What a command wants of a server, and so which data it needs where none runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Looks at tools and rules: no data.
    Catalog,
    /// The same, with the rules of the file that was named; a server that runs has its own.
    NamedRules,
    /// Looks at or changes tokens, grants and records: the data folder, which must be there. Executions are left as they are.
    Look,
    /// Keeps something new there (a token, a user): like `serve`, it makes the folder.
    Keep,
    /// Calls, or adds tools to the catalog: the data folder, made where it is not there, and what an earlier process left behind
    /// goes on.
    Act,
    /// Decides, settles, cancels or changes the catalog: the same, and the folder must be there.
    Change,
    /// Decides for as long as a person stays; whatever calls meanwhile finds this server. Like `serve`, it makes the folder.
    Share,
}

impl Purpose {
    fn need(self) -> Need {
        match self {
            Self::Catalog | Self::NamedRules | Self::Look | Self::Keep => Need::Look,
            Self::Act | Self::Change => Need::Act,
            Self::Share => Need::Share,
        }
    }
}

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
    names: OnceCell<Names>,
    remember_for: OnceCell<Option<Duration>>,
}

/// A command whose configuration could be used.
pub(crate) struct Ready {
    pub(crate) setup: Setup,
    pub(crate) environment: Environment,
}

impl Ready {
    /// Does something with the server that this command reaches.
    pub(crate) async fn with_server<T>(
        mut self,
        purpose: Purpose,
        work: impl AsyncFnOnce(&Contact) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let (screen, invocation) = (self.setup.screen, self.setup.invocation.clone());
        let target = match purpose {
            Purpose::NamedRules => Target::Folder(self.setup.config.data_dir.clone()),
            _ => Target::find(&self.setup.config, &self.environment).await,
        };
        // Kept until the server is gone.
        let _empty: Option<TempDir> = match (&target, purpose) {
            (Target::Folder(_), Purpose::Catalog | Purpose::NamedRules) => {
                // Looking at tools leaves no trace.
                let folder = tempfile::tempdir().context("an empty folder cannot be made")?;
                folder.path().clone_into(&mut self.setup.config.data_dir);
                Some(folder)
            }
            (Target::Folder(folder), Purpose::Look | Purpose::Change) => {
                check_data(folder, &invocation)?;
                None
            }
            _ => None,
        };
        let reach = Reach::find(&target, self.setup, &self.environment, purpose.need()).await?;
        match purpose {
            // Which file is asked instead was said where it was found.
            Purpose::NamedRules => {}
            _ => target.say(screen, &invocation, purpose),
        }
        let result = match Contact::of(&reach, screen, invocation) {
            Ok(contact) => work(&contact).await,
            Err(problem) => Err(problem.into()),
        };
        leave(reach, screen).await;
        result
    }
}

async fn leave(reach: Reach, screen: Screen) {
    let leaving = reach.leave();
    tokio::pin!(leaving);
    if tokio::time::timeout(SAY_SO_AFTER, &mut leaving).await.is_err() {
        screen.note(
            "Waiting for a call that an earlier process left unfinished; stopping now would leave it in doubt.",
        );
        leaving.await;
    }
}

impl Contact {
    /// What a command has that found this server.
    pub(crate) fn of(reach: &Reach, screen: Screen, invocation: Invocation) -> Result<Self, Problem> {
        Ok(Self {
            agent: Client::new(&reach.url, reach.agent.expose_secret())?,
            operator: Client::new(&reach.url, reach.operator.expose_secret())?,
            serves: if reach.is_elsewhere() { Serves::Elsewhere } else { Serves::Here },
            screen,
            invocation,
            missing: Mutex::default(),
            names: OnceCell::new(),
            remember_for: OnceCell::new(),
        })
    }

    /// Whoever calls: the operator, or an agent where its token is given, as itself, as `@FILE`, or as `agent` for the data
    /// folder's own.
    pub(crate) fn caller(&self, token: Option<&str>) -> Result<Client, Problem> {
        match token {
            None => Ok(self.operator.clone()),
            Some("agent") => Ok(self.agent.clone()),
            Some(given) => {
                let secret = match given.strip_prefix('@') {
                    Some(file) => std::fs::read_to_string(file)
                        .map_err(|error| Problem::usage(format!("--as: {file} cannot be read: {error}")))?,
                    None => given.to_owned(),
                };
                Client::new(self.operator.url(), secret.trim())
            }
        }
    }

    /// What people call those who act here.
    pub(crate) async fn names(&self) -> &Names {
        self.names.get_or_init(|| Names::known_to(&self.operator)).await
    }

    /// What a person reads about a question that is not in it.
    pub(crate) async fn background(&self, elicitation: &str) -> Background {
        let denials = match self.operator.elicitation(elicitation).await {
            Ok(asked) => denials::of(&self.operator, self.names().await, &asked).await,
            Err(_) => Vec::new(),
        };
        Background { denials, remember_for: self.remember_for().await, chosen: None }
    }

    /// How long an approval for a session lasts; nothing where the server does not say.
    pub(crate) async fn remember_for(&self) -> Option<Duration> {
        let ask = || async {
            self.operator.standing().await.ok().map(|now| Duration::from_millis(now.remember_for_ms))
        };
        *self.remember_for.get_or_init(ask).await
    }

    /// Whether the server certainly does not have a tool.
    pub(crate) async fn lacks(&self, tool: &str) -> bool {
        if let Some(known) = self.missing.lock().ok().and_then(|known| known.get(tool).copied()) {
            return known;
        }
        let answer = self.operator.tool(tool).await;
        let missing =
            answer.is_err_and(|problem| matches!(problem.code.as_ref(), "tool_not_found" | "not_found"));
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
                format!(
                    "The server at {} does not have its plugin; nothing was changed.",
                    self.operator.url()
                )
            }
        }
    }
}
