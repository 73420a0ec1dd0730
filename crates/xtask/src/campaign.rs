//! Campaigns: what takes too long, or measures too coarsely, for every change.

use std::path::Path;
use std::process::ExitCode;

use crate::machine::Invocation;

/// Measures what calls cost, then what scripts cost.
pub(crate) fn bench(root: &Path) -> anyhow::Result<ExitCode> {
    for bench in [
        "cargo bench --quiet --locked -p countersign --bench foundation",
        "cargo bench --quiet --locked -p countersign-sandbox --bench children",
        "cargo bench --quiet --locked -p countersign --bench scripts",
        "cargo bench --quiet --locked -p countersign --bench fronts",
    ] {
        let measured = Invocation::new(bench);
        println!("$ {measured}");
        if !measured.run(root)?.success() {
            return Ok(ExitCode::FAILURE);
        }
    }
    Ok(ExitCode::SUCCESS)
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
    let scripts = Invocation::new(
        "cargo test --release --locked -p countersign-sandbox --test executions -- --nocapture replay::random",
    )
    .with_variable("COUNTERSIGN_SOAK_SCRIPTS", &schedules.to_string());
    for campaign in [simulation, scripts, killing] {
        println!("$ {campaign}");
        let status = campaign.run(root)?;
        if !status.success() {
            return Ok(ExitCode::FAILURE);
        }
    }
    Ok(ExitCode::SUCCESS)
}
