//! `cargo xtask ci`: the one command that checks a change. `.ci/run` calls it and adds nothing.
//!
//! The steps are listed in [`plan`]. They run in order, stop at the first failure, and end in a table of durations.

mod step;
mod summary;
mod toolbox;

use std::path::Path;
use std::process::ExitCode;

use crate::machine::{Invocation, Stopwatch};
use step::{Action, Step};
use summary::{Outcome, Row, Summary};
use toolbox::Toolbox;

/// Runs all steps; failure is an exit code, because its cause is already on the screen.
pub(crate) fn run(root: &Path) -> anyhow::Result<ExitCode> {
    let total = Stopwatch::start();
    announce("prepare");
    let toolbox = Toolbox::prepare(root)?;
    let mut summary = Summary::default();
    summary.add(Row { name: "prepare", outcome: Outcome::Passed, duration: total.elapsed() });

    let mut failed = None;
    for step in plan(&toolbox) {
        if failed.is_some() {
            summary.add(Row { name: step.name, outcome: Outcome::NotReached, duration: Default::default() });
            continue;
        }
        let row = perform(&step, root)?;
        if row.outcome == Outcome::Failed {
            failed = Some(step);
        }
        summary.add(row);
    }

    println!("\n{summary}");
    println!("total {}", summary::seconds(total.elapsed()));
    if let Some(step) = failed {
        println!("\n`{}` failed. To reproduce it:\n\n    {}", step.name, step.reproduction());
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

/// Cheap steps first: a change that is badly formatted should not wait for the tests to say so.
fn plan(toolbox: &Toolbox) -> Vec<Step> {
    vec![
        Step::command("format", "cargo fmt --all --check"),
        Step::run("clippy", once("cargo clippy --workspace --all-targets --locked -- -D warnings")),
        Step::tidy("tidy"),
        if toolbox.has_nextest {
            Step::run("tests", once("cargo nextest run --workspace --locked"))
        } else {
            // Not `--all-targets`: that would run the benches too.
            Step::run("tests", once("cargo test --workspace --locked --lib --bins --tests --examples"))
        },
        // The whole workspace, as the tests: for a single package Cargo would resolve other features and build everything again.
        Step::run("doc tests", once("cargo test --doc --workspace --locked")),
        Step::run("docs", documentation()),
        // Core does no I/O: what needs an operating system does not build for a target that has none.
        Step::command("wasm32", "cargo check -p countersign-core --target wasm32-unknown-unknown --locked")
            .unless(toolbox.wasm32_missing),
        Step::command("deny", "cargo deny check licenses bans sources").unless(toolbox.deny_missing),
    ]
}

fn documentation() -> Invocation {
    once("cargo doc --workspace --no-deps --locked").with_variable("RUSTDOCFLAGS", "-D warnings")
}

/// A build that nobody builds upon: what helps the next one, or a debugger, only costs time here.
fn once(command_line: &'static str) -> Invocation {
    Invocation::new(command_line)
        .with_variable("CARGO_INCREMENTAL", "0")
        .with_variable("CARGO_PROFILE_DEV_DEBUG", "false")
}

fn perform(step: &Step, root: &Path) -> anyhow::Result<Row> {
    announce(step.name);
    let stopwatch = Stopwatch::start();
    let outcome = match &step.action {
        Action::Run(invocation) => {
            println!("$ {invocation}");
            Outcome::from_success(invocation.run(root)?.success())
        }
        Action::Tidy => Outcome::from_success(crate::tidy::report(root)?.is_clean()),
        Action::Skip(why) => Outcome::Skipped(why),
    };
    let duration = stopwatch.elapsed();
    println!("--- {} ({}): {outcome}", step.name, summary::seconds(duration));
    Ok(Row { name: step.name, outcome, duration })
}

fn announce(name: &str) {
    println!("\n=== {name}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commands(toolbox: &Toolbox) -> Vec<String> {
        plan(toolbox).iter().map(|step| format!("{}: {}", step.name, step.reproduction())).collect()
    }

    #[test]
    fn with_every_tool_every_step_runs() {
        let all = Toolbox { has_nextest: true, wasm32_missing: None, deny_missing: None };
        let commands = commands(&all);
        assert!(
            commands[3].starts_with("tests: ")
                && commands[3].ends_with("cargo nextest run --workspace --locked")
        );
        assert_eq!(commands[7], "deny: cargo deny check licenses bans sources");
        assert!(plan(&all).iter().all(|step| !matches!(step.action, Action::Skip(_))));
    }

    #[test]
    fn without_nextest_the_benches_still_do_not_run() {
        let bare = Toolbox { has_nextest: false, wasm32_missing: None, deny_missing: None };
        let tests = &commands(&bare)[3];
        assert!(
            tests.ends_with("cargo test --workspace --locked --lib --bins --tests --examples"),
            "{tests}"
        );
    }

    #[test]
    fn a_missing_tool_is_a_skip_with_its_reason() {
        let bare =
            Toolbox { has_nextest: false, wasm32_missing: Some("offline"), deny_missing: Some("absent") };
        let skipped: Vec<_> = plan(&bare)
            .into_iter()
            .filter_map(|step| match step.action {
                Action::Skip(why) => Some((step.name, why)),
                _ => None,
            })
            .collect();
        assert_eq!(skipped, [("wasm32", "offline"), ("deny", "absent")]);
    }
}
