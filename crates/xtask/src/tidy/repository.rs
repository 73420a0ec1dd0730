//! The repository as the rules see it: read from disk once, before any rule runs.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::manifest::Manifest;
use super::source::SourceFile;
use super::violation::Violation;

pub(super) struct Repository {
    pub(super) manifests: Vec<Manifest>,
    pub(super) sources: Vec<SourceFile>,
    /// The text of `ARCHITECTURE.md`, where there is one.
    pub(super) architecture: Option<String>,
    /// The text of `docs/security.md`, where there is one.
    pub(super) security: Option<String>,
}

impl Repository {
    /// A file that cannot be parsed is a violation, not an error: the rest is still worth checking.
    pub(super) fn read(root: &Path) -> anyhow::Result<(Repository, Vec<Violation>)> {
        let architecture = read_if_present(&root.join("ARCHITECTURE.md"))?;
        let security = read_if_present(&root.join("docs/security.md"))?;
        let mut repository =
            Repository { manifests: Vec::new(), sources: Vec::new(), architecture, security };
        let mut violations = Vec::new();
        for file in files_below(&root.join("crates"))? {
            let path = relative(root, &file);
            let read = || fs::read_to_string(&file).with_context(|| format!("could not read {path}"));
            if is_manifest(&path) {
                match Manifest::parse(path.clone(), &read()?) {
                    Ok(manifest) => repository.manifests.push(manifest),
                    Err(violation) => violations.push(violation),
                }
            } else if path.ends_with(".rs") {
                match SourceFile::parse(path.clone(), read()?) {
                    Ok(source) => repository.sources.push(source),
                    Err(violation) => violations.push(violation),
                }
            }
        }
        Ok((repository, violations))
    }
}

fn read_if_present(file: &Path) -> anyhow::Result<Option<String>> {
    match fs::read_to_string(file) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("could not read {}", file.display())),
    }
}

/// In the order of their names, so that a report does not depend on the file system.
fn files_below(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let list = || fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<PathBuf>>>();
    let mut entries = list().with_context(|| format!("could not list {}", folder.display()))?;
    entries.sort();
    let mut files = Vec::new();
    for entry in entries {
        if !entry.is_dir() {
            files.push(entry);
        } else if entry.file_name().is_some_and(|name| name != "target") {
            files.extend(files_below(&entry)?);
        }
    }
    Ok(files)
}

fn relative(root: &Path, file: &Path) -> String {
    let inside = file.strip_prefix(root).unwrap_or(file);
    inside.components().map(|part| part.as_os_str().to_string_lossy()).collect::<Vec<_>>().join("/")
}

/// `crates/<package>/Cargo.toml`, and not one that a test keeps among its data.
fn is_manifest(path: &str) -> bool {
    path.ends_with("/Cargo.toml") && path.split('/').count() == 3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_packages_own_manifest_counts() {
        assert!(is_manifest("crates/countersign-core/Cargo.toml"));
        assert!(!is_manifest("crates/countersign-core/tests/data/Cargo.toml"));
    }

    #[test]
    fn this_repository_can_be_read() {
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        let (repository, _) = Repository::read(root).unwrap();
        assert!(repository.manifests.iter().any(|manifest| manifest.package == "xtask"));
        let this_file = "crates/xtask/src/tidy/repository.rs";
        assert!(repository.sources.iter().any(|source| source.path == this_file));
    }
}
