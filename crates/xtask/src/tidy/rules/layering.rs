//! Which of our crates may depend on which. Without it the sans-I/O core, and with it the one place where a handler is
//! started, would erode one convenient dependency at a time. The table is that of "The rooms" in DESIGN.md.

use crate::tidy::manifest::{Dependency, Kind, Manifest};
use crate::tidy::violation::Violation;

const RULE: &str = "layering";

struct Room {
    package: &'static str,
    may_use: &'static [&'static str],
}

const SDK: &str = "countersign-sdk";
const CORE: &str = "countersign-core";
const KERNEL: &str = "countersign-kernel";
const STORE: &str = "countersign-store";
const SANDBOX: &str = "countersign-sandbox";
const SOURCES: &str = "countersign-sources";
const SERVER: &str = "countersign-server";
const AGENT: &str = "countersign-agent";
const BINARY: &str = "countersign";
const TESTKIT: &str = "countersign-testkit";
const XTASK: &str = "xtask";

/// For dependencies of every kind; a dev-dependency may be [`TESTKIT`] as well.
const ROOMS: &[Room] = &[
    Room { package: SDK, may_use: &[] },
    Room { package: CORE, may_use: &[SDK] },
    Room { package: KERNEL, may_use: &[CORE, SDK] },
    Room { package: STORE, may_use: &[KERNEL, CORE, SDK] },
    Room { package: SANDBOX, may_use: &[KERNEL, CORE, SDK] },
    Room { package: SOURCES, may_use: &[KERNEL, CORE, SDK] },
    Room { package: SERVER, may_use: &[KERNEL, CORE, SDK] },
    Room { package: AGENT, may_use: &[KERNEL, CORE, SDK] },
    Room { package: BINARY, may_use: &[AGENT, SERVER, SOURCES, SANDBOX, STORE, KERNEL, CORE, SDK] },
    Room { package: TESTKIT, may_use: &[KERNEL, CORE, SDK] },
    // Its benches measure whatever there is to measure.
    Room { package: XTASK, may_use: &[TESTKIT, AGENT, SERVER, SOURCES, SANDBOX, STORE, KERNEL, CORE, SDK] },
];

/// Time, randomness, files and network come to these from outside, as data.
const SANS_IO: &[&str] = &[SDK, CORE];
const IO: &[&str] = &["axum", "getrandom", "rand", "reqwest", "rusqlite", "tempfile", "tokio"];

pub(super) fn check(manifest: &Manifest) -> Vec<Violation> {
    let mut violations = Vec::new();
    if manifest.package != manifest.folder() {
        let message = format!("package `{}` stands in folder `{}`", manifest.package, manifest.folder());
        violations.push(manifest.violation(manifest.package_line, RULE, message));
    }
    let Some(room) = ROOMS.iter().find(|room| room.package == manifest.package) else {
        let message =
            format!("`{}` is not in the table of rooms (crates/xtask, layering.rs)", manifest.package);
        violations.push(manifest.violation(manifest.package_line, RULE, message));
        return violations;
    };
    let complaints = manifest.dependencies.iter().filter_map(|dependency| {
        complaint(room, dependency).map(|message| manifest.violation(dependency.line, RULE, message))
    });
    violations.extend(complaints);
    violations
}

fn complaint(room: &Room, dependency: &Dependency) -> Option<String> {
    let (package, name) = (room.package, dependency.name.as_str());
    if !is_ours(name) {
        let forbidden = dependency.kind == Kind::Normal && SANS_IO.contains(&package) && IO.contains(&name);
        return forbidden.then(|| format!("`{package}` does no I/O and must not depend on `{name}`"));
    }
    let allowed = room.may_use.contains(&name)
        || (name == TESTKIT && dependency.kind == Kind::Dev)
        // A package may use itself in its tests, with other features.
        || (name == package && dependency.kind == Kind::Dev);
    match name {
        _ if allowed => None,
        BINARY => Some(format!("nothing depends on the binary `{BINARY}`")),
        TESTKIT => Some(format!("`{TESTKIT}` is for dev-dependencies only")),
        _ if room.may_use.is_empty() => Some(format!("`{package}` must not depend on our other crates")),
        _ => Some(format!("`{package}` must not depend on `{name}`, only on {}", room.may_use.join(", "))),
    }
}

fn is_ours(name: &str) -> bool {
    name == XTASK || name == BINARY || name.starts_with("countersign-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(folder: &str, text: &str) -> Vec<String> {
        check(&Manifest::sample(folder, text)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_the_table_allows_passes() {
        let kernel = "[package]\nname = \"countersign-kernel\"\n[dependencies]\ntokio = \"1\"\n\
                      countersign-core.workspace = true\n[dev-dependencies]\ncountersign-testkit.workspace = true\n";
        assert_eq!(messages("countersign-kernel", kernel), [] as [String; 0]);
        let sdk = "[package]\nname = \"countersign-sdk\"\n[dependencies]\nserde = \"1\"\n[dev-dependencies]\n\
                   tokio = \"1\"\ncountersign-sdk = { path = \".\", features = [\"kernel\"] }\n";
        assert_eq!(messages("countersign-sdk", sdk), [] as [String; 0]);
    }

    #[test]
    fn neighbours_the_binary_and_the_testkit_are_refused() {
        let store = "[package]\nname = \"countersign-store\"\n[dependencies]\ncountersign-server = \"1\"\n\
                     countersign = \"1\"\ncountersign-testkit = \"1\"\n";
        let mut found = messages("countersign-store", store);
        found.sort();
        assert_eq!(
            found,
            [
                "crates/countersign-store/Cargo.toml:4: layering: `countersign-store` must not depend on \
                 `countersign-server`, only on countersign-kernel, countersign-core, countersign-sdk",
                "crates/countersign-store/Cargo.toml:5: layering: nothing depends on the binary `countersign`",
                "crates/countersign-store/Cargo.toml:6: layering: `countersign-testkit` is for dev-dependencies only",
            ]
        );
    }

    #[test]
    fn the_core_does_no_io_under_any_name_or_target() {
        let core = "[package]\nname = \"countersign-core\"\n\
                    [target.'cfg(unix)'.dependencies]\ntime = { package = \"tokio\", version = \"1\" }\n";
        let expected = "crates/countersign-core/Cargo.toml:4: layering: \
                        `countersign-core` does no I/O and must not depend on `tokio`";
        assert_eq!(messages("countersign-core", core), [expected]);
    }

    #[test]
    fn the_sdk_depends_on_nothing_of_ours() {
        let sdk = "[package]\nname = \"countersign-sdk\"\n[dependencies]\ncountersign-core = \"1\"\n";
        assert!(messages("countersign-sdk", sdk)[0].ends_with("must not depend on our other crates"));
    }

    #[test]
    fn a_crate_is_named_after_its_folder_and_has_a_room() {
        let stranger = "[package]\nname = \"countersign-attic\"\n";
        let found = messages("attic", stranger);
        assert!(found[0].ends_with("package `countersign-attic` stands in folder `attic`"), "{found:?}");
        assert!(found[1].contains("is not in the table of rooms"), "{found:?}");
    }
}
