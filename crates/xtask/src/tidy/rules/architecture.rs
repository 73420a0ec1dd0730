//! `ARCHITECTURE.md` is the map; a map that lacks a room, or shows one that is not there, is worse than none.

use crate::tidy::manifest::Manifest;
use crate::tidy::violation::Violation;

const RULE: &str = "architecture";
const FILE: &str = "ARCHITECTURE.md";

/// Every crate is named in backticks somewhere, and the code map names no crate of ours that does not exist.
pub(super) fn check(text: Option<&str>, manifests: &[Manifest]) -> Vec<Violation> {
    let Some(text) = text else {
        return vec![violation(1, "the file is missing".to_owned())];
    };
    let crates: Vec<&str> = manifests.iter().map(Manifest::folder).collect();
    let named: Vec<&str> = text.lines().flat_map(in_backticks).collect();
    let mut violations: Vec<Violation> = crates
        .iter()
        .filter(|name| !named.contains(name))
        .map(|name| violation(1, format!("`{name}` is not mentioned")))
        .collect();
    for (line, content) in code_map(text) {
        let strangers = in_backticks(content).filter(|name| is_crate_name(name) && !crates.contains(name));
        violations.extend(
            strangers.map(|name| violation(line, format!("`{name}` is on the code map but not in crates/"))),
        );
    }
    violations
}

fn violation(line: usize, message: String) -> Violation {
    Violation { file: FILE.to_owned(), line, rule: RULE, message }
}

/// The numbered lines of the section whose heading contains "code map", subsections included.
fn code_map(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_code_map = |line: &str| heading_level(line).is_some() && line.to_lowercase().contains("code map");
    let mut lines = (1..).zip(text.lines()).skip_while(move |(_, line)| !is_code_map(line));
    let heading = lines.next();
    let level = heading.and_then(|(_, line)| heading_level(line)).unwrap_or_default();
    lines.take_while(move |(_, line)| heading_level(line).is_none_or(|deeper| deeper > level))
}

/// 2 for `## Title`; none for what is not a heading.
fn heading_level(line: &str) -> Option<usize> {
    let level = line.bytes().take_while(|byte| *byte == b'#').count();
    (level > 0 && line[level..].starts_with(' ')).then_some(level)
}

fn in_backticks(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// `countersign-core`, and not `countersign-core/src/lib.rs` or `countersign-core = { … }`.
fn is_crate_name(text: &str) -> bool {
    text.strip_prefix("countersign-").is_some_and(|rest| {
        !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(text: Option<&str>) -> Vec<String> {
        let manifests = ["countersign-core", "xtask"]
            .map(|name| Manifest::sample(name, &format!("[package]\nname = \"{name}\"\n")));
        check(text, &manifests).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_map_of_what_exists_passes() {
        let text = "# Architecture\n\n## Code map\n\n### `countersign-core`\n\nPure; `countersign-core/src/lib.rs`.\n\n\
                    ### `xtask`\n\n## Later\n\n`countersign-attic` is planned.\n";
        assert_eq!(messages(Some(text)), [] as [String; 0]);
    }

    #[test]
    fn a_missing_room_and_an_invented_one_fail() {
        let text =
            "# Architecture\n\n## 4. Code map\n\n`countersign-core` and `countersign-attic`, no xtask.\n";
        assert_eq!(
            messages(Some(text)),
            [
                "ARCHITECTURE.md:1: architecture: `xtask` is not mentioned",
                "ARCHITECTURE.md:5: architecture: `countersign-attic` is on the code map but not in crates/",
            ]
        );
    }

    #[test]
    fn no_map_at_all_fails() {
        assert_eq!(messages(None), ["ARCHITECTURE.md:1: architecture: the file is missing"]);
    }
}
