//! Campaigns: what takes too long, or measures too coarsely, for every change.

use std::path::Path;
use std::process::ExitCode;

use crate::machine::Invocation;

/// Measures what the foundation costs.
pub(crate) fn bench(root: &Path) -> anyhow::Result<ExitCode> {
    exit(root, &Invocation::new("cargo bench --quiet --locked -p countersign --bench foundation"))
}

/// The same tests as in CI, with other numbers: a failure there names its seed, and so does one here.
pub(crate) fn soak(root: &Path, schedules: u64, from: u64, kills: u64) -> anyhow::Result<ExitCode> {
    println!("{schedules} schedules from seed {from}, then {kills} kills");
    let simulation = Invocation::new(
        "cargo test --release --locked -p countersign-kernel --test simulation -- --nocapture",
    )
    .with_variable("COUNTERSIGN_SOAK_SCHEDULES", &schedules.to_string())
    .with_variable("COUNTERSIGN_SOAK_FROM", &from.to_string());
    let killing =
        Invocation::new("cargo test --release --locked -p countersign --test kill_nine -- --nocapture")
            .with_variable("COUNTERSIGN_SOAK_KILLS", &kills.to_string());
    for campaign in [simulation, killing] {
        println!("$ {campaign}");
        let status = campaign.run(root)?;
        if !status.success() {
            return Ok(ExitCode::FAILURE);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn exit(root: &Path, invocation: &Invocation) -> anyhow::Result<ExitCode> {
    Ok(if invocation.run(root)?.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
