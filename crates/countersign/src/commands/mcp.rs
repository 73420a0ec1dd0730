//! `mcp`: MCP over standard input and output, and how to tell clients of it.

mod clients;
mod install;
mod merge;

use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, Subcommand};

use super::Given;
use crate::args::{ServeArgs, Shared};
use crate::bridge::{self, LocalServer, Place, Start, Upstream};
use crate::config::{Choice, Config, Environment};
use crate::exit::{Exit, Problem};
use crate::local::Setup;
use clients::Launch;
use install::{InstallArgs, Launches};

const EXAMPLES: &str = "\
Examples:
  countersign mcp install claude-code                        how to tell a client of it
  countersign --demo mcp                                     what the client starts: MCP on standard input and output
  COUNTERSIGN_TOKEN=… countersign mcp --connect https://gate.example.com

Without --connect it bridges to the server of your data folder, and starts it where it does not run; several clients so share
one server and one inbox. The server stays when the client goes: what waits for a person goes on waiting.
An agent's client starts this, in any folder and with any environment, so neither chooses the configuration: a server that it
starts reads the file in your configuration folder, whatever HOME, XDG_CONFIG_HOME and COUNTERSIGN_<KEY> say. With --data-dir
it uses the server that runs for that folder, and starts none.
Standard output carries MCP and nothing else; what the bridge has to say goes to standard error, what the server says to
serve.log in the data folder.";

/// The bridge's flags.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct McpArgs {
    /// Bridge to this server, instead of the one of the data folder
    #[arg(long, value_name = "URL")]
    connect: Option<String>,
    /// Speak as this client, with the token that `mcp install` made for it [default: with agent.token]
    #[arg(long, value_name = "NAME", value_parser = client_name)]
    client: Option<String>,
    #[command(subcommand)]
    command: Option<McpCommand>,
    /// The folder that --data-dir named, to find a server by. It is taken from the shared flags, so that it is nobody's
    /// configuration.
    #[arg(skip)]
    find_in: Option<PathBuf>,
    /// The file that --config named, which is refused.
    #[arg(skip)]
    refused_config: Option<PathBuf>,
    /// Variables of ours that are ignored.
    #[arg(skip)]
    ignored: Vec<String>,
}

impl McpArgs {
    /// Whether an agent's client starts it. `install` is typed by the operator.
    pub(crate) fn is_started_by_a_client(&self) -> bool {
        !matches!(self.command, Some(McpCommand::Install(_)))
    }

    /// Takes flags away that would choose the configuration, and notes which variables do not count.
    pub(crate) fn take_over(&mut self, shared: &mut Shared, ignored: Vec<&str>) {
        self.ignored = ignored.into_iter().map(ToOwned::to_owned).collect();
        self.find_in = shared.data_dir.take();
        self.refused_config = shared.config.take();
    }
}

#[derive(Debug, Subcommand)]
enum McpCommand {
    /// Print (or --write) the MCP client configuration
    Install(InstallArgs),
    /// The server that a bridge starts. Nobody types it.
    #[command(hide = true)]
    Background(ServeArgs),
}

pub(super) async fn run(given: Given, args: McpArgs) -> anyhow::Result<Exit> {
    let (environment, screen) = (given.environment.clone(), given.screen);
    for name in &args.ignored {
        tracing::warn!("{name} is ignored: a client that starts `mcp` does not choose the configuration");
    }
    if args.refused_config.is_some() {
        let hint = "Start the server yourself with `countersign --config FILE serve`; `mcp` finds it by its data folder.";
        let message = "`mcp` takes no --config: an agent's client starts it, and may not choose the rules";
        return Err(Problem::usage(message).hint(hint).into());
    }
    match args.command {
        None => pipe(given, args.connect, args.find_in, args.client).await,
        Some(McpCommand::Install(install)) => {
            let home = environment.path("HOME");
            let url = environment.text("COUNTERSIGN_URL").map(std::borrow::Cow::into_owned);
            let connect = args.connect.or(url);
            let ready = given.ready()?;
            let mut launches = launches(&ready.setup, &environment, connect.as_deref())?;
            if connect.is_none() {
                install::ensure_token(ready, &install).await?;
                launches.speak_as(install.client());
            }
            install::run(&install, &launches, home.as_deref(), screen)
        }
        Some(McpCommand::Background(serve)) => {
            leave_the_terminal();
            super::serve::run(given.ready()?.setup, serve).await
        }
    }
}

async fn pipe(
    given: Given,
    connect: Option<String>,
    find_in: Option<PathBuf>,
    client: Option<String>,
) -> anyhow::Result<Exit> {
    let text = |name: &str| given.environment.text(name).map(std::borrow::Cow::into_owned);
    let (token, url) = (text("COUNTERSIGN_TOKEN"), connect.or_else(|| text("COUNTERSIGN_URL")));
    if std::io::stdin().is_terminal() {
        let install = given.invocation.command("mcp install claude-code");
        given.screen.note(&format!(
            "This speaks MCP, and a client starts it. To configure a client: `{install}`. Ctrl-D ends it."
        ));
    }
    let upstream = match url {
        Some(url) => {
            let place =
                Place::at(&url, token.as_deref()).map_err(|e| Problem::usage(format!("--connect: {e:#}")))?;
            Upstream::remote(place)
        }
        None => {
            let server = local_server(given, find_in.as_deref(), token)?;
            Upstream::local(LocalServer { client, ..server })
        }
    };
    bridge::run(upstream, std::io::BufReader::new(std::io::stdin()), std::io::stdout()).await?;
    Ok(Exit::Done)
}

/// The server of the operator's own data folder, which may be started; or that of a folder that the client named, which may
/// not.
fn local_server(given: Given, find_in: Option<&Path>, token: Option<String>) -> anyhow::Result<LocalServer> {
    let home = given.environment.path("HOME");
    let named = find_in.map(absolute).transpose()?;
    let setup = match (given.ready(), &named) {
        (Ok(ready), _) => Some(ready.setup),
        // A folder that was named needs no configuration.
        (Err(_), Some(_)) => None,
        (Err(problem), None) => return Err(problem.into()),
    };
    let own = setup.as_ref().map(|setup| absolute(&setup.config.data_dir)).transpose()?;
    let is_own = named.as_ref().is_none_or(|named| own.as_ref().is_some_and(|own| same(named, own)));
    match (setup, own) {
        (Some(setup), Some(own)) if is_own => {
            let mut words: Vec<OsString> = Vec::new();
            words.extend(setup.invocation.has_demo().then(|| "--demo".into()));
            words.extend(["mcp", "background"].map(OsString::from));
            let mut environment: Vec<(OsString, OsString)> = crate::config::credentials(&setup.plugins)
                .into_iter()
                .map(|(name, value)| (name.into(), value))
                .collect();
            environment.extend(home.map(|home| ("HOME".into(), home.into_os_string())));
            Ok(LocalServer { folder: own, start: Start::Own { words, environment }, token, client: None })
        }
        (_, own) => {
            let folder = named.or_else(|| own.clone()).unwrap_or_default();
            Ok(LocalServer { folder, start: Start::Never { own }, token, client: None })
        }
    }
}

/// A client's name: it becomes part of a file's name.
fn client_name(text: &str) -> Result<String, String> {
    let fits = (1..=40).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    if fits {
        Ok(text.to_owned())
    } else {
        Err("use 1 to 40 lower-case letters, digits and hyphens".to_owned())
    }
}

/// Whether two paths lead to the same folder.
fn same(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    one == other || real(one) == real(other)
}

/// How clients start the bridge that this command line would be.
fn launches(setup: &Setup, environment: &Environment, connect: Option<&str>) -> anyhow::Result<Launches> {
    let program = std::env::current_exe().context("this program cannot find itself")?;
    let name = program.file_name().unwrap_or(program.as_os_str()).to_string_lossy().into_owned();
    let mut words: Vec<String> = Vec::new();
    let mut user_only = Vec::new();
    match connect {
        Some(url) => {
            if reqwest::Url::parse(url)
                .is_ok_and(|url| !url.username().is_empty() || url.password().is_some())
            {
                let message = "--connect: the address holds a name or password, which would stand in a file";
                return Err(Problem::usage(message)
                    .hint("Give the client COUNTERSIGN_TOKEN instead.")
                    .into());
            }
            words.extend(["mcp".to_owned(), "--connect".to_owned(), url.to_owned()]);
        }
        None => {
            words.extend(setup.invocation.has_demo().then(|| "--demo".to_owned()));
            words.push("mcp".to_owned());
            // `mcp` finds the operator's own folder by itself; another has to be named, and is only looked into.
            let own = Config::load(&Shared::default(), &environment.of_a_client()).map(|own| own.data_dir);
            let folder = absolute(&setup.config.data_dir)?;
            if !own.is_ok_and(|own| same(&own, &folder)) {
                user_only = vec!["--data-dir".to_owned(), folder.to_string_lossy().into_owned()];
            }
        }
    }
    let named_file = (setup.config.file_choice == Choice::Named).then(|| setup.config.file.clone()).flatten();
    Ok(Launches {
        user: Launch {
            program: program.to_string_lossy().into_owned(),
            words: user_only.iter().chain(&words).cloned().collect(),
        },
        project: Launch { program: name, words },
        other_folder: user_only.pop(),
        named_file: named_file.filter(|_| connect.is_none()),
    })
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
