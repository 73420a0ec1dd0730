//! `completions`: what a shell needs to complete our commands.

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::args::Cli;
use crate::exit::Exit;
use crate::screen::Screen;

pub(super) fn run(shell: Shell, screen: Screen) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "countersign", &mut script);
    screen.print(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}
