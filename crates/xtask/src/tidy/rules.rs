//! All rules that no lint of rustc or clippy covers. A new one is a module here and a line in [`check`] or [`SOURCE_RULES`].

mod architecture;
mod bool_parameters;
mod file_length;
mod ignored_tests;
mod layering;
mod module_docs;
mod names;
mod permit_door;
mod security;

use super::repository::Repository;
use super::source::SourceFile;
use super::violation::Violation;

/// Rules that need to see only one file at a time.
const SOURCE_RULES: &[fn(&SourceFile) -> Vec<Violation>] = &[
    bool_parameters::check,
    file_length::check,
    ignored_tests::check,
    module_docs::check,
    names::check,
    permit_door::check,
];

pub(super) fn check(repository: &Repository) -> Vec<Violation> {
    let mut violations: Vec<Violation> = repository.manifests.iter().flat_map(layering::check).collect();
    violations.extend(architecture::check(repository.architecture.as_deref(), &repository.manifests));
    violations.extend(security::check(repository.security.as_deref(), &repository.sources));
    for source in &repository.sources {
        violations.extend(SOURCE_RULES.iter().flat_map(|rule| rule(source)));
    }
    violations
}
