//! The functions a predicate may call, and what they make of what.
//!
//! The interpreter keeps its own list to itself, so this one is a copy of it, kept honest by a test. What the
//! interpreter learns later is refused until it is listed here.

use super::check::Kind;

/// One function.
pub(super) struct Function {
    pub(super) name: &'static str,
    /// How it is called, as an example.
    pub(super) usage: &'static str,
    /// The number of arguments in `f(x)`, where it can be called so.
    pub(super) global: Option<usize>,
    /// The number of arguments in `x.f()`, where it can be called so.
    pub(super) member: Option<usize>,
    /// The kind of all its arguments, if it takes only one kind.
    pub(super) takes: Kind,
    pub(super) gives: Kind,
}

/// Finds a function by name.
pub(super) fn find(name: &str) -> Option<&'static Function> {
    FUNCTIONS.iter().find(|function| function.name == name)
}

/// Everything that looks like a function to the one who writes it.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    FUNCTIONS.iter().map(|function| function.name).chain(MACROS.iter().map(|(name, _)| *name))
}

/// How a macro is written, if this is one. The parser has replaced every well-formed use, so a call of that name that
/// is left is malformed.
pub(super) fn macro_usage(name: &str) -> Option<&'static str> {
    MACROS.iter().find(|(macro_name, _)| *macro_name == name).map(|(_, usage)| *usage)
}

/// `optional.of(x)`: a name in two parts. Gives the number of arguments.
pub(super) fn optional_maker(name: &str) -> Option<usize> {
    match name {
        "none" => Some(0),
        "of" | "ofNonZeroValue" => Some(1),
        _ => None,
    }
}

const MACROS: &[(&str, &str)] = &[
    ("has", "has(args.name)"),
    ("all", "args.list.all(x, x > 0)"),
    ("exists", "args.list.exists(x, x > 0)"),
    ("exists_one", "args.list.exists_one(x, x > 0)"),
    ("existsOne", "args.list.existsOne(x, x > 0)"),
    ("map", "args.list.map(x, x.name)"),
    ("filter", "args.list.filter(x, x > 0)"),
    ("optMap", "args.?name.optMap(x, x + 1)"),
    ("optFlatMap", "args.?name.optFlatMap(x, x.?name)"),
];

const FUNCTIONS: &[Function] = &[
    function("size", "size(args.list)", Some(1), Some(0), Kind::Dyn, Kind::Int),
    function("contains", "args.text.contains(\"x\")", None, Some(1), Kind::String, Kind::Bool),
    function("startsWith", "args.text.startsWith(\"x\")", None, Some(1), Kind::String, Kind::Bool),
    function("endsWith", "args.text.endsWith(\"x\")", None, Some(1), Kind::String, Kind::Bool),
    function("matches", "args.text.matches(\"^x+$\")", Some(2), Some(1), Kind::String, Kind::Bool),
    function("int", "int(args.text)", Some(1), None, Kind::Dyn, Kind::Int),
    function("uint", "uint(args.text)", Some(1), None, Kind::Dyn, Kind::Uint),
    function("double", "double(args.amount)", Some(1), None, Kind::Dyn, Kind::Double),
    function("string", "string(args.amount)", Some(1), None, Kind::Dyn, Kind::String),
    function("bytes", "bytes(args.text)", Some(1), None, Kind::Dyn, Kind::Bytes),
    function("bool", "bool(args.text)", Some(1), None, Kind::Dyn, Kind::Bool),
    function("dyn", "dyn(args.x)", Some(1), None, Kind::Dyn, Kind::Dyn),
    function("type", "type(args.x) == string", Some(1), None, Kind::Dyn, Kind::Type),
    function("value", "args.?name.value()", None, Some(0), Kind::Optional, Kind::Dyn),
    function("hasValue", "args.?name.hasValue()", None, Some(0), Kind::Optional, Kind::Bool),
    function("orValue", "args.?name.orValue(\"\")", None, Some(1), Kind::Dyn, Kind::Dyn),
    function("or", "args.?name.or(args.?title)", None, Some(1), Kind::Optional, Kind::Optional),
    // The expansion of `all` and `exists`; it cannot be written.
    function("@not_strictly_false", "", Some(1), None, Kind::Dyn, Kind::Bool),
];

const fn function(
    name: &'static str,
    usage: &'static str,
    global: Option<usize>,
    member: Option<usize>,
    takes: Kind,
    gives: Kind,
) -> Function {
    Function { name, usage, global, member, takes, gives }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cel::{Context, Env, ExecutionError};
    use std::sync::Arc;

    /// Runs a text in the interpreter, unchecked.
    fn is_undeclared(source: &str) -> bool {
        let env = Arc::new(Env::stdlib());
        let program = env.compile(source).unwrap();
        let result = program.execute(&Context::with_env(env));
        matches!(result, Err(ExecutionError::UndeclaredReference(_)))
    }

    #[test]
    fn every_function_listed_is_one_that_the_interpreter_has() {
        for function in FUNCTIONS.iter().filter(|function| !function.name.starts_with('@')) {
            if let Some(count) = function.global {
                let source = format!("{}({})", function.name, vec!["'1'"; count].join(", "));
                assert!(!is_undeclared(&source), "{source}");
            }
            if let Some(count) = function.member {
                let source = format!("'1'.{}({})", function.name, vec!["'1'"; count].join(", "));
                assert!(!is_undeclared(&source), "{source}");
            }
        }
        assert!(is_undeclared("nobody(1)") && is_undeclared("'1'.nobody()"), "the probe tells them apart");
    }
}
