//! What belongs on a workbench and not in the repository: `todo!`, `unimplemented!`, `dbg!` and ignored tests.

use proc_macro2::TokenTree;

use crate::tidy::source::SourceFile;
use crate::tidy::tokens::{attributes, each_level, ident, is_ident, is_punct, line};
use crate::tidy::violation::Violation;

const RULE: &str = "leftovers";
const MACROS: &[&str] = &["dbg", "todo", "unimplemented"];

pub(super) fn check(file: &SourceFile) -> Vec<Violation> {
    let mut violations = Vec::new();
    each_level(&file.tokens, &mut |siblings| {
        for call in siblings.windows(3) {
            if let Some(name) = leftover_macro(call) {
                violations.push(file.violation(
                    line(&call[0]),
                    RULE,
                    format!("`{name}!` must not be merged"),
                ));
            }
        }
    });
    for attribute in attributes(&file.tokens) {
        if is_ident(&attribute[0], "ignore") {
            let message = "an ignored test tests nothing; fix it or delete it";
            violations.push(file.violation(line(&attribute[0]), RULE, message));
        }
    }
    violations
}

/// The name, if the three tokens begin a call of one of [`MACROS`]; `todo != x` does not.
fn leftover_macro(tokens: &[TokenTree]) -> Option<String> {
    let [name, bang, TokenTree::Group(_)] = tokens else { return None };
    let name = ident(name).filter(|_| is_punct(bang, '!'))?.to_string();
    MACROS.contains(&name.as_str()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<usize> {
        let file = SourceFile::sample("crates/a/src/lib.rs", text);
        check(&file).iter().map(|violation| violation.line).collect()
    }

    #[test]
    fn mentions_in_comments_strings_and_names_pass() {
        let text = "// todo!() later\n/// `dbg!(x)`\nfn todo(ignore: u8) -> bool { ignore != (3) || \"todo!()\" == t }\n";
        assert_eq!(lines(text), []);
    }

    #[test]
    fn leftovers_fail_also_inside_macros() {
        let text = "fn f() { todo!() }\nfn g() { assert!(dbg!(true)); }\nfn h() { core::unimplemented![]; }\n\
                    #[test]\n#[ignore = \"slow\"]\nfn t() {}\n#[cfg_attr(miri, ignore)]\nfn u() {}\n";
        assert_eq!(lines(text), [1, 2, 3, 5, 7]);
    }
}
