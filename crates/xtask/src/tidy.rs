//! `cargo xtask tidy`: the rules of the repository as a test.
//!
//! Each rule is a module of [`rules`]; all of them are checked and every violation is reported at once, as
//! `file:line: rule: message`.

mod manifest;
mod repository;
mod rules;
mod source;
mod tokens;
mod violation;

use std::path::Path;
use std::process::ExitCode;

use repository::Repository;
use violation::Violation;

/// The violations of the repository.
#[derive(Debug)]
pub(crate) struct Report {
    violations: Vec<Violation>,
}

impl Report {
    pub(crate) fn is_clean(&self) -> bool {
        self.violations.is_empty()
    }
}

pub(crate) fn run(root: &Path) -> anyhow::Result<ExitCode> {
    Ok(if report(root)?.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Checks everything and prints what it found.
pub(crate) fn report(root: &Path) -> anyhow::Result<Report> {
    let (repository, mut violations) = Repository::read(root)?;
    violations.extend(rules::check(&repository));
    violations.sort();
    for violation in &violations {
        println!("{violation}");
    }
    match violations.len() {
        0 => println!("tidy: {} files, nothing to say", repository.sources.len()),
        1 => println!("tidy: 1 violation"),
        many => println!("tidy: {many} violations"),
    }
    Ok(Report { violations })
}
