//! `cargo xtask sabotage`: breaks the rules of the design on purpose, to see that the tests notice.
//!
//! Each fault of `sabotage.toml` is planted in a scratch copy of the committed tree, alone, and the tests that its entry
//! names are run. A fault is caught when one of them goes red. The same tests are run first without any fault: a test that
//! is red anyhow catches nothing. It is a campaign like `soak`: it builds anew for every fault, so CI does not run it.

mod fault;
mod tree;
mod verdict;

use std::path::Path;
use std::process::ExitCode;

use fault::Fault;
use tree::ScratchTree;
use verdict::Verdict;

/// Names the faults against the given rules, or all of them.
pub(crate) fn list(root: &Path, only: &[String]) -> anyhow::Result<ExitCode> {
    for fault in selected(root, only)? {
        println!("{:<4} {}\n     {}: {}", fault.rule, fault.says, fault.file, fault.tests);
    }
    Ok(ExitCode::SUCCESS)
}

/// Plants the faults against the given rules, or all of them. It fails where one of them was not caught.
pub(crate) fn run(root: &Path, only: &[String]) -> anyhow::Result<ExitCode> {
    let faults = selected(root, only)?;
    let tree = ScratchTree::check_out(root)?;
    println!("{} faults, planted in {}", faults.len(), tree.folder().display());
    println!("without a fault");
    let without = tree.test("none", &faults.iter().collect::<Vec<_>>())?;
    anyhow::ensure!(without == Verdict::NotCaught, "the tests are not green without a fault: {without}");

    let mut verdicts = Vec::new();
    for (at, fault) in faults.iter().enumerate() {
        println!("[{}/{}] {} {}", at + 1, faults.len(), fault.rule, fault.says);
        tree.plant(fault)?;
        let verdict = tree.test(&format!("{:02}-{}", at + 1, fault.rule), &[fault]);
        tree.restore()?;
        let verdict = verdict?;
        println!("        {verdict}");
        verdicts.push(verdict);
    }
    print!("\n{}", table(&faults, &verdicts));
    let missed = verdicts.iter().filter(|verdict| !verdict.is_caught()).count();
    println!("\n{} of {} faults caught", faults.len() - missed, faults.len());
    Ok(if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn selected(root: &Path, only: &[String]) -> anyhow::Result<Vec<Fault>> {
    let mut faults = fault::read(root)?;
    if let Some(unknown) = only.iter().find(|rule| !faults.iter().any(|fault| fault.rule == **rule)) {
        anyhow::bail!("there is no fault against {unknown}; `--list` names them all");
    }
    faults.retain(|fault| only.is_empty() || only.contains(&fault.rule));
    Ok(faults)
}

fn table(faults: &[Fault], verdicts: &[Verdict]) -> String {
    let width = faults.iter().map(|fault| fault.says.chars().count()).max().unwrap_or_default();
    let rows = faults.iter().zip(verdicts);
    rows.map(|(fault, verdict)| format!("{:<4} {:width$}  {verdict}\n", fault.rule, fault.says)).collect()
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
            tests: String::new(),
        };
        let faults = [fault("R1", "The digest is not checked."), fault("R10", "Agents decide.")];
        let verdicts = [Verdict::Caught { test: "core::execution starts::one".into() }, Verdict::NotCaught];
        let expected = "R1   The digest is not checked.  core::execution starts::one\n\
                        R10  Agents decide.              NOT CAUGHT\n";
        assert_eq!(table(&faults, &verdicts), expected);
    }
}
