//! `cargo xtask sabotage`: breaks the rules of the design on purpose, to see that the tests notice.
//!
//! Each fault of `sabotage.toml` is planted alone in a scratch copy of the committed tree, and the test that its entry
//! names is run. A fault is caught when that test fails. The same tests are run first without any fault: a test that
//! fails in any case catches nothing. It is a campaign like `soak`: it builds again for every fault, so CI does not run it.
//!
//! The faults are not part of the product's code, so that no build can contain one by mistake. The tests of this crate, which CI
//! runs, check that they still fit the sources.

mod fault;
mod moved;
mod named_test;
mod tree;
mod verdict;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use fault::Fault;
use tree::ScratchTree;
use verdict::Verdict;

use crate::machine::Stopwatch;

/// Lists the chosen faults, or all of them.
pub(crate) fn list(root: &Path, only: &[String]) -> anyhow::Result<ExitCode> {
    for fault in selected(root, only)? {
        println!("{:<4} {}\n     {}: {}", fault.rule, fault.says, fault.file, fault.test);
    }
    Ok(ExitCode::SUCCESS)
}

/// Plants the chosen faults, or all of them. It fails where one of them was not caught.
pub(crate) fn run(root: &Path, only: &[String]) -> anyhow::Result<ExitCode> {
    let faults = selected(root, only)?;
    // Faults that do not fit are reported before anything is built.
    let wrong: Vec<String> =
        faults.iter().filter_map(|fault| fault.check(root).err()).map(|error| format!("{error:#}")).collect();
    anyhow::ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    let tree = ScratchTree::check_out(root)?;
    println!("{} faults, planted in {}", faults.len(), tree.folder().display());
    println!("without a fault");
    let without = tree.test("none", &faults.iter().collect::<Vec<_>>())?;
    anyhow::ensure!(without == Verdict::NotCaught, "the tests are not green without a fault: {without}");

    let mut trials = Vec::new();
    for (at, fault) in faults.iter().enumerate() {
        println!("[{}/{}] {} {}", at + 1, faults.len(), fault.rule, fault.says);
        let trial = try_one(&tree, fault, &format!("{:02}-{}", at + 1, fault.rule))?;
        println!("        {} in {:.0?}", trial.verdict, trial.took);
        trials.push(trial);
    }
    print!("\n{}", table(&faults, &trials));
    let missed = trials.iter().filter(|trial| !trial.verdict.is_caught()).count();
    println!("\n{} of {} faults caught", faults.len() - missed, faults.len());
    Ok(if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The result of one fault, and how long building and testing it took.
struct Trial {
    verdict: Verdict,
    took: Duration,
}

fn try_one(tree: &ScratchTree, fault: &Fault, log: &str) -> anyhow::Result<Trial> {
    let stopwatch = Stopwatch::start();
    tree.plant(fault)?;
    let verdict = tree.test(log, &[fault]);
    tree.restore()?;
    Ok(Trial { verdict: verdict?, took: stopwatch.elapsed() })
}

fn selected(root: &Path, only: &[String]) -> anyhow::Result<Vec<Fault>> {
    let mut faults = fault::read(root)?;
    if let Some(unknown) = only.iter().find(|choice| !faults.iter().any(|fault| fault.is_chosen_by(choice))) {
        anyhow::bail!("no fault is chosen by {unknown:?}; `--list` lists them all");
    }
    faults.retain(|fault| only.is_empty() || only.iter().any(|choice| fault.is_chosen_by(choice)));
    Ok(faults)
}

fn table(faults: &[Fault], trials: &[Trial]) -> String {
    let width = faults.iter().map(|fault| fault.says.chars().count()).max().unwrap_or_default();
    let rows = faults.iter().zip(trials);
    rows.map(|(fault, Trial { verdict, took })| {
        let (is_caught, took) = (if verdict.is_caught() { "caught" } else { "MISSED" }, took.as_secs());
        format!("{:<4} {:width$}  {is_caught} {took:>4} s  {verdict}\n", fault.rule, fault.says)
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_names_the_test_that_went_red_or_says_that_none_did() {
        let fault = |rule: &str, says: &str| Fault {
            rule: rule.into(),
            says: says.into(),
            file: String::new(),
            find: String::new(),
            replace: String::new(),
            test: "a::b c".to_owned().try_into().unwrap(),
        };
        let faults = [fault("R1", "The digest is not checked."), fault("R10", "Agents decide.")];
        let trial = |verdict, seconds| Trial { verdict, took: Duration::from_secs(seconds) };
        let caught = Verdict::Caught { test: "core::execution starts::one".into() };
        let trials = [trial(caught, 7), trial(Verdict::NotCaught, 112)];
        let expected = "R1   The digest is not checked.  caught    7 s  core::execution starts::one\n\
                        R10  Agents decide.              MISSED  112 s  NOT CAUGHT\n";
        assert_eq!(table(&faults, &trials), expected);
    }
}
