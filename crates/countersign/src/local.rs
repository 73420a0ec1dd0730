//! A gateway on the data folder, in this process.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use countersign_kernel::ports::{ScriptHost, Store as _};
use countersign_kernel::{BuildError, Gateway};
use countersign_sandbox::{ChildHost, ChildOptions, RequiredIsolation};
use countersign_sdk::Plugin;

use crate::app::SANDBOX_WORKER;
use crate::config::Config;
use crate::data_folder::DataFolder;
use crate::exit::Problem;
use crate::invocation::Invocation;
use crate::screen::Screen;
use crate::serving::Mode;

/// How many children a server keeps ready for scripts; a command keeps none, as most run no script.
const WARM_CHILDREN: usize = 1;

/// What every command has: configuration, tools, and where to write.
pub(crate) struct Setup {
    pub(crate) config: Config,
    pub(crate) plugins: Vec<Plugin>,
    pub(crate) screen: Screen,
    pub(crate) invocation: Invocation,
}

impl Setup {
    /// The paths of the tools that are here.
    pub(crate) fn paths(&self) -> Vec<String> {
        self.plugins.iter().flat_map(Plugin::tools).map(|tool| tool.definition().path.clone()).collect()
    }

    /// A gateway on an open folder. One that acts is refused where it would end what an earlier process left behind.
    pub(crate) async fn gateway(self, folder: &DataFolder, mode: Mode) -> anyhow::Result<Gateway> {
        let warm = match mode {
            Mode::Public => WARM_CHILDREN,
            Mode::Private | Mode::Look => 0,
        };
        // A server is there for all that may come, tools of sources among them; what lacks its tool waits for it.
        if mode == Mode::Private {
            self.refuse_stranded(folder).await?;
        }
        let sources = match mode {
            Mode::Public | Mode::Private => self.sources(folder).await?,
            Mode::Look => Vec::new(),
        };
        let host = Arc::new(script_host(warm, self.config.isolation)?);
        if mode == Mode::Public {
            tokio::spawn(report_isolation(Arc::clone(&host), self.config.isolation));
        }
        let mut builder = Gateway::on(Arc::clone(&folder.store) as Arc<dyn countersign_kernel::ports::Store>)
            .policy(self.config.policy.clone())
            .settings(self.config.settings())
            .scripts(host as Arc<dyn ScriptHost>)
            .awaits(sources);
        for plugin in self.plugins {
            builder = builder.plugin(plugin);
        }
        match mode {
            Mode::Public | Mode::Private => builder.start().await.map_err(not_started),
            Mode::Look => builder.look().await.map_err(not_started),
        }
    }

    /// The names of the sources that the file configures and that people added.
    async fn sources(&self, folder: &DataFolder) -> anyhow::Result<Vec<String>> {
        let mut sources: Vec<String> = self.config.sources.iter().map(|source| source.name.clone()).collect();
        sources.extend(folder.store.sources().await?.into_iter().map(|source| source.name));
        Ok(sources)
    }

    async fn refuse_stranded(&self, folder: &DataFolder) -> anyhow::Result<()> {
        let mut stranded = folder.stranded(&self.paths()).await?;
        // Tools of sources come later; what needs them waits for them.
        let sources = self.sources(folder).await?;
        stranded.retain(|row| {
            let tool = row.tool.as_ref().map(ToString::to_string).unwrap_or_default();
            !sources.iter().any(|source| tool.split('.').next() == Some(source.as_str()))
        });
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
}

/// Scripts run in children of this program, so many of them kept ready.
pub(crate) fn script_host(warm: usize, isolation: RequiredIsolation) -> anyhow::Result<ChildHost> {
    let options = ChildOptions { warm, isolation, ..ChildOptions::new(this_program()?, [SANDBOX_WORKER]) };
    ChildHost::new(options).context("the place where scripts run cannot be made")
}

/// Writes to the log, as a server starts, what it would otherwise say only when somebody runs a script.
async fn report_isolation(host: Arc<ChildHost>, required: RequiredIsolation) {
    if required == RequiredIsolation::AllowWeaker {
        tracing::warn!("sandbox.allow_weaker is set: scripts also run where their sandbox lacks protection");
    }
    match host.isolation().await {
        Ok(isolation) if isolation.missing().is_empty() => {}
        Ok(isolation) if required == RequiredIsolation::AllowWeaker => {
            tracing::warn!(%isolation, "scripts run with weaker isolation");
        }
        Ok(isolation) => tracing::error!(%isolation, "scripts do not run: their sandbox lacks protection"),
        Err(error) => tracing::error!(cause = ?error, "scripts do not run: no sandbox could be started"),
    }
}

/// This program, to be started once more.
pub(crate) fn this_program() -> anyhow::Result<PathBuf> {
    // On Linux this stays the very program that runs, also when another was installed in its place meanwhile.
    if cfg!(target_os = "linux") {
        return Ok(PathBuf::from("/proc/self/exe"));
    }
    std::env::current_exe().context("this program cannot find itself")
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
        BuildError::Source { .. } => Problem::new("bad_source", error.to_string()).into(),
        BuildError::Gateway(error) => error.into(),
    }
}
