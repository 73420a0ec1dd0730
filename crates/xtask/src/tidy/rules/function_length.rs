//! A function fits on a screen. One that is long for a reason says so right above it:
//! `// tidy: long because …`.
//!
//! Works on tokens because the functions inside `proptest!` are not Rust to a syntax tree.

use proc_macro2::{Delimiter, TokenTree};

use crate::tidy::source::SourceFile;
use crate::tidy::tokens::{each_level, group, ident, is_ident, is_punct, line};
use crate::tidy::violation::Violation;

const RULE: &str = "function-length";
const LIMIT: usize = 70;
const EXCUSE: &str = "// tidy: long because ";

pub(super) fn check(file: &SourceFile) -> Vec<Violation> {
    let mut violations = Vec::new();
    each_level(&file.tokens, &mut |siblings| {
        let functions = (0..siblings.len()).filter_map(|at| Function::at(siblings, at));
        for function in functions.filter(|function| function.lines() > LIMIT) {
            if is_excused(&file.text, function.first_line) {
                continue;
            }
            let message = format!("`{}` has {} lines; at most {LIMIT}", function.name, function.lines());
            violations.push(file.violation(function.first_line, RULE, message));
        }
    });
    violations
}

struct Function {
    name: String,
    first_line: usize,
    last_line: usize,
}

impl Function {
    /// The function whose `fn` is `siblings[at]`, if there is one and it has a body.
    fn at(siblings: &[TokenTree], at: usize) -> Option<Function> {
        let keyword = siblings.get(at).filter(|token| is_ident(token, "fn"))?;
        let after = siblings.get(at + 1..)?;
        // `fn name`, or `fn $name` in a macro; `fn(…)` is a type.
        let name = match after {
            [dollar, name, ..] if is_punct(dollar, '$') => ident(name)?,
            [name, ..] => ident(name)?,
            [] => return None,
        };
        let mut signature_and_body = after.iter().take_while(|token| !is_punct(token, ';'));
        let body = signature_and_body.find_map(|token| group(Some(token), Delimiter::Brace))?;
        let last_line = body.span_close().end().line;
        Some(Function { name: name.to_string(), first_line: line(keyword), last_line })
    }

    fn lines(&self) -> usize {
        self.last_line + 1 - self.first_line
    }
}

/// Looks through the comments and attributes right above the function.
fn is_excused(text: &str, first_line: usize) -> bool {
    let above: Vec<&str> = text.lines().take(first_line - 1).map(str::trim).collect();
    above
        .iter()
        .rev()
        .take_while(|line| line.starts_with("//") || line.starts_with("#["))
        .any(|line| line.strip_prefix(EXCUSE).is_some_and(|reason| !reason.trim().is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `{}` in the template becomes as many lines of body.
    fn found(template: &str, body_lines: usize) -> Vec<Violation> {
        let text = template.replace("{}", &format!("{{\n{}}}", "();\n".repeat(body_lines)));
        check(&SourceFile::sample("crates/a/src/lib.rs", &text))
    }

    #[test]
    fn seventy_lines_pass_wherever_the_function_stands() {
        for template in ["fn f() {}", "impl S { pub async fn f<T>(&self) -> [u8; 4] where T: Copy {} }"] {
            assert_eq!(found(template, 68), [], "{template}");
        }
    }

    #[test]
    fn seventy_one_lines_fail_at_the_line_of_the_fn() {
        for template in [
            "\n#[test]\nfn f() {}",
            "trait T {\n fn g(&self);\n fn f(&self) {} }",
            "proptest! {\n #[test]\n fn f(n in 0..10usize) {} }",
            "macro_rules! m { ($f:ident) => {\n\n fn $f() {} } }",
        ] {
            let found = found(template, 69);
            assert_eq!(found.len(), 1, "{template}");
            assert_eq!(found[0].line, 3, "{template}");
            assert_eq!(found[0].message, "`f` has 71 lines; at most 70", "{template}");
        }
    }

    #[test]
    fn a_reason_right_above_excuses_and_an_empty_one_does_not() {
        assert_eq!(found("// tidy: long because it is one match.\n#[inline]\nfn f() {}", 90), []);
        assert_eq!(found("// tidy: long because \nfn f() {}", 90).len(), 1);
        assert_eq!(found("// tidy: long because of another.\n\nfn f() {}", 90).len(), 1);
    }

    #[test]
    fn a_type_is_not_a_function() {
        assert_eq!(found("static S: fn() -> u8 = {} ;", 90), []);
    }
}
