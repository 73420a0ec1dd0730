//! Regular expressions in predicates: judged once, when they are loaded.
//!
//! Promise: a pattern that is taken compiles, and in about a millisecond at most. That matters because the interpreter
//! compiles it anew each time it is used, and `\w{1,64}`, which knows every letter of every script 64 times over,
//! takes twenty.

use std::sync::Arc;

use cel::common::ast::{CallExpr, Expr, IdedExpr, LiteralValue};
use cel::{Context, Env, ExecutionError, Value};

/// The engine refuses programs larger than ten mebibytes. A pattern that so many times over is still within that is
/// itself within a thirty-second of it.
const COPIES: usize = 32;

/// The problem of a pattern, if it has one.
pub(super) fn problem(pattern: &str, env: &Arc<Env>) -> Option<String> {
    if let Err(reason) = compile(pattern, env) {
        return Some(format!("{pattern:?} is no regular expression: {reason}"));
    }
    // The line break closes a comment, where the pattern is one that may have comments.
    compile(&format!("(?:{pattern}\n){{{COPIES}}}"), env).err().map(|_| {
        format!("{pattern:?} is too heavy a regular expression; write [a-z] for \\w, [0-9] for \\d, or repeat less")
    })
}

/// Lets the interpreter's own engine judge the pattern, by matching nothing with it.
fn compile(pattern: &str, env: &Arc<Env>) -> Result<(), String> {
    let literal =
        |text: &str| IdedExpr { id: 0, expr: Expr::Literal(LiteralValue::String(text.to_owned().into())) };
    let call =
        CallExpr { func_name: "matches".to_owned(), target: None, args: vec![literal(""), literal(pattern)] };
    match Value::resolve(&IdedExpr { id: 0, expr: Expr::Call(call) }, &Context::with_env(Arc::clone(env))) {
        Ok(_) => Ok(()),
        Err(ExecutionError::FunctionError { message, .. }) => {
            let last = message.lines().last().unwrap_or_default();
            Err(last.trim_start_matches("error: ").to_owned())
        }
        Err(_) => Err("it cannot be compiled".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem_of(pattern: &str) -> Option<String> {
        problem(pattern, &Arc::new(Env::stdlib()))
    }

    #[test]
    fn everyday_patterns_are_taken() {
        for pattern in [
            "",
            "^Fix",
            "^[0-9]+$",
            r"^[\w.-]+$",
            r"^\d{4}-\d{2}-\d{2}$",
            r"^[a-zA-Z0-9._%+-]+@[a-zA-Z0-9.-]+\.[a-zA-Z]{2,}$",
            r"^https://[^/]+\.example\.com/.*$",
            r"(?i)^(select|insert|update|delete|drop)\b",
            "^[a-z0-9-]{1,63}$",
            "(?x) a b # a comment",
        ] {
            assert_eq!(problem_of(pattern), None, "{pattern}");
        }
    }

    #[test]
    fn patterns_that_do_not_compile_or_take_long_to_are_refused() {
        for (pattern, says) in [
            ("[a", "\"[a\" is no regular expression: unclosed character class"),
            ("a)(b", "\"a)(b\" is no regular expression: unopened group"),
            (
                "(a{1000}){1000}",
                "\"(a{1000}){1000}\" is no regular expression: Compiled regex exceeds size limit",
            ),
            (
                r"^[\w.-]{1,64}$",
                "\"^[\\\\w.-]{1,64}$\" is too heavy a regular expression; write [a-z] for \\w",
            ),
        ] {
            let problem = problem_of(pattern).unwrap();
            assert!(problem.starts_with(says), "{problem}");
        }
    }
}
