//! The program: command line in, exit status out.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser as _;
use countersign_sdk::Plugin;

use crate::args::{Cli, Command, LogFormat, Shared};
use crate::commands::{self, Given};
use crate::config::{Config, Environment};
use crate::exit::{Exit, Problem};
use crate::invocation::Invocation;
use crate::local::Setup;
use crate::logging::Logging;
use crate::screen::{Format, Screen};
use crate::{demo, shown};

/// The word that makes this program the child in which a script runs. Nobody types it.
pub(crate) const SANDBOX_WORKER: &str = "sandbox-worker";

/// Countersign as a program, with plugins of your own.
#[derive(Default)]
#[must_use = "nothing happens before it is run"]
pub struct App {
    plugins: Vec<Plugin>,
}

impl App {
    /// A program without plugins.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a plugin: its tools are there in every command.
    pub fn plugin(mut self, plugin: Plugin) -> Self {
        self.plugins.push(plugin);
        self
    }

    /// Runs the command that this process was started with, and gives its exit status. Call it from `main` and return
    /// what it gives: what is queued is written before it returns.
    pub fn run(self) -> ExitCode {
        let words: Vec<OsString> = std::env::args_os().collect();
        // Before anything else: this process may be the place where a script runs, and has no business of its own.
        if words.get(1).is_some_and(|word| word == SANDBOX_WORKER) {
            return countersign_sandbox::worker_main();
        }
        let mut cli = match Cli::try_parse_from(&words) {
            Ok(cli) => cli,
            Err(error) => {
                // Help and version are errors to clap, but not to anybody else. That printing failed has no reader.
                let _ = error.print();
                return if error.use_stderr() { Exit::Usage.into() } else { ExitCode::SUCCESS };
            }
        };
        let mut environment = Environment::of_process();
        if let Command::Mcp(args) = &mut cli.command
            && args.is_started_by_a_client()
        {
            args.take_over(&mut cli.shared, environment.not_for_clients());
            environment = environment.of_a_client();
        }
        if matches!(cli.command, Command::Demo) {
            play(&mut cli.shared, &environment);
        }
        if let Some(file) = &cli.shared.token_file
            && let Err(error) = environment.read_token(file)
        {
            let problem = Problem::usage(format!("--token-file: {} cannot be read: {error}", file.display()));
            return tell(&problem.into(), Screen::of_process(Format::Text, &environment)).into();
        }
        let format = if cli.shared.json { Format::Json } else { Format::Text };
        let screen = Screen::of_process(format, &environment);
        let invocation = Invocation::of(&words, &cli.shared);
        let exit =
            self.run_in(cli, environment, screen, invocation).unwrap_or_else(|error| tell(&error, screen));
        exit.into()
    }

    fn run_in(
        self,
        cli: Cli,
        environment: Environment,
        screen: Screen,
        invocation: Invocation,
    ) -> anyhow::Result<Exit> {
        let (level, format) = match &cli.command {
            Command::Serve(args) => ("info", args.log_format),
            _ => ("warn", LogFormat::Text),
        };
        let _logging = Logging::start(&environment, level, format)?;
        // One TLS library for every client of this process. A program that embeds this one may have chosen its own.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let config = Config::load(&cli.shared, &environment);
        let setup = config.map(|config| {
            let mut plugins = self.plugins;
            if cli.shared.demo {
                plugins.push(demo::plugin(&config.data_dir));
            }
            Setup { config, plugins, screen, invocation: invocation.clone() }
        });
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(commands::run(cli.command, Given { setup, environment, screen, invocation }))
    }
}

/// The demo has its tools without being told, and a folder of its own unless it is told which: what it leaves waiting is
/// nobody's business elsewhere.
fn play(shared: &mut Shared, environment: &Environment) {
    shared.demo = true;
    if shared.data_dir.is_none() && environment.path("COUNTERSIGN_DATA_DIR").is_none() {
        shared.data_dir = Config::load(shared, environment).ok().map(|config| config.data_dir.join("demo"));
    }
}

/// Says what went wrong, and what to do about it.
fn tell(error: &anyhow::Error, screen: Screen) -> Exit {
    let fallback;
    let problem = match error.downcast_ref::<Problem>() {
        Some(problem) => problem,
        None => {
            fallback = Problem::new("failed", format!("{error:#}"));
            &fallback
        }
    };
    let visible = |text: &str| text.lines().map(shown::line).collect::<Vec<_>>().join("\n");
    screen.note(&format!("{} {}", screen.err.red("error:"), visible(&problem.message)));
    if let Some(hint) = &problem.hint {
        screen.note(&format!("{} {}", screen.err.bold("hint:"), visible(hint)));
    }
    if screen.format == Format::Json && screen.print_json(&problem.to_json()).is_err() {
        return Exit::Failed;
    }
    problem.exit
}
