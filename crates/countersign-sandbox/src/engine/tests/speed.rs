//! How fast it is. The bounds are many times what a quiet machine needs in release, so that only a change of shape
//! breaks them; `cargo test --release -p countersign-sandbox speed -- --nocapture` says the figures.

use super::*;
use crate::engine::meter::thread_time;
use std::time::Duration;

/// Computing time, not the wall's: other tests run beside this one.
fn median(rounds: usize, mut work: impl FnMut()) -> Duration {
    let mut times: Vec<_> = (0..rounds)
        .map(|_| {
            let start = thread_time();
            work();
            thread_time().saturating_sub(start)
        })
        .collect();
    times.sort_unstable();
    times[rounds / 2]
}

fn replay(calls: u32) -> Duration {
    replay_after("", calls)
}

fn replay_after(before: &str, calls: u32) -> Duration {
    let source = format!(
        "{before}let t = 0; for (let i = 0; i < {calls}; i++) t += (await tools.a.b.c({{ i }})).i; return t"
    );
    let program = program(&source);
    let completions: Vec<_> = (0..calls).map(|no| done(no, NOW, &json!({ "i": no }))).collect();
    median(11, || {
        let mut engine = Engine::new(&Limits::default()).unwrap();
        engine.start(&program).unwrap();
        assert!(engine.deliver(&completions).unwrap().end.is_some());
    })
}

#[test]
fn a_replay_is_linear_in_its_completions() {
    let (small, large) = (replay(250), replay(2000));
    println!("replay of 250: {small:?}; of 1,000: {:?}; of 2,000: {large:?}", replay(1000));
    assert!(large < small * 8 * 4, "{small:?} for 250, {large:?} for 2,000");
}

/// The way back from a place to its line is decoded once, not for each call.
#[test]
fn a_call_costs_no_more_in_a_long_script() {
    let long: String = (0..4_000).map(|n| format!("const filler{n}: number = {n}; // {n}\n")).collect();
    let each = |before: &str| {
        let (few, many) = (replay_after(before, 250), replay_after(before, 2_000));
        many.saturating_sub(few) / 1_750
    };
    let (short, long) = (each(""), each(&long));
    println!("a call in a script of one line: {short:?}; of 4,000 lines: {long:?}");
    assert!(long < short * 5, "{short:?} and {long:?}");
}

#[test]
fn a_fresh_engine_is_cheap_enough_for_one_script() {
    let one = program("return 1 + 1");
    let fresh = median(101, || {
        let mut engine = Engine::new(&Limits::default()).unwrap();
        assert!(engine.start(&one).unwrap().end.is_some());
    });
    let mut made: Vec<_> = (0..101).map(|_| Engine::new(&Limits::default()).unwrap()).collect();
    let warm = median(101, || assert!(made.pop().unwrap().start(&one).unwrap().end.is_some()));
    println!("fresh engine and 1 + 1: {fresh:?}; in a warm one: {warm:?}");
    assert!(fresh < Duration::from_millis(50), "{fresh:?}");
}

#[test]
fn stripping_is_linear_and_fast() {
    let source = |functions: usize| -> String {
        (0..functions)
            .map(|n| {
                format!(
                    "interface Issue{n} {{ id: number; title: string; labels?: string[] }}\n\
                     async function page{n}(at: number): Promise<Issue{n}[]> {{\n  \
                     const r = (await tools.github.issues.list({{ page: at }})) as {{ items: Issue{n}[] }};\n  \
                     return r.items.filter((i: Issue{n}) => i.labels?.includes('bug') ?? false);\n}}\n"
                )
            })
            .collect()
    };
    let (small, large) = (source(18), source(180));
    let time = |source: &str| median(51, || drop(strip(source, &Limits::default()).unwrap()));
    let (short, long) = (time(&small), time(&large));
    println!("stripping {} bytes: {short:?}; {} bytes: {long:?}", small.len(), large.len());
    assert!(long < short * 10 * 4, "{short:?} and {long:?}");
}
