//! Why a predicate could not say, in words for the person who wrote it.
//!
//! Promise: types, and names that the predicate itself has; never values. An argument may be a secret, and this text
//! goes to logs and agents.

use cel::{ExecutionError, OverloadError, Value};

pub(super) fn describe(error: &ExecutionError, source: &str) -> String {
    match error {
        ExecutionError::NoSuchKey(key) => missing_key_text(key, source),
        ExecutionError::NoSuchOverload(overload) => overload_text(overload),
        ExecutionError::UnsupportedBinaryOperator(operator, left, right) => {
            let (left, right) = (type_name(left), type_name(right));
            operation_text(arithmetic_sign(operator), &[left.as_str(), right.as_str()])
        }
        ExecutionError::UnexpectedType { got, want } if want == "iterable" => {
            format!("{} cannot be gone through", with_article(got))
        }
        ExecutionError::UnexpectedType { got, want } => {
            format!("{} stands where {} is needed", with_article(got), with_article(want))
        }
        ExecutionError::FunctionError { function, .. } => {
            format!("{function}() cannot take the value it was given")
        }
        ExecutionError::IndexOutOfBounds(_) => {
            "a list is shorter than that; where it may be, ask first, as in size(args.list) > 0".to_owned()
        }
        ExecutionError::DivisionByZero(_) | ExecutionError::RemainderByZero(_) => {
            "a division by zero".to_owned()
        }
        ExecutionError::Overflow(..) => "a number too large to compute with".to_owned(),
        // The other texts of the interpreter show values.
        _ => "the expression does not fit these arguments".to_owned(),
    }
}

/// `a string`, `an int`, `null`.
pub(super) fn with_article(type_name: &str) -> String {
    match type_name {
        "null_type" | "null" => "null".to_owned(),
        "float" => "a double".to_owned(),
        "bool" => "a boolean".to_owned(),
        "optional_type" | "opaque" => "an optional value".to_owned(),
        "int" => "an int".to_owned(),
        name => format!("a {name}"),
    }
}

fn missing_key_text(key: &str, source: &str) -> String {
    // `args.a[args.b]` looks for a key that the call brought along: it is not repeated.
    if key.is_empty() || !source.contains(key) {
        return "there is no such key; where it may be missing, ask first, as in \"name\" in args && …"
            .to_owned();
    }
    let is_name = key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let question = if is_name { format!("has(args.{key})") } else { format!("{key:?} in args") };
    format!("there is no {key:?}; where it may be missing, ask first, as in {question} && …")
}

fn overload_text(overload: &OverloadError) -> String {
    let types: Vec<&str> = overload.argument_types().iter().map(String::as_str).collect();
    match overload.function() {
        "_._" | "_?._" => match types.first() {
            Some(of) => format!("{} has no fields", with_article(of)),
            None => "a value without fields is asked for one".to_owned(),
        },
        "_[_]" | "_[?_]" => operation_text("[]", &types),
        "@in" => operation_text("in", &types),
        function if function.contains('_') => operation_text(function.trim_matches('_'), &types),
        function => operation_text(&format!("{function}()"), &types),
    }
}

fn operation_text(operation: &str, types: &[&str]) -> String {
    let named: Vec<String> = types.iter().map(|name| with_article(name)).collect();
    let hint = if types.iter().any(|name| matches!(*name, "null_type" | "null")) {
        "; where a value may be null, ask first, as in args.name != null && …"
    } else if matches!(operation, "+" | "-" | "*" | "/" | "%") && is_mixed_number(types) {
        "; numbers must be of one kind to be computed with, as in double(args.amount) * 1.5"
    } else {
        ""
    };
    format!("{operation} does not go with {}{hint}", named.join(" and "))
}

fn is_mixed_number(types: &[&str]) -> bool {
    types.iter().all(|name| matches!(*name, "int" | "uint" | "double" | "float"))
}

fn arithmetic_sign(operator: &str) -> &str {
    match operator {
        "add" => "+",
        "sub" => "-",
        "mul" => "*",
        "div" => "/",
        "rem" => "%",
        other => other,
    }
}

fn type_name(value: &Value) -> String {
    value.type_of().to_string()
}
