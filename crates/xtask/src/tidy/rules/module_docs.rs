//! Every file begins with its purpose, so that a new reader need not guess it.

use crate::tidy::source::{Place, SourceFile};
use crate::tidy::violation::Violation;

const RULE: &str = "module-docs";

pub(super) fn check(file: &SourceFile) -> Vec<Violation> {
    if file.place() == Place::Elsewhere {
        return Vec::new();
    }
    let first = file.text.lines().enumerate().find(|(_, line)| !line.trim().is_empty());
    match first {
        Some((_, line)) if line.starts_with("//!") => Vec::new(),
        other => {
            let line = other.map_or(1, |(index, _)| index + 1);
            vec![file.violation(line, RULE, "the file must open with a `//!` doc that says what it is for")]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_doc_in_the_first_line_that_is_not_blank_passes() {
        let file = SourceFile::sample("crates/a/src/lib.rs", "\n//! What it is for.\n");
        assert_eq!(check(&file), []);
        let bench = SourceFile::sample("crates/a/benches/b.rs", "fn main() {}\n");
        assert_eq!(check(&bench), []);
    }

    #[test]
    fn anything_else_in_front_fails() {
        let cases = [
            ("", 1),
            ("\nuse std::fs;\n", 2),
            ("/// An item.\nstruct S;\n", 1),
            ("// Plain.\n//! Late.\n", 1),
        ];
        for (text, line) in cases {
            let violations = check(&SourceFile::sample("crates/a/tests/b.rs", text));
            assert_eq!(
                violations.iter().map(|violation| violation.line).collect::<Vec<_>>(),
                [line],
                "{text:?}"
            );
        }
    }
}
