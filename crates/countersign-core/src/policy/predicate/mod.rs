//! Predicates: the `when` of a rule, in CEL.
//!
//! Promise: a predicate that compiles speaks only of what exists (`args`, `tool`, `principal`, `session`), is as far as
//! can be told true or false, and says so in bounded time for every call. Where it cannot say, evaluation is an error
//! with a text that names no value of the call, and never a panic.
//!
//! `a || b` and `a && b` are CEL's: an error on one side does not count where the other side decides alone.

mod ast;
mod check;
mod facts;
mod failure;
mod functions;
mod meter;
mod regex;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock};

use cel::common::types::CelBool;
use cel::parser::Expression;
use cel::{Context, Env, ParseErrors, Value};

pub(super) use facts::Facts;

/// The longest `when`, in bytes.
pub const MAX_WHEN_BYTES: usize = 4 * 1024;

/// A compiled `when`.
pub struct Predicate {
    source: String,
    expression: Expression,
}

impl Predicate {
    /// The text, as it was written, without blank space around it.
    pub fn source(&self) -> &str {
        &self.source
    }

    pub(super) fn compile(source: &str) -> Result<Self, Vec<WhenProblem>> {
        if source.len() > MAX_WHEN_BYTES {
            let text = format!("when has {} bytes; the limit is {MAX_WHEN_BYTES}", source.len());
            return Err(vec![WhenProblem::new(text)]);
        }
        if source.trim().is_empty() {
            return Err(vec![WhenProblem::new("when is empty; leave it out to match every call".to_owned())]);
        }
        let parsed = guarded(|| ENV.parser().parse(source).map_err(|errors| vec![syntax_problem(&errors)]));
        let mut expression =
            parsed.unwrap_or_else(|| Err(vec![WhenProblem::new("when cannot be parsed".to_owned())]))?;
        let problems = check::check(&expression, &ENV);
        if !problems.is_empty() {
            return Err(problems.into_iter().map(WhenProblem::new).collect());
        }
        meter::install(&mut expression);
        Ok(Self { source: source.trim().to_owned(), expression })
    }

    /// The predicate's value for this call, or why there is none.
    pub(super) fn evaluate(&self, facts: &Facts<'_>) -> Result<bool, String> {
        let answer = guarded(|| {
            let mut context = Context::with_env(Arc::clone(&ENV));
            context.set_variable_resolver(facts);
            // `execute` would copy the result out first; what is not a boolean may be as large as the arguments.
            match Value::resolve_val(&self.expression, &context) {
                Ok(value) => value.downcast_ref::<CelBool>().map(|b| *b.inner()).ok_or_else(|| {
                    format!("when is {}, not true or false", failure::with_article(value.get_type().name()))
                }),
                Err(error) => Err(failure::describe(&error, &self.source)),
            }
        });
        // First of all: an answer computed from what was cut short is no answer.
        match (facts.cut_short(), answer) {
            (Some(problem), _) => Err(problem),
            (None, Some(answer)) => answer,
            (None, None) => Err("the evaluator broke down".to_owned()),
        }
    }
}

impl fmt::Debug for Predicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.source)
    }
}

/// A problem of a `when`, and its position.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct WhenProblem {
    /// Lines after the first.
    pub(super) line_offset: usize,
    pub(super) text: String,
}

impl WhenProblem {
    fn new(text: String) -> Self {
        Self { line_offset: 0, text }
    }
}

/// The standard library, built once: it is the same for every predicate.
static ENV: LazyLock<Arc<Env>> = LazyLock::new(|| Arc::new(Env::stdlib()));

/// Runs foreign code; `None` means that it panicked.
fn guarded<T>(run: impl FnOnce() -> T) -> Option<T> {
    // The closure's values are dropped or, as `Facts`, only read again.
    catch_unwind(AssertUnwindSafe(run)).ok()
}

/// The first syntax error. Those after it are mostly the parser stumbling on.
fn syntax_problem(errors: &ParseErrors) -> WhenProblem {
    let Some(first) = errors.errors.first() else {
        return WhenProblem::new("when cannot be parsed".to_owned());
    };
    if errors.errors.iter().any(|e| e.msg.contains("Recursion limit")) {
        return WhenProblem::new("when is nested too deeply; split it over several rules".to_owned());
    }
    let line = usize::try_from(first.pos.0).unwrap_or(1).max(1);
    let column = usize::try_from(first.pos.1).unwrap_or(1).max(1);
    let message = first.msg.strip_prefix("Syntax error: ").unwrap_or(&first.msg);
    // The list of all expected tokens is left out, because it is long and does not help.
    let message = message.split(" expecting ").next().unwrap_or(message).replace("'<EOF>'", "the end");
    let place =
        if line == 1 { format!("character {column}") } else { format!("line {line}, character {column}") };
    WhenProblem { line_offset: line - 1, text: format!("when is no CEL at {place}: {message}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_the_interpreter_stops_at_its_door() {
        assert_eq!(guarded(|| 1), Some(1));
        assert_eq!(guarded(|| -> u8 { panic!("as a bug in the interpreter would") }), None);
    }
}
