//! The whole table of hostile scripts, in process. Scripts that only a killing watchdog ends are left to the child's tests.

use super::*;
use std::time::Duration;

#[path = "../../../tests/corpus/mod.rs"]
mod corpus;

use corpus::{Expect, Hostile};

fn limits() -> Limits {
    Limits { memory_bytes: 16 * 1024 * 1024, cpu: Duration::from_millis(300), ..Limits::default() }
}

/// Answers calls with their arguments until the script ends.
fn run(script: &str) -> Result<ScriptEnd, ScriptFault> {
    let mut engine = Engine::new(&limits())?;
    let stripped = strip(script, &limits())?;
    let mut turn = engine.start(&Program { stripped, seed: [1; 32], now: Timestamp::from_millis(NOW) })?;
    loop {
        if let Some(end) = turn.end {
            return Ok(end);
        }
        let answers: Vec<_> = turn.requests.iter().map(answer).collect();
        turn = engine.deliver(&answers)?;
    }
}

fn answer(request: &Request) -> Completion {
    match &request.wanted {
        Wanted::Call { path, .. } if path == "no.way" => failed(request.no, NOW, "denied", "no"),
        Wanted::Call { args, .. } => done(request.no, NOW, &args.to_value()),
        Wanted::Sleep { .. } => done(request.no, NOW, &json!(null)),
    }
}

fn verdict(hostile: &Hostile) -> Result<(), String> {
    let ended = run(hostile.script);
    let as_expected = match (&hostile.expect, &ended) {
        (Expect::EndsSomehow, _) => true,
        (Expect::Fails(code), Ok(ScriptEnd::Threw(failure))) => failure.code == *code,
        (Expect::Fails(code), Err(fault)) => fault.code() == *code,
        (Expect::Returns(json), Ok(ScriptEnd::Returned(value))) => {
            value.to_value() == serde_json::from_str::<Json>(json).unwrap()
        }
        _ => false,
    };
    if as_expected {
        Ok(())
    } else {
        Err(format!("{}: expected {:?}, got {ended:?}", hostile.name, hostile.expect))
    }
}

#[test]
fn every_hostile_script_ends_as_it_must() {
    let wrong: Vec<_> = corpus::all().filter(|h| !h.needs_kill).filter_map(|h| verdict(h).err()).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_table_is_large_and_names_each_script_once() {
    let mut names: Vec<_> = corpus::all().map(|h| h.name).collect();
    assert!(names.len() >= 60, "{}", names.len());
    names.sort_unstable();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count);
}
