//! What each command does. One file each; `call` is the one to read first.

mod audit;
mod call;
mod cancel;
mod completions;
mod decide;
mod demo;
mod doctor;
mod executions;
mod grants;
mod inbox;
mod input;
mod login;
pub(crate) mod mcp;
mod policy;
mod run;
mod serve;
mod settle;
mod source;
mod timeline;
mod token;
mod tools;
mod user;

use crate::args::{Command, PolicyCommand};
use crate::config::{ConfigErrors, Environment};
use crate::contact::Ready;
use crate::exit::{Exit, Problem};
use crate::invocation::Invocation;
use crate::local::Setup;
use crate::screen::Screen;

/// Everything a command may need; a configuration that cannot be used is the doctor's business too.
pub(crate) struct Given {
    pub(crate) setup: Result<Setup, ConfigErrors>,
    pub(crate) environment: Environment,
    pub(crate) screen: Screen,
    pub(crate) invocation: Invocation,
}

impl Given {
    /// What a command that works with the configuration has.
    fn ready(self) -> Result<Ready, Problem> {
        for stranger in self.environment.strangers() {
            tracing::warn!("{stranger} is set and means nothing; is it misspelt?");
        }
        let setup = self.setup.map_err(|errors| {
            let hint = format!("`{}` says more.", self.invocation.command("doctor"));
            Problem::new("bad_configuration", errors.to_string()).hint(hint)
        })?;
        Ok(Ready { setup, environment: self.environment })
    }
}

/// Runs a command.
pub(crate) async fn run(command: Command, given: Given) -> anyhow::Result<Exit> {
    match command {
        Command::Demo => demo::run(given.ready()?.setup).await,
        Command::Login => login::run(given.ready()?).await,
        Command::Serve(args) => serve::run(given.ready()?.setup, args).await,
        Command::Call(args) => call::run(given.ready()?, args).await,
        Command::Run(args) => run::run(given.ready()?, args).await,
        Command::Inbox(args) => inbox::run(given.ready()?, args).await,
        Command::Approve(args) => decide::approve(given.ready()?, args).await,
        Command::Deny(args) => decide::deny(given.ready()?, args).await,
        Command::Executions(args) => executions::run(given.ready()?, args).await,
        Command::Cancel(args) => cancel::run(given.ready()?, &args).await,
        Command::Settle(args) => settle::run(given.ready()?, args).await,
        Command::Tools(args) => tools::run(given.ready()?, args).await,
        Command::Source(command) => source::run(given.ready()?, command).await,
        Command::Policy(PolicyCommand::Check { file }) => policy::check(&file, &given),
        Command::Policy(PolicyCommand::Explain(args)) => policy::explain(given.ready()?, &args).await,
        Command::Audit(command) => audit::run(given.ready()?, command).await,
        Command::Grants(command) => grants::run(given.ready()?, command).await,
        Command::Token(command) => token::run(given.ready()?, command).await,
        Command::User(command) => user::run(given.ready()?, command).await,
        Command::Completions { shell } => completions::run(shell, given.screen),
        Command::Doctor => doctor::run(given).await,
        Command::Mcp(args) => mcp::run(given, args).await,
    }
}
