//! The globals a script has and has not, and how it ends.

mod bounds;
mod hostile;
mod replay;
mod speed;
mod world;

use super::*;
use countersign_core::canonical::Verbatim;
use countersign_core::event::Failure;
use countersign_core::time::Timestamp;
use countersign_kernel::LogLine;
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

fn value_of(turn: &Turn) -> Json {
    match &turn.end {
        Some(ScriptEnd::Returned(value)) => value.to_value(),
        other => panic!("ended with {other:?}"),
    }
}

fn failure_of(turn: &Turn) -> Failure {
    match &turn.end {
        Some(ScriptEnd::Threw(failure)) => failure.clone(),
        other => panic!("ended with {other:?}"),
    }
}

fn returned(source: &str) -> Json {
    value_of(&start(source).1)
}

fn threw(source: &str) -> Failure {
    failure_of(&start(source).1)
}

fn done(request: u32, at: u64, value: &Json) -> Completion {
    let outcome = CallOutcome::Succeeded(Verbatim::of(value).unwrap());
    Completion { request, at: Timestamp::from_millis(at), outcome }
}

fn failed(request: u32, at: u64, code: &str, message: &str) -> Completion {
    let outcome = CallOutcome::Failed(Failure::new(code, message));
    Completion { request, at: Timestamp::from_millis(at), outcome }
}

fn paths(requests: &[Request]) -> Vec<String> {
    requests
        .iter()
        .map(|request| match &request.wanted {
            Wanted::Call { path, args } => format!("{} {path} {}", request.no, args.as_str()),
            Wanted::Sleep { ms } => format!("{} sleep {ms}", request.no),
        })
        .collect()
}
