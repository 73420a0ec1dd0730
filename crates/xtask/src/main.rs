//! Repository chores, run as `cargo xtask <chore>`.
//!
//! A new chore is one arm of [`Chore`], one arm of [`Chore::run`] and one module.

mod ci;
mod machine;
mod tidy;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

/// Repository chores.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Chore {
    /// Everything that must hold before a change is merged; exactly what CI runs
    Ci,
    /// The rules of the repository: layering, sizes, names, docs
    Tidy,
}

impl Chore {
    fn run(&self) -> anyhow::Result<ExitCode> {
        match self {
            Chore::Ci => ci::run(&repository_root()),
            Chore::Tidy => tidy::run(&repository_root()),
        }
    }
}

fn main() -> anyhow::Result<ExitCode> {
    Chore::parse().run()
}

/// `cargo xtask` is always run from the source tree that built it.
fn repository_root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}
