//! Repository chores, run as `cargo xtask <chore>`.
//!
//! A new chore is one arm of [`Chore`], one arm of [`Chore::run`] and one module.

mod campaign;
mod ci;
mod machine;
mod sabotage;
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
    /// Measures what the product costs and prints it as tables; asserts nothing
    Bench {
        /// Only this: build, foundation, heart, children, scripts, fronts, sources or turns; may be given more than once
        #[arg(long, value_name = "NAME")]
        only: Vec<String>,
    },
    /// The long campaigns: random schedules and real kills, as many as you like
    Soak {
        /// How many random schedules of faults and crashes
        #[arg(long, default_value_t = 100_000)]
        schedules: u64,
        /// The seed of the first schedule
        #[arg(long, default_value_t = 1_000)]
        from: u64,
        /// How often the real process is killed with SIGKILL
        #[arg(long, default_value_t = 2_000)]
        kills: u64,
    },
    /// Plants faults that break the rules of the design, one at a time; each must fail the test that it names
    Sabotage {
        /// Only the faults against this rule, such as R7, or with these words in their sentence; may be given more than once
        #[arg(long, value_name = "RULE|WORDS")]
        only: Vec<String>,
        /// Lists the faults and plants none
        #[arg(long)]
        list: bool,
    },
}

impl Chore {
    fn run(&self) -> anyhow::Result<ExitCode> {
        match self {
            Chore::Ci => ci::run(&repository_root()),
            Chore::Tidy => tidy::run(&repository_root()),
            Chore::Bench { only } => campaign::bench(&repository_root(), only),
            Chore::Soak { schedules, from, kills } => {
                campaign::soak(&repository_root(), *schedules, *from, *kills)
            }
            Chore::Sabotage { only, list: true } => sabotage::list(&repository_root(), only),
            Chore::Sabotage { only, list: false } => sabotage::run(&repository_root(), only),
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
