//! Campaigns: runs that take too long, or measure too coarsely, for every change.

use std::path::Path;
use std::process::ExitCode;

use crate::machine::{self, Invocation};

/// The folder of the build from nothing, which is deleted afterwards.
const COLD: &str = "target/cold";

/// The benches in the order in which they run: a name, and the command.
const BENCHES: [(&str, &str); 7] = [
    ("foundation", "cargo bench --quiet --locked -p countersign --bench foundation"),
    ("heart", "cargo bench --quiet --locked -p countersign --bench heart"),
    ("children", "cargo bench --quiet --locked -p countersign-sandbox --bench children"),
    ("scripts", "cargo bench --quiet --locked -p countersign --bench scripts"),
    ("fronts", "cargo bench --quiet --locked -p countersign --bench fronts"),
    ("sources", "cargo bench --quiet --locked -p countersign --bench sources"),
    ("turns", "cargo bench --quiet --locked -p countersign-agent --bench turns"),
];
/// The build from nothing, which is no bench of cargo's.
const BUILD: &str = "build";

/// Measures the build, then calls, scripts, the fronts, sources and an agent's turns; or only the named ones.
pub(crate) fn bench(root: &Path, only: &[String]) -> anyhow::Result<ExitCode> {
    if let Some(unknown) = only.iter().find(|name| !names().contains(&name.as_str())) {
        anyhow::bail!(
            "there is nothing to measure that is named {unknown}; there are {}",
            names().join(", ")
        );
    }
    let is_wanted = |name: &str| only.is_empty() || only.iter().any(|wanted| wanted == name);
    if is_wanted(BUILD) {
        cold_build(root)?;
    }
    for (_, bench) in BENCHES.into_iter().filter(|(name, _)| is_wanted(name)) {
        let measured = Invocation::new(bench);
        println!("$ {measured}");
        if !measured.run(root)?.success() {
            return Ok(ExitCode::FAILURE);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn names() -> Vec<&'static str> {
    std::iter::once(BUILD).chain(BENCHES.map(|(name, _)| name)).collect()
}

/// Builds the program from nothing and prints the time it took and its size.
fn cold_build(root: &Path) -> anyhow::Result<()> {
    let folder = root.join(COLD);
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    let before = machine::cpu_of_children()?;
    let build = Invocation::new("cargo build --quiet --release --locked -p countersign")
        .with_variable("CARGO_TARGET_DIR", COLD);
    println!("$ {build}");
    anyhow::ensure!(build.run(root)?.success(), "the program does not build");
    let took = machine::cpu_of_children()? - before;
    let strip = Invocation::new("strip target/cold/release/countersign -o target/cold/stripped");
    anyhow::ensure!(strip.run(root)?.success(), "the program cannot be stripped");
    let bytes = std::fs::metadata(root.join(COLD).join("stripped"))?.len();
    println!("cold release build: {:.0} CPU-seconds (reach 700)", took.as_secs_f64());
    println!("stripped binary: {:.1} MB (reach 20)", bytes as f64 / 1e6);
    Ok(std::fs::remove_dir_all(&folder)?)
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
