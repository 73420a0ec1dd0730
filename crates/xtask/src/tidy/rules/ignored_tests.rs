//! No test is ignored. Clippy has no lint for it: `ignore_without_reason` lets one pass that says why.

use crate::tidy::source::SourceFile;
use crate::tidy::tokens::{attributes, is_ident, line};
use crate::tidy::violation::Violation;

const RULE: &str = "ignored-tests";

pub(super) fn check(file: &SourceFile) -> Vec<Violation> {
    let message = "an ignored test tests nothing; fix it or delete it";
    attributes(&file.tokens)
        .iter()
        .filter(|attribute| is_ident(&attribute[0], "ignore"))
        .map(|attribute| file.violation(line(&attribute[0]), RULE, message))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<usize> {
        let file = SourceFile::sample("crates/a/src/lib.rs", text);
        check(&file).iter().map(|violation| violation.line).collect()
    }

    #[test]
    fn the_word_passes_where_it_is_no_attribute() {
        assert_eq!(lines("// #[ignore]\nfn f(ignore: u8) -> bool { \"#[ignore]\" == x }\n"), []);
    }

    #[test]
    fn an_ignored_test_fails_with_and_without_a_reason_or_condition() {
        let text = "#[test]\n#[ignore = \"slow\"]\nfn t() {}\n#[cfg_attr(miri, ignore)]\nfn u() {}\n\
                    #[test]\n#[ignore]\nfn v() {}\n";
        assert_eq!(lines(text), [2, 4, 7]);
    }
}
