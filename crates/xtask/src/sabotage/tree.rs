//! The scratch copy that faults are planted in, with a target folder of its own.
//!
//! Promise: the sources of the repository are read and never written. The copy is a clone and not a worktree, so that
//! deleting `target` leaves nothing behind in the repository; it is kept from one run to the next, so that only
//! what changed is built again.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::fault::Fault;
use super::verdict::Verdict;
use crate::machine::Invocation;

const TREE: &str = "target/sabotage/tree";
const BUILD: &str = "target/sabotage/build";
const LOGS: &str = "target/sabotage/logs";

pub(super) struct ScratchTree {
    folder: PathBuf,
    build: String,
    logs: PathBuf,
}

impl ScratchTree {
    /// The last commit, without any fault.
    pub(super) fn check_out(root: &Path) -> anyhow::Result<ScratchTree> {
        let root = root.canonicalize().context("the repository is not there")?;
        let folder = root.join(TREE);
        if !folder.join(".git").exists() {
            let clone = Invocation::new("git clone --quiet --no-checkout . target/sabotage/tree");
            anyhow::ensure!(clone.run(&root)?.success(), "the repository cannot be cloned");
        }
        for command in ["git fetch --quiet origin HEAD", "git checkout --quiet --force --detach FETCH_HEAD"] {
            anyhow::ensure!(Invocation::new(command).run(&folder)?.success(), "`{command}` failed");
        }
        let changed = Invocation::new("git status --porcelain").output(&root);
        if changed.is_some_and(|files| !files.is_empty()) {
            println!("note: changes that are not committed are left out");
        }
        let logs = root.join(LOGS);
        std::fs::create_dir_all(&logs)?;
        let build = root.join(BUILD).display().to_string();
        let tree = ScratchTree { folder, build, logs };
        tree.restore()?;
        Ok(tree)
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn plant(&self, fault: &Fault) -> anyhow::Result<()> {
        Ok(std::fs::write(self.folder.join(&fault.file), fault.planted(&self.folder)?)?)
    }

    /// Removes the fault, and the files that failed tests left among the sources (the seeds of failed properties would be
    /// tried first under the next fault).
    pub(super) fn restore(&self) -> anyhow::Result<()> {
        for command in ["git checkout --quiet --force HEAD -- .", "git clean --quiet --force -d"] {
            anyhow::ensure!(Invocation::new(command).run(&self.folder)?.success(), "`{command}` failed");
        }
        Ok(())
    }

    /// Runs the tests of these faults up to the first that fails. The output of cargo and nextest is kept in a log.
    pub(super) fn test(&self, log: &str, faults: &[&Fault]) -> anyhow::Result<Verdict> {
        let (status, said) = self.invocation(faults).report(&self.folder)?;
        let log = self.logs.join(format!("{log}.log"));
        std::fs::write(&log, &said)?;
        Verdict::of(status.code(), &said)
            .with_context(|| format!("nextest did not say how it went; see {}", log.display()))
    }

    /// The whole workspace is named, so that cargo chooses the same features each time and builds no dependency twice;
    /// `--test` limits the build to the programs that are needed.
    fn invocation(&self, faults: &[&Fault]) -> Invocation {
        let mut tests = Invocation::new(
            "cargo nextest run --workspace --locked --color never --max-fail 1:immediate \
             --status-level fail --final-status-level none",
        )
        .with_variable("CARGO_TARGET_DIR", &self.build)
        .with_variable("INSTA_UPDATE", "no");
        for program in faults.iter().map(|fault| fault.test.program()).collect::<BTreeSet<_>>() {
            tests = tests.with_argument("--test").with_argument(program);
        }
        for filter in faults.iter().map(|fault| fault.test.filter()).collect::<BTreeSet<_>>() {
            tests = tests.with_argument("-E").with_argument(&filter);
        }
        tests
    }
}
