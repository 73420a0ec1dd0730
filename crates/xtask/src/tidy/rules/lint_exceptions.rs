//! An exception to a lint is `#[expect(…, reason = "…")]`: unlike `allow` it says why, and the compiler says when it is
//! no longer needed.

use proc_macro2::{Delimiter, TokenTree};

use crate::tidy::source::SourceFile;
use crate::tidy::tokens::{attributes, group, is_ident, line};
use crate::tidy::violation::Violation;

const RULE: &str = "lint-exceptions";

pub(super) fn check(file: &SourceFile) -> Vec<Violation> {
    attributes(&file.tokens)
        .iter()
        .filter_map(|attribute| Some(file.violation(line(&attribute[0]), RULE, complaint(attribute)?)))
        .collect()
}

fn complaint(attribute: &[TokenTree]) -> Option<&'static str> {
    let arguments = group(attribute.get(1), Delimiter::Parenthesis)?;
    if is_ident(&attribute[0], "allow") {
        return Some("write `#[expect(…, reason = \"…\")]` instead of `#[allow(…)]`");
    }
    let has_reason = arguments.stream().into_iter().any(|token| is_ident(&token, "reason"));
    (is_ident(&attribute[0], "expect") && !has_reason).then_some("`#[expect(…)]` needs a `reason = \"…\"`")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<usize> {
        let file = SourceFile::sample("crates/a/src/lib.rs", text);
        check(&file).iter().map(|violation| violation.line).collect()
    }

    #[test]
    fn an_expectation_with_a_reason_passes() {
        let text = "#![expect(clippy::panic, reason = \"tests\")]\n#[derive(Debug)]\nstruct S;\n\
                    fn allow(x: u8) { allow(x); x.expect(\"reason\") }\n";
        assert_eq!(lines(text), []);
    }

    #[test]
    fn allow_and_an_expectation_without_a_reason_fail() {
        let text = "#![allow(dead_code)]\n#[expect(dead_code)]\nstruct S;\n\
                    #[cfg_attr(test, allow(unused))]\nfn f() {\n    #[allow(unused)]\n    let x = 1;\n}\n";
        assert_eq!(lines(text), [1, 2, 4, 6]);
    }
}
