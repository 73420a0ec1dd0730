//! A package's name and dependencies from its `Cargo.toml`, with their lines.

use toml::de::{DeTable, DeValue};

use super::violation::Violation;

#[derive(Debug)]
pub(super) struct Manifest {
    /// Relative to the repository root: `crates/countersign-core/Cargo.toml`.
    pub(super) path: String,
    pub(super) package: String,
    pub(super) package_line: usize,
    pub(super) dependencies: Vec<Dependency>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Dependency {
    /// The package's own name, also where the manifest renames it.
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) line: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Normal,
    Build,
    Dev,
}

impl Manifest {
    pub(super) fn parse(path: String, text: &str) -> Result<Manifest, Violation> {
        let table = match DeTable::parse(text) {
            Ok(table) => table.into_inner(),
            Err(error) => {
                let line = error.span().map_or(1, |span| line_of(text, span.start));
                return Err(Violation {
                    file: path,
                    line,
                    rule: "syntax",
                    message: error.message().to_owned(),
                });
            }
        };
        let name = get(&table, "package").and_then(DeValue::as_table).and_then(|package| package.get("name"));
        Ok(Manifest {
            path,
            package: name.and_then(|name| name.get_ref().as_str()).unwrap_or_default().to_owned(),
            package_line: name.map_or(1, |name| line_of(text, name.span().start)),
            dependencies: dependencies(&table, text),
        })
    }

    /// The folder under `crates/`.
    pub(super) fn folder(&self) -> &str {
        self.path.split('/').nth(1).unwrap_or_default()
    }

    pub(super) fn violation(&self, line: usize, rule: &'static str, message: impl Into<String>) -> Violation {
        Violation { file: self.path.clone(), line, rule, message: message.into() }
    }
}

#[cfg(test)]
impl Manifest {
    /// A sample for the tests of the rules.
    pub(super) fn sample(folder: &str, text: &str) -> Manifest {
        Manifest::parse(format!("crates/{folder}/Cargo.toml"), text)
            .unwrap_or_else(|violation| panic!("{violation}"))
    }
}

/// Those for all targets, and those for some.
fn dependencies(manifest: &DeTable<'_>, text: &str) -> Vec<Dependency> {
    let targets = get(manifest, "target").and_then(DeValue::as_table);
    let per_target = targets.into_iter().flat_map(|targets| targets.values());
    per_target
        .filter_map(|target| target.get_ref().as_table())
        .chain([manifest])
        .flat_map(|table| dependencies_of_table(table, text))
        .collect()
}

fn dependencies_of_table(table: &DeTable<'_>, text: &str) -> Vec<Dependency> {
    let sections = [
        ("dependencies", Kind::Normal),
        ("build-dependencies", Kind::Build),
        ("dev-dependencies", Kind::Dev),
    ];
    let mut found = Vec::new();
    for (section, kind) in sections {
        let Some(entries) = get(table, section).and_then(DeValue::as_table) else { continue };
        for (key, value) in entries {
            let renamed = value.get_ref().get("package").and_then(|package| package.get_ref().as_str());
            found.push(Dependency {
                name: renamed.unwrap_or(key.get_ref()).to_owned(),
                kind,
                line: line_of(text, key.span().start),
            });
        }
    }
    found
}

fn get<'t, 'i>(table: &'t DeTable<'i>, key: &str) -> Option<&'t DeValue<'i>> {
    table.get(key).map(|value| value.get_ref())
}

fn line_of(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_dependency_is_found_with_its_line() {
        let manifest = Manifest::sample(
            "a",
            "[package]\nname = \"a\"\n[dependencies]\nb.workspace = true\nx = { package = \"c\", version = \"1\" }\n\
             [dev-dependencies]\nd = \"1\"\n[target.'cfg(unix)'.build-dependencies]\ne = \"1\"\n",
        );
        let mut found: Vec<_> =
            manifest.dependencies.iter().map(|found| (found.line, found.name.as_str(), found.kind)).collect();
        found.sort_by_key(|(line, ..)| *line);
        let expected =
            [(4, "b", Kind::Normal), (5, "c", Kind::Normal), (7, "d", Kind::Dev), (9, "e", Kind::Build)];
        assert_eq!(found, expected);
        assert_eq!((manifest.package.as_str(), manifest.package_line, manifest.folder()), ("a", 2, "a"));
    }

    #[test]
    fn what_is_not_toml_is_a_violation_at_its_line() {
        let violation =
            Manifest::parse("crates/a/Cargo.toml".to_owned(), "[package]\nname = \n").unwrap_err();
        assert_eq!((violation.rule, violation.line), ("syntax", 2));
    }
}
