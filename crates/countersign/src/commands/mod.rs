//! What each command does. One file each; `call` is the one to read first.

mod audit;
mod call;
mod decide;
mod doctor;
mod executions;
mod inbox;
mod input;
mod policy;
mod settle;
mod timeline;
mod tools;

use crate::args::Command;
use crate::config::{ConfigErrors, Environment};
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

/// Runs a command.
pub(crate) async fn run(command: Command, given: Given) -> anyhow::Result<Exit> {
    let setup = match command {
        Command::Doctor => return doctor::run(given).await,
        Command::Policy(crate::args::PolicyCommand::Check { file }) => return policy::check(&file, &given),
        _ => given.setup.map_err(|errors| {
            Problem::new("bad_configuration", errors.to_string())
                .hint(format!("`{}` says more.", given.invocation.command("doctor")))
        })?,
    };
    for stranger in given.environment.strangers() {
        tracing::warn!("{stranger} is set and means nothing; is it misspelt?");
    }
    match command {
        Command::Call(args) => call::run(setup, args).await,
        Command::Inbox => inbox::run(&setup).await,
        Command::Approve(args) => decide::approve(setup, args).await,
        Command::Deny(args) => decide::deny(setup, args).await,
        Command::Executions(args) => executions::run(&setup, args).await,
        Command::Settle(args) => settle::run(setup, args).await,
        Command::Tools(args) => tools::run(setup, &args),
        Command::Policy(command) => policy::explain(setup, command),
        Command::Audit(command) => audit::run(&setup, &command).await,
        Command::Doctor => Ok(Exit::Done),
    }
}
