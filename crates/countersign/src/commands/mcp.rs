//! `mcp`: MCP over standard input and output, and how to tell clients of it.

mod clients;
mod install;
mod merge;

use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::path::Path;

use anyhow::Context as _;
use clap::{Args, Subcommand};

use super::Given;
use crate::args::ServeArgs;
use crate::bridge::{self, LocalServer, Place, Upstream};
use crate::config::Environment;
use crate::exit::{Exit, Problem};
use crate::local::Setup;
use clients::Launch;
use install::InstallArgs;

const EXAMPLES: &str = "\
Examples:
  countersign mcp install claude-code                        how to tell a client of it
  countersign --demo mcp                                     what the client starts: MCP on standard input and output
  COUNTERSIGN_TOKEN=… countersign mcp --connect https://gate.example.com

Without --connect it bridges to the server of the data folder, and starts it where it does not run; several clients so share
one server and one inbox. The server stays when the client goes: what waits for a person goes on waiting.
Standard output carries MCP and nothing else; what the bridge has to say goes to standard error, what the server says to
serve.log in the data folder.";

/// The bridge's flags.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct McpArgs {
    /// Bridge to this server, instead of the one of the data folder
    #[arg(long, value_name = "URL")]
    connect: Option<String>,
    #[command(subcommand)]
    command: Option<McpCommand>,
}

#[derive(Debug, Subcommand)]
enum McpCommand {
    /// Show how a client is told of Countersign, or tell it with --write
    Install(InstallArgs),
    /// The server that a bridge starts. Nobody types it.
    #[command(hide = true)]
    Background(ServeArgs),
}

pub(super) async fn run(given: Given, args: McpArgs) -> anyhow::Result<Exit> {
    let (environment, screen) = (given.environment.clone(), given.screen);
    match args.command {
        None => pipe(&given.ready()?.setup, args.connect, &environment).await,
        Some(McpCommand::Install(install)) => {
            let home = environment.path("HOME");
            let launch = launch(&given.ready()?.setup, args.connect)?;
            install::run(&install, &launch, home.as_deref(), screen)
        }
        Some(McpCommand::Background(serve)) => {
            leave_the_terminal();
            super::serve::run(given.ready()?.setup, serve).await
        }
    }
}

async fn pipe(setup: &Setup, connect: Option<String>, environment: &Environment) -> anyhow::Result<Exit> {
    let text = |name: &str| environment.text(name).map(std::borrow::Cow::into_owned);
    let token = text("COUNTERSIGN_TOKEN");
    let upstream = match connect.or_else(|| text("COUNTERSIGN_URL")) {
        Some(url) => {
            let place =
                Place::at(&url, token.as_deref()).map_err(|e| Problem::usage(format!("--connect: {e:#}")))?;
            Upstream::remote(place)
        }
        None => {
            let folder = absolute(&setup.config.data_dir)?;
            let mut words = shared_words(setup)?;
            words.extend(["mcp", "background"].map(OsString::from));
            Upstream::local(LocalServer { folder, words, token })
        }
    };
    if std::io::stdin().is_terminal() {
        let install = setup.invocation.command("mcp install claude-code");
        setup.screen.note(&format!(
            "This speaks MCP, and a client starts it. How to tell a client: `{install}`. Ctrl-D ends it."
        ));
    }
    bridge::run(upstream, std::io::BufReader::new(std::io::stdin()), std::io::stdout()).await?;
    Ok(Exit::Done)
}

/// How a client starts the bridge that this command line would be.
fn launch(setup: &Setup, connect: Option<String>) -> anyhow::Result<Launch> {
    let program = std::env::current_exe().context("this program cannot find itself")?;
    let mut words: Vec<String> = match connect {
        Some(_) => Vec::new(),
        None => shared_words(setup)?.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
    };
    words.push("mcp".to_owned());
    if let Some(url) = connect {
        words.extend(["--connect".to_owned(), url]);
    }
    Ok(Launch { program: program.to_string_lossy().into_owned(), words })
}

/// The flags by which another process reaches the same data, configuration and tools, from whatever folder.
fn shared_words(setup: &Setup) -> anyhow::Result<Vec<OsString>> {
    let mut words = Vec::new();
    if setup.invocation.has_demo() {
        words.push("--demo".into());
    }
    if let Some(file) = &setup.config.file {
        words.extend(["--config".into(), absolute(file)?.into_os_string()]);
    }
    words.extend(["--data-dir".into(), absolute(&setup.config.data_dir)?.into_os_string()]);
    Ok(words)
}

fn absolute(path: &Path) -> anyhow::Result<std::path::PathBuf> {
    std::path::absolute(path).with_context(|| format!("{} has no absolute path", path.display()))
}

/// A server in the background belongs to no terminal, and does not end with one.
fn leave_the_terminal() {
    #[cfg(unix)]
    if let Err(error) = rustix::process::setsid() {
        tracing::debug!(%error, "this process leads a group already");
    }
}
