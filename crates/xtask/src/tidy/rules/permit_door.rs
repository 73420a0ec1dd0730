//! `countersign_sdk::permit` makes `Approved<T>`: the proof of an approval. Cargo unifies features, so in this
//! workspace the module is open to every crate; this rule keeps the door shut for all but those that own it.

use proc_macro2::TokenTree;

use crate::tidy::source::SourceFile;
use crate::tidy::tokens::{each_level, is_ident, is_punct, line};
use crate::tidy::violation::Violation;

const RULE: &str = "permit-door";
const DOOR: &str = "permit";
const OWNERS: &[&str] = &["countersign-core", "countersign-sdk"];

pub(super) fn check(file: &SourceFile) -> Vec<Violation> {
    if OWNERS.contains(&file.package()) {
        return Vec::new();
    }
    let mut lines = Vec::new();
    each_level(&file.tokens, &mut |siblings| {
        lines.extend(paths_through_the_door(siblings));
        lines.extend(imports_of_the_door(siblings));
    });
    lines.sort_unstable();
    lines.dedup();
    let message = format!("`{DOOR}` may be used only by {}", OWNERS.join(" and "));
    lines.into_iter().map(|line| file.violation(line, RULE, message.as_str())).collect()
}

/// `permit::…`, however the path begins. A path that ends in `permit` leads through only inside a `use`.
fn paths_through_the_door(siblings: &[TokenTree]) -> Vec<usize> {
    siblings
        .windows(3)
        .filter(|three| is_ident(&three[0], DOOR) && is_punct(&three[1], ':') && is_punct(&three[2], ':'))
        .map(|three| line(&three[0]))
        .collect()
}

/// `permit` anywhere in a `use`, also inside braces or under a new name.
fn imports_of_the_door(siblings: &[TokenTree]) -> Vec<usize> {
    let mut lines = Vec::new();
    for (at, _) in siblings.iter().enumerate().filter(|(_, token)| is_ident(token, "use")) {
        let import = siblings[at..].iter().take_while(|token| !is_punct(token, ';')).cloned().collect();
        each_level(&import, &mut |tree| {
            lines.extend(tree.iter().filter(|token| is_ident(token, DOOR)).map(line));
        });
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(package: &str, text: &str) -> Vec<usize> {
        let file = SourceFile::sample(&format!("crates/{package}/src/lib.rs"), text);
        check(&file).iter().map(|violation| violation.line).collect()
    }

    const USES: &str = "use countersign_sdk::permit;
        use countersign_sdk::{Ctx, permit::{self as door}};
        use sdk::{tool::{Tool}, permit as p};
        fn f() { countersign_sdk::permit::approve(input) }
        fn g() { assert!(permit::approve(input).is_ok()) }
    ";

    #[test]
    fn the_owners_pass_and_so_does_a_permit_of_another_kind() {
        assert_eq!(lines("countersign-core", USES), []);
        assert_eq!(lines("countersign-sdk", USES), []);
        let semaphore = "fn f() { let permit = semaphore.acquire().await; drop(permit); \"permit::x\"; }";
        assert_eq!(lines("countersign-kernel", semaphore), []);
    }

    #[test]
    fn every_way_through_the_door_fails_elsewhere() {
        assert_eq!(lines("countersign-kernel", USES), [1, 2, 3, 4, 5]);
    }
}
