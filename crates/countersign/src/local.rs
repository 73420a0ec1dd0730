//! A gateway on the data folder, in this process, with its two local principals.
//!
//! The agent calls and never decides; the operator decides. Both are recorded under their own names.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use countersign_core::ids::ExecutionId;
use countersign_kernel::{
    Answer, BuildError, Caller, Decide, DecideError, ExecutionResult, Gateway, Patience, Receipt,
    SessionError, Target,
};
use countersign_sandbox::{ChildHost, ChildOptions};
use countersign_sdk::{Plugin, Principal, SessionId};

use crate::app::SANDBOX_WORKER;
use crate::config::Config;
use crate::data_folder::DataFolder;
use crate::exit::Problem;
use crate::invocation::Invocation;
use crate::screen::Screen;
use crate::serving::Mode;

/// How a decision made here is recorded.
const CHANNEL: &str = "cli";
/// How long handlers that were taken up from an earlier process may still run before they are left in doubt.
const LAST_HANDLERS: Duration = Duration::from_secs(600);
/// When to say that they are waited for.
const SAY_SO_AFTER: Duration = Duration::from_secs(2);

/// How many children a server keeps ready for scripts; a command keeps none, as most run no script.
const WARM_CHILDREN: usize = 1;

/// What every command has: configuration, tools, and where to write.
pub(crate) struct Setup {
    pub(crate) config: Config,
    pub(crate) plugins: Vec<Plugin>,
    pub(crate) screen: Screen,
    pub(crate) invocation: Invocation,
}

/// A running gateway, who acts on it, and where to write.
pub(crate) struct Local {
    pub(crate) gateway: Gateway,
    pub(crate) screen: Screen,
    pub(crate) invocation: Invocation,
    agent: Caller,
    operator: Caller,
}

impl Setup {
    /// The paths of the tools that are here.
    pub(crate) fn paths(&self) -> Vec<String> {
        self.plugins.iter().flat_map(Plugin::tools).map(|tool| tool.definition().path.clone()).collect()
    }

    /// Does something with a gateway on an open folder. However that ends, handlers that run come to their end first:
    /// leaving earlier would leave them in doubt.
    pub(crate) async fn with_gateway<T>(
        self,
        folder: &DataFolder,
        work: impl AsyncFnOnce(&Local) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let local = self.start(folder).await?;
        let result = work(&local).await;
        local.close().await;
        result
    }

    /// A gateway on an open folder. One that acts is refused where it would end what an earlier process left behind.
    pub(crate) async fn gateway(self, folder: &DataFolder, mode: Mode) -> anyhow::Result<Gateway> {
        let warm = match mode {
            Mode::Public => WARM_CHILDREN,
            Mode::Private | Mode::Look => 0,
        };
        if mode != Mode::Look {
            self.refuse_stranded(folder).await?;
        }
        let mut builder = Gateway::on(Arc::clone(&folder.store) as Arc<dyn countersign_kernel::ports::Store>)
            .policy(self.config.policy.clone())
            .settings(self.config.settings())
            .scripts(script_host(warm)?);
        for plugin in self.plugins {
            builder = builder.plugin(plugin);
        }
        match mode {
            Mode::Public | Mode::Private => builder.start().await.map_err(not_started),
            Mode::Look => builder.look().await.map_err(not_started),
        }
    }

    async fn refuse_stranded(&self, folder: &DataFolder) -> anyhow::Result<()> {
        let stranded = folder.stranded(&self.paths()).await?;
        if let Some(first) = stranded.first() {
            let tool = first.tool.as_ref().map(ToString::to_string).unwrap_or_default();
            let message = format!(
                "{} was interrupted and would go on now, but its tool {tool} is not here ({} in all)",
                first.id,
                stranded.len()
            );
            return Err(Problem::new("tool_not_here", message)
                .hint(missing_tool_hint(&tool, &self.invocation))
                .into());
        }
        Ok(())
    }

    async fn start(self, folder: &DataFolder) -> anyhow::Result<Local> {
        let (screen, invocation) = (self.screen, self.invocation.clone());
        Ok(Local {
            gateway: self.gateway(folder, Mode::Private).await?,
            screen,
            invocation,
            agent: Principal::agent("local-agent")?.into(),
            operator: Principal::admin("local-operator")?.into(),
        })
    }
}

impl Local {
    /// Who calls.
    pub(crate) fn agent(&self) -> &Caller {
        &self.agent
    }

    /// Who decides.
    pub(crate) fn operator(&self) -> &Caller {
        &self.operator
    }

    /// Opens the agent's session.
    pub(crate) async fn open_session(&self, id: &str) -> anyhow::Result<SessionId> {
        let id = SessionId::parse(id).map_err(|e| Problem::usage(format!("--session: {e}")))?;
        match self.gateway.open_session(&self.agent, CHANNEL, Some(id)).await {
            Ok(id) => Ok(id),
            Err(e @ SessionError::Taken) => Err(Problem::new("session_taken", e.to_string())
                .hint("Choose another name with --session.")
                .into()),
            Err(e) => Err(e.into()),
        }
    }

    /// Takes the operator's decision.
    pub(crate) async fn decide(
        &self,
        target: Target,
        answer: Answer,
        comment: Option<String>,
    ) -> Result<Receipt, DecideError> {
        let by = self.operator.clone();
        self.gateway.decide(Decide { target, by, channel: CHANNEL.into(), answer, comment }).await
    }

    /// Waits until an execution ends, is in doubt, or asks anew.
    pub(crate) async fn until_paused(&self, id: ExecutionId) -> anyhow::Result<ExecutionResult> {
        let result = self.gateway.wait(id, Patience::UntilPaused).await?;
        result.ok_or_else(|| Problem::new("not_found", format!("there is no execution {id}")).into())
    }

    async fn close(self) {
        let closing = self.gateway.close(LAST_HANDLERS);
        tokio::pin!(closing);
        if tokio::time::timeout(SAY_SO_AFTER, &mut closing).await.is_err() {
            self.screen.note("Waiting for a call that an earlier process left unfinished; stopping now would leave it in doubt.");
            closing.await;
        }
    }
}

/// Scripts run in children of this program, so many of them kept ready.
pub(crate) fn script_host(warm: usize) -> anyhow::Result<ChildHost> {
    // On Linux this stays the very program that runs, also when another was installed in its place meanwhile.
    let program = if cfg!(target_os = "linux") {
        PathBuf::from("/proc/self/exe")
    } else {
        std::env::current_exe().context("this program cannot find itself to start a script's child")?
    };
    let options = ChildOptions { warm, ..ChildOptions::new(program, [SANDBOX_WORKER]) };
    ChildHost::new(options).context("the place where scripts run cannot be made")
}

/// What to do where a tool is not registered.
pub(crate) fn missing_tool_hint(tool: &str, invocation: &Invocation) -> String {
    if crate::demo::owns(tool) {
        return format!(
            "It is a demo tool, and they are here only with --demo: `{}`",
            invocation.again_with_demo()
        );
    }
    "Run this with the program that has the tool's plugin; nothing was changed.".to_owned()
}

fn not_started(error: BuildError) -> anyhow::Error {
    match error {
        BuildError::Plugin { .. } => Problem::new("bad_plugin", error.to_string()).into(),
        BuildError::Gateway(error) => error.into(),
    }
}
