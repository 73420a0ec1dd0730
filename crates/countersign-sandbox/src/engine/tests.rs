//! What a script finds in its world, and what it does not.

use super::*;
use countersign_core::canonical::Verbatim;
use countersign_core::event::Failure;
use countersign_core::time::Timestamp;
use countersign_kernel::ports::{Request, Wanted};
use serde_json::{Value as Json, json};

use crate::strip::strip;

const NOW: u64 = 1_700_000_000_123;

fn program(source: &str) -> Program {
    let stripped = strip(source, &Limits::default()).unwrap();
    Program { stripped, seed: [7; 32], now: Timestamp::from_millis(NOW) }
}

fn start_within(source: &str, limits: &Limits) -> (Engine, Result<Turn, ScriptFault>) {
    let mut engine = Engine::new(limits).unwrap();
    let turn = engine.start(&program(source));
    (engine, turn)
}

fn start(source: &str) -> (Engine, Turn) {
    let (engine, turn) = start_within(source, &Limits::default());
    (engine, turn.unwrap())
}

fn returned(source: &str) -> Json {
    match start(source).1.end {
        Some(ScriptEnd::Returned(value)) => value.to_value(),
        other => panic!("{source} ended with {other:?}"),
    }
}

fn threw(source: &str) -> Failure {
    match start(source).1.end {
        Some(ScriptEnd::Threw(failure)) => failure,
        other => panic!("{source} ended with {other:?}"),
    }
}

#[test]
fn a_script_returns_a_value() {
    assert_eq!(returned("return 1 + 1"), json!(2));
    assert_eq!(returned(""), json!(null));
    assert_eq!(returned("return { a: [1, 'x', null, undefined] }"), json!({ "a": [1, "x", null, null] }));
    assert_eq!(returned("enum E { A, B = 5, C }\nreturn E.C as number"), json!(6));
}

#[test]
fn an_error_says_where_in_the_source_it_was_made() {
    let failure = threw("const a: { x?: { y: number } } = {};\n\n  return a.x!.y;");
    assert_eq!(failure.code, "script_error");
    assert_eq!(failure.message, "TypeError: cannot read property 'y' of undefined (line 3, column 10)");
}
